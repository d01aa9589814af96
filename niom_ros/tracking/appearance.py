"""How a reference looks in one frame, coarsely, and whether it looks the same in others."""

from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.tracking.frames import GreyFrame


@dataclass(frozen=True)
class AppearanceParameters:
    """How a reference is divided into blocks, and when two blocks look alike."""

    blocks: int = 4  # in each direction
    samples: int = 8  # of a block, in each direction
    min_contrast: float = 3.0  # standard deviation of grey values; plainer blocks are ignored
    min_correlation: float = 0.5  # normalised cross-correlation of blocks that look alike
    min_blocks: int = 3  # in view and not plain; fewer are not enough

    @property
    def grid(self) -> int:
        """Return the number of samples of the whole reference, in each direction."""
        return self.blocks * self.samples


DEFAULTS = AppearanceParameters()


class Appearance:
    """A coarse picture of a reference as one frame showed it.

    Comparing block by block tolerates occlusion of other blocks, and makes the comparison
    independent of brightness, even where that varies across the reference.
    """

    def __init__(
        self,
        frame: GreyFrame,
        reference_to_grey: np.ndarray,
        box: Box,
        parameters: AppearanceParameters = DEFAULTS,
    ) -> None:
        """Remember how the reference looks in a frame."""
        self._parameters = parameters
        shares = (np.arange(parameters.grid) + 0.5) / parameters.grid
        x, y = np.meshgrid(box.left + shares * box.width, box.top + shares * box.height)
        self._reference_points = np.column_stack([x.ravel(), y.ravel()]) - 0.5
        self._blocks, in_view = self._sample(frame, reference_to_grey)
        self._usable = in_view & (self._blocks.std(axis=1) > parameters.min_contrast)

    def share_alike(self, frame: GreyFrame, reference_to_grey: np.ndarray) -> float:
        """Return the share of blocks in view that still look alike; NaN: too few are in view."""
        blocks, in_view = self._sample(frame, reference_to_grey)
        usable = in_view & self._usable
        if usable.sum() < self._parameters.min_blocks:
            return math.nan
        correlations = (normalised(blocks[usable]) * normalised(self._blocks[usable])).sum(axis=1)
        return float((correlations > self._parameters.min_correlation).mean())

    def _sample(
        self, frame: GreyFrame, reference_to_grey: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the grey values of each block, and which blocks are in view."""
        places = warp_points(reference_to_grey, self._reference_points)
        grid = self._parameters.grid
        outline = places.reshape(grid, grid, 2)[[0, 0, -1, -1], [0, -1, -1, 0]]
        spacing = math.sqrt(abs(cv2.contourArea(outline.astype(np.float32)))) / grid
        level = int(np.clip(round(math.log2(max(spacing, 1))), 0, len(frame.levels) - 1))
        x, y = (places.T.clip(-1e6, 1e6) / 2**level).astype(np.float32).reshape(2, grid, grid)
        values = cv2.remap(
            frame.levels[level], x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        width, height = frame.size
        inside = np.all((places >= 0) & (places <= (width - 1, height - 1)), axis=1)
        in_view = np.all(self._by_block(inside.reshape(grid, grid)), axis=1)
        return self._by_block(values).astype(np.float32), in_view

    def _by_block(self, picture: np.ndarray) -> np.ndarray:
        """Return one row with the pixels of each block."""
        blocks, samples = self._parameters.blocks, self._parameters.samples
        by_block = picture.reshape(blocks, samples, blocks, samples).transpose(0, 2, 1, 3)
        return by_block.reshape(blocks * blocks, -1)


def normalised(rows: np.ndarray) -> np.ndarray:
    """Return rows with mean 0 and length 1."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6))
