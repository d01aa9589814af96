"""A reference as a user describes it, before any network has seen it."""

from collections.abc import Sequence
from dataclasses import dataclass, KW_ONLY
import math

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.field_types import check_fields, described
from niom_ros.core.settings import check_choice, WANTED, Wanted
from niom_ros.images.decoding import check_rgb, ImageError
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import MarkedObject

MAX_TEXT_LENGTH = 256  # characters of an id, a label or a name
MAX_OBJECTS = 100
MAX_LANDMARKS = 1000
MAX_PHYSICAL_WIDTH = 1000.0  # metres; more is a mistake in the unit


class BadReference(UserError):
    """The description of a reference is invalid; the message says what to change."""


@dataclass(frozen=True)
class Landmark:
    """A named point of the reference, in its pixels."""

    name: str
    x: float
    y: float

    def __post_init__(self) -> None:
        """Refuse values of the wrong type."""
        check_fields(self, BadReference)


@dataclass(frozen=True, eq=False)
class Reference:
    """A picture to look for and its description, before any network has seen it."""

    image: np.ndarray  # RGB
    id: str = 'reference'
    _: KW_ONLY
    label: str = ''
    drawing: bool | None = None  # None: find out
    wanted: Wanted | None = None  # what counts as found; None: as the options say
    region: Box | None = None  # the part to look for; None: all of it
    mask: np.ndarray | None = None  # height x width; the picture is ignored where it is 0
    objects: tuple[MarkedObject, ...] = ()
    landmarks: tuple[Landmark, ...] = ()
    physical_width: float = 0.0  # of the whole picture, in metres; 0: unknown
    notes: tuple[str, ...] = ()  # for the user: what was left out of its page

    def __post_init__(self) -> None:
        """Refuse an invalid description."""
        check_rgb(self.image, 'the reference')
        check_fields(self, BadReference)
        check_text('id', self.id)
        if not self.id:
            raise BadReference('the id is empty: give the reference a name')
        check_text('label', self.label)
        if self.wanted is not None:
            check_choice('wanted', self.wanted, WANTED)
        check_count('objects', self.objects, MAX_OBJECTS)
        check_count('landmarks', self.landmarks, MAX_LANDMARKS)
        for marked in self.objects:
            check_text('the label of an object', marked.label)
            within = marked.area.within(*self.size)
            if within.width <= 0 or within.height <= 0:
                width, height = self.size
                raise BadReference(
                    f"object '{marked.label}' lies outside of the {width} x {height} picture"
                )
        check_landmarks(self.landmarks, *self.size)
        if not (0 <= self.physical_width <= MAX_PHYSICAL_WIDTH):
            raise BadReference(
                f'physical_width is {self.physical_width:g}: give metres, above 0 and at most '
                f'{MAX_PHYSICAL_WIDTH:g}, or 0 if it is not known'
            )
        if self.mask is not None:
            check_mask(self.mask, *self.size)
        if self.region is not None:
            check_region(self.region, *self.size)

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the picture in pixels."""
        return self.image.shape[1], self.image.shape[0]

    def counting_mask(self) -> np.ndarray | None:
        """Return region and mask as one mask; None: all of the picture is used."""
        if self.region is None:
            return self.mask
        inside = np.zeros(self.image.shape[:2], np.uint8)
        self.region.part_of(inside)[:] = 255
        return inside if self.mask is None else np.where(self.mask, inside, 0)


def check_mask(mask: np.ndarray, width: int, height: int) -> None:
    """Refuse a mask that does not belong to the picture."""
    if mask.ndim != 2 or mask.dtype not in (np.uint8, np.bool_):
        raise ImageError(
            f'the mask is {described(mask)}: give height x width, as uint8 or bool, 0 where the '
            'picture is to be ignored'
        )
    if mask.shape != (height, width):
        raise ImageError(
            f'the mask has {mask.shape[1]} x {mask.shape[0]} pixels, but the reference has '
            f'{width} x {height}: make them the same size'
        )


def check_text(field: str, text: str) -> None:
    """Refuse a text that would fill or garble the messages that carry it."""
    if len(text) > MAX_TEXT_LENGTH:
        raise BadReference(f'{field} has {len(text)} characters: use at most {MAX_TEXT_LENGTH}')
    if not text.isprintable():
        raise BadReference(f'{field} has line breaks or control characters: leave them out')


def check_count(field: str, given: Sequence[object], most: int) -> None:
    """Refuse a list that is too long."""
    if len(given) > most:
        raise BadReference(f'{len(given)} {field} are given: use at most {most}')


def check_landmarks(landmarks: Sequence[Landmark], width: int, height: int) -> None:
    """Refuse landmarks without a unique name or outside of the picture."""
    names: set[str] = set()
    for landmark in landmarks:
        check_text('the name of a landmark', landmark.name)
        if not landmark.name:
            raise BadReference('a landmark has no name: name each of them')
        if landmark.name in names:
            raise BadReference(f"two landmarks are named '{landmark.name}': rename one of them")
        names.add(landmark.name)
        x, y = landmark.x, landmark.y
        # Not `or`, so that NaN is refused as well.
        if not (-0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5):
            raise BadReference(
                f"landmark '{landmark.name}' at ({x:g}, {y:g}) lies outside of the picture of "
                f'{width} x {height} pixels'
            )


def check_region(region: Box, width: int, height: int) -> None:
    """Refuse a region that is empty or reaches beyond the picture."""
    check_fields(region, BadReference)
    right, bottom = region.left + region.width, region.top + region.height
    inside = region.left >= 0 and region.top >= 0 and right <= width and bottom <= height
    if not (inside and region.width > 0 and region.height > 0):
        raise BadReference(
            f'the region (x {region.left} to {right}, y {region.top} to {bottom}) does not lie '
            f'inside the picture of {width} x {height} pixels'
        )


def marked_object(
    label: str, x: float, y: float, width: float, height: float, size: tuple[int, int]
) -> MarkedObject:
    """Return an object; its box is relative to the picture's edge and clipped to the picture."""
    name = f"object '{label[:MAX_TEXT_LENGTH]}'"
    if not all(map(math.isfinite, (x, y, width, height))) or width <= 0 or height <= 0:
        raise BadReference(f'{name} has no box: give x, y and a width and height above 0')
    # Internally, coordinates start at the centre of the first pixel.
    left, top = x - 0.5, y - 0.5
    inside = Area(left, top, left + width, top + height).within(*size)
    if inside.width <= 0 or inside.height <= 0:
        raise BadReference(f'{name} lies outside of the {size[0]} x {size[1]} picture')
    return MarkedObject(label, inside)
