"""The networks, loaded once and shared by everything that looks at images."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import numpy as np
import torch

from niom_ros.core.plugins import DETECTORS, EXTRACTORS, FAILED, LABEL_EMBEDDERS
from niom_ros.core.settings import choose_device, Pairing, Settings, SettingsError
from niom_ros.drawings.edges import Edges, find_edges
from niom_ros.matching.features import Extractor, Features
from niom_ros.matching.keypoint_matcher import load_matcher
from niom_ros.models.store import ModelStore
from niom_ros.semantics.correspondence.features import PartFeatures
from niom_ros.semantics.detectors.loading import load_detector
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.pairing import pair_objects, PairedObjects
from niom_ros.semantics.scene import Hints, Scene, SceneReader

Result = TypeVar('Result')


class Perception:
    """Loads the networks that the settings name. Safe to use from several threads."""

    def __init__(self, settings: Settings, store: ModelStore) -> None:
        """Load the networks from the model store."""
        device = choose_device(settings.device)
        if settings.precision == 'half' and device.type != 'cuda':
            raise SettingsError("precision 'half' is for CUDA GPUs: use 'single' on the CPU")
        torch.backends.cudnn.deterministic = True  # the same image, the same answer
        self.settings = settings
        self.device = device
        self.extractor = Extractor(settings, store, device)
        self.keypoint_matcher = load_matcher(settings, store, device)
        detector = load_detector(settings, store, device)
        self._embedder = LabelEmbedder(settings, store, device)
        self._embedder.prepare()  # now, so that its errors are reported at the start
        self._reader = SceneReader(detector, self._embedder, settings.fallback, device)
        self.store, self._loading = store, Lock()
        self._part_features: PartFeatures | None = None
        self._detector_thread = ThreadPoolExecutor(1, 'detector')

    @property
    def method(self) -> str:
        """Return the names of extractor and matcher, such as 'aliked+lightglue'."""
        return f'{self.settings.extractor}+{self.settings.matcher}'

    def extract(self, image: np.ndarray) -> Features:
        """Return the keypoints and descriptors of an RGB image."""
        with self._precision(), EXTRACTORS.blaming(self.settings.extractor, FAILED):
            return self.extractor.extract(image)

    def read_scene(self, image: np.ndarray) -> Scene:
        """Return the objects of a camera image."""
        with self._precision(), DETECTORS.blaming(self.settings.detector, FAILED):
            return self._reader.read_image(image)

    def read_reference(self, image: np.ndarray, hints: Hints, mask: np.ndarray | None) -> Scene:
        """Return the objects of a reference."""
        with self._precision(), DETECTORS.blaming(self.settings.detector, FAILED):
            return self._reader.read_reference(image, hints, mask)

    def find_edges(self, image: np.ndarray) -> Edges:
        """Return the edges of an image."""
        return find_edges(image, self.device)

    def load_part_features(self) -> PartFeatures:
        """Return the networks that describe parts, loaded with the first strategy that asks."""
        with self._loading:
            if self._part_features is None:
                self._part_features = PartFeatures(self.store, self.device)
            return self._part_features

    def pair(self, reference: Scene, image: Scene, pairing: Pairing) -> PairedObjects:
        """Pair the objects of a reference with those of an image."""
        with LABEL_EMBEDDERS.blaming(self.settings.label_embedder, FAILED):
            return pair_objects(reference.objects, image.objects, pairing, self._embedder)

    def in_parallel(self, work: Callable[[], Result]) -> Future[Result]:
        """Run work of the detector in its own thread."""
        return self._detector_thread.submit(work)

    def _precision(self) -> torch.autocast:
        half = self.settings.precision == 'half'
        return torch.autocast(self.device.type, torch.float16, enabled=half)
