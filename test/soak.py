"""A matcher under load for a long time: a fast camera, and three clients that do everything.

    python test/soak.py --minutes 20 --json soak.json

Prints a table and what is wrong, if anything is; the exit code is then 1. `make test` runs a short
one (test_soak.py).
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
import json
from pathlib import Path
import signal
from statistics import median
import subprocess
import sys
import tempfile
from threading import Event, Thread
import time

from film_camera import film
from niom_ros.msg import MatchResult
import numpy as np
import rclpy
from rclpy.qos import QoSProfile
from ros_client import ros_network, running
from soak_client import PICTURES

from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error, Status

HERE = Path(__file__).resolve().parent
CAMERA = (1280, 720, 30.0, 16)  # width, height, images per second, pictures of the film
ROLES = ('references', 'parameters', 'pictures')
CUP = Box(0, 0, 600, 400)
TRACKED = 2  # Homography.source

START_TIMEOUT = 120.0  # seconds
WARM_UP = 40.0  # seconds that are not counted: each client does everything once
SERVICES = (
    'get_parameters',
    'get_state',
    'list_references',
    'remove_reference',
    'select_reference',
    'set_parameters',
    'set_reference',
)
SLOWEST_ANSWER = 10.0  # seconds
# Of the load itself, with room for a machine that others use, too.
MIN_SENT = 0.8  # of the frames that the camera should send
MIN_RECEIVED = 0.3  # of the frames that it did send: it is best effort
MIN_TRACKED = 3.0  # results per second
# The newest frame counts: it is replaced by the next one, so none waits long for its turn.
MAX_WAIT = 0.25  # seconds from stamp to turn
MAX_WAITED = 0.05  # of the results may have waited longer, on a machine that others use
MAX_GROWTH = 40.0  # megabytes, of the median of the last quarter over that of the second
# What networks free is kept: memory rises in steps until each has had its largest image.
MAX_GROWTH_OF_SHORT = 250.0  # megabytes, in a run that is shorter than SHORT
SHORT = 180.0  # seconds
MAX_NEW_THREADS = 2
MAX_NEW_FILES = 8  # sockets and shared memory of clients that come and go
SLOWEST_LAST_QUARTER = 1.5  # times the latency of the first one
SLOWEST = 0.25  # seconds: the median latency of tracked frames, in any quarter
LATENCY_SLACK = 0.005  # seconds: what is so short varies without meaning anything
LATENCY_SLACK_OF_SHORT = 0.03  # seconds
FARTHEST = 12.0  # pixels of 1280 x 720 that corners may be off, on average
MIN_COUNTED = 0.9  # of the frames received: answered, or counted as dropped


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is kept of a result: all of them would be a growth of memory of their own."""

    arrived: float  # seconds since the start
    stamp: int  # nanoseconds
    latency: float  # seconds
    waited: float  # seconds of it before its turn came
    status: int
    source: int
    reference: str
    matrix: tuple[float, ...]
    received: int
    dropped: int


