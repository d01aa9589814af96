"""What the networks see in one image; each result is computed on first use."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Pairing
from niom_ros.drawings.edges import Edges
from niom_ros.matching.features import Features
from niom_ros.matching.perception import Perception
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.sift import sift_features, SiftFeatures, SiftParameters
from niom_ros.matching.stage_times import StageTimes
from niom_ros.semantics.correspondence.field import FoundParts
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

MAX_PARTS = 8  # sets of parts that are kept, unless more references are matched at once
AREAS = 2  # of each reference whose parts are looked for: its object, and all of it
MAX_SIFT = 2  # sets of parameters of SIFT

Value = TypeVar('Value')


class Once(Generic[Value]):
    """A value that the first caller computes while others wait for it."""

    def __init__(self, known: Value | None = None) -> None:
        """Start with a value, if it is known."""
        self._value = known
        self._lock = Lock()

    def get(self, compute: Callable[[], Value]) -> Value:
        """Return the value; if computing it fails, the next caller tries again."""
        with self._lock:
            if self._value is None:
                self._value = compute()
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


@dataclass(frozen=True)
class Findings:
    """What has been computed of an image so far. Other views of the image share some of it."""

    features: Once[Features] = field(default_factory=Once)
    scene: Once[KnownScene] = field(default_factory=Once)
    edges: Once[Edges] = field(default_factory=Once)
    # SIFT keypoints of the whole image, by the parameters that they were found with
    sift: RecentlyUsed[SiftFeatures] = field(default_factory=lambda: RecentlyUsed(MAX_SIFT))
    # Parts of references in the image, by the reference and the area of it that they belong to
    parts: RecentlyUsed[FoundParts] = field(default_factory=lambda: RecentlyUsed(MAX_PARTS))


class ImageAnalysis:
    """One RGB image and what the networks see in it. Safe to use from several threads."""

    free: np.ndarray | None = None  # height x width; 0 where something was found before; None: all

    def __init__(
        self,
        image: np.ndarray,
        perception: Perception,
        max_keypoints: int | None = None,
        *,
        part: Box | None = None,
        times: StageTimes | None = None,
        findings: Findings | None = None,
    ) -> None:
        """Use at most `max_keypoints`; None: all that the extractor finds.

        They are extracted in `part` of the image; None: in all of it.
        """
        self.image = image
        self.max_keypoints = max_keypoints
        self.part = part
        self.times = times or StageTimes()
        self._perception = perception
        self._findings = findings or Findings()

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
        return self._findings.features.get(self._extract)

    @property
    def scene(self) -> Scene:
        """Return the objects of the image."""
        return self._findings.scene.get(self._detect).scene

    @property
    def edges(self) -> Edges:
        """Return the edges of the image."""
        return self._findings.edges.get(self._find_edges)

    @property
    def parts(self) -> RecentlyUsed[FoundParts]:
        """Return where the parts that were looked for are kept; see `found_parts`."""
        return self._findings.parts

    def sift(self, parameters: SiftParameters) -> SiftFeatures:
        """Return the SIFT keypoints of the whole image."""
        return self._findings.sift.get(
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
        return self._findings.features.known is not None

    @property
    def has_scene(self) -> bool:
        """Return whether the objects are known."""
        return self._findings.scene.known is not None

    @property
    def scene_was_detected(self) -> bool:
        """Return whether objects were detected in this image, not carried over."""
        known = self._findings.scene.known
        return known is not None and known.detected

    def carry_over(self, scene: Scene) -> None:
        """Use the objects of an earlier image for this one, unless its own are known."""
        self._findings.scene.offer(KnownScene(scene, detected=False))

    def forget_edges(self) -> None:
        """Free the memory of the edges, 50 MB; they are quick to compute again."""
        self._findings.edges.forget()

    def make_room(self, references: int) -> None:
        """Keep the parts of this many references, which are matched in turn."""
        self.parts.make_room(AREAS * references)

    def of_part(self, part: Box, max_keypoints: int) -> 'ImageAnalysis':
        """Return the image with keypoints from this part only; everything else is shared."""
        return ImageAnalysis(
            self.image,
            self._perception,
            max_keypoints,
            part=part,
            times=self.times,
            findings=replace(self._findings, features=Once()),
        )

    def with_scene(self, scene: Scene) -> 'ImageAnalysis':
        """Return the image with other objects; its keypoints and edges are shared."""
        known = KnownScene(scene, detected=self.scene_was_detected)
        return ImageAnalysis(
            self.image,
            self._perception,
            self.max_keypoints,
            part=self.part,
            findings=Findings(
                features=self._findings.features,
                scene=Once(known),
                edges=self._findings.edges,
                sift=self._findings.sift,
            ),
        )

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
