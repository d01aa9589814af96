"""What everything is measured on: views of the demo photo with known ground truth."""

from collections.abc import Sequence
from dataclasses import dataclass
import time

from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.simulation.virtual_scene import (
    DEMO_PHOTO,
    DEMO_SURROUNDINGS,
    example_photo,
    View,
    VirtualScene,
)

BEGINNING = 8.0  # time of the first view on the path of the virtual camera, in seconds
STEP = 0.4  # seconds from one view to the next
RIGHT_WITHIN = 5.0  # pixels, mean of the corners
OF_REFERENCE = ' of reference'  # suffix of stages that a stream does not repeat

Size = tuple[int, int]
"""Width and height in pixels."""


def named(size: Size) -> str:
    """Write a size: 640x480."""
    return f'{size[0]}x{size[1]}'


def demo_scene(size: Size) -> VirtualScene:
    """Return a cup of coffee on gravel, seen by a camera with images of this size."""
    picture, surroundings = example_photo(DEMO_PHOTO), example_photo(DEMO_SURROUNDINGS)
    return VirtualScene(picture, surroundings, *size)


def demo_views(size: Size, count: int, step: float = STEP) -> list[View]:
    """Return what that camera sees, one view after another."""
    scene = demo_scene(size)
    return [scene.view(BEGINNING + step * number, number) for number in range(count)]


@dataclass(frozen=True)
class Attempt:
    """The result of matching a view, and the time of each stage."""

    match: Match
    stages: dict[str, float]  # seconds
    analysis: ImageAnalysis | None = None  # what our networks saw; None for peers

    def is_right(self, view: View, reference_box: Box) -> bool:
        """Return whether the reference was found at its true position."""
        found = self.match.verdict.reference_to_image
        if found is None:
            return False
        return corner_error(found, view.picture_to_image, reference_box) <= RIGHT_WITHIN

    @property
    def reference_seconds(self) -> float:
        """Return the time spent on the reference alone: none in a stream."""
        return sum(s for stage, s in self.stages.items() if stage.endswith(OF_REFERENCE))

    @property
    def inliers(self) -> int:
        """Return the number of inliers."""
        return int(self.match.verdict.inliers.sum())


class Stopwatch:
    """Measures the time of consecutive stages."""

    def __init__(self) -> None:
        """Start the first stage."""
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, stage: str) -> None:
        """Record the end of a stage, which is the start of the next."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


def stage_names(attempts: Sequence[Attempt]) -> list[str]:
    """Return the names of all stages of some attempts, in order."""
    return list(dict.fromkeys(name for attempt in attempts for name in attempt.stages))
