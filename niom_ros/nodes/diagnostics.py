"""What /diagnostics reports: whether images arrive, and how matching performs."""

from collections.abc import Iterable
from pathlib import Path
import resource
import time

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
import torch

from niom_ros.core.faults import printable
from niom_ros.core.listing import listed
from niom_ros.matching.geometry import Status
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.statistics import Summary

RECENT_FAULT = 10.0  # seconds for which a fault is a warning
MAX_TOPICS = 12  # listed when no image arrives
IMAGE_TOPIC_TYPES = ('sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage')

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


def camera_status(
    node: Node,
    camera: CameraInput,
    summary: Summary,
    *,
    dropped: int,
    timeout: float,
    active_seconds: float,
) -> DiagnosticStatus:
    """Report how images arrive or, if they do not, what may help."""
    received, _ = camera.frames.counts
    stamps, publishers = camera.stamps, node.count_publishers(camera.topic)
    calibrations = node.count_publishers(camera.info_topic)
    values = {
        'topic': camera.topic,
        'publishers': publishers,
        'rate in (Hz)': f'{summary.rate_in:.2f}',
        'frames received': received,
        'frames dropped (newer came)': dropped,
        'duplicate stamps (ignored)': stamps.duplicates,
        'late stamps (ignored)': stamps.late,
        'clock resets': stamps.resets,
        'without stamp': stamps.unstamped,
        'camera_info': 'received' if camera.has_calibration() else 'none',
    }
    silence = active_seconds
    if summary.seconds_since_image is not None:
        silence = min(silence, summary.seconds_since_image)
    if camera.incompatible and silence > timeout:
        level, message = ERROR, camera.incompatible
    elif silence > timeout and time.monotonic() - camera.ignored < timeout:
        level = ERROR
        message = (
            f'images arrive on {camera.topic}, but their stamps are not newer than earlier ones: '
            'check the clock of the camera, and whether two cameras publish there'
        )
    elif silence > timeout:
        level, message = ERROR, no_image(node, camera, silence)
    elif not received:
        level, message = WARN, f'waiting for the first image on {camera.topic}'
    elif camera.incompatible:
        level, message = WARN, camera.incompatible
    elif publishers > 1:
        level = WARN
        message = (
            f'{publishers} cameras publish on {camera.topic}, and their images are mixed: '
            'remap image so that each matcher receives one'
        )
    elif calibrations > 1:
        level = WARN
        message = (
            f'{calibrations} cameras publish on {camera.info_topic}, so the calibration may be '
            'that of another camera: remap camera_info so that each matcher receives one'
        )
    else:
        level, message = OK, f'images arrive at {summary.rate_in:.1f} Hz'
    return status(node, 'camera', level, message, values)


def no_image(node: Node, camera: CameraInput, silence: float) -> str:
    """Report that no image arrives, and which image topics exist."""
    others = [
        f'{topic} ({kind.rpartition("/")[2]})'
        for topic, kinds in sorted(node.get_topic_names_and_types())
        for kind in kinds
        if kind in IMAGE_TOPIC_TYPES
        and node.count_publishers(topic)
        and not topic.startswith(f'{node.get_fully_qualified_name()}/')
    ]
    message = f'no image for {silence:.0f} s on {camera.topic}; '
    if not others:
        return message + 'no image topic exists: start the camera, check ROS_DOMAIN_ID'
    message += f'these image topics exist: {listed(others, MAX_TOPICS)}'
    if node.count_publishers(camera.topic):
        return message + '; it has a publisher, but nothing arrives: check its type and QoS'
    return message + '; remap image to one of them'


def matching_status(
    node: Node, summary: Summary, state: str, values: dict[str, object], problem: str = ''
) -> DiagnosticStatus:
    """Report how matching performs."""
    numbers: dict[str, object] = {
        'state': state,
        'rate out (Hz)': f'{summary.rate_out:.2f}',
        'latency, capture to publish (s)': seconds(summary.latency),
    }
    for stage, taken in summary.stages.items():
        numbers[f'{stage} (s)'] = seconds(taken)
    for name in (status.name for status in Status):
        if name in summary.statuses:
            numbers[f'frames {name}'] = summary.statuses[name]
    numbers |= values
    numbers['last fault'] = (
        f'{summary.fault} ({summary.fault_age:.0f} s ago)' if summary.fault else 'none'
    )
    if state != 'active' and problem:
        level, message = ERROR, problem
    elif state == 'unconfigured':
        name = node.get_fully_qualified_name()
        level = WARN
        message = f'{state}: nothing is matched until ros2 lifecycle set {name} configure'
    elif state != 'active':
        level, message = OK, f'{state}: nothing is matched'
    elif summary.fault and summary.fault_age < RECENT_FAULT:
        level, message = WARN, summary.fault
    elif problem:
        level, message = WARN, problem
    else:
        level, message = OK, f'{summary.rate_out:.2f} results per second'
    return status(node, 'matching', level, message, numbers)


def namesakes(node: Node) -> str:
    """Say that another node has the same name; '': none has."""
    own = node.get_name(), node.get_namespace()
    count = node.get_node_names_and_namespaces().count(own)
    if count <= 1:
        return ''
    name = node.get_fully_qualified_name()
    return (
        f'{count} nodes are called {name}, so their results and services are mixed: give each its '
        'own namespace or name (one that was killed disappears within 20 s)'
    )


def seconds(value: float | None) -> str:
    """Return a time as text."""
    return 'none' if value is None else f'{value:.3f}'


def memory() -> dict[str, str]:
    """Return the memory that this process uses."""
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    values = {'memory (MB)': f'{pages * resource.getpagesize() / 1e6:.0f}'}
    if torch.cuda.is_initialized():
        values['GPU memory (MB)'] = f'{torch.cuda.memory_allocated() / 1e6:.0f}'
    return values


def status(
    node: Node, part: str, level: bytes, message: str, values: dict[str, object]
) -> DiagnosticStatus:
    """Return one entry of the diagnostics in the standard form."""
    return DiagnosticStatus(
        level=level,
        name=f'{node.get_fully_qualified_name().removeprefix("/")}: {part}',
        message=message,
        hardware_id=node.get_fully_qualified_name(),
        values=key_values(values.items()),
    )


def key_values(pairs: Iterable[tuple[str, object]]) -> list[KeyValue]:
    """Return names and values as a diagnostics message holds them."""
    return [KeyValue(key=key, value=printable(str(value))) for key, value in pairs]
