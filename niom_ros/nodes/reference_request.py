"""What a client requests with SetReference, and what it gets back."""

from typing import Any

import numpy as np
from sensor_msgs.msg import Image

from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.faults import explained, printable
from niom_ros.core.settings import Wanted
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.decoding import ImageError, TooPlain
from niom_ros.images.pages.reading import problem_with_dpi, ReadPicture
from niom_ros.images.safe_open import FileForbidden
from niom_ros.matching.reference import (
    BadReference,
    check_count,
    Landmark,
    marked_object,
    MAX_LANDMARKS,
    MAX_OBJECTS,
    Reference,
)
from niom_ros.matching.symmetry import described_turns
from niom_ros.messages.results import object_messages
from niom_ros.msg import ReferenceInfo
from niom_ros.nodes.ros_messages import build
from niom_ros.references.folder import FolderError
from niom_ros.references.known_reference import KnownReference
from niom_ros.references.library import UnknownReference
from niom_ros.srv import SetReference

POOR_MATCHABILITY = 0.2
MAX_PATH_LENGTH = 4096  # characters, the limit of Linux
KINDS = {SetReference.Request.KIND_PHOTO: False, SetReference.Request.KIND_DRAWING: True}
WANTED: dict[int, Wanted | None] = {
    SetReference.Request.WANTED_DEFAULT: None,
    SetReference.Request.WANTED_SAME_OBJECT: 'same_object',
    SetReference.Request.WANTED_SAME_KIND: 'same_kind',
    SetReference.Request.WANTED_EITHER: 'either',
}
WANTED_NUMBERS = {wanted: number for number, wanted in WANTED.items()}


class NoCameraImage(UserError):
    """The requested camera image does not exist."""


class NotReady(UserError):
    """The node is not configured."""


def check_request(request: SetReference.Request) -> None:
    """Refuse a request whose fields contradict each other, before its picture is read."""
    pictures = [is_given(request.image), bool(request.path), request.use_current_frame]
    if pictures.count(True) != 1:
        raise BadReference('give exactly one of image, path and use_current_frame')
    if len(request.path) > MAX_PATH_LENGTH:
        raise BadReference(
            f'path has {len(request.path)} characters: use at most {MAX_PATH_LENGTH}'
        )
    for field in ('page', 'page_dpi'):
        if getattr(request, field) and not request.path:
            raise BadReference(f'{field} is only for files: leave it 0')
    if problem := problem_with_dpi(request.page_dpi):
        raise BadReference(problem)
    if request.kind > SetReference.Request.KIND_DRAWING:
        raise BadReference(f'kind {request.kind} is unknown: use one of the KIND constants')
    if request.wanted not in WANTED:
        raise BadReference(f'wanted {request.wanted} is unknown: use one of the WANTED constants')
    check_count('objects', request.objects, MAX_OBJECTS)
    check_count('landmarks', request.landmark_names, MAX_LANDMARKS)
    if not (len(request.landmark_names) == len(request.landmark_x) == len(request.landmark_y)):
        raise BadReference(
            f'there are {len(request.landmark_names)} landmark_names, '
            f'{len(request.landmark_x)} landmark_x and {len(request.landmark_y)} landmark_y: '
            'give the same number of each'
        )
    if request.region.do_rectify:
        raise BadReference('do_rectify of the region is not supported by this version')


def given_reference(request: SetReference.Request, picture: ReadPicture) -> Reference:
    """Return the reference that a request describes, with the picture that it names."""
    size = picture.image.shape[1], picture.image.shape[0]
    # A view would keep its whole message alive, which can be far larger than the picture.
    image = picture.image if picture.image.flags.owndata else picture.image.copy()
    return Reference(
        image,
        id=request.id or 'default',
        label=request.label,
        drawing=KINDS.get(request.kind),
        wanted=WANTED[request.wanted],
        region=requested_region(request),
        mask=requested_mask(request),
        objects=tuple(
            marked_object(given.label, given.x, given.y, given.width, given.height, size)
            for given in request.objects
        ),
        landmarks=tuple(
            map(Landmark, request.landmark_names, request.landmark_x, request.landmark_y)
        ),
        physical_width=request.physical_width,
        notes=picture.notes,
    )


