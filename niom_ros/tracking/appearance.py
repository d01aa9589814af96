"""What a reference looks like in a frame, coarsely, and whether it still does in others."""

import math

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.tracking.frames import GreyFrame, LEVELS

BLOCKS = 4  # in each direction
SAMPLES = 8  # of a block, in each direction
FAINTEST = 3.0  # standard deviation of grey values: a plainer block shows nothing
ALIKE = 0.5  # normalised cross-correlation from which two blocks show the same
FEWEST_BLOCKS = 3  # that must be seen to say anything


class Appearance:
    """A coarse picture of a reference as one frame showed it.

    Compared block by block, so that something that covers a part leaves the others alike, and so
    that neither the light nor its slope matters.
    """

    def __init__(self, frame: GreyFrame, reference_to_grey: np.ndarray, box: Box) -> None:
        """Remember how the reference looks in a frame."""
        count = BLOCKS * SAMPLES
        shares = (np.arange(count) + 0.5) / count
        x, y = np.meshgrid(box.left + shares * box.width, box.top + shares * box.height)
        self._reference_points = np.column_stack([x.ravel(), y.ravel()]) - 0.5
        self._blocks, seen = self._look(frame, reference_to_grey)
        self._telling = seen & (self._blocks.std(axis=1) > FAINTEST)

    def share_alike(self, frame: GreyFrame, reference_to_grey: np.ndarray) -> float:
        """Return the share of blocks in view that still look the same; NaN: too few are."""
        blocks, seen = self._look(frame, reference_to_grey)
        telling = seen & self._telling
        if telling.sum() < FEWEST_BLOCKS:
            return math.nan
        likeness = (normalised(blocks[telling]) * normalised(self._blocks[telling])).sum(axis=1)
        return float((likeness > ALIKE).mean())

    def _look(
        self, frame: GreyFrame, reference_to_grey: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the grey values of each block, and which blocks are in view."""
        places = warp_points(reference_to_grey, self._reference_points)
        count = BLOCKS * SAMPLES
        outline = places.reshape(count, count, 2)[[0, 0, -1, -1], [0, -1, -1, 0]]
        spacing = math.sqrt(abs(cv2.contourArea(outline.astype(np.float32)))) / count
        level = int(np.clip(round(math.log2(max(spacing, 1))), 0, LEVELS - 1))
        x, y = (places.T.clip(-1e6, 1e6) / 2**level).astype(np.float32).reshape(2, count, count)
        values = cv2.remap(
            frame.levels[level], x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        width, height = frame.size
        inside = np.all((places >= 0) & (places <= (width - 1, height - 1)), axis=1)
        seen = np.all(by_block(inside.reshape(count, count)), axis=1)
        return by_block(values).astype(np.float32), seen


def by_block(picture: np.ndarray) -> np.ndarray:
    """Return the pixels of each block in a row."""
    blocks = picture.reshape(BLOCKS, SAMPLES, BLOCKS, SAMPLES).transpose(0, 2, 1, 3)
    return blocks.reshape(BLOCKS * BLOCKS, -1)


def normalised(rows: np.ndarray) -> np.ndarray:
    """Return rows with mean 0 and length 1."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6))
