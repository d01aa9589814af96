"""Moves points of an object that is not flat with the tracked corners around them."""

from dataclasses import dataclass

import numpy as np

from niom_ros.core.homographies import warp_points


@dataclass(frozen=True)
class LocalParameters:
    """How the corners near a point decide where it went."""

    reach: float = 0.08  # of the object's size, over which corners count
    whole: float = 0.5  # corners, as many as the motion of the whole object counts for
    tolerance: float = 0.02  # of the object's size; corners further off from others count less


DEFAULTS = LocalParameters()


@dataclass(frozen=True)
class MovedPoints:
    """Where points went, and how much the corners near them disagree."""

    places: np.ndarray  # N x 2
    deviations: np.ndarray  # N, standard deviations, pixels


class LocalMotion:
    """The motion of a whole object, and what the corners near a point add to it."""

    def __init__(
        self,
        whole: np.ndarray,
        corners: np.ndarray,
        moved_corners: np.ndarray,
        size: float,
        parameters: LocalParameters = DEFAULTS,
    ) -> None:
        """Learn from N x 2 corners; `whole` is 3 x 3, and `size` is that of the object."""
        self._whole, self._corners, self._parameters = whole, corners, parameters
        self._reach = max(1.0, parameters.reach * size)
        self._offsets = moved_corners - warp_points(whole, corners)
        self._trust = np.ones(len(corners))
        neighbours, _ = self._offsets_at(corners)
        misfits = ((self._offsets - neighbours) ** 2).sum(axis=1)
        # As in other robust fits here (Geman-McClure).
        self._trust = 1 / (1 + misfits / max(1.0, parameters.tolerance * size) ** 2) ** 2

    def carry(self, points: np.ndarray) -> MovedPoints:
        """Return where points (N x 2) went."""
        offsets, variances = self._offsets_at(points)
        return MovedPoints(warp_points(self._whole, points) + offsets, np.sqrt(variances))

    def _offsets_at(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far points went from the motion of the whole, and the variances of that."""
        corners, whole = self._corners, self._parameters.whole
        products = points @ corners.T
        squared = (points**2).sum(axis=1)[:, None] + (corners**2).sum(axis=1) - 2 * products
        near = np.exp(-squared / (2 * self._reach**2))
        trusted = near * self._trust
        offsets = trusted @ self._offsets / (trusted.sum(axis=1) + whole)[:, None]
        # Corners that are not trusted count here: they tell that something may be wrong. The mean
        # of (offset of the point - offset of a corner)^2, multiplied out.
        squares = near @ (self._offsets**2).mean(axis=1)
        products = (offsets * (near @ self._offsets)).mean(axis=1)
        total = near.sum(axis=1) + whole
        variances = (offsets**2).mean(axis=1) + (squares - 2 * products) / total
        return offsets, np.maximum(variances, 0.0)
