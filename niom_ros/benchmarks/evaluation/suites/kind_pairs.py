"""Objects cut out of photos, paired with photos that show another one of their kind, or none."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
import random

from niom_ros.benchmarks.evaluation.suites.scenes import labels_of, read_voc, VOC
from niom_ros.core.boxes import Box
from niom_ros.images.decoding import read_image
from niom_ros.matching.features import MIN_SIDE
from niom_ros.semantics.heat_maps import Area

FACES = 'afhq'  # of animals, each fills its photo
FACE_KINDS = ('cat', 'dog', 'wild')
MARGIN = 1.4  # of what is cut out relative to the object
SAME = 2  # photos for each object that show its kind,
OTHER = 2  # and that do not

# Objects of one family may be called alike, rightly or not, so they are not used as other kinds.
FAMILIES = (
    frozenset({'cat', 'dog', 'horse', 'sheep', 'cow', 'bird', 'wild'}),
    frozenset({'car', 'bus', 'train', 'truck', 'motorcycle', 'bicycle', 'boat', 'airplane'}),
    frozenset({'chair', 'couch', 'dining table'}),
)


@dataclass(frozen=True)
class KindPair:
    """An object, and a photo."""

    kind: str
    reference: Path
    part: Box | None  # of the reference, that shows the object; None: all
    image: Path
    same: bool  # whether the photo shows another object of the kind


@dataclass(frozen=True)
class Shown:
    """An object in a photo."""

    kind: str
    photo: Path
    area: Area | None  # None: it fills the photo


def kind_pairs(data: Path, seed: int) -> Iterator[KindPair]:
    """Return pairs of both sorts, always the same ones for a seed."""
    objects, kinds = [*scene_objects(data), *faces(data)], photo_kinds(data)
    for number, shown in enumerate(objects):
        chance = random.Random(f'{seed} {number}')
        part = None if shown.area is None else cut_out(shown.photo, shown.area)
        if part is not None and min(part.width, part.height) < MIN_SIDE:
            continue
        others = [photo for photo in kinds if photo != shown.photo]
        alike = [photo for photo in others if shown.kind in kinds[photo]]
        strange = [photo for photo in others if not kinds[photo] & family_of(shown.kind)]
        for same, photos, count in ((True, alike, SAME), (False, strange, OTHER)):
            for photo in chance.sample(photos, min(count, len(photos))):
                yield KindPair(shown.kind, shown.photo, part, photo, same)


def scene_objects(data: Path) -> Iterator[Shown]:
    """Return the largest object of each kind in each photo of Pascal VOC."""
    for path in scene_lists(data):
        marked = sorted(read_voc(path), key=lambda one: -one.area.width * one.area.height)
        largest = {one.label: one.area for one in reversed(marked)}
        for kind, area in largest.items():
            yield Shown(kind, path.with_suffix('.jpg'), area)


def scene_lists(data: Path) -> list[Path]:
    """Return the lists of objects whose photo is there."""
    lists = sorted((data / VOC).glob('*.xml'))
    return [path for path in lists if path.with_suffix('.jpg').is_file()]


def faces(data: Path) -> Iterator[Shown]:
    """Return the photos of faces of animals."""
    for kind in FACE_KINDS:
        for path in sorted((data / FACES / kind).glob('*.jpg')):
            yield Shown(kind, path, None)


def photo_kinds(data: Path) -> dict[Path, frozenset[str]]:
    """Return what each photo shows."""
    scenes = {path.with_suffix('.jpg'): labels_of(read_voc(path)) for path in scene_lists(data)}
    return scenes | {shown.photo: frozenset({shown.kind}) for shown in faces(data)}


def family_of(kind: str) -> frozenset[str]:
    """Return the kinds that may be called alike."""
    return next((family for family in FAMILIES if kind in family), frozenset({kind}))


def cut_out(photo: Path, area: Area) -> Box:
    """Return the part of a photo that shows an object and a margin."""
    height, width = read_image(photo).shape[:2]
    margin = (MARGIN - 1) / 2 * max(area.width, area.height)
    around = area.enlarged(margin).within(width, height)
    left, top = round(around.left + 0.5), round(around.top + 0.5)
    return Box(left, top, round(around.right + 0.5) - left, round(around.bottom + 0.5) - top)
