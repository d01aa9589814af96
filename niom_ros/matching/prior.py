"""What is known before an image is looked at: how and where the reference was found before."""

from dataclasses import dataclass

import numpy as np

from niom_ros.matching.geometry import relative_corner_error
from niom_ros.matching.match import Approach, Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.semantics.scene import Scene


@dataclass(frozen=True)
class PriorParameters:
    """How far a prior is trusted."""

    close: float = 0.1  # of the outline's size: corners may be so far from where they should be
    longest_lock: int = 20  # images in a row in which something is sought only where it was


DEFAULTS = PriorParameters()


@dataclass(frozen=True)
class Prior:
    """How a reference was found in the last image of a stream: where to begin with the next."""

    reference: PreparedReference
    approach: Approach
    reference_to_image: np.ndarray  # 3 x 3
    locked: int = 0  # images in a row, so far
    followed: bool = False  # whether it was followed since: the view is that of the next image
    scene: Scene | None = None  # the objects of that image, if they are known without looking

    @classmethod
    def of(cls, reference: PreparedReference, match: Match) -> 'Prior | None':
        """Return what a match says about the next image; None: the reference was not found."""
        if match.reference_to_image is None or match.approach is None:
            return None
        return cls(reference, match.approach, match.reference_to_image, match.locked)

    @property
    def is_fresh(self) -> bool:
        """Tell whether it may be sought where it was: now and then it is sought everywhere."""
        return self.locked < DEFAULTS.longest_lock

    def is_close_to(self, view: np.ndarray) -> bool:
        """Tell whether a view puts the reference about where it was expected."""
        error = relative_corner_error(view, self.reference_to_image, self.reference.box)
        return error <= DEFAULTS.close
