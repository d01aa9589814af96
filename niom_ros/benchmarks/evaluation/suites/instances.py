"""instances: several copies of a photo in one camera image, apart or overlapping."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, of_group, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.photo_views import (
    CAMERA,
    IMAGENET,
    other_photos,
    photographed,
    put_onto,
    table_or,
    view_of,
    visible_error,
)
from niom_ros.benchmarks.evaluation.suites.photos import FOUND
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.images.decoding import read_image
from niom_ros.matching.match import Match
from niom_ros.matching.partly_hidden import overlap
from niom_ros.pictures.matches import draw_report

APART, OVERLAPPING = 'apart', 'overlapping'
COUNTS = {0: 'none', 1: 'one', 2: 'two', 5: 'five'}


@dataclass(frozen=True)
class CopyParameters:
    """How copies lie in the camera image."""

    shares: tuple[float, float] = (0.22, 0.34)  # longer side of each, of the image's width
    most_overlap: float = 0.25  # of two outlines by their union, if they may overlap
    tries: int = 2000  # to place all of them; fewer are used if there is no room
    wanted: int = 5  # places that are looked for, however many copies there are


COPIES = CopyParameters()


@dataclass(frozen=True)
class CopiesCase(Case):
    """Copies of a photo that lie on another one."""

    photo: str
    behind: str
    count: int


class InstancesBenchmark(Benchmark):
    """Measures how many of several copies are found, and how often a claim is wrong."""

    name = 'instances'
    title = 'Copies of a photo among clutter: share of them found, less than 10 px off.'
    folders = (IMAGENET,)
    default_methods = ('default', 'classical', 'plain')
    main_metric = 'copies_found'

    def find_cases(self) -> Iterable[CopiesCase]:
        """Return each photo in different numbers, alone and overlapping."""
        for photo, other in other_photos(self.data):
            for count, words in COUNTS.items():
                for group in (APART, OVERLAPPING) if count > 1 else (APART,):
                    yield CopiesCase(
                        name=f'{photo.stem}/{group}/{words}',
                        pair=photo.stem,
                        unit=photo.stem,
                        group=group,
                        photo=str(photo),
                        behind=str(other),
                        count=count,
                    )

    def pictures(self, case: CopiesCase) -> tuple[Picture, Picture, list[np.ndarray]]:
        """Return the photo, the camera image, and where the copies are in it."""
        photo = read_image(case.photo)
        random = np.random.default_rng([self.seed, *case.name.encode()])
        most = COPIES.most_overlap if case.group == OVERLAPPING else 0.0
        views = views_of_copies(photo, case.count, most, random)
        image = table_or(read_image(case.behind), random)
        for view in views:
            put_onto(image, photo, view)
        name = f'{self.name} {case.name} {self.seed}'
        return (
            Picture(case.photo, photo),
            Picture(name, photographed(image, random)),
            views,
        )

    def usable(self, method: Method) -> None:
        """Refuse methods that find one place only."""
        if method.classical:
            raise UserError(f'{method.name} finds one place only: leave it out of {self.name}')

    def matches(
        self, reference: Picture, image: Picture, method: Method, runner: MethodRunner
    ) -> list[Match]:
        """Return the places that a method claims."""
        options = replace(method.options, max_instances=COPIES.wanted)
        found = runner.matcher(method).match_several(
            runner.reference(method, reference), image.pixels, options
        )
        return [match for match in found if match.found]

    def measure(self, case: CopiesCase, method: Method, runner: MethodRunner) -> Record:
        """Count the copies that are found, each once, and the claims where none is."""
        reference, image, views = self.pictures(case)
        claims = self.matches(reference, image, method, runner)
        size = (reference.box.width, reference.box.height)
        left = list(views)
        for claim in claims:
            view = claim.reference_to_image
            assert view is not None
            errors = [visible_error(view, truth, size) for truth in left]
            if errors and min(errors) < FOUND:
                del left[int(np.argmin(errors))]
        right = len(views) - len(left)
        return {
            'count': case.count,
            'copies': len(views),
            'right': right,
            'wrong': len(claims) - right,
            'accepted': bool(claims),
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the share of copies that are found, and of claims that are wrong."""
        wrong = sum(record['wrong'] for record in records)
        claims = wrong + sum(record['right'] for record in records)
        by_count = {
            f'copies_found_of_{words}': found_share(
                [record for record in records if record['count'] == count]
            )
            for count, words in COUNTS.items()
            if count
        }
        return {
            'copies_found': found_share(records),
            **by_count,
            'copies_found_overlapping': found_share(of_group(records, OVERLAPPING)),
            'wrong_accepted': wrong / max(1, claims),
            'wrong_accepted_upper': upper_bound(wrong, claims),
        }

    def quality(self, record: Record) -> float:
        """Rank cases by the copies that were missed, wrong claims counting more."""
        missed = record['copies'] - record['right']
        return float(-missed - 10 * record['wrong'])

    def picture(self, case: CopiesCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw all places that are claimed."""
        reference, image, _ = self.pictures(case)
        prepared = runner.reference(method, reference)
        options = replace(method.options, max_instances=COPIES.wanted)
        match, *further = runner.matcher(method).match_several(prepared, image.pixels, options)
        return draw_report(prepared, image.pixels, match, further)


def found_share(records: Sequence[Record]) -> float:
    """Return the share of all copies that were found; NaN if there are none."""
    copies = sum(record['copies'] for record in records)
    return sum(record['right'] for record in records) / copies if copies else float('nan')


def views_of_copies(
    photo: np.ndarray, count: int, most_overlap: float, random: np.random.Generator
) -> list[np.ndarray]:
    """Return views of copies in any direction, all of which are in the image.

    The outline of each shares at most this much with those of the others.
    """
    box = Box.around(photo)
    views: list[np.ndarray] = []
    outlines: list[np.ndarray] = []
    last = np.array([CAMERA.width, CAMERA.height]) - 1
    for _ in range(COPIES.tries):
        if len(views) == count:
            break
        view = view_of(
            (box.width, box.height),
            longer_side=random.uniform(*COPIES.shares) * CAMERA.width,
            degrees=random.uniform(0, 360),
            centre=random.uniform((0, 0), last),
            random=random,
        )
        outline = warp_points(view, box.corners())
        inside = (outline >= 0).all() and (outline <= last).all()
        if inside and all(overlap(outline, other) <= most_overlap for other in outlines):
            views.append(view)
            outlines.append(outline)
    return views
