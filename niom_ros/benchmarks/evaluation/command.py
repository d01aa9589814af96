"""What `niom eval` does: run benchmarks, then print, plot and save how well methods did."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
import sys
from typing import Any

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, NotMeasurable, Record
from niom_ros.benchmarks.evaluation.finished import Finished, interval_of
from niom_ros.benchmarks.evaluation.methods import Method, method_named
from niom_ros.benchmarks.evaluation.records import data_key, records_of
from niom_ros.benchmarks.evaluation.report import check_folder, write_report
from niom_ros.benchmarks.evaluation.results import as_json, Metrics
from niom_ros.benchmarks.evaluation.run import default_jobs, run, sample
from niom_ros.benchmarks.evaluation.suites.abstain import AbstainBenchmark
from niom_ros.benchmarks.evaluation.suites.homography import HomographyBenchmark
from niom_ros.benchmarks.evaluation.suites.instances import InstancesBenchmark
from niom_ros.benchmarks.evaluation.suites.kinds import KindsBenchmark
from niom_ros.benchmarks.evaluation.suites.landmarks import LandmarksBenchmark
from niom_ros.benchmarks.evaluation.suites.manual import ManualBenchmark
from niom_ros.benchmarks.evaluation.suites.pairing import PairingBenchmark
from niom_ros.benchmarks.evaluation.suites.pose import PoseBenchmark
from niom_ros.benchmarks.evaluation.suites.sketch import SketchBenchmark
from niom_ros.benchmarks.evaluation.suites.tmc import TmcBenchmark
from niom_ros.benchmarks.evaluation.suites.tracking import TrackingBenchmark
from niom_ros.benchmarks.evaluation.suites.turned import TurnedBenchmark
from niom_ros.benchmarks.evaluation.suites.uncertainty import UncertaintyBenchmark
from niom_ros.benchmarks.evaluation.suites.zoomed import ZoomedBenchmark
from niom_ros.benchmarks.versions import versions
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings
from niom_ros.images.writing import write_bytes

BENCHMARKS: tuple[type[Benchmark], ...] = (
    SketchBenchmark,
    ManualBenchmark,
    KindsBenchmark,
    TmcBenchmark,
    PoseBenchmark,
    HomographyBenchmark,
    TurnedBenchmark,
    ZoomedBenchmark,
    InstancesBenchmark,
    PairingBenchmark,
    AbstainBenchmark,
    LandmarksBenchmark,
    TrackingBenchmark,
    UncertaintyBenchmark,
)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What to evaluate, from the command line."""

    benchmark: str  # or all
    data: Path
    settings: Settings
    options: Options
    methods: tuple[str, ...] = ()  # empty: those that the benchmark compares by default
    corruptions: tuple[str, ...] = ('all',)
    limit: int = 0  # pairs; 0: all
    seed: int = 0
    jobs: int = 0  # processes; 0: what suits the machine
    again: bool = False  # whether to repeat earlier measurements


def evaluate(
    task: Evaluation,
    json_file: Path | None = None,
    report: Path | None = None,
    arguments: Sequence[str] = (),
) -> None:
    """Run one benchmark or all; those without data are reported and left out.

    The report shows the arguments that it was made with.
    """
    if not task.data.is_dir():
        raise UserError(f'there is no folder {task.data}: --data must name the benchmark data')
    if report:
        check_folder(report)
    if json_file and not json_file.absolute().parent.is_dir():
        raise UserError(f'cannot write {json_file}: its folder does not exist')
    chosen = [kind for kind in BENCHMARKS if task.benchmark in (kind.name, 'all')]
    finished: list[Finished] = []
    lacking: dict[str, str] = {}
    for kind in chosen:
        try:
            finished.append(work_through(new_benchmark(kind, task), task))
        except NotMeasurable as error:
            if task.benchmark != 'all':
                raise
            lacking[kind.name] = str(error)
            print(f'niom: {error}; left out', file=sys.stderr)
            continue
        print_result(finished[-1])
        if json_file:
            # After each benchmark, so that a failure in a later one loses nothing.
            write_json(json_file, task, finished, lacking)
    if not finished:
        raise UserError(f'no benchmark can be run with {task.data}')
    if report:
        page = write_report(report, finished, None, arguments, lacking)
        print(f'report: {page}')


