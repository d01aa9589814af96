"""abstain: unrelated pictures, in which nothing should be found.

What this caution costs is measured too, on the true pairs of homography and sketch, and on pairs
of different objects of one kind.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
import math
from pathlib import Path
import random

import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_or_infinity, WRONG, wrong_share
from niom_ros.benchmarks.evaluation.benchmark import Case, of_group, Record, share
from niom_ros.benchmarks.evaluation.halves import halves
from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.homography import (
    HOMOGR,
    HomographyBenchmark,
    HomographyCase,
    OXFORD,
)
from niom_ros.benchmarks.evaluation.suites.kind_pairs import FACES, kind_pairs
from niom_ros.benchmarks.evaluation.suites.kinds import PACS
from niom_ros.benchmarks.evaluation.suites.locating import LocatingBenchmark
from niom_ros.benchmarks.evaluation.suites.manual import IKEA
from niom_ros.benchmarks.evaluation.suites.scenes import (
    CARTUCHO,
    labels_of,
    read_labels,
    read_voc,
    VOC,
)
from niom_ros.benchmarks.evaluation.suites.sketch import (
    BSDS,
    drawing_of,
    series_of,
    SketchBenchmark,
    SketchCase,
    STANDARD,
)
from niom_ros.core.boxes import Box
from niom_ros.images.decoding import read_image
from niom_ros.matching.geometry import Status

IMAGENET = 'scenes/imagenet'

PHOTO_PAIRS = 600
DRAWING_PAIRS = 300
UNRELATED_PHOTO = 'unrelated/photo'
UNRELATED_DRAWING = 'unrelated/drawing'
UNRELATED_OBJECT = 'unrelated/object'
SAME_KIND = 'kind/object'  # another object of the reference's kind
TRUE_HOMOGRAPHY = 'true/homography'
TRUE_SKETCH = 'true/sketch'

# What the pages of IKEA's manuals show, in the words of the lists of scenes.
IKEA_SUBJECTS = {
    'Chair': frozenset({'chair'}),
    'Table': frozenset({'dining table', 'coffeetable'}),
}
# Only for these photos is it known whether they show a dog, a horse or a person.
LISTED = (VOC, CARTUCHO)


@dataclass(frozen=True)
class DatasetPicture:
    """A picture of a data set, and what is known about it."""

    name: str  # of the picture: a drawing has the one of the photo that it was drawn from
    path: Path
    place: str  # pictures of one place are related
    subjects: frozenset[str]  # pictures that share a kind of object are related too

    def related(self, other: 'DatasetPicture') -> bool:
        """Return whether finding one of them in the other may be right."""
        return self.place == other.place or bool(self.subjects & other.subjects)


@dataclass(frozen=True)
class UnrelatedCase(Case):
    """Two pictures that have nothing to do with each other, or only show objects of one kind."""

    reference: Path  # .mat: the drawing in it
    image: Path
    image_place: str
    part: Box | None = None  # of the reference; None: all

    @property
    def places(self) -> tuple[str, ...]:
        """Return what both show."""
        return self.unit, self.image_place


@dataclass(frozen=True)
class TrueCase(Case):
    """A case of another benchmark, in which there is something to find."""

    origin: HomographyCase | SketchCase


class AbstainBenchmark(LocatingBenchmark):
    """Measures how often a method claims to find what is not there.

    Pictures are related if both are of cartucho85, which shows a single apartment; if both are
    of one BSDS series, with numbers that differ only in the last three digits; or if they are
    known to show the same kind of object.
    """

    name = 'abstain'
    title = 'Unrelated pictures: share that is claimed to match; and what is found of true pairs.'
    folders = (VOC, CARTUCHO, IMAGENET, BSDS, IKEA, PACS, OXFORD, HOMOGR, FACES)
    default_methods = ('default', 'plain', 'sew', 'alike', 'sift', 'orb')
    main_metric = 'false_accept'

    def find_cases(self) -> Iterator[UnrelatedCase | TrueCase]:
        """Return 900 unrelated pairs, a third of drawings, pairs of kinds, and all true pairs."""
        photos = find_photos(self.data)
        drawings = find_drawings(self.data)
        # Photos of a single apartment would repeat the same reference.
        references = {name: shown for name, shown in photos.items() if name != CARTUCHO}
        chance = random.Random(self.seed)
        for group, known, count in (
            (UNRELATED_PHOTO, references, PHOTO_PAIRS),
            (UNRELATED_DRAWING, drawings, DRAWING_PAIRS),
        ):
            for reference, image in draw_pairs(known, photos, count, chance):
                name = f'{group}/{reference.name}-{image.name}'
                yield UnrelatedCase(
                    name=name,
                    pair=name,
                    unit=reference.place,
                    group=group,
                    reference=reference.path,
                    image=image.path,
                    image_place=image.place,
                )
        for number, pair in enumerate(kind_pairs(self.data, self.seed)):
            group = SAME_KIND if pair.same else UNRELATED_OBJECT
            name = f'{group}/{number}-{pair.kind}-{pair.reference.stem}-{pair.image.stem}'
            yield UnrelatedCase(
                name=name,
                pair=name,
                unit=place_of(pair.reference),
                group=group,
                reference=pair.reference,
                image=pair.image,
                image_place=place_of(pair.image),
                part=pair.part,
            )
        for flat in HomographyBenchmark(self.data, self.seed).find_cases():
            yield true_case(TRUE_HOMOGRAPHY, f'homography/{flat.unit}', flat)
        for drawn in SketchBenchmark(self.data, self.seed).find_cases():
            if drawn.group == STANDARD and not drawn.warp:
                yield true_case(TRUE_SKETCH, drawn.unit, drawn)

    def pictures(
        self, case: UnrelatedCase | TrueCase
    ) -> tuple[Picture, Picture, np.ndarray | None]:
        """Return the reference, the image and the true homography, if there is one."""
        if isinstance(case, UnrelatedCase):
            return as_picture(case.reference, case.part), as_picture(case.image), None
        if isinstance(case.origin, SketchCase):
            return SketchBenchmark(self.data, self.seed).pictures(case.origin)
        return HomographyBenchmark(self.data, self.seed).pictures(case.origin)

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the shares of wrong claims and of right ones.

        The upper bound assumes that pairs are independent; the bootstrap interval does not, but
        cannot distinguish 0 of 450 from 0 of 5.
        """
        photo, drawing, strange, kind, flat, sketch = (
            of_group(records, group)
            for group in (
                UNRELATED_PHOTO,
                UNRELATED_DRAWING,
                UNRELATED_OBJECT,
                SAME_KIND,
                TRUE_HOMOGRAPHY,
                TRUE_SKETCH,
            )
        )
        unrelated = photo + drawing
        claims = sum(record['accepted'] for record in unrelated)
        _, unseen = halves(unrelated)
        _, unseen_true = halves(flat + sketch)
        others = unrelated + strange
        _, unseen_others = halves(others)
        return {
            'false_accept': claimed(unrelated),
            'false_accept_upper': upper_bound(claims, len(unrelated)),
            'false_accept_photo': claimed(photo),
            'false_accept_drawing': claimed(drawing),
            'true_accept': found_share(flat + sketch),
            'true_accept_homography': found_share(flat),
            'true_accept_sketch': found_share(sketch),
            'wrong_accepted': wrong_share(flat + sketch),
            # Of pictures that no calibration was fitted on.
            'false_accept_held_out': claimed(unseen),
            'false_accept_upper_held_out': upper_bound(
                sum(record['accepted'] for record in unseen), len(unseen)
            ),
            'true_accept_held_out': found_share(unseen_true),
            'wrong_accepted_held_out': wrong_share(unseen_true),
            # Pairs of other kinds, and of the same kind, that are called alike.
            'false_alike': called_alike(others),
            'false_alike_upper': upper_bound(alike_count(others), len(others)),
            'false_alike_held_out': called_alike(unseen_others),
            'false_alike_upper_held_out': upper_bound(
                alike_count(unseen_others), len(unseen_others)
            ),
            'true_alike': called_alike(kind),
            'true_alike_held_out': called_alike(halves(kind)[1]),
        }

    def quality(self, record: Record) -> float:
        """Rank confident right claims best, confident wrong ones worst, refusals between them."""
        if record['accepted']:
            return float(record['confidence'] if found(record) else -record['confidence'])
        if record['group'] == SAME_KIND:
            return float(record['confidence'])
        return 0.0 if record['group'].startswith('true/') else 1 - float(record['confidence'])


