"""Everything that the matcher publishes about a frame."""

from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from niom_ros.matching.matcher import Matcher
from niom_ros.messages.results import (
    FrameInfo,
    homography_message,
    landmarks_message,
    match_message,
    pose_message,
)
from niom_ros.msg import Homography, LandmarkArray, MatchResult
from niom_ros.nodes.markers import marker_array
from niom_ros.nodes.ros_messages import build, rgb_to_message
from niom_ros.pictures.answers import debug_picture, heatmap_picture, overlay_picture
from niom_ros.references.given import NamedReference
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.guide import Guidance

try:
    from tf2_ros import TransformBroadcaster
except ImportError:  # not every installation has it, and there is nothing like it on PyPI
    TransformBroadcaster = None

# Reliable, so that every subscriber connects; one deep, so that nobody reads old news.
OUTPUTS = QoSProfile(depth=1)
# Also for those who come later.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)

PICTURES = {
    '~/debug_image': debug_picture,
    '~/overlay_image': overlay_picture,
    '~/heatmap_image': heatmap_picture,
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
        self._pose = publisher(PoseWithCovarianceStamped, '~/pose')
        self._markers = publisher(MarkerArray, '~/markers')
        self._pictures = {topic: publisher(Image, topic) for topic in PICTURES}
        # Of what was set while the node was inactive as well, so it is not a lifecycle publisher.
        self._reference_image = node.create_publisher(Image, '~/reference_image', LATCHED)
        self._transforms = TransformBroadcaster(node) if TransformBroadcaster else None

    def close(self) -> None:
        """Close all topics."""
        for publisher in (
            self._homography,
            self._match,
            self._landmarks,
            self._pose,
            self._markers,
            *self._pictures.values(),
        ):
            self._node.destroy_lifecycle_publisher(publisher)
        self._node.destroy_publisher(self._reference_image)
        if self._transforms is not None:
            self._node.destroy_publisher(self._transforms.pub_tf)

    def publish_reference(self, named: NamedReference | None) -> None:
        """Show what is looked for, also to those who ask later; an empty image: nothing."""
        header = Header(stamp=self._node.get_clock().now().to_msg())
        if named is None:
            self._reference_image.publish(Image(header=header))
            return
        header.frame_id = named.id
        self._reference_image.publish(rgb_to_message(named.given.image, header))

    def publish(
        self, guidance: Guidance, frame: FrameInfo, camera: CameraModel | None, publish_tf: bool
    ) -> None:
        """Publish what is known about a frame; all of it, or nothing if a message fails."""
        homography = homography_message(build, guidance, frame)
        match = match_message(build, guidance, frame, homography)
        landmarks = landmarks_message(build, guidance, frame)
        pose = None if guidance.pose is None else pose_message(build, guidance.pose, frame)
        markers = None
        if self._markers.get_subscription_count():
            markers = marker_array(guidance, camera, frame.header)
        self._homography.publish(homography)
        self._match.publish(match)
        self._landmarks.publish(landmarks)
        if pose is not None:
            self._pose.publish(pose)
            if publish_tf and self._transforms is not None and guidance.reference is not None:
                self._transforms.sendTransform(self._transform(pose, guidance.reference.id))
        if markers is not None:
            self._markers.publish(markers)

    def publish_pictures(
        self,
        guidance: Guidance,
        pipeline: Matcher,
        header: Header,
        width: int,
        topics: Iterable[str],
    ) -> None:
        """Draw and publish those of the pictures that somebody looks at."""
        for topic in topics:
            publisher = self._pictures[topic]
            if publisher.get_subscription_count():
                picture = PICTURES[topic](guidance, pipeline, width)
                if picture is not None:
                    publisher.publish(rgb_to_message(picture, header))

    def _transform(self, stamped: PoseWithCovarianceStamped, name: str) -> TransformStamped:
        place = stamped.pose.pose
        transform = TransformStamped(header=stamped.header)
        # With the namespace, so that two cameras do not fight over a frame.
        node = self._node.get_fully_qualified_name().lstrip('/')
        transform.child_frame_id = f'{node}/{name}'
        translation = transform.transform.translation
        translation.x, translation.y, translation.z = (
            place.position.x,
            place.position.y,
            place.position.z,
        )
        transform.transform.rotation = place.orientation
        return transform
