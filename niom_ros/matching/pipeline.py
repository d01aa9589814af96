"""From a reference and an image to a verdict: the flow of the README as one class."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
import time

import numpy as np

from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Extractor
from niom_ros.matching.features import Features
from niom_ros.matching.features import SMALLEST_SIDE
from niom_ros.matching.geometry import corners
from niom_ros.matching.geometry import Limits
from niom_ros.matching.geometry import locate
from niom_ros.matching.geometry import Status
from niom_ros.matching.images import check_size
from niom_ros.matching.images import ImageError
from niom_ros.matching.matcher import LightGlueMatcher
from niom_ros.matching.settings import choose_device
from niom_ros.matching.settings import Settings
from niom_ros.models.store import ModelStore

FEWEST_KEYPOINTS = 16  # a reference with fewer can never be found reliably


@dataclass(frozen=True)
class Reference:
    """What to look for: a picture with its features, computed once."""

    image: np.ndarray
    features: Features

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]

    def corners(self) -> np.ndarray:
        """Return the corner pixels, clockwise from the top left."""
        return corners(self.size)

    @property
    def matchability(self) -> float:
        """Return how rich in keypoints it is: 0 hopeless, 1 as rich as a textured photo."""
        return min(1.0, len(self.features) / 500)


@dataclass(frozen=True)
class MatchOutcome:
    """What is known about one image. There is a homography exactly when the status is OK."""

    status: Status
    message: str
    correspondences: Correspondences
    inliers: np.ndarray  # booleans, one for each correspondence
    reference_to_image: np.ndarray | None = None  # 3 x 3, pixels to pixels
    confidence: float = 0.0  # 0 to 1
    checks: dict[str, float] = field(default_factory=dict)
    image_keypoints: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a contradiction."""
        if (self.status is Status.OK) != (self.reference_to_image is not None):
            raise ValueError('a homography must be there exactly when the status is OK')

    @classmethod
    def without_matches(
        cls,
        status: Status,
        message: str,
        image_keypoints: int = 0,
        stage_seconds: dict[str, float] | None = None,
    ) -> 'MatchOutcome':
        """Return an outcome that never came as far as matching."""
        return cls(
            status,
            message,
            Correspondences.none(),
            np.zeros(0, bool),
            image_keypoints=image_keypoints,
            stage_seconds=stage_seconds or {},
        )


class Pipeline:
    """Finds references in images. Holds the networks; safe to use from several threads."""

    def __init__(self, settings: Settings, store: ModelStore | None = None) -> None:
        """Load the networks from the model store."""
        store = store or ModelStore()
        device = choose_device(settings.device)
        self.device = device.type
        self.method = f'{settings.extractor}+lightglue'
        self._extractor = Extractor(settings, store, device)
        self._matcher = LightGlueMatcher(settings.extractor, store, device)

    def prepare(self, image: np.ndarray, mask: np.ndarray | None = None) -> Reference:
        """Make a reference of an RGB image; where the mask is 0, the image does not count."""
        height, width = image.shape[:2]
        check_size(width, height)
        if min(width, height) < SMALLEST_SIDE:
            raise ImageError(
                f'the reference has only {width} x {height} pixels: '
                f'it needs at least {SMALLEST_SIDE} in each direction'
            )
        features = self._extractor.extract(image)
        if mask is not None:
            if mask.shape != (height, width):
                raise ImageError(
                    f'the mask has {mask.shape[1]} x {mask.shape[0]} pixels, '
                    f'but the reference has {width} x {height}: make them the same size'
                )
            features = features.inside(mask)
        if len(features) < FEWEST_KEYPOINTS:
            where = ' where it counts' if mask is not None else ''
            raise ImageError(
                f'the reference has only {len(features)} distinct points{where}, '
                f'{FEWEST_KEYPOINTS} is the least: '
                'use a picture with more detail, sharper, or a larger region'
            )
        return Reference(image, features)

    def match(
        self,
        reference: Reference,
        image: np.ndarray,
        limits: Limits | None = None,
        score_threshold: float = 0.1,
    ) -> MatchOutcome:
        """Find the reference in an RGB image."""
        limits = limits or Limits()
        seconds: dict[str, float] = {}
        with timed('extract', seconds):
            features = self._extractor.extract(image)
        if len(features) < 4:
            return MatchOutcome.without_matches(
                Status.NO_KEYPOINTS,
                f'the image has only {len(features)} distinct points: '
                'check light, focus, lens cap and image size',
                len(features),
                seconds,
            )
        with timed('match', seconds):
            correspondences = self._matcher.match(reference.features, features, score_threshold)
        with timed('verify', seconds):
            image_size = image.shape[1], image.shape[0]
            verdict = locate(correspondences, reference.size, image_size, limits)
        return MatchOutcome(
            verdict.status,
            verdict.message,
            correspondences,
            verdict.inliers,
            verdict.reference_to_image,
            verdict.confidence,
            verdict.checks,
            len(features),
            seconds,
        )


@contextmanager
def timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note how long a stage took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - start