def found(record: Record) -> bool:
    """Return whether a true pair was claimed, and correctly."""
    return bool(record['accepted']) and error_or_infinity(record) < WRONG


def found_share(records: Iterable[Record]) -> float:
    """Return the share of true pairs that were claimed correctly."""
    return share(found(record) for record in records)


def claimed(records: Iterable[Record]) -> float:
    """Return the share of pairs that were claimed."""
    return share(record['accepted'] for record in records)


def alike_count(records: Iterable[Record]) -> int:
    """Return how many pairs were called alike."""
    return sum(record['status'] == Status.ALIKE.name for record in records)


def called_alike(records: Sequence[Record]) -> float:
    """Return the share of pairs that were called alike."""
    return alike_count(records) / len(records) if records else math.nan


def true_case(group: str, unit: str, origin: HomographyCase | SketchCase) -> TrueCase:
    """Return a case of another benchmark as one of this benchmark."""
    name = f'{group}/{origin.name}'
    return TrueCase(name=name, pair=name, unit=unit, group=group, origin=origin)


def as_picture(path: Path, part: Box | None = None) -> Picture:
    """Read a picture, or a part of it; of a BSDS file, the drawing in it."""
    pixels = drawing_of(path) if path.suffix == '.mat' else read_image(path)
    if part is None:
        return Picture(str(path), pixels)
    return Picture(f'{path} {part}', np.ascontiguousarray(part.part_of(pixels)))


