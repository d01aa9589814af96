"""tmc: points of one animal's face are matched to another's, and from there back to the first.

The paper calls it Triangular Matching Consistency. C is A, slightly enlarged; B is another animal.
Direct matches A-C that are inliers of a homography are compared with all matches that go through
B.

The paper's own numbers (rmse, pck, recall) compare each point with the nearest one, whichever it
is: the more direct matches there are, the more points count as right by pure chance;
chance_pck_05 says how many. The numbers called paired follow each point of A through B and
compare where it ends with its true position in C.

Because C is only slightly enlarged, points that stay where they are also end near there: within
0.079 of the size at most, so paired_pck_10 of a map that ignores the pictures is 1.
blind_paired_pck says what it reaches. The numbers called moved use another C in addition, in which
A is smaller and further to the right: there, no point that stays where it is comes within 0.12.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, permutations
from operator import itemgetter
from pathlib import Path

import cv2
import numpy as np

from niom_ros.benchmarks.classical import ClassicalFeatures
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import (
    chance_pck,
    consistency,
    nearest_distances,
    one_hop,
    paired_errors,
    share_within,
)
from niom_ros.core.homographies import warp_points
from niom_ros.images.decoding import read_image
from niom_ros.matching.features import Features
from niom_ros.pictures.lettering import banner, Entry
from niom_ros.pictures.marks import draw_dot, draw_line, SKY, SLATE, VERMILLION, whole
from niom_ros.pictures.matches import (
    arrange,
    empty_symbol,
    framed,
    MAX_LINES,
    symbol_area,
    write_label,
)

AFHQ = 'afhq'
CLASSES = ('cat', 'dog', 'wild')
GROUPS = (*CLASSES, 'cat_dog', 'dog_wild', 'cat_wild')
ENLARGEMENT = 1 / 0.9
# From positions in A to positions in C, both from 0 to 1.
A_TO_C = np.array(
    [
        [ENLARGEMENT, 0, (1 - ENLARGEMENT) / 2],
        [0, ENLARGEMENT, (1 - ENLARGEMENT) / 2],
        [0, 0, 1],
    ]
)
# The same for another C. Whatever of A it still shows is at least 0.125 from where it was.
SHRINKING = 0.8
SHIFT = 0.3  # of the left edge
A_TO_MOVED = np.array([[SHRINKING, 0, SHIFT], [0, SHRINKING, (1 - SHRINKING) / 2], [0, 0, 1]])
BLIND_POINTS = 10_000
SHOWN_TOLERANCE = 0.10  # of the picture's size
METRICS = (
    'rmse',
    'pck_01',
    'pck_05',
    'pck_10',
    'recall_01',
    'recall_05',
    'recall_10',
    'paired_pck_05',  # share of the points of A that come through B to their true place
    'paired_pck_10',
    'blind_paired_pck_05',  # what the same points would reach if they just stayed where they are
    'blind_paired_pck_10',
    'moved_paired_pck_05',  # like paired, with a C in which such points are never near their place
    'moved_paired_pck_10',
    'paired_recall_05',  # share of the direct points near which such a point arrives
    'paired_recall_10',
    'chance_pck_05',
    'weighted',  # share of the matchings in which weights were applied
)


@dataclass(frozen=True)
class TmcCase(Case):
    """Two animals; the third picture is the first one enlarged."""

    a: Path
    b: Path


@dataclass(frozen=True)
class Direct:
    """The matches A-C that agree, and what random points would reach against them."""

    c: np.ndarray  # N x 2, from 0 to 1
    matches: int  # before those that disagree were removed
    chance: float


@dataclass(frozen=True, kw_only=True)
class OneHop:
    """Matches A-B and B-C that meet in B, row by row; positions from 0 to 1."""

    a: np.ndarray
    b_in: np.ndarray
    b_out: np.ndarray
    c: np.ndarray
    matches_ab: int
    matches_bc: int
    weighted: float  # share of the two in which weights were applied
    a_to_c: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        """Return how far from its true place in C each point of A ended."""
        return paired_errors(self.a, self.c, self.a_to_c)

    @property
    def blind_errors(self) -> np.ndarray:
        """Return the same for points that stay where they are."""
        return paired_errors(self.a, self.a, self.a_to_c)

    @property
    def in_c(self) -> np.ndarray:
        """Return which points of A are inside of C."""
        places = warp_points(self.a_to_c, self.a)
        return np.asarray(((places >= 0) & (places <= 1)).all(axis=1))


class TmcBenchmark(Benchmark):
    """Measures how well parts of one animal are found in another."""

    name = 'tmc'
    title = 'Faces of animals: share of points that come back from a detour via another animal.'
    folders = (AFHQ,)
    default_methods = (
        'alike',
        'plain',
        'sew',
        'uniform',
        'shuffled',
        'sew+classifier',
        'uniform+classifier',
        'shuffled+classifier',
        'sew+agreement',
        'uniform+agreement',
        'shuffled+agreement',
        'sew+nop',
        'sift',
    )
    main_metric = 'paired_pck_10'
    depends_on_acceptance = False

    def find_cases(self) -> Iterable[TmcCase]:
        """Return every ordered pair of one class, and every pair of two classes once.

        Both orders of pairs across classes would take half as long again. So their order
        alternates, and each picture is A about equally often.
        """
        found = [
            (kind, file)
            for kind in CLASSES
            for file in sorted((self.data / AFHQ / kind).glob('*.jpg'))
        ]
        for (i, (kind_a, a)), (j, (kind_b, b)) in permutations(enumerate(found), 2):
            if kind_a == kind_b or (i < j) == ((i + j) % 2 == 0):
                unit = f'{kind_a}/{a.stem}'
                name = f'{unit}-{kind_b}/{b.stem}'
                group = group_of(kind_a, kind_b)
                yield TmcCase(name=name, pair=name, unit=unit, group=group, a=a, b=b)

    def measure(self, case: TmcCase, method: Method, runner: MethodRunner) -> Record:
        """Compare direct matches with those that go through another animal."""
        a, b, c = triangle(case)
        direct = direct_matches(runner, method, a, c)
        hop = hop_through(runner, method, a, b, c)
        moved = Picture(f'{a.name} moved', moved_right(a.pixels))
        far = hop_through(runner, method, a, b, moved, A_TO_MOVED)
        far_errors = far.errors[far.in_c]
        found = asdict(consistency(direct.c, hop.c))
        errors = hop.errors
        return {
            **found,
            # Nothing found is the largest distance, sqrt(2); all numbers here end at 1.
            'rmse': min(1.0, found['rmse']),
            'paired_pck_05': share_within(errors, 0.05),
            'paired_pck_10': share_within(errors, 0.10),
            'blind_paired_pck_05': share_within(hop.blind_errors, 0.05),
            'blind_paired_pck_10': share_within(hop.blind_errors, 0.10),
            'moved_paired_pck_05': share_within(far_errors, 0.05),
            'moved_paired_pck_10': share_within(far_errors, 0.10),
            'paired_recall_05': recall_of_right(direct.c, hop.c, errors, 0.05),
            'paired_recall_10': recall_of_right(direct.c, hop.c, errors, 0.10),
            'chance_pck_05': direct.chance,
            'weighted': hop.weighted,
            'matches_ac': direct.matches,
            'agreeing_ac': len(direct.c),
            'matches_ab': hop.matches_ab,
            'matches_bc': hop.matches_bc,
            'joined': len(errors),
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the averages over all triangles, and over those of each group."""
        values = np.array(list(map(itemgetter(*METRICS), records))).reshape(-1, len(METRICS))
        groups = np.array([record['group'] for record in records])
        chosen = {'': values, **{f'_{group}': values[groups == group] for group in GROUPS}}
        return {
            f'{name}{suffix}': float(value)
            for suffix, part in chosen.items()
            for name, value in zip(METRICS, average(part), strict=True)
        }

    def quality(self, record: Record) -> float:
        """Rank by how many points come back to their place."""
        return float(record['paired_pck_10'])

    def picture(self, case: TmcCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw which points of A come through B to their place in C, and which do not."""
        a, b, c = triangle(case)
        hop = hop_through(runner, method, a, b, c)
        right = hop.errors <= SHOWN_TOLERANCE
        canvas, panels = arrange([picture.pixels for picture in (a, b, c)], 1280)
        ends = [
            whole(warp_points(panel.from_image, pixels_at(points, picture)) + panel.corner)
            for panel, picture, points in (
                (panels[0], a, hop.a),
                (panels[1], b, hop.b_in),
                (panels[1], b, hop.b_out),
                (panels[2], c, hop.c),
            )
        ]
        size = panels[0].text_size
        # The wrong ones first, so that the right ones are on top.
        for wanted, colour in ((False, VERMILLION), (True, SKY)):
            rows = np.flatnonzero(right == wanted)
            for row in rows[np.linspace(0, len(rows) - 1, min(MAX_LINES, len(rows))).astype(int)]:
                places = [points[row] for points in ends]
                for start, end in pairwise(places):
                    draw_line(canvas, start, end, colour, 1)
                for place in places:
                    draw_dot(canvas, place, colour, size)
        for panel, name in zip(panels, 'ABC', strict=True):
            height, width = panel.pixels.shape[:2]
            write_label(panel, name, (0, height, width, height))
        matches = f'{hop.matches_ab} A-B, {hop.matches_bc} B-C'
        top = banner(
            canvas.shape[1],
            SLATE,
            headline=f'{right.sum()} of {len(right)} come back',
            note=f'within {SHOWN_TOLERANCE:.2f} of the size',
            paragraphs=[('method', method.name), ('matches', matches)],
            lines_each=1,
        )
        return framed(top, canvas, line_entries(size))


def group_of(one: str, other: str) -> str:
    """Return the group of a triangle with animals of these classes."""
    return one if one == other else next(g for g in GROUPS if {*g.split('_')} == {one, other})


def triangle(case: TmcCase) -> tuple[Picture, Picture, Picture]:
    """Return A, B and C."""
    a, b = (Picture(str(path), read_image(path)) for path in (case.a, case.b))
    return a, b, Picture(f'{a.name} enlarged', enlarged(a.pixels))


def enlarged(pixels: np.ndarray) -> np.ndarray:
    """Return the inner part of a picture, as large as the whole."""
    return seen_from(A_TO_C, pixels)


def moved_right(pixels: np.ndarray) -> np.ndarray:
    """Return a picture smaller and further to the right, on ground of its mean colour."""
    return seen_from(A_TO_MOVED, pixels, pixels.mean(axis=(0, 1)).tolist())


def seen_from(
    transform: np.ndarray, pixels: np.ndarray, ground: Sequence[float] = (0, 0, 0)
) -> np.ndarray:
    """Return a picture after an affine transform of positions from 0 to 1, in the same size."""
    height, width = pixels.shape[:2]
    # Pixel centres are integers, so the picture begins at -0.5.
    to_pixels = np.array([[width, 0, -0.5], [0, height, -0.5], [0, 0, 1]])
    matrix = to_pixels @ transform @ np.linalg.inv(to_pixels)
    return cv2.warpAffine(pixels, matrix[:2], (width, height), borderValue=tuple(ground))


def direct_matches(runner: MethodRunner, method: Method, a: Picture, c: Picture) -> Direct:
    """Return the matches A-C that agree; they are the same for every B, so found once."""

    def find() -> Direct:
        answer = runner.match(method, a, c)
        points = positions(answer.correspondences.image_points[answer.evidence.inliers], c)
        chance = chance_pck(points, 0.05, BLIND_POINTS, np.random.default_rng(0))
        return Direct(points, len(answer.correspondences), chance)

    return runner.once(('tmc direct', method, a.name), find)


def hop_through(
    runner: MethodRunner,
    method: Method,
    a: Picture,
    b: Picture,
    c: Picture,
    a_to_c: np.ndarray = A_TO_C,
) -> OneHop:
    """Join the matches A-B with the matches B-C where they meet in B."""
    a_to_b = runner.once(
        ('tmc through', method, a.name, b.name), lambda: runner.match(method, a, b)
    )
    b_to_c = runner.match(method, b, c)
    ab, bc = a_to_b.correspondences, b_to_c.correspondences
    if b_to_c.match.parts is not None:
        # A field carries any point, so nothing needs to be joined.
        carried = b_to_c.match.parts.carry(ab.image_points).places
        in_b = positions(ab.image_points, b)
        return OneHop(
            a=positions(ab.reference_points, a),
            b_in=in_b,
            b_out=in_b,
            c=positions(carried, c),
            matches_ab=len(ab),
            matches_bc=len(bc),
            weighted=0.0,
            a_to_c=a_to_c,
        )
    as_image, as_reference = features_of(runner, method, b)
    rows_ab, rows_bc = one_hop(
        positions(ab.image_points, b),
        descriptors_at(as_image, ab.image_points),
        positions(bc.reference_points, b),
        descriptors_at(as_reference, bc.reference_points),
    )
    return OneHop(
        a=positions(ab.reference_points[rows_ab], a),
        b_in=positions(ab.image_points[rows_ab], b),
        b_out=positions(bc.reference_points[rows_bc], b),
        c=positions(bc.image_points[rows_bc], c),
        matches_ab=len(ab),
        matches_bc=len(bc),
        weighted=(a_to_b.weighted + b_to_c.weighted) / 2,
        a_to_c=a_to_c,
    )


def features_of(
    runner: MethodRunner, method: Method, picture: Picture
) -> tuple[Features | ClassicalFeatures, Features | ClassicalFeatures]:
    """Return the features of a picture, as an image and as a reference."""
    if method.classical:
        matcher = runner.classical(method.classical)
        # The key of MethodRunner.match, so that nothing is computed twice.
        seen = runner.once(
            (method.classical, picture.name), lambda: matcher.extract(picture.pixels)
        )
        return seen, seen
    return (
        runner.analysis(method, picture).features,
        runner.reference(method, picture).features,
    )


def descriptors_at(features: Features | ClassicalFeatures, points: np.ndarray) -> np.ndarray:
    """Return the descriptors of keypoints, unit length and without any weight.

    If SIFT has several keypoints at one position, the first one is used for all.
    """
    if isinstance(features, ClassicalFeatures):
        keypoints, descriptors = features.keypoints, unit_length(features.descriptors)
    else:
        keypoints = features.keypoints.cpu().numpy()
        descriptors = features.descriptors.float().cpu().numpy()
    rows: dict[bytes, int] = {}
    for row, place in enumerate(keypoints):
        rows.setdefault(place.tobytes(), row)
    return descriptors[[rows[place.tobytes()] for place in points]]


def unit_length(descriptors: np.ndarray) -> np.ndarray:
    """Return classical descriptors in the scale of those of networks.

    The bits of ORB, packed into bytes, first become -1 and 1.
    """
    if descriptors.dtype == np.uint8:
        descriptors = 2.0 * np.unpackbits(descriptors, axis=1) - 1
    lengths = np.linalg.norm(descriptors, axis=1, keepdims=True)
    return descriptors / np.maximum(lengths, 1e-9)


def positions(points: np.ndarray, picture: Picture) -> np.ndarray:
    """Return pixels as positions from 0 to 1; pixel centres are integers."""
    return (points + 0.5) / size_of(picture)


def pixels_at(points: np.ndarray, picture: Picture) -> np.ndarray:
    """Return positions from 0 to 1 as pixels."""
    return points * size_of(picture) - 0.5


def size_of(picture: Picture) -> np.ndarray:
    """Return width and height."""
    return np.array([picture.box.width, picture.box.height], np.float64)


def recall_of_right(
    direct_c: np.ndarray, hop_c: np.ndarray, errors: np.ndarray, tau: float
) -> float:
    """Return the share of direct points near which a point of A arrived correctly.

    The counterpart of paired_pck: a matcher that transfers a single point correctly has a
    perfect share of right points, but covers next to nothing.
    """
    arrived = hop_c[errors <= tau]
    if not len(direct_c) or not len(arrived):
        return 0.0
    return share_within(nearest_distances(direct_c, arrived), tau)


def average(values: np.ndarray) -> np.ndarray:
    """Return the mean of each column; NaN if there are no rows."""
    return values.mean(axis=0) if len(values) else np.full(values.shape[1], np.nan)


def line_entries(size: int) -> list[Entry]:
    """Return the legend of the lines."""
    entries = []
    for colour, text in ((SKY, 'comes back'), (VERMILLION, 'ends elsewhere')):
        symbol = empty_symbol(size)
        left, top, right, bottom = symbol_area(size)
        middle = (top + bottom) // 2
        draw_line(symbol, (left, middle), (right, middle), colour, 1 + size // 12)
        entries.append((symbol, text))
    return entries
