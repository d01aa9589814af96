"""Plots of the report.

No meaning depends on colour alone: each method also has its own marker and its own dashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any, Literal

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
import numpy as np

from niom_ros.benchmarks.evaluation.reporting.svg import (
    INK,
    inline_svg,
    LINE,
    own_settings,
    PAPER,
    SERIES,
    SOFT,
    UNITS_PER_INCH,
)

DASHES = ((), (8, 3), (2, 2.5), (9, 3, 2, 3), (5, 2), (12, 3), (9, 2, 2, 2, 2, 2), (1.5, 4))
# The markers of matplotlib, and how much larger than a circle each must be to look as large.
MARKERS = {'o': 1.1, 's': 1.0, '^': 1.15, 'D': 0.95, 'v': 1.15, 'X': 1.3, '*': 1.75, 'h': 1.25}


@dataclass(frozen=True, kw_only=True)
class PlotLayout:
    """Sizes in units of the SVG; the page scales it."""

    width: float = 440
    curve_height: float = 346
    row: float = 15  # height of one interval
    row_gap: float = 12
    ticks: float = 30  # height of the ticks' labels
    longest_label: int = 22  # letters
    mark: float = 9  # diameter
    mark_on_curve: float = 7
    own_mark: float = 10
    own_ring: float = 20
    swatch: tuple[float, float] = (44, 16)  # width, height
    marks_on_curve: int = 5


LAYOUT = PlotLayout()
SETTINGS: Mapping[Any, Any] = {
    'svg.fonttype': 'none',  # text stays text
    'svg.hashsalt': 'niom eval',
    'font.family': 'sans-serif',
    'font.sans-serif': ['DejaVu Sans'],
    'font.size': 13,
    'text.color': INK,
    'axes.edgecolor': SOFT,
    'axes.labelcolor': SOFT,
    'axes.labelsize': 12,
    'axes.linewidth': 1.2,
    'axes.axisbelow': True,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'grid.color': LINE,
    'grid.linewidth': 0.7,
    'lines.linewidth': 2.2,
    'lines.scale_dashes': False,
    'xtick.labelcolor': SOFT,
    'xtick.labelsize': 12,
    'xtick.major.pad': 7,
    'xtick.major.size': 0,
    'ytick.labelcolor': SOFT,
    'ytick.labelsize': 12,
    'ytick.major.pad': 10,
    'ytick.major.size': 0,
}


@dataclass(frozen=True)
class Style:
    """How the marks and lines of one method differ from those of others."""

    number: int

    @property
    def colour(self) -> str:
        """Return the placeholder of a colour."""
        return SERIES[self.number % len(SERIES)]

    @property
    def dashes(self) -> tuple[float, ...]:
        """Return the dashes of lines; methods of the same colour have different ones."""
        return DASHES[(self.number + self.number // len(SERIES)) % len(DASHES)]

    @property
    def marker(self) -> str:
        """Return the marker, in the notation of matplotlib."""
        return list(MARKERS)[self.number % len(MARKERS)]


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
    own: tuple[float, float] | None = None  # at the method's own threshold
    steps: bool = False  # whether it jumps at the points


@dataclass(frozen=True)
class Axis:
    """A scale from 0 to an end."""

    name: str
    end: float

    @property
    def ticks(self) -> list[float]:
        """Return the numbers that are written at the axis."""
        locator = MaxNLocator(nbins=5, steps=[1, 2, 5, 10])
        return [float(tick) for tick in locator.tick_values(0, self.end)]

    @property
    def labels(self) -> list[str]:
        """Return the ticks as text."""
        return [f'{tick:.3g}' for tick in self.ticks]


def round_end(largest: float) -> float:
    """Return the next larger number of the kind 0.1, 0.2, 0.5, 1."""
    if not 0 < largest < math.inf:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(largest))
    steps = (factor * magnitude for factor in (1, 2, 5, 10))
    return next(end for end in steps if end >= largest * (1 - 1e-9))


def dot_plot(title: str, rows: Sequence[DotRow], axis: Axis, description: str) -> Markup:
    """Draw numbers as marks on a scale, each with its interval as a line."""
    heights = [LAYOUT.row * max(1, len(row.dots)) + LAYOUT.row_gap for row in rows]
    bottoms = np.cumsum(heights)
    single = all(len(row.dots) == 1 for row in rows)
    with own_settings(SETTINGS):
        figure = new_figure(LAYOUT.width, bottoms[-1] + LAYOUT.ticks)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.spines.left.set_visible(False)
        axes.grid(axis='x')
        axes.set(xlim=(0, axis.end), ylim=(bottoms[-1], 0), xlabel=axis.name)
        axes.set_xticks(axis.ticks, axis.labels)
        axes.set_yticks(bottoms - np.array(heights) / 2, [cut(row.name) for row in rows])
        axes.tick_params(axis='y', labelcolor=INK, labelsize=13)
        for row, height, bottom in zip(rows, heights, bottoms, strict=True):
            if not single and bottom < bottoms[-1]:
                axes.axhline(bottom, color=LINE, linewidth=0.7)
            first = bottom - height + (LAYOUT.row_gap + LAYOUT.row) / 2
            for index, dot in enumerate(row.dots):
                draw_dot(axes, dot, axis, first + LAYOUT.row * index, with_number=single)
        full_names = {cut(row.name): row.name for row in rows if cut(row.name) != row.name}
        return inline_svg(figure, 'plot', title, description, full_names)


def draw_dot(axes: Axes, dot: Dot, axis: Axis, y: float, with_number: bool) -> None:
    """Draw a mark, its interval and the level of chance."""
    if dot.value is None:
        write_beside(axes, 'not measured', (0, y), 4, SOFT)
        return
    if dot.interval is not None:
        span = np.clip(dot.interval, 0, axis.end)
        colour = dot.style.colour
        axes.plot(span, (y, y), color=colour, linewidth=2.4, clip_on=False)
        axes.plot(span, (y, y), '|', color=colour, ms=8, mew=1.4, clip_on=False)
    if dot.chance is not None:
        x = min(max(dot.chance, 0), axis.end)
        ends = y - 9, y + 9
        axes.plot((x, x), ends, color=INK, linewidth=1.4, dashes=(3, 2), clip_on=False)
    draw_mark(axes, dot.style, (min(max(dot.value, 0), axis.end), y), LAYOUT.mark)
    if with_number:
        write_beside(axes, f'{dot.value:.3f}', (1, y), 8, INK)


def write_beside(
    axes: Axes, words: str, place: tuple[float, float], shift: float, colour: str
) -> None:
    """Write words to the right of a place: a share of the axis' length, and a height."""
    axes.annotate(
        words,
        place,
        xycoords=axes.get_yaxis_transform(),
        xytext=(shift, 0),
        textcoords='offset points',
        va='center_baseline',
        color=colour,
        annotation_clip=False,
    )


