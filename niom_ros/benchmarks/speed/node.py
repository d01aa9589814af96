"""The matcher node in its own process: how much it adds to the library, and its rate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
import os
from pathlib import Path
import subprocess
import sys
from tempfile import TemporaryDirectory
import time
from typing import Any

import numpy as np
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
import torch

import niom_ros
from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, Table
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.timing import interleaved, seconds_of, Spread
from niom_ros.benchmarks.speed.views import Attempt, demo_views, named, Size
from niom_ros.core.errors import UserError
from niom_ros.core.parameters import parameters_of
from niom_ros.core.settings import Settings
from niom_ros.matching.matcher import Matcher
from niom_ros.msg import Homography, MatchResult
from niom_ros.nodes.private_network import client_node, running, use_private_network
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo, View
from niom_ros.srv import SetReference

CAMERA_RATE = 30.0  # images per second
FILM_FRAMES = 60  # of a camera that moves to and fro
PATIENCE = 120.0  # seconds for anything to happen
FEWEST_RESULTS = 5  # with a camera, to compute a rate
LIBRARY, NODE = 'library', 'node'
WEIGHTING = 'sew'


class NodeFailed(UserError):
    """The node did not do what it should; the message says what went wrong."""


@dataclass(frozen=True)
class Window:
    """What the node did while the camera ran."""

    seconds: float
    results: list[MatchResult]
    arrivals: list[float]
    cpu_seconds: float


class NodeUnderTest:
    """A matcher process, the camera that it watches, and a client that receives its results."""

    def __init__(self, client: Node, process: subprocess.Popen, log: Path) -> None:
        """Open the topics."""
        self._client = client
        self._process = process
        self._log = log
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(client)
        self._camera = client.create_publisher(Image, 'image', QoSProfile(depth=1))
        self._results: list[MatchResult] = []
        self._arrivals: list[float] = []
        client.create_subscription(
            MatchResult, 'matcher/match', self._on_result, QoSProfile(depth=50)
        )

    def _on_result(self, result: MatchResult) -> None:
        self._results.append(result)
        self._arrivals.append(time.perf_counter())

    def set_reference(self, picture: np.ndarray) -> None:
        """Wait for the node, and set the reference."""
        client = self._client.create_client(SetReference, 'matcher/set_reference')
        self._wait(client.service_is_ready, 'the service set_reference')
        request = SetReference.Request(id=DEMO_PHOTO, image=rgb_to_message(picture, Header()))
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = client.call_async(request)
            self._wait(answer.done, 'an answer of set_reference')
            if answer.result().success:
                break
            # The networks are loaded after the services are offered.
            if time.monotonic() > deadline:
                raise NodeFailed(f'set_reference: {answer.result().message}')
            time.sleep(0.5)
        self._wait(lambda: self._camera.get_subscription_count() > 0, 'a subscription of images')

    def set_tracking(self, on: bool) -> None:
        """Switch tracking on or off."""
        client = self._client.create_client(SetParameters, 'matcher/set_parameters')
        self._wait(client.service_is_ready, 'the service set_parameters')
        value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=on)
        request = SetParameters.Request(parameters=[Parameter(name='tracking', value=value)])
        answer = client.call_async(request)
        self._wait(answer.done, 'an answer of set_parameters')

    def answer(self, message: Image) -> MatchResult:
        """Publish an image and wait for its result."""
        self._results.clear()
        self._arrivals.clear()
        stamp = self._publish(message)
        self._wait(lambda: any(r.header.stamp == stamp for r in self._results), 'a result')
        return next(r for r in self._results if r.header.stamp == stamp)

    def watch(
        self,
        messages: Iterator[Image],
        seconds: float,
        is_enough: Callable[[list[MatchResult]], bool],
        rate: float = CAMERA_RATE,
    ) -> Window:
        """Publish images like a camera for some seconds, longer until there are enough results."""
        self._results.clear()
        self._arrivals.clear()
        start, cpu_before = time.perf_counter(), cpu_seconds(self._process.pid)
        number = 0
        while (now := time.perf_counter() - start) < seconds or (
            not is_enough(self._results) and now < PATIENCE
        ):
            if now >= number / rate:
                self._publish(next(messages))
                number += 1
            pause = max(0.0, number / rate - (time.perf_counter() - start))
            self._executor.spin_once(timeout_sec=pause)
            self._check()
        cpu = cpu_seconds(self._process.pid) - cpu_before
        return Window(now, list(self._results), list(self._arrivals), cpu)

    def peak_memory(self) -> float:
        """Return the peak memory of the node, in megabytes."""
        return peak_memory(self._process.pid)

    def wait_until_heard(self, message: Image) -> None:
        """Publish until a result arrives: from then on no message is lost."""
        deadline = time.monotonic() + PATIENCE
        while not self._results:
            self._publish(message)
            again = time.monotonic() + 2.0
            while not self._results and time.monotonic() < again:
                self._executor.spin_once(timeout_sec=0.1)
            self._check()
            if time.monotonic() > deadline:
                raise NodeFailed(f'no result came within {PATIENCE:.0f} s')
        self.answer(message)

    def _publish(self, message: Image) -> Any:
        message.header.stamp = self._client.get_clock().now().to_msg()
        self._camera.publish(message)
        return message.header.stamp

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            self._check()
            if time.monotonic() > deadline:
                raise NodeFailed(f'{what} did not come within {PATIENCE:.0f} s')

    def _check(self) -> None:
        if self._process.poll() is not None:
            last = self._log.read_text(errors='replace').splitlines()[-1:]
            raise NodeFailed(f'the node ended by itself: {"".join(last)}')


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its threads."""
    # The name of the program, which may have spaces, is in brackets.
    fields = Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def peak_memory(process: int) -> float:
    """Return the peak memory of a process, in megabytes."""
    for line in Path(f'/proc/{process}/status').read_text().splitlines():
        if line.startswith('VmHWM:'):
            return int(line.split()[1]) * 1024 / 1e6
    raise NodeFailed('this system does not report the peak memory of a process')


