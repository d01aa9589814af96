"""The matcher node in its own process: how much it adds to the library, and its rate."""

from collections.abc import Callable, Iterable, Iterator
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
from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, Lap, seconds_of, Spread
from niom_ros.benchmarks.speed.views import Attempt, demo_views, named, Size
from niom_ros.core.errors import UserError
from niom_ros.core.parameters import parameters_of
from niom_ros.core.settings import Settings, WeightingKind
from niom_ros.msg import Homography, MatchResult
from niom_ros.nodes.outputs import PICTURES
from niom_ros.nodes.private_network import client_node, running, use_private_network
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo, View
from niom_ros.srv import SetReference

CAMERA_RATE = 30.0  # images per second
FILM_FRAMES = 60  # of a camera that moves back and forth
REPLY_TIMEOUT = 120.0  # seconds, for every step of the node
MIN_RESULTS = 5  # with a camera, to compute a rate
LIBRARY, NODE = 'library', 'node'
UNWATCHED, WATCHED = 'no picture', 'all pictures'  # that somebody subscribes to
SETTLING = 1.0  # seconds until the node knows its subscribers
WEIGHTING: WeightingKind = 'sew'


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

    def set_reference(self, picture: np.ndarray) -> int:
        """Wait for the node, set the reference, and return its revision."""
        client = self._client.create_client(SetReference, 'matcher/set_reference')
        self._wait(client.service_is_ready, 'the service set_reference')
        request = SetReference.Request(id=DEMO_PHOTO, image=rgb_to_message(picture, Header()))
        deadline = time.monotonic() + REPLY_TIMEOUT
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
        return int(answer.result().revision)

    def set_tracking(self, on: bool) -> None:
        """Switch tracking on or off."""
        client = self._client.create_client(SetParameters, 'matcher/set_parameters')
        self._wait(client.service_is_ready, 'the service set_parameters')
        value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=on)
        request = SetParameters.Request(parameters=[Parameter(name='tracking', value=value)])
        answer = client.call_async(request)
        self._wait(answer.done, 'an answer of set_parameters')

    @contextmanager
    def watching(self, topics: Iterable[str]) -> Iterator[None]:
        """Subscribe to pictures of the node until the end of the block."""
        subscriptions = [
            self._client.create_subscription(
                Image, topic.replace('~', 'matcher'), lambda _: None, QoSProfile(depth=1)
            )
            for topic in topics
        ]
        try:
            yield
        finally:
            for subscription in subscriptions:
                self._client.destroy_subscription(subscription)

    def lock_on(self, picture: np.ndarray, film: Iterator[Image]) -> float:
        """Set the reference again; return for how many seconds a film runs until it is tracked."""
        revision = self.set_reference(picture)

        def is_locked(results: list[MatchResult]) -> bool:
            return any(
                is_tracked(result) and result.homography.reference_revision == revision
                for result in results
            )

        return self.watch(film, 0.0, is_locked).seconds

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
    ) -> Window:
        """Publish images like a camera for some seconds, and on until there are enough results."""
        self._results.clear()
        self._arrivals.clear()
        start, cpu_before = time.perf_counter(), cpu_seconds(self._process.pid)
        number = 0
        while (now := time.perf_counter() - start) < seconds or (
            not is_enough(self._results) and now < REPLY_TIMEOUT
        ):
            if now >= number / CAMERA_RATE:
                self._publish(next(messages))
                number += 1
            pause = max(0.0, number / CAMERA_RATE - (time.perf_counter() - start))
            self._executor.spin_once(timeout_sec=pause)
            self._check()
        cpu = cpu_seconds(self._process.pid) - cpu_before
        return Window(now, list(self._results), list(self._arrivals), cpu)

    def peak_memory(self) -> float:
        """Return the peak memory of the node, in megabytes."""
        return peak_memory(self._process.pid)

    def wait_until_heard(self, message: Image) -> None:
        """Publish until a result arrives: from then on no message is lost."""
        deadline = time.monotonic() + REPLY_TIMEOUT
        while not self._results:
            self._publish(message)
            again = time.monotonic() + 2.0
            while not self._results and time.monotonic() < again:
                self._executor.spin_once(timeout_sec=0.1)
            self._check()
            if time.monotonic() > deadline:
                raise NodeFailed(f'no result arrived within {REPLY_TIMEOUT:.0f} s')
        self.answer(message)

    def _publish(self, message: Image) -> Any:
        message.header.stamp = self._client.get_clock().now().to_msg()
        self._camera.publish(message)
        return message.header.stamp

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + REPLY_TIMEOUT
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            self._check()
            if time.monotonic() > deadline:
                raise NodeFailed(f'{what} did not arrive within {REPLY_TIMEOUT:.0f} s')

    def _check(self) -> None:
        if self._process.poll() is not None:
            last = self._log.read_text(errors='replace').splitlines()[-1:]
            raise NodeFailed(f'the node exited unexpectedly: {"".join(last)}')


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


