"""What a user would otherwise choose: SIFT or ORB with ratio test and RANSAC.

The settings are the defaults of find_object_2d, a ROS package that finds objects this way.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match


@dataclass(frozen=True)
class ClassicalParameters:
    """When descriptors match, and when a homography is accepted."""

    ratio: float = 0.8  # of the distances to the nearest and the second nearest descriptor
    reprojection_error: float = 3.0  # pixels
    min_inliers: int = 10
    iterations: int = 2000  # of RANSAC, at most
    confidence: float = 0.995  # of RANSAC, at which it stops earlier


DEFAULTS = ClassicalParameters()


@dataclass(frozen=True)
class ClassicalFeatures:
    """The keypoints of one image, in pixels."""

    keypoints: np.ndarray  # N x 2
    descriptors: np.ndarray  # N x D


class ClassicalMatcher:
    """Finds pictures in images without any network."""

    def __init__(self, kind: str) -> None:
        """Take 'sift' or 'orb'."""
        self._detector = cv2.SIFT.create() if kind == 'sift' else cv2.ORB.create()
        self._matcher = cv2.BFMatcher(cv2.NORM_L2 if kind == 'sift' else cv2.NORM_HAMMING)

    def extract(self, pixels: np.ndarray) -> ClassicalFeatures:
        """Return the keypoints of an RGB image."""
        grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        keypoints, descriptors = self._detector.detectAndCompute(grey, None)
        if descriptors is None:
            descriptors = np.empty((0, self._detector.descriptorSize()), np.uint8)
        points = np.array([keypoint.pt for keypoint in keypoints], np.float32).reshape(-1, 2)
        return ClassicalFeatures(points, descriptors)

    def match(self, reference: ClassicalFeatures, image: ClassicalFeatures) -> Match:
        """Find the reference in the image."""
        correspondences = self._correspondences(reference, image)
        return Match(
            verified(correspondences), correspondences, image_keypoints=len(image.keypoints)
        )

    def _correspondences(
        self, reference: ClassicalFeatures, image: ClassicalFeatures
    ) -> Correspondences:
        if len(reference.keypoints) < 2 or not len(image.keypoints):
            return Correspondences.none()
        # From the image to the reference, as in find_object_2d.
        found = self._matcher.knnMatch(image.descriptors, reference.descriptors, k=2)
        kept = sorted(
            (
                (nearest.distance / max(second.distance, 1e-9), nearest)
                for nearest, second in found
                if nearest.distance <= DEFAULTS.ratio * second.distance
            ),
            key=lambda rated: rated[0],
        )
        if not kept:
            return Correspondences.none()
        return Correspondences(
            reference.keypoints[[match.trainIdx for _, match in kept]],
            image.keypoints[[match.queryIdx for _, match in kept]],
            np.array([1 - ratio for ratio, _ in kept], np.float32),
        )


def verified(correspondences: Correspondences) -> Verdict:
    """Fit a homography; it is accepted if it has enough inliers."""
    count = len(correspondences)
    no_inliers = np.zeros(count, bool)
    if count < DEFAULTS.min_inliers:
        return Verdict(Status.FEW_MATCHES, f'only {count} points were recognised', no_inliers)
    homography, inliers = cv2.findHomography(
        correspondences.reference_points,
        correspondences.image_points,
        cv2.RANSAC,
        DEFAULTS.reprojection_error,
        maxIters=DEFAULTS.iterations,
        confidence=DEFAULTS.confidence,
    )
    if homography is None:
        return Verdict(Status.REJECTED_GEOMETRY, 'no view explains the points', no_inliers)
    inliers = inliers.ravel().astype(bool)
    agreeing = int(inliers.sum())
    message = f'{agreeing} of {count} recognised points agree'
    confidence = agreeing / (agreeing + DEFAULTS.min_inliers)
    accepted = agreeing >= DEFAULTS.min_inliers
    return Verdict(
        Status.OK if accepted else Status.LOW_CONFIDENCE,
        message,
        inliers,
        reference_to_image=homography if accepted else None,
        confidence=confidence,
    )
