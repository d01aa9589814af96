"""Where the reference lies in the image, and whether to believe it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import homography_deviations, warp_points
from niom_ros.core.settings import Limits
from niom_ros.core.uncertainty import KEYPOINTS, SupportErrors, ViewUncertainty
from niom_ros.matching.checks import Checks
from niom_ros.matching.confidence import Calibration, uncalibrated
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.offset_field import flatness_of
from niom_ros.matching.refinement import refined

MIN_FOR_DEVIATION = 9  # inliers: their 18 coordinates are over twice the 8 unknowns
LOST = 1e6  # pixels; deviation of a corner that could be anywhere
VISIBILITY_PROBES = 24  # points in each direction that tell how much of a reference is visible
DEVIATION_PROBES = 9  # likewise, how certain the visible part is
# Reprojection errors. None of 171 answers about flat scenes has a deviation of more than 0.7, on
# average over what is visible; those about scenes that are not flat may be anywhere.
TOO_UNCERTAIN = 1.5
UNCERTAIN = 2.0  # reprojection errors; a corner with a larger deviation is worth a remark
KEPT = 0.98  # share of the agreeing points that must still agree with a refined homography
MAX_REFUSED_CONFIDENCE = 0.49  # highest confidence of a refused match: OK begins at one half


class Status(IntEnum):
    """What happened to a frame; the values are those of Homography.msg."""

    UNKNOWN = 0
    OK = 1
    NO_REFERENCE = 2
    NO_KEYPOINTS = 3
    FEW_MATCHES = 4
    REJECTED_GEOMETRY = 5
    LOW_CONFIDENCE = 6
    STALE = 7
    BAD_IMAGE = 8
    FAULT = 9
    ALIKE = 10


@dataclass(frozen=True)
class Verdict:
    """Where the reference is, if it was found, and the numbers behind the answer.

    There is a homography exactly when the status is OK.
    """

    status: Status
    message: str
    inliers: np.ndarray  # M booleans: which correspondences agree
    reference_to_image: np.ndarray | None = None  # 3 x 3, pixels to pixels
    confidence: float = 0.0  # 0 to 1
    checks: Checks | None = None  # None: nothing could be measured
    uncertainty: ViewUncertainty | None = None  # of the homography; None: not known

    def __post_init__(self) -> None:
        """Refuse a contradictory verdict."""
        if (self.status is Status.OK) != (self.reference_to_image is not None):
            raise ValueError('a homography must be there exactly when the status is OK')


@dataclass(frozen=True)
class Evidence:
    """The view of the reference that most points agree with, and its checks."""

    inliers: np.ndarray  # M booleans: which correspondences agree
    reference_to_image: np.ndarray | None = None  # 3 x 3; None: no view explains the points
    checks: Checks | None = None  # None: a part is behind the camera
    uncertainty: ViewUncertainty | None = None  # None: not known


def locate(
    correspondences: Correspondences,
    reference_box: Box,
    counting_area: float,
    image_box: Box,
    limits: Limits,
    calibration: Calibration | None = None,
) -> Verdict:
    """Find the homography from reference to image and decide whether it can be right.

    Of the pixels in the box of the reference, `counting_area` count; the others are masked.
    """
    count = len(correspondences)
    if count < max(4, limits.min_inliers):
        message = f'only {count} points were recognised, {limits.min_inliers} must agree'
        return Verdict(Status.FEW_MATCHES, message, np.zeros(count, bool))
    evidence = examine(correspondences, reference_box, counting_area, image_box, limits)
    return judge(evidence, reference_box, limits, calibration)


def examine(
    correspondences: Correspondences,
    reference_box: Box,
    counting_area: float,
    image_box: Box,
    limits: Limits,
    errors: SupportErrors = KEYPOINTS,
) -> Evidence:
    """Find the homography that most points agree with, and measure it."""
    homography, inliers = fit_homography(correspondences, limits.reprojection_error)
    if homography is None or not in_front(homography, reference_box):
        return Evidence(inliers, homography)
    checks = measure(homography, correspondences, inliers, reference_box, counting_area, image_box)
    uncertainty = ViewUncertainty.of_points(
        homography,
        reference_box,
        correspondences.reference_points[inliers],
        correspondences.image_points[inliers],
        errors,
    )
    checks = replace(
        checks,
        flatness=flatness_of(homography, correspondences, inliers, limits.reprojection_error),
        visible_deviation=visible_deviation(uncertainty, image_box),
    )
    return Evidence(inliers, homography, checks, uncertainty)


def judge(
    evidence: Evidence,
    reference_box: Box,
    limits: Limits,
    calibration: Calibration | None,
    what_agrees: str = 'recognised points agree',
) -> Verdict:
    """Decide whether to believe a homography."""
    homography, inliers, checks = evidence.reference_to_image, evidence.inliers, evidence.checks
    implausible = implausibility(evidence, reference_box, limits)
    if implausible or checks is None:
        return Verdict(Status.REJECTED_GEOMETRY, implausible, inliers, checks=checks)

    confidence, doubt = confidence_in(checks.as_dict(), limits, calibration)
    doubt = doubt or why_too_uncertain(checks.visible_deviation, limits)
    message = f'{int(checks.agreeing)} of {len(inliers)} {what_agrees}'
    if not doubt:
        message += remark_on(evidence.uncertainty, limits)
        return Verdict(
            Status.OK, message, inliers, homography, confidence, checks, evidence.uncertainty
        )
    return Verdict(
        Status.LOW_CONFIDENCE,
        f'{message}; {doubt}',
        inliers,
        confidence=min(confidence, MAX_REFUSED_CONFIDENCE),
        checks=checks,
    )


def confidence_in(
    checks: Mapping[str, float], limits: Limits, calibration: Calibration | None
) -> tuple[float, str]:
    """Return the confidence of a plausible match, and why it is not enough, '' if it is."""
    calibration = calibration or uncalibrated(limits.min_inliers)
    confidence = calibration.confidence(checks)
    if checks['agreeing'] < limits.min_inliers:
        return confidence, f'{limits.min_inliers} are needed'
    if checks['inlier_ratio'] < limits.min_inlier_ratio:
        return confidence, f'{limits.min_inlier_ratio:.0%} of them are needed'
    if confidence < limits.min_confidence:
        return confidence, (
            f'unrelated pictures reach that too: confidence {confidence:.2f}, '
            f'{limits.min_confidence:.2f} is needed'
        )
    return confidence, ''


def why_too_uncertain(deviation: float, limits: Limits) -> str:
    """Say that a view is too uncertain where the reference is visible; '': it is not."""
    most = TOO_UNCERTAIN * limits.reprojection_error
    if not deviation > most:
        return ''
    return f'the view is uncertain by {deviation:.0f} pixels, {most:.0f} are allowed'


def remark_on(uncertainty: ViewUncertainty | None, limits: Limits) -> str:
    """Say that corners are much less certain than what the view rests on; '': they are not."""
    if uncertainty is None:
        return ''
    worst = float(uncertainty.at_corners.max())
    if worst <= UNCERTAIN * limits.reprojection_error:
        return ''
    return f'; far from them the view is uncertain, by {worst:.0f} pixels at a corner'


def uncertainty_of(
    verdict: Verdict, correspondences: Correspondences, reference_box: Box | None = None
) -> ViewUncertainty:
    """Return how certain an accepted view is; a strategy may know more than its points say.

    The box is the part of the reference in use; without it, any that suits the points.
    """
    if verdict.reference_to_image is None:
        raise ValueError('only a view that was accepted has an uncertainty')
    points = correspondences.reference_points[verdict.inliers]
    return verdict.uncertainty or ViewUncertainty.of_points(
        verdict.reference_to_image,
        reference_box or Box.enclosing(points),
        points,
        correspondences.image_points[verdict.inliers],
    )


def fit_homography(
    correspondences: Correspondences, reprojection_error: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the homography that most correspondences agree with, and which ones do."""
    here, there = correspondences.reference_points, correspondences.image_points
    homography, inliers = cv2.findHomography(
        here,
        there,
        # The most robust of OpenCV's estimators on noisy matches of object parts.
        cv2.USAC_ACCURATE,
        reprojection_error,
        maxIters=5000,
        confidence=0.9999,
    )
    none = np.zeros(len(correspondences), bool)
    if homography is None or not np.isfinite(homography).all() or abs(homography[2, 2]) < 1e-9:
        return None, none
    homography, agreeing = homography / homography[2, 2], inliers.ravel().astype(bool)
    better = refined(homography, here, there, reprojection_error)
    if better is not None:
        close = np.linalg.norm(warp_points(better, here) - there, axis=1) <= reprojection_error
        if close.sum() >= KEPT * agreeing.sum():
            return better, close
    return homography, agreeing


