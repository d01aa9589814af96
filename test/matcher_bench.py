"""A matcher process on a test bench: fed by a camera that the tests control."""

from array import array

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from niom_ros.msg import Homography, MatchResult
from niom_ros.srv import SetReference
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
import rclpy
from rclpy.qos import QoSProfile
from ros_client import call, Inbox, spin_until
from sensor_msgs.msg import Image

RELIABLE = ('-p', 'reliable_image:=true')  # so that no test image is lost
FAST = ('-p', 'max_keypoints:=512', '-p', 'tracking:=false', *RELIABLE)  # enough for these scenes


class Bench:
    """A camera, a matcher process and its outputs."""

    def __init__(self, node, process, name='matcher'):
        self.node = node
        self.process = process
        self.name = name
        self.results = Inbox(node, MatchResult, f'{name}/match')
        self.homographies = Inbox(node, Homography, f'{name}/homography')
        self.camera = node.create_publisher(Image, 'image', QoSProfile(depth=1))
        self._stamp = 0

    def wait_until_connected(self, cameras=1):
        """Wait until the matcher hears the camera and is heard; then nothing is lost."""
        spin_until(
            self.node,
            lambda: self.camera.get_subscription_count() >= cameras,
            'the subscription of the camera',
        )
        small = Image(width=1, height=1, step=3, encoding='rgb8', data=array('B', bytes(3)))

        def heard():
            self.publish(small)
            rclpy.spin_once(self.node, timeout_sec=0.1)
            return self.results.messages and self.homographies.messages

        spin_until(self.node, heard, 'a first result')
        last = self.publish(small)
        self.results.wait_for(lambda result: result.header.stamp == last, 'the last of them')

    def publish(self, image, camera=None):
        """Send a camera image with a stamp of its own, and return the stamp."""
        self._stamp += 1
        image.header.stamp.sec = 1_000_000 + self._stamp
        image.header.frame_id = 'camera_optical_frame'
        (camera or self.camera).publish(image)
        return image.header.stamp

    def result_of(self, image, camera=None):
        """Send a camera image and return the result for it."""
        stamp = self.publish(image, camera)
        return self.results.wait_for(lambda result: result.header.stamp == stamp, 'the result')

    def set_reference(self, **fields):
        return self.call(SetReference, 'set_reference', **fields)

    def call(self, service_type, service, **fields):
        request = service_type.Request(**fields)
        return call(self.node, service_type, f'{self.name}/{service}', request)

    def set_parameter(self, name, value):
        kinds = {
            bool: ('PARAMETER_BOOL', 'bool_value'),
            int: ('PARAMETER_INTEGER', 'integer_value'),
            float: ('PARAMETER_DOUBLE', 'double_value'),
            str: ('PARAMETER_STRING', 'string_value'),
            list: ('PARAMETER_STRING_ARRAY', 'string_array_value'),
        }
        kind, field = kinds[type(value)]
        request = SetParameters.Request()
        request.parameters = [
            Parameter(
                name=name,
                value=ParameterValue(type=getattr(ParameterType, kind), **{field: value}),
            )
        ]
        service = f'{self.name}/set_parameters'
        return call(self.node, SetParameters, service, request).results[0]

    def change_state(self, transition):
        """Make a transition of the lifecycle and return whether it succeeded."""
        request = Transition(label=transition)
        return self.call(ChangeState, 'change_state', transition=request).success

    def state(self):
        """Return where in its lifecycle the matcher is."""
        name = f'{self.name}/get_state'
        answer = call(self.node, GetState, name, GetState.Request(), again_after=5.0)
        return answer.current_state.label

    def close(self):
        """Stop listening and publishing."""
        self.results.close()
        self.homographies.close()
        self.node.destroy_publisher(self.camera)
