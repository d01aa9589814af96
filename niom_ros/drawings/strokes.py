"""The lines of a drawing: points on them, and which way the line runs at each."""

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from niom_ros.drawings.paper import INK, ink_strength

SIDE = 640  # pixels to which the longer side of a drawing is brought before it is read
MOST_POINTS = 1500
SMOOTHING = 1.5  # pixels


@dataclass(frozen=True)
class Strokes:
    """Points on the lines of a drawing, in an order in which any first part is a fair sample."""

    points: np.ndarray  # N x 2, pixels of the drawing
    normals: np.ndarray  # N angles across the line, 0 to pi

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def moved(self, left: int, top: int) -> 'Strokes':
        """Return the strokes of a part of a picture in pixels of the whole."""
        return Strokes(self.points + np.array([left, top], np.float32), self.normals)

    def stretched(self, across: float, down: float) -> 'Strokes':
        """Return the strokes of the picture when it is made wider and higher."""
        points = self.points * np.array([across, down], np.float32)
        # What is across a line stays across it, so it turns the other way than the line.
        normals = np.arctan2(np.sin(self.normals) / down, np.cos(self.normals) / across) % np.pi
        return Strokes(points, normals.astype(np.float32))


def strokes_of(picture: np.ndarray, mask: np.ndarray | None = None) -> Strokes:
    """Find the strokes of an RGB picture; where the mask is 0, it does not count."""
    height, width = picture.shape[:2]
    scale = SIDE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    smaller = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    if mask is not None:
        mask = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
    ink = ink_strength(cv2.resize(picture, size, interpolation=smaller), mask)
    columns, rows, normals = middle_lines(ink, smoothing_for(ink))
    chosen = np.random.default_rng(0).permutation(len(columns))[:MOST_POINTS]
    points = np.column_stack([columns, rows])[chosen]
    # Pixel centres are whole numbers on both scales.
    points = (points + 0.5) * [width / size[0], height / size[1]] - 0.5
    return Strokes(points.astype(np.float32), normals[chosen].astype(np.float32))


def stroke_width(ink: np.ndarray) -> float:
    """Return how wide the strokes are in pixels, as most of the ink has it."""
    inside = (ink > INK).astype(np.uint8)
    distance = cv2.distanceTransform(inside, cv2.DIST_L2, 3)
    middle = (distance >= cv2.dilate(distance, np.ones((3, 3), np.uint8))) & (inside > 0)
    return 2 * float(np.median(distance[middle])) if middle.any() else 0.0


def smoothing_for(ink: np.ndarray) -> float:
    """Return by how many pixels to smooth strokes before their middle is sought."""
    return max(SMOOTHING, stroke_width(ink) / 2)


def middle_lines(ink: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns and rows along the middle of strokes, and the angles across them."""
    smooth = cv2.GaussianBlur(ink, (0, 0), smoothing)
    across_x, across_y = cv2.Scharr(smooth, -1, 1, 0), cv2.Scharr(smooth, -1, 0, 1)
    # On the ridge of a stroke the slope is nothing, beside it it points across.
    xx, yy, xy = (
        cv2.GaussianBlur(product, (0, 0), smoothing)
        for product in (across_x * across_x, across_y * across_y, across_x * across_y)
    )
    angles = 0.5 * np.arctan2(2 * xy, xx - yy)
    rows, columns = np.nonzero(ink > INK)
    angles = angles[rows, columns]
    step = np.stack([np.cos(angles), np.sin(angles)])
    here = smooth[rows, columns]
    before, after = (
        map_coordinates(smooth, [rows + side * step[1], columns + side * step[0]], order=1)
        for side in (-1, 1)
    )
    highest = (here >= before) & (here >= after)
    return columns[highest], rows[highest], angles[highest] % np.pi
