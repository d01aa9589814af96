"""Pictures of what a method found in two images, beside the truth."""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_of, WRONG
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.core.homographies import warp_points
from niom_ros.matching.geometry import in_front
from niom_ros.pictures.lettering import banner, Colour, Entry
from niom_ros.pictures.marks import (
    BLACK,
    BLUE,
    draw_arrow_head,
    draw_quadrangle,
    GREY,
    PURPLE,
    SLATE,
    VERMILLION,
    whole,
)
from niom_ros.pictures.matches import (
    arrange,
    draw_correspondences,
    empty_symbol,
    framed,
    match_entries,
    name_sides,
    Panel,
    place_entries,
    status_banner,
    symbol_area,
)
from niom_ros.semantics.heat_maps import Area

MAX_WIDTH = 1000
TRUTH = PURPLE  # unlike any colour of a score
GUESS = GREY

# Lengths of dashes and of the gaps between them, as multiples of the text size.
LONG_DASHES = (1.0, 0.6)
DOTS = (0.3, 0.4)


def draw_answer(
    method: Method,
    runner: MethodRunner,
    reference: Picture,
    image: Picture,
    truth: np.ndarray | None = None,
    areas: Sequence[Area] = (),
) -> np.ndarray:
    """Draw reference and image side by side: matches, the outline found and the true one.

    If only boxes around the object are known, `areas` holds them, in pixels of the image.
    """
    answer = runner.match(method, reference, image)
    verdict, evidence = answer.match.verdict, answer.evidence
    canvas, panels = arrange([reference.pixels, image.pixels], MAX_WIDTH)
    left, right = panels
    size, corners = right.text_size, reference.box.corners()
    agreeing = verdict.inliers if answer.accepted else evidence.inliers
    shown = replace(answer.match, verdict=replace(verdict, inliers=agreeing))
    draw_correspondences(canvas, left, right, shown)
    for area in areas:
        draw_area(right, area)

    draw_quadrangle(left.pixels, warp_points(left.from_image, corners), size)
    entries = match_entries(size)
    if verdict.reference_to_image is not None:
        found = right.from_image @ verdict.reference_to_image
        draw_quadrangle(right.pixels, warp_points(found, corners), size)
        entries += place_entries(size)
    elif evidence.reference_to_image is not None and in_front(
        evidence.reference_to_image, reference.box
    ):
        outline = warp_points(evidence.reference_to_image, corners)
        draw_dashed_outline(right, outline, GUESS, DOTS)
        entries.append(dashed_entry('best guess, refused', GUESS, DOTS, size))
    if truth is not None:
        # Last and dashed, so that both are visible where they coincide.
        draw_dashed_outline(right, warp_points(truth, corners), TRUTH, LONG_DASHES)
        entries.append(dashed_entry('truth', TRUTH, LONG_DASHES, size))
    if areas:
        entries.append(area_entry(size))
    name_sides(panels)
    head = answer_banner(canvas.shape[1], answer, reference, truth, method.name)
    return framed(head, canvas, entries)


def answer_banner(
    width: int, answer: MethodAnswer, reference: Picture, truth: np.ndarray | None, title: str
) -> np.ndarray:
    """Return a banner that says what the method claims, and whether that is right."""
    if truth is None:
        return status_banner(width, answer.match, title)
    verdict = answer.match.verdict
    status = verdict.status.name.replace('_', ' ')
    claimed = error_of(verdict.reference_to_image, truth, reference)
    guessed = error_of(answer.evidence.reference_to_image, truth, reference)
    if claimed is None:
        headline, colour = f'REFUSED: {status}', SLATE
        how_far = f'best guess: {in_pixels(guessed)}' if guessed is not None else 'no guess'
    elif claimed < WRONG:
        headline, colour, how_far = f'✓ {status}', BLUE, in_pixels(claimed)
    else:
        headline, colour, how_far = f'✗ WRONG, said {status}', VERMILLION, in_pixels(claimed)
    text = f'{how_far[0].upper()}{how_far[1:]}. {verdict.message}.'
    return banner(
        width,
        colour,
        headline=headline,
        note=f'confidence {verdict.confidence:.2f}',
        paragraphs=[(title, text)],
        lines_each=2,
    )


def in_pixels(error: float) -> str:
    """Say how far an outline is from the true one."""
    if error == float('inf'):
        return 'a part of it would be behind the camera'
    return f'corners {error:.1f} px off' if error < 1000 else 'corners more than 1000 px off'


def draw_dashed_outline(
    panel: Panel, outline: np.ndarray, colour: Colour, pattern: tuple[float, float]
) -> None:
    """Draw a dashed outline, given in pixels of the image, with an arrow head at its top."""
    corners = warp_points(panel.from_image, outline)
    for index in range(4):
        start, end = corners[index], corners[(index + 1) % 4]
        draw_dashes(panel.pixels, start, end, colour, pattern, panel.text_size)
    top, bottom = corners[:2].mean(axis=0), corners[2:].mean(axis=0)
    draw_arrow_head(panel.pixels, top, top - bottom, colour, panel.text_size)


def draw_area(panel: Panel, area: Area) -> None:
    """Draw the box in which an object is known to be."""
    corners = np.array([[area.left, area.top], [area.right, area.bottom]])
    start, end = whole(warp_points(panel.from_image, corners))
    cv2.rectangle(panel.pixels, start, end, TRUTH, 1 + panel.text_size // 4)


def draw_dashes(
    pixels: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    colour: Colour,
    pattern: tuple[float, float],
    size: int,
) -> None:
    """Draw a dashed line, even if it begins and ends far outside the image."""
    (first, last) = whole(np.array([start, end]))
    # An outline can be a million pixels long; only its visible part gets dashes.
    around = (-99, -99, pixels.shape[1] + 198, pixels.shape[0] + 198)
    visible, first, last = cv2.clipLine(around, first, last)
    if not visible:
        return
    begin, way = np.array(first), np.array(last) - first
    length = max(float(np.hypot(*way)), 1.0)
    drawn, left_out = (part * size for part in pattern)
    thickness = 1 + size // 10
    steps = [
        whole(begin + way * np.array([[at], [min(at + drawn, length)]]) / length)
        for at in np.arange(0, length, drawn + left_out)
    ]
    # All borders first, so that none covers the next dash.
    for one, other in steps:
        cv2.line(pixels, one, other, BLACK, thickness + 2, cv2.LINE_AA)
    for one, other in steps:
        cv2.line(pixels, one, other, colour, thickness, cv2.LINE_AA)


def dashed_entry(text: str, colour: Colour, pattern: tuple[float, float], size: int) -> Entry:
    """Return the legend entry of a dashed outline."""
    symbol = np.hstack([empty_symbol(size)] * 2)[:, : 3 * size]
    left, top, _, bottom = symbol_area(size)
    middle = (top + bottom) / 2
    start, end = np.array([left, middle]), np.array([2.6 * size, middle])
    draw_dashes(symbol, start, end, colour, pattern, size)
    return symbol, text


def area_entry(size: int) -> Entry:
    """Return the legend entry of a box."""
    symbol = empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    cv2.rectangle(symbol, (left, top), (right, bottom), TRUTH, 1 + size // 4)
    return symbol, 'where the object is'
