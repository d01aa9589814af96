"""The metrics that `niom eval` reports, computed from answers and ground truth."""

from dataclasses import dataclass
import math

import cv2
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import betaincinv

from niom_ros.core.homographies import warp_points

DESCRIPTOR_WEIGHT = 0.3  # of distances between descriptors; those of positions have 1
FARTHEST = math.sqrt(2)  # between two points of a picture whose sides count as 1


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """How well matches that go through another picture agree with the direct ones.

    The numbers in the names are tolerances in hundredths of the picture's size.
    """

    rmse: float
    pck_01: float  # share of the one-hop points with a direct one nearby
    pck_05: float
    pck_10: float
    recall_01: float  # share of the direct points with a one-hop one nearby
    recall_05: float
    recall_10: float


@dataclass(frozen=True)
class AcceptanceCurve:
    """What is accepted at each threshold, the highest first, and how much of that is wrong."""

    accepted: np.ndarray  # share of all answers
    wrong: np.ndarray  # share of the accepted answers


def error_auc(errors: ArrayLike, threshold: float) -> float:
    """Return the area under the cumulative error curve up to a threshold; 1: all are exact.

    A failure is an infinite error. Without any errors the area is NaN.
    """
    errors = np.asarray(errors, np.float64)
    if not errors.size:
        return math.nan
    # As in SuperGlue, an error of exactly the threshold does not count.
    counting = errors[errors < threshold]
    if not counting.size:
        return 0.0
    # The trapezoids of SuperGlue's pose_auc in closed form: steps of 1 / n would give the sum of
    # (threshold - error), and trapezoids instead of steps add half of the largest error.
    area = counting.size * threshold - counting.sum() + counting.max() / 2
    return float(area / (errors.size * threshold))


