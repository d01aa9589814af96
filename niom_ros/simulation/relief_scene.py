"""A picture of which parts stand out, seen by a moving camera: images with known ground truth."""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.simulation.virtual_scene import View, VirtualScene

REFERENCE_DISTANCE = 1.5  # widths of the picture, from which it looks as in the reference


@dataclass(frozen=True)
class Raised:
    """A rectangle of the picture that lies closer to the camera than the rest, like a shelf."""

    left: float  # shares of the picture's width and height
    top: float
    right: float
    bottom: float
    height: float  # above the rest, in widths of the picture

    def corners(self, width: int, height: int) -> np.ndarray:
        """Return its corners in pixels of the picture, clockwise from the top left: 4 x 2."""
        shares = [
            [self.left, self.top],
            [self.right, self.top],
            [self.right, self.bottom],
            [self.left, self.bottom],
        ]
        return np.array(shares) * [width, height] - 0.5

    def contains(self, points: np.ndarray, width: int, height: int) -> np.ndarray:
        """Return which of N x 2 pixels of the picture are on it."""
        corners = self.corners(width, height)
        return np.asarray(((points >= corners[0]) & (points <= corners[2])).all(axis=1))


def random_relief(random: np.random.Generator) -> tuple[Raised, ...]:
    """Return three raised parts in different corners of a picture: about a third of it."""
    parts = []
    for corner in random.permutation(4)[:3].tolist():
        left, top = 0.05 + 0.5 * (corner % 2), 0.05 + 0.5 * (corner // 2)
        left, top = np.array([left, top]) + random.uniform(0, 0.05, 2)
        width, height = random.uniform(0.28, 0.38, 2)
        parts.append(
            Raised(
                left=float(left),
                top=float(top),
                right=float(min(0.97, left + width)),
                bottom=float(min(0.97, top + height)),
                height=float(random.uniform(0.05, 0.2)),
            )
        )
    return tuple(parts)


@dataclass(frozen=True)
class ReliefScene(VirtualScene):
    """A picture with raised rectangles.

    From straight ahead it looks like the picture itself; from the side, the rectangles are
    displaced. The true homography is that of the rest.
    """

    raised: tuple[Raised, ...] = ()

    def view(self, seconds: float, frame: int) -> View:
        """Return what the camera sees at a time; the frame number varies the noise."""
        truth = self.picture_to_image(seconds)
        scene = self._composed(self._ground(truth), self._rest, truth)
        height, width = self.picture.shape[:2]
        for part in sorted(self.raised, key=lambda part: part.height):
            corners = np.rint(part.corners(width, height)).astype(int)
            (left, top), (right, bottom) = corners[0], corners[2]
            to_image = self.raised_to_image(part, seconds)
            to_image = to_image @ np.array([[1, 0, left], [0, 1, top], [0, 0, 1.0]])
            scene = self._composed(scene, self.picture[top:bottom, left:right], to_image)
        return View(self._as_photographed(scene, seconds, frame), truth)

    def raised_to_image(self, part: Raised, seconds: float) -> np.ndarray:
        """Return the homography from pixels of the picture on a raised part to the camera's."""
        rotation, shift = self.pose(seconds)
        # On the ray from where the reference looks at the picture
        closer = 1 - part.height / REFERENCE_DISTANCE
        to_camera = np.column_stack(
            [
                closer * rotation[:, 0],
                closer * rotation[:, 1],
                shift - part.height * rotation[:, 2],
            ]
        )
        return self.camera_matrix() @ to_camera @ self.pixels_to_plane()

    def places(self, points: np.ndarray, seconds: float) -> np.ndarray:
        """Return where N x 2 pixels of the picture really are in the camera image."""
        places = warp_points(self.picture_to_image(seconds), points)
        height, width = self.picture.shape[:2]
        for part in sorted(self.raised, key=lambda part: part.height):
            on_it = part.contains(points, width, height)
            places[on_it] = warp_points(self.raised_to_image(part, seconds), points[on_it])
        return places

    @cached_property
    def _rest(self) -> np.ndarray:
        """Return the picture with nothing to see below the raised parts."""
        rest = self.picture.copy()
        height, width = rest.shape[:2]
        plain = cv2.GaussianBlur(rest, (0, 0), width / 10)
        for part in self.raised:
            corners = np.rint(part.corners(width, height)).astype(int)
            (left, top), (right, bottom) = corners[0], corners[2]
            rest[top:bottom, left:right] = plain[top:bottom, left:right]
        return rest
