"""What each frame of a film shows, and what was claimed about it."""

from dataclasses import dataclass

import numpy as np

# Of the chart and of its legend.
DOT_RADIUS = 3  # of a tracked frame
RING_RADIUS = 5  # of a full match
RING_COLOUR = (240, 228, 66)  # yellow of Okabe and Ito


@dataclass(frozen=True)
class Thumbnail:
    """A small copy of a frame."""

    pixels: np.ndarray
    from_image: np.ndarray  # 3 x 3


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One frame of a film, and what was claimed about it."""

    stamp: float
    frame: Thumbnail
    view: np.ndarray | None  # where the reference is claimed to be; None: nowhere
    truth: np.ndarray | None  # where it is; None: not there, or not known
    error: float | None  # pixels; None: nothing to compare
    hidden: bool  # whether nothing of the reference can be seen
    wrong: bool  # whether the claim is wrong
