"""A picture of a film in which a reference was tracked: some frames, and the errors of all."""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.film_moments import (
    DOT_RADIUS,
    Moment,
    RING_COLOUR,
    RING_RADIUS,
    Thumbnail,
)
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
    Entry,
    text_size,
    WHITE,
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


def thumbnail(image: np.ndarray) -> Thumbnail:
    """Return a small copy: hundreds of them fit into memory."""
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
    full matches are taken as the truth.
    """
    # Only here: matplotlib takes a second to load, and measuring does not need it.
    from niom_ros.benchmarks.evaluation.film_chart import draw_chart

    width = COLUMNS * FRAME_WIDTH + (COLUMNS - 1) * GAP
    chosen = worth_seeing(moments)
    frames = [drawn(moments[index], reference) for index in chosen]
    height = max(frame.shape[0] for frame in frames)
    canvas = np.zeros((ROWS * (height + GAP), width, 3), np.uint8)
    for place, frame in enumerate(frames):
        row, column = divmod(place, COLUMNS)
        top, left = row * (height + GAP), column * (FRAME_WIDTH + GAP)
        canvas[top : top + frame.shape[0], left : left + frame.shape[1]] = frame
    chart = draw_chart(width, moments, full_errors)
    return framed(
        head(width, title, moments), np.vstack([canvas, chart]), entries(width, bool(full_errors))
    )


def worth_seeing(moments: Sequence[Moment]) -> list[int]:
    """Return frames spread over the film, among them one without the reference."""
    chosen = np.linspace(0, len(moments) - 1, COLUMNS * ROWS).round().astype(int).tolist()
    hidden = [index for index, moment in enumerate(moments) if moment.hidden]
    if hidden and not any(moments[index].hidden for index in chosen):
        middle = hidden[len(hidden) // 2]
        chosen[int(np.argmin([abs(index - middle) for index in chosen]))] = middle
    return sorted(set(chosen))


def drawn(moment: Moment, reference: Picture) -> np.ndarray:
    """Return a frame with the true and the tracked outline, and the result in words."""
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
    """Return the result of a frame in words."""
    if moment.view is None:
        return 'correctly not found' if moment.hidden else 'not found'
    if moment.hidden:
        return 'WRONG: it is not there'
    if moment.error is None:
        return 'found'
    return f'{"WRONG: " if moment.wrong else ""}{moment.error:.1f} px off'


def head(width: int, title: str, moments: Sequence[Moment]) -> np.ndarray:
    """Return a banner with the result of all frames."""
    found = sum(moment.view is not None for moment in moments)
    wrong = sum(moment.wrong for moment in moments)
    errors = [moment.error for moment in moments if moment.error is not None]
    text = f'{found} of {len(moments)} frames tracked.'
    if errors:
        text += f' Median error {np.median(errors):.2f} px, largest {max(errors):.1f} px.'
    headline, colour = (f'✗ {wrong} WRONG', VERMILLION) if wrong else ('✓ NONE WRONG', BLUE)
    return banner(
        width,
        colour,
        headline=headline,
        note='tracked frames',
        paragraphs=[(title, text)],
        lines_each=2,
    )


def entries(width: int, truth_known: bool) -> list[Entry]:
    """Return the legend."""
    size = text_size(width)
    left, top, right, bottom = symbol_area(size)
    middle = (left + right) // 2, (top + bottom) // 2
    dot, ring, tracked, lost = (empty_symbol(size) for _ in range(4))
    cv2.circle(dot, middle, DOT_RADIUS, WHITE, -1, cv2.LINE_AA)
    cv2.circle(ring, middle, RING_RADIUS, RING_COLOUR, 2, cv2.LINE_AA)
    tracked[top:bottom, left:right] = BLUE
    lost[top:bottom, left:right] = SLATE
    right_one = 'truth' if truth_known else 'full match'
    return [
        (place_entries(size)[0][0], 'tracked outline'),
        dashed_entry(right_one, TRUTH, LONG_DASHES, size),
        (dot, 'error of a tracked frame' if truth_known else 'distance between the outlines'),
        *([(ring, 'error of a full match')] if truth_known else []),
        (tracked, 'tracked'),
        (lost, 'not tracked' + ('; above: not visible' if truth_known else '')),
    ]
