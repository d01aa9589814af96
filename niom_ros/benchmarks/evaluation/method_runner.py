"""Runs methods on pairs of pictures; keeps networks and recent features in memory."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from niom_ros.benchmarks.classical import ClassicalMatcher
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.core.boxes import Box
from niom_ros.core.settings import choose_device, Settings, SettingsError
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, examine, implausibility
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.reference import Reference
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import Detector
from niom_ros.semantics.detectors.loading import load_detector

KEPT = 64  # pictures whose features stay in memory: 5 MB each if they are large

Kept = TypeVar('Kept')


@dataclass(frozen=True)
class Picture:
    """An image with a name that identifies it."""

    name: str
    pixels: np.ndarray  # RGB
    label: str = ''  # what it shows, if known

    @property
    def box(self) -> Box:
        """Return its outline."""
        return Box.around(self.pixels)


@dataclass(frozen=True)
class MethodAnswer:
    """The result of a method on two pictures."""

    match: Match
    evidence: Evidence  # for the best homography, accepted or not
    plausible: bool  # whether a camera could see the reference like that

    @property
    def correspondences(self) -> Correspondences:
        """Return the points that were matched."""
        return self.match.correspondences

    @property
    def weighted(self) -> bool:
        """Return whether weights were applied; if no object is seen, SEW does nothing."""
        return self.match.weighting != 'none'

    @property
    def accepted(self) -> bool:
        """Return whether the method claims to have found the reference."""
        return self.match.verdict.reference_to_image is not None


class MethodRunner:
    """Matches pictures with any method; loads each network and processes each picture once."""

    def __init__(self) -> None:
        self._matchers: dict[Settings, Matcher] = {}
        self._classical: dict[str, ClassicalMatcher] = {}
        self._detectors: dict[str, Detector] = {}
        self._kept: RecentlyUsed[Any] = RecentlyUsed(KEPT)

    def match(self, method: Method, reference: Picture, image: Picture) -> MethodAnswer:
        """Find a reference in an image."""
        if method.classical:
            matcher = self.classical(method.classical)
            match = matcher.match(
                self.once(
                    (method.classical, reference.name), lambda: matcher.extract(reference.pixels)
                ),
                self.once((method.classical, image.name), lambda: matcher.extract(image.pixels)),
            )
        else:
            analysis = self.analysis(method, image)
            (match,) = self.matcher(method).match_all(
                [self.reference(method, reference)], analysis, method.options
            )
            analysis.forget_edges()
        evidence = evidence_of(match, reference, image, method)
        implausible = implausibility(evidence, reference.box, method.options.limits)
        return MethodAnswer(match, evidence, plausible=not implausible)

    def matcher(self, method: Method) -> Matcher:
        """Return the networks of a method."""
        if method.settings not in self._matchers:
            self._matchers[method.settings] = Matcher(method.settings)
        return self._matchers[method.settings]

    def classical(self, kind: str) -> ClassicalMatcher:
        """Return a classical matcher."""
        return self._classical.setdefault(kind, ClassicalMatcher(kind))

    def reference(self, method: Method, picture: Picture) -> PreparedReference:
        """Return a picture as a reference."""
        matcher = self.matcher(method)
        # With too few keypoints nothing is found; that is a result too, not an error.
        return self.once(
            ('reference', method.settings, picture.name, picture.label),
            lambda: matcher.prepare(
                Reference(picture.pixels, label=picture.label), fewest_keypoints=0
            ),
        )

    def analysis(self, method: Method, picture: Picture) -> ImageAnalysis:
        """Return what the networks of a method see in a picture."""
        matcher = self.matcher(method)
        return self.once(
            ('analysis', method.settings, picture.name), lambda: matcher.analyse(picture.pixels)
        )

    def detector(self, name: str) -> Detector:
        """Return a detector that shows where objects are, to judge methods by."""
        if name not in self._detectors:
            loaded = load_detector(Settings(detector=name), ModelStore(), choose_device('auto'))
            if loaded is None:
                raise SettingsError(f'{name} is not a detector')
            self._detectors[name] = loaded
        return self._detectors[name]

    def once(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return the value of a key, computed if needed; drop the least recently used.

        A benchmark may keep its own things here under keys that begin with its name.
        """
        kept: Kept = self._kept.get(key, make)
        return kept


def evidence_of(match: Match, reference: Picture, image: Picture, method: Method) -> Evidence:
    """Return the evidence for the best homography of the matches, accepted or not."""
    if match.evidence is not None:
        return match.evidence
    correspondences = match.correspondences
    if len(correspondences) < 4:
        return Evidence(np.zeros(len(correspondences), bool))
    box = reference.box
    return examine(correspondences, box, box.area, image.box, method.options.limits)
