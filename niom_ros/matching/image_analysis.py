"""What the networks see in one image; each result is computed on first use."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Pairing
from niom_ros.drawings.edges import Edges
from niom_ros.matching.features import Features
from niom_ros.matching.perception import Perception
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.sift import sift_features, SiftFeatures, SiftParameters
from niom_ros.matching.stage_times import StageTimes
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

MAX_REFERENCES = 8  # for which something is kept of each image
MAX_SIFT = 2  # sets of parameters of SIFT

Value = TypeVar('Value')


class Once(Generic[Value]):
    """A value that the first caller computes while others wait for it."""

    def __init__(self, compute: Callable[[], Value]) -> None:
        """Remember how to compute it."""
        self._compute = compute
        self._value: Value | None = None
        self._lock = Lock()

    def get(self) -> Value:
        """Return the value; if computing it fails, the next caller tries again."""
        with self._lock:
            if self._value is None:
                self._value = self._compute()
            return self._value

    @property
    def known(self) -> Value | None:
        """Return the value if it has been computed."""
        return self._value

    def offer(self, value: Value) -> None:
        """Set the value unless there is one already."""
        with self._lock:
            if self._value is None:
                self._value = value

    def forget(self) -> None:
        """Drop the value; it is computed again when needed."""
        with self._lock:
            self._value = None


@dataclass(frozen=True)
class KnownScene:
    """The objects of an image, and whether they were detected in it."""

    scene: Scene
    detected: bool  # in this image; otherwise carried over from an earlier one


class ImageAnalysis:
    """One RGB image and what the networks see in it. Safe to use from several threads."""

    def __init__(
        self, image: np.ndarray, perception: Perception, max_keypoints: int | None = None
    ) -> None:
        """Use at most `max_keypoints`; None: all that the extractor finds."""
        self.image = image
        self.max_keypoints = max_keypoints
        self.part: Box | None = None  # where keypoints are extracted; None: the whole image
        self.times = StageTimes()
        # What is computed of the image and a reference, by the id of the reference, with the
        # reference itself: while it is kept, no other one gets its id.
        self.of_references: RecentlyUsed[tuple[object, Any]] = RecentlyUsed(MAX_REFERENCES)
        self._perception = perception
        self._features = Once(self._extract)
        self._scene = Once(self._detect)
        self._edges = Once(self._find_edges)
        self._sift: RecentlyUsed[SiftFeatures] = RecentlyUsed(MAX_SIFT)

    @property
    def whole(self) -> Box:
        """Return the outline of the image."""
        return Box.around(self.image)

    @property
    def place(self) -> tuple[int, int]:
        """Return the top left corner of the part in the image."""
        return (0, 0) if self.part is None else (self.part.left, self.part.top)

    @property
    def features(self) -> Features:
        """Return the keypoints and descriptors of the part, in its pixels."""
        return self._features.get()

    @property
    def scene(self) -> Scene:
        """Return the objects of the image."""
        return self._scene.get().scene

    @property
    def edges(self) -> Edges:
        """Return the edges of the image."""
        return self._edges.get()

    def sift(self, parameters: SiftParameters) -> SiftFeatures:
        """Return the SIFT keypoints of the whole image."""
        return self._sift.get(
            parameters,
            lambda: sift_features(
                self.image, self._perception.settings.max_image_side, parameters
            ),
        )

    def features_and_scene(self) -> tuple[Features, Scene]:
        """Return both; if neither is known, detector and extractor run in parallel."""
        if self.has_features or self.has_scene:
            return self.features, self.scene
        self.times.expect('extract', 'detect')  # in this order, whichever ends first
        scene = self._perception.in_parallel(lambda: self.scene)
        return self.features, scene.result()

    def paired_with(self, reference: Scene, pairing: Pairing) -> PairedObjects:
        """Pair the objects of a reference with those of the image."""
        scene = self.scene
        with self.times.timed('pair'):
            return self._perception.pair(reference, scene, pairing)

    @property
    def has_features(self) -> bool:
        """Return whether the features have been computed."""
        return self._features.known is not None

    @property
    def has_scene(self) -> bool:
        """Return whether the objects are known."""
        return self._scene.known is not None

    @property
    def has_edges(self) -> bool:
        """Return whether the edges have been computed."""
        return self._edges.known is not None

    @property
    def scene_was_detected(self) -> bool:
        """Return whether objects were detected in this image, not carried over."""
        known = self._scene.known
        return known is not None and known.detected

    def carry_over(self, scene: Scene) -> None:
        """Use the objects of an earlier image for this one, unless its own are known."""
        self._scene.offer(KnownScene(scene, detected=False))

    def forget_edges(self) -> None:
        """Free the memory of the edges, 50 MB; they are quick to compute again."""
        self._edges.forget()

    def of_part(self, part: Box, max_keypoints: int) -> 'ImageAnalysis':
        """Return the image with keypoints from this part only; everything else is shared."""
        analysis = ImageAnalysis(self.image, self._perception, max_keypoints)
        analysis.part, analysis.times = part, self.times
        analysis.of_references = self.of_references
        analysis._scene, analysis._edges = self._scene, self._edges
        analysis._sift = self._sift
        return analysis

    def with_scene(self, scene: Scene) -> 'ImageAnalysis':
        """Return the image with other objects; everything else is shared."""
        analysis = ImageAnalysis(self.image, self._perception, self.max_keypoints)
        analysis.part, analysis.times = self.part, self.times
        analysis._features, analysis._edges = self._features, self._edges
        analysis._sift = self._sift
        analysis._scene.offer(KnownScene(scene, detected=self.scene_was_detected))
        return analysis

    def _extract(self) -> Features:
        with self.times.timed('extract'):
            pixels = self.image if self.part is None else self.part.part_of(self.image)
            features = self._perception.extract(pixels)
            if self.max_keypoints:
                features = features.strongest(self.max_keypoints)
            return features

    def _detect(self) -> KnownScene:
        with self.times.timed('detect'):
            return KnownScene(self._perception.read_scene(self.image), detected=True)

    def _find_edges(self) -> Edges:
        with self.times.timed('edges'):
            return self._perception.find_edges(self.image)
