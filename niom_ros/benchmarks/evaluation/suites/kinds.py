"""kinds: matches from a sketch to a photo of a similar object should lie on that object."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import math
from pathlib import Path
import random

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import (
    Benchmark,
    Case,
    mean,
    of_group,
    Record,
    share,
)
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.pictures import draw_answer
from niom_ros.core.errors import UserError
from niom_ros.images.decoding import read_image
from niom_ros.matching.geometry import Status
from niom_ros.models.store import ModelStore, State
from niom_ros.semantics.heat_maps import Area, overlap

PACS = 'drawing/pacs'
KINDS = ('dog', 'elephant', 'giraffe', 'guitar', 'horse', 'house', 'person')
OTHER_KINDS = 'other kinds'
JUDGE = 'yolov7-seg'

SHARES = ('on_object', 'chance_on_object', 'blind_on_object', 'agreeing_on_object', 'overlap')


@dataclass(frozen=True)
class KindsParameters:
    """Which photos are tried, and when matches count as on the object."""

    photos: int = 3  # for each sketch,
    other_photos: int = 2  # and of other kinds
    min_share: float = 0.5  # a larger share of the matches must be on the object
    min_overlap: float = 0.5  # intersection over union of the object's box and that of the matches
    max_chance: float = 0.05  # how often the same points may score as well when shifted elsewhere
    shifts: int = 32  # in each direction, by which points are moved


DEFAULTS = KindsParameters()


@dataclass(frozen=True)
class KindCase(Case):
    """A sketch, and a photo of another object of its kind, or of another kind."""

    sketch: Path
    photo: Path

    @property
    def kind(self) -> str:
        """Return what the sketch shows, which is its label."""
        return self.sketch.parent.name


class KindsBenchmark(Benchmark):
    """Measures whether matches between a sketch and a photo lie on the object in the photo.

    Each sketch has its kind as label. The objects are not annotated, so their boxes come from a
    detector: yolov7-seg if it was fetched, which methods do not use by default, otherwise the
    detector of the method, which then judges itself. Photos in which it sees no object of the
    kind, and kinds that it does not know, are not measured. All matches count, inliers or not:
    no homography relates two objects that are only similar. For drawings that are fitted to
    edges, the matches are points of all strokes.

    In photos of other kinds, nothing must be found; those in which the detector sees the kind
    after all are left out.
    """

    name = 'kinds'
    title = 'Sketches and photos of one kind: share of pairs whose matches fall on the object.'
    folders = (PACS,)
    default_methods = ('default', 'alike', 'ink', 'plain', 'sew', 'uniform')
    main_metric = 'mostly_on_object'
    stratified = True

    def __init__(self, data: Path, seed: int) -> None:
        """Choose the detector that says where objects are."""
        super().__init__(data, seed)
        self.judge = JUDGE if ModelStore().state(JUDGE) is State.OK else ''

    def variant(self) -> str:
        """Return the detector that says where objects are."""
        return self.judge

    def find_cases(self) -> Iterator[KindCase]:
        """Return each sketch with photos of its kind and of others, but not its own photo."""
        photos_of = {
            kind: sorted((self.data / PACS / 'photo' / kind).glob('*.jpg')) for kind in KINDS
        }
        for kind, photos in photos_of.items():
            strange = [photo for other in KINDS if other != kind for photo in photos_of[other]]
            for sketch in sorted((self.data / PACS / 'sketch' / kind).glob('*.png')):
                others = [photo for photo in photos if photo.stem != drawn_from(sketch)]
                chance = random.Random(f'{self.seed} {kind}/{sketch.stem}')
                for group, choice, count in (
                    (kind, others, DEFAULTS.photos),
                    (OTHER_KINDS, strange, DEFAULTS.other_photos),
                ):
                    for photo in chance.sample(choice, min(count, len(choice))):
                        name = f'{kind}/{sketch.stem}-{photo_name(photo, kind)}'
                        yield KindCase(
                            name=name,
                            pair=name,
                            unit=f'{kind}/{drawn_from(sketch)}',
                            group=group,
                            sketch=sketch,
                            photo=photo,
                        )

    def usable(self, method: Method) -> None:
        """Refuse to measure without a detector that says where objects are."""
        if not self.judge and method.settings.detector == 'none':
            raise UserError(
                'kinds needs a detector, to know where objects are: none is set; '
                f'get one with niom models fetch {JUDGE}'
            )

    def measure(self, case: KindCase, method: Method, runner: MethodRunner) -> Record:
        """Count the matches on the object, and what chance would reach."""
        sketch, photo = pictures(case)
        answer = runner.match(method, sketch, photo)
        verdict, matched = answer.match.verdict, answer.correspondences
        record: Record = {
            'status': verdict.status.name,
            'accepted': answer.accepted,
            'confidence': verdict.confidence,
            'matches': len(matched),
            'agreeing': int(answer.evidence.inliers.sum()),
        }
        areas = self.areas(case, method, runner)
        if case.group == OTHER_KINDS:
            return record | {'shows_kind': bool(areas)}
        size = photo.pixels.shape[1], photo.pixels.shape[0]
        if not areas:
            return record
        unmoved = matched.reference_points * size / sketch.pixels.shape[1::-1]
        agreeing = matched.image_points[answer.evidence.inliers]
        on_object = share_inside(matched.image_points, areas)
        moved = moved_shares(matched.image_points, areas, size)
        return record | {
            'on_object': on_object,
            'agreeing_on_object': share_inside(agreeing, areas),
            'chance_on_object': covered_share(areas, size),
            'blind_on_object': share_inside(unmoved, areas),
            'blind_mostly': share_inside(unmoved, areas) > DEFAULTS.min_share,
            'overlap': best_overlap(matched.image_points, areas),
            'blind_overlap': best_overlap(unmoved, areas),
            'chance_mostly': float(np.mean(moved > DEFAULTS.min_share)),
            'luck': float(np.mean(moved >= on_object)) if len(matched) else 1.0,
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return how often matches lie on the object, over all pairs and for each kind.

        `chance` is what the same points reach when they are shifted at random; `blind` is what
        they reach when the sketch is simply laid over the photo. Few pairs can be certain: an
        object that fills the photo is hard to miss. Points on the tail of a dog are on the dog,
        but only points that span all of it fit it.
        """
        strange = [record for record in of_group(records, OTHER_KINDS) if not record['shows_kind']]
        records = [record for record in records if record['group'] != OTHER_KINDS]
        known = measured(records)
        metrics = {
            'mostly_on_object': share(mostly_on_object(record) for record in known),
            'chance_mostly_on_object': mean([record['chance_mostly'] for record in known]),
            'blind_mostly_on_object': mean([record['blind_mostly'] for record in known]),
            'surely_on_object': share(surely_on_object(record) for record in known),
            'fits_object': share(record['overlap'] > DEFAULTS.min_overlap for record in known),
            'blind_fits_object': share(
                record['blind_overlap'] > DEFAULTS.min_overlap for record in known
            ),
        }
        for name in SHARES:
            metrics[name] = mean([record[name] for record in known])
        metrics['accepted'] = share(record['accepted'] for record in records)
        called = [record for record in known if is_alike(record)]
        metrics['called_alike'] = share(is_alike(record) for record in records)
        metrics['called_alike_on_object'] = share(mostly_on_object(record) for record in called)
        claimed = sum(record['accepted'] or is_alike(record) for record in strange)
        metrics['other_kinds'] = float(len(strange))
        metrics['falsely_called_alike'] = claimed / len(strange) if strange else math.nan
        metrics['falsely_called_alike_upper'] = upper_bound(claimed, len(strange))
        metrics['not_measured'] = float(len(records) - len(known))
        for kind in KINDS:
            of_kind = of_group(records, kind)
            known = measured(of_kind)
            metrics |= {
                f'mostly_on_object_{kind}': share(mostly_on_object(record) for record in known),
                f'chance_mostly_on_object_{kind}': mean([r['chance_mostly'] for r in known]),
                f'accepted_{kind}': share(record['accepted'] for record in of_kind),
                f'not_measured_{kind}': float(len(of_kind) - len(known)),
            }
        return metrics

    def quality(self, record: Record) -> float:
        """Rank by how many more matches are on the object than chance would put there."""
        if 'on_object' not in record:
            return float('nan')
        return float(record['on_object'] - record['chance_on_object'])

    def picture(self, case: KindCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the matches, and where the detector sees the object."""
        areas = self.areas(case, method, runner)
        return draw_answer(method, runner, *pictures(case), areas=areas)

    def areas(self, case: KindCase, method: Method, runner: MethodRunner) -> list[Area]:
        """Return the boxes in which an object of the kind is seen."""
        _, photo = pictures(case)
        if self.judge:
            judge = runner.detector(self.judge)
            seen = runner.once(
                (self.name, self.judge, photo.name), lambda: judge.detect(photo.pixels)
            )
        else:
            seen = runner.analysis(method, photo).scene.objects
        height, width = photo.pixels.shape[:2]
        return [o.area.within(width, height) for o in seen if o.label == case.kind]


def drawn_from(sketch: Path) -> str:
    """Return the photo that a sketch was drawn from, if its name says so: n02374451_257-2.png."""
    return sketch.stem.rpartition('-')[0] or sketch.stem


def photo_name(photo: Path, kind: str) -> str:
    """Return the name of a photo, with its own kind if that is another one."""
    own = photo.parent.name
    return photo.stem if own == kind else f'{own}-{photo.stem}'


def pictures(case: KindCase) -> tuple[Picture, Picture]:
    """Read the sketch and the photo."""
    sketch = Picture(str(case.sketch), read_image(case.sketch), label=case.kind)
    return sketch, Picture(str(case.photo), read_image(case.photo))


def inside(points: np.ndarray, areas: Sequence[Area]) -> np.ndarray:
    """Return which points (... x 2) lie in any of the boxes."""
    x, y = points[..., 0], points[..., 1]
    within = np.zeros(x.shape, bool)
    for area in areas:
        within |= (area.left <= x) & (x <= area.right) & (area.top <= y) & (y <= area.bottom)
    return within


def share_inside(points: np.ndarray, areas: Sequence[Area]) -> float:
    """Return the share of points that lie in the boxes; 0 without points."""
    return float(inside(points, areas).mean()) if len(points) else 0.0


def best_overlap(points: np.ndarray, areas: Sequence[Area]) -> float:
    """Return the overlap of the box around points and that of an object, 0 to 1."""
    if not len(points):
        return 0.0
    box = Area.around(points)
    return max(overlap(box, area) for area in areas)


def covered_share(areas: Sequence[Area], size: tuple[int, int]) -> float:
    """Return the share of a picture of this size that the boxes cover."""
    columns, rows = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    return float(inside(np.stack([columns, rows], axis=-1), areas).mean())


def moved_shares(points: np.ndarray, areas: Sequence[Area], size: tuple[int, int]) -> np.ndarray:
    """Return the shares of points that lie in the boxes when all are shifted.

    They are shifted together, because matches are not independent: they cluster where a picture
    has texture, and the points of a stroke are even neighbours. What leaves the picture on one
    side comes back on the other.
    """
    if not len(points):
        return np.zeros(DEFAULTS.shifts**2)
    steps = np.arange(DEFAULTS.shifts) / DEFAULTS.shifts
    shifts = np.stack(np.meshgrid(steps * size[0], steps * size[1]), axis=-1).reshape(-1, 1, 2)
    # From the left edge of the first pixel to the right edge of the last.
    moved = (points + 0.5 + shifts) % size - 0.5
    return inside(moved, areas).mean(axis=1)


def measured(records: Sequence[Record]) -> list[Record]:
    """Return the records of pairs in which the position of the object is known."""
    return [record for record in records if 'on_object' in record]


def is_alike(record: Record) -> bool:
    """Return whether the answer was another object of the kind."""
    return bool(record['status'] == Status.ALIKE.name)


def mostly_on_object(record: Record) -> bool:
    """Return whether most matches are on the object."""
    return bool(record['on_object'] > DEFAULTS.min_share)


def surely_on_object(record: Record) -> bool:
    """Return whether most matches are on the object, and not by chance."""
    return mostly_on_object(record) and bool(record['luck'] < DEFAULTS.max_chance)
