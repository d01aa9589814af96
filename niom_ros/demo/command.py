"""The demo: camera, matcher and client as separate processes that talk ROS 2."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
import json
from pathlib import Path
import time
from typing import Any

import cv2
from geometry_msgs.msg import Pose, PoseStamped, PoseWithCovarianceStamped
import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason
from niom_ros.core.homographies import warp_points
from niom_ros.core.installation import executable_file, share_folder
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.msg import Homography, LandmarkArray, MatchResult
from niom_ros.nodes.private_network import client_node, running, use_private_network
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.demo_sketch import demo_sketch
from niom_ros.simulation.virtual_scene import DEMO_PHOTO
from niom_ros.srv import SetReference

SECONDS = 150.0  # for everything
EXIT_TIMEOUT = 2.0  # seconds that a failing node may take to end
MIN_SHARE_OK = 0.8
MAX_ERRORS = {
    'mean corner error in px': 12.0,
    'mean landmark error in px': 8.0,
    'mean position error in mm': 30.0,
}
PHOTO_WIDTH = 0.3  # metres, as the virtual camera has it
LANDMARKS = {'coffee': (290.0, 150.0), 'handle': (226.0, 275.0), 'spoon': (362.0, 305.0)}
MIN_RESULTS = 5  # a slow or busy machine may not reach the number that was asked for
PICTURE_TOPICS = ('debug_image', 'overlay_image', 'heatmap_image')
PICTURES = 3  # of each
LOG_LINES = 15  # shown of a node that failed

SOURCES = {
    Homography.NONE: 'none',
    Homography.MATCHED: 'matched',
    Homography.TRACKED: 'tracked',
}

Stamp = tuple[int, int]


class DemoFailed(UserError):
    """The demo failed; the message says why."""


@dataclass(kw_only=True)
class Recording:
    """Everything the client received, by the stamp of the camera image."""

    results: list[MatchResult] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    truths: dict[Stamp, np.ndarray] = field(default_factory=dict)
    landmarks: dict[Stamp, np.ndarray] = field(default_factory=dict)
    places: dict[Stamp, np.ndarray] = field(default_factory=dict)
    true_places: dict[Stamp, np.ndarray] = field(default_factory=dict)
    pictures: dict[str, dict[Stamp, np.ndarray]] = field(
        default_factory=lambda: {topic: {} for topic in PICTURE_TOPICS}
    )

    def corner_errors(self) -> list[float]:
        """Return the corner error of each OK frame, in pixels."""
        errors = []
        for result in self.results:
            truth = self.truths.get(stamp_of(result.header))
            if result.homography.status == Homography.OK and truth is not None:
                homography = result.homography
                found = np.array(homography.matrix).reshape(3, 3)
                reference = Box(0, 0, homography.reference_width, homography.reference_height)
                errors.append(corner_error(found, truth, reference))
        return errors

    def landmark_errors(self) -> list[float]:
        """Return how far each landmark is from its true place, in pixels."""
        return [
            float(error)
            for stamp, found in self.landmarks.items()
            if stamp in self.truths
            for error in np.linalg.norm(
                found - warp_points(self.truths[stamp], np.array([*LANDMARKS.values()])), axis=1
            )
        ]

    def position_errors(self) -> list[float]:
        """Return how far the photo is from its true position in space, in millimetres."""
        return [
            1000 * float(np.linalg.norm(found - self.true_places[stamp]))
            for stamp, found in self.places.items()
            if stamp in self.true_places
        ]

    def summary(self) -> dict[str, Any]:
        """Return the numbers that the demo prints."""
        statuses = Counter(Status(r.homography.status).name for r in self.results)
        errors = self.corner_errors()
        latencies = [result.latency for result in self.results]
        stages: dict[str, list[float]] = {}
        for result in self.results:
            for name, seconds in zip(result.stage_names, result.stage_seconds, strict=True):
                stages.setdefault(name, []).append(seconds)
        sources = Counter(SOURCES[r.homography.source] for r in self.results)
        span = self.arrivals[-1] - self.arrivals[0]
        return {
            'camera frames': self.results[-1].frames_received,
            'results': len(self.results),
            'results per second': (len(self.results) - 1) / span if span > 0 else 0.0,
            'median latency in s': float(np.median(latencies)),
            'longest latency in s': max(latencies),
            'median seconds per stage': {n: float(np.median(s)) for n, s in stages.items()},
            'statuses': dict(statuses),
            'sources': dict(sources),
            'mean corner error in px': mean(errors),
            'largest corner error in px': max(errors) if errors else None,
            'mean landmark error in px': mean(self.landmark_errors()),
            'mean position error in mm': mean(self.position_errors()),
        }


def mean(values: list[float]) -> float | None:
    """Return the mean, if there is one."""
    return float(np.mean(values)) if values else None


def run_demo(output: Path, results_wanted: int) -> None:
    """Run camera and matcher, set the reference, collect results, and check them."""
    if results_wanted < 1:
        raise DemoFailed(f'--results is {results_wanted}: it must be 1 or more')
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f'cannot write to the folder {output}: {reason(error)}') from None
    deadline = time.monotonic() + SECONDS
    # A domain of its own, so that the demo neither disturbs a running robot nor hears it.
    domain = use_private_network()
    print(f'starting camera and matcher (ROS_DOMAIN_ID {domain})', flush=True)
    matcher_log, camera_log = output / 'matcher.log', output / 'virtual_camera.log'
    try:
        with (
            running(node_command('matcher_node', 'matcher.yaml'), matcher_log) as matcher,
            running(node_command('virtual_camera', 'virtual_camera.yaml'), camera_log) as camera,
            client_node('demo') as node,
        ):

            def check() -> None:
                for process, log in ((matcher, matcher_log), (camera, camera_log)):
                    if process.poll() is not None:
                        raise DemoFailed(f'a node exited unexpectedly:\n{tail(log)}')

            set_reference(node, deadline, check)
            recording = record(node, results_wanted, deadline, check)
    except ExternalShutdownException:
        raise DemoFailed('stopped by a signal') from None
    summary = recording.summary()
    write_pictures(recording, output)
    (output / 'summary.json').write_text(json.dumps(summary, indent=2) + '\n')
    print_summary(summary)
    print(f'pictures, logs and summary.json are in {output.resolve()}')
    judge(summary)


def node_command(executable: str, params_file: str) -> list[str]:
    """Return the command that runs an installed node with a parameter file of the package."""
    parameters = share_folder() / 'config' / params_file
    return [str(executable_file(executable)), '--ros-args', '--params-file', str(parameters)]


def set_reference(node: Node, deadline: float, check: Callable[[], None]) -> None:
    """Set the sketch as the reference, through the matcher's service."""
    client = node.create_client(SetReference, 'matcher/set_reference')
    while not client.wait_for_service(timeout_sec=0.5):
        check()
        if time.monotonic() > deadline:
            raise DemoFailed(f'the matcher did not start within {SECONDS:.0f} s')
    request = SetReference.Request(id=DEMO_PHOTO, label='cup', physical_width=PHOTO_WIDTH)
    request.image = rgb_to_message(demo_sketch(), Header())
    request.landmark_names = list(LANDMARKS)
    request.landmark_x = [x for x, _ in LANDMARKS.values()]
    request.landmark_y = [y for _, y in LANDMARKS.values()]
    future = client.call_async(request)
    while not future.done():
        rclpy.spin_until_future_complete(node, future, timeout_sec=0.5)
        check()
        if time.monotonic() > deadline:
            raise DemoFailed(f'set_reference did not answer within {SECONDS:.0f} s')
    answer = future.result()
    if not answer.success:
        time.sleep(EXIT_TIMEOUT)  # if the node cannot start, see its log
        check()
        raise DemoFailed(f'set_reference: {answer.message}')
    print(f'set_reference: {answer.message}', flush=True)


