"""Everything that the matcher publishes about a frame."""

from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped, Vector3
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from niom_ros.messages.results import (
    FrameInfo,
    homography_message,
    instances_message,
    landmarks_message,
    match_message,
    pose_message,
)
from niom_ros.msg import Homography, InstanceArray, LandmarkArray, MatchResult
from niom_ros.nodes.markers import marker_array
from niom_ros.nodes.ros_messages import build, rgb_to_message
from niom_ros.pictures.answers import debug_picture, heatmap_picture, overlay_picture, View
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer
from niom_ros.stream.camera import CameraModel

try:
    from tf2_ros import TransformBroadcaster
except ImportError:  # optional; it is not on PyPI
    TransformBroadcaster = None

# Reliable connects to every subscriber; depth 1 delivers only the newest result.
OUTPUTS = QoSProfile(depth=1)
# Late subscribers receive the last message too.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)

HEAT = '~/heatmap_image'
PICTURES = {
    '~/debug_image': debug_picture,
    '~/overlay_image': overlay_picture,
    HEAT: heatmap_picture,
}


class Outputs:
    """The publishers of the matcher; silent unless the node is active."""

    def __init__(self, node: LifecycleNode) -> None:
        """Open all topics."""
        self._node = node

        def publisher(kind: type, topic: str) -> Any:
            return node.create_lifecycle_publisher(kind, topic, OUTPUTS)

        self._homography = publisher(Homography, '~/homography')
        self._match = publisher(MatchResult, '~/match')
        self._landmarks = publisher(LandmarkArray, '~/landmarks')
        self._instances = publisher(InstanceArray, '~/instances')
        self._pose = publisher(PoseWithCovarianceStamped, '~/pose')
        self._markers = publisher(MarkerArray, '~/markers')
        self._pictures = {topic: publisher(Image, topic) for topic in PICTURES}
        # Not a lifecycle publisher, because references can also be set while the node is inactive.
        self._reference_image = node.create_publisher(Image, '~/reference_image', LATCHED)
        self._transforms = TransformBroadcaster(node) if TransformBroadcaster else None

    def close(self) -> None:
        """Close all topics."""
        for publisher in (
            self._homography,
            self._match,
            self._landmarks,
            self._instances,
            self._pose,
            self._markers,
            *self._pictures.values(),
        ):
            self._node.destroy_lifecycle_publisher(publisher)
        self._node.destroy_publisher(self._reference_image)
        if self._transforms is not None:
            # tf2_ros offers no way to close a broadcaster.
            self._node.destroy_publisher(self._transforms.pub_tf)

    def publish_reference(self, known: KnownReference | None) -> None:
        """Publish the picture of the selected reference; an empty image if there is none."""
        header = Header(stamp=self._node.get_clock().now().to_msg())
        if known is None:
            self._reference_image.publish(Image(header=header))
            return
        header.frame_id = known.id
        self._reference_image.publish(rgb_to_message(known.given.image, header))

    def publish(
        self, answer: Answer, frame: FrameInfo, camera: CameraModel | None, publish_tf: bool
    ) -> None:
        """Publish everything about a frame, or nothing if one of the messages cannot be built."""
        homography = homography_message(build, answer, frame)
        match = match_message(build, answer, frame, homography)
        landmarks = landmarks_message(build, answer, frame)
        instances = instances_message(build, answer, frame)
        pose = None if answer.pose is None else pose_message(build, answer.pose, frame)
        markers = None
        if self._markers.get_subscription_count():
            markers = marker_array(answer, camera, frame.header)
        self._homography.publish(homography)
        self._match.publish(match)
        self._landmarks.publish(landmarks)
        self._instances.publish(instances)
        if pose is not None:
            self._pose.publish(pose)
            if publish_tf and self._transforms is not None and answer.reference is not None:
                self._transforms.sendTransform(self._transform(pose, answer.reference.id))
        if markers is not None:
            self._markers.publish(markers)

    def is_watched(self, topic: str) -> bool:
        """Return whether anybody listens to the pictures of a topic."""
        return bool(self._pictures[topic].get_subscription_count())

    def publish_picture(self, topic: str, answer: Answer, header: Header, view: View) -> None:
        """Draw and publish one of the pictures of a frame."""
        picture = PICTURES[topic](answer, view)
        if picture is not None:
            self._pictures[topic].publish(rgb_to_message(picture, header))

    def _transform(self, stamped: PoseWithCovarianceStamped, name: str) -> TransformStamped:
        place = stamped.pose.pose
        transform = TransformStamped(header=stamped.header)
        # With the namespace, so that two cameras do not share a frame.
        node = self._node.get_fully_qualified_name().lstrip('/')
        transform.child_frame_id = f'{node}/{name}'
        position = place.position
        transform.transform.translation = Vector3(x=position.x, y=position.y, z=position.z)
        transform.transform.rotation = place.orientation
        return transform
