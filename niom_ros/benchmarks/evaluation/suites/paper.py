"""Drawings on paper as a camera sees them: at an angle, on a table, in uneven light.

All of it is rendered, so the position of the drawing in the camera image is known exactly.
"""

from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.drawings.strokes import stroke_width

FRAME = (640, 480)  # pixels of the camera image
FINER = 3  # times as many pixels are drawn, then averaged: strokes are thinner than a pixel
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Pen:
    """How a drawing is redrawn by another hand."""

    thicker: tuple[float, float] = (2.0, 3.0)  # times as wide as the stroke was
    wobble: float = 0.002  # of the longer side: standard deviation from the original line
    wobble_length: float = 0.12  # of the longer side: the distance over which this changes


@dataclass(frozen=True)
class SheetPlacement:
    """How a sheet lies in front of the camera."""

    margin: float = 0.06  # of the longer side, around the drawing
    filled: tuple[float, float] = (0.75, 0.95)  # share of the frame
    turn: float = 15.0  # degrees either way
    tilt: tuple[float, float] = (10.0, 35.0)  # degrees between the camera and the vertical
    focal_length: float = 0.9  # of the width of the frame


PEN, SHEET = Pen(), SheetPlacement()


# Where a drawing is


def placed(scale: float, left: float = 0.0, top: float = 0.0) -> np.ndarray:
    """Return the homography that scales a picture and moves its corner to a position.

    Pixel centres are integers, so the corner of the first pixel is at -0.5.
    """
    shift = (scale - 1) / 2
    return np.array([[scale, 0, left + shift], [0, scale, top + shift], [0, 0, 1.0]])


def fitted(width: int, height: int) -> np.ndarray:
    """Return the homography that puts a picture into the middle of the frame, as large as fits."""
    scale = min(FRAME[0] / width, FRAME[1] / height)
    return placed(scale, (FRAME[0] - scale * width) / 2, (FRAME[1] - scale * height) / 2)


def view_of_page(width: int, height: int, random: np.random.Generator) -> np.ndarray:
    """Return the homography of a page that nearly fills the frame, a little askew."""
    corners = Box(0, 0, width, height).corners()
    inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    seen = warp_points(fitted(width, height), corners)
    seen = seen + inwards * random.uniform(0, 0.08, (4, 2)) * FRAME
    return cv2.getPerspectiveTransform(corners.astype(np.float32), seen.astype(np.float32))


def view_of_sheet(width: int, height: int, random: np.random.Generator) -> np.ndarray:
    """Return the homography of a sheet on a table, from a camera that looks down askew."""
    turn = math.radians(random.uniform(-SHEET.turn, SHEET.turn))
    tilt = math.radians(random.uniform(*SHEET.tilt))
    side = random.uniform(0, 2 * math.pi)
    axis = np.array([math.cos(side), math.sin(side), 0.0])
    rotation = cv2.Rodrigues(tilt * axis)[0] @ cv2.Rodrigues(np.array([0, 0, turn]))[0]
    focal = SHEET.focal_length * FRAME[0]
    distance = focal * max(width / FRAME[0], height / FRAME[1])
    middle = np.array([[1, 0, -(width - 1) / 2], [0, 1, -(height - 1) / 2], [0, 0, 1]])
    position = np.array([0, 0, distance])
    view = np.diag([focal, focal, 1.0]) @ np.column_stack([rotation[:, :2], position]) @ middle
    # Zoom and shift of the sensor, so that all of it is in the frame.
    seen = warp_points(view, Box(0, 0, width, height).corners())
    low, high = seen.min(axis=0), seen.max(axis=0)
    scale = random.uniform(*SHEET.filled) * float(np.min(np.array(FRAME) / (high - low)))
    room = np.array(FRAME) - scale * (high - low)
    left, top = random.uniform(0, 1, 2) * room - scale * low
    view = np.array([[scale, 0, left], [0, scale, top], [0, 0, 1.0]]) @ view
    return view / view[2, 2]


# What is drawn


def thickened(drawing: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw an RGB drawing again, with a thicker pen and not quite the same hand."""
    grey = cv2.cvtColor(drawing, cv2.COLOR_RGB2GRAY)
    width = max(1.0, stroke_width(1 - grey.astype(np.float32) / 255))
    pen = 1 + round(width * (random.uniform(*PEN.thicker) - 1))
    nib = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (pen, pen))
    return wobbled(cv2.erode(drawing, nib, borderValue=WHITE), random)


def wobbled(drawing: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Move the lines of a drawing a little, smoothly."""
    height, width = drawing.shape[:2]
    longer = max(width, height)
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height))
    across, down = (
        PEN.wobble * longer * smooth_noise((height, width), PEN.wobble_length * longer, random)
        for _ in range(2)
    )
    return cv2.remap(
        drawing,
        columns + across,
        (rows + down).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=WHITE,
    )


