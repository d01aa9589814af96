"""pose: how the camera moved between two photos of a place, clean and corrupted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
import math
from pathlib import Path

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, NotMeasurable, Record, share
from niom_ros.benchmarks.evaluation.corruptions import (
    check_name,
    CorruptedImages,
    CORRUPTIONS,
    LibraryMissing,
    seed_of,
    versions,
)
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.metrics import error_auc, pose_error, relative_pose
from niom_ros.benchmarks.evaluation.pictures import draw_answer
from niom_ros.core.errors import UserError
from niom_ros.images.decoding import read_image

STRECHA = 'pose/strecha'
SCANNET = 'pose/scannet15'
THRESHOLDS = (5, 10, 20)  # degrees

# Pixels from its epipolar line within which a match agrees with a movement. The networks see the
# photos 1.3 to 1.5 times smaller. AUC@5 of plain matching with 0.5 / 1 / 2 / 4 pixels: .99 / .99 /
# .98 / .98 on clean photos, .70 / .77 / .83 / .82 under noise (8 pairs of Strecha each).
AGREEMENT = 2.0

CLEAN = 'clean'
BOTH = 'both'  # images are corrupted
ONE = 'one'  # the second image is corrupted, the first is clean

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PhotoPair:
    """A line of a file of pairs: two photos, their cameras, and the movement between them."""

    name: str
    photos: tuple[Path, Path]
    cameras: tuple[Matrix, Matrix]  # 3 x 3 each, for photos of the size that the files have
    motion: Matrix  # 4 x 4, from the frame of the first camera to that of the second


@dataclass(frozen=True)
class PoseCase(Case):
    """Two photos, each clean or corrupted."""

    photos: PhotoPair
    corruptions: tuple[str, str]  # of the first and the second photo; '': clean


class PoseBenchmark(Benchmark):
    """Measures the camera movement computed from the matches of two photos."""

    name = 'pose'
    title = 'Camera movement: area under the curve of the larger of both angular errors.'
    folders = (STRECHA, SCANNET)
    default_methods = ('plain', 'sew', 'uniform', 'shuffled', 'sew+nop', 'sift', 'orb')
    main_metric = 'auc_20_clean'
    depends_on_acceptance = False

    def __init__(self, data: Path, seed: int, corruptions: Sequence[str] = CORRUPTIONS) -> None:
        """Store the data folder and how to corrupt the photos; () leaves all clean."""
        super().__init__(data, seed)
        for corruption in corruptions:
            check_name(corruption)
        self.corruptions = tuple(corruptions)

    def find_cases(self) -> Iterable[PoseCase]:
        """Return each pair clean, and with each corruption of both photos and of the second."""
        if self.corruptions:
            try:
                versions()
            except LibraryMissing as error:
                raise NotMeasurable(f'{error}; or use --corruptions none') from None
        for pair in self._pairs():
            # The two cases of a corrupted photo are adjacent, so that it is processed once.
            conditions = [(CLEAN, '', '')]
            for corruption in self.corruptions:
                conditions.append((f'{BOTH}/{corruption}', corruption, corruption))
                conditions.append((f'{ONE}/{corruption}', '', corruption))
            for group, first, second in conditions:
                yield PoseCase(
                    name=f'{pair.name} {group}',
                    pair=pair.name,
                    unit=pair.name,
                    group=group,
                    photos=pair,
                    corruptions=(first, second),
                )

    def _pairs(self) -> Iterator[PhotoPair]:
        """Return the pairs of all files, each once."""
        known: set[str] = set()
        for folder in self.folders:
            for file in sorted((self.data / folder).glob('*pairs_with_gt.txt')):
                for place, pair in read_pairs(file):
                    if pair.name in known:
                        raise UserError(f'{place} repeats the pair {pair.name}: remove it')
                    known.add(pair.name)
                    yield pair

    def measure(self, case: PoseCase, method: Method, runner: MethodRunner) -> Record:
        """Compare the movement that follows from all matches with the true one."""
        answer = runner.match(method, *self._pictures(case))
        matches = answer.correspondences
        # All matches, not only the inliers of a homography: the scenes are not flat.
        points = matches.reference_points, matches.image_points
        return {
            'error': motion_error(*points, case.photos),
            'matches': len(matches),
            'weighted': answer.weighted,
        }

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the areas under the curves; of the corruptions also the mean, as in the paper."""
        errors: dict[str, list[float]] = {}
        for record in records:
            errors.setdefault(record['group'], []).append(record['error'])
        metrics = {'weighted': share(record['weighted'] for record in records)}
        for limit in THRESHOLDS:
            areas = {group: error_auc(values, limit) for group, values in errors.items()}
            if CLEAN in areas:
                metrics[f'auc_{limit}_{CLEAN}'] = areas[CLEAN]
            for kind in (BOTH, ONE):
                of_kind = {
                    group.replace('/', '_'): area
                    for group, area in areas.items()
                    if group.startswith(f'{kind}/')
                }
                if of_kind:
                    metrics[f'auc_{limit}_{kind}'] = sum(of_kind.values()) / len(of_kind)
                metrics.update({f'auc_{limit}_{name}': area for name, area in of_kind.items()})
        return metrics

    def quality(self, record: Record) -> float:
        """Rank smaller errors better."""
        return -float(record['error'])

    def picture(self, case: PoseCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the matches."""
        return draw_answer(method, runner, *self._pictures(case))

    def variant(self) -> str:
        """Return the versions of everything that affects the pixels of corrupted photos."""
        try:
            return ' '.join(versions())
        except LibraryMissing:
            if self.corruptions:
                raise
            return ''

    def _pictures(self, case: PoseCase) -> tuple[Picture, Picture]:
        first, second = (
            self._picture(photo, corruption)
            for photo, corruption in zip(case.photos.photos, case.corruptions, strict=True)
        )
        return first, second

    def _picture(self, photo: Path, corruption: str) -> Picture:
        """Read a photo and corrupt it, with noise that no other photo has."""
        pixels = read_image(photo)
        if not corruption:
            return Picture(str(photo), pixels)
        seed = seed_of(self.seed, photo.relative_to(self.data).as_posix(), corruption)
        corrupted = CorruptedImages().get(pixels, corruption, seed)
        return Picture(f'{photo} {corruption} {seed}', corrupted)


def read_pairs(file: Path) -> Iterator[tuple[str, PhotoPair]]:
    """Return where in a file each pair is, and the pair; the format is that of SuperGlue.

    A line has two file names, two rotations, K of both cameras (9 numbers each) and the movement
    (16 numbers). The names are relative to the folder of the file.
    """
    try:
        lines = file.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f'{file} cannot be read as text: {error}') from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f'{file}, line {number}'
            yield place, read_pair(line.split(), file.parent, place)


def read_pair(words: list[str], folder: Path, place: str) -> PhotoPair:
    """Return the pair that a line describes, or say what is wrong with the line."""
    if len(words) != 38:
        raise UserError(
            f'{place} has {len(words)} entries, not 38: two file names, two rotations, '
            '9 numbers of each camera, 16 of the movement'
        )
    if words[2:4] != ['0', '0']:
        raise UserError(f'{place} asks for rotated photos: turn them upright and write 0 0')
    try:
        numbers = np.array(words[4:], np.float64)
    except ValueError as error:
        raise UserError(f'{place} has an entry that is not a number: {error}') from None
    cameras, motion = numbers[:18].reshape(2, 3, 3), numbers[18:].reshape(4, 4)
    check_numbers(cameras, motion, place)
    photos = folder / words[0], folder / words[1]
    for photo in photos:
        if not photo.is_file():
            raise UserError(f'{place} names {photo}, which does not exist')
    names = [Path(word).with_suffix('') for word in words[:2]]
    second = names[1].name if names[0].parent == names[1].parent else names[1].as_posix()
    return PhotoPair(
        f'{folder.name}/{names[0].as_posix()}-{second}',
        photos,
        (rows(cameras[0]), rows(cameras[1])),
        rows(motion),
    )


def check_numbers(cameras: np.ndarray, motion: np.ndarray, place: str) -> None:
    """Refuse matrices that no camera and no movement can have."""
    if not (np.isfinite(cameras).all() and np.isfinite(motion).all()):
        raise UserError(f'{place} has a number that is not finite')
    if (cameras[:, [0, 1], [0, 1]] <= 0).any() or (cameras[:, 2] != [0, 0, 1]).any():
        raise UserError(f'{place} has an invalid K: it must be fx 0 cx 0 fy cy 0 0 1')
    rotation = motion[:3, :3]
    # Files have as few as five decimals.
    turned = np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-3)
    if not turned or np.linalg.det(rotation) < 0 or (motion[3] != [0, 0, 0, 1]).any():
        raise UserError(f'{place} has a T_0to1 that is not a rigid transform')


def rows(matrix: np.ndarray) -> Matrix:
    """Return a matrix as tuples, which cannot be changed."""
    return tuple(map(tuple, matrix.tolist()))


def motion_error(points0: np.ndarray, points1: np.ndarray, pair: PhotoPair) -> float:
    """Return the error in degrees of the movement that fits the matches."""
    camera0, camera1 = map(np.array, pair.cameras)
    motion = relative_pose(points0, points1, camera0, camera1, AGREEMENT)
    if motion is None:
        return math.inf
    truth = np.array(pair.motion)
    return pose_error(*motion, truth[:3, :3], truth[:3, 3])
