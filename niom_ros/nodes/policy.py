"""Write the SROS 2 policy that lets a running node do what it needs to do.

    python -m niom_ros.nodes.policy /matcher > matcher_policy.xml

asks the ROS graph which topics and services that node has right now, so the policy fits its
namespace, remappings and parameters. security/matcher_policy.xml is the policy of the node with
default names, and with everything that its parameters can switch on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
import sys
import time
from typing import NoReturn
from xml.etree import ElementTree

import rclpy
from rclpy.node import Node

# What the node also publishes where tf2_ros is installed.
TF_TOPICS = frozenset({'/tf'})
SECONDS = 5.0  # until all nodes have been discovered

Query = Callable[[str, str], list[tuple[str, list[str]]]]  # by the name and namespace of a node


@dataclass(frozen=True)
class Interfaces:
    """The names of the topics and services that a node uses."""

    subscribed: frozenset[str] = frozenset()
    published: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()  # services that others call
    called: frozenset[str] = frozenset()  # services of other nodes

    def __or__(self, other: Interfaces) -> Interfaces:
        return Interfaces(
            subscribed=self.subscribed | other.subscribed,
            published=self.published | other.published,
            offered=self.offered | other.offered,
            called=self.called | other.called,
        )


def interfaces_of(asking: Node, name: str, namespace: str) -> Interfaces:
    """Return what the graph knows about a node now."""

    def names(query: Query) -> frozenset[str]:
        return frozenset(each for each, _ in query(name, namespace))

    return Interfaces(
        subscribed=names(asking.get_subscriber_names_and_types_by_node),
        published=names(asking.get_publisher_names_and_types_by_node),
        offered=names(asking.get_service_names_and_types_by_node),
        called=names(asking.get_client_names_and_types_by_node),
    )


def policy_of(interfaces: Interfaces, name: str, namespace: str) -> str:
    """Return the policy that allows a node exactly this, in an enclave named like the node."""
    root = ElementTree.Element('policy', version='0.2.0')
    path = f'{namespace.rstrip("/")}/{name}'
    enclave = ElementTree.SubElement(
        ElementTree.SubElement(root, 'enclaves'), 'enclave', path=path
    )
    profile = ElementTree.SubElement(
        ElementTree.SubElement(enclave, 'profiles'), 'profile', ns=namespace, node=name
    )
    allow(profile, 'topic', 'subscribe', interfaces.subscribed)
    allow(profile, 'topic', 'publish', interfaces.published)
    allow(profile, 'service', 'reply', interfaces.offered)
    allow(profile, 'service', 'request', interfaces.called)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def allow(profile: ElementTree.Element, kind: str, what: str, names: Iterable[str]) -> None:
    """Allow one kind of use for a list of names."""
    listed = sorted(names)
    if listed:
        group = ElementTree.SubElement(profile, f'{kind}s', {what: 'ALLOW'})
        for each in listed:
            ElementTree.SubElement(group, kind).text = each


def main() -> NoReturn:
    """Print the policy of a running node."""
    if len(sys.argv) != 2 or not sys.argv[1].startswith('/'):
        sys.exit('usage: python -m niom_ros.nodes.policy /NAMESPACE/NODE')
    namespace, _, name = sys.argv[1].rpartition('/')
    namespace = namespace or '/'
    rclpy.init()
    asking = rclpy.create_node('policy_writer')
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        rclpy.spin_once(asking, timeout_sec=0.1)
    if (name, namespace) not in asking.get_node_names_and_namespaces():
        sys.exit(f'there is no node {sys.argv[1]}: start it, and check with `ros2 node list`')
    found = interfaces_of(asking, name, namespace) | Interfaces(published=TF_TOPICS)
    print(policy_of(found, name, namespace), end='')
    rclpy.try_shutdown()
    sys.exit(0)


if __name__ == '__main__':
    main()
