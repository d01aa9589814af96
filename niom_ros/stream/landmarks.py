"""Where the named points of the reference lie in the image."""

from dataclasses import dataclass, replace

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import check_choice, LANDMARK_MODES, LandmarkMode
from niom_ros.core.uncertainty import shared_variance
from niom_ros.matching.alike_object import GuidePoints
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, uncertainty_of, Verdict
from niom_ros.matching.offset_field import corrected, offset_field, on_object, same_side
from niom_ros.matching.planes import is_flat
from niom_ros.matching.reference import Landmark


@dataclass(frozen=True, kw_only=True)
class LandmarkParameters:
    """What a landmark has to rest on."""

    min_inliers: int = 4  # with fewer, the uncertainty of a homography is unknown
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
    each landmark instead, for objects that are not flat or not the same. 'auto' is 'local' if the
    matches show that the object is not flat.

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
        field = offset_field(homography, correspondences, inliers, reprojection_error)
        if resolved(mode, verdict) == 'local':
            used = on_object(homography, correspondences, inliers, reprojection_error)
            uncertainty = replace(uncertainty, support=correspondences.reference_points[used])
            image_points[seen], deviations[seen] = corrected(
                image_points[seen],
                deviations[seen],
                field,
                reprojection_error,
            )
        else:
            # How far parts of the object are from the plane of the homography
            deviations = np.sqrt(
                deviations**2 + shared_variance(field.predicted_points, field.offsets)
            )
        supported = seen & (uncertainty.distances(reference_points) <= parameters.max_distance)
    confidences = verdict.confidence / (1 + (deviations / reprojection_error) ** 2)
    places = GuidePoints(image_points, deviations, confidences)
    return named_places(landmarks, places, image_width, image_height, supported)


def resolved(mode: LandmarkMode, verdict: Verdict) -> LandmarkMode:
    """Return how landmarks are placed: 'global' or 'local'."""
    if mode != 'auto':
        return mode
    return 'global' if is_flat(verdict) else 'local'


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
