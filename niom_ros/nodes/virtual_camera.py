"""A simulated camera: publishes views of a photo, and the ground truth about them."""

from array import array
from typing import NoReturn

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from niom_ros.core.parameters import VIRTUAL_CAMERA_PARAMETERS
from niom_ros.images.decoding import read_image
from niom_ros.msg import Homography
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.parameters import declare, read
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import (
    DEMO_PHOTO,
    DEMO_SURROUNDINGS,
    example_photo,
    VirtualScene,
)
from niom_ros.stream.pose import quaternion_of


class VirtualCamera(Node):
    """Publishes `image` and `camera_info` like a driver, and the true place of the photo."""

    def __init__(self) -> None:
        """Start the camera."""
        super().__init__('virtual_camera')
        declare(self, VIRTUAL_CAMERA_PARAMETERS, read_only=True)
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
        self._photo_width = values['photo_width']
        self._frame_id = values['frame_id']
        self._period = 1 / values['rate']
        self._frame = 0
        # Reliable connects to every subscriber, including RViz with its defaults.
        self._image_publisher = self.create_publisher(Image, 'image', QoSProfile(depth=1))
        self._info_publisher = self.create_publisher(
            CameraInfo, 'camera_info', QoSProfile(depth=1)
        )
        all_of_them = QoSProfile(depth=100)
        self._truth_publisher = self.create_publisher(Homography, '~/truth', all_of_them)
        self._pose_publisher = self.create_publisher(PoseStamped, '~/truth_pose', all_of_them)
        self.create_timer(self._period, self._publish)

    def _publish(self) -> None:
        header = Header(stamp=self.get_clock().now().to_msg(), frame_id=self._frame_id)
        seconds = self._frame * self._period
        view = self._scene.view(seconds, self._frame)
        self._frame += 1
        self._truth_publisher.publish(self._truth(view.picture_to_image, header))
        self._pose_publisher.publish(self._true_pose(seconds, header))
        self._info_publisher.publish(self._calibration(header))
        self._image_publisher.publish(rgb_to_message(view.image, header))

    def _truth(self, picture_to_image: np.ndarray, header: Header) -> Homography:
        height, width = self._scene.picture.shape[:2]
        return Homography(
            header=header,
            reference_id='truth',
            status=Homography.OK,
            source=Homography.MATCHED,
            matched_stamp=header.stamp,
            reference_width=width,
            reference_height=height,
            image_width=self._scene.width,
            image_height=self._scene.height,
            matrix=array('d', picture_to_image.tobytes()),
            confidence=1.0,
        )

    def _true_pose(self, seconds: float, header: Header) -> PoseStamped:
        rotation, shift = self._scene.pose(seconds)
        stamped = PoseStamped(header=header)
        place, turn = stamped.pose.position, stamped.pose.orientation
        place.x, place.y, place.z = (self._photo_width * shift).tolist()
        turn.x, turn.y, turn.z, turn.w = quaternion_of(rotation)
        return stamped

    def _calibration(self, header: Header) -> CameraInfo:
        camera = self._scene.camera_matrix()
        return CameraInfo(
            header=header,
            width=self._scene.width,
            height=self._scene.height,
            distortion_model='plumb_bob',
            d=[0.0] * 5,
            k=camera.ravel(),
            r=np.eye(3).ravel(),
            p=np.column_stack([camera, np.zeros(3)]).ravel(),
        )


def main() -> NoReturn:
    """Run the camera until it is stopped."""
    run_node(VirtualCamera)


if __name__ == '__main__':
    main()
