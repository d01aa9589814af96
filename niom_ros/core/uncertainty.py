"""How certain a view is: it grows away from the points or lines that the view rests on."""

from dataclasses import dataclass, replace
import math

import numpy as np
from scipy.spatial import KDTree

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import jacobians_at, warp_points

PARAMETERS = 8  # of a homography
NEIGHBOURS = 5  # of a point, with which it may share an error


@dataclass(frozen=True, kw_only=True)
class SupportErrors:
    """How the error of a fit follows from its residuals, and what these do not show."""

    independent: float = math.inf  # observations count at most like this many independent ones
    # Errors that neighbours share do not average out: lens distortion, a thing that is not quite
    # flat. However many points there are, they count like this many.
    shared: float = 3.0
    floor: float = 0.0  # pixels; error of the whole that residuals do not show
    shift: float = 0.0  # pixels; error that all places of the image share


# Chosen on one half of the pictures of `niom eval uncertainty`, and confirmed on the other one.
KEYPOINTS = SupportErrors(floor=0.07, shift=0.15)
# SIFT keypoints, and patches that are tracked
SUBPIXEL = SupportErrors(shift=0.02)
# What a person draws deviates from edges over whole strokes.
INK = SupportErrors(independent=15.0)


@dataclass(frozen=True, eq=False)
class ViewUncertainty:
    """The covariance of a homography, as that of a small motion of the reference before it.

    So it stays the same when the camera moves, and covariances of successive steps add up.
    """

    reference_to_image: np.ndarray  # 3 x 3
    box: Box  # the part of the reference in use: the origin and unit of that motion
    covariance: np.ndarray  # 8 x 8, of the eight parameters of that motion
    support: np.ndarray  # N x 2: the points of the reference that the view rests on

    @classmethod
    def of_points(
        cls,
        reference_to_image: np.ndarray,
        box: Box,
        reference_points: np.ndarray,
        image_points: np.ndarray,
        errors: SupportErrors = KEYPOINTS,
    ) -> 'ViewUncertainty':
        """Return the uncertainty of a view that was fitted to N x 2 points."""
        points = reference_points.astype(np.float64)
        slopes = slopes_at(reference_to_image, box, points).reshape(-1, PARAMETERS)
        residuals = image_points - warp_points(reference_to_image, points)
        shared = shared_variance(points, residuals) / errors.shared
        return cls._fitted(
            reference_to_image, box, points, slopes, residuals.ravel(), errors, shared
        )

    @classmethod
    def of_lines(
        cls,
        reference_to_image: np.ndarray,
        box: Box,
        reference_points: np.ndarray,
        normals: np.ndarray,
        image_points: np.ndarray,
        errors: SupportErrors = INK,
    ) -> 'ViewUncertainty':
        """Return the uncertainty of a view fitted to N points of lines, given their normals.

        The normals are angles in the reference. A line says nothing about shifts along itself.
        """
        points = reference_points.astype(np.float64)
        along = np.stack([-np.sin(normals), np.cos(normals)], axis=1)
        along = np.einsum('nij,nj->ni', jacobians_at(reference_to_image, points), along)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        across = np.stack([along[:, 1], -along[:, 0]], axis=1)
        slopes = np.einsum('ni,nij->nj', across, slopes_at(reference_to_image, box, points))
        residuals = ((image_points - warp_points(reference_to_image, points)) * across).sum(axis=1)
        return cls._fitted(reference_to_image, box, points, slopes, residuals, errors)

    @classmethod
    def _fitted(
        cls,
        reference_to_image: np.ndarray,
        box: Box,
        points: np.ndarray,
        slopes: np.ndarray,
        residuals: np.ndarray,
        errors: SupportErrors,
        shared: float = 0.0,
    ) -> 'ViewUncertainty':
        count = len(residuals)
        # Of as many observations as a point gives: two, or one across a line
        per_point = count / max(1, len(points))
        information = per_point * slopes.T @ slopes / max(1, count)
        # In directions that the points do not constrain, the uncertainty is huge, not undefined.
        information += (1e-12 * np.trace(information) + 1e-300) * np.eye(PARAMETERS)
        # As in Student's distribution: few residuals also say little about their own variance.
        variance = (residuals**2).sum() / max(1, count - PARAMETERS - 2)
        variance /= max(1.0, min(len(points), errors.independent))
        variance += shared + errors.floor**2
        covariance = variance * np.linalg.inv(information)
        scale = math.sqrt(abs(np.linalg.det(slopes_at(reference_to_image, box)[0][:, [2, 5]])))
        covariance[[2, 5], [2, 5]] += (errors.shift / max(scale, 1e-9)) ** 2
        return cls(reference_to_image, box, (covariance + covariance.T) / 2, points)

    def covariances(self, reference_points: np.ndarray) -> np.ndarray:
        """Return the covariances of points in the image: N x 2 x 2, in square pixels."""
        slopes = self.slopes(reference_points)
        return np.asarray(slopes @ self.covariance @ slopes.transpose(0, 2, 1))

    def deviations(self, reference_points: np.ndarray) -> np.ndarray:
        """Return the standard deviations of points in the image, each in its worst direction."""
        with np.errstate(divide='ignore', invalid='ignore'):  # points on the horizon
            covariances = self.covariances(reference_points)
            across, down, both = (covariances[:, i, j] for i, j in ((0, 0), (1, 1), (0, 1)))
            # The larger eigenvalue
            largest = (across + down) / 2 + np.hypot((across - down) / 2, both)
            deviations = np.sqrt(largest)
        return np.asarray(np.where(np.isfinite(deviations), deviations, np.inf))

    def slopes(self, reference_points: np.ndarray) -> np.ndarray:
        """Return the derivatives of points in the image by the eight parameters: N x 2 x 8."""
        return slopes_at(self.reference_to_image, self.box, reference_points)

    def distances(self, reference_points: np.ndarray) -> np.ndarray:
        """Return how far points are from the nearest one that the view rests on.

        The unit is the spread of these: beyond it, a view is extrapolated.
        """
        if not len(self.support):
            return np.full(len(reference_points), np.inf)
        spread = math.hypot(*self.support.std(axis=0))
        nearest, _ = KDTree(self.support).query(reference_points)
        return np.asarray(nearest / max(spread, 1e-9))

    @property
    def at_corners(self) -> np.ndarray:
        """Return the standard deviations of the four corners in the image, clockwise."""
        return self.deviations(self.box.corners())

    @property
    def at_support(self) -> float:
        """Return the median standard deviation of the points that the view rests on."""
        return float(np.median(self.deviations(self.support))) if len(self.support) else math.inf

    def as_checks(self) -> dict[str, float]:
        """Return what is published among the checks of a view, by name."""
        return {
            'support_deviation': self.at_support,
            'largest_deviation': float(self.at_corners.max()),
        }

    def seen_as(self, reference_to_image: np.ndarray) -> 'ViewUncertainty':
        """Return the uncertainty after an exact motion of the image, given the new view."""
        return replace(self, reference_to_image=reference_to_image)

    def plus(self, earlier: 'ViewUncertainty') -> 'ViewUncertainty':
        """Return the uncertainty of this step together with that of the view it began with."""
        if earlier.box != self.box:
            raise ValueError('these are views of different parts of a reference')
        return replace(self, covariance=self.covariance + earlier.covariance)


