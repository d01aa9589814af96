"""What is known before an image is matched: how and where the reference was found last."""

from dataclasses import dataclass

import numpy as np

from niom_ros.matching.geometry import relative_corner_error
from niom_ros.matching.match import Approach, Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.semantics.scene import Scene


@dataclass(frozen=True)
class PriorParameters:
    """How far a prior is trusted."""

    close: float = 0.1  # relative corner error up to which a view counts as the same
    longest_lock: int = 20  # consecutive images searched only near the last position


DEFAULTS = PriorParameters()


@dataclass(frozen=True)
class Prior:
    """How and where a reference was found last in a stream: where to start in the next image."""

    reference: PreparedReference
    approach: Approach
    reference_to_image: np.ndarray  # 3 x 3
    locked: int = 0  # consecutive images searched nearby so far
    tracked: bool = False  # since it was found: the view is that of the next image
    scene: Scene | None = None  # objects carried over to the next image, if known

    @classmethod
    def of(cls, reference: PreparedReference, match: Match) -> 'Prior | None':
        """Return what a match says about the next image; None: not found."""
        if match.reference_to_image is None or match.approach is None:
            return None
        return cls(reference, match.approach, match.reference_to_image, match.locked)

    @property
    def is_fresh(self) -> bool:
        """Return whether a nearby search may do; now and then, the whole image is searched."""
        return self.locked < DEFAULTS.longest_lock

    def is_close_to(self, view: np.ndarray) -> bool:
        """Return whether a view puts the reference about where it is expected."""
        error = relative_corner_error(view, self.reference_to_image, self.reference.box)
        return error <= DEFAULTS.close