# Which pictures there are


def place_of(photo: Path) -> str:
    """Return the place of a photo of kind_pairs: the same as in the other groups."""
    folder = photo.parent
    return f'{folder.name if folder.match(VOC) else f"{FACES}/{folder.name}"}/{photo.stem}'


def find_photos(data: Path) -> dict[str, list[DatasetPicture]]:
    """Return the photos of each data set that exists."""
    sets = {
        VOC: [
            dataset_picture(path.with_suffix('.jpg'), 'voc100', subjects=labels_of(read_voc(path)))
            for path in sorted((data / VOC).glob('*.xml'))
        ],
        CARTUCHO: [
            dataset_picture(
                path.with_suffix('.jpg'), 'cartucho85', 'cartucho85', read_labels(path)
            )
            for path in sorted((data / CARTUCHO).glob('*.txt'))
        ],
        IMAGENET: [
            # n01514859_hen.JPEG
            dataset_picture(path, 'imagenet', subjects=frozenset({path.stem.partition('_')[2]}))
            for path in sorted((data / IMAGENET).glob('*.JPEG'))
        ],
        BSDS: [
            dataset_picture(path, 'bsds', series_of(path))
            for path in sorted((data / BSDS).glob('*.jpg'))
        ],
    }
    return only_files(sets)


def find_drawings(data: Path) -> dict[str, list[DatasetPicture]]:
    """Return the drawings of each data set that exists."""
    pages = sorted((data / IKEA).glob('*/*/step_*/*.png'))
    sets = {
        BSDS: [
            dataset_picture(path, 'bsds', series_of(path))
            for path in sorted((data / BSDS).glob('*.mat'))
        ],
        IKEA: [
            DatasetPicture(
                f'ikea/{path.parent.relative_to(data / IKEA).as_posix()}/{path.stem}',
                path,
                f'ikea/{path.relative_to(data / IKEA).parts[1]}',
                IKEA_SUBJECTS.get(path.relative_to(data / IKEA).parts[0], frozenset()),
            )
            for path in pages
        ],
        PACS: [
            dataset_picture(
                path, f'pacs/{path.parent.name}', subjects=frozenset({path.parent.name})
            )
            for path in sorted((data / PACS).glob('sketch/*/*.png'))
        ],
    }
    return only_files(sets)


def dataset_picture(
    path: Path, data_set: str, place: str = '', subjects: frozenset[str] = frozenset()
) -> DatasetPicture:
    """Return a picture; by default it is the only one of its place."""
    name = f'{data_set}/{path.stem}'
    return DatasetPicture(name, path, place or name, subjects)


def only_files(sets: dict[str, list[DatasetPicture]]) -> dict[str, list[DatasetPicture]]:
    """Leave out lists without a photo, and sets without any picture."""
    present = {
        name: [picture for picture in pictures if picture.path.is_file()]
        for name, pictures in sets.items()
    }
    return {name: pictures for name, pictures in present.items() if pictures}


# Which of them become pairs


def draw_pairs(
    references: dict[str, list[DatasetPicture]],
    photos: dict[str, list[DatasetPicture]],
    count: int,
    chance: random.Random,
) -> list[tuple[DatasetPicture, DatasetPicture]]:
    """Draw up to `count` unrelated pairs of a reference and a photo at random.

    Data sets are used round-robin, and so are the references of a set, so that none dominates.
    No pair occurs twice.
    """
    turns = {name: chance.sample(pictures, len(pictures)) for name, pictures in references.items()}
    chosen: list[tuple[DatasetPicture, DatasetPicture]] = []
    met: set[frozenset[Path]] = set()
    while any(turns.values()):
        for name, waiting in turns.items():
            while waiting and len(chosen) < count:
                reference = waiting.pop(0)
                image = draw_image(name, reference, photos, met, chance)
                if image is not None:
                    chosen.append((reference, image))
                    met.add(frozenset({reference.path, image.path}))
                    waiting.append(reference)
                    break
        if len(chosen) == count:
            break
    return chosen


def draw_image(
    reference_set: str,
    reference: DatasetPicture,
    photos: dict[str, list[DatasetPicture]],
    met: set[frozenset[Path]],
    chance: random.Random,
) -> DatasetPicture | None:
    """Draw a photo that is unrelated to a reference and was not paired with it yet."""
    sets = [name for name in photos if reference_set != PACS or name in LISTED]
    for name in chance.sample(sets, len(sets)):
        for image in chance.sample(photos[name], len(photos[name])):
            new = frozenset({reference.path, image.path}) not in met
            if new and not reference.related(image):
                return image
    return None