def rotation_error(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the angle between two rotations, in degrees."""
    turn = found.T @ truth
    # The arc cosine of the trace alone would lose half of the digits of small angles.
    doubled_sine = np.linalg.norm(
        [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
    )
    return math.degrees(math.atan2(doubled_sine, np.trace(turn) - 1))


def translation_error(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the angle between the lines along which two cameras moved, in degrees up to 90.

    Forwards and backwards count as the same, since an essential matrix cannot distinguish them.
    If the camera did not move, there is no error; if no movement was found, the error is 90.
    """
    found, truth = np.ravel(found), np.ravel(truth)
    if not truth.any():
        return 0.0
    if not found.any():
        return 90.0
    return math.degrees(math.atan2(np.linalg.norm(np.cross(found, truth)), abs(found @ truth)))


def pose_error(
    rotation: np.ndarray,
    translation: np.ndarray,
    true_rotation: np.ndarray,
    true_translation: np.ndarray,
) -> float:
    """Return the larger of the errors of rotation and of translation, in degrees."""
    return max(
        rotation_error(rotation, true_rotation), translation_error(translation, true_translation)
    )


def relative_pose(
    points0: np.ndarray,
    points1: np.ndarray,
    camera0: np.ndarray,
    camera1: np.ndarray,
    threshold_pixels: float = 1.0,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return how the camera moved between two images of a scene, or None if nothing fits.

    The points are N x 2 pixels, the cameras 3 x 3 matrices. A scene point X in the frame of the
    first camera is at rotation @ X + translation in that of the second; the translation has
    length 1.
    """
    if len(points0) < 5:
        return None
    rays0 = warp_points(np.linalg.inv(camera0), points0)
    rays1 = warp_points(np.linalg.inv(camera1), points1)
    focal_length = np.mean([camera0[0, 0], camera0[1, 1], camera1[0, 0], camera1[1, 1]])
    essentials, inliers = cv2.findEssentialMat(
        rays0,
        rays1,
        np.eye(3),
        # At 50 / 70 % outliers 0.6 / 0.9 deg, 20 / 75 ms; MAGSAC 0.8 / 2.5; RANSAC 1.1 / 1.7, 1 s.
        cv2.USAC_ACCURATE,
        prob=0.9999,
        threshold=threshold_pixels / focal_length,
        maxIters=5000,
    )
    if essentials is None:
        return None
    return best_motion(essentials, rays0, rays1, inliers)


def best_motion(
    essentials: np.ndarray, rays0: np.ndarray, rays1: np.ndarray, inliers: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rotation and translation that put most inliers in front of both cameras.

    Few points can leave up to ten essential matrices, stacked as 3k x 3: the best one counts.
    """
    most, motion = 0, None
    for essential in essentials.reshape(-1, 3, 3):
        in_front, rotation, translation, *_ = cv2.recoverPose(
            essential,
            rays0,
            rays1,
            np.eye(3),
            distanceThresh=1e9,  # OpenCV's own 50 baselines would drop all of a distant scene
            mask=inliers.copy(),  # it is overwritten
        )
        if in_front > most:
            most, motion = in_front, (rotation, translation.ravel())
    return motion


def one_hop(
    q_b: np.ndarray, e_b: np.ndarray, r_b: np.ndarray, f_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Join matches A-B with matches B-C where they meet in B; return the joined rows of each.

    A-B ends at the positions q_b with descriptors e_b, B-C starts at r_b with f_b; the names are
    those of the paper. Positions range from 0 to 1. All of the smaller set are joined, however
    far apart.
    """
    if not len(q_b) or not len(r_b):
        return np.empty(0, int), np.empty(0, int)
    costs = cdist(q_b, r_b) + DESCRIPTOR_WEIGHT * cdist(e_b, f_b)
    return linear_sum_assignment(costs)


def consistency(direct_c: np.ndarray, one_hop_c: np.ndarray) -> Consistency:
    """Compare where direct and one-hop matches end in picture C, positions from 0 to 1.

    If either is empty, all numbers are the worst possible: finding nothing must not pay.
    """
    if not len(direct_c) or not len(one_hop_c):
        return Consistency(
            rmse=FARTHEST,
            pck_01=0.0,
            pck_05=0.0,
            pck_10=0.0,
            recall_01=0.0,
            recall_05=0.0,
            recall_10=0.0,
        )
    to_direct = nearest_distances(one_hop_c, direct_c)
    to_one_hop = nearest_distances(direct_c, one_hop_c)
    return Consistency(
        rmse=float(np.sqrt(np.mean(to_direct**2))),
        pck_01=share_within(to_direct, 0.01),
        pck_05=share_within(to_direct, 0.05),
        pck_10=share_within(to_direct, 0.10),
        recall_01=share_within(to_one_hop, 0.01),
        recall_05=share_within(to_one_hop, 0.05),
        recall_10=share_within(to_one_hop, 0.10),
    )


def nearest_distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how far each point is from the nearest of the others."""
    return KDTree(others).query(points)[0]


def chance_pck(direct_c: np.ndarray, tau: float, count: int, rng: np.random.Generator) -> float:
    """Return the PCK of random points in picture C against the direct matches.

    `consistency` compares with the nearest point, whichever it is, so its numbers mean little
    without this baseline. The more direct matches there are, the nearer it is to 1. At least
    `count` random points are used.
    """
    # One in each cell of a grid: the same mean, and a fifth to two thirds of the spread.
    side = math.ceil(math.sqrt(count))
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    blind = (cells + rng.random(cells.shape)) / side
    return share_within(nearest_distances(blind, direct_c), tau)


def paired_errors(a_points: np.ndarray, c_points: np.ndarray, a_to_c: np.ndarray) -> np.ndarray:
    """Return how far from its true place in C each point of A ended."""
    return np.linalg.norm(warp_points(a_to_c, a_points) - c_points, axis=1)


def share_within(distances: np.ndarray, tau: float) -> float:
    """Return the share of distances that are at most tau; a NaN never is.

    Without any distances it is 0, not undefined: finding nothing must not pay.
    """
    if not len(distances):
        return 0.0
    # The tolerance is for rounding errors: 0.55 - 0.5 is slightly more than 0.05.
    return float(np.mean(distances <= tau * (1 + 1e-9)))


def upper_bound(successes: int, trials: int, level: float = 0.95) -> float:
    """Return the upper confidence bound of a rate.

    It is the exact one-sided bound of Clopper and Pearson; without trials it is 1.
    """
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, level))


def acceptance_curve(confidences: np.ndarray, right: np.ndarray) -> AcceptanceCurve:
    """Return what each possible threshold of confidence accepts, and how much of it is wrong.

    Answers with the same confidence are accepted together: no threshold separates them.
    """
    order = np.argsort(-confidences, kind='stable')
    descending = confidences[order]
    # The last answer of each confidence.
    ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True)[: len(order)])
    accepted = ends + 1
    wrong = np.cumsum(~right[order])[ends]
    return AcceptanceCurve(accepted / len(order), wrong / accepted)