def node_command(settings: Settings) -> list[str]:
    """Return the command that runs the matcher with the code that runs here."""
    # If several are installed, use the one that this file belongs to.
    here = str(Path(niom_ros.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (here, os.environ.get('PYTHONPATH', ''))))
    # All settings, so that node and library do the same work; an empty string is the default.
    parameters = {
        **{name: value for name, value in parameters_of(settings).items() if value != ''},
        'threads': torch.get_num_threads(),
        'weighting': WEIGHTING,
        'reliable_image': True,
        'tracking': False,  # until it is switched on
    }
    return [
        '/usr/bin/env',
        f'PYTHONPATH={path}',
        sys.executable,
        '-m',
        'niom_ros.nodes.matcher_node',
        '--ros-args',
        *(word for name, v in parameters.items() for word in ('-p', f'{name}:={as_yaml(v)}')),
    ]


def as_yaml(value: object) -> str:
    """Write a value as the command line of ROS reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_same(attempt: Attempt, result: MatchResult) -> bool:
    """Return whether node and library found the same: only then can their times be compared."""
    match = attempt.match
    return (
        result.homography.status == match.verdict.status
        and result.image_keypoints == match.image_keypoints
        and len(result.score) == len(match.correspondences)
        and result.inliers == attempt.inliers
    )


@contextmanager
def node_under_test(settings: Settings) -> Iterator[NodeUnderTest]:
    """Run a matcher on a private network until the end of the block."""
    use_private_network()
    with TemporaryDirectory(prefix='niom_bench_') as folder:
        log = Path(folder) / 'matcher.log'
        try:
            with running(node_command(settings), log) as process, client_node('bench') as node:
                yield NodeUnderTest(node, process, log)
        except ExternalShutdownException:  # rclpy handles Ctrl-C itself
            raise KeyboardInterrupt from None


def measure_node(
    matcher: Matcher,
    settings: Settings,
    size: Size,
    rounds: int,
    seconds: float,
    progress: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Compare node and library on the same frames, then let a camera run for some seconds."""
    picture = example_photo(DEMO_PHOTO)
    views = demo_views(size, rounds + 1)
    messages = [rgb_to_message(view.image, Header(frame_id='bench')) for view in views]
    matches = FullMatches(matcher, matcher.prepare(picture), WEIGHTING)
    progress(f'starting the node for {named(size)}')
    with node_under_test(settings) as tested:
        tested.set_reference(picture)
        tested.wait_until_heard(messages[0])
        tasks: dict[str, Callable[[int], Any]] = {
            LIBRARY: lambda number: matches.find(views[number]),
            NODE: lambda number: tested.answer(messages[number]),
        }
        laps = interleaved(tasks, rounds, progress=lambda what: progress(f'{named(size)}: {what}'))
        progress(f'{named(size)}: node with a camera of {CAMERA_RATE:.0f} Hz')
        matching = tested.watch(cycle(messages), seconds, are_enough)
        tested.set_tracking(True)
        film = cycle(
            [rgb_to_message(view.image, Header(frame_id='bench')) for view in film_of(size)]
        )
        tested.watch(film, 0.0, lambda results: any(map(is_tracked, results)))
        tracking = tested.watch(film, seconds, are_enough)
        memory = tested.peak_memory()
    library, node = (seconds_of(laps[name]) for name in (LIBRARY, NODE))
    overhead = Spread.of_ratios(node, library)
    same = [
        is_same(alone.result, over_ros.result)
        for alone, over_ros in zip(laps[LIBRARY], laps[NODE], strict=True)
    ]
    matched, matched_rows = at_camera_rate(matching, 'only matching')
    tracked, tracked_rows = at_camera_rate(tracking, 'tracking')
    values: dict[str, Any] = {
        'camera_rate': CAMERA_RATE,
        'only_matching': matched,
        'tracking': tracked,
        'node_overhead': asdict(overhead),
        'same_answers': sum(same) / len(same),
        'node_seconds': spread(node),
        'library_seconds': spread(library),
        'to_publishing_seconds': spread([lap.result.latency for lap in laps[NODE]]),
        'peak_memory_megabytes': memory,
    }
    table = Table(
        f'The node at {named(size)} (rounds: {rounds}, then a camera of {CAMERA_RATE:.0f} Hz)',
        ('what', 'value'),
        [
            ('node / library', str(overhead)),
            ('both gave the same answer', f'{sum(same) / len(same):.0%}'),
            ('library in ms', milliseconds(library)),
            ('node in ms, from publishing to result', milliseconds(node)),
            *matched_rows,
            *tracked_rows,
            ('peak memory in MB', f'{memory:.0f}'),
        ],
    )
    return Findings({'node_overhead': overhead.median, 'node': {named(size): values}}, (table,))


