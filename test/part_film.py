"""A film of equal parts on gravel: they lie, are covered, leave and cross, with known truth."""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.simulation.virtual_scene import example_photo

SIZE = (800, 600)
PERIOD = 0.1  # seconds between frames
FARTHEST = 15.0  # pixels that corners may be off, on average; hidden ones are extrapolated

COVERED = range(12, 26)  # frames in which the cover lies over part 1
LEAVES_FROM = 8  # part 2 goes to the right from this frame on, 25 pixels in each
LEFT = 22  # and nothing of it is seen from this one on
CROSSING = range(14, 28)  # parts 3 and 4 overlap in these frames


def place(
    picture: np.ndarray, middle: tuple[float, float], turn: float = 0.0, scale: float = 0.3
) -> np.ndarray:
    """Return the view of a part that lies around a middle, turned by radians."""
    corners = Box.around(picture).corners()
    rotation = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    moved = (corners - corners.mean(axis=0)) @ rotation.T + middle
    return cv2.getPerspectiveTransform(corners.astype(np.float32), moved.astype(np.float32))


def laid(picture: np.ndarray, views: list[np.ndarray], seed: int = 0) -> np.ndarray:
    """Return an image of parts on gravel, the last one on top, with noise."""
    image = cv2.resize(example_photo('gravel'), SIZE)
    for view in views:
        cv2.warpPerspective(
            picture,
            view,
            SIZE,
            dst=image,
            flags=cv2.INTER_AREA,
            borderMode=cv2.BORDER_TRANSPARENT,
        )
    noise = np.random.default_rng(seed).normal(0, 4, image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8)


@dataclass(frozen=True)
class PartFilm:
    """Five parts: one lies still, one is covered for a while, one leaves, two cross."""

    picture: np.ndarray
    parts: tuple[int, ...] = (0, 1, 2, 3, 4)

    def views(self, frame: int) -> dict[int, np.ndarray]:
        """Return where the parts are, seen or not."""
        leaving = 25 * max(0, frame - LEAVES_FROM)
        views = {
            0: place(self.picture, (130, 110), 0.1),
            1: place(self.picture, (400, 120), -0.3),
            2: place(self.picture, (640 + leaving, 150), 0.5),
            3: place(self.picture, (120 + 14 * frame, 420), 0.0),
            4: place(self.picture, (680 - 14 * frame, 450), 0.2),
        }
        return {part: view for part, view in views.items() if part in self.parts}

    def image(self, frame: int) -> np.ndarray:
        """Return what the camera sees: part 3 passes over part 4."""
        views = self.views(frame)
        image = laid(self.picture, [views[part] for part in reversed(self.parts)], frame)
        if frame in COVERED and 1 in self.parts:
            image[15:225, 280:520] = cv2.resize(example_photo('astronaut'), (240, 210))
        return image

    def part_at(self, frame: int, reference_to_image: np.ndarray) -> int:
        """Return which part a view belongs to; fails if it is at none."""
        box = Box.around(self.picture)
        errors = {
            part: corner_error(reference_to_image, view, box)
            for part, view in self.views(frame).items()
        }
        part = min(errors, key=lambda each: errors[each])
        assert errors[part] < FARTHEST, f'{errors[part]:.1f} px from part {part} in frame {frame}'
        return part

    def hidden(self, frame: int) -> set[int]:
        """Return the parts of which nothing, or next to nothing, is seen."""
        hidden = {1} if frame in COVERED else set()
        return hidden | ({2} if frame >= LEFT else set())
