"""The strokes of a drawing: points on them, and the direction of the stroke at each."""

from dataclasses import dataclass, field

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from niom_ros.drawings.paper import ink_strength, PaperParameters


@dataclass(frozen=True)
class StrokeParameters:
    """How the strokes of a drawing are found."""

    side: int = 640  # pixels to which the longer side of a drawing is resized first
    max_points: int = 1500
    min_smoothing: float = 1.5  # pixels; wide strokes are smoothed by half their width
    paper: PaperParameters = field(default_factory=PaperParameters)


DEFAULTS = StrokeParameters()


@dataclass(frozen=True)
class Strokes:
    """Points on the lines of a drawing, shuffled, so that the first ones are a fair sample."""

    points: np.ndarray  # N x 2, pixels of the drawing
    normals: np.ndarray  # N angles across the line, 0 to pi

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def moved(self, left: int, top: int) -> 'Strokes':
        """Return the strokes of a crop in pixels of the whole picture."""
        return Strokes(self.points + np.array([left, top], np.float32), self.normals)

    def stretched(self, across: float, down: float) -> 'Strokes':
        """Return the strokes of the picture after scaling its width and height."""
        points = self.points * np.array([across, down], np.float32)
        # Normals transform with the inverse: they stay perpendicular to the line.
        normals = np.arctan2(np.sin(self.normals) / down, np.cos(self.normals) / across) % np.pi
        return Strokes(points, normals.astype(np.float32))


def strokes_of(
    picture: np.ndarray,
    mask: np.ndarray | None = None,
    parameters: StrokeParameters = DEFAULTS,
) -> Strokes:
    """Find the strokes of an RGB picture; where the mask is 0, it is ignored."""
    height, width = picture.shape[:2]
    scale = parameters.side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    if mask is not None:
        mask = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
    resized = cv2.resize(picture, size, interpolation=interpolation)
    ink = ink_strength(resized, mask, parameters.paper)
    columns, rows, normals = middle_lines(ink, parameters)
    chosen = np.random.default_rng(0).permutation(len(columns))[: parameters.max_points]
    points = np.column_stack([columns, rows])[chosen]
    # Pixel centres are integers on both scales.
    points = (points + 0.5) * [width / size[0], height / size[1]] - 0.5
    return Strokes(points.astype(np.float32), normals[chosen].astype(np.float32))


def stroke_width(ink: np.ndarray, parameters: StrokeParameters = DEFAULTS) -> float:
    """Return the median width of the strokes in pixels."""
    inside = (ink > parameters.paper.min_ink).astype(np.uint8)
    distance = cv2.distanceTransform(inside, cv2.DIST_L2, 3)
    middle = (distance >= cv2.dilate(distance, np.ones((3, 3), np.uint8))) & (inside > 0)
    return 2 * float(np.median(distance[middle])) if middle.any() else 0.0


def middle_lines(
    ink: np.ndarray, parameters: StrokeParameters = DEFAULTS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns and rows along the middle of strokes, and the angles across them."""
    smoothing = max(parameters.min_smoothing, stroke_width(ink, parameters) / 2)
    smooth = cv2.GaussianBlur(ink, (0, 0), smoothing)
    dx, dy = cv2.Scharr(smooth, -1, 1, 0), cv2.Scharr(smooth, -1, 0, 1)
    # On the ridge of a stroke the gradient vanishes; beside it, it points across the stroke.
    xx, yy, xy = (
        cv2.GaussianBlur(product, (0, 0), smoothing) for product in (dx * dx, dy * dy, dx * dy)
    )
    angles = 0.5 * np.arctan2(2 * xy, xx - yy)
    rows, columns = np.nonzero(ink > parameters.paper.min_ink)
    angles = angles[rows, columns]
    step = np.stack([np.cos(angles), np.sin(angles)])
    here = smooth[rows, columns]
    before, after = (
        map_coordinates(smooth, [rows + side * step[1], columns + side * step[0]], order=1)
        for side in (-1, 1)
    )
    highest = (here >= before) & (here >= after)
    return columns[highest], rows[highest], angles[highest] % np.pi
