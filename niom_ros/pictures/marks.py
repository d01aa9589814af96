"""Marks on images: the colours, lines and shapes that pictures are made of.

The colours are those of Okabe and Ito, viridis and inferno, which stay distinct with every kind of
colour blindness; shapes carry the same information.
"""

from collections.abc import Sequence
import math

import cv2
import numpy as np

from niom_ros.pictures.lettering import Colour, SKY, WHITE

BLUE = (0, 114, 178)
VERMILLION = (213, 94, 0)
GREEN = (0, 158, 115)
PURPLE = (204, 121, 167)
GREY = (205, 205, 205)
SLATE = (86, 90, 98)
BLACK = (0, 0, 0)

Pixel = Sequence[int]  # x, y


def colour_map(code: int, darkest: int) -> np.ndarray:
    """Return 256 RGB colours of an OpenCV colour map, without those too dark for a photo."""
    steps = np.linspace(darkest, 255, 256).round().astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(steps[:, None], code)[..., ::-1])


SCORE_COLOURS = colour_map(cv2.COLORMAP_VIRIDIS, 70)
HEAT_COLOURS = colour_map(cv2.COLORMAP_INFERNO, 40)


def score_colours(scores: np.ndarray) -> list[Colour]:
    """Return the colours of scores from 0 to 1."""
    steps = (255 * np.nan_to_num(scores).clip(0, 1)).round().astype(int)
    colours: list[Colour] = SCORE_COLOURS[steps, 0].tolist()
    return colours


def whole(points: np.ndarray) -> list[Pixel]:
    """Return points as integers that OpenCV can draw, even far outside of the image."""
    rounded: list[Pixel] = np.nan_to_num(points).clip(-1e9, 1e9).round().astype(int).tolist()
    return rounded


def draw_cross(pixels: np.ndarray, point: Pixel, size: int) -> None:
    """Draw the mark of a match that disagrees."""
    shape, length, thickness = cv2.MARKER_TILTED_CROSS, size * 3 // 5, 1 + size // 12
    cv2.drawMarker(pixels, point, BLACK, shape, length, thickness + 2)
    cv2.drawMarker(pixels, point, VERMILLION, shape, length, thickness, cv2.LINE_AA)


def draw_ink(pixels: np.ndarray, point: Pixel, agrees: bool, size: int) -> None:
    """Draw a point of a drawing: a dot where it lies on an edge, a small cross where not."""
    if agrees:
        cv2.circle(pixels, point, 1 + size // 8, SKY, -1, cv2.LINE_AA)
    else:
        shape, thickness = cv2.MARKER_TILTED_CROSS, 1 + size // 16
        cv2.drawMarker(pixels, point, VERMILLION, shape, size // 2, thickness, cv2.LINE_AA)


def draw_dot(pixels: np.ndarray, point: Pixel, colour: Colour, size: int) -> None:
    """Draw one end of a match that agrees."""
    cv2.circle(pixels, point, 1 + size // 6, BLACK, -1)
    cv2.circle(pixels, point, size // 6, colour, -1)


def draw_line(
    pixels: np.ndarray, start: Pixel, end: Pixel, colour: Colour, thickness: int
) -> None:
    """Draw a line with a black border, even if it starts or ends far outside."""
    # OpenCV visits all rows of a thick line, even a billion outside the image.
    around = (-99, -99, pixels.shape[1] + 198, pixels.shape[0] + 198)
    visible, start, end = cv2.clipLine(around, start, end)
    if visible:
        cv2.line(pixels, start, end, BLACK, thickness + 2, cv2.LINE_AA)
        cv2.line(pixels, start, end, colour, thickness, cv2.LINE_AA)


def draw_thin_line(pixels: np.ndarray, start: Pixel, end: Pixel, colour: Colour) -> None:
    """Draw a line of one pixel without a border, even if it starts or ends far outside."""
    visible, start, end = cv2.clipLine((0, 0, pixels.shape[1], pixels.shape[0]), start, end)
    if visible:
        cv2.line(pixels, start, end, colour, 1, cv2.LINE_AA)


def draw_dashed_quadrangle(pixels: np.ndarray, corners: np.ndarray, size: int) -> None:
    """Draw four dashed edges, with an arrow head at the first one: the top of a rough fit."""
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        dashes = round(min(max(2.0, math.hypot(*(end - start)) / (2 * size)), 50.0))
        steps = np.linspace(start, end, 2 * dashes)
        for first, last in zip(whole(steps[::2]), whole(steps[1::2]), strict=True):
            draw_line(pixels, first, last, SKY, 1 + size // 12)
    top, bottom = corners[:2].mean(axis=0), corners[2:].mean(axis=0)
    draw_arrow_head(pixels, top, top - bottom, WHITE, size)


def draw_deviation(pixels: np.ndarray, point: Pixel, radius: float) -> None:
    """Draw a circle of the size of a standard deviation around a landmark."""
    rounded = round(min(radius, max(pixels.shape)))
    cv2.circle(pixels, point, rounded, BLACK, 4, cv2.LINE_AA)
    cv2.circle(pixels, point, rounded, PURPLE, 2, cv2.LINE_AA)


def draw_quadrangle(pixels: np.ndarray, corners: np.ndarray, size: int) -> None:
    """Draw four edges, the first one white and with an arrow head at it: the top."""
    ends = whole(corners)
    for index in (1, 2, 3, 0):
        colour = SKY if index else WHITE
        draw_line(pixels, ends[index], ends[(index + 1) % 4], colour, 1 + size // 10)
    top, bottom = corners[:2].mean(axis=0), corners[2:].mean(axis=0)
    draw_arrow_head(pixels, top, top - bottom, WHITE, size)


def draw_arrow_head(
    pixels: np.ndarray, tip: np.ndarray, direction: np.ndarray, colour: Colour, size: int
) -> None:
    """Draw a triangle that points in a direction."""
    length = np.hypot(*direction)
    if 0 < length < math.inf:
        back = -0.7 * size / length * direction
        aside = 0.7 * np.array([-back[1], back[0]])
        fill(pixels, np.array([tip, tip + back + aside, tip + back - aside]), colour)


def draw_diamond(pixels: np.ndarray, point: np.ndarray, size: int) -> None:
    """Draw the mark of a landmark."""
    tips = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]])
    fill(pixels, point + 0.65 * size * tips, WHITE)
    inner = np.array(whole(point + 0.4 * size * tips))
    cv2.fillConvexPoly(pixels, inner, PURPLE, cv2.LINE_AA)


def fill(pixels: np.ndarray, corners: np.ndarray, colour: Colour) -> None:
    """Fill a small shape and give it a black border."""
    shape = np.array(whole(corners))
    cv2.polylines(pixels, [shape], True, BLACK, 3, cv2.LINE_AA)
    cv2.fillConvexPoly(pixels, shape, colour, cv2.LINE_AA)


def draw_box(pixels: np.ndarray, start: Pixel, end: Pixel, used: bool, size: int) -> None:
    """Draw the box of an object: thick if weights come from it, thin if not."""
    colour, thickness = (SKY, 1 + size // 8) if used else (GREY, 1)
    cv2.rectangle(pixels, start, end, BLACK, thickness + 2)
    cv2.rectangle(pixels, start, end, colour, thickness)
