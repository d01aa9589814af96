"""Small square patches of a frame, found again in other frames regardless of the light."""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.core.homographies import jacobians_at, warp_points
from niom_ros.tracking.appearance import normalised
from niom_ros.tracking.frames import GreyFrame

EPSILON = 1e-6  # keeps divisions and logarithms finite


@dataclass(frozen=True)
class PatchParameters:
    """How large patches are and how they are aligned."""

    radius: int = 6  # pixels of the pyramid level
    iterations: int = 3  # on each level
    max_step: float = 2.0  # pixels of a level, in one iteration
    coarsest_level: int = 2  # where a search from an uncertain guess starts

    @property
    def side(self) -> int:
        """Return width and height of a patch."""
        return 2 * self.radius + 1


DEFAULTS = PatchParameters()


@dataclass(frozen=True)
class Aligned:
    """Where patches are in another frame, and how well they match there."""

    points: np.ndarray  # N x 2, in pixels of the other frame
    shifts: np.ndarray  # N x 2, from where the guess put them, in pixels of their own frame
    correlations: np.ndarray  # N, -1 to 1: normalised cross-correlation
    inside: np.ndarray  # N booleans: which ones are in view


@dataclass(frozen=True)
class Template:
    """Patches on one pyramid level, normalised for brightness and contrast."""

    values: np.ndarray  # N x P, each row of mean 0 and length 1
    steps: np.ndarray  # N x 2 x P: from differences of values to shifts, in grey pixels


class Patches:
    """Patches around points of one frame.

    Aligning these same patches with every frame, rather than each frame with the one before, keeps
    errors from adding up. This is Lucas-Kanade in the inverse compositional form of Baker and
    Matthews: all gradients belong to one frame and are computed once.
    """

    def __init__(
        self, frame: GreyFrame, centres: np.ndarray, parameters: PatchParameters = DEFAULTS
    ) -> None:
        """Cut N patches out of a frame around N x 2 points."""
        self.centres = centres.astype(np.float64)
        self._parameters = parameters
        self._templates = [
            template(frame, self.centres, level, parameters)
            for level in range(parameters.coarsest_level + 1)
        ]

    def align(
        self,
        frame: GreyFrame,
        guess: np.ndarray,
        first_level: int = 0,
        shifts: np.ndarray | None = None,
    ) -> Aligned:
        """Find the patches in a frame, starting where a homography from their frame puts them.

        Those that are not on its plane start shifted, as they were found in the last frame.
        """
        jacobians = jacobians_at(guess, self.centres)
        scale = np.median(np.sqrt(np.abs(np.linalg.det(jacobians))))
        # Seen from closer, the finest level shows more detail than the patches have.
        finer = int(
            np.clip(np.rint(np.log2(max(scale, EPSILON))), 0, len(frame.levels) - 1 - first_level)
        )
        offsets = np.zeros_like(self.centres) if shifts is None else shifts.copy()
        for level in range(first_level, -1, -1):
            known, max_step = self._templates[level], self._parameters.max_step * 2**level
            grids = patch_grids(jacobians, level, level + finer, self._parameters.radius)
            for _ in range(self._parameters.iterations):
                places = warp_points(guess, self.centres + offsets)
                seen = normalised(sample(frame, places, grids, level + finer))
                correlations = (seen * known.values).sum(axis=1)
                steps = (known.steps @ (seen - known.values)[:, :, None])[:, :, 0]
                offsets -= steps.clip(-max_step, max_step)
        points = warp_points(guess, self.centres + offsets)
        width, height = frame.size
        inside = np.all((points >= 0) & (points <= (width - 1, height - 1)), axis=1)
        return Aligned(points, offsets, correlations, inside)


def template(
    frame: GreyFrame, centres: np.ndarray, level: int, parameters: PatchParameters = DEFAULTS
) -> Template:
    """Cut patches out of one pyramid level of a frame."""
    side = parameters.side
    unturned = np.broadcast_to(np.eye(2), (len(centres), 2, 2))
    # One pixel more on each side, for the gradients.
    wide = sample(
        frame, centres, patch_grids(unturned, level, level, parameters.radius + 1), level
    )
    wide = wide.reshape(-1, side + 2, side + 2)
    values = wide[:, 1:-1, 1:-1].reshape(-1, side * side)
    across = (wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]).reshape(values.shape) / 2 ** (level + 1)
    down = (wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1]).reshape(values.shape) / 2 ** (level + 1)
    values = values - values.mean(axis=1, keepdims=True)
    length = np.linalg.norm(values, axis=1, keepdims=True) + EPSILON
    values = values / length
    gradients = np.stack([across, down], axis=1)
    # A shift also changes mean and contrast, which normalised patches do not have.
    gradients = (gradients - gradients.mean(axis=2, keepdims=True)) / length[:, None]
    gradients -= (gradients @ values[:, :, None]) * values[:, None, :]
    hessians = gradients @ gradients.transpose(0, 2, 1) + EPSILON * np.eye(2)
    return Template(values, (np.linalg.inv(hessians) @ gradients).astype(np.float32))


def patch_grids(jacobians: np.ndarray, level: int, frame_level: int, radius: int) -> np.ndarray:
    """Return where the pixels of N patches are around their centres: 2 x N x P, float32.

    The patches are those of one pyramid level, warped by 2 x 2 matrices; the result is in pixels
    of `frame_level`, the level of the frame in which they are looked for.
    """
    steps = np.arange(-radius, radius + 1) * 2.0 ** (level - frame_level)
    across, down = np.meshgrid(steps, steps)
    grid = np.stack([across.ravel(), down.ravel()]).astype(np.float32)
    return np.ascontiguousarray((jacobians.astype(np.float32) @ grid).transpose(1, 0, 2))


def sample(
    frame: GreyFrame, places: np.ndarray, grids: np.ndarray, frame_level: int
) -> np.ndarray:
    """Return the grey values of patches of a frame around N places: N x P, float32."""
    if not len(places):  # OpenCV refuses empty input
        return np.empty((0, grids.shape[2]), np.float32)
    middles = (places / 2**frame_level).astype(np.float32)
    x, y = grids + middles.T[:, :, None]
    picture = frame.levels[frame_level]
    values = cv2.remap(picture, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return values.astype(np.float32)
