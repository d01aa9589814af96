"""A homography for an object that is not flat: that of one of its planes, where it holds."""

from dataclasses import dataclass, replace
import math

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.core.uncertainty import SupportErrors, ViewUncertainty
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import fit_homography, in_front, Status, Verdict
from niom_ros.matching.offset_field import noise_of, on_object


@dataclass(frozen=True, kw_only=True)
class PlaneParameters:
    """When an object is not flat, and which of its planes count."""

    # Of flat scenes in `niom eval`, one in fifty has less than this share of its points on one
    # plane, by repeated patterns.
    least_flatness: float = 0.8
    most_planes: int = 4  # that are compared
    deviations: float = 3.0  # of the noise of a match, within which it lies on a plane
    least_error: float = 1.0  # pixels within which it does in any case
    # Deviation of the corners, in reprojection errors, up to which one plane may stand for the
    # whole.
    most_uncertain: float = 1.5


DEFAULTS = PlaneParameters()


def is_flat(verdict: Verdict) -> bool:
    """Return whether nothing speaks against an object being flat."""
    checks = verdict.checks
    return checks is None or not checks.flatness < DEFAULTS.least_flatness


def on_one_plane(
    verdict: Verdict,
    correspondences: Correspondences,
    reference_box: Box,
    limits: Limits,
    errors: SupportErrors,
) -> Verdict:
    """Return a verdict whose homography holds for one plane, if the object is not flat.

    A homography that compromises between planes is right nowhere. Of those that hold for a part of
    the object, the one that says most about the whole is taken, and refused if that is too little.
    """
    view = verdict.reference_to_image
    if view is None or verdict.checks is None or is_flat(verdict):
        return verdict
    planes = planes_of(view, verdict.inliers, correspondences, reference_box, limits, errors)
    share = f'not flat: only {verdict.checks.flatness:.0%} of its points lie on one plane'
    best = min(planes, key=lambda plane: plane.uncertain, default=None)
    if best is None or best.uncertain > DEFAULTS.most_uncertain * limits.reprojection_error:
        return replace(
            verdict,
            status=Status.LOW_CONFIDENCE,
            message=f'{verdict.message}; {share}, which does not tell where the others are',
            reference_to_image=None,
            confidence=min(verdict.confidence, 0.49),
            uncertainty=None,
        )
    return replace(
        verdict,
        message=f'{verdict.message}; {share}: place landmarks by the points near them',
        inliers=best.inliers,
        reference_to_image=best.uncertainty.reference_to_image,
        uncertainty=best.uncertainty,
    )


@dataclass(frozen=True)
class Plane:
    """A part of an object that lies on one plane."""

    inliers: np.ndarray  # M booleans
    uncertainty: ViewUncertainty

    @property
    def uncertain(self) -> float:
        """Return how uncertain the corners of the whole are, in pixels."""
        return float(self.uncertainty.at_corners.mean())


def planes_of(
    view: np.ndarray,
    inliers: np.ndarray,
    correspondences: Correspondences,
    reference_box: Box,
    limits: Limits,
    errors: SupportErrors,
) -> list[Plane]:
    """Return the planes of an object that was roughly found, each with what lies on it."""
    left = on_object(view, correspondences, inliers, limits.reprojection_error)
    references = correspondences.reference_points
    noise = noise_of(
        warp_points(view, references[left].astype(np.float64)),
        correspondences.image_points[left] - warp_points(view, references[left]),
    )
    within = min(
        limits.reprojection_error,
        max(DEFAULTS.least_error, DEFAULTS.deviations * math.sqrt(noise)),
    )
    planes = []
    for _ in range(DEFAULTS.most_planes):
        if left.sum() < limits.min_inliers:
            break
        homography, fitting = fit_homography(correspondences.only(left), within)
        if homography is None or fitting.sum() < limits.min_inliers:
            break
        on_it = np.zeros(len(left), bool)
        on_it[np.nonzero(left)[0][fitting]] = True
        left &= ~on_it
        if not in_front(homography, reference_box):
            continue
        uncertainty = ViewUncertainty.of_points(
            homography,
            reference_box,
            references[on_it],
            correspondences.image_points[on_it],
            errors,
        )
        planes.append(Plane(on_it, uncertainty))
    return planes
