"""Pictures in memory: RGB arrays of height x width x 3, uint8, and how files become that."""

import io
from pathlib import Path
import stat
import warnings

import numpy as np
from PIL import Image
from PIL import ImageOps

from niom_ros.errors import UserError

MAX_PIXELS = 50_000_000  # a 48 megapixel photo; more is a mistake or an attack


# Pillow knows many more; some of them start other programs.
FORMATS = ('PNG', 'JPEG', 'WEBP', 'TIFF', 'BMP', 'GIF', 'PPM')


class ImageError(UserError):
    """A picture that cannot be used; the message says why and what to do."""


class TooPlain(ImageError):
    """A picture with too few distinct points to be found again."""


def check_size(width: int, height: int) -> None:
    """Refuse a picture that is empty or too large, before any of it is decoded."""
    if width < 1 or height < 1:
        raise ImageError(f'the image is empty ({width} x {height} pixels)')
    if width * height > MAX_PIXELS:
        raise ImageError(
            f'the image has {width} x {height} pixels, more than the limit of '
            f'{MAX_PIXELS // 10**6} million: scale it down'
        )


def read_image(path: str | Path, page: int = 0) -> np.ndarray:
    """Read an image file as RGB; transparent parts become white, like paper."""
    path = regular_file(path)
    try:
        return decoded(path, page, as_the_camera_was_held=True)
    except ImageError as error:
        raise ImageError(f'{path}: {error}') from None
    except PermissionError:
        raise ImageError(f'{path} may not be read by this user: change its permissions') from None


def regular_file(path: str | Path) -> Path:
    """Return the path of a file that can be opened without waiting, its home folder filled in."""
    path = Path(path)
    try:
        path = path.expanduser()
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ImageError(f'there is no file {path} on this machine') from None
    except (OSError, RuntimeError, ValueError) as error:
        raise ImageError(f'cannot look at {path}: {reason(error)}') from None
    if stat.S_ISDIR(mode):
        raise ImageError(f'{path} is a folder: name an image file in it')
    if not stat.S_ISREG(mode):
        raise ImageError(f'{path} is not a regular file')
    return path


def decode_image(data: bytes) -> np.ndarray:
    """Return a picture that came as the bytes of a file, as it was recorded."""
    return decoded(io.BytesIO(data), page=0, as_the_camera_was_held=False)


def decoded(source: Path | io.BytesIO, page: int, as_the_camera_was_held: bool) -> np.ndarray:
    """Decode a picture, once it is known to be neither too large nor of a strange format."""
    try:
        # The size is checked below, with our own limit: Pillow's warning would only add noise.
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', Image.DecompressionBombWarning)
            with Image.open(source, formats=FORMATS) as image:
                check_size(*image.size)
                image.seek(page)
                check_size(*image.size)
                return to_rgb(ImageOps.exif_transpose(image) if as_the_camera_was_held else image)
    except (ImageError, PermissionError):
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
    """Reduce 16 bits to 8; many sensors send only 10, 12 or 14 and leave the upper ones 0."""
    largest = int(pixels.max(initial=0))
    used = next(bits for bits in (8, 10, 12, 14, 16) if largest < 1 << bits)
    return (pixels >> (used - 8)).astype(np.uint8)


def reason(error: Exception) -> str:
    """Return what an error says, or at least what it is."""
    text = getattr(error, 'strerror', None) or str(error) or type(error).__name__
    return ' '.join(text.split())
