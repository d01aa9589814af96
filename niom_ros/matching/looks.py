"""An image that something is looked for in: where to begin, how closely to look."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import time

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.drawings.edges import Edges
from niom_ros.matching.features import Features
from niom_ros.matching.geometry import in_front, relative_corner_error
from niom_ros.matching.reference import Reference
from niom_ros.semantics.scene import Scene

CLOSE = 0.1  # of the outline's size: corners may be so far from where they were followed to
PART_MARGIN = 0.1  # of an expected outline's width and height, around it
LEAST_MARGIN = 16.0  # pixels
SMALLEST_PART = 64  # pixels in each direction: in less there is hardly anything to be matched
LARGEST_PART = 0.8  # of the image: more than that is as good as all
KEYPOINT_STEPS = (0.125, 0.25, 0.375, 0.5, 0.75, 1.0)  # of the most, that are matched in a part
FEWEST_KEYPOINTS = 256  # worth matching


@dataclass(frozen=True)
class Clue:
    """How a reference was found in the last image of a stream: where to begin with the next."""

    reference: Reference
    way: str
    reference_to_image: np.ndarray  # 3 x 3
    locked: int = 0  # images in a row, so far
    followed: bool = False  # whether it was followed since: the view is that of the next image
    scene: Scene | None = None  # the objects of that image, if they are known without looking


@dataclass
class Look:
    """One image, and what is known of it: found once, when somebody first asks."""

    image: np.ndarray
    seconds: dict[str, float] = field(default_factory=dict)  # what each stage took so far
    most_keypoints: int | None = None  # that are matched; None: all that the extractor finds
    part: Box | None = None  # in which keypoints are sought; None: the whole image
    features: Features | None = None  # in pixels of that part
    scene: Scene | None = None
    edges: Edges | None = None

    @property
    def whole(self) -> Box:
        """Return the outline of the image."""
        return Box.around(self.image)

    @property
    def place(self) -> tuple[int, int]:
        """Return where in the image the part begins."""
        return (0, 0) if self.part is None else (self.part.left, self.part.top)


def part_around(reference_to_image: np.ndarray, box: Box, whole: Box) -> Box | None:
    """Return the part of an image around a reference; None: there is hardly any, or no less."""
    if not in_front(reference_to_image, box):
        return None
    corners = warp_points(reference_to_image, box.corners())
    least, most = corners.min(axis=0), corners.max(axis=0)
    margin = np.maximum(PART_MARGIN * (most - least), LEAST_MARGIN)
    edges = np.concatenate([np.floor(least - margin), np.ceil(most + margin)])
    left, top, right, bottom = edges.clip(0, [whole.width, whole.height] * 2).astype(int).tolist()
    part = Box(left, top, right - left, bottom - top)
    if min(part.width, part.height) < SMALLEST_PART or part.area > LARGEST_PART * whole.area:
        return None
    return part


def is_close(view: np.ndarray, expected: np.ndarray, box: Box) -> bool:
    """Tell whether a reference was found about where it was expected."""
    return relative_corner_error(view, expected, box) <= CLOSE


def keypoint_step(most: int, wanted: float) -> int:
    """Return how many of at most so many keypoints to take: a few sizes are prepared for."""
    steps = (round(most * step) for step in KEYPOINT_STEPS)
    return next((step for step in steps if step >= max(wanted, FEWEST_KEYPOINTS)), most)


@contextmanager
def timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note how long a stage took, all attempts together."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0) + time.perf_counter() - start
