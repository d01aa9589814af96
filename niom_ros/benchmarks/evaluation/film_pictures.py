"""A picture of a film in which a reference was followed: some frames, and the errors of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.pictures import (
    dashed_entry,
    draw_dashed_outline,
    LONG_DASHES,
    TRUTH,
)
from niom_ros.core.homographies import warp_points
from niom_ros.matching.geometry import in_front
from niom_ros.pictures.lettering import (
    banner,
    Colour,
    Entry,
    line_height,
    text_size,
    text_width,
    WHITE,
    write,
    write_plate,
)
from niom_ros.pictures.marks import BLUE, draw_quadrangle, SLATE, VERMILLION
from niom_ros.pictures.matches import (
    empty_symbol,
    framed,
    Panel,
    place_entries,
    resized,
    scaling,
    symbol_area,
)

COLUMNS, ROWS = 4, 2
FRAME_WIDTH = 320
GAP = 4
PLOT_HEIGHT = 200
STRIP = 12  # height of the line that tells whether it was followed
LOWEST_TOP = 2.0  # pixels of error that a plot has room for
DOT = 3
RING = 5
YELLOW = (240, 228, 66)  # of Okabe and Ito


@dataclass(frozen=True)
class Thumbnail:
    """A small copy of a frame."""

    pixels: np.ndarray
    from_image: np.ndarray  # 3 x 3


@dataclass(frozen=True)
class Moment:
    """One frame of a film, and what was said about it."""

    stamp: float
    frame: Thumbnail
    view: np.ndarray | None  # where the reference is claimed to be; None: nowhere
    truth: np.ndarray | None  # where it is; None: not there, or not known
    error: float | None  # pixels; None: nothing to compare
    hidden: bool  # whether nothing of the reference is to be seen
    wrong: bool  # whether the claim misleads


def thumbnail(image: np.ndarray) -> Thumbnail:
    """Return a small copy, of which hundreds fit into memory."""
    small = resized(image, FRAME_WIDTH / image.shape[1])
    return Thumbnail(small, scaling(image, small))


def draw_film(
    title: str,
    reference: Picture,
    moments: Sequence[Moment],
    full_errors: Mapping[int, float | None],
) -> np.ndarray:
    """Draw frames of a film with the outlines in them, above a plot of errors over time.

    `full_errors` has the errors of full matches by the number of their frame; there are none where
    full matches stand for the truth.
    """
    width = COLUMNS * FRAME_WIDTH + (COLUMNS - 1) * GAP
    chosen = worth_seeing(moments)
    frames = [drawn(moments[index], reference) for index in chosen]
    height = max(frame.shape[0] for frame in frames)
    canvas = np.zeros((ROWS * (height + GAP), width, 3), np.uint8)
    for place, frame in enumerate(frames):
        row, column = divmod(place, COLUMNS)
        top, left = row * (height + GAP), column * (FRAME_WIDTH + GAP)
        canvas[top : top + frame.shape[0], left : left + frame.shape[1]] = frame
    plot = draw_plot(width, moments, full_errors)
    return framed(
        head(width, title, moments), np.vstack([canvas, plot]), entries(width, bool(full_errors))
    )


def worth_seeing(moments: Sequence[Moment]) -> list[int]:
    """Return frames that are spread over the film; one without the reference is among them."""
    chosen = np.linspace(0, len(moments) - 1, COLUMNS * ROWS).round().astype(int).tolist()
    hidden = [index for index, moment in enumerate(moments) if moment.hidden]
    if hidden and not any(moments[index].hidden for index in chosen):
        middle = hidden[len(hidden) // 2]
        chosen[int(np.argmin([abs(index - middle) for index in chosen]))] = middle
    return sorted(set(chosen))


def drawn(moment: Moment, reference: Picture) -> np.ndarray:
    """Return a frame with the true and the tracked outline, and a line that says how it went."""
    pixels, size = moment.frame.pixels.copy(), text_size(FRAME_WIDTH * 2)
    panel = Panel(pixels, moment.frame.from_image, np.zeros(2), size)
    corners = reference.box.corners()
    if moment.view is not None and in_front(moment.view, reference.box):
        draw_quadrangle(pixels, warp_points(panel.from_image @ moment.view, corners), size)
    if moment.truth is not None:
        draw_dashed_outline(panel, warp_points(moment.truth, corners), TRUTH, LONG_DASHES)
    write_plate(pixels, f'{moment.stamp:.1f} s: {words(moment)}', (0, 0), size)
    return pixels


def words(moment: Moment) -> str:
    """Say how it went in a frame."""
    if moment.view is None:
        return 'rightly not found' if moment.hidden else 'not found'
    if moment.hidden:
        return 'WRONG: it is not there'
    if moment.error is None:
        return 'found'
    return f'{"WRONG: " if moment.wrong else ""}{moment.error:.1f} px off'


def head(width: int, title: str, moments: Sequence[Moment]) -> np.ndarray:
    """Return a strip that says how it went in all frames."""
    found = sum(moment.view is not None for moment in moments)
    wrong = sum(moment.wrong for moment in moments)
    errors = [moment.error for moment in moments if moment.error is not None]
    text = f'{found} of {len(moments)} frames tracked.'
    if errors:
        text += f' Median error {np.median(errors):.2f} px, largest {max(errors):.1f} px.'
    headline, colour = (f'✗ {wrong} WRONG', VERMILLION) if wrong else ('✓ NONE WRONG', BLUE)
    return banner(width, colour, headline, 'tracked frames', [(title, text)], 2)


def draw_plot(
    width: int, moments: Sequence[Moment], full_errors: Mapping[int, float | None]
) -> np.ndarray:
    """Draw errors over time; below, when it was followed."""
    size = text_size(width) - 6
    errors = [moment.error for moment in moments if moment.error is not None]
    errors += [error for error in full_errors.values() if error is not None]
    finite = [error for error in errors if math.isfinite(error)]
    top_error = max(LOWEST_TOP, 1.1 * max(finite, default=0.0))
    left, right = 5 * size, width - 2 * size
    top, bottom = size, PLOT_HEIGHT - STRIP - 2 * line_height(size)
    duration = max(moments[-1].stamp, 1e-9)
    plot = np.zeros((PLOT_HEIGHT, width, 3), np.uint8)

    def across(stamp: float) -> int:
        return round(left + stamp / duration * (right - left))

    def up(error: float) -> int:
        return round(bottom - min(error / top_error, 1.0) * (bottom - top))

    ends = [across(moment.stamp) for moment in moments[1:]] + [right]
    for moment, end in zip(moments, ends, strict=True):
        start = across(moment.stamp)
        if moment.hidden:
            plot[top:bottom, start : end + 1] = SLATE
        plot[bottom + 2 : bottom + 2 + STRIP, start : end + 1] = strip_colour(moment)
    step = nice_step(top_error)
    for number in range(int(top_error / step) + 1):
        y, label = up(number * step), f'{number * step:g} px'
        cv2.line(plot, (left, y), (right, y), SLATE, 1)
        place = left - text_width(label, size) - size // 2, max(0, y - line_height(size) // 2)
        write(plot, label, place, size)
    for second in range(int(duration) + 1):
        if second % max(1, round(duration / 12)) == 0:
            label = f'{second} s'
            place = across(second) - text_width(label, size) // 2, bottom + STRIP + 4
            write(plot, label, place, size)
    for moment in moments:
        if moment.error is not None:
            place = across(moment.stamp), up(moment.error)
            cv2.circle(plot, place, DOT, VERMILLION if moment.wrong else WHITE, -1, cv2.LINE_AA)
    for number, error in full_errors.items():
        if error is not None:
            place = across(moments[number].stamp), up(error)
            cv2.circle(plot, place, RING, YELLOW, 2, cv2.LINE_AA)
    return plot


def strip_colour(moment: Moment) -> Colour:
    """Return the colour that tells whether a frame was answered by tracking."""
    if moment.wrong:
        return VERMILLION
    return BLUE if moment.view is not None else SLATE


def nice_step(top: float) -> float:
    """Return a round number that goes two to five times into another one."""
    power = 10.0 ** math.floor(math.log10(top / 2))
    return max(step * power for step in (1, 2, 5) if step * power <= top / 2)


def entries(width: int, truth_known: bool) -> list[Entry]:
    """Return what the marks mean."""
    size = text_size(width)
    left, top, right, bottom = symbol_area(size)
    middle = (left + right) // 2, (top + bottom) // 2
    dot, ring, tracked, lost = (empty_symbol(size) for _ in range(4))
    cv2.circle(dot, middle, DOT, WHITE, -1, cv2.LINE_AA)
    cv2.circle(ring, middle, RING, YELLOW, 2, cv2.LINE_AA)
    tracked[top:bottom, left:right] = BLUE
    lost[top:bottom, left:right] = SLATE
    right_one = 'truth' if truth_known else 'full match'
    return [
        (place_entries(size, None)[0][0], 'tracked outline'),
        dashed_entry(right_one, TRUTH, LONG_DASHES, size),
        (dot, 'error of a tracked frame' if truth_known else 'distance of both'),
        *([(ring, 'error of a full match')] if truth_known else []),
        (tracked, 'tracked'),
        (lost, 'not tracked' + ('; above: not to be seen' if truth_known else '')),
    ]
