"""Where the named points of the reference lie in the image."""

from dataclasses import dataclass
import math

import numpy as np
from scipy.spatial import KDTree

from niom_ros.core.homographies import SHARED_ERROR, warp_points
from niom_ros.core.settings import check_choice, LANDMARK_MODES, LandmarkMode
from niom_ros.core.uncertainty import shared_variance
from niom_ros.matching.alike_object import GuidePoints
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, uncertainty_of, Verdict
from niom_ros.matching.reference import Landmark
from niom_ros.stream.camera import lifted


@dataclass(frozen=True, kw_only=True)
class LandmarkParameters:
    """How nearby matches correct a landmark.

    The best values of those tried on synthetic reliefs and bent pictures, a real motorcycle seen
    from two sides, and faces of different people.
    """

    min_inliers: int = 4  # with fewer, the uncertainty of a homography is unknown
    nearest: int = 16  # matches that correct a landmark
    neighbours: int = 6  # of a match that it is compared with
    min_agreeing: int = 2  # of those neighbours, for the match to be used
    max_gradient: float = 0.3  # how much offsets may change, in pixels per pixel
    max_offset: float = 0.25  # share of the matches' diagonal; other objects are further away
    correlation_length: float = 0.3  # share of the matches' diagonal

    # Spreads of the points that the view rests on, from the nearest of these: further away, the
    # view is only extrapolated.
    max_distance: float = 0.5


DEFAULTS = LandmarkParameters()


@dataclass(frozen=True)
class PlacedLandmark:
    """Where a landmark is in the image and how certain that is, in pixels of the image.

    If it would lie behind the camera, or is no longer in view, x and y are NaN and the deviation
    is infinite.
    """

    name: str
    x: float
    y: float
    deviation: float  # standard deviation, in the direction where it is largest
    confidence: float  # 0 to 1
    inside: bool  # whether it lies inside the image
    supported: bool = True  # whether the view rests on points near it; else it is extrapolated


@dataclass(frozen=True)
class OffsetField:
    """How far matches are from where the homography puts them."""

    predicted_points: np.ndarray  # N x 2, where the homography puts the matches
    offsets: np.ndarray  # N x 2, from there to where they were found
    noise: float  # variance of one match against its neighbours
    bend: float  # variance of what neighbours have in common: how far from flat the object is
    reach: float  # correlation length of that, in pixels


def place_landmarks(
    landmarks: tuple[Landmark, ...],
    correspondences: Correspondences,
    verdict: Verdict,
    image_width: int,
    image_height: int,
    mode: LandmarkMode,
    reprojection_error: float,
    parameters: LandmarkParameters = DEFAULTS,
) -> tuple[PlacedLandmark, ...]:
    """Return where landmarks of the reference are in the image; empty if it was not found.

    'global' uses the homography alone, which is right for flat references; the further the matches
    deviate from it, the larger the deviation of the landmarks. 'local' follows the matches around
    each landmark instead, for objects that are not flat or not the same.

    The confidence is that of the verdict / (1 + (deviation / reprojection_error)^2).
    """
    check_choice('landmark_mode', mode, LANDMARK_MODES)
    if verdict.status is not Status.OK or verdict.reference_to_image is None or not landmarks:
        return ()
    homography, inliers = verdict.reference_to_image, verdict.inliers
    reference_points = np.array([[landmark.x, landmark.y] for landmark in landmarks])
    seen = same_side(homography, correspondences.reference_points[inliers], reference_points)
    image_points = np.full((len(landmarks), 2), np.nan)
    image_points[seen] = warp_points(homography, reference_points[seen])
    deviations = np.full(len(landmarks), np.inf)
    supported = np.zeros(len(landmarks), bool)
    if inliers.sum() >= parameters.min_inliers:
        uncertainty = uncertainty_of(verdict, correspondences)
        deviations[seen] = uncertainty.deviations(reference_points[seen])
        supported = seen & (uncertainty.distances(reference_points) <= parameters.max_distance)
        field = offset_field(homography, correspondences, inliers, reprojection_error, parameters)
        if mode == 'local':
            image_points[seen], deviations[seen] = corrected(
                image_points[seen],
                deviations[seen],
                field,
                reprojection_error,
                parameters.nearest,
            )
        else:
            # How far parts of the object are from the plane of the homography
            deviations = np.sqrt(
                deviations**2 + shared_variance(field.predicted_points, field.offsets)
            )
    confidences = verdict.confidence / (1 + (deviations / reprojection_error) ** 2)
    places = GuidePoints(image_points, deviations, confidences)
    return named_places(landmarks, places, image_width, image_height, supported)


def named_places(
    landmarks: tuple[Landmark, ...],
    places: GuidePoints,
    image_width: int,
    image_height: int,
    supported: np.ndarray | None = None,
) -> tuple[PlacedLandmark, ...]:
    """Return landmarks at their places in an image of this size."""
    limits = np.array([image_width, image_height]) - 0.5  # pixel centres are integers
    inside = np.all((places.places >= -0.5) & (places.places < limits), axis=1)
    return tuple(
        PlacedLandmark(
            name=landmark.name,
            x=float(places.places[index, 0]),
            y=float(places.places[index, 1]),
            deviation=float(places.deviations[index]),
            confidence=float(places.confidences[index]),
            inside=bool(inside[index]),
            supported=supported is None or bool(supported[index]),
        )
        for index, landmark in enumerate(landmarks)
    )


def same_side(
    homography: np.ndarray, known_points: np.ndarray, reference_points: np.ndarray
) -> np.ndarray:
    """Return which points are on the same side of the camera as points known to be visible."""
    depths = lifted(reference_points) @ homography[2]
    # A homography and its negative are the same, so only a change of sign counts.
    return depths * (lifted(known_points) @ homography[2]).sum() > 0


def offset_field(
    homography: np.ndarray,
    correspondences: Correspondences,
    inliers: np.ndarray,
    reprojection_error: float,
    parameters: LandmarkParameters = DEFAULTS,
) -> OffsetField:
    """Return how far the object deviates from its homography, according to the matches."""
    known_points = correspondences.reference_points
    seen = same_side(homography, known_points[inliers], known_points)
    predicted_points = warp_points(homography, known_points[seen].astype(np.float64))
    offsets = correspondences.image_points[seen] - predicted_points
    diagonal = math.hypot(*np.ptp(predicted_points, axis=0))
    close = np.linalg.norm(offsets, axis=1) < parameters.max_offset * diagonal
    alike = agreeing(predicted_points, offsets, reprojection_error, parameters)
    used = inliers[seen] | (close & alike)
    predicted_points, offsets = predicted_points[used], offsets[used]
    _, nearest = KDTree(predicted_points).query(predicted_points, 4)
    differences = ((offsets[nearest[:, 1:]] - offsets[:, None]) ** 2).sum(axis=2)
    # A difference has twice the variance of a match; the median of the square of a normally
    # distributed vector in the plane is 2 ln 2 times the variance of its coordinates.
    noise = max(np.median(differences) / 2 / (2 * math.log(2)), SHARED_ERROR**2)
    bend = max((offsets**2).mean() - noise, 1e-6)
    return OffsetField(
        predicted_points=predicted_points,
        offsets=offsets,
        noise=noise,
        bend=bend,
        reach=max(1.0, parameters.correlation_length * diagonal),
    )


def agreeing(
    predicted_points: np.ndarray,
    offsets: np.ndarray,
    reprojection_error: float,
    parameters: LandmarkParameters = DEFAULTS,
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
    return image_points + correction, np.sqrt(variances)
