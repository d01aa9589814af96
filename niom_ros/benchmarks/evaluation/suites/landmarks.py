"""landmarks: points marked on one face or animal, transferred to another by the matches."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any
import xml.etree.ElementTree as ElementTree

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from niom_ros.benchmarks.evaluation.answers import kind_signs_of
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, mean, Record, share
from niom_ros.benchmarks.evaluation.halves import halves
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import share_within
from niom_ros.benchmarks.evaluation.pictures import draw_answer
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import LandmarkMode, StreamOptions
from niom_ros.images.decoding import read_image
from niom_ros.matching.alike_confidence import guide_points, point_signs
from niom_ros.matching.alike_object import CERTAIN, RIGHT
from niom_ros.matching.features import MIN_SIDE
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.reference import Landmark
from niom_ros.matching.strategies.alike import Alike
from niom_ros.pictures.lettering import Entry, legend, SKY
from niom_ros.pictures.marks import draw_diamond, draw_dot, draw_line, whole
from niom_ros.pictures.matches import arrange, empty_symbol, stacked
from niom_ros.semantics.heat_maps import Area
from niom_ros.stream.landmarks import place_landmarks

FACES = 'keypoints/dlib_faces'
WILLOW = 'keypoints/willow'
MMPOSE = 'keypoints/mmpose'

MARGIN = 0.2  # around an object, of its longer side: what a user would crop
TOLERANCES = {'05': 0.05, '10': 0.10}  # of the longer side of the object in the image
VISIBLE = 2  # in COCO's format; 1: marked, but hidden, or in sets of faces, just marked
# What the names of shares begin with: by matches, within the true area, and three baselines.
KINDS = ('', 'local_', 'known_area_', 'chance_', 'centre_', 'box_')


@dataclass(frozen=True)
class Instance:
    """A face or an animal with marked points, in pixels of its picture."""

    path: Path
    box: tuple[float, float, float, float]  # left, top, width, height
    points: tuple[Landmark, ...]

    @property
    def size(self) -> float:
        """Return its longer side."""
        return max(self.box[2:])

    def cut_out(self, width: int, height: int) -> Box:
        """Return the part of its picture, of this size, that shows it and a margin."""
        margin = MARGIN * self.size
        left, top = (max(0, round(start - margin)) for start in self.box[:2])
        right = min(width, round(self.box[0] + self.box[2] + margin))
        bottom = min(height, round(self.box[1] + self.box[3] + margin))
        return Box(left, top, right - left, bottom - top)


@dataclass(frozen=True)
class LandmarksCase(Case):
    """One object, cut out, to be found in a picture of others like it."""

    reference: Instance
    part: Box  # of the reference's picture
    targets: tuple[Instance, ...]  # all in the same picture
    between: tuple[str, str]  # the pictures of both, or their set if it has no others

    @property
    def places(self) -> tuple[str, ...]:
        """Return both pictures: pairs of different units may share one of them."""
        return self.between


class LandmarksBenchmark(Benchmark):
    """Measures how well marked points are transferred to another object of the same kind.

    A picture may show several: the answer is compared with the nearest one. The numbers are means
    over the data sets, because there are many more faces than all others. pck counts where a
    method puts the points, even if it refuses its own answer; published_pck counts only answers
    with status OK or ALIKE, whose landmarks a node publishes, and all others as misses.
    """

    name = 'landmarks'
    title = 'Marked points carried to another face or animal: share that arrives, misses included.'
    folders = (FACES, WILLOW, MMPOSE)
    default_methods = (
        'alike',
        'default',
        'plain',
        'sew',
        'sew+nop',
        'uniform',
        'shuffled',
        'sift',
    )
    main_metric = 'pck_10'
    stratified = True  # most sets are a single pair, which every draw must contain

    def find_cases(self) -> Iterable[LandmarksCase]:
        """Return each object with each other picture of its set that shows some of its points."""
        for folder, instances in self._sets():
            by_picture: dict[Path, list[Instance]] = {}
            for instance in instances:
                by_picture.setdefault(instance.path, []).append(instance)
            sizes = {path: read_image(path).shape[1::-1] for path in by_picture}
            for path, other in permutations(by_picture, 2):
                names = [one.relative_to(folder).as_posix() for one in (path, other)]
                pair = f'{folder.name}/{"-".join(sorted(names))}'
                for number, reference in enumerate(by_picture[path]):
                    name = f'{folder.name}/{names[0]}#{number}-{names[1]}'
                    part = reference.cut_out(*sizes[path])
                    targets = tuple(
                        one for one in by_picture[other] if places_on(one, reference)[0]
                    )
                    # The networks refuse a reference that is smaller.
                    if targets and min(part.width, part.height) >= MIN_SIDE:
                        yield LandmarksCase(
                            name=name,
                            pair=pair,
                            unit=pair,
                            group=folder.name,
                            reference=reference,
                            part=part,
                            targets=targets,
                            between=place_names(folder.relative_to(self.data), names, len(sizes)),
                        )

    def _sets(self) -> Iterator[tuple[Path, list[Instance]]]:
        """Return the folders of the sets, and the objects in each."""
        sources: list[tuple[Path, str, Reader]] = [
            (self.data / FACES, '*.xml', read_dlib),
            (self.data / WILLOW, '*.mat', read_willow),
        ]
        for folder in sorted((self.data / MMPOSE).glob('*')):
            sources.append((folder, '*.json', read_coco))
        for folder, pattern, reader in sources:
            files = sorted(folder.glob(pattern))
            yield folder, [one for file in files for one in read_checked(file, reader)]

    def measure(self, case: LandmarksCase, method: Method, runner: MethodRunner) -> Record:
        """Transfer the points by the best view, accepted or not, and compare with the truth."""
        reference, image = pictures(case)
        answer = runner.match(method, reference, image)
        default, local = (
            misses(carried(case, answer, image, method, mode), case)
            for mode in (StreamOptions.landmark_mode, 'local')
        )
        return {
            **pck_scores('', default),
            **pck_scores('local_', local),
            **known_area_scores(case, method, runner, reference, image),
            **pck_scores('chance_', misses(blind_places(case, image), case)),
            **pck_scores('centre_', misses(centred_places(case), case)),
            **pck_scores('box_', misses(stretched_places(case), case)),
            **certain_scores(case, answer),
            'published': answer.match.located,
            'error': typical(default),
            'accepted': answer.accepted,
            'matches': len(answer.correspondences),
            'agreeing': int(answer.evidence.inliers.sum()),
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the shares of points that arrived, as the mean over the sets and for each set."""
        by_set: dict[str, list[Record]] = {}
        for record in records:
            by_set.setdefault(record['group'], []).append(record)
        names = [f'{kind}pck_{name}' for kind in KINDS for name in TOLERANCES]
        names = [name for name in names if name in records[0]]
        means = {
            group: {
                name: sum(record[name] for record in of_set) / len(of_set)
                for name in (*names, 'accepted')
            }
            for group, of_set in by_set.items()
        }
        metrics = {
            name: sum(of_set[name] for of_set in means.values()) / len(means)
            for name in (*names, 'accepted')
        }
        metrics |= publications(by_set.values())
        metrics |= claims(records)
        metrics |= {
            f'{name}_held_out': value for name, value in claims(halves(records)[1]).items()
        }
        metrics['gain_over_box'] = metrics['pck_10'] - metrics['box_pck_10']
        for group, of_set in means.items():
            metrics[f'{self.main_metric}_{group}'] = of_set[self.main_metric]
            metrics[f'chance_{self.main_metric}_{group}'] = of_set[f'chance_{self.main_metric}']
        return metrics

    def quality(self, record: Record) -> float:
        """Rank points nearer to their place better."""
        return -float(record['error'])

    def picture(self, case: LandmarksCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the matches, and below them lines from the found to the true points."""
        reference, image = pictures(case)
        answer = runner.match(method, reference, image)
        found = carried(case, answer, image, method, StreamOptions.landmark_mode)
        above = draw_answer(method, runner, reference, image)
        canvas, (panel,) = arrange([image.pixels], above.shape[1])
        index, places = places_on(nearest_target(found, case), case.reference)
        ends = warp_points(panel.from_image, places)
        starts = warp_points(panel.from_image, found[index])
        known = np.isfinite(starts).all(axis=1)
        for start, end in zip(whole(starts[known]), whole(ends[known]), strict=True):
            draw_line(panel.pixels, start, end, SKY, 1)
        for start in starts[known]:
            draw_diamond(panel.pixels, start, panel.text_size // 2)
        for end in whole(ends):
            draw_dot(panel.pixels, end, SKY, panel.text_size)
        return stacked([above, canvas, legend(canvas.shape[1], entries(panel.text_size))])


def place_names(folder: Path, names: Sequence[str], pictures: int) -> tuple[str, str]:
    """Return the names of two places, in a set of so many pictures.

    The only two pictures of a set are one place, or half of such sets would be in neither half.
    """
    first, second = (folder / name if pictures > 2 else folder for name in names)
    return first.as_posix(), second.as_posix()


def publications(sets: Collection[Sequence[Record]]) -> dict[str, float]:
    """Return the share of pairs whose landmarks are published, and how good these are.

    The first two are means over the sets; the last one is over all pairs that are published,
    because some sets may have none.
    """
    published = [record for of_set in sets for record in of_set if record['published']]
    return {
        'published': fmean(share(record['published'] for record in of_set) for of_set in sets),
        'published_pck_10': fmean(
            fmean(record['pck_10'] * record['published'] for record in of_set) for of_set in sets
        ),
        'pck_10_if_published': mean([record['pck_10'] for record in published]),
    }


def claims(records: Sequence[Record]) -> dict[str, float]:
    """Return the share of points that are claimed, and of these the share that is right."""
    points, claimed, right = (
        sum(record[name] for record in records) for name in ('points', 'claimed', 'claimed_right')
    )
    return {
        'claimed': claimed / points if points else math.nan,
        'claimed_right': right / claimed if claimed else math.nan,
    }


def pictures(case: LandmarksCase) -> tuple[Picture, Picture]:
    """Read both pictures; the first is cut to the object."""
    path, part, target = case.reference.path, case.part, case.targets[0].path
    name = f'{path} {part.left},{part.top} {part.width}x{part.height}'
    cut = np.ascontiguousarray(part.part_of(read_image(path)))
    return Picture(name, cut), Picture(str(target), read_image(target))


def entries(size: int) -> list[Entry]:
    """Return the legend of the points."""
    arrived, belongs = empty_symbol(size), empty_symbol(size)
    middle = size, arrived.shape[0] // 2
    draw_diamond(arrived, np.array(middle), size // 2)
    draw_dot(belongs, middle, SKY, size)
    return [(arrived, 'where a point arrived'), (belongs, 'where it belongs')]


# Where the points end


def marked(case: LandmarksCase) -> np.ndarray:
    """Return the points of the reference, in pixels of what was cut out: N x 2."""
    corner = case.part.left, case.part.top
    return np.array([[point.x, point.y] for point in case.reference.points]) - corner


def carried(
    case: LandmarksCase, answer: MethodAnswer, image: Picture, method: Method, mode: LandmarkMode
) -> np.ndarray:
    """Return the points of the reference transferred to the image: N x 2; NaN: nowhere."""
    if answer.match.parts is not None:
        return answer.match.parts.carry(marked(case)).places
    evidence = answer.evidence
    # Without checks the view is impossible: a part would be behind the camera.
    if evidence.reference_to_image is None or evidence.checks is None:
        return np.full((len(case.reference.points), 2), np.nan)
    points = tuple(
        Landmark(point.name, *place)
        for point, place in zip(case.reference.points, marked(case).tolist(), strict=True)
    )
    # As if it were accepted: two objects of a kind are rarely similar enough for that.
    verdict = Verdict(
        Status.OK,
        '',
        evidence.inliers,
        reference_to_image=evidence.reference_to_image,
        confidence=1.0,
    )
    placed = place_landmarks(
        points,
        answer.correspondences,
        verdict,
        image_width=image.box.width,
        image_height=image.box.height,
        mode=mode,
        reprojection_error=method.options.limits.reprojection_error,
    )
    return np.array([[point.x, point.y] for point in placed])


def known_area_scores(
    case: LandmarksCase,
    method: Method,
    runner: MethodRunner,
    reference: Picture,
    image: Picture,
) -> dict[str, float]:
    """Return the shares if the area of the largest object is given, where a method can use it.

    It is used to find its parts, even by a method that would first look for the very object.
    """
    tried = method.options.strategies
    if method.classical or (tried is not None and Alike.name not in tried):
        return {}
    largest = max(case.targets, key=lambda target: target.size)
    area = Area.of_box(largest.cut_out(image.box.width, image.box.height))
    strategy = runner.matcher(method).strategy(Alike.name)
    assert isinstance(strategy, Alike)
    parts = strategy.find_in(runner.reference(method, reference), image.pixels, area)
    return pck_scores('known_area_', misses(parts.carry(marked(case)).places, case))


def certain_scores(case: LandmarksCase, answer: MethodAnswer) -> dict[str, Any]:
    """Return how many points there are, how many of them are claimed, and how many rightly.

    With them comes what `niom calibrate` fits the confidence to.
    """
    match, count = answer.match, len(case.reference.points)
    if match.alike is None or match.parts is None:
        return {'points': count, 'claimed': 0, 'claimed_right': 0}
    points = guide_points(match.parts, marked(case))
    nearest = nearest_target(points.places, case)
    index, _ = places_on(nearest, case.reference)
    distances = misses_on(nearest, points.places, case)
    right = distances <= RIGHT
    claimed = (points.confidences[index] >= CERTAIN) & (match.status is Status.ALIKE)
    signs = point_signs(match.parts, match.parts.carry(marked(case)))
    return {
        'points': len(index),
        'claimed': int(claimed.sum()),
        'claimed_right': int((claimed & right).sum()),
        'alike': match.status is Status.ALIKE,
        'alike_signs': kind_signs_of(match.alike),
        'point_signs': [signs[number] for number in index],
        'point_right': right.tolist(),
    }


def stretched_places(case: LandmarksCase) -> np.ndarray:
    """Return the points if the true box of the reference is stretched onto that of an object.

    No method knows both boxes, so a method that is better has found more than a box.
    """
    left, top, width, height = case.reference.box
    points = np.array([[point.x, point.y] for point in case.reference.points])
    relative = (points - (left, top)) / (width, height)
    stretched = [relative * one.box[2:] + one.box[:2] for one in case.targets]
    return min(stretched, key=lambda places: typical(misses(places, case)))


def centred_places(case: LandmarksCase) -> np.ndarray:
    """Return the points if the true box of the reference is moved to the centre of an object's."""
    left, top, width, height = case.reference.box
    points = np.array([[point.x, point.y] for point in case.reference.points])
    offsets = points - (left + width / 2, top + height / 2)
    moved = [offsets + one.box[:2] + np.array(one.box[2:]) / 2 for one in case.targets]
    return min(moved, key=lambda places: typical(misses(places, case)))


def blind_places(case: LandmarksCase, image: Picture) -> np.ndarray:
    """Return the same relative positions in the image as in the reference, as a baseline."""
    scale = np.array([image.box.width, image.box.height]) / (case.part.width, case.part.height)
    # Pixel centres are integers, so both pictures begin at -0.5.
    return (marked(case) + 0.5) * scale - 0.5


def misses(found: np.ndarray, case: LandmarksCase) -> np.ndarray:
    """Return how far points are from their true places on the nearest object, in sizes of it."""
    return min((misses_on(one, found, case) for one in case.targets), key=typical)


def nearest_target(found: np.ndarray, case: LandmarksCase) -> Instance:
    """Return the object that points are nearest to."""
    return min(case.targets, key=lambda one: typical(misses_on(one, found, case)))


def misses_on(target: Instance, found: np.ndarray, case: LandmarksCase) -> np.ndarray:
    """Return how far points are from their places on an object, in sizes of it; NaN: nowhere."""
    index, places = places_on(target, case.reference)
    return np.linalg.norm(found[index] - places, axis=1) / target.size


def places_on(target: Instance, reference: Instance) -> tuple[list[int], np.ndarray]:
    """Return which points of the reference another object has too, and where."""
    places = {point.name: (point.x, point.y) for point in target.points}
    both = [
        (index, places[point.name])
        for index, point in enumerate(reference.points)
        if point.name in places
    ]
    return [index for index, _ in both], np.array([place for _, place in both])


def typical(distances: np.ndarray) -> float:
    """Return the median; NaN counts as infinitely far."""
    return float(np.median(np.nan_to_num(distances, nan=np.inf)))


def pck_scores(prefix: str, distances: np.ndarray) -> dict[str, float]:
    """Return the shares of points that are near enough to their place."""
    return {
        f'{prefix}pck_{name}': share_within(distances, tolerance)
        for name, tolerance in TOLERANCES.items()
    }


# Files


Reader = Callable[[Path], Iterable[Instance]]


def read_checked(file: Path, reader: Reader) -> list[Instance]:
    """Return the objects that a file describes, or say that it is broken."""
    try:
        return [one for one in reader(file) if one.size > 0]
    except (OSError, SyntaxError, LookupError, TypeError, ValueError, MatReadError) as error:
        raise UserError(
            f'{file} does not describe points: {type(error).__name__}: {error}'
        ) from None


def read_dlib(file: Path) -> Iterator[Instance]:
    """Read the XML of dlib, in which each box has the parts of a face."""
    for image in ElementTree.parse(file).iter('image'):
        for box in image.iter('box'):
            left, top, width, height = (
                float(box.attrib[side]) for side in ('left', 'top', 'width', 'height')
            )
            points = tuple(
                Landmark(part.attrib['name'], float(part.attrib['x']), float(part.attrib['y']))
                for part in box.iter('part')
            )
            yield Instance(file.parent / image.attrib['file'], (left, top, width, height), points)


def read_willow(file: Path) -> Iterator[Instance]:
    """Read a file of the WILLOW-ObjectClass set, which belongs to the picture of its name."""
    kind = file.stem.rstrip('_0123456789')  # the points of a car are not those of a duck
    places = np.asarray(loadmat(file)['pts_coord'], np.float64).T - 1  # MATLAB counts from 1
    points = tuple(
        Landmark(f'{kind} {number}', x, y) for number, (x, y) in enumerate(places.tolist())
    )
    # It has no box, but its points are spread over the whole object.
    left, top = places.min(axis=0).tolist()
    width, height = np.ptp(places, axis=0).tolist()
    yield Instance(file.with_suffix('.png'), (left, top, width, height), points)


def read_coco(file: Path) -> Iterator[Instance]:
    """Read the JSON of COCO; points of the same name correspond, in any animal.

    Points without names are numbered. Sets that do not say what is hidden have no visible points:
    all that are marked count.
    """
    content = json.loads(file.read_text(encoding='utf-8'))
    files = {image['id']: file.parent / image['file_name'] for image in content['images']}
    names = {kind['id']: kind.get('keypoints') for kind in content['categories']}
    marked = [
        (one, np.reshape(one['keypoints'], (-1, 3)).tolist()) for one in content['annotations']
    ]
    said = max((point[2] for _, places in marked for point in places), default=VISIBLE)
    for one, places in marked:
        called = names[one['category_id']] or [str(number) for number in range(len(places))]
        points = tuple(
            Landmark(name, x, y)
            for name, (x, y, visibility) in zip(called, places, strict=True)
            if 0 < visibility == said
        )
        left, top, width, height = map(float, one['bbox'])
        yield Instance(files[one['image_id']], (left, top, width, height), points)