def sheet_of(drawing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a drawing with a margin of paper, and where its points are on the sheet."""
    margin = round(SHEET.margin * max(drawing.shape[:2]))
    sheet = cv2.copyMakeBorder(
        drawing, *(margin,) * 4, borderType=cv2.BORDER_CONSTANT, value=WHITE
    )
    return sheet, placed(1.0, margin, margin)


# What the camera sees


def on_white(picture: np.ndarray, to_frame: np.ndarray) -> np.ndarray:
    """Return a camera image of an RGB picture on a white ground."""
    return averaged(picture, to_frame, WHITE)


def averaged(
    picture: np.ndarray, to_frame: np.ndarray, around: tuple[int, int, int]
) -> np.ndarray:
    """Return what a camera sees of a picture: each of its pixels is the mean over its area."""
    size = FINER * FRAME[0], FINER * FRAME[1]
    fine = cv2.warpPerspective(
        picture,
        placed(FINER) @ to_frame,
        size,
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=around,
    )
    return cv2.resize(fine, FRAME, interpolation=cv2.INTER_AREA)


def photographed(
    sheet: np.ndarray, to_frame: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Return a photo of a sheet of paper that lies on a table."""
    paper = printed(averaged(sheet, to_frame, WHITE), random)
    cover = averaged(np.full_like(sheet, 255), to_frame, (0, 0, 0)).astype(np.float32) / 255
    # A sheet is slightly above the table, so light from one side leaves a dark rim.
    away = random.uniform(-4, 4, 2)
    rim = cv2.GaussianBlur(np.roll(cover, np.round(away).astype(int), axis=(0, 1)), (0, 0), 3.0)
    lit = cover * paper + (1 - cover) * table(random) * (1 - 0.5 * rim)
    lit = lit * light(random)[..., None]
    scene = np.asarray(cv2.GaussianBlur(lit, (0, 0), random.uniform(0.5, 1.1)))
    # The noise of a sensor grows with the light.
    noise = random.normal(size=scene.shape) * np.sqrt(0.010**2 + 0.0004 * scene.clip(0))
    return np.round((scene + noise).clip(0, 1) * 255).astype(np.uint8)


def printed(drawing: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return how bright printed paper is, 0 to 1: paper is not white, and ink not black."""
    paper = random.uniform(0.82, 0.96) * (1 + random.uniform(-0.06, 0.06) * np.array([1, 0, -1]))
    ink = random.uniform(0.08, 0.22)
    white = drawing.astype(np.float32) / 255
    return (ink + (paper - ink) * white).astype(np.float32)


def light(random: np.random.Generator) -> np.ndarray:
    """Return the light in the frame, which falls off to one side and has a soft shadow."""
    columns, rows = np.meshgrid(*(np.linspace(-1, 1, length) for length in FRAME))
    side = random.uniform(0, 2 * math.pi)
    slope = 1 - random.uniform(0.05, 0.25) * (columns * math.cos(side) + rows * math.sin(side))
    side = random.uniform(0, 2 * math.pi)
    beyond = columns * math.cos(side) + rows * math.sin(side) - random.uniform(-0.4, 0.4)
    bent = beyond + 0.15 * smooth_noise(FRAME[::-1], 200, random)
    shadow = 1 / (1 + np.exp(-bent / random.uniform(0.01, 0.05)))
    return slope * (1 - random.uniform(0.25, 0.5) * shadow)


def table(random: np.random.Generator) -> np.ndarray:
    """Return the top of a table in the size of the frame, RGB from 0 to 1."""
    kinds = (wood, stone, cloth)
    longest = math.ceil(math.hypot(*FRAME))
    pattern, colours = kinds[random.integers(len(kinds))](longest, random)
    middle = longest / 2
    turned = cv2.getRotationMatrix2D((middle, middle), random.uniform(0, 180), 1.0)
    pattern = cv2.warpAffine(
        pattern, turned, (longest, longest), borderMode=cv2.BORDER_REFLECT_101
    )[: FRAME[1], : FRAME[0]]
    dark, bright = np.array(colours)
    return dark + (bright - dark) * pattern.clip(0, 1)[..., None]


Colours = tuple[tuple[float, float, float], tuple[float, float, float]]


def wood(side: int, random: np.random.Generator) -> tuple[np.ndarray, Colours]:
    """Return planks with their grain: a square with values about 0 to 1, and what these mean."""
    grain = sum(
        smooth_noise((side, side), (length, thickness), random) * strength
        for length, thickness, strength in ((250, 14, 0.10), (120, 5, 0.08), (60, 2, 0.05))
    )
    plank = int(random.integers(70, 130))
    number = np.arange(side) // plank
    tone = random.normal(0, 0.08, number[-1] + 1)[number]
    gap = np.where(np.arange(side) % plank < 2, -0.4, 0.0)
    pattern = 0.5 + np.asarray(grain) + (tone + gap)[:, None]
    return pattern.astype(np.float32), ((0.20, 0.12, 0.06), (0.75, 0.55, 0.36))


def stone(side: int, random: np.random.Generator) -> tuple[np.ndarray, Colours]:
    """Return speckles: a square with values about 0 to 1, and what these mean."""
    pattern = 0.5 + sum(
        smooth_noise((side, side), length, random) * strength
        for length, strength in ((80, 0.10), (12, 0.12), (3, 0.12))
    )
    return np.asarray(pattern, np.float32), ((0.15, 0.15, 0.17), (0.70, 0.69, 0.66))


def cloth(side: int, random: np.random.Generator) -> tuple[np.ndarray, Colours]:
    """Return a checked cloth: a square with values about 0 to 1, and what these mean."""
    check = int(random.integers(24, 48))
    stripes = (np.arange(side) // check % 2).astype(np.float32)
    pattern = 0.15 + 0.3 * (stripes[:, None] + stripes)
    pattern = pattern + 0.05 * smooth_noise((side, side), 2, random)
    pattern = pattern + 0.05 * smooth_noise((side, side), 90, random)
    return pattern.astype(np.float32), ((0.10, 0.18, 0.35), (0.85, 0.86, 0.88))


def smooth_noise(
    shape: tuple[int, int], length: float | tuple[float, float], random: np.random.Generator
) -> np.ndarray:
    """Return random values of deviation 1 that change over these distances in pixels."""
    across, down = length if isinstance(length, tuple) else (length, length)
    height, width = shape
    coarse = random.normal(size=(math.ceil(height / down) + 2, math.ceil(width / across) + 2))
    fine = cv2.resize(coarse.astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC)
    return fine / max(float(fine.std()), 1e-6)
