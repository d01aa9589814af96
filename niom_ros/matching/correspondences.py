"""Pairs of points that belong together."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Correspondences:
    """Points of the reference and where they are in the image, best first, in pixels."""

    reference_points: np.ndarray  # M x 2, float32
    image_points: np.ndarray  # M x 2, float32
    scores: np.ndarray  # M, 0 to 1
    reference_weights: np.ndarray | None = None  # M, factor of each descriptor;
    image_weights: np.ndarray | None = None  # None: not weighted

    def __len__(self) -> int:
        """Return the number of correspondences."""
        return len(self.scores)

    def moved_in_image(self, right: int, down: int) -> 'Correspondences':
        """Return correspondences with a crop of an image as correspondences with the whole."""
        moved = self.image_points + np.array([right, down], np.float32)
        return replace(self, image_points=moved)

    def only(self, chosen: np.ndarray) -> 'Correspondences':
        """Return some of the correspondences, chosen by booleans."""
        weights = self.reference_weights, self.image_weights
        of_reference, of_image = (None if side is None else side[chosen] for side in weights)
        return Correspondences(
            self.reference_points[chosen],
            self.image_points[chosen],
            self.scores[chosen],
            of_reference,
            of_image,
        )

    @classmethod
    def none(cls) -> 'Correspondences':
        """Return an empty set."""
        no_points = np.empty((0, 2), np.float32)
        return cls(no_points, no_points, np.empty(0, np.float32))
