"""A picture that is looked for, as the networks see it."""

from dataclasses import dataclass, field, replace

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.drawings.strokes import Strokes
from niom_ros.matching.features import Features, strongest
from niom_ros.matching.prepared_sides import PreparedSides
from niom_ros.matching.reference import Reference
from niom_ros.semantics.scene import Scene

MOST_SMALLER = 8  # numbers of keypoints that a reference is kept with


@dataclass(frozen=True)
class PreparedReference:
    """What to look for: a picture with its features and objects, computed once."""

    given: Reference
    features: Features
    scene: Scene
    box: Box  # around the part of the picture that counts
    counting_area: int  # pixels of the box that are not masked
    matchability: float  # 0 hopeless, 1 rich in keypoints, or in strokes
    drawing: bool  # whether it is lines on paper
    kind_confidence: float  # how sure that is, 0 to 1
    strokes: Strokes | None = None  # of a drawing with enough ink to be found by it
    # Not handed on to changed copies: these are made for the features above.
    sides: PreparedSides = field(default_factory=PreparedSides, init=False, compare=False)
    smaller: dict[int, 'PreparedReference'] = field(
        default_factory=dict, init=False, compare=False
    )

    def with_most(self, keypoints: int) -> 'PreparedReference':
        """Return the reference with so many of its keypoints, the strongest; made once."""
        if keypoints >= len(self.features):
            return self
        smaller = self.smaller.get(keypoints)
        if smaller is None:
            keep = strongest(self.features.scores, keypoints)
            smaller = replace(
                self, features=self.features.where(keep), scene=self.scene.only_at(keep)
            )
            if len(self.smaller) >= MOST_SMALLER:
                self.smaller.clear()
            self.smaller[keypoints] = smaller
        return smaller

    @property
    def image(self) -> np.ndarray:
        """Return the picture, RGB."""
        return self.given.image

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the picture in pixels."""
        return self.given.size
