"""The threads that work on camera frames: one follows what was found, one matches in full."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
import math
from threading import Lock, Thread
import time
from typing import Any, TypeAlias

from builtin_interfaces.msg import Time
import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image

from niom_ros.core.faults import explained, printable
from niom_ros.core.settings import Limits
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match, Weights
from niom_ros.messages.results import FrameInfo, is_found
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import Configured, Live
from niom_ros.nodes.newest_frame import NewestFrame
from niom_ros.nodes.outputs import PICTURES
from niom_ros.nodes.statistics import Statistics
from niom_ros.references.given import NamedReference
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.guide import Guidance, guidance_on, guide, no_guidance
from niom_ros.stream.keypoint_budget import KeypointBudget
from niom_ros.stream.recollection import Recollection
from niom_ros.stream.rotation import Rotation
from niom_ros.tracking.track import FullMatch, Tracked
from niom_ros.tracking.tracker import Tracker

LONGEST_END = 30.0  # seconds to wait for the frame that is being matched
# Seconds that a full match may take on a slow machine: for each reference, and for all of them.
LONGEST_MATCH, LONGEST_OF_ALL = 120.0, 600.0
FAULT_LOG_PAUSE = 1.0  # seconds: a fault of every frame must not fill the disk
STAMPS_KEPT = 8  # of full matches; a track rests on the last one or the one before
SOUGHT_ANEW = 'something else is looked for, or in another way'
NOT_WEIGHTED = Weights(why_none='tracked')

CameraImage: TypeAlias = Image | CompressedImage


@dataclass(frozen=True)
class Sought:
    """What is looked for, and how: a track of anything else is not followed."""

    revisions: tuple[int, ...]  # of the references
    limits: Limits
    rotation: int  # degrees; turned, another place of the image looks like the one before


@dataclass(frozen=True)
class Frame:
    """A camera frame, and all that is needed to say something about it."""

    message: CameraImage
    live: Live  # the parameters as they were when it came
    taken: float  # when its turn came: seconds of the steady clock, so that they only grow
    size: tuple[int, int] = (0, 0)
    image: np.ndarray | None = None  # RGB, as received; None: it cannot be used
    upright: np.ndarray | None = None  # the same, set upright
    answer: Guidance | None = None  # why it cannot be used
    camera: CameraModel | None = None
    no_camera: str = ''
    references: tuple[NamedReference, ...] = ()
    tracked: Tracked | None = None  # where the reference is, if it is being followed
    matched_stamp: Time | None = None  # of the full match that this rests on

    @property
    def rotation(self) -> Rotation:
        """Return how the image is set upright."""
        return Rotation(self.live.options.rotation, *self.size)

    @property
    def sought(self) -> Sought:
        """Return what is looked for in it, and how."""
        options = self.live.options
        revisions = tuple(named.revision for named in self.references)
        return Sought(revisions, options.matching.limits, options.rotation)


class FrameWorker:
    """Takes frames from a camera, finds the references in them and publishes what it found.

    In two threads of its own, so that the node's services answer meanwhile. The first takes every
    frame and follows in it what was found before. The second matches in full, which takes much
    longer: the newest frame if nothing is followed, else one from time to time, to correct the
    first. Results are published in the order of their frames: a full match is not, if a newer
    frame was already answered by following.
    """

    def __init__(
        self,
        node: Node,
        configured: Configured,
        camera: CameraInput,
        statistics: Statistics,
        live: Callable[[], Live],
    ) -> None:
        """Start to work; `live` gives the parameters as they are at that moment."""
        self._node = node
        self._configured = configured
        self._camera = camera
        self._frames = camera.frames
        self._to_match: NewestFrame[Frame] = NewestFrame()
        self._statistics = statistics
        self._live = live
        self._tracker = Tracker()
        self._following = False  # whether the last frame was answered by following
        self._sought: Sought | None = None  # that may be tracked
        self._last_match = -math.inf  # when the last frame was given away to be matched
        self._match_due = math.inf  # when the full match that is under way should have ended
        self._stamps: dict[float, Time] = {}  # of frames in which the tracker may have begun
        self._recollection = Recollection()
        self._budget = KeypointBudget(configured.pipeline.max_keypoints)
        self._answered = -math.inf  # when the newest frame that was answered was taken
        self._publishing = Lock()
        self.no_pose = ''  # why the last reference that was found has no pose
        self._threads = [
            Thread(target=self._work, args=(self._frames, self._begin), name='frames'),
            Thread(target=self._work, args=(self._to_match, self._match), name='matcher'),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @property
    def too_slow(self) -> str:
        """Say why full matches do not keep max_latency, '' if they do."""
        return self._budget.too_slow

    @property
    def keypoints(self) -> int | None:
        """Return to how many keypoints max_latency limits full matches; None: it does not."""
        return self._budget.keypoints(self._live().values['max_latency'])

    def stop(self) -> None:
        """End; a frame that is being matched is not published any more."""
        self._frames.close()
        self._to_match.close()
        for thread in self._threads:
            thread.join(LONGEST_END)

    def _work(self, frames: NewestFrame[Any], act: Callable[[Any], None]) -> None:
        while (frame := frames.take()) is not None:
            try:
                act(frame)
            # One bad frame must not end the guidance: also a plug-in that calls sys.exit, or
            # panics in Rust, ends nothing but its frame.
            except BaseException as error:
                if not self._node.context.ok():
                    return
                self._fail(f'a frame was lost: {explained(error)}')

    # The first thread: each frame

    def _begin(self, message: CameraImage) -> None:
        """Follow what was found, or have the frame matched in full."""
        frame = self._read(message, self._live())
        sought = frame.sought if frame.live.values['tracking'] else None
        if sought != self._sought:
            # In this order: a track that begins just now is forgotten here or by who began it.
            self._sought = sought
            self._forget(SOUGHT_ANEW)
        if stuck := self._why_stuck():
            # Nothing confirms the track any more, and nobody else would answer this frame.
            self._forget(stuck)
            self._fail(stuck)
            self._publish(frame, no_guidance(Status.FAULT, stuck))
            return
        if frame.upright is not None and sought is not None:
            frame = self._follow(frame, frame.upright)
        found = frame.tracked is not None and frame.tracked.found
        if found or self._following:
            # Also the first frame without it, so that a loss is told at once.
            self._publish(frame, self._try_followed(frame))
        self._following = found
        due = frame.taken - self._last_match >= frame.live.values['match_interval']
        if due or not found:
            self._last_match = frame.taken
            self._to_match.put(frame)

    def _read(self, message: CameraImage, live: Live) -> Frame:
        """Return a frame with its image, or with the reason why it cannot be used."""
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        references = self._configured.sought(live)
        frame = Frame(message, live, time.monotonic(), size, references=references)
        try:
            if too_old := self._why_stale(message, live):
                return replace(frame, answer=no_guidance(Status.STALE, too_old))
            image = message_to_rgb(message)
            size = image.shape[1], image.shape[0]
            camera, no_camera = self._camera.camera_for(
                live.values['rectified_image'], *size, message.header.frame_id
            )
            if camera is None and self._camera.has_calibration():
                self._statistics.failed(no_camera)
            frame = replace(frame, size=size, camera=camera, no_camera=no_camera)
            if not references:
                why = self._configured.library.why_nothing_is_sought()
                answer = no_guidance(Status.NO_REFERENCE, why, image, live.options.rotation)
                return replace(frame, answer=answer)
            return replace(frame, image=image, upright=frame.rotation.upright(image))
        except ImageError as error:
            reason = f'the camera image cannot be used: {error}'
            self._statistics.failed(reason)
            return replace(frame, answer=no_guidance(Status.BAD_IMAGE, reason))
        except Exception as error:
            return replace(frame, answer=self._fault(error))

    def _follow(self, frame: Frame, upright: np.ndarray) -> Frame:
        """Look where the reference is now that was found before."""
        try:
            tracked = self._tracker.follow(upright, frame.taken)
        except Exception as error:
            self._forget('tracking failed')
            return replace(frame, image=None, upright=None, answer=self._fault(error))
        known = any(named.revision == tracked.revision for named in frame.references)
        stamp = self._stamps.get(tracked.matched_stamp)
        if not known or (tracked.found and stamp is None):  # it is being forgotten just now
            return frame
        return replace(frame, tracked=tracked, matched_stamp=stamp)

    def _try_followed(self, frame: Frame) -> Guidance:
        try:
            return self._followed(frame)
        except Exception as error:
            self._forget('tracking failed')
            return self._fault(error)

    def _followed(self, frame: Frame) -> Guidance:
        """Return what following says about a frame."""
        tracked = frame.tracked
        if frame.upright is None or tracked is None:
            lost = no_guidance(Status.FEW_MATCHES, 'no longer tracked: it is looked for again')
            return frame.answer or lost
        named = next(named for named in frame.references if named.revision == tracked.revision)
        outcome = Match(
            tracked.verdict,
            tracked.correspondences,
            stage_seconds={'track': time.monotonic() - frame.taken},
            reference_weights=NOT_WEIGHTED,
            image_weights=NOT_WEIGHTED,
        )
        guidance = guidance_on(
            named,
            outcome,
            frame.upright,
            frame.rotation,
            frame.camera,
            frame.live.options,
            frame.no_camera,
        )
        return replace(guidance, matched_stamp=frame.matched_stamp)

    def _why_stuck(self) -> str:
        """Say that the full match under way does not end, '' if it may still."""
        late = time.monotonic() - self._match_due
        if late <= 0:
            return ''
        return (
            f'a full match should have ended {late:.0f} s ago: if it does not, restart the node; '
            'if the machine is just slow, lower max_keypoints or max_image_side'
        )

    def _forget(self, reason: str) -> None:
        self._tracker.forget(reason)
        self._stamps.clear()

    # The second thread: full matches

    def _match(self, frame: Frame) -> None:
        """Match a frame in full, correct the tracker, and publish what nobody knows yet."""
        guidance = frame.answer or self._guide(frame)
        if self._to_match.closed or not self._node.context.ok():
            return
        published = self._publish(frame, guidance)
        try:
            self._correct(frame, guidance)
        except Exception as error:
            self._forget('tracking failed')
            self._fail(f'it cannot be tracked: {explained(error)}')
        if not published:
            # Following has no heat to show.
            self._draw(frame, guidance, ('~/heatmap_image',))

    def _guide(self, frame: Frame) -> Guidance:
        assert frame.image is not None and frame.upright is not None
        max_latency, interval = (
            frame.live.values[name] for name in ('max_latency', 'detection_interval')
        )
        most_keypoints = self._budget.keypoints(max_latency)
        longest = min(LONGEST_MATCH * len(frame.references), LONGEST_OF_ALL)
        self._match_due = time.monotonic() + longest
        try:
            guidance = guide(
                self._configured.pipeline,
                frame.references,
                frame.image,
                frame.camera,
                replace(frame.live.options, most_keypoints=most_keypoints),
                frame.no_camera,
                self._recollection.clue(
                    frame.references, frame.tracked, frame.taken, frame.upright.shape, interval
                ),
            )
        except BaseException as error:  # also of a plug-in that calls sys.exit
            return self._fault(error)
        finally:
            self._match_due = math.inf
        if guidance.look is not None and not guidance.look.has_edges:  # else not by keypoints
            self._budget.took(time.monotonic() - frame.taken, max_latency)
        self._recollection.note(guidance, frame.taken)
        return guidance

    def _correct(self, frame: Frame, guidance: Guidance) -> None:
        """Tell the tracker where a full match found the reference, or that it did not."""
        if frame.image is None or frame.sought != self._sought:
            return
        named, upright = guidance.reference, guidance.upright
        if upright.verdict.status is not Status.OK or named is None or guidance.image is None:
            self._tracker.not_found(frame.taken)
            return
        self._stamps[frame.taken] = frame.message.header.stamp
        for old in sorted(self._stamps)[:-STAMPS_KEPT]:
            self._stamps.pop(old, None)
        match = FullMatch(
            frame.taken,
            guidance.image,
            upright.verdict,
            upright.correspondences,
            named.reference.box,
            named.reference.counting_area,
            named.revision,
        )
        self._tracker.limits = frame.live.options.matching.limits
        self._tracker.matched(match)
        if frame.sought != self._sought:  # it was changed meanwhile
            self._forget(SOUGHT_ANEW)

    # Both

    def _publish(self, frame: Frame, guidance: Guidance) -> bool:
        """Publish what is known about a frame, unless a newer one was answered already."""
        message, live = frame.message, frame.live
        pipeline, outputs = self._configured.pipeline, self._configured.outputs
        with self._publishing:
            if frame.taken <= self._answered or self._frames.closed:
                return False
            self._answered = frame.taken
            latency = self._age(message)
            received, dropped = self._frames.counts
            info = FrameInfo(
                message.header,
                *frame.size,
                pipeline.method,
                pipeline.detector,
                live.options.landmark_mode,
                latency,
                received,
                dropped + self._to_match.counts[1],
            )
            # So that no message claims a reference any more once its removal was answered;
            # pictures may come a moment later.
            with self._configured.library.unchanging():
                if is_found(guidance):
                    outdated = self._why_stale(message, live) or self._why_replaced(guidance)
                    guidance = guidance.but(Status.STALE, outdated) if outdated else guidance
                try:
                    outputs.publish(guidance, info, frame.camera, live.values['publish_tf'])
                except Exception as error:  # nothing of it is out yet
                    if not self._node.context.ok():
                        raise
                    guidance = self._fault(error)
                    outputs.publish(guidance, info, frame.camera, live.values['publish_tf'])
            if is_found(guidance):
                self.no_pose = guidance.no_pose
            outcome = guidance.outcome
            self._statistics.finished(outcome.verdict.status, latency, outcome.stage_seconds)
            self._draw(frame, guidance)
        return True

    def _draw(
        self, frame: Frame, guidance: Guidance, topics: Iterable[str] = tuple(PICTURES)
    ) -> None:
        """Publish those pictures of a frame that somebody looks at."""
        pipeline, width = self._configured.pipeline, frame.live.values['picture_width']
        try:
            self._configured.outputs.publish_pictures(
                guidance, pipeline, frame.message.header, width, topics
            )
        except Exception as error:  # guidance does not depend on pictures of it
            if self._node.context.ok():
                self._fail(f'a picture could not be drawn: {explained(error)}')

    def _age(self, message: CameraImage) -> float:
        """Return how many seconds ago an image was taken; NaN: it has no stamp."""
        stamp = message.header.stamp  # may be negative, which rclpy's Time refuses
        if stamp == Time():
            return math.nan
        now = self._node.get_clock().now().nanoseconds
        return (now - stamp.sec * 10**9 - stamp.nanosec) / 1e9

    def _why_stale(self, message: CameraImage, live: Live) -> str:
        """Say why an image is too old to guide anyone, '' if it is not."""
        limit = live.values['max_image_age']
        age = self._age(message)
        if not limit or abs(age) <= limit:
            return ''
        if math.isnan(age):
            return f'the image has no stamp, so its age is not known; max_image_age is {limit:g} s'
        if age < 0:
            return (
                f'the image is stamped {-age:.1f} s in the future, so its age is not known: '
                f'camera and node have different clocks; max_image_age is {limit:g} s'
            )
        return f'the image is {age:.1f} s old, and max_image_age is {limit:g} s'

    def _why_replaced(self, guidance: Guidance) -> str:
        """Say why a reference that was found is not looked for any more, '' if it is."""
        named = guidance.reference
        sought = self._configured.sought(self._live())
        if named is None or any(each.revision == named.revision for each in sought):
            return ''
        return f"'{named.id}' was replaced, removed or deselected after the image was taken"

    def _fault(self, error: BaseException) -> Guidance:
        """Return the guidance of a frame on which something failed."""
        reason = f'the node failed on this frame: {explained(error)}'
        self._fail(reason)
        return no_guidance(Status.FAULT, reason)

    def _fail(self, fault: str) -> None:
        """Tell about a fault in the log and in diagnostics."""
        fault = printable(fault)
        self._statistics.failed(fault)
        self._node.get_logger().error(fault, throttle_duration_sec=FAULT_LOG_PAUSE)
