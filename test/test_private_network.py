import socket
import subprocess
import sys

import rclpy
from ros_client import ros_network, running, spin_until
from sensor_msgs.msg import Image

from niom_ros.nodes.private_network import is_silent

CLAIM = 'from niom_ros.nodes.private_network import claim_domain; print(claim_domain())'


def claimed_by_another_process():
    return subprocess.run(
        [sys.executable, '-c', CLAIM], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_two_processes_never_share_a_domain():
    with ros_network() as node:
        ours = node.context.get_domain_id()
        assert int(claimed_by_another_process()) != ours


def test_nothing_is_known_of_a_client_that_has_left():
    kept = []  # as fixtures and garbage may keep it
    with ros_network() as node:
        kept.append(node.create_publisher(Image, 'image', 1))
        spin_until(node, lambda: node.count_publishers('image') == 1, 'it')
    with ros_network() as node:
        kept.append(node.create_publisher(Image, 'other', 1))
        spin_until(node, lambda: node.count_publishers('other') == 1, 'it')
        for _ in range(10):
            rclpy.spin_once(node, timeout_sec=0.1)  # others would be discovered by now
        assert node.count_publishers('image') == 0


def test_a_domain_with_a_node_in_it_is_not_silent(tmp_path):
    with ros_network() as node:
        domain = node.context.get_domain_id()
        with running('virtual_camera', tmp_path / 'log.txt'):
            spin_until(node, lambda: node.count_publishers('image'), 'the camera')
            assert not is_silent(domain)


def test_a_domain_is_silent_until_somebody_takes_one_of_its_ports():
    domain = int(claimed_by_another_process())  # which has ended by now
    assert is_silent(domain)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        participant.bind(('', 7400 + 250 * domain + 10))
        assert not is_silent(domain)
    assert is_silent(domain)
