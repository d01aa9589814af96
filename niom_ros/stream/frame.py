"""What a stream is given: a camera image and what is asked about it."""

from dataclasses import dataclass, field, KW_ONLY
from functools import cached_property
from typing import Any

import numpy as np

from niom_ros.core.settings import StreamOptions
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer, NO_CAMERA
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.rotation import Rotation


@dataclass(frozen=True)
class Frame:
    """A camera image and what is asked about it."""

    image: np.ndarray  # RGB, as received
    stamp: float  # seconds; later than that of the frame before
    references: tuple[KnownReference, ...]  # at least one
    _: KW_ONLY
    options: StreamOptions = field(default_factory=StreamOptions)
    camera: CameraModel | None = None
    no_camera: str = NO_CAMERA  # why there is no camera, if there is none
    tag: Any = None  # identifies the frame in Answer.matched_tag of later ones; None: its stamp
    begun: float | None = None  # when work on it began, by the stream's clock; None: in `follow`

    @cached_property
    def rotation(self) -> Rotation:
        """Return the rotation that turns the image upright."""
        return Rotation(self.options.rotation, self.image.shape[1], self.image.shape[0])

    @cached_property
    def upright(self) -> np.ndarray:
        """Return the image upright."""
        return self.rotation.upright(self.image)


@dataclass(frozen=True)
class RefusedFrame:
    """A frame that cannot be used, with its answer."""

    answer: Answer
    stamp: float
    references: tuple[KnownReference, ...] = ()
    options: StreamOptions = field(default_factory=StreamOptions)
    camera: CameraModel | None = None
