"""From a reference and an image to a verdict: the flow of the README as one class."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
import time

import cv2
import numpy as np

from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Extractor
from niom_ros.matching.features import Features
from niom_ros.matching.features import SMALLEST_SIDE
from niom_ros.matching.geometry import Box
from niom_ros.matching.geometry import Limits
from niom_ros.matching.geometry import locate
from niom_ros.matching.geometry import Status
from niom_ros.matching.geometry import Verdict
from niom_ros.matching.images import check_size
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import TooPlain
from niom_ros.matching.matcher import LightGlueMatcher
from niom_ros.matching.settings import choose_device
from niom_ros.matching.settings import Settings
from niom_ros.models.store import ModelStore

PLENTY_OF_KEYPOINTS = 500


@dataclass(frozen=True)
class Reference:
    """What to look for: a picture with its features, computed once."""

    image: np.ndarray
    features: Features
    box: Box  # around the part of the picture that counts
    counting_area: int  # pixels of the box that are not masked
    matchability: float  # 0 hopeless, 1 as rich in keypoints as a textured photo

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the picture in pixels."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True)
class MatchOutcome:
    """What is known about one image."""

    verdict: Verdict
    correspondences: Correspondences = field(default_factory=Correspondences.none)
    image_keypoints: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def without_matches(cls, status: Status, message: str) -> 'MatchOutcome':
        """Return an outcome that never came as far as matching."""
        return cls(Verdict(status, message, np.zeros(0, bool)))


class Pipeline:
    """Finds references in images. Holds the networks; safe to use from several threads."""

    def __init__(self, settings: Settings, store: ModelStore | None = None) -> None:
        """Load the networks from the model store."""
        store = store or ModelStore()
        device = choose_device(settings.device)
        self.device = device.type
        self.method = f'{settings.extractor}+lightglue'
        self._plenty = min(PLENTY_OF_KEYPOINTS, settings.max_keypoints)
        self._extractor = Extractor(settings, store, device)
        self._matcher = LightGlueMatcher(settings.extractor, store, device)

    def prepare(
        self,
        image: np.ndarray,
        mask: np.ndarray | None = None,
        fewest_keypoints: int = Limits.min_inliers,
    ) -> Reference:
        """Make a reference of an RGB image; where the mask is 0, the image does not count."""
        height, width = image.shape[:2]
        check_size(width, height)
        box = Box(0, 0, width, height)
        counting_area = box.area
        if mask is not None:
            if mask.shape != (height, width):
                raise ImageError(
                    f'the mask has {mask.shape[1]} x {mask.shape[0]} pixels, '
                    f'but the reference has {width} x {height}: make them the same size'
                )
            box = Box(*cv2.boundingRect((mask != 0).astype(np.uint8)))
            counting_area = int(np.count_nonzero(mask))
        shrunk = self._extractor.shrunk_size(box.width, box.height)
        if min(shrunk) < SMALLEST_SIDE:
            raise ImageError(
                f'of the reference only {box.width} x {box.height} pixels count, '
                f'{shrunk[0]} x {shrunk[1]} after shrinking it to max_image_side: '
                f'it needs at least {SMALLEST_SIDE} in each direction'
            )
        # Only this part, so that its rest takes neither resolution nor keypoints from it.
        features = self._extractor.extract(box.part_of(image)).moved(
            box.left, box.top, width, height
        )
        if mask is not None:
            features = features.inside(mask)
        if len(features) < fewest_keypoints:
            raise TooPlain(
                f'the reference has only {len(features)} distinct points, and '
                f'{fewest_keypoints} must be found again: '
                'use a picture with more detail, a sharper one, or a larger region'
            )
        matchability = min(1.0, len(features) / self._plenty)
        return Reference(image, features, box, counting_area, matchability)

    def match(
        self, reference: Reference, image: np.ndarray, limits: Limits | None = None
    ) -> MatchOutcome:
        """Find the reference in an RGB image."""
        limits = limits or Limits()
        seconds: dict[str, float] = {}
        with timed('extract', seconds):
            features = self._extractor.extract(image)
        if len(features) < 4:
            message = (
                f'the image has only {len(features)} distinct points: '
                'check light, focus, lens cap and image size'
            )
            verdict = Verdict(Status.NO_KEYPOINTS, message, np.zeros(0, bool))
            return MatchOutcome(verdict, Correspondences.none(), len(features), seconds)
        with timed('match', seconds):
            correspondences = self._matcher.match(
                reference.features, features, limits.score_threshold
            )
        with timed('verify', seconds):
            image_box = Box(0, 0, features.width, features.height)
            verdict = locate(
                correspondences, reference.box, reference.counting_area, image_box, limits
            )
        return MatchOutcome(verdict, correspondences, len(features), seconds)


@contextmanager
def timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note how long a stage took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - start