def write_json(
    file: Path, task: Evaluation, finished: Sequence[Finished], lacking: dict[str, str]
) -> None:
    """Write the results of one benchmark, or of all finished ones and why others are missing."""
    content: dict[str, Any] = {
        'benchmarks': {done.name: done.result for done in finished},
        'missing': lacking,
    }
    if task.benchmark != 'all':
        content = finished[0].result
    write_bytes(file, (json.dumps(content, indent=1) + '\n').encode())


def new_benchmark(kind: type[Benchmark], task: Evaluation) -> Benchmark:
    """Return a benchmark with the options of the task."""
    if kind is PoseBenchmark and task.corruptions != ('all',):
        chosen = () if task.corruptions == ('none',) else task.corruptions
        return PoseBenchmark(task.data, task.seed, chosen)
    return kind(task.data, task.seed)


@dataclass(frozen=True)
class Measurements:
    """The raw measurements of a benchmark."""

    cases: Sequence[Case]
    methods: Sequence[Method]
    records: dict[str, Sequence[Record]]  # of each method, in the order of the cases
    data_key: str


def work_through(benchmark: Benchmark, task: Evaluation) -> Finished:
    """Measure methods on every case of a benchmark, and summarise the result."""
    done = measure(benchmark, task, task.methods or benchmark.default_methods)
    pairs = len({case.pair for case in done.cases})
    result = as_json(benchmark, pairs, done.records, versions(), task.data.resolve().name)
    return Finished(
        benchmark=benchmark,
        cases=done.cases,
        methods=done.methods,
        records=done.records,
        result=result,
    )


def measure(
    benchmark: Benchmark,
    task: Evaluation,
    names: Sequence[str],
    judged: bool = True,
    groups: Collection[str] | None = None,
) -> Measurements:
    """Measure methods on every case, or on those of some groups; skip what is known already."""
    cases = sample(benchmark.cases(), task.limit, task.seed)
    cases = [case for case in cases if groups is None or case.group in groups]
    methods = [method_named(name, task.settings, task.options) for name in dict.fromkeys(names)]
    if task.benchmark == 'all':
        methods = usable_ones(benchmark, methods)
    for method in methods:
        benchmark.usable(method)
    for folder in benchmark.missing():
        print(f'niom: {benchmark.name}: there is no {folder} in {task.data}', file=sys.stderr)
    key = data_key(benchmark)
    known = {method: records_of(benchmark, method, key, judged) for method in methods}
    if task.again:
        for earlier in known.values():
            earlier.forget()
    run(benchmark, cases, known, task.jobs or default_jobs(task.settings.device))
    records: dict[str, Sequence[Record]] = {
        method.name: [known[method][case.name] for case in cases] for method in methods
    }
    return Measurements(cases, methods, records, key)


def usable_ones(benchmark: Benchmark, methods: Sequence[Method]) -> list[Method]:
    """Leave out the methods that a benchmark cannot measure, and say so."""
    usable = []
    for method in methods:
        try:
            benchmark.usable(method)
            usable.append(method)
        except UserError as error:
            print(f'niom: {error}; left out', file=sys.stderr)
    if not usable:
        raise NotMeasurable(f'{benchmark.name} cannot be measured for any of the methods')
    return usable


def print_result(done: Finished) -> None:
    """Print a table: a row for each metric, a column for each method."""
    table = [[done.name, *done.metrics]]
    for name in done.metric_names():
        table.append([name, *(cell(metrics, name) for metrics in done.metrics.values())])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print(f'{done.benchmark.title} {done.result["pairs"]} pairs, seed {done.benchmark.seed}.')
    for row in table:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print('  '.join(cells).rstrip())
    print()


def cell(metrics: Metrics, name: str) -> str:
    """Write a number with its interval: 0.512 [0.401 0.620]."""
    value, span = metrics.get(name), interval_of(metrics, name)
    if value is None:
        return '-'
    return f'{value:.3f}' + (f' [{span[0]:.3f} {span[1]:.3f}]' if span else '')
