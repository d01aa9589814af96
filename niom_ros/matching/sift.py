"""SIFT keypoints, which know their own direction and scale, and their mutual matches."""

from dataclasses import dataclass, replace

import cv2
import numpy as np

from niom_ros.matching.correspondences import Correspondences


@dataclass(frozen=True)
class SiftParameters:
    """How many keypoints are found, and which of them correspond."""

    most: int = 2000  # keypoints per image
    contrast: float = 0.02  # least contrast of a keypoint; OpenCV's default is 0.04
    ratio: float = 0.85  # of the distances to the nearest and the second nearest descriptor


LEAST_DISTANCE = 1e-3

SPARSE = SiftParameters()
DENSE = SiftParameters(most=4000, contrast=0.005)  # for pictures with little texture
CLOSER = SiftParameters(most=3000, contrast=0.01)  # where it is known what to look at


@dataclass(frozen=True)
class SiftFeatures:
    """The keypoints of one image, in its pixels (pixel centres at integers)."""

    points: np.ndarray  # N x 2, float32
    descriptors: np.ndarray  # N x 128, float32: RootSIFT, unit length
    # N, complex64: how large (pixels) and in which direction each is, x to the right and y down
    sides: np.ndarray

    def __len__(self) -> int:
        """Return the number of keypoints."""
        return len(self.points)

    def inside(self, mask: np.ndarray) -> 'SiftFeatures':
        """Return only the keypoints where the mask (height x width) is not zero."""
        columns, rows = self.points.round().astype(int).T
        height, width = mask.shape
        keep = mask[rows.clip(0, height - 1), columns.clip(0, width - 1)] != 0
        return SiftFeatures(self.points[keep], self.descriptors[keep], self.sides[keep])

    def moved(self, right: int, down: int) -> 'SiftFeatures':
        """Return the features of a crop as those of the whole image."""
        return replace(self, points=self.points + np.array([right, down], np.float32))


def sift_features(image: np.ndarray, max_side: int, parameters: SiftParameters) -> SiftFeatures:
    """Return the keypoints of an RGB image; larger ones are shrunk to `max_side` first."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    shrink = min(1.0, max_side / max(height, width))
    if shrink < 1:
        small = max(1, round(width * shrink)), max(1, round(height * shrink))
        grey = cv2.resize(grey, small, interpolation=cv2.INTER_AREA)
    detector = cv2.SIFT.create(
        nfeatures=parameters.most,
        contrastThreshold=parameters.contrast,
        enable_precise_upscale=True,  # otherwise all points are a quarter of a pixel off
    )
    keypoints, descriptors = detector.detectAndCompute(grey, None)
    if descriptors is None:
        return SiftFeatures(
            np.empty((0, 2), np.float32), np.empty((0, 128), np.float32), np.empty(0, np.complex64)
        )
    points = np.array([keypoint.pt for keypoint in keypoints], np.float32).reshape(-1, 2)
    scale = np.array([grey.shape[1] / width, grey.shape[0] / height], np.float32)
    # RootSIFT (Arandjelovic and Zisserman, 2012): the Hellinger distance of the histograms
    sums = np.maximum(descriptors.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    sizes = np.array([keypoint.size for keypoint in keypoints], np.float32) / scale.mean()
    turns = np.radians([keypoint.angle for keypoint in keypoints])
    return SiftFeatures(
        points=(points + 0.5) / scale - 0.5,
        descriptors=np.sqrt(descriptors / sums),
        sides=(sizes * np.exp(1j * turns)).astype(np.complex64),
    )


def mutual_matches(
    reference: SiftFeatures, image: SiftFeatures, parameters: SiftParameters
) -> Correspondences:
    """Return the keypoints that are nearest to each other, and to no other nearly as much."""
    if len(reference) < 2 or not len(image):
        return Correspondences.none()
    likeness = image.descriptors @ reference.descriptors.T
    rows = np.arange(len(image))
    nearest = likeness.argmax(axis=1)
    mutual = likeness.argmax(axis=0)[nearest] == rows
    best = likeness[rows, nearest]
    likeness[rows, nearest] = -1
    ratios = distance(best) / distance(likeness.max(axis=1))
    kept = np.flatnonzero(mutual & (ratios <= parameters.ratio))
    kept = kept[np.argsort(ratios[kept], kind='stable')]
    return Correspondences(
        reference_points=reference.points[nearest[kept]],
        image_points=image.points[kept],
        scores=(1 - ratios[kept]).astype(np.float32),
    )


def nearest_matches(
    reference: SiftFeatures, image: SiftFeatures, parameters: SiftParameters
) -> tuple[np.ndarray, np.ndarray]:
    """Return for keypoints of the image the nearest one of the reference: indices of both.

    Several may have the same nearest one: an image may show several copies of the reference.
    """
    if len(reference) < 2 or not len(image):
        return np.empty(0, int), np.empty(0, int)
    likeness = image.descriptors @ reference.descriptors.T
    two = np.argpartition(-likeness, 1, axis=1)[:, :2]
    rows = np.arange(len(image))
    best, second = likeness[rows[:, None], two].T
    swapped = second > best
    nearest = np.where(swapped, two[:, 1], two[:, 0])
    ratios = distance(np.maximum(best, second)) / distance(np.minimum(best, second))
    kept = np.flatnonzero(ratios <= parameters.ratio)
    kept = kept[np.argsort(ratios[kept], kind='stable')]
    return nearest[kept], kept


def distance(likeness: np.ndarray) -> np.ndarray:
    """Return the distances of unit vectors with these inner products; never quite 0.

    Float32 does not tell smaller ones apart, and equal descriptors must not pass a ratio test.
    """
    length: np.ndarray = np.sqrt(np.maximum(2 - 2 * likeness, LEAST_DISTANCE**2))
    return length
