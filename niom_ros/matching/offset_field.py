"""How far matches are from one plane: an object that is not flat, bent, or not quite the same."""

from dataclasses import dataclass
import math

import numpy as np
from scipy.spatial import KDTree

from niom_ros.core.homographies import SHARED_ERROR, warp_points
from niom_ros.matching.correspondences import Correspondences

STEPS = 3  # that invert an offset


@dataclass(frozen=True, kw_only=True)
class OffsetParameters:
    """Which matches belong to the object, and how nearby ones correct a point.

    The best values of those tried on synthetic reliefs and bent pictures, a real motorcycle seen
    from two sides, and faces of different people.
    """

    nearest: int = 16  # matches that correct a point
    neighbours: int = 6  # of a match that it is compared with
    min_agreeing: int = 2  # of those neighbours, for the match to be used
    max_gradient: float = 0.3  # how much offsets may change, in pixels per pixel
    max_offset: float = 0.25  # share of the matches' diagonal; other objects are further away
    correlation_length: float = 0.3  # share of the matches' diagonal, at most
    beside: float = 0.25  # of that length, within which matches on another part make it uncertain


DEFAULTS = OffsetParameters()


@dataclass(frozen=True)
class OffsetField:
    """How far matches are from where the homography puts them."""

    predicted_points: np.ndarray  # N x 2, where the homography puts the matches
    offsets: np.ndarray  # N x 2, from there to where they were found
    noise: float  # variance of one match against its neighbours
    bend: float  # variance of what neighbours have in common: how far from flat the object is
    reach: float  # correlation length of that, in pixels


def same_side(
    homography: np.ndarray, known_points: np.ndarray, reference_points: np.ndarray
) -> np.ndarray:
    """Return which points are on the same side of the camera as points known to be visible."""
    depths = reference_points @ homography[2, :2] + homography[2, 2]
    known_depths = known_points @ homography[2, :2] + homography[2, 2]
    # A homography and its negative are the same, so only a change of sign counts.
    return np.asarray(depths * known_depths.sum() > 0)


def offset_field(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reprojection_error: float,
    parameters: OffsetParameters = DEFAULTS,
) -> OffsetField:
    """Return how far the object deviates from its homography, according to the matches."""
    used = on_object(homography, correspondences, inliers, reprojection_error, parameters)
    known_points = correspondences.reference_points.astype(np.float64)
    seen = same_side(homography, known_points[inliers], known_points)
    diagonal = math.hypot(*np.ptp(warp_points(homography, known_points[seen]), axis=0))
    predicted_points = warp_points(homography, known_points[used])
    offsets = correspondences.image_points[used] - predicted_points
    noise = noise_of(predicted_points, offsets)
    bend = max((offsets**2).mean() - noise, 1e-6)
    reach = reach_of(predicted_points, offsets, bend, parameters.nearest)
    return OffsetField(
        predicted_points=predicted_points,
        offsets=offsets,
        noise=noise,
        bend=bend,
        reach=max(1.0, min(parameters.correlation_length * diagonal, reach)),
    )


def noise_of(predicted_points: np.ndarray, offsets: np.ndarray) -> float:
    """Return the variance of N matches against their neighbours, in square pixels."""
    _, nearest = KDTree(predicted_points).query(predicted_points, min(4, len(offsets)))
    differences = ((offsets[nearest[:, 1:]] - offsets[:, None]) ** 2).sum(axis=2)
    # A difference has twice the variance of a match; the median of the square of a normally
    # distributed vector in the plane is 2 ln 2 times the variance of its coordinates.
    return max(float(np.median(differences)) / 2 / (2 * math.log(2)), SHARED_ERROR**2)


def reach_of(
    predicted_points: np.ndarray, offsets: np.ndarray, bend: float, neighbours: int
) -> float:
    """Return over which distance offsets stay alike: far if the object is bent, less for steps."""
    distances, nearest = KDTree(predicted_points).query(
        predicted_points, min(neighbours, len(offsets))
    )
    products = (offsets[nearest[:, 1:]] * offsets[:, None]).sum(axis=2) / 2
    alike = float(products.mean()) / bend if products.size else 0.0
    # As if this share were that at the mean distance; it falls exponentially.
    return float(distances[:, 1:].mean()) / -math.log(min(max(alike, 1e-3), 1 - 1e-3))


def on_object(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reprojection_error: float,
    parameters: OffsetParameters = DEFAULTS,
) -> np.ndarray:
    """Return which matches belong to the object: those on the plane, and those that move alike."""
    known_points = correspondences.reference_points
    result = inliers.copy()
    seen = same_side(homography, known_points[inliers], known_points)
    predicted_points = warp_points(homography, known_points[seen].astype(np.float64))
    offsets = correspondences.image_points[seen] - predicted_points
    if not len(offsets):
        return result
    diagonal = math.hypot(*np.ptp(predicted_points, axis=0))
    close = np.linalg.norm(offsets, axis=1) < parameters.max_offset * diagonal
    result[seen] |= close & agreeing(predicted_points, offsets, reprojection_error, parameters)
    return result


