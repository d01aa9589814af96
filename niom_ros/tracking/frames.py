"""Camera images made small and grey for tracking, and a bounded history of them."""

from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.core.homographies import resizing
from niom_ros.images.decoding import ImageError

LONGEST_SIDE = 640  # larger images are shrunk: a frame must cost milliseconds
LEVELS = 4  # each half as large as the one before
MOST_FRAMES = 60  # of a history: about 25 megabytes
LONGEST_HISTORY = 10.0  # seconds: a full match that takes longer is of little use


@dataclass(frozen=True)
class GreyFrame:
    """One camera image, small and grey, in several sizes."""

    stamp: float  # seconds
    levels: tuple[np.ndarray, ...]  # pixel (x, y) of one is (x / 2, y / 2) in the next
    image_size: tuple[int, int]  # width and height of the camera image
    image_to_grey: np.ndarray  # 3 x 3

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the largest level."""
        return self.levels[0].shape[1], self.levels[0].shape[0]


def grey_frame(image: np.ndarray, stamp: float) -> GreyFrame:
    """Prepare an RGB image for tracking."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise ImageError(
            f'an image of {image.dtype} with shape {image.shape} cannot be tracked: '
            'it must be RGB, height x width x 3, uint8'
        )
    if not math.isfinite(stamp):
        raise ValueError(f'the stamp of a frame is {stamp}: it must be a number of seconds')
    height, width = image.shape[:2]
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    shrink = min(1.0, LONGEST_SIDE / max(width, height))
    size = max(1, round(shrink * width)), max(1, round(shrink * height))
    if size != (width, height):
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    # Without the grain of the sensor, patches resemble each other more.
    levels = [cv2.GaussianBlur(grey, (3, 3), 0)]
    while len(levels) < LEVELS:
        levels.append(cv2.pyrDown(levels[-1]))
    return GreyFrame(stamp, tuple(levels), (width, height), shrinking((width, height), size))


def shrinking(size: tuple[int, int], small_size: tuple[int, int]) -> np.ndarray:
    """Return the homography from pixels of an image to those of a smaller copy."""
    return resizing(small_size[0] / size[0], small_size[1] / size[1])


class History:
    """The last frames, in the order of their stamps: never more than a few dozen.

    When there are too many, those that are closest together in time are thinned, so that a chain
    of short steps leads from the oldest to the newest.
    """

    def __init__(self, most: int = MOST_FRAMES) -> None:
        """Start empty."""
        self._most = most
        self._frames: list[GreyFrame] = []

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._frames)

    @property
    def newest(self) -> GreyFrame | None:
        """Return the last frame, None if there is none."""
        return self._frames[-1] if self._frames else None

    def add(self, frame: GreyFrame) -> None:
        """Append a frame that is newer than all others."""
        self._frames.append(frame)
        self.forget_until(frame.stamp - LONGEST_HISTORY)
        if len(self._frames) > self._most:
            stamps = [kept.stamp for kept in self._frames]
            gaps = [after - before for before, after in zip(stamps, stamps[2:], strict=False)]
            del self._frames[1 + gaps.index(min(gaps))]

    def after(self, stamp: float) -> list[GreyFrame]:
        """Return the frames that are newer than a stamp, oldest first."""
        return [frame for frame in self._frames if frame.stamp > stamp]

    def forget_until(self, stamp: float) -> None:
        """Drop the frames up to a stamp, which nobody asks for any more."""
        self._frames = self.after(stamp)

    def clear(self) -> None:
        """Drop all frames."""
        self._frames.clear()
