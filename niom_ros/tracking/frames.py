"""Small grey camera images for tracking, and a bounded history of them."""

from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.core.homographies import resizing
from niom_ros.images.decoding import ImageError


@dataclass(frozen=True)
class FrameParameters:
    """How camera images are prepared for tracking."""

    max_side: int = 640  # pixels; larger images are shrunk, so that a frame takes milliseconds
    levels: int = 4  # of the image pyramid, each half as large as the one before


@dataclass(frozen=True)
class HistoryParameters:
    """How many past frames are kept, for full matches that finish late."""

    max_frames: int = 60  # about 25 megabytes
    max_seconds: float = 10.0  # a full match that takes longer is of little use


FRAME_DEFAULTS = FrameParameters()
HISTORY_DEFAULTS = HistoryParameters()


@dataclass(frozen=True)
class GreyFrame:
    """One camera image, small and grey, as an image pyramid."""

    stamp: float  # seconds
    levels: tuple[np.ndarray, ...]  # pixel (x, y) of one is (x / 2, y / 2) in the next
    image_size: tuple[int, int]  # width and height of the camera image
    image_to_grey: np.ndarray  # 3 x 3

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the largest level."""
        return self.levels[0].shape[1], self.levels[0].shape[0]


def grey_frame(
    image: np.ndarray, stamp: float, parameters: FrameParameters = FRAME_DEFAULTS
) -> GreyFrame:
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
    shrink = min(1.0, parameters.max_side / max(width, height))
    size = max(1, round(shrink * width)), max(1, round(shrink * height))
    if size != (width, height):
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    # Patches correlate better without sensor noise.
    levels = [cv2.GaussianBlur(grey, (3, 3), 0)]
    while len(levels) < parameters.levels:
        levels.append(cv2.pyrDown(levels[-1]))
    return GreyFrame(
        stamp=stamp,
        levels=tuple(levels),
        image_size=(width, height),
        image_to_grey=shrinking((width, height), size),
    )


def shrinking(size: tuple[int, int], small_size: tuple[int, int]) -> np.ndarray:
    """Return the homography from pixels of an image to those of a smaller copy."""
    return resizing(small_size[0] / size[0], small_size[1] / size[1])


class History:
    """The last frames, ordered by stamp: never more than a few dozen.

    When there are too many, the one with the closest neighbours in time is dropped, so that steps
    from the oldest frame to the newest stay short.
    """

    def __init__(self, parameters: HistoryParameters = HISTORY_DEFAULTS) -> None:
        """Start empty."""
        self._parameters = parameters
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
        self.forget_until(frame.stamp - self._parameters.max_seconds)
        if len(self._frames) > self._parameters.max_frames:
            stamps = [kept.stamp for kept in self._frames]
            gaps = [after - before for before, after in zip(stamps, stamps[2:], strict=False)]
            del self._frames[1 + gaps.index(min(gaps))]

    def after(self, stamp: float) -> list[GreyFrame]:
        """Return the frames that are newer than a stamp, oldest first."""
        return [frame for frame in self._frames if frame.stamp > stamp]

    def forget_until(self, stamp: float) -> None:
        """Drop the frames up to and including a stamp, which are no longer needed."""
        self._frames = self.after(stamp)

    def clear(self) -> None:
        """Drop all frames."""
        self._frames.clear()
