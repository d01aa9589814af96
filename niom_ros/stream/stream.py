"""When to match in full, track, correct and forget: the schedule of a camera stream.

The node, `niom replay`, the benchmarks and Python programs all use `Stream`. It does not depend on
ROS, threads or the wall clock.
"""

from collections.abc import Callable, Sequence
import math
from threading import Lock
import time

import numpy as np

from niom_ros.core.faults import explained
from niom_ros.core.field_types import check_type, fits
from niom_ros.core.settings import SettingsError, StreamOptions
from niom_ros.images.decoding import check_rgb
from niom_ros.matching.geometry import Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import check_prepared, PreparedReference
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer, find_best, no_answer
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.frames_to_match import FramesToMatch, Waiting
from niom_ros.stream.keypoint_budget import KeypointBudget
from niom_ros.stream.match_deadline import MatchDeadline, MatchTimer
from niom_ros.stream.recollection import Recollection
from niom_ros.stream.target_tracker import TargetTracker, tracked_answer
from niom_ros.tracking.tracker import Tracker

TRACKING_FAILED = 'tracking failed'
TIME_WENT_BACK = 'the stamps went back in time: tracking starts over'


class Stream:
    """Answers the images of one camera: tracks what a full match found, and corrects the track.

    One thread passes every frame to `follow`, in order, which takes milliseconds. After each,
    `wants_match` says whether a second thread should pass it to `match`, which takes much longer;
    only the newest of these is needed. `answer` does both in one thread.
    """

    def __init__(
        self,
        matcher: Matcher,
        references: Sequence[PreparedReference] | PreparedReference = (),
        options: StreamOptions | None = None,
        *,
        camera: CameraModel | None = None,
        tracker: Tracker | None = None,
        recollection: Recollection | None = None,
        budget: KeypointBudget | None = None,
        clock: Callable[[], float] = time.monotonic,
        deadline: MatchDeadline | None = None,
        report: Callable[[str], None] = lambda fault: None,
        name: str = 'niom',
        survives: type[BaseException] = Exception,
    ) -> None:
        """Start without any track; references, options and camera are those of `answer`.

        The clock measures how long full matches take. `report` gets every fault, even one that
        costs no answer; `name` is the subject of these messages. Errors of the type `survives`
        cost one frame, others end the call.
        """
        references = list(references) if isinstance(references, Sequence) else [references]
        options = options or StreamOptions()
        check_type('options', options, StreamOptions, SettingsError)
        check_type('camera', camera, CameraModel | None, SettingsError)
        for prepared in references:
            check_prepared(prepared)
        self.matcher = matcher
        self._references = tuple(
            KnownReference(prepared, revision)
            for revision, prepared in enumerate(references, start=1)
        )
        self._options = options
        self._camera = camera
        self._tracker = TargetTracker(tracker or Tracker())
        self._to_match = FramesToMatch()
        self._timer = MatchTimer(deadline or MatchDeadline(), clock)
        self._recollection = recollection or Recollection()
        self._remembering = Lock()  # guards the recollection
        self._budget = budget or KeypointBudget(matcher.max_keypoints)
        self._clock = clock
        self._report = report
        self._name = name
        self._survives = survives
        self._tracking = False  # whether the last frame was answered by tracking
        self._last_stamp = -math.inf  # of the last frame

    @property
    def wants_match(self) -> bool:
        """Return whether the last frame given to `follow` should be matched in full."""
        return self._to_match.newest_is_due

    @property
    def too_slow(self) -> str:
        """Say why full matches do not keep max_latency, '' if they do."""
        return self._budget.too_slow

    def keypoints(self, max_latency: float) -> int | None:
        """Return how many keypoints max_latency allows for full matches; None: no limit."""
        return self._budget.keypoints(max_latency)

    def answer(self, image: np.ndarray, stamp: float | None = None) -> Answer:
        """Return what is known about the next RGB image, taken at `stamp` in seconds.

        Takes as long as a full match when one is due. Without a stamp, the image is taken to be
        as old as this call. Stamps must increase: one that does not starts a new stream.
        """
        return self.answer_frame(self.frame(image, stamp))

    def frame(self, image: np.ndarray, stamp: float | None = None) -> Frame:
        """Return an RGB image as a frame of this stream, with its references and options."""
        check_rgb(image, 'the image')
        if not self._references:
            raise SettingsError('the stream has no references: give some to Stream')
        if self._camera is not None:
            self._camera.check_image(image.shape[1], image.shape[0])
        stamp = self._clock() if stamp is None else stamp
        if not fits(stamp, float) or not math.isfinite(stamp):
            raise SettingsError(f'the stamp of an image is {stamp!r}: give seconds')
        return Frame(
            image, float(stamp), self._references, options=self._options, camera=self._camera
        )

    def answer_frame(self, frame: Frame | RefusedFrame) -> Answer:
        """Track and, when due, match in full, all in the calling thread."""
        followed = self.follow(frame)
        if followed is not None and (followed.located or not self.wants_match):
            if self.wants_match:
                self.match(frame)
            return followed
        return self.match(frame)

    # Every frame

    def follow(self, frame: Frame | RefusedFrame) -> Answer | None:
        """Return where the reference was tracked to; None: only a full match can tell.

        The first frame in which it is lost is answered as well, so that a loss shows at once.
        """
        check_type('the frame', frame, Frame | RefusedFrame, SettingsError)
        begun = self._clock()
        if isinstance(frame, Frame) and frame.begun is not None:
            begun = frame.begun
        if frame.stamp <= self._last_stamp:
            self._start_over()
        self._last_stamp = frame.stamp
        self._tracker.aim(frame)
        self._to_match.pass_over()
        if stuck := self._why_stuck():
            # Nothing confirms the track any more, and no full match would answer this frame.
            self.forget(stuck)
            self._report(stuck)
            return no_answer(Status.FAULT, stuck)
        try:
            sights = self._tracker.follow(frame)
            tracked = sights[0].tracked if sights else None
            found = tracked is not None and tracked.located
            answer = None
            if found or self._tracking:
                answer = tracked_answer(frame, sights, self._clock() - begun)
                if isinstance(frame, Frame):
                    answer = self._tracker.with_unseen(frame, answer)
        except Exception as error:
            self.forget(TRACKING_FAILED)
            self._tracking = False
            return self._fault(error)
        self._tracking = found
        self._to_match.consider(
            frame.stamp, tracked, begun=begun, interval=frame.options.match_interval
        )
        return answer

    def forget(self, why: str) -> None:
        """Give up the track, for example because something else is looked for."""
        self._tracker.forget(why)

    def _start_over(self) -> None:
        """Forget everything that depends on earlier stamps."""
        self._tracker.start_over(TIME_WENT_BACK)
        with self._remembering:
            self._to_match.start_over()
            self._recollection.forget()

    def _why_stuck(self) -> str:
        """Say that the full match under way is stuck, '' if it is within its deadline."""
        late = self._timer.seconds_late()
        if not late:
            return ''
        return (
            f'a full match should have ended {late:.0f} s ago: if it does not, restart '
            f'{self._name}; if the machine is just slow, lower max_keypoints or max_image_side'
        )

    # Full matches

    def match(
        self,
        frame: Frame | RefusedFrame,
        on_answer: Callable[[Answer], object] = lambda answer: None,
    ) -> Answer:
        """Match a frame in full and correct the track.

        `on_answer` gets the answer first, because the tracker takes a moment to catch up.
        """
        if isinstance(frame, RefusedFrame):
            on_answer(frame.answer)
            return frame.answer
        check_type('the frame', frame, Frame, SettingsError)
        waiting = self._to_match.take(frame.stamp, self._clock())
        answer = self._match(frame, waiting)
        on_answer(answer)
        if not self._to_match.is_current(waiting):  # the stamps went back meanwhile
            return answer
        try:
            self._tracker.correct(frame, answer)
        except Exception as error:
            self.forget(TRACKING_FAILED)
            self._report(f'tracking could not start: {explained(error)}')
        return answer

    def _match(self, frame: Frame, waiting: Waiting) -> Answer:
        options = frame.options
        with self._remembering:
            prior = self._recollection.prior(
                frame.references,
                waiting.tracked,
                stamp=frame.stamp,
                shape=frame.upright.shape,
                detection_interval=options.detection_interval,
            )
        try:
            with self._timer.timed(len(frame.references)):
                answer = find_best(
                    self.matcher,
                    frame.references,
                    frame.image,
                    options,
                    camera=frame.camera,
                    no_camera=frame.no_camera,
                    prior=prior,
                    max_keypoints=self._budget.keypoints(options.max_latency),
                    expected=self._tracker.expected(frame),
                )
        except self._survives as error:
            return self._fault(error)
        if self._to_match.is_current(waiting):
            answer = self._tracker.identify(frame, answer)
        match = answer.upright
        if match.by_keypoints:
            taken = self._clock() - waiting.begun - match.fixed_seconds
            self._budget.took(max(0.0, taken), options.max_latency)
        with self._remembering:
            if self._to_match.is_current(waiting):
                self._recollection.note(answer, frame.stamp)
        return answer

    def _fault(self, error: BaseException) -> Answer:
        """Return the answer to a frame on which something failed."""
        reason = f'{self._name} failed on this frame: {explained(error)}'
        self._report(reason)
        return no_answer(Status.FAULT, reason)