def shared_variance(points: np.ndarray, residuals: np.ndarray) -> float:
    """Return the variance that the residuals of N x 2 points share with their neighbours.

    It is 0 for noise, however large, and that of the residuals if these change only slowly. What
    chance may give is subtracted.
    """
    neighbours = min(NEIGHBOURS, len(points) - 1)
    if neighbours < 1:
        return 0.0
    _, nearest = KDTree(points).query(points, neighbours + 1)
    products = (residuals[nearest[:, 1:]] * residuals[:, None]).sum(axis=2).mean(axis=1) / 2
    # Each product is there about twice, once from either side.
    chance = float(products.std()) / math.sqrt(len(points) / 2)
    return max(0.0, float(products.mean()) - chance)


def slopes_at(
    reference_to_image: np.ndarray, box: Box, reference_points: np.ndarray | None = None
) -> np.ndarray:
    """Return the derivatives of warped points by a small motion of the reference: N x 2 x 8.

    Without points, that of the middle of the box.
    """
    corners = box.corners()
    middle, unit = corners.mean(axis=0), math.hypot(box.width, box.height) / 2
    points = middle[None] if reference_points is None else reference_points
    x, y = ((points - middle) / unit).T
    one, none = np.ones_like(x), np.zeros_like(x)
    motions = np.stack(
        [
            np.stack([x, y, one, none, none, none, -x * x, -x * y], axis=1),
            np.stack([none, none, none, x, y, one, -x * y, -y * y], axis=1),
        ],
        axis=1,
    )
    return np.asarray(unit * jacobians_at(reference_to_image, points) @ motions)