def film_of(size: Size) -> list[View]:
    """Return views of a camera that moves to and fro, so that they can be repeated smoothly."""
    views = demo_views(size, FILM_FRAMES, 1 / CAMERA_RATE)
    return [*views, *views[-2:0:-1]]


def are_enough(results: list[MatchResult]) -> bool:
    """Return whether there are enough results to compute a rate."""
    return len(results) >= FEWEST_RESULTS


def is_tracked(result: MatchResult) -> bool:
    """Return whether a frame was answered by following what was found before."""
    return bool(result.homography.source == Homography.TRACKED)


def at_camera_rate(window: Window, how: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the node did while a camera ran, for JSON and as rows of a table."""
    count = len(window.results)
    if count < 2:
        raise NodeFailed(f'the node answered {count} times in {window.seconds:.0f} s')
    latencies = [result.latency for result in window.results]
    slow = float(np.quantile(latencies, 0.95))
    rate = (count - 1) / (window.arrivals[-1] - window.arrivals[0])
    cpu = window.cpu_seconds / count
    tracked = sum(map(is_tracked, window.results))
    values = {
        'results': count,
        'tracked_share': tracked / count,
        'results_per_second': rate,
        'latency_seconds': spread(latencies),
        'latency_95_percent': slow,
        'cpu_seconds_per_result': cpu,
    }
    rows = [
        (f'{how}: results per second', f'{rate:.2f}'),
        (f'{how}: latency in ms, from stamp to publishing', milliseconds(latencies)),
        (f'{how}: 95 % of latencies below', f'{1000 * slow:.1f}'),
        (f'{how}: CPU seconds per result', f'{cpu:.3f}'),
        (f'{how}: share of results that are tracked', f'{tracked / count:.2f}'),
    ]
    return values, rows
