"""What a client asks for with SetReference: whether it is allowed, and what it means."""

import numpy as np
from sensor_msgs.msg import Image

from niom_ros.errors import UserError
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import TooPlain
from niom_ros.nodes.image_conversion import message_to_rgb
from niom_ros.srv import SetReference

LONGEST_TEXT = 256  # characters of an id or a label


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
    if request.kind > SetReference.Request.KIND_DRAWING:
        raise BadRequest(f'kind {request.kind} is unknown: use one of the KIND constants')
    unsupported = {
        'landmarks': request.landmark_names or request.landmark_x or request.landmark_y,
        'physical_width': request.physical_width,
        'kind DRAWING': request.kind == SetReference.Request.KIND_DRAWING,
        'keep_selection': request.keep_selection,
        'objects': request.objects,
        'page_dpi': request.page_dpi,
        'do_rectify of the region': request.region.do_rectify,
    }
    for field, value in unsupported.items():
        if value:
            raise BadRequest(f'{field} is not supported by this version')


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
