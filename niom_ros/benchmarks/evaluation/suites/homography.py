"""homography: flat scenes from other viewpoints, at other scales and in other light."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_or_infinity, wrong_share
from niom_ros.benchmarks.evaluation.benchmark import Case, Record
from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.metrics import error_auc
from niom_ros.benchmarks.evaluation.suites.locating import LocatingBenchmark
from niom_ros.core.errors import UserError
from niom_ros.images.decoding import read_image

OXFORD = 'homography/oxford'
HOMOGR = 'homography/homogr'
THRESHOLDS = (3, 5, 10)  # pixels


@dataclass(frozen=True)
class HomographyCase(Case):
    """Two photos of a flat scene, and where points of the first are in the second."""

    reference: Path
    image: Path
    reference_to_image: tuple[tuple[float, ...], ...]


class HomographyBenchmark(LocatingBenchmark):
    """Measures how exactly the homography is found."""

    name = 'homography'
    title = 'Flat scenes: area under the curve of corner errors, refusals counted as misses.'
    folders = (OXFORD, HOMOGR)
    default_methods = ('default', 'plain', 'sew', 'sew+nop', 'uniform', 'shuffled', 'sift', 'orb')
    main_metric = 'auc_5'
    stratified = True

    def find_cases(self) -> Iterable[HomographyCase]:
        """Return the pairs of Oxford's scenes (first image to each other) and of homogr."""
        for file in sorted((self.data / OXFORD).glob('*/H1to*p.xml')):
            scene, number = file.parent, file.name.removeprefix('H1to').removesuffix('p.xml')
            images = scene / 'img1.png', scene / f'img{number}.png'
            name = f'oxford/{scene.name}/1-{number}'
            yield self._case(name, scene.name, *images, read_matrix(file))
        for file in sorted((self.data / HOMOGR).glob('*_model.txt')):
            name = file.name.removesuffix('_model.txt')
            found = [sorted(file.parent.glob(f'{name}{side}.*')) for side in 'AB']
            if not all(found):
                raise UserError(f'{file} has no pictures {name}A and {name}B beside it')
            first, second = (files[0] for files in found)
            # The file maps B to A, but the first picture is the reference.
            matrix = np.linalg.inv(read_matrix(file))
            yield self._case(f'homogr/{name}', name, first, second, matrix)

    def _case(
        self, name: str, unit: str, reference: Path, image: Path, matrix: np.ndarray
    ) -> HomographyCase:
        return HomographyCase(
            name=name,
            pair=name,
            unit=unit,
            group=name.partition('/')[0],
            reference=reference,
            image=image,
            reference_to_image=tuple(map(tuple, (matrix / matrix[2, 2]).tolist())),
        )

    def pictures(self, case: HomographyCase) -> tuple[Picture, Picture, np.ndarray]:
        """Return the two photos and the homography between them."""
        first, second = (
            Picture(str(path), read_image(path)) for path in (case.reference, case.image)
        )
        return first, second, np.array(case.reference_to_image)

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the area under the curve of errors, also by set, and how many claims are wrong.

        A scene of Oxford is a set of its own: one is turned and zoomed, others are not.
        """
        errors = [error_or_infinity(record) for record in records]
        metrics = {f'auc_{limit}': error_auc(errors, limit) for limit in THRESHOLDS}
        by_set: dict[str, list[float]] = {}
        for record, error in zip(records, errors, strict=True):
            name = record['unit' if record['group'] == 'oxford' else 'group']
            by_set.setdefault(name, []).append(error)
        metrics |= {f'auc_10_{name}': error_auc(found, 10) for name, found in by_set.items()}
        return {**metrics, 'wrong_accepted': wrong_share(list(records))}


def read_matrix(file: Path) -> np.ndarray:
    """Return the 3 x 3 matrix of a text file, or of an XML file as OpenCV writes it."""
    try:
        text = file.read_text()
        if file.suffix == '.xml':
            text = ElementTree.fromstring(text.strip()).findtext('.//data') or ''
        matrix = np.array(text.split(), float).reshape(3, 3)
        np.linalg.inv(matrix)  # refuses a singular matrix
        return matrix
    except (ValueError, ElementTree.ParseError, np.linalg.LinAlgError) as error:
        raise UserError(
            f'{file} does not contain a 3 x 3 matrix ({error}): fetch it again'
        ) from None
