"""What is drawn on a page, in one form for all kinds of files."""

from collections.abc import Sequence
from dataclasses import dataclass, KW_ONLY
from enum import Enum
from functools import cached_property

import cv2
import numpy as np

MAX_STEPS = 2_000_000  # lines and curves that are read from a page
RASTER_MARGIN = 4  # pixels around a page that is drawn to find what touches


@dataclass(frozen=True)
class PieceParameters:
    """How curves become lines, and what counts as a corner."""

    points_per_curve: int = 10
    max_distance: float = 1e4  # of a piece, in units of the longer side of the page
    corner_tolerance: float = 4e-4  # smaller bends are not corners
    small_corner_tolerance: float = 0.03  # relative to the extent of a small piece
    max_tilt: float = 0.005  # of the sides of a rectangle, relative to the longest


DEFAULTS = PieceParameters()


class Kind(Enum):
    """The kind of a piece of a page, as its file says."""

    LINES = 'lines'
    TEXT = 'text'
    IMAGE = 'image'


@dataclass(frozen=True)
class SubPath:
    """A line drawn without lifting the pen, in the coordinates of its file."""

    start: tuple[float, float]
    steps: tuple[tuple[float, ...], ...]  # 2 numbers: a line to there; 6: a Bezier curve
    closed: bool

    def flattened(self, matrix: np.ndarray) -> np.ndarray:
        """Return it as points (n x 2), transformed by a matrix (2 x 3)."""
        parts = [np.array([self.start])]
        last = self.start
        for step in self.steps:
            if len(step) == 2:
                parts.append(np.array([step]))
            else:
                parts.append(BLENDS @ np.array([*last, *step]).reshape(4, 2))
            last = step[-2], step[-1]
        points = np.concatenate(parts)
        return points @ matrix[:, :2].T + matrix[:, 2]


def blends() -> np.ndarray:
    """Return the Bernstein weights of the control points along a Bezier curve (n x 4)."""
    t = np.linspace(0, 1, DEFAULTS.points_per_curve + 1)[1:, None]
    return np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])


BLENDS = blends()


@dataclass(frozen=True)
class Piece:
    """A part of a page that is drawn, or left out, as a whole.

    All lengths are fractions of the longer side of the page, y points down.
    """

    points: np.ndarray  # n x 2; for texts and images, the corners of their boxes
    _: KW_ONLY
    kind: Kind = Kind.LINES
    closed: bool = False
    filled: bool = False
    has_holes: bool = False
    line_width: float = 0.0  # 0: its outline is not drawn
    dash_pattern: int = 0  # lengths in the pattern; 0: not dashed
    pointed: tuple[bool, bool] = (False, False)  # whether the file puts arrow heads on its ends

    @property
    def is_near(self) -> bool:
        """Return whether it is close to the page; coordinates may have overflowed."""
        return bool(len(self.points) and (np.abs(self.points) < DEFAULTS.max_distance).all())

    @cached_property
    def box(self) -> np.ndarray:
        """Return left, top, right and bottom."""
        return np.concatenate([self.points.min(axis=0), self.points.max(axis=0)])

    @property
    def extent(self) -> float:
        """Return the longer side of its box."""
        return float(max(self.box[2] - self.box[0], self.box[3] - self.box[1]))

    @cached_property
    def corners(self) -> np.ndarray:
        """Return its points without those on straight lines (n x 2)."""
        points = self.points.astype(np.float32)
        small = DEFAULTS.small_corner_tolerance * max(self.extent, 1e-9)
        tolerance = min(DEFAULTS.corner_tolerance, small)
        if self.closed and len(points) > 1 and np.allclose(points[0], points[-1], atol=1e-6):
            points = points[:-1]
        return cv2.approxPolyDP(points, tolerance, self.closed)[:, 0].astype(np.float64)

    @property
    def is_straight(self) -> bool:
        """Return whether it is one straight line."""
        if self.kind is not Kind.LINES or self.filled or not self.line_width:
            return False
        return len(self.corners) == 2

    @cached_property
    def is_rectangle(self) -> bool:
        """Return whether it is a rectangle parallel to the sides of the page."""
        if self.kind is not Kind.LINES or not self.closed or len(self.corners) != 4:
            return False
        sides = np.abs(np.roll(self.corners, -1, axis=0) - self.corners)
        return bool((sides.min(axis=1) < DEFAULTS.max_tilt * sides.max()).all())


def empty_raster(side: int) -> np.ndarray:
    """Return an image with this many pixels along the longer side of the page."""
    return np.zeros((side + 2 * RASTER_MARGIN, side + 2 * RASTER_MARGIN), np.uint8)


def on_raster(points: np.ndarray, side: int) -> np.ndarray:
    """Return points in pixels of the raster, none outside."""
    last = side + 2 * RASTER_MARGIN - 1
    return np.clip(np.rint(points * side) + RASTER_MARGIN, 0, last).astype(np.int32)


def shapes_of(sub_paths: Sequence[np.ndarray]) -> list[list[int]]:
    """Return which sub-paths of a filled path form one shape: those whose boxes overlap."""
    boxes = np.array([[*points.min(axis=0), *points.max(axis=0)] for points in sub_paths])
    finished: list[list[int]] = []
    growing: list[tuple[list[int], np.ndarray]] = []
    for index in np.argsort(boxes[:, 0], kind='stable'):
        box, members = boxes[index], [int(index)]
        apart = []
        for others, around in growing:
            if around[2] < box[0]:
                finished.append(others)
            elif around[1] <= box[3] and box[1] <= around[3]:
                members = others + members
                corners = np.minimum(box[:2], around[:2]), np.maximum(box[2:], around[2:])
                box = np.concatenate(corners)
            else:
                apart.append((others, around))
        growing = [*apart, (members, box)]
    return finished + [members for members, _ in growing]
