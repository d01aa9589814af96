"""The thread that matches: the newest camera frame, again and again."""

from collections.abc import Callable
import math
from threading import Thread
from typing import TypeAlias

from builtin_interfaces.msg import Time
import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image

from niom_ros.guidance.camera import CameraModel
from niom_ros.guidance.camera_images import message_to_rgb
from niom_ros.guidance.guide import Guidance
from niom_ros.guidance.guide import guide
from niom_ros.guidance.guide import no_guidance
from niom_ros.guidance.messages import FrameInfo
from niom_ros.guidance.messages import is_found
from niom_ros.matching.geometry import Status
from niom_ros.matching.images import ImageError
from niom_ros.matching.pipeline import Clue
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import Configured
from niom_ros.nodes.configuration import Live
from niom_ros.nodes.statistics import Statistics

LONGEST_FRAME = 30.0  # seconds to wait for the frame that is being matched

CameraImage: TypeAlias = Image | CompressedImage


class FrameWorker:
    """Takes frames from a camera, finds the references in them and publishes what it found.

    In a thread of its own, so that the node's services answer meanwhile.
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
        self._statistics = statistics
        self._live = live
        self._clue: Clue | None = None  # of the last frame in which a reference was found
        self.no_pose = ''  # why the last reference that was found has no pose
        self._thread = Thread(target=self._work, name='matcher', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; a frame that is being matched is not published any more."""
        self._frames.close()
        self._thread.join(LONGEST_FRAME)

    def _work(self) -> None:
        while (message := self._frames.take()) is not None:
            try:
                self._process(message, self._live())
            except Exception as error:  # one bad frame must not end the guidance
                if not self._node.context.ok():
                    return
                self._fail(f'a frame was lost: {error!r}')

    def _process(self, message: CameraImage, live: Live) -> None:
        pipeline, outputs = self._configured.pipeline, self._configured.outputs
        guidance, size, camera = self._guidance(message, live)
        if self._frames.closed or not self._node.context.ok():
            return
        latency = self._age(message)
        received, dropped = self._frames.counts
        frame = FrameInfo(
            message.header,
            *size,
            pipeline.method,
            pipeline.detector,
            live.options.landmark_mode,
            latency,
            received,
            dropped,
        )
        if is_found(guidance):
            self.no_pose = guidance.no_pose
        outputs.publish(guidance, frame, camera, live.values['publish_tf'])
        outcome = guidance.outcome
        self._statistics.finished(outcome.verdict.status, latency, outcome.stage_seconds)
        width = live.values['picture_width']
        outputs.publish_pictures(guidance, pipeline, message.header, width)

    def _guidance(
        self, message: CameraImage, live: Live
    ) -> tuple[Guidance, tuple[int, int], CameraModel | None]:
        """Return what is known about a frame, its size, and the calibration that fits it."""
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        camera = None
        try:
            if too_old := self._why_stale(message, live):
                return no_guidance(Status.STALE, too_old), size, None
            image = message_to_rgb(message)
            size = image.shape[1], image.shape[0]
            camera, no_camera = self._camera.camera_for(live.values['rectified_image'], *size)
            if camera is None and self._camera.has_calibration():
                self._statistics.failed(no_camera)
            guidance = self._guide(image, camera, no_camera, live)
        except ImageError as error:
            reason = f'the camera image cannot be used: {error}'
            self._statistics.failed(reason)
            guidance = no_guidance(Status.BAD_IMAGE, reason)
        except Exception as error:
            reason = f'the node failed on this frame: {error!r}'
            self._fail(reason)
            guidance = no_guidance(Status.FAULT, reason)
        if is_found(guidance) and (too_old := self._why_stale(message, live)):
            guidance = guidance.but(Status.STALE, too_old)
        return guidance, size, camera

    def _guide(
        self, image: np.ndarray, camera: CameraModel | None, no_camera: str, live: Live
    ) -> Guidance:
        references = self._configured.sought(live)
        if not references:
            why = self._configured.library.why_nothing_is_sought()
            return no_guidance(Status.NO_REFERENCE, why, image, live.options.rotation)
        pipeline = self._configured.pipeline
        guidance = guide(pipeline, references, image, camera, live.options, no_camera, self._clue)
        self._clue = guidance.clue or self._clue
        return guidance

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
        if not limit or age <= limit:
            return ''
        if math.isnan(age):
            return f'the image has no stamp, so its age is not known; max_image_age is {limit:g} s'
        return f'the image is {age:.1f} s old, and max_image_age is {limit:g} s'

    def _fail(self, fault: str) -> None:
        """Tell about a fault in the log and in diagnostics."""
        self._statistics.failed(fault)
        self._node.get_logger().error(fault)
