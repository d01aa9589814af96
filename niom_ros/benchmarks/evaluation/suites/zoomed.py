"""zoomed: a photo from far away to so close that only a part of it is visible."""

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

# Longer side of the photo, relative to the width of the image
SCALES = {
    'sixth': 1 / 6,
    'quarter': 1 / 4,
    'third': 1 / 3,
    'half': 1 / 2,
    'full': 1.0,
    'twice': 2.0,
    'three_times': 3.0,
    'four_times': 4.0,
}
UPRIGHT, ANY_DIRECTION = 'upright', 'any_direction'
TILT = 10.0  # degrees either way, of a photo that counts as upright


@dataclass(frozen=True)
class ZoomedCase(PhotoCase):
    """A photo at some scale."""

    scale: str


class ZoomedBenchmark(PhotoBenchmark):
    """Measures how often a photo is found at each scale."""

    name = 'zoomed'
    title = 'Photos from a sixth of the image to four times as wide: share found, within 10 px.'
    main_metric = 'found'

    def find_cases(self) -> Iterable[ZoomedCase]:
        """Return each photo at each scale, upright and in any direction, on another photo."""
        for photo, other in self.photos():
            for scale in SCALES:
                for group in (UPRIGHT, ANY_DIRECTION):
                    yield ZoomedCase(
                        name=f'{photo.stem}/{group}/{scale}',
                        pair=photo.stem,
                        unit=photo.stem,
                        group=group,
                        photo=photo,
                        behind=other,
                        scale=scale,
                    )

    def view(
        self, case: ZoomedCase, size: tuple[int, int], random: np.random.Generator
    ) -> np.ndarray:
        """Return the homography from a photo of this size to the camera image.

        A small photo lies anywhere in the image; of a large one, any part may be visible.
        """
        scale = SCALES[case.scale]
        tilt = TILT if case.group == UPRIGHT else 180.0
        degrees = random.uniform(-tilt, tilt)
        frame = np.array([CAMERA.width, CAMERA.height])
        longer_side = scale * CAMERA.width
        shown = longer_side * np.array(size) / max(size)
        room = np.abs(frame - shown) / 2 * (0.8 if scale < 1 else 0.6)
        shift = random.uniform(-1, 1, 2) * room
        if scale > 1:  # along the sides of the photo
            angle = np.deg2rad(degrees)
            across, down = shift
            shift = np.array(
                [
                    np.cos(angle) * across + np.sin(angle) * down,
                    -np.sin(angle) * across + np.cos(angle) * down,
                ]
            )
        return view_of(
            size,
            longer_side=longer_side,
            degrees=degrees,
            centre=frame / 2 + shift,
            random=random,
        )

    def measure(self, case: ZoomedCase, method: Method, runner: MethodRunner) -> Record:
        """Also note the scale."""
        return {**super().measure(case, method, runner), 'scale': case.scale}

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the share found: of all, by scale, and by direction."""
        return {
            **photo_metrics(records),
            **{
                f'found_{scale}': found_share(
                    [record for record in records if record['scale'] == scale]
                )
                for scale in SCALES
            },
            **{
                f'found_{group}': found_share(of_group(records, group))
                for group in (UPRIGHT, ANY_DIRECTION)
            },
        }
