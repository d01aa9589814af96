"""sketch: a contour drawing by a person, to be found in the photo that it was drawn from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import itertools
import math
from pathlib import Path

import cv2
import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from niom_ros.benchmarks.evaluation.answers import error_or_infinity, WRONG, wrong_share
from niom_ros.benchmarks.evaluation.benchmark import Case, of_group, Record, share
from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.locating import LocatingBenchmark
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.images.decoding import read_image

BSDS = 'drawing/bsds'
STANDARD = 'standard'
HARDER = ('rotated', 'scaled', 'cluttered', 'small')
AMONG_CLUTTER = ('cluttered', 'small')
SETTINGS = (STANDARD, *HARDER)
WARPS = 3  # of each drawing in each setting: enough that 2 % of the answers are more than one


@dataclass(frozen=True)
class ViewParameters:
    """How a camera may see the photo."""

    corner_shift: float = 0.12  # of width and height, either way
    angle: float = 10.0  # degrees either way
    scale: float = 0.85
    scales: tuple[float, float] = (0.4, 1.6)  # of the setting 'scaled'
    share_of_frame: tuple[float, float] = (0.2, 1.0)  # that the photo fills among clutter
    small_scales: tuple[float, float] = (0.3, 0.45)  # of the setting 'small', also among clutter


VIEWS = ViewParameters()


@dataclass(frozen=True)
class SketchCase(Case):
    """A photo with its drawing, and how the camera sees it."""

    photo: Path
    drawing: Path
    clutter: Path  # another photo
    warp: int  # which of the views in this setting


class SketchBenchmark(LocatingBenchmark):
    """Measures how often an object is found by its drawing."""

    name = 'sketch'
    title = 'Contour drawings found in the photo: share within 10 and 20 px of mean corner error.'
    folders = (BSDS,)
    default_methods = ('default', 'ink', 'plain', 'sew', 'uniform', 'shuffled', 'sift', 'orb')
    main_metric = 'success_10px'

    def find_cases(self) -> Iterable[SketchCase]:
        """Return some views of each photo that has a drawing, in each setting."""
        photos = sorted((self.data / BSDS).glob('*.jpg'))
        photos = [photo for photo in photos if photo.with_suffix('.mat').is_file()]
        for index, photo in enumerate(photos):
            clutter = photos[(index + len(photos) // 2) % len(photos)]
            for group, warp in itertools.product(SETTINGS, range(WARPS)):
                yield SketchCase(
                    name=f'{photo.stem}/{group}' + (f'/{warp}' if warp else ''),
                    pair=photo.stem,
                    unit=series_of(photo),
                    group=group,
                    photo=photo,
                    drawing=photo.with_suffix('.mat'),
                    clutter=clutter,
                    warp=warp,
                )

    def pictures(self, case: SketchCase) -> tuple[Picture, Picture, np.ndarray]:
        """Return the drawing, the camera image, and the homography between them."""
        drawing, photo = drawing_of(case.drawing), read_image(case.photo)
        random = np.random.default_rng([self.seed, *case.name.encode()])
        height, width = photo.shape[:2]
        truth = random_view(width, height, case.group, random)
        if case.group in AMONG_CLUTTER:
            behind = cv2.resize(read_image(case.clutter), (width, height))
            image = cv2.warpPerspective(
                photo, truth, (width, height), dst=behind.copy(), borderMode=cv2.BORDER_TRANSPARENT
            )
        else:
            image = cv2.warpPerspective(
                photo, truth, (width, height), borderMode=cv2.BORDER_REFLECT_101
            )
        return (
            Picture(str(case.drawing), drawing),
            Picture(f'{case.photo} {case.name} {self.seed}', image),
            truth,
        )

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the shares of drawings that were found, for each setting."""
        metrics = {}
        for group in SETTINGS:
            chosen = of_group(records, group)
            suffix = '' if group == STANDARD else f'_{group}'
            errors = [error_or_infinity(record) for record in chosen]
            metrics[f'success_10px{suffix}'] = share(error < 10 for error in errors)
            metrics[f'success_20px{suffix}'] = share(error < 20 for error in errors)
            metrics[f'wrong_accepted{suffix}'] = wrong_share(chosen)
            claims = [record for record in chosen if record['accepted']]
            metrics[f'wrong_accepted_upper{suffix}'] = upper_bound(
                sum(error_or_infinity(record) >= WRONG for record in claims), len(claims)
            )
            metrics[f'accepted{suffix}'] = share(record['accepted'] for record in chosen)
        return metrics


def series_of(path: Path) -> str:
    """Return the series that a BSDS picture is from: 108005 and 108070 show the same tigers."""
    return f'bsds series {path.stem[:-3]}'


def drawing_of(path: Path) -> np.ndarray:
    """Return what the most thorough annotator of a BSDS photo drew, black on white."""
    try:
        annotators = loadmat(path)['groundTruth'][0]
        boundaries = [annotator['Boundaries'][0, 0] for annotator in annotators]
    except (MatReadError, NotImplementedError, LookupError, TypeError, ValueError) as error:
        raise UserError(
            f'{path} is not a BSDS file of boundaries ({error}): fetch it again'
        ) from None
    ink = max(boundaries, key=np.count_nonzero).astype(np.uint8)
    ink = cv2.dilate(ink, np.ones((2, 2), np.uint8))
    paper = np.where(ink > 0, 0, 255).astype(np.uint8)
    return cv2.cvtColor(cv2.GaussianBlur(paper, (3, 3), 0.8), cv2.COLOR_GRAY2RGB)


def random_view(width: int, height: int, setting: str, random: np.random.Generator) -> np.ndarray:
    """Return a homography from a picture to a camera image of the same size.

    Each corner is moved, then the whole is rotated and scaled about the centre. By how much
    depends on the setting.
    """
    corners = Box(0, 0, width, height).corners()
    size = np.array([width, height])
    moved = corners + random.uniform(-VIEWS.corner_shift, VIEWS.corner_shift, (4, 2)) * size
    bent = cv2.getPerspectiveTransform(corners.astype(np.float32), moved.astype(np.float32))
    angle = random.uniform(-VIEWS.angle, VIEWS.angle)
    scale, shift = VIEWS.scale, np.zeros(2)
    if setting == 'rotated':
        angle = random.uniform(0, 360)
    elif setting == 'scaled':
        scale = math.exp(random.uniform(*np.log(VIEWS.scales)))
    elif setting in AMONG_CLUTTER:
        scale = (
            random.uniform(*VIEWS.small_scales)
            if setting == 'small'
            else math.sqrt(random.uniform(*VIEWS.share_of_frame))
        )
        shift = random.uniform(-0.5, 0.5, 2) * (1 - scale) * size
    centre = (size - 1) / 2
    turned = np.eye(3)
    turned[:2] = cv2.getRotationMatrix2D(tuple(centre), angle, scale)
    turned[:2, 2] += shift
    return turned @ bent
