"""The tables of the report: values with intervals, and what they mean in a word."""

from collections.abc import Sequence
from dataclasses import dataclass

from niom_ros.benchmarks.evaluation.finished import Finished, interval_of, MINUS, number, written
from niom_ros.benchmarks.evaluation.glossary import LESS, NEITHER
from niom_ros.benchmarks.evaluation.results import Metrics


@dataclass(frozen=True)
class Cell:
    """A number in a table, as it is written."""

    value: str = ''  # '': not measured
    interval: str = ''
    tag: str = ''  # best, or what a difference means


@dataclass(frozen=True)
class Column:
    """The head of a column of numbers."""

    label: str
    metric: str  # its name in the JSON file
    direction: str
    main: bool  # whether it is the main metric of the benchmark


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    cells: Sequence[Cell]
    metric: str = ''  # of the line, if it is about one


@dataclass(frozen=True)
class Table:
    """Rows of numbers below the heads of their columns."""

    columns: Sequence[Column]
    rows: Sequence[Row]


def main_table(done: Finished) -> Table:
    """Return methods and their main metrics, the best of each marked."""
    names = done.main_metrics()
    best = {name: best_methods(done, name) for name in names}

    def tag(method: str, name: str) -> str:
        return 'best' if method in best[name] and len(best[name]) < len(done.metrics) else ''

    rows = [
        Row(method, [number_cell(metrics, name, tag(method, name)) for name in names])
        for method, metrics in done.metrics.items()
    ]
    return Table([column(done, name) for name in names], rows)


def column(done: Finished, metric: str) -> Column:
    """Return the head of a metric's column."""
    known = done.meaning(metric)
    return Column(known.label, metric, known.direction, metric == done.benchmark.main_metric)


def explanations(done: Finished) -> list[tuple[str, str]]:
    """Explain the main metrics: what each is, and whether more or less of it is better."""
    known = [done.meaning(name) for name in done.main_metrics()]
    return [
        (one.label, '; '.join(filter(None, (one.words or 'no explanation', one.direction))) + '.')
        for one in known
    ]


def number_cell(metrics: Metrics, name: str, tag: str = '', signed: bool = False) -> Cell:
    """Return the cell of a number with its interval."""
    value = number(metrics.get(name))
    if value is None:
        return Cell()
    span = interval_of(metrics, name)
    interval = f'{written(span[0], signed)} to {written(span[1], signed)}' if span else ''
    return Cell(written(value, signed), interval, tag)


def difference_table(done: Finished) -> Table:
    """Return by how much methods differ, and whether that is more than chance explains."""
    differences: dict[str, Metrics] = done.result['differences']
    names = [name for name in done.main_metrics() if done.meaning(name).better != NEITHER]
    names.sort(key=lambda name: name != done.benchmark.main_metric)
    rows = []
    for pair, difference in differences.items():
        words = [
            verdict(interval_of(difference, name), done.meaning(name).better) for name in names
        ]
        cells = [
            number_cell(difference, name, word, signed=True)
            for name, word in zip(names, words, strict=True)
        ]
        rows.append(Row(pair.replace(' - ', f' {MINUS} '), cells))
    return Table([column(done, name) for name in names], rows)


def verdict(span: tuple[float, float] | None, better: int) -> str:
    """Say what an interval of a difference means."""
    if span is None:
        return 'no interval'
    if span[0] == span[1] == 0:
        return 'the same'
    if span[0] <= 0 <= span[1]:
        return 'undecided'
    return 'better' if (span[0] > 0) == (better > 0) else 'worse'


def full_rows(done: Finished) -> list[Row]:
    """Return all metrics of all methods, a line for each metric."""
    return [
        Row(
            done.meaning(name).label,
            [number_cell(metrics, name) for metrics in done.metrics.values()],
            name,
        )
        for name in done.metric_names()
    ]


def best_methods(done: Finished, metric: str) -> list[str]:
    """Return the methods with the best value; several if it is written the same."""
    better = done.meaning(metric).better
    values = {name: number(metrics.get(metric)) for name, metrics in done.metrics.items()}
    known = {name: value for name, value in values.items() if value is not None}
    if not known or better == NEITHER:
        return []
    top = (min if better == LESS else max)(known.values())
    return [name for name, value in known.items() if written(value) == written(top)]


def ahead(done: Finished, leader: str, metric: str) -> str:
    """Say which methods the best one is clearly ahead of."""
    open_ones = []
    for other in done.metrics:
        forwards = done.result['differences'].get(f'{leader} - {other}')
        backwards = done.result['differences'].get(f'{other} - {leader}')
        if other == leader or (forwards or backwards) is None:
            continue
        span = interval_of(forwards or backwards, metric)
        word = verdict(span, done.meaning(metric).better)
        if word != ('better' if forwards else 'worse'):
            open_ones.append(other)
    if len(done.metrics) < 2:
        return 'the only method'
    if not open_ones:
        return 'clearly ahead of all others'
    if len(open_ones) == len(done.metrics) - 1:
        return 'not clearly ahead of any'
    return f'clearly ahead of all but {", ".join(open_ones)}'
