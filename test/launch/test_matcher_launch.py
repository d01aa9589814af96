"""Start the launch file with its demo camera for real; run by `colcon test`, not by pytest."""

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
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo


def generate_test_description():
    share = get_package_share_directory('niom_ros')
    launch_file = f'{share}/launch/matcher.launch.py'
    start = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(launch_file), launch_arguments={'demo': 'true'}.items()
    )
    return LaunchDescription([start, launch_testing.actions.ReadyToTest()])


class TestLaunch(unittest.TestCase):
    def test_the_demo_photo_is_found(self):
        rclpy.init()
        self.addCleanup(rclpy.try_shutdown)
        node = rclpy.create_node('launch_test')
        client = node.create_client(SetReference, '/matcher/set_reference')
        self.assertTrue(client.wait_for_service(timeout_sec=60))
        request = SetReference.Request(id='cup')
        request.image = rgb_to_message(example_photo('coffee'), request.image.header)
        future = client.call_async(request)
        rclpy.spin_until_future_complete(node, future, timeout_sec=60)
        self.assertTrue(future.result().success, future.result().message)

        found = rclpy.task.Future()

        def look(homography):
            if homography.status == Homography.OK:
                found.set_result(homography)

        node.create_subscription(Homography, '/matcher/homography', look, 10)
        rclpy.spin_until_future_complete(node, found, timeout_sec=60)
        self.assertTrue(found.done(), 'no frame was OK within 60 s')
        self.assertEqual(found.result().reference_id, 'cup')
        self.assertEqual(len(found.result().matrix), 9)


@launch_testing.post_shutdown_test()
class TestShutdown(unittest.TestCase):
    def test_nodes_end_cleanly(self, proc_info):
        launch_testing.asserts.assertExitCodes(proc_info)
