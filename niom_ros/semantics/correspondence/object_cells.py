"""Which cells of a reference show its object, and which the ground around it.

What a user marked decides. Otherwise the ground is what looks like the border of the picture, to
the networks that describe parts; and if the border is plain, all that is connected with it and as
plain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor

from niom_ros.semantics.correspondence.features import resampled
from niom_ros.semantics.heat_maps import Area


@dataclass(frozen=True)
class ObjectParameters:
    """What counts as ground."""

    nearest: int = 8  # cells of the border that a cell is compared with
    strictness: float = 0.9  # of the best threshold: below 1, doubtful cells are of the object
    side: int = 240  # pixels at which plain ground is looked for
    plain: float = 12.0  # of 255: how far colours of a plain ground are from one another
    plain_border: float = 0.9  # share of the border that must be plain
    full: float = 0.5  # share of a cell that must be marked,
    empty: float = 0.9  # and of plain ground, to count


DEFAULTS = ObjectParameters()


def object_cells(
    cells: Sequence[Tensor], image: np.ndarray, area: Area, marked: np.ndarray | None
) -> Tensor:
    """Return which cells of an area of an RGB image show the object: rows x columns.

    The cells are given by their descriptors, of each network; `marked` is not 0 where a user says
    that the object is. All cells are of the object if none seems to be.
    """
    rows, columns = cells[0].shape[1:]
    if marked is not None:
        chosen = shares((marked != 0).astype(np.float32), area, (rows, columns)) >= DEFAULTS.full
    else:
        distinct = distinctness(cells).cpu().numpy()
        chosen = distinct >= DEFAULTS.strictness * best_threshold(distinct)
        chosen &= ~plain_ground(image, area, (rows, columns))
    return torch.from_numpy(chosen if chosen.any() else np.ones_like(chosen))


def distinctness(cells: Sequence[Tensor]) -> Tensor:
    """Return how little each cell looks like those of the border (rows x columns)."""
    rows, columns = cells[0].shape[1:]
    border = torch.ones(rows, columns, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    cosines = [each.flatten(1).T @ each.flatten(1)[:, border.flatten()] for each in cells]
    closest = torch.stack(cosines).mean(0).topk(DEFAULTS.nearest, dim=1).values
    return (1 - closest.mean(1)).view(rows, columns)


def best_threshold(values: np.ndarray) -> float:
    """Return the value that best parts others in two, by the method of Otsu."""
    ordered = np.sort(values, axis=None).astype(np.float64)
    below = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)
    above = len(ordered) - below
    means = sums[:-1] / below, (sums[-1] - sums[:-1]) / above
    return float(ordered[1:][(below * above * (means[0] - means[1]) ** 2).argmax()])


def plain_ground(image: np.ndarray, area: Area, cells: tuple[int, int]) -> np.ndarray:
    """Return which cells show nothing but a plain ground, connected with the border."""
    scale = DEFAULTS.side / max(area.width, area.height)
    size = max(4, round(area.height * scale)), max(4, round(area.width * scale))
    colours = cv2.cvtColor(resampled(image, area, size), cv2.COLOR_RGB2LAB).astype(np.float32)
    border = np.concatenate([colours[0], colours[-1], colours[:, 0], colours[:, -1]])
    middle = np.median(border, axis=0)
    alike = np.abs(colours - middle).max(axis=2) < DEFAULTS.plain
    if (np.abs(border - middle).max(axis=1) < DEFAULTS.plain).mean() < DEFAULTS.plain_border:
        return np.zeros(cells, bool)
    # A frame all around connects the pieces of the border.
    framed = np.pad(alike.astype(np.uint8), 1, constant_values=1)
    _, pieces = cv2.connectedComponents(framed, connectivity=4)
    ground = (pieces == pieces[0, 0])[1:-1, 1:-1].astype(np.float32)
    share = cv2.resize(ground, cells[::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(share >= DEFAULTS.empty)


def shares(of: np.ndarray, area: Area, cells: tuple[int, int]) -> np.ndarray:
    """Return the mean of a map (height x width) in each cell of an area."""
    rows, columns = cells
    fine = resampled(of, area, (8 * rows, 8 * columns))
    return np.asarray(fine.reshape(rows, 8, columns, 8).mean(axis=(1, 3)))
