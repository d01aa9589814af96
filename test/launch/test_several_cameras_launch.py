"""Start the launch file for two cameras with its demo cameras; run by `colcon test`."""

import unittest

from ament_index_python.packages import get_package_share_directory
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
import launch_testing.actions
import launch_testing.asserts
from niom_ros.msg import Homography
from niom_ros.srv import SetReference
import rclpy

from launch import LaunchDescription

CAMERAS = ('top', 'cell/side')


def generate_test_description():
    share = get_package_share_directory('niom_ros')
    start = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(f'{share}/launch/several_cameras.launch.py'),
        launch_arguments={'cameras': ','.join(CAMERAS), 'demo': 'true'}.items(),
    )
    return LaunchDescription([start, launch_testing.actions.ReadyToTest()])


class TestLaunch(unittest.TestCase):
    def setUp(self):
        rclpy.init()
        self.addCleanup(rclpy.try_shutdown)
        self.node = rclpy.create_node('launch_test')

    def wait_for(self, condition, what, seconds=90):
        deadline = self.node.get_clock().now().nanoseconds + seconds * 1e9
        while not condition():
            in_time = self.node.get_clock().now().nanoseconds < deadline
            self.assertTrue(in_time, f'{what} did not happen within {seconds} s')
            rclpy.spin_once(self.node, timeout_sec=0.1)

    def test_each_matcher_finds_what_it_was_shown_with_its_own_camera(self):
        found = {}
        for camera in CAMERAS:

            def look(homography, camera=camera):
                if homography.status == Homography.OK:
                    found[camera] = homography.reference_id

            topic = f'/{camera}/matcher/homography'
            self.node.create_subscription(Homography, topic, look, 10)

        for camera in CAMERAS:
            service = f'/{camera}/matcher/set_reference'
            client = self.node.create_client(SetReference, service)
            self.assertTrue(client.wait_for_service(timeout_sec=90), f'{service} is not there')
            topic = f'/{camera}/image_raw'
            self.wait_for(lambda name=topic: self.node.count_publishers(name) == 1, topic)
            self.assertEqual(self.node.count_subscribers(topic), 1)
            self.show_reference(client, SetReference.Request(id=camera, use_current_frame=True))

        self.wait_for(lambda: len(found) == len(CAMERAS), f'OK from all of {CAMERAS}')
        self.assertEqual(found, {camera: camera for camera in CAMERAS})

    def show_reference(self, client, request):
        """Call until the matcher has received a first frame."""
        answers = []

        def accepted():
            if answers and not answers[-1].done():
                return False
            if answers and answers[-1].result().success:
                return True
            answers.append(client.call_async(request))
            return False

        self.wait_for(accepted, f'a reference accepted by {client.srv_name}')


@launch_testing.post_shutdown_test()
class TestShutdown(unittest.TestCase):
    def test_nodes_end_cleanly(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)
