"""Plots of the report, as SVG that takes its colours from the page.

No meaning hangs on colour alone: each method also has a mark and a way of dashing of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
import math

import numpy as np

from niom_ros.benchmarks.evaluation.reporting.markup import element, joined, Markup

WIDTH = 440  # of the drawing; the page scales it
LETTER = 8.4  # the width of a letter in fonts that are wide
LONGEST_LABEL = 22  # letters
ROW = 15  # height of one interval
ROW_GAP = 12
TICKS_HEIGHT = 26
AXIS_HEIGHT = 46  # with a name
CURVE_HEIGHT = 300
MARKS_EACH = 5  # on a curve
TICK_STEPS = {1: 0.2, 2: 0.5, 5: 1.0}  # by the first digit of an axis' end

COLOURS = 8  # that the page has, as classes c0 to c7
DASHES = (None, '8 3', '2 2.5', '9 3 2 3', '5 2', '12 3', '9 2 2 2 2 2', '1.5 4')
# Corners on a circle: how many, and how far the first is turned from the top in degrees. A radius
# other than 1 for each second one makes a star.
SHAPES = (
    (0, 0, 1.0),  # a circle
    (4, 45, 1.0),
    (3, 0, 1.0),
    (4, 0, 1.0),
    (3, 180, 1.0),
    (8, 45, 0.38),  # a cross
    (10, 0, 0.45),  # a star
    (6, 0, 1.0),
)


@dataclass(frozen=True)
class Style:
    """How to tell the marks and lines of one method from those of others."""

    number: int

    @property
    def colour(self) -> str:
        """Return the class that the page colours."""
        return f'c{self.number % COLOURS}'

    @property
    def dashes(self) -> str | None:
        """Return how lines are broken; methods of the same colour differ in it."""
        return DASHES[(self.number + self.number // COLOURS) % len(DASHES)]

    def mark(self, x: float, y: float, radius: float = 5.0) -> Markup:
        """Return the mark at a place."""
        corners, turn, inner = SHAPES[self.number % len(SHAPES)]
        if not corners:
            return element('circle', class_=f'mark {self.colour}', cx=x, cy=y, r=radius)
        angles = np.radians(turn + 360 / corners * np.arange(corners))
        # What has thin arms needs longer ones to be seen as well.
        size = radius * (1.2 if inner == 1 else 1.65)
        radii = size * np.where(np.arange(corners) % 2, inner, 1)
        points = zip(x + radii * np.sin(angles), y - radii * np.cos(angles), strict=True)
        written = ' '.join(f'{a:.1f},{b:.1f}' for a, b in points)
        return element('polygon', class_=f'mark {self.colour}', points=written)


@dataclass(frozen=True)
class Dot:
    """A number with its interval."""

    style: Style
    value: float | None  # None: not measured
    interval: tuple[float, float] | None = None
    chance: float | None = None  # what guessing would reach


@dataclass(frozen=True)
class DotRow:
    """Numbers that belong to one name."""

    name: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Line:
    """A curve of a method."""

    name: str
    style: Style
    points: Sequence[tuple[float, float]]
    own: tuple[float, float] | None = None  # where the method itself stands
    steps: bool = False  # whether it jumps at the points


@dataclass(frozen=True)
class Axis:
    """A scale from 0 to an end."""

    name: str
    end: float
    ticks: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Place the ticks."""
        magnitude = 10.0 ** math.floor(math.log10(self.end) + 1e-9)
        step = TICK_STEPS.get(round(self.end / magnitude), 1.0) * magnitude
        count = math.floor(self.end / step + 1e-9)
        object.__setattr__(self, 'ticks', [step * index for index in range(count + 1)])


def round_end(largest: float) -> float:
    """Return the next larger number of the kind 0.1, 0.2, 0.5, 1."""
    if not 0 < largest < math.inf:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(largest))
    steps = (factor * magnitude for factor in (1, 2, 5, 10))
    return next(end for end in steps if end >= largest * (1 - 1e-9))


