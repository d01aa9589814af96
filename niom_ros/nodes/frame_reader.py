"""From a camera message to a frame of the stream, or to why it cannot be used."""

from collections.abc import Callable
from dataclasses import dataclass, replace
import math
import time
from typing import TypeAlias

from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image

from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.matching.geometry import Status
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import Configured, Live
from niom_ros.nodes.rclpy_workarounds import nanoseconds_of
from niom_ros.stream.answers import Answer, no_answer
from niom_ros.stream.frame import Frame, RefusedFrame

CameraImage: TypeAlias = Image | CompressedImage


@dataclass(frozen=True)
class Received:
    """A camera message, the parameters that apply to it, and its frame."""

    message: CameraImage
    live: Live
    size: tuple[int, int]
    frame: Frame | RefusedFrame


class FrameReader:
    """Reads camera messages."""

    def __init__(
        self,
        node: Node,
        configured: Configured,
        camera: CameraInput,
        note_fault: Callable[[str], None],
    ) -> None:
        """Read with the node's clock, its references and the camera's calibration."""
        self._node = node
        self._configured = configured
        self._camera = camera
        self._note_fault = note_fault

    def read(self, message: CameraImage, live: Live) -> Received:
        """Return a message with its frame, or with the answer if it cannot be used."""
        stamp = time.monotonic()  # of a steady clock, so that stamps never go back
        references = self._configured.targets(live)
        try:
            if too_old := self.why_stale(message, live):
                return self.refused(message, live, no_answer(Status.STALE, too_old))
            image = message_to_rgb(message)
            size = image.shape[1], image.shape[0]
            camera, no_camera = self._camera.camera_for(
                live.values['rectified_image'], *size, message.header.frame_id
            )
            if camera is None and self._camera.has_calibration():
                self._note_fault(no_camera)
            if not references:
                why = self._configured.library.why_no_target()
                nothing = no_answer(Status.NO_REFERENCE, why, image, live.options.rotation)
                return replace(self.refused(message, live, nothing), size=size)
        except ImageError as error:
            reason = f'the camera image cannot be used: {error}'
            self._note_fault(reason)
            return self.refused(message, live, no_answer(Status.BAD_IMAGE, reason))
        frame = Frame(
            image=image,
            stamp=stamp,
            references=references,
            options=live.options,
            camera=camera,
            no_camera=no_camera,
            tag=message.header.stamp,
            begun=stamp,
        )
        return Received(message, live, size, frame)

    def refused(self, message: CameraImage, live: Live, answer: Answer) -> Received:
        """Return a message that is not processed, with its answer."""
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        refused = RefusedFrame(
            answer=answer,
            stamp=time.monotonic(),
            references=self._configured.targets(live),
            options=live.options,
        )
        return Received(message, live, size, refused)

    def age(self, message: CameraImage) -> float:
        """Return the age of an image in seconds; NaN: it has no stamp."""
        stamp = message.header.stamp
        if stamp == Time():
            return math.nan
        now = self._node.get_clock().now().nanoseconds
        return (now - nanoseconds_of(stamp)) / 1e9

    def why_stale(self, message: CameraImage, live: Live) -> str:
        """Say why an image is too old to be used, '' if it is not."""
        limit = live.values['max_image_age']
        age = self.age(message)
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
