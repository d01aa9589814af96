"""What everything is measured on: views of the demo photo, whose truth is known."""

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

BEGINNING = 8.0  # seconds of the virtual camera's way
STEP = 0.4  # seconds from one view to the next
RIGHT_WITHIN = 5.0  # pixels, mean of the corners
OF_REFERENCE = ' of reference'  # how the name of a stage ends that a stream does not have

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
    """Return what that camera sees, one view after the other."""
    scene = demo_scene(size)
    return [scene.view(BEGINNING + step * number, number) for number in range(count)]


@dataclass(frozen=True)
class Attempt:
    """What somebody made of a view, and what each stage of that took."""

    outcome: Match
    stages: dict[str, float]  # seconds
    look: ImageAnalysis | None = None  # what our networks saw

    def is_right(self, view: View, reference_box: Box) -> bool:
        """Return whether the reference was found where it truly is."""
        found = self.outcome.verdict.reference_to_image
        if found is None:
            return False
        return corner_error(found, view.picture_to_image, reference_box) <= RIGHT_WITHIN

    @property
    def reference_seconds(self) -> float:
        """Return what was spent on the reference alone: in a stream, nothing."""
        return sum(s for stage, s in self.stages.items() if stage.endswith(OF_REFERENCE))

    @property
    def inliers(self) -> int:
        """Return how many matches agree."""
        return int(self.outcome.verdict.inliers.sum())


class Stopwatch:
    """Notes what one stage after the other takes."""

    def __init__(self) -> None:
        """Start."""
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, stage: str) -> None:
        """Note that a stage came to its end, and that the next one begins."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


def stage_names(attempts: Sequence[Attempt]) -> list[str]:
    """Return the stages of some attempts, in their order."""
    return list(dict.fromkeys(name for attempt in attempts for name in attempt.stages))