def record(node: Node, wanted: int, deadline: float, check: Callable[[], None]) -> Recording:
    """Collect results that use the reference, the truth about them, and pictures."""
    recording = Recording()

    def on_result(result: MatchResult) -> None:
        if result.homography.reference_id:
            recording.results.append(result)
            recording.arrivals.append(time.monotonic())

    def on_truth(truth: Homography) -> None:
        recording.truths[stamp_of(truth.header)] = np.array(truth.matrix).reshape(3, 3)

    def on_landmarks(landmarks: LandmarkArray) -> None:
        if landmarks.names:
            found = np.column_stack([landmarks.x, landmarks.y])
            recording.landmarks[stamp_of(landmarks.header)] = found

    def on_pose(pose: PoseWithCovarianceStamped) -> None:
        recording.places[stamp_of(pose.header)] = place_of(pose.pose.pose)

    def on_true_pose(pose: PoseStamped) -> None:
        recording.true_places[stamp_of(pose.header)] = place_of(pose.pose)

    def on_picture(topic: str, picture: Image) -> None:
        recording.pictures[topic][stamp_of(picture.header)] = message_to_rgb(picture)

    every_one, latest = QoSProfile(depth=100), QoSProfile(depth=10)
    subscriptions: tuple[tuple[type, str, Callable[[Any], None], QoSProfile], ...] = (
        (Homography, 'virtual_camera/truth', on_truth, every_one),
        (PoseStamped, 'virtual_camera/truth_pose', on_true_pose, every_one),
        (MatchResult, 'matcher/match', on_result, latest),
        (LandmarkArray, 'matcher/landmarks', on_landmarks, latest),
        (PoseWithCovarianceStamped, 'matcher/pose', on_pose, latest),
        *((Image, f'matcher/{t}', partial(on_picture, t), latest) for t in PICTURE_TOPICS),
    )
    for kind, topic, callback, quality in subscriptions:
        node.create_subscription(kind, topic, callback, quality)
    shown = 0
    while len(recording.results) < wanted or not all(recording.pictures.values()):
        rclpy.spin_once(node, timeout_sec=0.5)
        check()
        if len(recording.results) // 5 > shown:
            shown = len(recording.results) // 5
            print(f'{len(recording.results)} of {wanted} results', flush=True)
        if time.monotonic() > deadline:
            break
    if len(recording.results) < min(wanted, MIN_RESULTS):
        raise DemoFailed(
            f'only {len(recording.results)} results arrived within {SECONDS:.0f} s: '
            'see the logs in the output folder'
        )
    return recording


