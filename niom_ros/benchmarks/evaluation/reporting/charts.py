"""Which plots the report contains, and what they show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
import re

from markupsafe import Markup
import numpy as np

from niom_ros.benchmarks.evaluation.answers import WRONG
from niom_ros.benchmarks.evaluation.benchmark import Case, Record
from niom_ros.benchmarks.evaluation.finished import Finished, interval_of, number, written
from niom_ros.benchmarks.evaluation.glossary import (
    DEGREES,
    ERROR_NAMES,
    ERROR_UNITS,
    spaced,
)
from niom_ros.benchmarks.evaluation.metrics import acceptance_curve
from niom_ros.benchmarks.evaluation.reporting.plots import (
    Axis,
    curve_plot,
    Dot,
    dot_plot,
    DotRow,
    Line,
    round_end,
    Style,
)
from niom_ros.benchmarks.evaluation.results import Metrics

# The benchmarks with a curve of errors, and the largest error that it shows.
ERROR_CURVES = {'homography': 20.0, 'sketch': 50.0, 'manual': 50.0, 'pose': 20.0}
ACCEPTANCE_CURVES = ('abstain', 'sketch', 'manual', 'homography')
ACCEPTANCE_KEYS = {'accepted', 'confidence', 'error', 'best_error'}
SPLIT_CURVES = ('sketch', 'manual', 'pose')  # by what was done to the pictures
MAX_PANELS = 6


@dataclass(frozen=True)
class Plot:
    """A plot below its caption."""

    title: str
    note: str
    svg: Markup


def curves(done: Finished, styles: Mapping[str, Style]) -> list[Plot]:
    """Draw all plots whose marks need a legend."""
    return [
        *corruption_plots(done, styles),
        *error_plots(done, styles),
        *acceptance_plots(done, styles),
    ]


def metric_plots(done: Finished, styles: Mapping[str, Style]) -> list[Plot]:
    """Draw the main metrics of all methods, one plot each."""
    found = []
    for name in done.main_metrics():
        rows = [
            DotRow(method, [dot_of(metrics, name, styles[method])])
            for method, metrics in done.metrics.items()
        ]
        if all(dot.value is None for row in rows for dot in row.dots):
            continue
        known = done.meaning(name)
        chance = any(dot.chance is not None for row in rows for dot in row.dots)
        note = 'The dashed line is what guessing would reach.' if chance else ''
        title = f'{known.label}: {known.direction}' if known.direction else known.label
        plot = dot_plot(known.label, rows, value_axis(rows), spoken(rows))
        found.append(Plot(title, note, plot))
    return found


def corruption_plots(done: Finished, styles: Mapping[str, Style]) -> list[Plot]:
    """Draw what each kind of corruption costs, if there are metrics for each."""
    found = []
    for sides, words in (('both', 'both pictures damaged'), ('one', 'one picture damaged')):
        beginning = f'auc_20_{sides}_'
        names = [name for name in done.metric_names() if name.startswith(beginning)]
        rows = [
            DotRow(
                spaced(name.removeprefix(beginning)),
                [
                    dot_of(metrics, name, styles[method])
                    for method, metrics in done.metrics.items()
                ],
            )
            for name in names
        ]
        if rows:
            label = f'AUC to 20{DEGREES}, {words}'
            plot = dot_plot(label, rows, Axis('', 1.0), spoken(rows, list(done.metrics)))
            found.append(Plot(label, 'By kind of damage; more is better.', plot))
    return found


def error_plots(done: Finished, styles: Mapping[str, Style]) -> list[Plot]:
    """Draw which share of the pairs has an error below each limit."""
    if done.name not in ERROR_CURVES:
        return []
    unit = ERROR_UNITS[done.name]
    across = Axis(f'{ERROR_NAMES[unit]} ({unit.strip()})', ERROR_CURVES[done.name])
    up = Axis('share of pairs', 1.0)
    found = []
    for panel, indices in panels(done).items():
        if nothing_to_find(done, indices):
            continue
        lines = [
            error_line(method, styles[method], [records[index] for index in indices])
            for method, records in done.records.items()
        ]
        if any(line.points for line in lines):
            label = f'Errors: {panel or "all pairs"}'
            plot = curve_plot(label, lines, across, up, spoken_curves(lines, across))
            note = 'Share with an error below x; what was refused or not found never counts.'
            found.append(Plot(label, note, plot))
    return found


def nothing_to_find(done: Finished, indices: Sequence[int]) -> bool:
    """Return whether none of these cases has an error, not even one of a guess."""
    return all(
        'best_error' in records[index]
        and records[index]['error'] is None
        and records[index]['best_error'] is None
        for records in done.records.values()
        for index in indices
    )


def panels(done: Finished) -> dict[str, list[int]]:
    """Return the cases of each plot by its name; '' has all of them."""
    everything = list(range(len(done.cases)))
    if done.name not in SPLIT_CURVES:
        return {'': everything}
    parts: dict[str, list[int]] = {}
    for index, case in enumerate(done.cases):
        parts.setdefault(panel_of(case), []).append(index)
    return parts if len(parts) <= MAX_PANELS else {'': everything}


def panel_of(case: Case) -> str:
    """Return the name of the plot that a case belongs to."""
    words = re.split(r'[^a-z0-9]+', case.group.lower())
    for word, name in (('both', 'both pictures damaged'), ('one', 'one picture damaged')):
        if word in words:
            return name
    return spaced(case.group)


def error_line(method: str, style: Style, records: Sequence[Record]) -> Line:
    """Return the share of records with an error up to each one that occurs."""
    if not any('error' in record for record in records):
        return Line(method, style, [])
    errors = sorted(known_error(record['error']) for record in records if 'error' in record)
    points = [(0.0, 0.0)]
    points += [
        (error, (index + 1) / len(errors))
        for index, error in enumerate(errors)
        if math.isfinite(error)
    ]
    return Line(method, style, points, steps=True)


def acceptance_plots(done: Finished, styles: Mapping[str, Style]) -> list[Plot]:
    """Draw how many answers would be wrong if fewer or more were accepted."""
    lines = [
        line
        for method, records in done.records.items()
        if (line := acceptance_line(method, styles[method], records))
    ]
    if not lines or done.name not in ACCEPTANCE_CURVES:
        return []
    largest = max(up for line in lines for _, up in [*line.points, line.own or (0, 0)])
    across = Axis('share of all pairs that is accepted', 1.0)
    title = 'Wrong answers as more are accepted'
    plot = curve_plot(
        title,
        lines,
        across,
        Axis('share of the accepted that is wrong', round_end(largest)),
        spoken_curves(lines, across),
    )
    note = (
        'All pairs, accepted in the order of confidence; lower is better. The ring is what the '
        f'method accepts by itself. Wrong: {WRONG:g} px or more off, or there was nothing to find.'
    )
    return [Plot(title, note, plot)]


def acceptance_line(method: str, style: Style, records: Sequence[Record]) -> Line | None:
    """Return the share that is wrong for each share that is accepted."""
    usable = [record for record in records if set(record) >= ACCEPTANCE_KEYS]
    if not usable:
        return None
    right = np.array([guess_error(record) < WRONG for record in usable])
    confidences = np.array([record['confidence'] or 0.0 for record in usable], float)
    curve = acceptance_curve(confidences, right)
    claims = np.array([bool(record['accepted']) for record in usable])
    own = (float(claims.mean()), float((~right[claims]).mean())) if claims.any() else None
    points = zip(curve.accepted.tolist(), curve.wrong.tolist(), strict=True)
    return Line(method, style, list(points), own)


def guess_error(record: Record) -> float:
    """Return how far off an answer is; of a refusal, how far the best guess was."""
    return known_error(record['error' if record['accepted'] else 'best_error'])


def known_error(error: float | None) -> float:
    """Return an error, infinite where there is no answer."""
    return math.inf if error is None or math.isnan(error) else error


def dot_of(metrics: Metrics, name: str, style: Style) -> Dot:
    """Return a metric as a mark of a plot."""
    chance = number(metrics.get(f'chance_{name}'))
    return Dot(style, number(metrics.get(name)), interval_of(metrics, name), chance)


def value_axis(rows: Sequence[DotRow]) -> Axis:
    """Return a scale that all numbers and intervals fit on."""
    values = [0.0]
    for dot in (dot for row in rows for dot in row.dots):
        values += [value for value in (dot.value, dot.chance) if value is not None]
        values += dot.interval or ()
    return Axis('', round_end(max(value for value in values if math.isfinite(value))))


def spoken(rows: Sequence[DotRow], methods: Sequence[str] = ()) -> str:
    """Say what a plot shows, for those who cannot see it."""
    parts = []
    for row in rows:
        values = [
            written(dot.value) if dot.value is not None else 'not measured' for dot in row.dots
        ]
        if methods:
            values = [f'{name} {value}' for name, value in zip(methods, values, strict=True)]
        parts.append(f'{row.name}: {", ".join(values)}')
    return '; '.join(parts)


def spoken_curves(lines: Sequence[Line], axis: Axis) -> str:
    """Say what curves show, for those who cannot see them."""
    parts = []
    for line in lines:
        heights = []
        for tick in axis.ticks[1:]:
            reached = [up for across, up in line.points if across <= tick]
            if reached:
                heights.append(f'{reached[-1]:.2f} at {tick:.3g}')
        parts.append(f'{line.name}: {", ".join(heights) or "nothing"}')
    return '; '.join(parts)
