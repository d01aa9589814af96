"""One of the clients of a soak, a process of its own: calls services, notes how long each took.

    python soak_client.py references|parameters|pictures LOG

LOG gets two lines of JSON for each call: when it began (`begun`, and `call`, its name), and later
how many seconds the answer took (null: none came) and whether it was a success. For each picture
that was looked at it gets one: how many images of it came.
"""

from collections.abc import Callable, Iterator
import itertools
import json
from pathlib import Path
import sys
import time
from typing import Any

import cv2
from lifecycle_msgs.srv import GetState
from niom_ros.srv import ListReferences, RemoveReference, SelectReference, SetReference
import rclpy
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo

GIVEN_UP = 30.0  # seconds after which an answer is not waited for any more
TOGETHER = 20.0  # seconds: at each multiple, all clients call at the same moment
PICTURES = ('debug_image', 'overlay_image', 'heatmap_image')
# Live parameters and two values of each; the second one is the default.
PARAMETERS = (
    ('min_inliers', 25, 20),
    ('landmark_mode', 'local', 'global'),
    ('match_interval', 3.0, 2.0),
    ('picture_width', 640, 1280),
    ('weighting', 'none', 'auto'),
    ('match_all', True, False),
    ('tracking', False, True),
    ('reliable_image', True, False),
)


class Client:
    """Calls the services of a matcher, one after the other."""

    def __init__(self, role: str, log: Path) -> None:
        self._node = rclpy.create_node(f'soak_{role}')
        self._role, self._calls = role, 0
        self._log = log.open('a', buffering=1)
        self._clients: dict[str, Any] = {}
        self._parameters = AsyncParameterClient(self._node, 'matcher')
        self._parameters.wait_for_services(GIVEN_UP)
        self._wait_until_active()

    def _wait_until_active(self) -> None:
        """Wait for the networks: until they are loaded, calls are refused."""
        states = self._node.create_client(GetState, 'matcher/get_state')
        states.wait_for_service(GIVEN_UP)
        state = ''
        while state != 'active':
            self.rest(0.2)
            answer = states.call_async(GetState.Request())
            rclpy.spin_until_future_complete(self._node, answer, timeout_sec=GIVEN_UP)
            state = answer.result().current_state.label if answer.done() else ''
        self._node.destroy_client(states)

    def call(self, kind: type, service: str, **fields: Any) -> None:
        if service not in self._clients:
            self._clients[service] = self._node.create_client(kind, f'matcher/{service}')
            self._clients[service].wait_for_service(GIVEN_UP)
        request = kind.Request(**fields)
        self._wait(
            service,
            lambda: self._clients[service].call_async(request),
            lambda result: getattr(result, 'success', True),
        )

    def set_reference(self, name: str, photo: str, scale: float = 1.0, **fields: Any) -> None:
        picture = example_photo(photo)
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        image = rgb_to_message(picture, Header())
        self.call(SetReference, 'set_reference', id=name, image=image, **fields)

    def set_parameter(self, name: str, value: Any) -> None:
        parameters = [Parameter(name, value=value)]
        self._wait(
            'set_parameters',
            lambda: self._parameters.set_parameters(parameters),
            lambda result: result.results[0].successful,
        )
        self._wait(
            'get_parameters',
            lambda: self._parameters.get_parameters([name]),
            lambda result: parameter_value_to_python(result.values[0]) == value,
        )

    def look(self, topic: str, seconds: float) -> None:
        """Look at a picture for a while."""
        stamps: list[Any] = []
        subscription = self._node.create_subscription(
            Image,
            f'matcher/{topic}',
            lambda image: stamps.append(image.header.stamp),
            QoSProfile(depth=1),
        )
        self.rest(seconds)
        self._node.destroy_subscription(subscription)
        self._write(picture=topic, images=len(stamps))

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            rclpy.spin_once(self._node, timeout_sec=left)

    def _wait(
        self, service: str, begin: Callable[[], Any], succeeded: Callable[[Any], bool]
    ) -> None:
        self._calls += 1
        name = f'{self._role} {self._calls}'
        self._write(call=name, service=service, begun=time.time())
        start = time.monotonic()
        answer = begin()
        rclpy.spin_until_future_complete(self._node, answer, timeout_sec=GIVEN_UP)
        seconds = time.monotonic() - start if answer.done() else None
        success = answer.done() and bool(succeeded(answer.result()))
        self._write(call=name, service=service, seconds=seconds, success=success)

    def _write(self, **fields: Any) -> None:
        self._log.write(json.dumps(fields) + '\n')


def references(client: Client) -> Iterator[None]:
    """Set, select and remove references; mostly the cup is looked for, which is there."""
    while True:
        client.set_reference('cup', DEMO_PHOTO)
        yield
        client.rest(6.0)
        yield
        client.set_reference('cat', 'chelsea', keep_selection=True)
        client.call(ListReferences, 'list_references')
        client.rest(2.0)
        yield
        client.call(SelectReference, 'select_reference', id='cat')
        client.rest(1.0)
        client.call(SelectReference, 'select_reference', id='cup')
        client.call(RemoveReference, 'remove_reference', id='cat')
        client.rest(4.0)
        yield


def parameters(client: Client) -> Iterator[None]:
    """Set parameters and back."""
    for name, other, usual in itertools.cycle(PARAMETERS):
        client.set_parameter(name, other)
        client.rest(1.0)
        client.set_parameter(name, usual)
        client.call(GetState, 'get_state')
        client.call(ListReferences, 'list_references')
        client.rest(2.0)
        yield


def pictures(client: Client) -> Iterator[None]:
    """Look at pictures, and away again."""
    for topic in itertools.cycle(PICTURES):
        client.look(topic, 3.0)
        client.call(ListReferences, 'list_references')
        client.rest(0.5)
        yield


ROLES = {'references': references, 'parameters': parameters, 'pictures': pictures}


def main(role: str, log: Path) -> None:
    """Call until the process is ended."""
    rclpy.init()
    client = Client(role, log)
    together = time.time() // TOGETHER
    for _ in ROLES[role](client):
        if time.time() // TOGETHER != together:
            # The clocks of all clients are one: they wait for the same moment.
            together = time.time() // TOGETHER + 1
            client.rest(together * TOGETHER - time.time())
            client.set_reference(f'of {role}', 'rocket', 0.5, keep_selection=True)
            client.call(RemoveReference, 'remove_reference', id=f'of {role}')


if __name__ == '__main__':
    main(sys.argv[1], Path(sys.argv[2]))
