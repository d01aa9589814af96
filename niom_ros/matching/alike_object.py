"""Another object of the reference's kind: where it is, and where the points of the reference are.

Points of two objects that are only alike do not lie on a homography, so there is none. The warp is
a rough fit, for overlays.
"""

from dataclasses import dataclass, field, replace
import math

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.correspondences import Correspondences
from niom_ros.semantics.correspondence.field import KindSigns, PartField
from niom_ros.semantics.heat_maps import Area

RIGHT = 0.1  # of the object's size: a point that is nearer to its true place is right
LEAST = 0.02  # confidence for which a deviation is computed: otherwise it would be infinite
CERTAIN = 0.5  # confidence from which a point counts as an inlier
MIN_CERTAIN = 4  # such points, for ALIKE
MIN_CONFIDENCE = 0.5  # that it is of the kind, for ALIKE


@dataclass(frozen=True)
class WarpParameters:
    """How the warp is fitted, and when it is plausible."""

    min_points: int = 12  # that must carry weight, so that a few do not decide
    tolerance: float = 0.1  # of the object's size; points further off get less and less weight
    rounds: int = 10  # of reweighting
    max_deviation: float = 0.12  # of the object's size, of the points from the warp
    max_stretch: float = 3.0  # largest ratio of the scales in two directions


DEFAULTS = WarpParameters()


@dataclass(frozen=True)
class GuidePoints:
    """Where points of the reference are on an alike object, in pixels of the image."""

    places: np.ndarray  # N x 2
    deviations: np.ndarray  # N, standard deviations, pixels
    confidences: np.ndarray  # N, probability that a place is right to a tenth of the object's size

    @classmethod
    def none(cls) -> 'GuidePoints':
        """Return an empty set."""
        return cls(np.empty((0, 2)), np.empty(0), np.empty(0))

    def only_where(self, known: np.ndarray, size: float) -> 'GuidePoints':
        """Return the points; those of which nothing is known may be anywhere on the object."""
        return GuidePoints(
            self.places,
            np.where(known, self.deviations, np.maximum(self.deviations, size / 2)),
            np.where(known, self.confidences, 0.0),
        )


def guides_at(places: np.ndarray, confidences: np.ndarray, size: float) -> GuidePoints:
    """Return points (N x 2) on an object of this size, with the deviations that follow.

    A confidence is the probability that a point is right.
    """
    spreads = spread_of(np.clip(confidences, LEAST, 1 - LEAST))
    return GuidePoints(places, RIGHT * size * spreads, confidences)


@dataclass(frozen=True)
class Warp:
    """The affine transform that explains the points of an alike object best."""

    matrix: np.ndarray  # 3 x 3, reference pixels to image pixels
    deviation: float  # standard deviation of the points from it, in pixels of the image


@dataclass(frozen=True, eq=False)
class AlikeObject:
    """An object that may be of the reference's kind, in pixels of the image."""

    confidence: float  # that it is of that kind, 0 to 1
    box: Area
    landmarks: GuidePoints  # of the reference, in their order
    size: float = field(kw_only=True)  # its longer side, without the margin that the box may have
    warp: Warp | None = None  # None: no plausible view explains the points
    signs: KindSigns | None = None  # None: unknown
    parts: PartField | None = None  # in the upright image; None: it was only tracked


def spread_of(confidences: np.ndarray) -> np.ndarray:
    """Return the standard deviations of points that are within 1 of their places so often.

    In the plane, a normally distributed error is larger than r with the probability
    exp(-r^2 / 2 variance).
    """
    wrong = np.clip(1 - confidences.astype(np.float64), 1e-300, 1 - 1e-12)
    return np.asarray(1 / np.sqrt(-2 * np.log(wrong)))


def share_within(spreads: np.ndarray) -> np.ndarray:
    """Return how often points with these standard deviations are within 1 of their places."""
    return np.asarray(1 - np.exp(-1 / (2 * spreads**2)))


def fit_warp(points: Correspondences, confidences: np.ndarray, size: float) -> Warp | None:
    """Return the affine transform that explains points, weighted by confidence; None: none does.

    `size` is that of the object, in pixels of the image.
    """
    weighty = confidences > 0.1 * confidences.max(initial=0)
    if weighty.sum() < DEFAULTS.min_points:
        return None
    known = np.column_stack([points.reference_points, np.ones(len(points))]).astype(np.float64)
    found = points.image_points.astype(np.float64)
    scale = DEFAULTS.tolerance * size
    weights = confidences.astype(np.float64)
    for _ in range(DEFAULTS.rounds):
        root = np.sqrt(weights)[:, None]
        solution, _, rank, _ = np.linalg.lstsq(root * known, root * found, rcond=None)
        if rank < 3:
            return None
        squared = ((known @ solution - found) ** 2).sum(axis=1)
        weights = confidences / (1 + squared / scale**2) ** 2
    matrix = np.vstack([solution.T, [0, 0, 1]])
    # Of a normal distribution in the plane, half is within 1.18 standard deviations.
    deviation = math.sqrt(weighted_median(squared, confidences) / (2 * math.log(2)))
    warp = Warp(matrix, deviation)
    return warp if is_plausible(warp, size) else None


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the value below which half of the weight lies."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= weights.sum() / 2
    return float(values[order][reached.argmax()])


def is_plausible(warp: Warp, size: float) -> bool:
    """Return whether an object can look like that: not mirrored, hardly stretched, close to it."""
    linear = warp.matrix[:2, :2]
    scales = np.linalg.svd(linear, compute_uv=False)
    return bool(
        np.linalg.det(linear) > 0
        and scales[0] <= DEFAULTS.max_stretch * scales[1]
        and warp.deviation <= DEFAULTS.max_deviation * size
    )


def moved(alike: AlikeObject, transform: np.ndarray) -> AlikeObject:
    """Return an object after a rotation of the image by a multiple of 90 degrees (3 x 3)."""
    warp, marks = alike.warp, alike.landmarks
    places = warp_points(transform, marks.places) if len(marks.places) else marks.places
    return replace(
        alike,
        box=Area.around(warp_points(transform, alike.box.corners())),
        landmarks=replace(marks, places=places),
        warp=None if warp is None else replace(warp, matrix=transform @ warp.matrix),
    )
