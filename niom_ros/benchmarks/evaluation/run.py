"""Runs a benchmark; what was measured before is not measured again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import multiprocessing
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
import os
from queue import Empty
import random
import signal
import sys
import threading
import time
import traceback

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.records import Records
from niom_ros.core.errors import UserError
from niom_ros.core.progress_line import ProgressLine
from niom_ros.core.settings import choose_device, default_threads
from niom_ros.core.threads import use_threads

BAR_WIDTH = 30
LINE_SECONDS = 60  # between lines of progress where no terminal shows a bar
MAX_JOBS = 8  # each takes about 2 GB


@dataclass(frozen=True)
class Task:
    """Cases that share pictures, and the methods that each still needs."""

    benchmark: Benchmark
    work: tuple[tuple[Case, tuple[Method, ...]], ...]

    @property
    def steps(self) -> int:
        """Return the number of measurements."""
        return sum(len(methods) for _, methods in self.work)


Measured = tuple[str, str, Record]
"""The name of a case, the name of a method, and what was measured."""


def sample(cases: Sequence[Case], limit: int, seed: int) -> list[Case]:
    """Return the cases of `limit` random pairs; a larger limit keeps them and adds more."""
    pairs = list(dict.fromkeys(case.pair for case in cases))
    if not 0 < limit < len(pairs):
        return list(cases)
    random.Random(seed).shuffle(pairs)
    chosen = set(pairs[:limit])
    return [case for case in cases if case.pair in chosen]


def run(
    benchmark: Benchmark,
    cases: Sequence[Case],
    records: dict[Method, Records],
    jobs: int,
) -> None:
    """Measure what is not in the records yet, in several processes if that helps."""
    tasks = tasks_of(benchmark, cases, records)
    total = len(cases) * len(records)
    progress = BenchmarkProgress(benchmark.name, total, total - sum(task.steps for task in tasks))
    by_name = {method.name: known for method, known in records.items()}
    try:
        for case, method, record in measured(tasks, jobs):
            by_name[method].add(case, record)
            progress.step()
    finally:
        progress.clear()
        for known in records.values():
            known.close()


def tasks_of(
    benchmark: Benchmark, cases: Sequence[Case], records: dict[Method, Records]
) -> list[Task]:
    """Return what is left to measure; cases that share pictures stay together."""
    by_unit: dict[str, list[tuple[Case, tuple[Method, ...]]]] = {}
    for case in cases:
        lacking = tuple(method for method, known in records.items() if case.name not in known)
        if lacking:
            by_unit.setdefault(case.unit, []).append((case, lacking))
    return [Task(benchmark, tuple(work)) for work in by_unit.values()]


def measured(tasks: Sequence[Task], jobs: int) -> Iterator[Measured]:
    """Yield measurements as they are made, so that an interruption loses at most one."""
    jobs = min(jobs, len(tasks))
    if jobs < 2:
        runner = new_runner(default_threads())
        for task in tasks:
            yield from work_on(task, runner)
        return
    context = multiprocessing.get_context('spawn')  # torch does not survive a fork
    waiting: Queue[Task | None] = context.Queue()
    # Tasks that no worker takes any more must not keep this process from ending.
    waiting.cancel_join_thread()
    done: Queue[Measured | BaseException | None] = context.Queue()
    for item in (*tasks, *[None] * jobs):
        waiting.put(item)
    workers = [
        context.Process(target=work, args=(waiting, done), daemon=True) for _ in range(jobs)
    ]
    for worker in workers:
        worker.start()
    try:
        yield from collected(done, workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def collected(
    done: 'Queue[Measured | BaseException | None]', workers: Sequence[BaseProcess]
) -> Iterator[Measured]:
    """Yield what the workers send until all of them are done."""
    working = len(workers)
    while working:
        try:
            item = done.get(timeout=1)
        except Empty:
            if any(worker.exitcode not in (None, 0) for worker in workers):
                raise UserError(
                    'a process ended unexpectedly, perhaps for lack of memory: run the same '
                    'command again with --jobs 1; what was measured is kept'
                ) from None
            continue
        if isinstance(item, BaseException):
            raise item
        if item is None:
            working -= 1
        else:
            yield item


def work(waiting: 'Queue[Task | None]', done: 'Queue[Measured | BaseException | None]') -> None:
    """Measure one task after another, in a separate process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process says when to stop
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        # One thread each: the processes share the cores already.
        runner = new_runner(threads=1)
        while (task := waiting.get()) is not None:
            for item in work_on(task, runner):
                done.put(item)
        done.put(None)
    except BaseException as error:
        # Some errors cannot be pickled, but their text can.
        known = isinstance(error, UserError)
        done.put(UserError(str(error)) if known else RuntimeError(traceback.format_exc()))


def end_with_parent() -> None:
    """End this process when the main one has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work_on(task: Task, runner: MethodRunner) -> Iterator[Measured]:
    """Measure what a task asks for."""
    for case, methods in task.work:
        for method in methods:
            record = task.benchmark.measure(case, method, runner)
            origin = {'group': case.group, 'unit': case.unit, 'places': [*case.places]}
            yield case.name, method.name, {**record, **origin}


def new_runner(threads: int) -> MethodRunner:
    """Set the number of threads of this process, and return a runner."""
    use_threads(threads)
    return MethodRunner()


def default_jobs(device: str) -> int:
    """Return the fastest number of processes: one per core, or a single one for a GPU."""
    if choose_device(device).type == 'cuda':
        return 1
    return max(1, min(os.cpu_count() or 1, MAX_JOBS))


class BenchmarkProgress:
    """Shows how far a benchmark is and how long it will still take."""

    def __init__(self, name: str, total: int, known: int) -> None:
        """Start with the number of all measurements, and of those that are known already."""
        self._name = name
        self._total = total
        self._known = known
        self._done = 0
        self._start = time.monotonic()
        self._last_line = self._start
        self._line = ProgressLine()
        self._line.draw(self.text(0))

    def step(self) -> None:
        """Count one more measurement."""
        self._done += 1
        now = time.monotonic()
        text = self.text(now - self._start)
        self._line.draw(text)
        if not sys.stderr.isatty() and now - self._last_line > LINE_SECONDS:
            self._last_line = now
            print(text, file=sys.stderr, flush=True)

    def text(self, seconds: float) -> str:
        """Return the bar."""
        finished = self._known + self._done
        filled = BAR_WIDTH * finished // max(1, self._total)
        bar = '#' * filled + '.' * (BAR_WIDTH - filled)
        left = ''
        if self._done:
            remaining = seconds / self._done * (self._total - finished)
            left = f', {duration(remaining)} left'
        return f'{self._name} [{bar}] {finished} of {self._total}{left}'

    def clear(self) -> None:
        """Remove the bar, so that the next line starts in the first column."""
        self._line.clear()


def duration(seconds: float) -> str:
    """Return a duration in words."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f'{minutes // 60} h {minutes % 60:02d} min'
    return f'{minutes} min' if minutes else f'{round(seconds)} s'
