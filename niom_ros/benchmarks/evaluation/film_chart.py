"""The chart of a film: errors over time, and when the reference was tracked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
import numpy as np

from niom_ros.benchmarks.evaluation.film_moments import (
    DOT_RADIUS,
    Moment,
    RING_COLOUR,
    RING_RADIUS,
)
from niom_ros.benchmarks.evaluation.reporting.svg import own_settings
from niom_ros.pictures.lettering import Colour, line_height, text_size, WHITE
from niom_ros.pictures.marks import BLUE, SLATE, VERMILLION

DOTS_PER_INCH = 72  # a point of matplotlib is a pixel


@dataclass(frozen=True)
class ChartLayout:
    """Sizes in pixels."""

    height: int = 200
    strip: int = 12  # height of the line that shows whether the reference was tracked
    lowest_top: float = 2.0  # pixels of error that the chart always has room for


LAYOUT = ChartLayout()


def draw_chart(
    width: int, moments: Sequence[Moment], full_errors: Mapping[int, float | None]
) -> np.ndarray:
    """Draw errors over time; below, when the reference was tracked.

    `full_errors` has the errors of full matches by the number of their frame.
    """
    stamps = [moment.stamp for moment in moments]
    dots = [(one.stamp, one.error, one.wrong) for one in moments if one.error is not None]
    rings = [(stamps[index], error) for index, error in full_errors.items() if error is not None]
    finite = [error for _, error, *_ in [*dots, *rings] if math.isfinite(error)]
    top = max(LAYOUT.lowest_top, 1.1 * max(finite, default=0.0))
    duration = max(stamps[-1], 1e-9)
    spans = list(zip(stamps, np.diff([*stamps, duration]), strict=True))
    hidden = [span for span, moment in zip(spans, moments, strict=True) if moment.hidden]
    size = text_size(width) - 6
    with own_settings({'font.size': size}):
        inches = width / DOTS_PER_INCH, LAYOUT.height / DOTS_PER_INCH
        figure = Figure(inches, DOTS_PER_INCH, facecolor='black')
        bottom = 2 * line_height(size) + LAYOUT.strip
        axes = add_axes(figure, bottom, LAYOUT.height - size - bottom, size)
        strip = add_axes(figure, bottom - LAYOUT.strip - 2, LAYOUT.strip, size, axes)
        strip.set_zorder(-1)  # below marks of errors near 0
        axes.broken_barh(hidden, (0, top), facecolors=rgb(SLATE))
        strip.broken_barh(spans, (0, 1), facecolors=[rgb(strip_colour(one)) for one in moments])
        for wrong, colour in ((False, WHITE), (True, VERMILLION)):
            places = [(stamp, min(error, top)) for stamp, error, is_so in dots if is_so == wrong]
            draw_marks(axes, places, mfc=rgb(colour), mew=0, ms=2 * DOT_RADIUS + 1)
        places = [(stamp, min(error, top)) for stamp, error in rings]
        draw_marks(axes, places, mfc='none', mec=rgb(RING_COLOUR), mew=3, ms=2 * RING_RADIUS + 1)
        axes.set(xlim=(0, duration), ylim=(0, top))
        strip.set(ylim=(0, 1), yticks=[])
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter('{x:g} px')
        axes.grid(axis='y', color=rgb(SLATE), linewidth=1)
        strip.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
        strip.xaxis.set_major_formatter('{x:g} s')
        for part in (axes, strip):
            part.set_frame_on(False)
            part.tick_params(length=0, pad=6, labelcolor=rgb(WHITE))
        axes.tick_params(labelbottom=False)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def add_axes(
    figure: Figure, bottom: int, height: int, size: int, shared: Axes | None = None
) -> Axes:
    """Add axes at a bottom and of a height in pixels, with room for labels of a font size."""
    width, whole = figure.bbox.size
    left, right = 5 * size, width - 2 * size
    place = left / width, bottom / whole, (right - left) / width, height / whole
    return figure.add_axes(place, sharex=shared)


def draw_marks(axes: Axes, places: Sequence[tuple[float, float]], **style: Any) -> None:
    """Draw a mark at each place, not clipped at the edge of the chart."""
    across, up = np.array(places).reshape(-1, 2).T
    axes.plot(across, up, 'o', clip_on=False, **style)


def strip_colour(moment: Moment) -> Colour:
    """Return the colour that says whether tracking answered a frame."""
    if moment.wrong:
        return VERMILLION
    return BLUE if moment.view is not None else SLATE


def rgb(colour: Colour) -> tuple[float, ...]:
    """Return a colour in the notation of matplotlib."""
    return tuple(value / 255 for value in colour)
