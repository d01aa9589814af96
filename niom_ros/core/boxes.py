"""Parts of a picture."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """A part of a picture, in pixels."""

    left: int
    top: int
    width: int
    height: int

    @classmethod
    def around(cls, picture: np.ndarray) -> 'Box':
        """Return the outline of a whole picture."""
        return cls(0, 0, picture.shape[1], picture.shape[0])

    @classmethod
    def enclosing(cls, points: np.ndarray) -> 'Box':
        """Return the smallest box of whole pixels that contains N x 2 points."""
        left, top = np.floor(points.min(axis=0)).astype(int).tolist()
        right, bottom = np.ceil(points.max(axis=0)).astype(int).tolist()
        return cls(left, top, right - left + 1, bottom - top + 1)

    @property
    def area(self) -> int:
        """Return the number of pixels."""
        return self.width * self.height

    def part_of(self, picture: np.ndarray) -> np.ndarray:
        """Return this part of a picture, without copying it."""
        rows = slice(self.top, self.top + self.height)
        return picture[rows, self.left : self.left + self.width]

    def corners(self) -> np.ndarray:
        """Return the centres of the four corner pixels, clockwise from the top left."""
        right, bottom = self.left + self.width - 1, self.top + self.height - 1
        return np.array(
            [[self.left, self.top], [right, self.top], [right, bottom], [self.left, bottom]],
            np.float64,
        )
