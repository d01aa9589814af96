"""When to match in full, track, correct and forget: the schedule of a camera stream.

The node, `niom replay`, the benchmarks and Python programs all use `Stream`. It does not depend on
ROS, threads or the wall clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
import math
from threading import Lock
import time
from typing import Any

import numpy as np

from niom_ros.core.faults import explained
from niom_ros.core.field_types import check_type, fits
from niom_ros.core.settings import Limits, SettingsError, StreamOptions
from niom_ros.images.decoding import check_rgb
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match, Weights
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import check_prepared, PreparedReference
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer, answer_about, find_best, no_answer, NO_CAMERA
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.keypoint_budget import KeypointBudget
from niom_ros.stream.recollection import Recollection
from niom_ros.stream.rotation import Rotation
from niom_ros.tracking.alike_track import AlikeMatch
from niom_ros.tracking.track import FullMatch, Tracked
from niom_ros.tracking.tracker import Tracker

MAX_TAGS = 8  # frames that were matched in full; a track starts from one of the last
MAX_WAITING = 1000  # frames to be matched in full, if nobody matches any
OTHER_TARGET = 'the target or the matching options changed'
TRACKING_FAILED = 'tracking failed'
TIME_WENT_BACK = 'the stamps went back in time: tracking starts over'
NOT_WEIGHTED = Weights(why_none='tracked')


@dataclass(frozen=True)
class Target:
    """What is looked for, and how; a track of anything else is given up."""

    revisions: tuple[int, ...]  # of the references
    limits: Limits
    rotation: int  # degrees; after a rotation, the track would be at another place


@dataclass(frozen=True)
class Frame:
    """A camera image and what is asked about it."""

    image: np.ndarray  # RGB, as received
    stamp: float  # seconds; later than that of the frame before
    references: tuple[KnownReference, ...]  # at least one
    options: StreamOptions = field(default_factory=StreamOptions)
    camera: CameraModel | None = None
    no_camera: str = NO_CAMERA  # why there is no camera, if there is none
    tag: Any = None  # identifies the frame in Answer.matched_tag of later ones; None: its stamp
    begun: float | None = None  # when work on it began, by the stream's clock; None: in `follow`

    @cached_property
    def rotation(self) -> Rotation:
        """Return the rotation that turns the image upright."""
        return Rotation(self.options.rotation, self.image.shape[1], self.image.shape[0])

    @cached_property
    def upright(self) -> np.ndarray:
        """Return the image upright."""
        return self.rotation.upright(self.image)


@dataclass(frozen=True)
class RefusedFrame:
    """A frame that cannot be used, with its answer."""

    answer: Answer
    stamp: float
    references: tuple[KnownReference, ...] = ()
    options: StreamOptions = field(default_factory=StreamOptions)


@dataclass(frozen=True)
class Waiting:
    """What is known about a frame that waits to be matched in full."""

    begun: float  # when work on it began, in seconds of the clock
    tracked: Tracked | None  # where its reference was tracked to
    start: int  # how often the stamps had gone back before it


@dataclass(frozen=True)
class MatchDeadline:
    """How long a full match may take, on a slow machine, before it counts as stuck."""

    seconds: float = 120.0  # for each reference
    max_seconds: float = 600.0  # for all of them together

    def after(self, now: float, references: int) -> float:
        """Return the deadline of a full match that starts now."""
        return now + min(self.seconds * references, self.max_seconds)


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
        self.wants_match = False  # whether the last frame given to `follow` should be matched
        self._references = tuple(
            KnownReference(prepared, revision)
            for revision, prepared in enumerate(references, start=1)
        )
        self._options = options
        self._camera = camera
        self._tracker = tracker or Tracker()
        self._recollection = recollection or Recollection()
        self._budget = budget or KeypointBudget(matcher.max_keypoints)
        self._clock = clock
        self._deadline = deadline or MatchDeadline()
        self._report = report
        self._name = name
        self._survives = survives
        self._tracking = False  # whether the last frame was answered by tracking
        self._target: Target | None = None  # what may be tracked; None: nothing
        self._last_stamp = -math.inf  # of the last frame
        self._last_match = -math.inf  # stamp of the last frame that should be matched
        self._match_due = math.inf  # deadline of the full match under way
        self._lock = Lock()  # guards what follows, which both threads use
        self._tags: dict[float, Any] = {}  # by stamp, of frames in which a track may have started
        self._waiting: dict[float, Waiting] = {}  # by stamp, frames to be matched in full
        self._starts = 0  # how often the stamps went back

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
        return Frame(image, float(stamp), self._references, self._options, self._camera)

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
        target = target_of(frame) if frame.options.tracking else None
        if target != self._target:
            # In this order, so that a track that starts just now is forgotten here or by `match`.
            self._target = target
            self.forget(OTHER_TARGET)
        self.wants_match = False
        if stuck := self._why_stuck():
            # Nothing confirms the track any more, and no full match would answer this frame.
            self.forget(stuck)
            self._report(stuck)
            return no_answer(Status.FAULT, stuck)
        try:
            tracked, tag = self._track(frame) if target is not None else (None, None)
            found = tracked is not None and tracked.located
            answer = None
            if found or self._tracking:
                answer = replace(self._tracked_answer(frame, tracked, begun), matched_tag=tag)
        except Exception as error:
            self.forget(TRACKING_FAILED)
            self._tracking = False
            return self._fault(error)
        self._tracking = found
        if not found or frame.stamp - self._last_match >= frame.options.match_interval:
            self._last_match = frame.stamp
            self.wants_match = True
            with self._lock:
                remember(
                    self._waiting, frame.stamp, Waiting(begun, tracked, self._starts), MAX_WAITING
                )
        return answer

    def forget(self, why: str) -> None:
        """Give up the track, for example because something else is looked for."""
        self._tracker.forget(why)
        with self._lock:
            self._tags.clear()

    def _start_over(self) -> None:
        """Forget everything that depends on earlier stamps."""
        self.forget(TIME_WENT_BACK)
        self._last_match = -math.inf
        with self._lock:
            self._starts += 1  # a match under way belongs to the earlier frames
            self._recollection.forget()
            self._waiting.clear()

    def _track(self, frame: Frame | RefusedFrame) -> tuple[Tracked | None, Any]:
        """Return where the reference was tracked to, and the tag of the full match behind it."""
        if isinstance(frame, RefusedFrame):
            return None, None
        tracked = self._tracker.follow(frame.upright, frame.stamp)
        current = any(known.revision == tracked.revision for known in frame.references)
        with self._lock:
            tag = self._tags.get(tracked.matched_stamp)
        if not current or (tracked.located and tag is None):
            return None, None  # the track is being forgotten just now
        return tracked, tag

    def _tracked_answer(
        self, frame: Frame | RefusedFrame, tracked: Tracked | None, begun: float
    ) -> Answer:
        """Return the answer to a frame by tracking."""
        if isinstance(frame, RefusedFrame):
            return frame.answer
        if tracked is None:
            return no_answer(Status.FEW_MATCHES, 'the track was lost: searching again')
        known = next(known for known in frame.references if known.revision == tracked.revision)
        match = Match(
            tracked.verdict,
            tracked.correspondences,
            stage_seconds={'track': self._clock() - begun},
            alike=tracked.alike,
            reference_weights=NOT_WEIGHTED,
            image_weights=NOT_WEIGHTED,
        )
        return answer_about(
            known,
            match,
            frame.upright,
            rotation=frame.rotation,
            options=frame.options,
            camera=frame.camera,
            no_camera=frame.no_camera,
        )

    def _why_stuck(self) -> str:
        """Say that the full match under way is stuck, '' if it is within its deadline."""
        late = self._clock() - self._match_due
        if late <= 0:
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
        with self._lock:
            waiting = self._waiting.pop(frame.stamp, None)
            waiting = waiting or Waiting(self._clock(), None, self._starts)
            for stamp in [stamp for stamp in self._waiting if stamp < frame.stamp]:
                del self._waiting[stamp]  # only the newest frames are matched
        answer = self._match(frame, waiting)
        on_answer(answer)
        if waiting.start != self._starts:  # the stamps went back meanwhile
            return answer
        try:
            self._correct(frame, answer)
        except Exception as error:
            self.forget(TRACKING_FAILED)
            self._report(f'tracking could not start: {explained(error)}')
        return answer

    def _match(self, frame: Frame, waiting: Waiting) -> Answer:
        options = frame.options
        with self._lock:
            prior = self._recollection.prior(
                frame.references,
                waiting.tracked,
                stamp=frame.stamp,
                shape=frame.upright.shape,
                detection_interval=options.detection_interval,
            )
        self._match_due = self._deadline.after(self._clock(), len(frame.references))
        try:
            answer = find_best(
                self.matcher,
                frame.references,
                frame.image,
                options,
                camera=frame.camera,
                no_camera=frame.no_camera,
                prior=prior,
                max_keypoints=self._budget.keypoints(options.max_latency),
            )
        except self._survives as error:
            return self._fault(error)
        finally:
            self._match_due = math.inf
        match = answer.upright
        if match.by_keypoints:
            taken = self._clock() - waiting.begun - match.fixed_seconds
            self._budget.took(max(0.0, taken), options.max_latency)
        with self._lock:
            if waiting.start == self._starts:
                self._recollection.note(answer, frame.stamp)
        return answer

    def _correct(self, frame: Frame, answer: Answer) -> None:
        """Tell the tracker where a full match found the reference, or that it did not."""
        target = target_of(frame)
        if target != self._target:
            return
        known = answer.reference
        if not answer.located or known is None:
            self._tracker.not_found(frame.stamp)
            return
        with self._lock:
            tag = frame.stamp if frame.tag is None else frame.tag
            remember(self._tags, frame.stamp, tag, MAX_TAGS)
        self._tracker.limits = frame.options.matching.limits
        self._tracker.matched(full_match(frame, answer.upright, known))
        if target != self._target:  # changed meanwhile
            self.forget(OTHER_TARGET)

    def _fault(self, error: BaseException) -> Answer:
        """Return the answer to a frame on which something failed."""
        reason = f'{self._name} failed on this frame: {explained(error)}'
        self._report(reason)
        return no_answer(Status.FAULT, reason)


def target_of(frame: Frame | RefusedFrame) -> Target:
    """Return what is looked for in a frame, and how."""
    revisions = tuple(known.revision for known in frame.references)
    return Target(revisions, frame.options.matching.limits, frame.options.rotation)


def full_match(frame: Frame, match: Match, known: KnownReference) -> FullMatch | AlikeMatch:
    """Return what a full match found in a frame, to be tracked."""
    if match.alike is not None and match.status is Status.ALIKE:
        return AlikeMatch(
            stamp=frame.stamp,
            image=frame.upright,
            verdict=match.verdict,
            correspondences=match.correspondences,
            alike=match.alike,
            revision=known.revision,
        )
    return FullMatch(
        stamp=frame.stamp,
        image=frame.upright,
        verdict=match.verdict,
        correspondences=match.correspondences,
        reference_box=known.prepared.box,
        counting_area=known.prepared.counting_area,
        revision=known.revision,
    )


def remember(kept: dict[float, Any], stamp: float, what: Any, most: int) -> None:
    """Keep something about a frame, and drop the oldest if there are more than `most`."""
    kept[stamp] = what
    for old in list(kept)[:-most]:
        del kept[old]