@dataclass(frozen=True)
class Sample:
    """What the process of the node has at a moment."""

    taken: float  # seconds since the start
    megabytes: float
    threads: int
    files: int
    control: float  # seconds that a fixed piece of work took beside it


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What came out of a soak."""

    seconds: float
    frames_sent: int
    frames_received: int
    frames_dropped: int
    results: int
    results_ok: int
    results_tracked: int
    statuses: dict[str, int]
    calls: dict[str, int]
    slowest_calls: dict[str, float]  # seconds
    unanswered_calls: int  # also those that were under way for too long when it ended
    refused_calls: int
    stamps_backward: int
    unknown_stamps: int
    share_waited: float  # of the results, for longer than a newer frame needs to take their turn
    pictures: dict[str, int]  # images that came, by topic
    wrong_claims: int  # OK where it is not, or too far from where it is
    megabytes: tuple[float, ...]  # median of each quarter
    megabytes_per_1000_frames: float  # received, from the second quarter to the last
    threads: tuple[int, ...]  # most in each quarter
    files: tuple[int, ...]  # most in each quarter
    latency: tuple[float, ...]  # median seconds of tracked frames in each quarter
    control: tuple[float, ...]  # median seconds of a fixed piece of work in each quarter
    megabytes_by_time: tuple[float, ...]  # at 60 moments, evenly spread


def problems(found: Findings) -> list[str]:
    """Return what is wrong, in words."""
    disturbed = max(1.0, found.control[3] / found.control[0])
    short = found.seconds < SHORT
    slack = LATENCY_SLACK_OF_SHORT if short else LATENCY_SLACK
    slowest_latency = SLOWEST_LAST_QUARTER * disturbed * found.latency[0] + slack
    answered = found.results + found.frames_dropped
    most_growth = MAX_GROWTH_OF_SHORT if short else MAX_GROWTH
    checks = [
        (
            found.frames_sent < MIN_SENT * CAMERA[2] * found.seconds,
            f'the camera sent only {found.frames_sent} frames',
        ),
        (
            found.frames_received < MIN_RECEIVED * found.frames_sent,
            f'only {found.frames_received} of {found.frames_sent} frames arrived',
        ),
        (
            found.results_tracked < MIN_TRACKED * found.seconds,
            f'only {found.results_tracked} frames were tracked',
        ),
        (
            found.share_waited > MAX_WAITED,
            f'{found.share_waited:.0%} of the results are not those of the newest frame',
        ),
        (found.refused_calls > 0, f'{found.refused_calls} calls were refused'),
        (found.unanswered_calls > 0, f'{found.unanswered_calls} calls were not answered'),
        (found.stamps_backward > 0, f'results went back in time {found.stamps_backward} times'),
        (found.unknown_stamps > 0, f'{found.unknown_stamps} results of frames never sent'),
        (found.wrong_claims > 0, f'{found.wrong_claims} results say OK and are wrong'),
        (
            answered < MIN_COUNTED * found.frames_received,
            f'of {found.frames_received} frames only {answered} were answered or counted dropped',
        ),
        (
            found.megabytes[3] - found.megabytes[1] > most_growth,
            f'memory grew from {found.megabytes[1]:.0f} to {found.megabytes[3]:.0f} MB',
        ),
        (
            found.threads[3] > found.threads[1] + MAX_NEW_THREADS,
            f'threads grew from {found.threads[1]} to {found.threads[3]}',
        ),
        (
            found.files[3] > found.files[1] + MAX_NEW_FILES,
            f'open files grew from {found.files[1]} to {found.files[3]}',
        ),
        (
            found.latency[3] > slowest_latency,
            f'latency grew from {found.latency[0]:.3f} to {found.latency[3]:.3f} s, '
            f'allowed are {slowest_latency:.3f}',
        ),
        (max(found.latency) > SLOWEST, f'tracked frames took {max(found.latency):.2f} s'),
    ]
    checks += [(name not in found.calls, f'{name} was never called') for name in SERVICES]
    checks += [(not count, f'no {topic} came') for topic, count in found.pictures.items()]
    checks += [
        (seconds > SLOWEST_ANSWER, f'{service} once took {seconds:.1f} s')
        for service, seconds in found.slowest_calls.items()
    ]
    return [words for wrong, words in checks if wrong]


def run_soak(seconds: float, folder: Path, arguments: tuple[str, ...] = ()) -> Findings:
    """Load a matcher until it is warm, and then for some seconds that count."""
    sent, calls = folder / 'sent.txt', folder / 'calls.txt'
    camera = ['film_camera.py', *map(str, CAMERA), str(sent)]
    with ExitStack() as stack:
        node = stack.enter_context(ros_network())
        process = stack.enter_context(running('matcher_node', folder / 'matcher.log', *arguments))
        listener = Listener(node, folder / 'matcher.log')
        stack.enter_context(script(camera, folder / 'camera.log'))
        for role in ROLES:
            client = ['soak_client.py', role, str(calls)]
            stack.enter_context(script(client, folder / f'{role}.log'))
        listener.listen_until_tracked(process)
        listener.listen(WARM_UP, process)
        with sampling(process.pid) as samples:
            listener.start()
            listener.listen(seconds, process)
            ended = time.time()
    return findings_of(seconds, listener.answers, samples, sent, calls, ended)


@contextmanager
def script(command: list[str], log: Path) -> Iterator[None]:
    """Run a script of this folder until the end of the block."""
    with log.open('w') as output:
        process = subprocess.Popen(
            [sys.executable, HERE / command[0], *command[1:]], stdout=output, stderr=output
        )
        try:
            yield
        finally:
            ended = process.poll()
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert ended is None, f'{command[0]} ended by itself: {log.read_text()}'


class Listener:
    """Hears the results of the node."""

    def __init__(self, node: rclpy.node.Node, log: Path) -> None:
        self._node = node
        self._log = log
        self._started = time.monotonic()
        self.answers: list[Answer] = []
        node.create_subscription(MatchResult, 'matcher/match', self._note, QoSProfile(depth=50))

    def start(self) -> None:
        """Begin anew: what came before was the start."""
        self._started = time.monotonic()
        self.answers.clear()

    def listen_until_tracked(self, process: subprocess.Popen) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not any(answer.source == TRACKED for answer in self.answers):
            assert time.monotonic() < deadline, 'nothing was tracked'
            self.listen(0.5, process)

    def listen(self, seconds: float, process: subprocess.Popen) -> None:
        """Take in results; fail with its log if the node ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rclpy.spin_once(self._node, timeout_sec=0.5)
            if (code := process.poll()) is not None:
                log = self._log.read_text(errors='replace')[-5000:]
                raise AssertionError(f'the node ended by itself with code {code}; its log:\n{log}')

    def _note(self, result: MatchResult) -> None:
        homography = result.homography
        stamp = result.header.stamp
        self.answers.append(
            Answer(
                arrived=time.monotonic() - self._started,
                stamp=stamp.sec * 10**9 + stamp.nanosec,
                latency=result.latency,
                waited=result.latency - sum(result.stage_seconds),
                status=homography.status,
                source=homography.source,
                reference=homography.reference_id,
                matrix=tuple(homography.matrix),
                received=result.frames_received,
                dropped=result.frames_dropped,
            )
        )


