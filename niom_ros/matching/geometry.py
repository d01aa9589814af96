"""Where the reference lies in the image, and whether to believe it."""

from dataclasses import dataclass
from dataclasses import field
from enum import IntEnum

import cv2
import numpy as np

from niom_ros.matching.correspondences import Correspondences


class Status(IntEnum):
    """What happened to a frame; the numbers are those of Homography.msg."""

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


@dataclass(frozen=True)
class Limits:
    """What a match must reach to be believed.

    Unrelated pictures give a homography almost every time, so the defaults come from a
    comparison with them: see the README, 'When it says OK'.
    """

    reprojection_error: float = 4.0  # pixels of the image within which a match agrees
    min_inliers: int = 20
    min_inlier_ratio: float = 0.25
    min_coverage: float = 0.08  # share of the reference that the agreeing points span
    min_area_ratio: float = 0.002  # of the found outline to the image
    max_area_ratio: float = 50.0
    max_condition: float = 20.0  # of the homography between images scaled to [-1, 1]


@dataclass(frozen=True)
class Verdict:
    """Where the reference is, if it was found, and the numbers behind the answer."""

    status: Status
    message: str
    inliers: np.ndarray  # M booleans: which correspondences agree
    reference_to_image: np.ndarray | None = None  # 3 x 3
    confidence: float = 0.0
    checks: dict[str, float] = field(default_factory=dict)


Size = tuple[int, int]  # width, height


def locate(
    correspondences: Correspondences, reference_size: Size, image_size: Size, limits: Limits
) -> Verdict:
    """Find the homography from reference to image and decide whether it can be right."""
    count = len(correspondences)
    nobody = np.zeros(count, bool)
    if count < max(4, limits.min_inliers):
        message = f'only {count} points were recognised, {limits.min_inliers} must agree'
        return Verdict(Status.FEW_MATCHES, message, nobody)

    homography, inliers = fit_homography(correspondences, limits.reprojection_error)
    if homography is None:
        message = f'no view of the reference explains the {count} recognised points'
        return Verdict(Status.REJECTED_GEOMETRY, message, nobody)

    checks = measure(homography, correspondences, inliers, reference_size, image_size)
    implausible = implausibility(homography, checks, reference_size, limits)
    if implausible:
        return Verdict(Status.REJECTED_GEOMETRY, implausible, inliers, checks=checks)

    agreeing = int(inliers.sum())
    # One half where unrelated pictures end, rising with every further point that agrees.
    confidence = agreeing / (agreeing + limits.min_inliers)
    if agreeing < limits.min_inliers:
        message = (
            f'only {agreeing} of {count} recognised points agree; '
            f'unrelated pictures reach that too, {limits.min_inliers} are needed'
        )
    elif checks['inlier_ratio'] < limits.min_inlier_ratio:
        message = (
            f'only {checks["inlier_ratio"]:.0%} of the {count} recognised points agree, '
            f'{limits.min_inlier_ratio:.0%} are needed'
        )
    else:
        message = f'{agreeing} of {count} recognised points agree'
        return Verdict(Status.OK, message, inliers, homography, confidence, checks)
    return Verdict(Status.LOW_CONFIDENCE, message, inliers, None, confidence, checks)


def fit_homography(
    correspondences: Correspondences, reprojection_error: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the homography that most correspondences agree with, and which ones do."""
    homography, inliers = cv2.findHomography(
        correspondences.reference_points,
        correspondences.image_points,
        # Of OpenCV's estimators the one that copes best with the noise of matched parts.
        cv2.USAC_ACCURATE,
        reprojection_error,
        maxIters=5000,
        confidence=0.9999,
    )
    nobody = np.zeros(len(correspondences), bool)
    if homography is None or not np.isfinite(homography).all() or abs(homography[2, 2]) < 1e-9:
        return None, nobody
    return homography / homography[2, 2], inliers.ravel().astype(bool)


def measure(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reference_size: Size,
    image_size: Size,
) -> dict[str, float]:
    """Return the numbers that tell a right homography from a wrong one."""
    reference_area = reference_size[0] * reference_size[1]
    image_area = image_size[0] * image_size[1]
    outline = warp_points(homography, corners(reference_size)).astype(np.float32)
    to_unit_image = to_unit_square(image_size)
    from_unit_reference = np.linalg.inv(to_unit_square(reference_size))
    return {
        'inlier_ratio': float(inliers.mean()),
        'coverage': hull_area(correspondences.reference_points[inliers]) / reference_area,
        'area_ratio': abs(cv2.contourArea(outline)) / image_area,
        'condition': float(np.linalg.cond(to_unit_image @ homography @ from_unit_reference)),
    }


def implausibility(
    homography: np.ndarray, checks: dict[str, float], reference_size: Size, limits: Limits
) -> str:
    """Return why no camera can see the reference like this, or '' if one can."""
    reference_corners = corners(reference_size)
    depths = np.column_stack([reference_corners, np.ones(4)]) @ homography[2]
    if (depths <= 0).any():
        return 'the match would put a part of the reference behind the camera'
    sides = np.roll(warped := warp_points(homography, reference_corners), -1, axis=0) - warped
    next_sides = np.roll(sides, -1, axis=0)
    turns = sides[:, 0] * next_sides[:, 1] - sides[:, 1] * next_sides[:, 0]
    if (turns < 0).all():
        return 'the match would show the reference mirrored'
    if not (turns > 0).all():
        return 'the match would fold the reference'
    if not limits.min_area_ratio <= checks['area_ratio'] <= limits.max_area_ratio:
        return f'the match would make the reference {checks["area_ratio"]:.2g} times the image'
    if checks['condition'] > limits.max_condition:
        return f'the match would distort the reference (condition {checks["condition"]:.0f})'
    if checks['coverage'] < limits.min_coverage:
        return (
            f'the agreeing points span only {checks["coverage"]:.1%} of the reference, '
            f'{limits.min_coverage:.1%} is needed'
        )
    return ''


def warp_points(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Apply a homography to N x 2 points."""
    lifted = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return lifted[:, :2] / lifted[:, 2:]


def corners(size: Size) -> np.ndarray:
    """Return the centres of the four corner pixels, clockwise from the top left."""
    right, bottom = size[0] - 1, size[1] - 1
    return np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float64)


def to_unit_square(size: Size) -> np.ndarray:
    """Return the transform from pixels to [-1, 1] in both directions."""
    width, height = size
    return np.array([[2 / width, 0, -1], [0, 2 / height, -1], [0, 0, 1]])


def hull_area(points: np.ndarray) -> float:
    """Return the area of the convex hull of N x 2 points."""
    if len(points) < 3:
        return 0.0
    return float(cv2.contourArea(cv2.convexHull(points.astype(np.float32))))
