"""A camera for machines without one: publishes views of a photo, and the truth about them."""

from array import array
import sys

from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from niom_ros.matching.images import read_image
from niom_ros.msg import Homography
from niom_ros.nodes.image_conversion import rgb_to_message
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.parameters import declare
from niom_ros.nodes.parameters import read
from niom_ros.parameters import VIRTUAL_CAMERA_PARAMETERS
from niom_ros.virtual_scene import DEMO_PHOTO
from niom_ros.virtual_scene import DEMO_SURROUNDINGS
from niom_ros.virtual_scene import example_photo
from niom_ros.virtual_scene import VirtualScene


class VirtualCamera(Node):
    """Publishes `image` like a camera driver, and `~/truth`: where the photo really is."""

    def __init__(self) -> None:
        """Start the camera."""
        super().__init__('virtual_camera')
        declare(self, VIRTUAL_CAMERA_PARAMETERS)
        values = read(self, VIRTUAL_CAMERA_PARAMETERS)
        path = values['photo_path']
        self._scene = VirtualScene(
            picture=read_image(path) if path else example_photo(DEMO_PHOTO),
            surroundings=example_photo(DEMO_SURROUNDINGS),
            width=values['width'],
            height=values['height'],
            noise=values['noise'],
            light_change=values['light_change'],
            seed=values['seed'],
        )
        self._frame_id = values['frame_id']
        self._period = 1 / values['rate']
        self._frame = 0
        # Reliable, so that every subscriber connects, RViz with its defaults included.
        self._image_publisher = self.create_publisher(Image, 'image', QoSProfile(depth=1))
        self._truth_publisher = self.create_publisher(Homography, '~/truth', QoSProfile(depth=100))
        self.create_timer(self._period, self._publish)

    def _publish(self) -> None:
        stamp = self.get_clock().now().to_msg()
        view = self._scene.view(self._frame * self._period, self._frame)
        self._frame += 1
        height, width = self._scene.picture.shape[:2]
        truth = Homography(
            reference_id='truth',
            status=Homography.OK,
            source=Homography.MATCHED,
            matched_stamp=stamp,
            reference_width=width,
            reference_height=height,
            image_width=self._scene.width,
            image_height=self._scene.height,
            matrix=array('d', view.picture_to_image.tobytes()),
            confidence=1.0,
        )
        truth.header.stamp = stamp
        truth.header.frame_id = self._frame_id
        self._truth_publisher.publish(truth)
        self._image_publisher.publish(rgb_to_message(view.image, truth.header))


def main() -> int:
    """Run the camera until it is told to stop."""
    return run_node(VirtualCamera)


if __name__ == '__main__':
    sys.exit(main())