def curve_plot(title: str, lines: Sequence[Line], x: Axis, y: Axis, description: str) -> Markup:
    """Draw curves, with a few marks on each to tell them apart."""
    with own_settings(SETTINGS):
        figure = new_figure(LAYOUT.width, LAYOUT.curve_height)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.grid()
        axes.set(xlim=(0, x.end), ylim=(0, y.end), xlabel=x.name, ylabel=y.name)
        axes.set_xticks(x.ticks, x.labels)
        axes.set_yticks(y.ticks, y.labels)
        for index, line in enumerate(lines):
            # Not at the same places for all, so that no mark hides another.
            draw_curve(axes, line, x.end, (index + 0.5) / len(lines))
        return inline_svg(figure, 'plot', title, description)


def draw_curve(axes: Axes, line: Line, end: float, shift: float) -> None:
    """Draw a curve up to the end of the axis; its marks are shifted by a share of their gaps."""
    points = [point for point in line.points if point[0] <= end]
    if not points:
        return
    if line.steps:
        points.append((end, points[-1][1]))
    across, up = np.array(points).T
    axes.plot(
        across,
        up,
        color=line.style.colour,
        dashes=line.style.dashes,
        drawstyle='steps-post' if line.steps else 'default',
        clip_on=False,
    )
    for step in range(LAYOUT.marks_on_curve):
        at = end * (step + shift) / LAYOUT.marks_on_curve
        if across[0] <= at <= across[-1]:
            before = up[np.searchsorted(across, at, 'right') - 1]
            height = before if line.steps else np.interp(at, across, up)
            draw_mark(axes, line.style, (at, height), LAYOUT.mark_on_curve)
    if line.own is not None:
        ring = axes.scatter([line.own[0]], [line.own[1]], LAYOUT.own_ring**2, clip_on=False)
        ring.set(facecolor='none', edgecolor=INK, linewidth=1.4, zorder=4)
        draw_mark(axes, line.style, line.own, LAYOUT.own_mark)


def draw_mark(axes: Axes, style: Style, place: tuple[float, float], diameter: float) -> None:
    """Draw the mark of a method above all lines."""
    x, y = place
    axes.plot(
        [x],
        [y],
        style.marker,
        ms=diameter * MARKERS[style.marker],
        mfc=style.colour,
        mec=PAPER,
        mew=0.8,
        clip_on=False,
        zorder=3,
    )


def swatch(style: Style) -> Markup:
    """Return a small picture of a method's line and mark, for a legend."""
    width, height = LAYOUT.swatch
    with own_settings(SETTINGS):
        figure = new_figure(width, height, layout=None)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(0, height))
        middle = height / 2
        axes.plot((1, width - 1), (middle, middle), color=style.colour, dashes=style.dashes)
        draw_mark(axes, style, (width / 2, middle), LAYOUT.mark)
        return inline_svg(figure, 'swatch')


def new_figure(
    width: float, height: float, layout: Literal['constrained'] | None = 'constrained'
) -> Figure:
    """Return an empty figure, which needs no display."""
    size = width / UNITS_PER_INCH, height / UNITS_PER_INCH
    return Figure(size, dpi=UNITS_PER_INCH, frameon=False, layout=layout)


def cut(label: str) -> str:
    """Return a name that is not too long; its two ends say most."""
    if len(label) <= LAYOUT.longest_label:
        return label
    half = (LAYOUT.longest_label - 1) // 2
    return f'{label[:half]}…{label[-half:]}'
