"""An object of the reference's kind, and the points on it, after it moved in the image."""

from dataclasses import dataclass, replace
import math

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.alike_object import (
    AlikeObject,
    GuidePoints,
    RIGHT,
    share_within,
    spread_of,
    Warp,
)
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import jacobian
from niom_ros.semantics.heat_maps import Area
from niom_ros.tracking.local_motion import LocalMotion


@dataclass(frozen=True, eq=False)
class AlikeMotion:
    """How an object moved since it was matched."""

    whole: np.ndarray  # 3 x 3, affine
    local: LocalMotion
    size: float  # of the object in the image that was matched, pixels
    drift: float  # standard deviation that this adds to every point, pixels of the image
    slip: float  # the same, of the object's size

    @property
    def zoom(self) -> float:
        """Return how much larger the object has become."""
        return math.sqrt(abs(np.linalg.det(self.whole[:2, :2])))

    @property
    def deviation(self) -> float:
        """Return the standard deviation that the motion adds to every point."""
        return math.hypot(self.drift, self.slip * self.zoom * self.size)

    def move(self, alike: AlikeObject, confidence: float, image: tuple[int, int]) -> AlikeObject:
        """Return where the object is now in an image of this width and height."""
        return replace(
            alike,
            confidence=confidence,
            box=Area.around(warp_points(self.whole, alike.box.corners())).within(*image),
            landmarks=self.move_guides(alike.landmarks),
            size=self.zoom * alike.size,
            warp=None if alike.warp is None else self.move_warp(alike.warp),
            parts=None,
        )

    def move_warp(self, warp: Warp) -> Warp:
        """Return the transform from the reference to where the object is now."""
        deviation = math.hypot(self.zoom * warp.deviation, self.deviation)
        return Warp(self.whole @ warp.matrix, deviation)

    def move_guides(self, points: GuidePoints) -> GuidePoints:
        """Return where points are now, less certain than before."""
        places, added = self._carried(points.places)
        return GuidePoints(
            places,
            np.hypot(self.zoom * points.deviations, added),
            self._faded(points.confidences, added),
        )

    def move_points(self, points: Correspondences) -> Correspondences:
        """Return where points are now, in the same order; their scores are confidences."""
        places, added = self._carried(points.image_points)
        return replace(
            points,
            image_points=places.astype(np.float32),
            scores=self._faded(points.scores, added).astype(np.float32),
        )

    def _carried(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where points are now, and the standard deviations that this adds."""
        carried = self.local.carry(points)
        return carried.places, np.hypot(carried.deviations, self.deviation)

    def _faded(self, confidences: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Return the probabilities that points are near, after deviations were added."""
        radius = RIGHT * self.size
        return share_within(np.hypot(spread_of(confidences), added / self.zoom / radius))


def affine_at(homography: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the affine transform (3 x 3) that approximates a homography near a point."""
    linear = jacobian(homography, point)
    place = warp_points(homography, point[None])[0]
    return np.vstack([np.column_stack([linear, place - linear @ point]), [0, 0, 1]])
