"""The objects of an image, from detectors, users and drawings."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from niom_ros.core.homographies import warp_points
from niom_ros.semantics.heat_maps import Area, HeatMap


@dataclass(frozen=True)
class SeenObject:
    """One object of an image: what it is, where it is, and its heat map."""

    label: str  # any text; may be empty
    score: float  # 0 to 1
    area: Area  # its box, in pixels of the image
    heat: HeatMap
    feature: torch.Tensor | None = None  # D, unit length: how it looks; None: unknown

    def as_message(self) -> dict[str, str | float]:
        """Return the fields of DetectedObject.msg, whose box is relative to the image's edge."""
        return {
            'label': self.label,
            'score': self.score,
            'x': self.area.left + 0.5,
            'y': self.area.top + 0.5,
            'width': self.area.width,
            'height': self.area.height,
        }

    def carried(self, motion: np.ndarray) -> 'SeenObject | None':
        """Return the object in another image, given the motion (3 x 3); None: out of sight."""
        area, size = self.area, self.heat.frame
        corners = area.corners()
        if not (corners @ motion[2, :2] + motion[2, 2] > 0).all():  # beyond the horizon
            return None
        moved = warp_points(motion, corners)
        box = Area.around(moved).within(size.width, size.height)
        if not (box.width > 0 and box.height > 0):
            return None
        return replace(self, area=box, heat=self.heat.carried(motion))

    def moved(self, left: int, top: int, width: int, height: int) -> 'SeenObject':
        """Return the object of a crop as one of the whole image, of this size."""
        heat = self.heat.moved(left, top, width, height)
        return replace(self, area=self.area.moved(left, top), heat=heat)