def write_pictures(recording: Recording, output: Path) -> None:
    """Write some of the pictures, spread over the run."""
    for topic, received in recording.pictures.items():
        pictures = list(received.values())
        chosen = np.linspace(0, len(pictures) - 1, min(PICTURES, len(pictures))).astype(int)
        for number, index in enumerate(chosen, start=1):
            picture = cv2.cvtColor(pictures[index], cv2.COLOR_RGB2BGR)
            cv2.imwrite(str(output / f'{topic}_{number}.png'), picture)


def print_summary(summary: dict[str, Any]) -> None:
    """Print the table."""
    for name, value in summary.items():
        if isinstance(value, dict):
            value = ', '.join(f'{k} {shown(v)}' for k, v in value.items())
        print(f'  {name:26} {shown(value)}')


def shown(value: object) -> str:
    """Return a value for the table."""
    return f'{value:.2f}' if isinstance(value, float) else str(value)


def judge(summary: dict[str, Any]) -> None:
    """Fail unless the reference was found, and in the right place."""
    share_ok = summary['statuses'].get('OK', 0) / summary['results']
    if share_ok < MIN_SHARE_OK:
        raise DemoFailed(
            f'only {share_ok:.0%} of the frames are OK: {MIN_SHARE_OK:.0%} are needed'
        )
    for name, limit in MAX_ERRORS.items():
        error = summary[name]
        if error is None or error > limit:
            raise DemoFailed(f'the {name} is {error}: it must be {limit} or less')


def place_of(pose: Pose) -> np.ndarray:
    """Return the position of a pose."""
    return np.array([pose.position.x, pose.position.y, pose.position.z])


def stamp_of(header: Header) -> Stamp:
    """Return a stamp as a dictionary key."""
    return header.stamp.sec, header.stamp.nanosec


def tail(log: Path) -> str:
    """Return the end of a log file."""
    return '\n'.join(log.read_text(errors='replace').splitlines()[-LOG_LINES:])
