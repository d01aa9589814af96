"""A reference and an image as they look from the same side, once a view is roughly known."""

from dataclasses import dataclass
import math

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import resizing, warp_points
from niom_ros.matching.geometry import in_front, jacobian


@dataclass(frozen=True)
class RectifyingParameters:
    """How large both pictures are made."""

    margin: float = 0.1  # around the visible part, share of its width and height
    most_enlarged: float = 4.0  # how many times either may be enlarged
    max_side: int = 1024  # pixels
    min_side: int = 32
    probes: int = 17  # points across the image in each direction that tell what is visible


DEFAULTS = RectifyingParameters()


@dataclass(frozen=True)
class Rectified:
    """Two pictures in which corresponding points are at about the same place."""

    reference: np.ndarray  # RGB: the part of the reference that is visible, resized
    image: np.ndarray  # RGB, of the same size: the image, warped onto it
    mask: np.ndarray  # height x width: where the image has pixels that may be used
    part: Box  # of the reference that is shown
    to_reference: np.ndarray  # 3 x 3, from the pixels of both to those of the reference,
    to_image: np.ndarray  # and to those of the image

    def seen_mask(self, mask: np.ndarray) -> np.ndarray:
        """Return a mask of the reference as a mask of the picture of it."""
        height, width = self.mask.shape
        part = self.part.part_of(mask).astype(np.uint8)
        return cv2.resize(part, (width, height), interpolation=cv2.INTER_NEAREST)


def rectified(
    reference: np.ndarray,
    box: Box,
    image: np.ndarray,
    view: np.ndarray,
    free: np.ndarray | None = None,
) -> Rectified | None:
    """Return both pictures as seen from the front; None: too little of the reference is visible.

    `view` maps the reference to the image, roughly; `box` is the part of the reference in use.
    What is not `free` in the image (height x width) is left out of the mask; None: all is free.
    """
    part = visible_part(box, image, view)
    if part is None:
        return None
    middle = np.array([part.left + part.width / 2, part.top + part.height / 2])
    enlargement = math.sqrt(abs(np.linalg.det(jacobian(view, middle))))
    # As fine as the finer of the two, as far as that makes sense.
    scale = min(
        max(1.0, enlargement),
        DEFAULTS.most_enlarged * min(1.0, enlargement),
        DEFAULTS.max_side / max(part.width, part.height),
    )
    width, height = round(part.width * scale), round(part.height * scale)
    if min(width, height) < DEFAULTS.min_side:
        return None
    to_part = resizing(width / part.width, height / part.height)
    to_part = to_part @ np.array([[1, 0, -part.left], [0, 1, -part.top], [0, 0, 1]], float)
    interpolation = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    to_reference = np.linalg.inv(to_part)
    to_image = view @ to_reference
    return Rectified(
        reference=cv2.resize(
            part.part_of(reference), (width, height), interpolation=interpolation
        ),
        image=cv2.warpPerspective(
            image,
            to_image,
            (width, height),
            flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        ),
        mask=cv2.warpPerspective(
            np.full(image.shape[:2], 255, np.uint8) if free is None else free,
            to_image,
            (width, height),
            flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        ),
        part=part,
        to_reference=to_reference,
        to_image=to_image,
    )


def visible_part(box: Box, image: np.ndarray, view: np.ndarray) -> Box | None:
    """Return the part of a reference that is in an image, with a margin; None: hardly any."""
    if not in_front(view, box):
        return None
    height, width = image.shape[:2]
    columns, rows = np.meshgrid(
        np.linspace(0, width - 1, DEFAULTS.probes), np.linspace(0, height - 1, DEFAULTS.probes)
    )
    on_image = np.column_stack([columns.ravel(), rows.ravel()])
    corners = box.corners()
    on_reference = warp_points(np.linalg.inv(view), on_image)
    first, last = corners.min(axis=0), corners.max(axis=0)
    # Of the image on the reference, and of the reference on the image
    seen = on_reference[((on_reference >= first) & (on_reference <= last)).all(axis=1)]
    inside = warp_points(view, corners)
    seen = np.concatenate(
        [seen, corners[((inside >= 0) & (inside <= [width - 1, height - 1])).all(axis=1)]]
    )
    if len(seen) < 2:
        return None
    least, most = seen.min(axis=0), seen.max(axis=0)
    margin = DEFAULTS.margin * (most - least)
    left, top = np.maximum(np.floor(least - margin), first).astype(int).tolist()
    right, bottom = np.minimum(np.ceil(most + margin), last).astype(int).tolist()
    if right <= left or bottom <= top:
        return None
    return Box(left, top, right - left + 1, bottom - top + 1)
