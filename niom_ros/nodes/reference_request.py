"""What a client asks for with SetReference: whether it is allowed, and what it means."""

import math

import numpy as np
from sensor_msgs.msg import Image

from niom_ros.errors import UserError
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import TooPlain
from niom_ros.nodes.image_conversion import message_to_rgb
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import Hints
from niom_ros.semantics.scene import MarkedObject
from niom_ros.srv import SetReference

LONGEST_TEXT = 256  # characters of an id or a label
MOST_OBJECTS = 100


class BadRequest(UserError):
    """Fields that contradict each other, or that this version does not support."""


class NoCameraImage(UserError):
    """The camera image that was asked for is not there."""


def check_request(request: SetReference.Request) -> None:
    """Refuse a request whose fields contradict each other or have no effect yet."""
    pictures = [is_given(request.image), bool(request.path), request.use_current_frame]
    if pictures.count(True) != 1:
        raise BadRequest('give exactly one of image, path and use_current_frame')
    if request.page and not request.path:
        raise BadRequest('page is only for files: leave it 0')
    check_text('id', request.id)
    check_text('label', request.label)
    if len(request.objects) > MOST_OBJECTS:
        raise BadRequest(f'{len(request.objects)} objects are given: use at most {MOST_OBJECTS}')
    for given in request.objects:
        check_text('the label of an object', given.label)
    if request.kind > SetReference.Request.KIND_DRAWING:
        raise BadRequest(f'kind {request.kind} is unknown: use one of the KIND constants')
    unsupported = {
        'landmarks': request.landmark_names or request.landmark_x or request.landmark_y,
        'physical_width': request.physical_width,
        'keep_selection': request.keep_selection,
        'page_dpi': request.page_dpi,
        'do_rectify of the region': request.region.do_rectify,
    }
    for field, value in unsupported.items():
        if value:
            raise BadRequest(f'{field} is not supported by this version')


def requested_hints(request: SetReference.Request, shape: tuple[int, int]) -> Hints:
    """Return what the client knows about the picture: its label, kind and objects."""
    height, width = shape
    objects = []
    for given in request.objects:
        numbers = given.x, given.y, given.width, given.height
        name = f"object '{given.label}'"
        if not all(map(math.isfinite, numbers)) or given.width <= 0 or given.height <= 0:
            raise BadRequest(f'{name} has no box: give x, y and a width and height above 0')
        # The message counts from the picture's edge, the library from its first pixel's centre.
        left, top = given.x - 0.5, given.y - 0.5
        area = Area(left, top, left + given.width, top + given.height)
        inside = area.within(width, height)
        if inside.width <= 0 or inside.height <= 0:
            raise BadRequest(f'{name} lies outside of the {width} x {height} picture')
        objects.append(MarkedObject(given.label, inside))
    kinds = {
        SetReference.Request.KIND_PHOTO: False,
        SetReference.Request.KIND_DRAWING: True,
    }
    return Hints(request.label, tuple(objects), kinds.get(request.kind))


def is_given(image: Image) -> bool:
    """Tell whether somebody filled in a picture, rightly or not."""
    return bool(image.data or image.width or image.height)


def requested_mask(request: SetReference.Request, shape: tuple[int, int]) -> np.ndarray | None:
    """Return where the reference counts, from the region and the mask of a request."""
    height, width = shape
    region = request.region
    mask = None
    if is_given(request.mask):
        if request.mask.encoding not in ('mono8', '8UC1'):
            raise BadRequest(
                f"the mask has the encoding '{request.mask.encoding[:40]}': send it as mono8"
            )
        mask = message_to_rgb(request.mask)[:, :, 0]
    if region.x_offset or region.y_offset or region.width or region.height:
        right, bottom = region.x_offset + region.width, region.y_offset + region.height
        if not (region.width and region.height and right <= width and bottom <= height):
            raise BadRequest(
                f'the region (x {region.x_offset} to {right}, y {region.y_offset} to {bottom}) '
                f'does not lie inside the picture of {width} x {height} pixels'
            )
        inside = np.zeros(shape, np.uint8)
        inside[region.y_offset : bottom, region.x_offset : right] = 255
        if mask is None:
            return inside
        if mask.shape == shape:  # any other is refused when the reference is prepared
            mask = mask & inside
    return mask


def check_text(field: str, text: str) -> None:
    """Refuse a text that would fill or garble the messages that carry it."""
    if len(text) > LONGEST_TEXT:
        raise BadRequest(f'{field} has {len(text)} characters: use at most {LONGEST_TEXT}')
    if not text.isprintable():
        raise BadRequest(f'{field} has line breaks or control characters: leave them out')


def refusal(error: Exception) -> tuple[int, str]:
    """Return the error code and the reason that a client reads."""
    codes = {
        BadRequest: SetReference.Response.BAD_REQUEST,
        NoCameraImage: SetReference.Response.NO_CAMERA_IMAGE,
        TooPlain: SetReference.Response.TOO_PLAIN,
        ImageError: SetReference.Response.BAD_IMAGE,
    }
    for kind, code in codes.items():
        if isinstance(error, kind):
            return code, str(error)
    return SetReference.Response.FAULT, f'the node failed: {error!r}'
