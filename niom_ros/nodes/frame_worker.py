"""The threads that process camera frames: one tracks what was found, one matches in full."""

from collections.abc import Callable
import math
from threading import Lock, Thread
import time
from typing import Any

from rclpy.node import Node

from niom_ros.core.faults import explained, printable
from niom_ros.matching.geometry import Status
from niom_ros.messages.results import FrameInfo
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import Configured, Live
from niom_ros.nodes.frame_reader import CameraImage, FrameReader, Received
from niom_ros.nodes.newest_frame import NewestFrame
from niom_ros.nodes.picture_thread import PictureRequest, PictureThread
from niom_ros.nodes.statistics import Statistics
from niom_ros.pictures.answers import View
from niom_ros.stream.answers import Answer, no_answer
from niom_ros.stream.match_deadline import MatchDeadline
from niom_ros.stream.stream import Stream

STOP_TIMEOUT = 30.0  # seconds to wait for the frame being matched
FAULT_LOG_PAUSE = 1.0  # seconds; a fault in every frame must not fill the disk
MATCH_DEADLINE = MatchDeadline()


class FrameWorker:
    """Takes frames from a camera, finds the references in them and publishes the answers.

    It uses threads of its own, so that the node's services stay responsive. The first tracks in
    every frame; the second matches in full, always the newest frame for which the stream wants
    that; a third draws the pictures. Answers are published in the order of their frames: a full
    match is dropped if a newer frame has already been answered by tracking.
    """

    def __init__(
        self,
        node: Node,
        configured: Configured,
        camera: CameraInput,
        statistics: Statistics,
        live: Callable[[], Live],
    ) -> None:
        """Start the threads; `live` returns the current parameters."""
        self._node = node
        self._configured = configured
        self._reader = FrameReader(node, configured, camera, statistics.failed)
        self._frames = camera.frames
        self._to_match: NewestFrame[Received] = NewestFrame()
        self._statistics = statistics
        self._live = live
        self.stream = Stream(
            configured.matcher,
            deadline=MATCH_DEADLINE,
            report=self._fail,
            name='the node',
            survives=BaseException,  # so that a plug-in that calls sys.exit costs only its frame
        )
        self._answered = -math.inf  # stamp of the newest answered frame
        self._publishing = Lock()
        self.no_pose = ''  # why the last reference that was found has no pose
        self._pictures = PictureThread(configured.outputs, self._fail)
        self._threads = [
            Thread(target=self._work, args=(self._frames, self._follow), name='frames'),
            Thread(target=self._work, args=(self._to_match, self._match), name='matcher'),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def stop(self) -> None:
        """Stop; a frame that is still being matched is not published."""
        self._frames.close()
        self._to_match.close()
        self._pictures.close()
        deadline = time.monotonic() + STOP_TIMEOUT
        for thread in (*self._threads, self._pictures.thread):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self, frames: NewestFrame[Any], act: Callable[[Any], None]) -> None:
        while (frame := frames.take()) is not None:
            try:
                act(frame)
            # One bad frame must not stop the node, even if a plug-in calls sys.exit or panics in
            # Rust.
            except BaseException as error:
                if not self._node.context.ok():
                    return
                self._fail(f'a frame was lost: {explained(error)}')

    def _follow(self, message: CameraImage) -> None:
        """Track in a frame, and queue it for a full match if the stream wants that."""
        live = self._live()
        try:
            received = self._reader.read(message, live)
        except Exception as error:
            reason = f'the node failed on this frame: {explained(error)}'
            self._fail(reason)
            received = self._reader.refused(message, live, no_answer(Status.FAULT, reason))
        answer = self.stream.follow(received.frame)
        published = None if answer is None else self._publish(received, answer)
        if self.stream.wants_match:
            self._to_match.put(received)
        if published is not None:
            self._show(received, published)

    def _match(self, received: Received) -> None:
        """Match a frame in full, and publish the answer unless a newer frame was answered."""
        published: list[Answer | None] = []
        answer = self.stream.match(
            received.frame, lambda answer: published.append(self._publish(received, answer))
        )
        # Only now, when the track is corrected: pictures must not delay it.
        if published and published[0] is not None:
            self._show(received, published[0])
        elif not self._to_match.closed and not self._why_replaced(answer):
            self._show(received, answer, only_heat=True)  # tracking has no heat to show

    def _publish(self, received: Received, answer: Answer) -> Answer | None:
        """Publish the answer to a frame, unless a newer frame was answered already.

        Returns what was published: an answer that came too late is STALE.
        """
        message, live = received.message, received.live
        with self._publishing:
            if received.frame.stamp <= self._answered or self._frames.closed:
                return None
            self._answered = received.frame.stamp
            info = self._info(received)
            # So that no message mentions a reference after the reply to its removal; pictures may
            # come a moment later.
            with self._configured.library.unchanging():
                if answer.located:
                    outdated = self._reader.why_stale(message, live) or self._why_replaced(answer)
                    answer = answer.but(Status.STALE, outdated) if outdated else answer
                camera = received.frame.camera
                publish = self._configured.outputs.publish
                try:
                    publish(answer, info, camera, live.values['publish_tf'])
                except Exception as error:  # nothing has been published yet
                    if not self._node.context.ok():
                        raise
                    reason = f'the node failed on this frame: {explained(error)}'
                    self._fail(reason)
                    answer = no_answer(Status.FAULT, reason)
                    publish(answer, info, camera, live.values['publish_tf'])
            if answer.found:
                self.no_pose = answer.no_pose
            self._statistics.finished(answer.status, info.latency, answer.match.stage_seconds)
        return answer

    def _show(self, received: Received, answer: Answer, only_heat: bool = False) -> None:
        """Have pictures drawn; answers do not depend on them."""
        shown = PictureRequest(
            answer=answer,
            stamp=received.frame.stamp,
            header=received.message.header,
            view=View(
                received.live.values['picture_width'], received.live.values['heatmap_landmark']
            ),
        )
        try:
            self._pictures.show(shown, only_heat)
        except Exception as error:
            self._fail(f'a picture could not be drawn: {explained(error)}')

    def _why_replaced(self, answer: Answer) -> str:
        return self._configured.why_replaced(answer.reference, self._live())

    def _info(self, received: Received) -> FrameInfo:
        matcher = self._configured.matcher
        return FrameInfo(
            header=received.message.header,
            width=received.size[0],
            height=received.size[1],
            method=matcher.method,
            detector=matcher.detector,
            landmark_mode=received.live.options.landmark_mode,
            latency=self._reader.age(received.message),
            received=self._frames.counts[0],
            dropped=self.dropped,
        )

    @property
    def dropped(self) -> int:
        """Return how many frames were not answered because newer ones came."""
        return self._frames.counts[1] + self._to_match.counts[1]

    def _fail(self, fault: str) -> None:
        """Report a fault in the log and in diagnostics."""
        if not self._node.context.ok():
            return
        fault = printable(fault)
        self._statistics.failed(fault)
        self._node.get_logger().error(fault, throttle_duration_sec=FAULT_LOG_PAUSE)
