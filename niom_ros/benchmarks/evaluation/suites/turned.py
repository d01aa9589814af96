"""turned: a photo that lies on a table in any direction, alone or among clutter."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import of_group, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.suites.photo_views import CAMERA, view_of
from niom_ros.benchmarks.evaluation.suites.photos import (
    found_share,
    photo_metrics,
    PhotoBenchmark,
    PhotoCase,
)

DIRECTIONS = 24
ON_TABLE, AMONG_CLUTTER = 'on_table', 'among_clutter'


@dataclass(frozen=True)
class TurnParameters:
    """How the photo lies in the camera image."""

    jitter: float = 5.0  # degrees, either way, from each direction
    shares: tuple[float, float] = (0.35, 0.95)  # longer side of the photo, of the image's width
    shift: float = 0.3  # of the room beside the photo, either way


TURNS = TurnParameters()


@dataclass(frozen=True)
class TurnedCase(PhotoCase):
    """A photo that lies in some direction."""

    direction: int  # of 24, counted anticlockwise from upright


class TurnedBenchmark(PhotoBenchmark):
    """Measures how often a photo is found in each direction."""

    name = 'turned'
    title = 'Photos in 24 directions: share found, less than 10 px off where they are visible.'
    main_metric = 'found_least'

    def find_cases(self) -> Iterable[TurnedCase]:
        """Return each photo in each direction, on an empty table and on another photo."""
        for photo, other in self.photos():
            for direction in range(DIRECTIONS):
                for group, behind in ((ON_TABLE, None), (AMONG_CLUTTER, other)):
                    yield TurnedCase(
                        name=f'{photo.stem}/{group}/{direction * 360 // DIRECTIONS}',
                        pair=photo.stem,
                        unit=photo.stem,
                        group=group,
                        photo=photo,
                        behind=behind,
                        direction=direction,
                    )

    def view(
        self, case: TurnedCase, size: tuple[int, int], random: np.random.Generator
    ) -> np.ndarray:
        """Return the homography from a photo of this size to the camera image."""
        degrees = case.direction * 360 / DIRECTIONS + random.uniform(-TURNS.jitter, TURNS.jitter)
        longer_side = random.uniform(*TURNS.shares) * CAMERA.width
        frame = np.array([CAMERA.width, CAMERA.height])
        room = (frame - longer_side).clip(0)
        centre = frame / 2 + random.uniform(-TURNS.shift, TURNS.shift, 2) * room
        return view_of(
            size, longer_side=longer_side, degrees=degrees, centre=centre, random=random
        )

    def measure(self, case: TurnedCase, method: Method, runner: MethodRunner) -> Record:
        """Also note the direction."""
        return {**super().measure(case, method, runner), 'direction': case.direction}

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the share found: of all, in the worst direction, and by quarter turns."""
        by_direction = [
            found_share([record for record in records if record['direction'] == direction])
            for direction in range(DIRECTIONS)
        ]
        return {
            'found_least': float(np.nanmin(by_direction)),
            **photo_metrics(records),
            'found_on_table': found_share(of_group(records, ON_TABLE)),
            'found_among_clutter': found_share(of_group(records, AMONG_CLUTTER)),
        }
