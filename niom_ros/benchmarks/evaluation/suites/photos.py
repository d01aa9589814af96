"""What the benchmarks share that look for a photo in camera images from known viewpoints."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from niom_ros.benchmarks.evaluation.answers import answer_record, error_or_infinity
from niom_ros.benchmarks.evaluation.benchmark import Case, Record, share
from niom_ros.benchmarks.evaluation.halves import halves
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.locating import LocatingBenchmark
from niom_ros.benchmarks.evaluation.suites.photo_views import (
    IMAGENET,
    other_photos,
    seen_by_camera,
    visible_error,
)
from niom_ros.images.decoding import read_image

FOUND = 10.0  # pixels of mean error where the photo is visible, below which it counts as found


@dataclass(frozen=True)
class PhotoCase(Case):
    """A photo, and what lies behind it in the camera image."""

    photo: Path
    behind: Path | None  # another photo; None: an empty table


class PhotoBenchmark(LocatingBenchmark):
    """Measures how often a photo is found in camera images that show it."""

    folders = (IMAGENET,)
    default_methods = ('default', 'classical', 'plain', 'sift', 'orb')

    def photos(self) -> list[tuple[Path, Path]]:
        """Return each photo, and another one that lies behind it."""
        return other_photos(self.data)

    @abstractmethod
    def view(self, case: Any, size: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        """Return the homography from a photo of this size to the camera image."""

    def pictures(self, case: Any) -> tuple[Picture, Picture, np.ndarray]:
        """Return the photo, the camera image, and the homography between them."""
        photo = read_image(case.photo)
        behind = None if case.behind is None else read_image(case.behind)
        random = np.random.default_rng([self.seed, *case.name.encode()])
        view = self.view(case, (photo.shape[1], photo.shape[0]), random)
        image = seen_by_camera(photo, view, behind, random)
        name = f'{self.name} {case.name} {self.seed}'
        return Picture(str(case.photo), photo), Picture(name, image), view

    def measure(self, case: Any, method: Method, runner: MethodRunner) -> Record:
        """Compare the found homography with the true one, where the photo is visible."""
        reference, image, truth = self.pictures(case)
        answer = runner.match(method, reference, image)
        size = (reference.box.width, reference.box.height)

        def error(found: np.ndarray | None) -> float | None:
            return None if found is None else visible_error(found, truth, size)

        return {
            **answer_record(answer, reference, truth),
            'error': error(answer.match.reference_to_image),
            'best_error': error(answer.evidence.reference_to_image),
        }


def found_share(records: Sequence[Record]) -> float:
    """Return the share of photos that were found."""
    return share(error_or_infinity(record) < FOUND for record in records)


def wrong_claims(records: Sequence[Record]) -> tuple[float, float]:
    """Return the share of wrong answers among the claims, and its upper bound."""
    claims = [record for record in records if record['accepted']]
    wrong = sum(error_or_infinity(record) >= FOUND for record in claims)
    return wrong / max(1, len(claims)), upper_bound(wrong, len(claims))


def photo_metrics(records: Sequence[Record]) -> dict[str, float]:
    """Return how often photos were found, and how often a claim was wrong."""
    _, unseen = halves(records)
    wrong, most = wrong_claims(records)
    wrong_unseen, most_unseen = wrong_claims(unseen)
    return {
        'found': found_share(records),
        'found_held_out': found_share(unseen),
        'wrong_accepted': wrong,
        'wrong_accepted_upper': most,
        'wrong_accepted_held_out': wrong_unseen,
        'wrong_accepted_upper_held_out': most_unseen,
    }
