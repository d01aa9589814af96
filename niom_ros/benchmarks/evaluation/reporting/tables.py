"""The tables of the report: values with intervals, and what to make of them."""

from collections.abc import Mapping

from niom_ros.benchmarks.evaluation.finished import Finished, interval_of, MINUS, number, written
from niom_ros.benchmarks.evaluation.glossary import LESS, Meaning, NEITHER
from niom_ros.benchmarks.evaluation.reporting.markup import element, joined, Markup
from niom_ros.benchmarks.evaluation.reporting.page import facts, table
from niom_ros.benchmarks.evaluation.reporting.plots import Style, swatch
from niom_ros.benchmarks.evaluation.results import Metrics

NOT_MEASURED = element('span', 'not measured', class_='missing')


def main_table(done: Finished, styles: Mapping[str, Style]) -> Markup:
    """Return methods and their main metrics, the best of each marked."""
    names = done.main_metrics()
    best = {name: best_methods(done, name) for name in names}
    rows = [
        (
            [swatch(styles[method]), method],
            [
                number_cell(
                    metrics, name, method in best[name] and len(best[name]) < len(done.metrics)
                )
                for name in names
            ],
        )
        for method, metrics in done.metrics.items()
    ]
    caption = 'Main metrics with 95 % intervals. The best value of each is tagged “best”.'
    words = [(done.meaning(name).label, explanation(done, name)) for name in names]
    return joined(
        table(caption, ['Method', *(column_head(done, name) for name in names)], rows),
        element('details', element('summary', 'What these metrics mean'), facts(words, 'words')),
    )


def column_head(done: Finished, metric: str) -> Markup:
    """Return the name of a metric for a table, with the one that it has in the JSON file."""
    direction = done.meaning(metric).direction
    return joined(
        done.meaning(metric).label,
        element('span', 'main', class_='tag') if metric == done.benchmark.main_metric else '',
        element('small', element('code', metric)),
        element('small', direction) if direction else '',
    )


def explanation(done: Finished, metric: str) -> str:
    """Say what a metric is and which way it is better."""
    known = done.meaning(metric)
    parts = [known.words or 'no explanation', known.direction]
    return '; '.join(part for part in parts if part) + '.'


def number_cell(metrics: Metrics, name: str, best: bool = False) -> Markup:
    """Return the cell of a number with its interval."""
    value = number(metrics.get(name))
    if value is None:
        return element('td', NOT_MEASURED)
    span = interval_of(metrics, name)
    return element(
        'td',
        element(
            'span',
            element('span', written(value), class_='value'),
            element('span', 'best', class_='tag') if best else '',
            class_='together',
        ),
        element('small', f'{written(span[0])} to {written(span[1])}') if span else '',
        class_='best' if best else None,
    )


def difference_table(done: Finished) -> Markup:
    """Return by how much methods differ, and whether that is more than chance."""
    differences: dict[str, Metrics] = done.result['differences']
    if not differences:
        return Markup()
    names = [name for name in done.main_metrics() if done.meaning(name).better != NEITHER]
    names.sort(key=lambda name: name != done.benchmark.main_metric)
    rows = [
        (
            pair.replace(' - ', f' {MINUS} '),
            [difference_cell(difference, name, done.meaning(name)) for name in names],
        )
        for pair, difference in differences.items()
    ]
    caption = (
        'Differences between methods on the same pairs, with 95 % intervals: the first minus the '
        'second. “Better” and “worse” are said of the first, where the interval excludes 0.'
    )
    return joined(
        element('h3', 'Differences'),
        table(caption, ['Methods', *(column_head(done, name) for name in names)], rows),
    )


def difference_cell(difference: Metrics, name: str, known: Meaning) -> Markup:
    """Return the cell of a difference, with what it means in a word."""
    value, span = number(difference.get(name)), interval_of(difference, name)
    if value is None:
        return element('td', NOT_MEASURED)
    word = verdict(span, known.better)
    kind = {'better': 'tag', 'worse': 'tag worse'}.get(word, 'tag open')
    return element(
        'td',
        element(
            'span',
            element('span', written(value, signed=True), class_='value'),
            element('span', word, class_=kind),
            class_='together',
        ),
        element('small', f'{written(span[0], True)} to {written(span[1], True)}') if span else '',
        class_='best' if word in ('better', 'worse') else None,
    )


def verdict(span: tuple[float, float] | None, better: int) -> str:
    """Say what an interval of a difference means."""
    if span is None:
        return 'no interval'
    if span[0] == span[1] == 0:
        return 'the same'
    if span[0] <= 0 <= span[1]:
        return 'undecided'
    return 'better' if (span[0] > 0) == (better > 0) else 'worse'


def full_table(done: Finished) -> Markup:
    """Return all metrics of all methods."""
    names = done.metric_names()
    rows = [
        (
            [done.meaning(name).label, element('small', element('code', name))],
            [number_cell(metrics, name) for metrics in done.metrics.values()],
        )
        for name in names
    ]
    caption = f'All metrics of {done.name} with 95 % intervals.'
    return element(
        'details',
        element('summary', f'All {len(names)} metrics'),
        table(caption, ['Metric', *done.metrics], rows),
    )


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
    """Say of which methods the best one is clearly ahead."""
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