def dot_plot(title: str, rows: Sequence[DotRow], axis: Axis, description: str) -> Markup:
    """Draw numbers as marks on a scale, each with its interval as a line."""
    labels = [cut(row.name) for row in rows]
    left = max(60.0, LETTER * max(map(len, labels), default=0) + 16)
    single = all(len(row.dots) == 1 for row in rows)
    right = WIDTH - (56 if single else 14)
    tops, top = [], 6.0
    for row in rows:
        tops.append(top)
        top += ROW * max(1, len(row.dots)) + ROW_GAP
    parts = [x_axis(axis, left, right, 2, top)]
    for row, label, begin in zip(rows, labels, tops, strict=True):
        middle = begin + (ROW * max(1, len(row.dots)) + ROW_GAP) / 2
        parts.append(text(label, left - 10, middle + 4, 'end', row.name))
        if not single and begin > tops[0]:
            parts.append(element('line', class_='grid', x1=0, x2=right, y1=begin, y2=begin))
        for index, dot in enumerate(row.dots):
            y = begin + (ROW_GAP + ROW) / 2 + ROW * index
            parts.append(one_dot(dot, axis, left, right, y))
            if single and dot.value is not None:
                parts.append(text(f'{dot.value:.3f}', right + 8, y + 4, 'start'))
    below = AXIS_HEIGHT if axis.name else TICKS_HEIGHT
    return drawing(title, description, top + below, parts)


def one_dot(dot: Dot, axis: Axis, left: float, right: float, y: float) -> Markup:
    """Draw a mark, its interval and the level of chance."""

    def place(value: float) -> float:
        return left + (right - left) * min(max(value / axis.end, 0.0), 1.0)

    if dot.value is None:
        return text('not measured', left + 4, y + 4, 'start', class_='muted')
    parts = []
    if dot.interval is not None:
        low, high = map(place, dot.interval)
        parts.append(
            element('line', class_=f'interval {dot.style.colour}', x1=low, x2=high, y1=y, y2=y)
        )
        parts += [
            element('line', class_=f'end {dot.style.colour}', x1=x, x2=x, y1=y - 4, y2=y + 4)
            for x in (low, high)
        ]
    if dot.chance is not None:
        x = place(dot.chance)
        parts.append(element('line', class_='chance', x1=x, x2=x, y1=y - 9, y2=y + 9))
    return joined(parts, dot.style.mark(place(dot.value), y))


def curve_plot(title: str, lines: Sequence[Line], x: Axis, y: Axis, description: str) -> Markup:
    """Draw curves, with a few marks on each to tell them apart."""
    left, right, top, bottom = 52.0, WIDTH - 14.0, 10.0, float(CURVE_HEIGHT)
    parts = [x_axis(x, left, right, top, bottom), y_axis(y, left, right, top, bottom)]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across, up = min(point[0] / x.end, 1.0), min(point[1] / y.end, 1.0)
        return left + (right - left) * across, bottom - (bottom - top) * up

    marks = []
    for index, line in enumerate(lines):
        points = cut_off(line.points, x.end, line.steps)
        if not points:
            continue
        written = ' '.join(f'{a:.1f},{b:.1f}' for a, b in map(place, points))
        parts.append(
            element(
                'polyline',
                class_=f'curve {line.style.colour}',
                points=written,
                stroke_dasharray=line.style.dashes,
            )
        )
        # Not at the same places for all, so that no mark hides another.
        shift = (index + 0.5) / max(1, len(lines))
        for step in range(MARKS_EACH):
            at = x.end * (step + shift) / MARKS_EACH
            height = height_at(points, at)
            if height is not None:
                marks.append(line.style.mark(*place((at, height)), radius=3.6))
        if line.own is not None:
            marks.append(element('circle', class_='own', **circle(*place(line.own), 10)))
            marks.append(line.style.mark(*place(line.own), radius=5.5))
    return drawing(title, description, bottom + AXIS_HEIGHT, [*parts, *marks])


