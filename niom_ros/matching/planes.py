"""A homography for an object that is not flat: that of one of its planes, where it holds."""

from dataclasses import dataclass, replace
import math

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.core.uncertainty import shared_variance, SupportErrors, ViewUncertainty
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import (
    fit_homography,
    hull_area,
    in_front,
    LOST,
    MAX_REFUSED_CONFIDENCE,
    Status,
    Verdict,
    visible_deviation,
    why_too_uncertain,
)
from niom_ros.matching.offset_field import noise_of, on_object


@dataclass(frozen=True, kw_only=True)
class PlaneParameters:
    """When an object is not flat, and which of its planes count."""

    # Share of the points of an object on one plane. Of 171 answers about flat scenes, 2 have less,
    # because of repeated patterns.
    least_flatness: float = 0.85
    # Pixels that the matches on the plane of a compromise share with their neighbours: most flat
    # scenes have less than half of it.
    least_shared: float = 1.0
    least_share: float = 0.25  # that a plane has of the object's points; less is chance
    most_planes: int = 4  # that are compared
    deviations: float = 3.0  # of the noise of a match, within which it lies on a plane
    least_error: float = 1.0  # pixels within which it does in any case
    # Of the points of the largest plane: one with fewer is not chosen.
    nearly_largest: float = 0.4
    # Share of the object that the points on a plane must enclose: what lies beyond is on others.
    least_span: float = 0.7


DEFAULTS = PlaneParameters()


def is_flat(verdict: Verdict) -> bool:
    """Return whether nothing speaks against an object being flat."""
    checks = verdict.checks
    return checks is None or not checks.flatness < DEFAULTS.least_flatness


def on_one_plane(
    verdict: Verdict,
    correspondences: Correspondences,
    reference_box: Box,
    image_box: Box,
    limits: Limits,
    errors: SupportErrors,
) -> Verdict:
    """Return a verdict whose homography holds for one plane, if the object is not flat.

    A homography that compromises between planes is right nowhere. Of those of its largest planes,
    the one that spans most of the object is taken, and refused if that is too little.
    """
    view = verdict.reference_to_image
    if view is None or verdict.checks is None:
        return verdict
    flat = is_flat(verdict)
    if flat and shared_error(view, correspondences, verdict.inliers) < DEFAULTS.least_shared:
        return verdict
    planes = planes_of(view, verdict.inliers, correspondences, reference_box, limits, errors)
    share = f'not flat: only {verdict.checks.flatness:.0%} of its points lie on one plane'
    most = max((plane.count for plane in planes), default=0)
    large = [plane for plane in planes if plane.count >= DEFAULTS.nearly_largest * most]
    best = max(large, key=lambda plane: plane.span, default=None)
    deviation = LOST if best is None else visible_deviation(best.uncertainty, image_box)
    spans = best is not None and best.span >= DEFAULTS.least_span
    if flat:  # but bent a little: it is better known on one plane, if there is one
        better = best is not None and spans and deviation < verdict.checks.visible_deviation
        return of_plane(verdict, best, deviation) if best is not None and better else verdict
    if best is None or not spans or why_too_uncertain(deviation, limits):
        return replace(
            verdict,
            status=Status.LOW_CONFIDENCE,
            message=f'{verdict.message}; {share}, which does not tell where the others are',
            reference_to_image=None,
            confidence=min(verdict.confidence, MAX_REFUSED_CONFIDENCE),
            uncertainty=None,
        )
    message = f'{verdict.message}; {share}: place landmarks by the points near them'
    return of_plane(replace(verdict, message=message), best, deviation)


@dataclass(frozen=True)
class Plane:
    """A part of an object that lies on one plane."""

    inliers: np.ndarray  # M booleans
    uncertainty: ViewUncertainty
    span: float  # share of the object that the matches on it enclose

    @property
    def count(self) -> int:
        """Return how many matches lie on it."""
        return int(self.inliers.sum())


def of_plane(verdict: Verdict, plane: Plane, deviation: float) -> Verdict:
    """Return a verdict with the homography of a plane."""
    assert verdict.checks is not None
    return replace(
        verdict,
        checks=replace(verdict.checks, visible_deviation=deviation),
        inliers=plane.inliers,
        reference_to_image=plane.uncertainty.reference_to_image,
        uncertainty=plane.uncertainty,
    )


def shared_error(view: np.ndarray, correspondences: Correspondences, inliers: np.ndarray) -> float:
    """Return the standard deviation that neighbouring matches share, in pixels."""
    points = correspondences.reference_points[inliers].astype(np.float64)
    residuals = correspondences.image_points[inliers] - warp_points(view, points)
    return math.sqrt(shared_variance(points, residuals))


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
    fewest = max(limits.min_inliers, DEFAULTS.least_share * left.sum())
    references = correspondences.reference_points
    whole = hull_area(references[left])
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
        if left.sum() < fewest:
            break
        homography, fitting = fit_homography(correspondences.only(left), within)
        if homography is None or fitting.sum() < fewest:
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
        planes.append(Plane(on_it, uncertainty, hull_area(references[on_it]) / max(whole, 1e-9)))
    return planes
