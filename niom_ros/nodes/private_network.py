"""A ROS network of its own on this machine, and nodes in it: for the demo and the tests."""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
import os
from pathlib import Path
import signal
import socket
import subprocess

from niom_ros.errors import UserError
from niom_ros.installation import share_folder


def use_private_network() -> int:
    """Prepare this process and its children for a ROS domain that nobody else uses."""
    domain = free_domain_id()
    os.environ['ROS_DOMAIN_ID'] = str(domain)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    profile = share_folder() / 'config/fastdds_large_images.xml'
    os.environ.setdefault('FASTRTPS_DEFAULT_PROFILES_FILE', str(profile))
    return domain


def free_domain_id() -> int:
    """Return a ROS domain that nobody on this machine uses."""
    for domain in range(1, 101):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # The port on which DDS participants of this domain find each other.
                probe.bind(('', 7400 + 250 * domain))
            except OSError:
                continue
            return domain
    raise UserError('all ROS domains of this machine are in use: stop other ROS programs')


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