def circle(x: float, y: float, radius: float) -> dict[str, float]:
    """Return the attributes of a circle."""
    return {'cx': x, 'cy': y, 'r': radius}


def cut_off(
    points: Sequence[tuple[float, float]], end: float, steps: bool
) -> list[tuple[float, float]]:
    """Return the part of a curve up to the end of its axis, with corners if it has steps."""
    shown: list[tuple[float, float]] = []
    for across, up in points:
        if across > end:
            break
        if steps and shown:
            shown.append((across, shown[-1][1]))
        shown.append((across, up))
    if steps and shown:
        shown.append((end, shown[-1][1]))
    return shown


def height_at(points: Sequence[tuple[float, float]], at: float) -> float | None:
    """Return how high a curve is somewhere, None beside it."""
    if not points[0][0] <= at <= points[-1][0]:
        return None
    return float(np.interp(at, *np.transpose(points)))


def swatch(style: Style) -> Markup:
    """Return a small picture of a method's line and mark, for a legend."""
    line = element(
        'line',
        class_=f'curve {style.colour}',
        x1=1,
        x2=43,
        y1=8,
        y2=8,
        stroke_dasharray=style.dashes,
    )
    return element(
        'svg',
        line,
        style.mark(22, 8),
        class_='swatch',
        viewBox='0 0 44 16',
        width='44',
        height='16',
        aria_hidden='true',
    )


# Parts of plots


def drawing(title: str, description: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return a plot; its title and description are for those who cannot see it."""
    return element(
        'svg',
        element('title', title),
        element('desc', description),
        parts,
        class_='plot',
        viewBox=f'0 0 {WIDTH} {height:.0f}',
        role='img',
        aria_label=f'{title}. {description}',
    )


def x_axis(axis: Axis, left: float, right: float, top: float, bottom: float) -> Markup:
    """Draw a horizontal scale with lines upwards."""
    parts = []
    for tick in axis.ticks:
        x = left + (right - left) * tick / axis.end
        parts.append(element('line', class_='grid', x1=x, x2=x, y1=top, y2=bottom))
        parts.append(text(f'{tick:.3g}', x, bottom + 20, 'middle', class_='tick'))
    name = text(axis.name, (left + right) / 2, bottom + 39, 'middle', class_='tick')
    return joined(parts, baseline(left, right, bottom, bottom), name if axis.name else '')


def y_axis(axis: Axis, left: float, right: float, top: float, bottom: float) -> Markup:
    """Draw a vertical scale with lines to the right."""
    parts = []
    for tick in axis.ticks:
        y = bottom - (bottom - top) * tick / axis.end
        parts.append(element('line', class_='grid', x1=left, x2=right, y1=y, y2=y))
        parts.append(text(f'{tick:.3g}', left - 6, y + 4, 'end', class_='tick'))
    middle = (top + bottom) / 2
    name = element(
        'text',
        axis.name,
        class_='tick',
        text_anchor='middle',
        transform=f'translate(13 {middle:.0f}) rotate(-90)',
    )
    return joined(parts, baseline(left, left, top, bottom), name)


def baseline(x1: float, x2: float, y1: float, y2: float) -> Markup:
    """Draw the line of a scale."""
    return element('line', class_='axis', x1=x1, x2=x2, y1=y1, y2=y2)


def text(
    words: str, x: float, y: float, anchor: str, whole: str = '', class_: str | None = None
) -> Markup:
    """Write words; where they were cut, the whole is told to those who point at them."""
    told = element('title', whole) if whole and whole != words else ''
    return element('text', told, words, x=x, y=y, text_anchor=anchor, class_=class_)


def cut(label: str) -> str:
    """Return a name that is not too long; its two ends tell most."""
    if len(label) <= LONGEST_LABEL:
        return label
    half = (LONGEST_LABEL - 1) // 2
    return f'{label[:half]}…{label[-half:]}'