def in_front(homography: np.ndarray, reference_box: Box) -> bool:
    """Return whether all of the reference lies in front of the camera."""
    depths = np.column_stack([reference_box.corners(), np.ones(4)]) @ homography[2]
    # A homography and its negative are the same, so only a change of sign counts.
    return bool((depths > 0).all() or (depths < 0).all())


def measure(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reference_box: Box,
    counting_area: float,
    image_box: Box,
) -> Checks:
    """Return the numbers that tell a right homography from a wrong one."""
    outline = warp_points(homography, reference_box.corners()).astype(np.float32)
    # How the neighbourhood of each corner is stretched, regardless of position and scale.
    stretches = np.array(
        [
            np.linalg.svd(jacobian(homography, corner), compute_uv=False)
            for corner in reference_box.corners()
        ]
    )
    # Inliers in one part only say little about where the other parts are, and fewer than
    # this say nothing, because some homography always fits them.
    deviations = np.full(4, LOST)
    if inliers.sum() >= MIN_FOR_DEVIATION:
        deviations = homography_deviations(
            homography,
            correspondences.reference_points[inliers],
            correspondences.image_points[inliers],
            reference_box.corners(),
        )
    tiny = np.finfo(float).tiny
    areas = stretches.prod(axis=1)
    return Checks(
        agreeing=float(inliers.sum()),
        inlier_ratio=float(inliers.mean()),
        coverage=hull_area(correspondences.reference_points[inliers])
        / (counting_area * visible_share(homography, reference_box, image_box)),
        area_ratio=abs(cv2.contourArea(outline)) / image_box.area,
        corner_deviation=float(np.nan_to_num(deviations, nan=LOST).clip(max=LOST).mean()),
        stretch=float((stretches[:, 0] / np.maximum(stretches[:, 1], tiny)).max()),
        perspective=float(areas.max() / max(areas.min(), tiny)),
    )