def flatness_of(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reprojection_error: float,
) -> float:
    """Return the share of the matches of an object that lie on one plane: 1 if it is flat."""
    used = on_object(homography, correspondences, inliers, reprojection_error)
    return float(inliers.sum() / max(1, used.sum()))


def agreeing(
    predicted_points: np.ndarray,
    offsets: np.ndarray,
    reprojection_error: float,
    parameters: OffsetParameters = DEFAULTS,
) -> np.ndarray:
    """Return which matches have neighbours with about the same offset, however large it is.

    Parts that stand out, or that lie elsewhere on a similar object, move together. Wrong matches
    go anywhere.
    """
    neighbours = parameters.neighbours
    if len(offsets) <= neighbours:
        return np.zeros(len(offsets), bool)
    distances, nearest = KDTree(predicted_points).query(predicted_points, neighbours + 1)
    differences = np.linalg.norm(offsets[nearest] - offsets[:, None], axis=2)
    alike = differences < reprojection_error + parameters.max_gradient * distances
    return alike.sum(axis=1) - 1 >= parameters.min_agreeing  # without itself


def flattened(
    image_points: np.ndarray, field: OffsetField, reprojection_error: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return where points of an image would be if the object were flat, and which are not there.

    This is the inverse of `corrected`, found in a few steps, because the offset is known at that
    place only. Points among matches that are mostly on the plane are where they are.
    """
    _, nearest = KDTree(field.predicted_points + field.offsets).query(
        image_points, min(DEFAULTS.neighbours, len(field.offsets))
    )
    on_plane = np.linalg.norm(field.offsets, axis=1) < reprojection_error
    beside = on_plane[nearest].mean(axis=1) < 0.5
    result, unknown = image_points.copy(), np.zeros(int(beside.sum()))
    if beside.any():
        for _ in range(STEPS):
            flat = result[beside]
            offsets = corrected(flat, unknown, field, reprojection_error)[0] - flat
            result[beside] = image_points[beside] - offsets
    return result, beside


def corrected(
    image_points: np.ndarray,
    deviations: np.ndarray,
    field: OffsetField,
    reprojection_error: float,
    most: int = DEFAULTS.nearest,
) -> tuple[np.ndarray, np.ndarray]:
    """Return points corrected by the offsets of nearby matches, and their standard deviations.

    This is kriging, also known as Gaussian process regression: distant and noisy matches count
    less, and without any, the homography alone decides. Matches that agree with the homography
    correct nothing.
    """
    count = min(len(field.offsets), most)
    distances, nearest = KDTree(field.predicted_points).query(image_points, count)
    known_points, offsets = field.predicted_points[nearest], field.offsets[nearest]
    between = np.linalg.norm(known_points[:, :, None] - known_points[:, None], axis=3)
    shared = field.bend * np.exp(-between / field.reach)
    shared_with_point = field.bend * np.exp(-distances / field.reach)
    tolerance = max(3 * math.sqrt(field.noise), reprojection_error / 2)
    wanted = np.concatenate([offsets, shared_with_point[:, :, None]], axis=2)
    trust = np.ones(distances.shape)
    for _ in range(4):
        total = shared + (field.noise / np.maximum(trust, 1e-3))[:, :, None] * np.eye(count)
        solved = np.linalg.solve(total, wanted)
        misfits = ((offsets - shared @ solved[:, :, :2]) ** 2).sum(axis=2)
        # Matches that do not fit the others get less and less weight (Geman-McClure).
        trust = 1 / (1 + misfits / tolerance**2) ** 2
    weights = solved[:, :, 2]
    correction = np.einsum('lk,lkd->ld', weights, offsets)
    unknown = np.maximum(0, field.bend - (weights * shared_with_point).sum(axis=1))
    # The correction includes the homography's own error; what all matches share remains.
    share = weights.sum(axis=1)
    variances = unknown + ((1 - share) * deviations) ** 2 + (share * SHARED_ERROR) ** 2
    # Matches close by that are not trusted tell that the point may be on another part.
    near = np.exp(-((distances / (DEFAULTS.beside * field.reach)) ** 2) / 2)
    apart = ((offsets - correction[:, None]) ** 2).sum(axis=2) / 2
    variances += (near * (1 - trust) * apart).sum(axis=1) / (near.sum(axis=1) + 0.5)
    return image_points + correction, np.sqrt(variances)
