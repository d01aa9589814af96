"""pairing: among the objects of two scenes, two of the same kind should be paired."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
import random

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, mean, Record, share
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.pictures import draw_area
from niom_ros.benchmarks.evaluation.suites.scenes import labels_of, read_voc, VOC
from niom_ros.core.errors import UserError
from niom_ros.images.decoding import read_image
from niom_ros.pictures.lettering import banner, Entry
from niom_ros.pictures.marks import BLUE, draw_box, draw_line, PURPLE, SKY, VERMILLION, whole
from niom_ros.pictures.matches import (
    arrange,
    corners_of,
    draw_objects,
    empty_symbol,
    framed,
    name_objects,
    name_sides,
    symbol_area,
)
from niom_ros.semantics.heat_maps import overlap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import MarkedObject, Scene

MAX_PAIRS = 300
SAME_PLACE = 0.5  # overlap from which a detected box is that of a listed object


@dataclass(frozen=True)
class PairingCase(Case):
    """The lists of two scenes; each photo lies beside its list."""

    reference: Path
    image: Path


@dataclass(frozen=True)
class Choice:
    """What a method chose in two scenes, and what there was to choose from."""

    scenes: tuple[Scene, Scene]
    listed: tuple[tuple[MarkedObject, ...], tuple[MarkedObject, ...]]
    chosen: tuple[int, int] | None  # an object of each scene
    how: str

    @property
    def shared(self) -> frozenset[str]:
        """Return the annotated labels that both scenes have."""
        return labels_of(self.listed[0]) & labels_of(self.listed[1])

    @property
    def right(self) -> bool:
        """Return whether the two chosen objects are of one kind that both scenes have.

        What the detector calls them does not matter.
        """
        if self.chosen is None:
            return False
        one, other = (
            {marked.label for marked in listed if is_at(scene.objects[index], marked)}
            for scene, listed, index in zip(self.scenes, self.listed, self.chosen, strict=True)
        )
        return bool(one & other)

    @property
    def detectable(self) -> bool:
        """Return whether the detector found, and named, a common kind in both scenes."""
        one, other = (
            {
                marked.label
                for marked in listed
                for seen in scene.objects
                if seen.label == marked.label and is_at(seen, marked)
            }
            for scene, listed in zip(self.scenes, self.listed, strict=True)
        )
        return bool(one & other)


class PairingBenchmark(Benchmark):
    """Measures whether the right objects of two scenes are paired.

    Only photos of Pascal VOC are used: those of cartucho85 show a single apartment, so its pairs
    would repeat the same few objects.
    """

    name = 'pairing'
    title = 'Scenes that share a kind of object: share of pairs in which two of it are chosen.'
    folders = (VOC,)
    default_methods = ('sew+nop', 'sew+visual', 'sew+both', 'sew')
    main_metric = 'top1'
    depends_on_acceptance = False

    def find_cases(self) -> Iterable[PairingCase]:
        """Return the pairs of scenes that share a kind of object and have something to choose.

        That is, at least one of them has objects of different kinds. If there are more than
        enough, those of rare kinds are preferred to the many with people.
        """
        lists = sorted((self.data / VOC).glob('*.xml'))
        labels = {
            path: labels_of(read_voc(path)) for path in lists if path.with_suffix('.jpg').is_file()
        }
        pairs = [
            (one, other, labels[one] & labels[other])
            for one, other in combinations(labels, 2)
            if labels[one] & labels[other] and len(labels[one] | labels[other]) > 1
        ]
        counts = Counter(label for _, _, shared in pairs for label in shared)
        by_kind: dict[str, list[PairingCase]] = {}
        for one, other, shared in pairs:
            kind = min(shared, key=lambda label: (counts[label], label))
            name = f'{one.stem}-{other.stem}'
            by_kind.setdefault(kind, []).append(
                PairingCase(
                    name=name, pair=name, unit=one.stem, group=kind, reference=one, image=other
                )
            )
        return sorted(in_turns(by_kind, MAX_PAIRS, self.seed), key=lambda case: case.name)

    def usable(self, method: Method) -> None:
        """Refuse methods that do not detect objects."""
        if method.classical:
            raise UserError(
                f'pairing cannot be measured for {method.name}, which detects no objects: '
                f'use methods such as {", ".join(self.default_methods)}'
            )
        if method.settings.detector == 'none':
            raise UserError('pairing needs a detector: none is set')

    def measure(self, case: PairingCase, method: Method, runner: MethodRunner) -> Record:
        """Record which objects a method chooses, and whether they belong together."""
        choice = choose(case, method, runner)
        return {
            'right': choice.right,
            'detectable': choice.detectable,
            'chosen': [seen.label for seen in chosen_objects(choice)],
            'objects': [len(scene.objects) for scene in choice.scenes],
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return how often the choice was right; what was not detected cannot be chosen."""
        by_kind: dict[str, list[bool]] = {}
        for record in records:
            by_kind.setdefault(record['group'], []).append(record['right'])
        return {
            'top1': share(record['right'] for record in records),
            'top1_detectable': share(r['right'] for r in records if r['detectable']),
            'detectable': share(record['detectable'] for record in records),
            # Most pairs show people; here every kind has the same weight.
            'top1_kinds': mean([share(flags) for flags in by_kind.values()]),
        }

    def quality(self, record: Record) -> float:
        """Rank right choices among many best, wrong ones of what was detected worst."""
        possible = max(1, record['objects'][0] * record['objects'][1])
        return 1 - 1 / possible if record['right'] else -1 / possible - record['detectable']

    def picture(self, case: PairingCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw all objects of both scenes, the chosen ones, and those that people listed."""
        choice = choose(case, method, runner)
        canvas, panels = arrange([picture.pixels for picture in pictures(case)], 1280)
        chosen = choice.chosen or ()
        middles = []
        for side, panel in enumerate(panels):
            used = chosen[side : side + 1]
            for marked in choice.listed[side]:
                if marked.label in choice.shared:
                    draw_area(panel, marked.area)
            draw_objects(panel, choice.scenes[side], used)
            middles += [
                corners_of(panel, choice.scenes[side].objects[index]).mean(axis=0) + panel.corner
                for index in used
            ]
        size = panels[0].text_size
        if middles:
            start, end = whole(np.array(middles))
            draw_line(canvas, start, end, SKY, 1 + size // 10)
        name_sides(panels)
        for side, panel in enumerate(panels):
            name_objects(panel, choice.scenes[side], chosen[side : side + 1])
        labels = ' and '.join(seen.label for seen in chosen_objects(choice)) or 'nothing'
        paragraphs = [
            ('both have', ', '.join(sorted(choice.shared))),
            ('chosen', labels),
            ('by', choice.how),
        ]
        colour, headline = (BLUE, '✓ RIGHT') if choice.right else (VERMILLION, '✗ WRONG')
        top = banner(
            canvas.shape[1],
            colour,
            headline=headline,
            note='detectable' if choice.detectable else 'not detected on both sides',
            paragraphs=paragraphs,
            lines_each=1,
        )
        return framed(top, canvas, box_entries(size))


def in_turns(by_kind: dict[str, list[PairingCase]], most: int, seed: int) -> list[PairingCase]:
    """Return up to `most` cases, taken round-robin from all kinds."""
    waiting = {kind: by_kind[kind][:] for kind in sorted(by_kind)}
    shuffle = random.Random(seed).shuffle
    for cases in waiting.values():
        shuffle(cases)
    result: list[PairingCase] = []
    while any(waiting.values()) and len(result) < most:
        for cases in waiting.values():
            if cases and len(result) < most:
                result.append(cases.pop())
    return result


def pictures(case: PairingCase) -> tuple[Picture, Picture]:
    """Read the two photos."""
    photos = (path.with_suffix('.jpg') for path in (case.reference, case.image))
    first, second = (Picture(str(path), read_image(path)) for path in photos)
    return first, second


def choose(case: PairingCase, method: Method, runner: MethodRunner) -> Choice:
    """Let a method choose an object of each scene, with the code of the matcher itself."""
    first, second = pictures(case)
    reference, analysis = runner.reference(method, first), runner.analysis(method, second)
    scenes = reference.scene, analysis.scene
    listed = read_voc(case.reference), read_voc(case.image)
    if method.options.pairing.by == 'none':
        one, other = (most_confident(scene.objects) for scene in scenes)
        both = None if one is None or other is None else (one, other)
        return Choice(scenes, listed, both, 'nothing: the most confident object of each image')
    paired = analysis.paired_with(reference.scene, method.options.pairing)
    first_pair = next(((pair.reference_object, pair.image_object) for pair in paired.pairs), None)
    return Choice(scenes, listed, first_pair, paired.description)


def most_confident(objects: Sequence[SeenObject]) -> int | None:
    """Return the object that the detector is most confident of."""
    return max(range(len(objects)), key=lambda index: objects[index].score, default=None)


def chosen_objects(choice: Choice) -> list[SeenObject]:
    """Return the two chosen objects, or none."""
    if choice.chosen is None:
        return []
    return [
        scene.objects[index] for scene, index in zip(choice.scenes, choice.chosen, strict=True)
    ]


def is_at(seen: SeenObject, marked: MarkedObject) -> bool:
    """Return whether a detected object is where a listed one is."""
    return overlap(seen.area, marked.area) >= SAME_PLACE


def box_entries(size: int) -> list[Entry]:
    """Return the legend of the boxes."""
    chosen, other, listed = empty_symbol(size), empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    draw_box(chosen, (left, top), (right, bottom), True, size)
    draw_box(other, (left, top), (right, bottom), False, size)
    cv2.rectangle(listed, (left, top), (right, bottom), PURPLE, 1 + size // 4)
    return [(chosen, 'chosen'), (other, 'not chosen'), (listed, 'truth: what both have')]
