"""A reference as the networks see it."""

from dataclasses import dataclass, field, replace

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.drawings.strokes import Strokes
from niom_ros.matching.features import Features, strongest
from niom_ros.matching.keypoint_matcher import PreparedFeatures
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.reference import BadReference, Reference
from niom_ros.matching.sift import SiftFeatures
from niom_ros.semantics.correspondence.field import PartReference
from niom_ros.semantics.scene import Scene

# What is kept of each reference
MAX_AREAS = 8  # whose parts are looked for
MAX_HEAT = 8  # scenes, each from another source
MAX_SIFT = 2  # sets of parameters of SIFT
MAX_CLOSER = 4  # sizes of what SIFT looked at closer; 1.6 MB each
MAX_SIDES = 9  # quarter turns, each with one of few numbers of keypoints
MAX_SMALLER = 8  # copies with fewer keypoints
MAX_WEIGHTINGS = 4  # weightings: none, and those of recent pairings; 1 MB each


@dataclass(frozen=True)
class TurnedSide:
    """A reference as the networks see it after some quarter turns."""

    features: Features  # in the pixels of the turned picture
    prepared: PreparedFeatures  # for the keypoint matcher
    to_reference: np.ndarray  # 3 x 3, from the turned picture


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedReference:
    """A reference with its features and objects, computed once."""

    given: Reference
    features: Features
    scene: Scene
    box: Box  # around the part of the picture that is used
    counting_area: int  # pixels of the box that are not masked
    matchability: float  # 0: hopeless, 1: rich in keypoints or strokes
    drawing: bool  # whether it is lines on paper
    kind_confidence: float  # how sure that is, 0 to 1
    symmetric_turns: tuple[int, ...] = ()  # in degrees, after which it looks the same
    strokes: Strokes | None = None  # of a drawing with enough ink to be found by it
    # Not passed on by `replace`: these belong to the features above.
    prepared_features: RecentlyUsed[PreparedFeatures] = field(
        default_factory=lambda: RecentlyUsed(MAX_WEIGHTINGS), init=False
    )
    sift: RecentlyUsed[SiftFeatures] = field(  # by the parameters that they were found with
        default_factory=lambda: RecentlyUsed(MAX_SIFT), init=False
    )
    closer: RecentlyUsed[SiftFeatures] = field(  # by the part of the reference and its size
        default_factory=lambda: RecentlyUsed(MAX_CLOSER), init=False
    )
    sides: RecentlyUsed[TurnedSide] = field(  # by quarter turns and number of keypoints
        default_factory=lambda: RecentlyUsed(MAX_SIDES), init=False
    )
    parts: RecentlyUsed[PartReference] = field(  # by the area that they belong to
        default_factory=lambda: RecentlyUsed(MAX_AREAS), init=False
    )
    heat: RecentlyUsed[Scene] = field(  # by the name of its source
        default_factory=lambda: RecentlyUsed(MAX_HEAT), init=False
    )
    smaller: 'RecentlyUsed[PreparedReference]' = field(
        default_factory=lambda: RecentlyUsed(MAX_SMALLER), init=False
    )

    def with_most(self, keypoints: int) -> 'PreparedReference':
        """Return the reference with at most this many keypoints, the strongest; cached."""
        if keypoints >= len(self.features):
            return self
        return self.smaller.get(keypoints, lambda: self._only_strongest(keypoints))

    def _only_strongest(self, keypoints: int) -> 'PreparedReference':
        keep = strongest(self.features.scores, keypoints)
        return replace(self, features=self.features.where(keep), scene=self.scene.only_at(keep))

    @property
    def image(self) -> np.ndarray:
        """Return the picture, RGB."""
        return self.given.image

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the picture in pixels."""
        return self.given.size


def check_prepared(reference: object) -> None:
    """Refuse what no network has seen yet."""
    if not isinstance(reference, PreparedReference):
        raise BadReference(
            f'a {type(reference).__name__} cannot be matched: give what Matcher.prepare returns'
        )