def measure_node(setup: BenchSetup, size: Size, seconds: float) -> Findings:
    """Compare node and library on the same frames, then let a camera run for some seconds."""
    picture = example_photo(DEMO_PHOTO)
    views = demo_views(size, setup.rounds + 1)
    messages = [rgb_to_message(view.image, Header(frame_id='bench')) for view in views]
    matches = FullMatches(setup.matcher, setup.matcher.prepare(picture), WEIGHTING)
    setup.progress(f'starting the node for {named(size)}')
    with node_under_test(setup.settings) as tested:
        tested.set_reference(picture)
        tested.wait_until_heard(messages[0])
        tasks: dict[str, Callable[[int], Any]] = {
            LIBRARY: lambda number: matches.find(views[number]),
            NODE: lambda number: tested.answer(messages[number]),
        }
        laps = interleaved(
            tasks, setup.rounds, progress=lambda what: setup.progress(f'{named(size)}: {what}')
        )
        setup.progress(f'{named(size)}: node with a camera of {CAMERA_RATE:.0f} Hz')
        matching = tested.watch(cycle(messages), seconds, are_enough)
        tested.set_tracking(True)
        film = cycle(
            [rgb_to_message(view.image, Header(frame_id='bench')) for view in film_of(size)]
        )
        tested.watch(film, 0.0, lambda results: any(map(is_tracked, results)))
        tracking = tested.watch(film, seconds, are_enough)
        memory = tested.peak_memory()
        setup.progress(f'{named(size)}: locking on with and without pictures')
        locks = interleaved_locks(tested, picture, film, setup.rounds)
    measured = NodeMeasurements(
        laps=laps, matching=matching, tracking=tracking, memory=memory, locks=locks
    )
    return findings_of(measured, size, setup.rounds)


@dataclass(frozen=True)
class NodeMeasurements:
    """All that was measured about the node at one image size."""

    laps: dict[str, list[Lap]]  # of library and node, on the same frames
    matching: Window  # with a camera, without tracking
    tracking: Window
    memory: float  # megabytes, the peak
    locks: dict[str, list[float]]  # seconds until it tracks, by what is watched


def findings_of(measured: NodeMeasurements, size: Size, rounds: int) -> Findings:
    """Return what was measured, as numbers and as a table."""
    laps, locks = measured.laps, measured.locks
    library, node = (seconds_of(laps[name]) for name in (LIBRARY, NODE))
    overhead = Spread.of_ratios(node, library)
    with_pictures = Spread.of_ratios(locks[WATCHED], locks[UNWATCHED])
    same = [
        is_same(alone.result, over_ros.result)
        for alone, over_ros in zip(laps[LIBRARY], laps[NODE], strict=True)
    ]
    matched, matched_rows = at_camera_rate(measured.matching, 'only matching')
    tracked, tracked_rows = at_camera_rate(measured.tracking, 'tracking')
    values: dict[str, Any] = {
        'camera_rate': CAMERA_RATE,
        'only_matching': matched,
        'tracking': tracked,
        'node_overhead': asdict(overhead),
        'same_answers': sum(same) / len(same),
        'node_seconds': spread(node),
        'library_seconds': spread(library),
        'to_publishing_seconds': spread([lap.result.latency for lap in laps[NODE]]),
        'peak_memory_megabytes': measured.memory,
        'lock_on_with_pictures': asdict(with_pictures),
        'lock_on_seconds': {watched: spread(seconds) for watched, seconds in locks.items()},
    }
    how = f'rounds: {rounds}, then a camera of {CAMERA_RATE:.0f} Hz'
    table = TextTable(
        f'The node at {named(size)} ({how})',
        ('what', 'value'),
        [
            ('node / library', str(overhead)),
            ('both gave the same answer', f'{sum(same) / len(same):.0%}'),
            ('library in ms', milliseconds(library)),
            ('node in ms, from publishing to result', milliseconds(node)),
            *matched_rows,
            *tracked_rows,
            ('peak memory in MB', f'{measured.memory:.0f}'),
            ('lock-on, all pictures / no picture', str(with_pictures)),
            *(
                (f'ms from the first image to tracking, {watched}', milliseconds(seconds))
                for watched, seconds in locks.items()
            ),
        ],
    )
    ratios = {'node_overhead': overhead.median, 'lock_on_with_pictures': with_pictures.median}
    return Findings({**ratios, 'node': {named(size): values}}, (table,))


def interleaved_locks(
    tested: NodeUnderTest, picture: np.ndarray, film: Iterator[Image], rounds: int
) -> dict[str, list[float]]:
    """Return how long the node takes to track, with nobody and with somebody watching pictures."""
    seconds: dict[str, list[float]] = {UNWATCHED: [], WATCHED: []}
    for _ in range(rounds):
        for watched, topics in ((UNWATCHED, ()), (WATCHED, PICTURES)):
            with tested.watching(topics):
                tested.watch(film, SETTLING, bool)
                seconds[watched].append(tested.lock_on(picture, film))
    return seconds


def film_of(size: Size) -> list[View]:
    """Return views of a camera that moves back and forth, so that they can be looped smoothly."""
    views = demo_views(size, FILM_FRAMES, 1 / CAMERA_RATE)
    return [*views, *views[-2:0:-1]]


def are_enough(results: list[MatchResult]) -> bool:
    """Return whether there are enough results to compute a rate."""
    return len(results) >= MIN_RESULTS


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
