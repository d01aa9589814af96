"""Small squares of a frame that are found again in other frames, whatever the light."""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.tracking.appearance import normalised
from niom_ros.tracking.frames import GreyFrame, LEVELS

RADIUS = 6  # of a square, in pixels of its level
SIDE = 2 * RADIUS + 1
ROUNDS = 3  # of approaching the right place, on each level
LONGEST_STEP = 2.0  # pixels of a level, in one round
COARSEST = 2  # level on which a search from afar begins
TINY = 1e-6


@dataclass(frozen=True)
class Aligned:
    """Where patches are in another frame, and how alike they look there."""

    points: np.ndarray  # N x 2, in pixels of the other frame
    likeness: np.ndarray  # N, -1 to 1: normalised cross-correlation
    inside: np.ndarray  # N booleans: which ones should be in view


@dataclass(frozen=True)
class Template:
    """What patches look like on one level, free of how light or contrasty they are."""

    values: np.ndarray  # N x P, each row of mean 0 and length 1
    steps: np.ndarray  # N x 2 x P: times the differences it gives the shift, in grey pixels


class Patches:
    """Squares around points of one frame.

    Aligning them with the same frame again and again, rather than with the frame before, adds up
    no errors. After Lucas-Kanade in the inverse form of Baker and Matthews: all slopes belong to
    the one frame and are computed once.
    """

    def __init__(self, frame: GreyFrame, centres: np.ndarray) -> None:
        """Cut N squares out of a frame around N x 2 points."""
        self.centres = centres.astype(np.float64)
        self._templates = [template(frame, self.centres, level) for level in range(COARSEST + 1)]

    def align(self, frame: GreyFrame, guess: np.ndarray, first_level: int = 0) -> Aligned:
        """Find the squares near where a homography, from their frame to this one, puts them."""
        jacobians = jacobians_at(guess, self.centres)
        scale = np.median(np.sqrt(np.abs(np.linalg.det(jacobians))))
        # Seen from closer, the finest pixels hold more than the squares have seen.
        finer = int(np.clip(np.rint(np.log2(max(scale, TINY))), 0, LEVELS - 1 - first_level))
        offsets = np.zeros_like(self.centres)
        for level in range(first_level, -1, -1):
            known, longest = self._templates[level], LONGEST_STEP * 2**level
            squares = spread(jacobians, level, level + finer, RADIUS)
            for _ in range(ROUNDS):
                places = warp_points(guess, self.centres + offsets)
                seen = normalised(sample(frame, places, squares, level + finer))
                likeness = (seen * known.values).sum(axis=1)
                steps = (known.steps @ (seen - known.values)[:, :, None])[:, :, 0]
                offsets -= steps.clip(-longest, longest)
        points = warp_points(guess, self.centres + offsets)
        width, height = frame.size
        inside = np.all((points >= 0) & (points <= (width - 1, height - 1)), axis=1)
        return Aligned(points, likeness, inside)


def template(frame: GreyFrame, centres: np.ndarray, level: int) -> Template:
    """Cut squares out of one level of a frame."""
    straight = np.broadcast_to(np.eye(2), (len(centres), 2, 2))
    # One pixel more on each side, for the slopes.
    wide = sample(frame, centres, spread(straight, level, level, RADIUS + 1), level)
    wide = wide.reshape(-1, SIDE + 2, SIDE + 2)
    values = wide[:, 1:-1, 1:-1].reshape(-1, SIDE * SIDE)
    across = (wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]).reshape(values.shape) / 2 ** (level + 1)
    down = (wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1]).reshape(values.shape) / 2 ** (level + 1)
    values = values - values.mean(axis=1, keepdims=True)
    length = np.linalg.norm(values, axis=1, keepdims=True) + TINY
    values = values / length
    slopes = np.stack([across, down], axis=1)
    # A shift changes mean and contrast too, which the normalised squares do not show.
    slopes = (slopes - slopes.mean(axis=2, keepdims=True)) / length[:, None]
    slopes -= (slopes @ values[:, :, None]) * values[:, None, :]
    bending = slopes @ slopes.transpose(0, 2, 1) + TINY * np.eye(2)
    return Template(values, (np.linalg.inv(bending) @ slopes).astype(np.float32))


def spread(jacobians: np.ndarray, level: int, frame_level: int, radius: int) -> np.ndarray:
    """Return where the pixels of squares are around their middle: 2 x N x P, float32.

    The squares are those of one level, turned and stretched by 2 x 2 matrices, the pixels those of
    another level of the frame in which they are looked for.
    """
    steps = np.arange(-radius, radius + 1) * 2.0 ** (level - frame_level)
    across, down = np.meshgrid(steps, steps)
    grid = np.stack([across.ravel(), down.ravel()]).astype(np.float32)
    return np.ascontiguousarray((jacobians.astype(np.float32) @ grid).transpose(1, 0, 2))


def sample(
    frame: GreyFrame, places: np.ndarray, squares: np.ndarray, frame_level: int
) -> np.ndarray:
    """Return the grey values of squares of a frame around N places: N x P, float32."""
    if not len(places):  # which OpenCV refuses
        return np.empty((0, squares.shape[2]), np.float32)
    middles = (places / 2**frame_level).astype(np.float32)
    x, y = squares + middles.T[:, :, None]
    picture = frame.levels[frame_level]
    values = cv2.remap(picture, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return values.astype(np.float32)


def jacobians_at(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the 2 x 2 matrices by which a homography maps small steps around N points."""
    warped = warp_points(homography, points)
    depths = points @ homography[2, :2] + homography[2, 2]
    turned = homography[:2, :2] - warped[:, :, None] * homography[2, :2]
    return np.asarray(turned / depths[:, None, None])
