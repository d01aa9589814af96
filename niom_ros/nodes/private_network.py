"""A private ROS network on this machine, and nodes in it, for the demo and the tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import os
from pathlib import Path
import signal
import socket
import subprocess

import rclpy
from rclpy.node import Node

from niom_ros.core.errors import UserError
from niom_ros.core.installation import share_folder

DOMAINS = range(1, 101)

_claims: dict[int, socket.socket] = {}  # kept open until this process ends


def use_private_network() -> int:
    """Put this process and its children into a ROS domain that no other process uses."""
    domain = next(iter(_claims), None) or claim_domain()
    os.environ['ROS_DOMAIN_ID'] = str(domain)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    profile = share_folder() / 'config/fastdds_large_images.xml'
    os.environ.setdefault('FASTRTPS_DEFAULT_PROFILES_FILE', str(profile))
    return domain


def claim_domain() -> int:
    """Reserve a ROS domain that is unused on this machine, until this process ends."""
    for domain in DOMAINS:
        claim = socket.socket(socket.AF_UNIX)
        try:
            # An abstract name has no file and disappears with the process, however it ends.
            claim.bind(f'\0niom_ros domain {domain}')
        except OSError:
            claim.close()
            continue
        if is_silent(domain):
            _claims[domain] = claim
            return domain
        claim.close()
    raise UserError('all ROS domains of this machine are in use: stop other ROS programs')


def is_silent(domain: int) -> bool:
    """Return whether no DDS participant of this domain runs on this machine."""
    first_port = 7400 + 250 * domain
    # The multicast port, which participants share, and the unicast ports of the first ten.
    for port in (first_port, *range(first_port + 10, first_port + 30)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(('', port))
            except OSError:
                return False
    return True


@contextmanager
def client_node(name: str) -> Iterator[Node]:
    """Join the network with a node, which leaves it at the end of the block."""
    use_private_network()
    rclpy.init()
    try:
        node = rclpy.create_node(name)
        try:
            yield node
        finally:
            # Otherwise its topics would stay visible as long as anything refers to it.
            node.destroy_node()
    finally:
        rclpy.try_shutdown()


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[subprocess.Popen]:
    """Run a node as its own process until the end of the block, with its output in a file."""
    with log.open('w') as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