def requested_region(request: SetReference.Request) -> Box | None:
    """Return the part of the picture that is used, None for all of it."""
    region = request.region
    box = Box(region.x_offset, region.y_offset, region.width, region.height)
    return None if box == Box(0, 0, 0, 0) else box


def requested_mask(request: SetReference.Request) -> np.ndarray | None:
    """Return the mask of the picture, None if there is none."""
    if not is_given(request.mask):
        return None
    if request.mask.encoding not in ('mono8', '8UC1'):
        raise BadReference(
            f"the mask has the encoding '{request.mask.encoding[:40]}': send it as mono8"
        )
    return message_to_rgb(request.mask)[:, :, 0].copy()


def is_given(image: Image) -> bool:
    """Return whether a picture was filled in, valid or not."""
    return bool(image.data or image.width or image.height)


def fill_answer(response: SetReference.Response, known: KnownReference) -> None:
    """Fill in what was found in a reference, and how well it can be matched."""
    reference = known.prepared
    request = SetReference.Request
    response.success = True
    response.id = known.id
    response.revision = known.revision
    response.width, response.height = reference.size
    response.kind = request.KIND_DRAWING if reference.drawing else request.KIND_PHOTO
    response.kind_confidence = reference.kind_confidence
    response.keypoints = len(reference.features)
    response.matchability = reference.matchability
    response.objects = object_messages(build, reference.scene)
    response.weights_from = reference.scene.source
    response.warnings += known.given.notes
    if reference.matchability < POOR_MATCHABILITY:
        response.warnings.append(
            f'only {len(reference.features)} distinct points and few strokes: '
            'it will be hard to find'
            if reference.drawing
            else f'only {len(reference.features)} distinct points: it will be hard to find'
        )
    if reference.symmetric_turns:
        response.warnings.append(
            f'its direction is a guess: {described_turns(reference.symmetric_turns)}; add '
            'something that tells the turns apart, if the direction matters'
        )
    if not reference.scene.objects:
        response.warnings.append(
            f'no semantic weights ({reference.scene.source}): '
            'mark objects or give a label to help it'
        )


def reference_info(known: KnownReference, selected: bool) -> ReferenceInfo:
    """Return the entry of a reference in the list."""
    given, reference = known.given, known.prepared
    width, height = given.size
    return ReferenceInfo(
        id=known.id,
        label=given.label,
        revision=known.revision,
        selected=selected,
        width=width,
        height=height,
        kind=ReferenceInfo.DRAWING if reference.drawing else ReferenceInfo.PHOTO,
        keypoints=len(reference.features),
        matchability=reference.matchability,
        weights_from=reference.scene.source,
        landmark_names=[mark.name for mark in given.landmarks],
        physical_width=given.physical_width,
        file=printable(known.file),
        wanted=WANTED_NUMBERS[given.wanted],
    )


# The error codes that clients see, most specific first.
ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (NotReady, 'NOT_READY'),
    (UnknownReference, 'UNKNOWN_ID'),
    (FolderError, 'STORAGE'),
    (NoCameraImage, 'NO_CAMERA_IMAGE'),
    (TooPlain, 'TOO_PLAIN'),
    (ImageError, 'BAD_IMAGE'),
    (BadReference, 'BAD_REQUEST'),
    (FileForbidden, 'BAD_REQUEST'),
)


def refusal(error: BaseException, response_type: Any) -> tuple[int, str]:
    """Return the error code and the reason that a client sees."""
    for kind, code in ERRORS:
        if isinstance(error, kind) and hasattr(response_type, code):
            return getattr(response_type, code), str(error)
    return response_type.FAULT, f'the node failed: {explained(error)}'
