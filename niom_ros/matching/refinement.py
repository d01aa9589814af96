"""A homography to a fraction of a pixel, once a robust estimator has found it roughly.

That one counts all points within its limit alike. Here a point counts the less the farther it is
from its place, so wrong ones just within the limit no longer pull.
"""

from dataclasses import dataclass

import numpy as np

from niom_ros.core.homographies import warp_points


@dataclass(frozen=True)
class RefinementParameters:
    """How points are weighted, and when to stop."""

    # Of the reprojection error: at this distance a point counts half (Cauchy's loss).
    half_weight: float = 0.5
    most_rounds: int = 10
    enough: float = 1e-6  # largest change of a normalised element


DEFAULTS = RefinementParameters()


def refined(
    homography: np.ndarray,
    reference_points: np.ndarray,
    image_points: np.ndarray,
    reprojection_error: float,
) -> np.ndarray | None:
    """Return the homography near this one that fits all points (N x 2) best; None: none does.

    Gauss-Newton on the distances in the image, reweighted in every round.
    """
    to_reference, to_image = normalising(reference_points), normalising(image_points)
    here = warp_points(to_reference, reference_points)
    there = warp_points(to_image, image_points)
    half = DEFAULTS.half_weight * reprojection_error * to_image[0, 0]
    view = to_image @ homography @ np.linalg.inv(to_reference)
    if abs(view[2, 2]) < 1e-9:
        return None
    unknowns = (view / view[2, 2]).ravel()[:8]
    for _ in range(DEFAULTS.most_rounds):
        residuals, slopes = linearised(unknowns, here, there)
        weights = np.repeat(1 / (1 + (residuals**2).sum(axis=1) / half**2), 2)
        weighted = weights[:, None] * slopes
        normal = weighted.T @ slopes
        if np.linalg.matrix_rank(normal, hermitian=True) < len(unknowns):
            return None
        change = np.linalg.solve(normal, weighted.T @ residuals.ravel())
        unknowns = unknowns + change
        if np.abs(change).max() < DEFAULTS.enough:
            break
    view = np.linalg.inv(to_image) @ np.append(unknowns, 1).reshape(3, 3) @ to_reference
    if not np.isfinite(view).all() or abs(view[2, 2]) < 1e-9:
        return None
    return np.asarray(view / view[2, 2])


def linearised(
    unknowns: np.ndarray, here: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far points are from their places (N x 2), and the derivatives (2 N x 8).

    The unknowns are the first eight elements of a homography, the last one being 1.
    """
    lifted = np.column_stack([here, np.ones(len(here))])
    projected = lifted @ np.append(unknowns, 1).reshape(3, 3).T
    places = projected[:, :2] / projected[:, 2:]
    slopes = np.zeros((len(here), 2, 8))
    slopes[:, 0, 0:3] = slopes[:, 1, 3:6] = lifted / projected[:, 2:]
    slopes[:, :, 6:8] = -places[:, :, None] * (here / projected[:, 2:])[:, None]
    return there - places, slopes.reshape(-1, 8)


def normalising(points: np.ndarray) -> np.ndarray:
    """Return the shift and scale (3 x 3) to the origin and a mean distance of the root of 2."""
    middle = points.mean(axis=0)
    distance = float(np.linalg.norm(points - middle, axis=1).mean())
    scale = 2**0.5 / max(distance, 1e-9)
    return np.array(
        [[scale, 0, -scale * middle[0]], [0, scale, -scale * middle[1]], [0, 0, 1]], float
    )
