"""The camera as the matcher receives it: newest frame, calibration, and what is wrong."""

from collections.abc import Callable
import math
from threading import RLock
import time
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import QoSRequestedIncompatibleQoSInfo, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from niom_ros.nodes.newest_frame import NewestFrame
from niom_ros.nodes.rclpy_workarounds import nanoseconds_of
from niom_ros.nodes.stamp_order import StampOrder
from niom_ros.stream.camera import CameraCalibration, CameraModel

IMAGE_TYPES = {'raw': Image, 'compressed': CompressedImage}


class CameraInput:
    """Subscribes to a camera and keeps its newest frame and last calibration."""

    def __init__(self, node: Node, group: CallbackGroup, on_frame: Callable[[], None]) -> None:
        """Prepare; nothing is subscribed before `open`."""
        self._node = node
        self._group = group
        self._on_frame = on_frame
        self._subscriptions: list[Any] = []
        self._lock = RLock()
        self._info: CameraInfo | None = None
        self._calibration = CameraCalibration()
        self.frames: NewestFrame[Image | CompressedImage] = NewestFrame()
        self.stamps = StampOrder()
        self.topic = ''
        self.info_topic = node.resolve_topic_name('camera_info')
        self.incompatible = ''  # why a publisher cannot connect, and what to do
        self.ignored = -math.inf  # when the last frame without a new stamp arrived

    def open(self, transport: str, reliable: bool) -> None:
        """Subscribe, replacing an earlier subscription; frames already received are kept."""
        topic = self._node.resolve_topic_name('image')
        if transport == 'compressed':
            # Remapping `image` does not remap `image/compressed`.
            topic += '/compressed'
        quality = QoSProfile(
            depth=1,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        )
        # Best effort connects to every publisher.
        calibration = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        events = SubscriptionEventCallbacks(incompatible_qos=self._on_incompatible)
        with self._lock:
            self.close()
            self.incompatible = ''
            self.topic = topic
            self._subscriptions = [
                self._node.create_subscription(
                    IMAGE_TYPES[transport],
                    topic,
                    self._on_image,
                    quality,
                    callback_group=self._group,
                    event_callbacks=events,
                ),
                self._node.create_subscription(
                    CameraInfo,
                    'camera_info',
                    self._on_info,
                    calibration,
                    callback_group=self._group,
                ),
            ]

    def reopen(self, transport: str, reliable: bool) -> None:
        """Subscribe differently, if anything is subscribed."""
        with self._lock:
            if self._subscriptions:
                self.open(transport, reliable)

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            for subscription in self._subscriptions:
                self._node.destroy_subscription(subscription)
            self._subscriptions = []

    def restart(self) -> None:
        """Forget everything received so far, for a new worker."""
        with self._lock:
            self.frames = NewestFrame()
            self.stamps = StampOrder()
            self._info = None

    def camera_for(
        self, rectified: bool, width: int, height: int, frame_id: str
    ) -> tuple[CameraModel | None, str]:
        """Return the calibration for such images, or why there is none."""
        with self._lock:
            if self._info is None:
                return None, f'no camera_info has arrived on {self.info_topic}'
            return self._calibration.camera_for(self._info, rectified, width, height, frame_id)

    def has_calibration(self) -> bool:
        """Return whether camera_info has arrived."""
        return self._info is not None

    def _on_image(self, message: Image | CompressedImage) -> None:
        if not self.stamps.accept(nanoseconds_of(message.header.stamp)):
            self.ignored = time.monotonic()
            return
        self.incompatible = ''  # images do arrive
        self.frames.put(message)
        self._on_frame()

    def _on_info(self, info: CameraInfo) -> None:
        info.header.stamp = Time()  # ignored, because it changes with every message
        with self._lock:
            if info != self._info:
                self._info = info

    def _on_incompatible(self, event: QoSRequestedIncompatibleQoSInfo) -> None:
        self.incompatible = (
            f'a camera on {self.topic} offers only best effort, but reliable_image asks for '
            'reliable delivery: set reliable_image to false'
        )
        self._node.get_logger().error(self.incompatible)