def visible_share(homography: np.ndarray, reference_box: Box, image_box: Box) -> float:
    """Return the share of a reference that is inside the image; never quite 0."""
    if inside(warp_points(homography, reference_box.corners()), image_box).all():
        return 1.0
    probes = warp_points(homography, probes_of(reference_box))
    return max(1, int(inside(probes, image_box).sum())) / len(probes)


def visible_deviation(uncertainty: ViewUncertainty, image_box: Box) -> float:
    """Return how uncertain a view is on average, over what is visible of the reference."""
    points = probes_of(uncertainty.box, DEVIATION_PROBES)
    visible = inside(warp_points(uncertainty.reference_to_image, points), image_box)
    return float(uncertainty.deviations(points[visible]).mean()) if visible.any() else LOST


def probes_of(box: Box, count: int = VISIBILITY_PROBES) -> np.ndarray:
    """Return points all over a box, as many in each direction: N x 2."""
    corners = box.corners()
    columns, rows = np.meshgrid(
        *(np.linspace(corners[0, axis], corners[2, axis], count) for axis in (0, 1))
    )
    return np.column_stack([columns.ravel(), rows.ravel()])


def inside(points: np.ndarray, box: Box) -> np.ndarray:
    """Return which of N x 2 points lie in a box."""
    corners = box.corners()
    return ((points >= corners[0]) & (points <= corners[2])).all(axis=1)


def implausibility(evidence: Evidence, reference_box: Box, limits: Limits) -> str:
    """Return why no camera can see the reference like this, or '' if one can."""
    homography, checks = evidence.reference_to_image, evidence.checks
    if homography is None:
        count = len(evidence.inliers)
        return f'no view of the reference explains the {count} recognised points'
    if checks is None:
        return 'the match would put a part of the reference behind the camera'
    outline = warp_points(homography, reference_box.corners())
    sides = np.roll(outline, -1, axis=0) - outline
    next_sides = np.roll(sides, -1, axis=0)
    turns = sides[:, 0] * next_sides[:, 1] - sides[:, 1] * next_sides[:, 0]
    if (turns < 0).all():
        return 'the match would show the reference mirrored'
    if not (turns > 0).all():
        return 'the match would fold the reference'
    if not limits.min_area_ratio <= checks.area_ratio <= limits.max_area_ratio:
        return f'the match would make the reference {checks.area_ratio:.2g} times the image'
    if checks.stretch > limits.max_stretch:
        return (
            f'the match would stretch the reference {checks.stretch:.0f} times as much in one '
            'direction as in the other'
        )
    if checks.perspective > limits.max_perspective:
        return (
            f'the match would show one corner of the reference {checks.perspective:.0f} times '
            'as large as another'
        )
    own_reason = checks.implausibility()
    if own_reason:
        return own_reason
    if checks.coverage < limits.min_coverage:
        return (
            f'the agreeing points span only {checks.coverage:.1%} of its visible part, '
            f'{limits.min_coverage:.1%} is needed'
        )
    return ''


def corner_error(found: np.ndarray, truth: np.ndarray, reference_box: Box) -> float:
    """Return the mean distance of the four corners from their true positions."""
    corners = reference_box.corners()
    offsets = warp_points(found, corners) - warp_points(truth, corners)
    return float(np.linalg.norm(offsets, axis=1).mean())


def relative_corner_error(found: np.ndarray, truth: np.ndarray, reference_box: Box) -> float:
    """Return the corner error relative to the mean distance of the corners from their centre."""
    outline = warp_points(truth, reference_box.corners())
    size = float(np.linalg.norm(outline - outline.mean(axis=0), axis=1).mean())
    return corner_error(found, truth, reference_box) / max(size, 1e-9)


def jacobian(homography: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the Jacobian (2 x 2) of a homography at a point."""
    lifted = homography @ [*point, 1.0]
    warped = lifted[:2] / lifted[2]
    return (homography[:2, :2] - np.outer(warped, homography[2, :2])) / lifted[2]


def hull_area(points: np.ndarray) -> float:
    """Return the area of the convex hull of N x 2 points."""
    if len(points) < 3:
        return 0.0
    return float(cv2.contourArea(cv2.convexHull(points.astype(np.float32))))
