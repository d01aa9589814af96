"""Rotate the images of a turned camera upright, and results back."""

from dataclasses import dataclass, replace

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.alike_object import moved
from niom_ros.matching.match import Match
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import Scene


@dataclass(frozen=True)
class Rotation:
    """A clockwise rotation that turns received images upright."""

    degrees: int  # 0, 90, 180 or 270
    width: int  # of the received image
    height: int

    def upright(self, image: np.ndarray) -> np.ndarray:
        """Return a received image, upright."""
        if not self.degrees:
            return image
        return np.ascontiguousarray(np.rot90(image, -self.degrees // 90))

    @property
    def upright_to_received(self) -> np.ndarray:
        """Return the transform from pixels of the upright image to those of the received one."""
        right, bottom = self.width - 1, self.height - 1
        rows = {
            0: ((1, 0, 0), (0, 1, 0)),
            90: ((0, 1, 0), (-1, 0, bottom)),
            180: ((-1, 0, right), (0, -1, bottom)),
            270: ((0, -1, right), (1, 0, 0)),
        }[self.degrees]
        return np.array([*rows, (0, 0, 1)], np.float64)

    def received(self, match: Match) -> Match:
        """Return a match with the upright image in pixels of the received one.

        Heat maps, and the field of an alike object, stay as they are: only the upright image needs
        them.
        """
        if not self.degrees:
            return match
        back = self.upright_to_received
        correspondences, verdict = match.correspondences, match.verdict
        points = warp_points(back, correspondences.image_points).astype(np.float32)
        homography = verdict.reference_to_image
        if homography is not None:
            homography = back @ homography
            homography = homography / homography[2, 2]
        uncertainty = verdict.uncertainty
        if uncertainty is not None and homography is not None:
            uncertainty = uncertainty.seen_as(homography)
        return replace(
            match,
            correspondences=replace(correspondences, image_points=points),
            verdict=replace(verdict, reference_to_image=homography, uncertainty=uncertainty),
            scene=self._turned(match.scene),
            alike=None if match.alike is None else moved(match.alike, back),
        )

    def _turned(self, scene: Scene) -> Scene:
        objects = []
        for seen in scene.objects:
            turned = warp_points(self.upright_to_received, seen.area.corners())
            objects.append(replace(seen, area=Area.around(turned)))
        return replace(scene, objects=tuple(objects))