@contextmanager
def sampling(process: int) -> Iterator[list[Sample]]:
    """Take a sample of a process every second, in a thread of its own."""
    samples: list[Sample] = []
    done = Event()
    started = time.monotonic()

    def sample() -> None:
        while not done.wait(1.0):
            try:
                samples.append(sample_of(process, started))
            except OSError:  # it ended
                return

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def sample_of(process: int, started: float) -> Sample:
    """Return what a process has now."""
    proc = Path(f'/proc/{process}')
    lines = (proc / 'status').read_text().splitlines()
    status = dict(line.split(':', 1) for line in lines)
    files = len(list((proc / 'fd').iterdir()))
    before = time.perf_counter()
    np.sort(np.random.default_rng(0).random(100_000))
    control = time.perf_counter() - before
    return Sample(
        time.monotonic() - started,
        int(status['VmRSS'].split()[0]) * 1024 / 1e6,
        int(status['Threads']),
        files,
        control,
    )


def findings_of(
    seconds: float,
    answers: list[Answer],
    samples: list[Sample],
    sent: Path,
    calls: Path,
    ended: float,
) -> Findings:
    """Return what the records say; the last is the time, in seconds, at which it ended."""
    scenes = film(*CAMERA[:2], CAMERA[3])
    shown = {int(stamp): int(picture) for stamp, picture in map(str.split, sent.open())}
    noted = [json.loads(line) for line in calls.open()]
    made = [line for line in noted if 'seconds' in line]
    answered = {line['call'] for line in made}
    late = [
        line
        for line in noted
        if 'begun' in line
        and line['call'] not in answered
        and line['begun'] < ended - SLOWEST_ANSWER
    ]
    stamps = [answer.stamp for answer in answers]
    services = sorted({call['service'] for call in made})
    known = [answer for answer in answers if answer.stamp in shown]
    memory = quarters(samples, seconds, lambda sample: sample.megabytes)
    received = quarters(answers, seconds, lambda answer: float(answer.received))
    first, last = answers[0], answers[-1]
    return Findings(
        seconds=seconds,
        frames_sent=sum(first.stamp <= stamp <= last.stamp for stamp in shown),
        frames_received=last.received - first.received,
        frames_dropped=last.dropped - first.dropped,
        results=len(answers),
        results_ok=sum(answer.status == Status.OK for answer in answers),
        results_tracked=sum(answer.source == TRACKED for answer in answers),
        statuses={
            status.name: count
            for status in Status
            if (count := sum(answer.status == status for answer in answers))
        },
        calls={name: sum(call['service'] == name for call in made) for name in services},
        slowest_calls={
            name: max(call['seconds'] or 0.0 for call in made if call['service'] == name)
            for name in services
        },
        unanswered_calls=sum(call['seconds'] is None for call in made) + len(late),
        refused_calls=sum(call['seconds'] is not None and not call['success'] for call in made),
        stamps_backward=sum(later <= earlier for earlier, later in pairwise(stamps)),
        unknown_stamps=len(answers) - len(known),
        share_waited=sum(answer.waited > MAX_WAIT for answer in answers) / len(answers),
        pictures={
            topic: sum(line['images'] for line in noted if line.get('picture') == topic)
            for topic in PICTURES
        },
        wrong_claims=sum(
            is_wrong(answer, scenes[shown[answer.stamp]].picture_to_image) for answer in known
        ),
        megabytes=tuple(map(median, memory)),
        megabytes_per_1000_frames=(median(memory[3]) - median(memory[1]))
        / max(1.0, median(received[3]) - median(received[1]))
        * 1000,
        threads=tuple(
            int(max(q)) for q in quarters(samples, seconds, lambda sample: sample.threads)
        ),
        files=tuple(int(max(q)) for q in quarters(samples, seconds, lambda sample: sample.files)),
        latency=tuple(
            median(q)
            for q in quarters(
                [answer for answer in answers if answer.source == TRACKED],
                seconds,
                lambda answer: answer.latency,
            )
        ),
        control=tuple(
            median(q) for q in quarters(samples, seconds, lambda sample: sample.control)
        ),
        megabytes_by_time=tuple(
            sample.megabytes for sample in samples[:: max(1, len(samples) // 60)]
        ),
    )


def is_wrong(answer: Answer, truth: np.ndarray) -> bool:
    """Return whether an answer claims what is not so: only the cup is ever to be seen."""
    if answer.status != Status.OK:
        return bool(answer.matrix)
    matrix = np.array(answer.matrix).reshape(3, 3)
    return answer.reference != 'cup' or corner_error(matrix, truth, CUP) > FARTHEST


def quarters(records: list, seconds: float, value) -> list[list[float]]:
    """Return a value of records by the quarter of the time in which they were made."""
    found: list[list[float]] = [[], [], [], []]
    for record in records:
        when = record.arrived if isinstance(record, Answer) else record.taken
        found[min(3, int(4 * when / seconds))].append(value(record))
    assert all(found), 'a quarter of the time has no record at all'
    return found


def table(found: Findings) -> str:
    """Return the findings as people read them."""

    def row(values, form):
        return ', '.join(format(value, form) for value in values)

    rows = {
        'minutes': f'{found.seconds / 60:.1f}',
        'frames sent, received, dropped': (
            f'{found.frames_sent}, {found.frames_received}, {found.frames_dropped}'
        ),
        'results, OK, tracked': f'{found.results}, {found.results_ok}, {found.results_tracked}',
        'results per second': f'{found.results / found.seconds:.1f}',
        'statuses': ', '.join(f'{name} {count}' for name, count in found.statuses.items()),
        'calls': ', '.join(f'{name} {count}' for name, count in found.calls.items()),
        'slowest answer in s': ', '.join(
            f'{name} {seconds:.1f}' for name, seconds in found.slowest_calls.items()
        ),
        'calls unanswered, refused': f'{found.unanswered_calls}, {found.refused_calls}',
        'pictures seen': ', '.join(f'{name} {count}' for name, count in found.pictures.items()),
        'results of frames that waited': f'{found.share_waited:.1%}',
        'memory by quarter in MB': row(found.megabytes, '.0f'),
        'memory per 1000 frames in MB': f'{found.megabytes_per_1000_frames:.2f}',
        'threads by quarter': row(found.threads, 'd'),
        'open files by quarter': row(found.files, 'd'),
        'latency by quarter in ms': row([1000 * value for value in found.latency], '.0f'),
        'control by quarter in ms': row([1000 * value for value in found.control], '.1f'),
        'wrong claims, stamps backward': f'{found.wrong_claims}, {found.stamps_backward}',
    }
    width = max(map(len, rows))
    return '\n'.join(f'  {name:<{width}}  {value}' for name, value in rows.items())


def main() -> int:
    """Run a soak from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--minutes', type=float, default=20.0)
    parser.add_argument('--json', type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run_soak(60 * given.minutes, Path(folder))
    print(table(found))
    wrong = problems(found)
    if given.json:
        given.json.write_text(json.dumps(asdict(found) | {'problems': wrong}, indent=1) + '\n')
    for words in wrong:
        print(f'soak: {words}', file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
