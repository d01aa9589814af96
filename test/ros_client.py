"""A ROS client for tests: starts nodes as processes and waits for what they publish."""

from collections.abc import Callable
from contextlib import AbstractContextManager
import math
from pathlib import Path
import subprocess
import sys
import time

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile

from niom_ros.nodes import private_network

PATIENCE = 60.0  # seconds; wide, because the machines that run this are often busy


def ros_network() -> AbstractContextManager[Node]:
    """Take part in a ROS domain that nobody else uses."""
    return private_network.client_node('test_client')


def running(name: str, log: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen]:
    """Run an installed executable of the package until the end of the block."""
    executable = Path(sys.prefix) / 'lib/niom_ros' / name
    return private_network.running([executable, '--ros-args', *arguments], log)


def spin_until(node: Node, condition: Callable[[], object], what: str) -> None:
    """Handle messages until something holds, or fail after a bounded time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f'{what} did not happen within {PATIENCE:.0f} s'
        rclpy.spin_once(node, timeout_sec=0.1)


def call(
    node: Node,
    service_type: type,
    name: str,
    request: object,
    again_after: float = math.inf,
) -> object:
    """Call a service and return its answer; one that changes nothing may be called again.

    A node that was found a moment ago may answer before it has found the asker, and DDS then
    drops the answer.
    """
    client = node.create_client(service_type, name)
    assert client.wait_for_service(timeout_sec=PATIENCE), f'there is no service {name}'
    answers: list = []

    def answered() -> bool:
        if not answers or time.monotonic() > answers[-1][0] + again_after:
            answers.append((time.monotonic(), client.call_async(request)))
        return any(future.done() for _, future in answers)

    spin_until(node, answered, f'an answer of {name}')
    node.destroy_client(client)
    return next(future.result() for _, future in answers if future.done())


class Inbox:
    """All messages of a topic."""

    def __init__(self, node: Node, message_type: type, topic: str) -> None:
        self.messages: list = []
        self._node = node
        self._topic = topic
        self._subscription = node.create_subscription(
            message_type, topic, self.messages.append, QoSProfile(depth=50)
        )

    def wait_for(self, condition: Callable[[object], bool], what: str) -> object:
        """Return the first message, from now on, for which the condition holds."""
        start = len(self.messages)
        found: list = []

        def look() -> bool:
            found.extend(message for message in self.messages[start:] if condition(message))
            return bool(found)

        spin_until(self._node, look, f'{what} on {self._topic}')
        return found[0]

    def close(self) -> None:
        """Stop listening."""
        self._node.destroy_subscription(self._subscription)
