"""What is known about one image after looking for a reference in it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from niom_ros.drawings.edges import Edges
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

ON_OBJECT = 'object'


@dataclass(frozen=True)
class Weights:
    """What the descriptors of one image were multiplied with, and why."""

    values: torch.Tensor | None  # N; None: not weighted
    objects: tuple[int, ...]  # the objects of the scene whose heat was used
    source: str  # what the weights came from, or why there are none


@dataclass(frozen=True)
class MatchOutcome:
    """What is known about one image."""

    verdict: Verdict
    correspondences: Correspondences = field(default_factory=Correspondences.none)
    image_keypoints: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)
    scene: Scene = field(default_factory=Scene)
    paired: PairedObjects = field(default_factory=PairedObjects)
    weighting: str = 'none'
    reference_weights: Weights = Weights(None, (), 'none')
    image_weights: Weights = Weights(None, (), 'none')
    evidence: Evidence | None = None  # for the best view, also if it is not believed
    edges: Edges | None = None  # of the image, if a drawing was looked for by its ink
    way: str = ''  # in which it was looked for: a kind of weighting, or by ink
    locked: int = 0  # images in a row in which it was found close to where it was before

    @property
    def agreement(self) -> tuple[float, int]:
        """Return a measure of how well the matches agree, to compare attempts by."""
        return self.verdict.confidence, int(self.verdict.inliers.sum())

    @classmethod
    def without_matches(cls, status: Status, message: str) -> 'MatchOutcome':
        """Return an outcome that never came as far as matching."""
        return cls(Verdict(status, message, np.zeros(0, bool)))


def found_without_need(outcomes: Sequence[MatchOutcome]) -> list[MatchOutcome]:
    """Return outcomes that say, where nothing was weighted, that there was no need to."""
    needless = Weights(None, (), 'none: found without')
    return [
        replace(outcome, reference_weights=needless, image_weights=needless)
        if outcome.weighting == 'none'
        else outcome
        for outcome in outcomes
    ]


def better(earlier: MatchOutcome, later: MatchOutcome) -> MatchOutcome:
    """Return the attempt that is surer, with the objects that the later one found out."""
    if later.way == ON_OBJECT or later.agreement >= earlier.agreement:
        keypoints = max(earlier.image_keypoints, later.image_keypoints)
        return replace(later, image_keypoints=keypoints)
    return replace(earlier, scene=later.scene, paired=later.paired)
