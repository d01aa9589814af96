"""Decode image files and compressed images to RGB arrays (height x width x 3, uint8)."""

import io
import logging
from pathlib import Path
from typing import BinaryIO
import warnings

import numpy as np
from PIL import Image, ImageOps

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason
from niom_ros.core.field_types import check_type, described
from niom_ros.images.safe_open import FileRefused, MAX_FILE_BYTES, opened_file
from niom_ros.images.tiff_layout import check_tiff

MAX_PIXELS = 50_000_000  # a 48 megapixel photo; more is a mistake or an attack
# Without these, a few bytes could keep the decoder busy for hours.
MAX_SCANS = 100  # in a JPEG file; a progressive photo has about ten
MAX_PAGES = 1000  # up to the requested one; Pillow walks through all of them to find it
MAX_ANIMATED_PIXELS = 500_000_000  # in the frames before the requested one

# Pillow supports many more; some of them start other programs.
FORMATS = ('PNG', 'JPEG', 'WEBP', 'TIFF', 'BMP', 'GIF', 'PPM')

# An ImageError says what is wrong with a picture. Pillow would also write to stderr about every
# tag of every frame, through warnings and its logger. Set once, because threads share the filters.
warnings.filterwarnings('ignore', module=r'PIL\.')
logging.getLogger('PIL').addHandler(logging.NullHandler())


class ImageError(UserError):
    """A picture that cannot be used; the message says why and what to do."""


class TooPlain(ImageError):
    """A picture with too few distinct points to be recognised."""


def check_size(width: int, height: int) -> None:
    """Refuse a picture that is empty or too large, before any of it is decoded."""
    if width < 1 or height < 1:
        raise ImageError(f'the image is empty ({width} x {height} pixels)')
    if width * height > MAX_PIXELS:
        raise ImageError(
            f'the image has {width} x {height} pixels, more than the limit of '
            f'{MAX_PIXELS // 10**6} million: scale it down'
        )


def check_rgb(image: object, what: str) -> None:
    """Refuse anything but an array of RGB bytes."""
    if not isinstance(image, np.ndarray):
        raise ImageError(
            f'{what} is a {type(image).__name__}: give a NumPy array, as read_image returns it'
        )
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ImageError(
            f'{what} is {described(image)}: give RGB pixels, height x width x 3, as uint8'
        )
    height, width = image.shape[:2]
    check_size(width, height)


def read_image(path: str | Path, page: int = 0) -> np.ndarray:
    """Read an image file as RGB; transparent parts become white, like paper."""
    check_type('the path', path, str | Path, ImageError)
    check_type('the page', page, int, ImageError)
    try:
        with opened_file(path) as stream:
            return read_image_from(stream, page)
    except FileRefused as error:
        raise ImageError(str(error)) from None
    except ImageError as error:
        raise ImageError(f'{path}: {error}') from None


def read_image_from(stream: BinaryIO, page: int) -> np.ndarray:
    """Read an open image file, rotated upright as its EXIF data says."""
    return decoded(stream, page, apply_exif=True)


def decode_image(data: bytes) -> np.ndarray:
    """Decode an image from memory; its EXIF orientation is ignored."""
    if len(data) > MAX_FILE_BYTES:
        raise ImageError(
            f'the image is {len(data) / 1e6:.0f} MB, over the limit of '
            f'{MAX_FILE_BYTES // 10**6} MB: scale it down'
        )
    return decoded(io.BytesIO(data), page=0, apply_exif=False)


def decoded(source: BinaryIO, page: int, apply_exif: bool) -> np.ndarray:
    """Decode a picture, after checking everything that could make decoding slow or unsafe."""
    if page > MAX_PAGES:
        raise ImageError(f'page {page} is beyond the limit of {MAX_PAGES}: save it as a picture')
    try:
        check_webp_size(source)
        check_tiff(source, page)
        with Image.open(source, formats=FORMATS) as image:
            check_size(*image.size)
            check_scans(source)
            go_to_page(image, page)
            check_size(*image.size)
            return to_rgb(ImageOps.exif_transpose(image) if apply_exif else image)
    except ImageError:
        raise
    except EOFError:
        raise ImageError(f'there is no page {page} (the first is 0)') from None
    except Image.DecompressionBombError:
        raise ImageError(
            'the image has more pixels than the limit of '
            f'{MAX_PIXELS // 10**6} million: scale it down'
        ) from None
    except Image.UnidentifiedImageError:
        raise ImageError(f'not an image of a known format: use {", ".join(FORMATS)}') from None
    except Exception as error:  # decoders raise anything from struct.error to MemoryError
        raise ImageError(f'damaged, or cannot be read: {reason(error)}') from None


def check_webp_size(source: BinaryIO) -> None:
    """Refuse a WebP picture that is too large: Pillow allocates memory as soon as it opens one."""
    head = source.read(30)
    source.seek(0)
    if head[:4] != b'RIFF' or head[8:12] != b'WEBP' or len(head) < 30:
        return
    kind, body = head[12:16], head[20:]
    if kind == b'VP8X':
        width, height = (int.from_bytes(body[at : at + 3], 'little') + 1 for at in (4, 7))
    elif kind == b'VP8L':
        bits = int.from_bytes(body[1:5], 'little')
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (int.from_bytes(body[at : at + 2], 'little') & 0x3FFF for at in (6, 8))
    check_size(width, height)


def check_scans(source: BinaryIO) -> None:
    """Refuse a JPEG picture with too many scans: each one may take as long as a whole photo.

    Recognised by its first bytes, because Pillow has other names for some of them, such as MPO.
    """
    position = source.tell()
    source.seek(0)
    scans, last = 0, source.read(2)
    if last != b'\xff\xd8':
        source.seek(position)
        return
    while chunk := source.read(1 << 20):
        scans += (last + chunk).count(b'\xff\xda')
        last = chunk[-1:]
    source.seek(position)
    if scans > MAX_SCANS:
        raise ImageError(f'it has more than {MAX_SCANS} scans: save it again')


def go_to_page(image: Image.Image, page: int) -> None:
    """Go to a page; an animation is decoded frame by frame up to it, and its frames may grow."""
    decoded_pixels = 0
    for frame in range(page if image.format != 'TIFF' else 0):
        pixels = image.width * image.height
        if decoded_pixels + (page - frame) * pixels > MAX_ANIMATED_PIXELS:
            raise ImageError(f'page {page} is too far into an animation: save it as a picture')
        image.seek(frame + 1)  # decodes this frame, whose size has been checked
        check_size(*image.size)
        decoded_pixels += pixels
    image.seek(page)


def to_rgb(image: Image.Image) -> np.ndarray:
    """Return a Pillow image as an RGB array."""
    if image.mode.startswith('I'):  # 16 bits per pixel
        grey = to_8_bits(np.asarray(image).clip(0, 65535).astype(np.uint16))
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert('RGBA')
        paper = Image.new('RGBA', image.size, 'white')
        image = Image.alpha_composite(paper, image)
    return np.array(image.convert('RGB'))


def to_8_bits(pixels: np.ndarray) -> np.ndarray:
    """Reduce 16 bits to 8; many sensors use only 10, 12 or 14 and leave the upper bits 0."""
    largest = int(pixels.max(initial=0))
    used = next(bits for bits in (8, 10, 12, 14, 16) if largest < 1 << bits)
    return (pixels >> (used - 8)).astype(np.uint8)
