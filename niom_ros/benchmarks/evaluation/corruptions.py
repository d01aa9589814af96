"""Corrupt images as ImageNet-C does: noise, blur, weather and compression at severity 5.

The pixels come from the library imagecorruptions-imaug, except for glass_blur, whose loops over
pixels take a minute in Python. The same image, name and seed give the same pixels as long as the
versions of the libraries and the kind of processor stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
from contextvars import ContextVar
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from pathlib import Path
import re
import sys
import tempfile
import threading
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import PIL
import scipy
import skimage
from skimage.filters import gaussian

from niom_ros.benchmarks.cache import cache_folder
from niom_ros.core.durable_files import publish
from niom_ros.core.errors import UserError

# In the order of the table in the paper.
CORRUPTIONS: tuple[str, ...] = (
    'gaussian_noise',
    'shot_noise',
    'impulse_noise',
    'defocus_blur',
    'glass_blur',
    'motion_blur',
    'zoom_blur',
    'snow',
    'frost',
    'fog',
    'brightness',
    'contrast',
    'elastic_transform',
    'pixelate',
    'jpeg_compression',
)

SEVERITY = 5
MIN_SIDE = 32  # pixels; the library refuses less
LIBRARY = 'imagecorruptions-imaug'

# ImageNet-C's glass_blur at severity 5.
GLASS_SIGMA = 1.5
GLASS_REACH = 4
GLASS_ROUNDS = 2

CACHE_LIMIT = 8_000_000_000  # bytes
# Increase it when a change of this module changes pixels.
REVISION = 1
DIGEST_SIZE = hashlib.sha256().digest_size


class UnknownCorruption(UserError):
    """A name that is not one of the 15."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'there is no corruption {name!r}; known corruptions: {", ".join(CORRUPTIONS)}'
        )


class LibraryMissing(UserError):
    """The library that corrupts images is not installed or does not load."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(
            f'corrupting images needs {LIBRARY} ({error}): run make setup, '
            f'or in your own environment: pip install --no-deps {LIBRARY}'
        )


class CacheNotUsable(UserError):
    """The folder for corrupted images cannot be written to."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f'cannot keep corrupted images in {folder} ({error.strerror}): '
            'make it writable, or set NIOM_CACHE to a folder that is'
        )


def corrupt(image: np.ndarray, name: str, seed: int) -> np.ndarray:
    """Return a corrupted copy of an RGB image; the same seed gives the same copy."""
    check_name(name)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f'an RGB image of bytes is needed, not {image.dtype} {image.shape}')
    height, width = image.shape[:2]
    if min(height, width) < MIN_SIDE:
        raise UserError(
            f'an image of {width} x {height} pixels is too small to be corrupted: '
            f'both sides must have at least {MIN_SIDE}'
        )
    library = load_library()
    # A bit generator takes a seed of any size, not only of 32 bits.
    random = np.random.RandomState(np.random.MT19937(seed))
    if name == 'glass_blur':
        return glass_blur(image, random)
    # The functions of scikit-image create their own generator unless they get a seed.
    own_seed = {'seed': seed} if name == 'impulse_noise' else {}
    with drawing_from(random):
        corrupted = library.corrupt(image, SEVERITY, name, **own_seed)
    # Some results are not contiguous in memory, some are read-only.
    return np.array(corrupted, order='C')


def seed_of(seed: int, image_name: str, corruption: str) -> int:
    """Derive the seed of one image, so that no two images of a pair share their noise.

    The same noise in both would itself be matched, at the same place in both images.
    """
    text = json.dumps([seed, image_name, corruption])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], 'big')


def check_name(name: str) -> None:
    """Refuse a name that is not one of the 15."""
    if name not in CORRUPTIONS:
        raise UnknownCorruption(name)


# The library, and the random numbers it draws

_RANDOM: ContextVar[Any] = ContextVar('random numbers of the corruption', default=np.random)
_IMPORTING = threading.Lock()


class NumpyWithOwnRandom:
    """NumPy, but its random numbers come from the corruption that runs in this thread.

    The library draws from NumPy's global generator. Seeding that and restoring it afterwards
    would not be enough: another thread could draw from it, or seed it, in between.
    """

    @property
    def random(self) -> Any:
        """The generator of this thread's corruption; outside of one, NumPy's global one."""
        return _RANDOM.get()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@contextlib.contextmanager
def drawing_from(random: np.random.RandomState) -> Iterator[None]:
    """Let the library draw from this generator in the block."""
    token = _RANDOM.set(random)
    try:
        yield
    finally:
        _RANDOM.reset(token)


def load_library() -> ModuleType:
    """Import the library and give it random numbers that can be seeded."""
    with _IMPORTING:
        try:
            # The distribution imagecorruptions has modules of the same name, but takes no seeds.
            importlib.metadata.version(LIBRARY)
            with a_numba():
                import imagecorruptions
                from imagecorruptions import corruptions
        except ImportError as error:
            raise LibraryMissing(error) from None
        if not isinstance(corruptions.np, NumpyWithOwnRandom):
            corruptions.np = NumpyWithOwnRandom()
        library: ModuleType = imagecorruptions
        return library


@contextlib.contextmanager
def a_numba() -> Iterator[None]:
    """Let `from numba import njit` succeed in the block, even if numba is not installed.

    The library needs numba for its glass_blur only, which is not used; numba with llvmlite would
    be 64 MB to download and 208 MB on disk.
    """
    if 'imagecorruptions.corruptions' in sys.modules or importlib.util.find_spec('numba'):
        yield
        return
    stand_in: Any = ModuleType('numba')
    stand_in.njit = lambda: lambda function: function
    sys.modules['numba'] = stand_in
    try:
        yield
    finally:
        sys.modules.pop('numba', None)


# Glass blur


def glass_blur(image: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Show an image as if through frosted glass: blurred, shuffled nearby, blurred again."""
    blurred = gaussian(image / 255.0, GLASS_SIGMA, channel_axis=-1)
    shuffled = (blurred * 255).astype(np.uint8)
    for _ in range(GLASS_ROUNDS):
        shuffled = shuffle_nearby(shuffled, GLASS_REACH, random)
    blurred = gaussian(shuffled / 255.0, GLASS_SIGMA, channel_axis=-1)
    return (np.clip(blurred, 0, 1) * 255).astype(np.uint8)


def shuffle_nearby(image: np.ndarray, reach: int, random: np.random.RandomState) -> np.ndarray:
    """Replace every pixel, from the last to the first, by a random one nearby.

    ImageNet-C and the library write this as a swap, but with both pixels as views into the same
    array: the second assignment copies back what the first has written, so one pixel is
    overwritten and the other stays. This does the same for all pixels at once: if the source of
    a pixel was itself replaced before, the pixel gets what replaced its source.
    """
    height, width = image.shape[:2]
    rows = np.arange(height - reach, reach, -1)
    columns = np.arange(width - reach, reach, -1)
    offsets = random.randint(-reach, reach, size=(len(rows), len(columns), 2))
    here = (rows[:, None] * width + columns).ravel()
    there = here + (offsets[..., 1] * width + offsets[..., 0]).ravel()

    source = np.arange(height * width)
    source[here] = there
    has_turn = np.zeros(height * width, bool)
    has_turn[here] = True
    # Whether the pixel at `source` was replaced earlier, so that its own source counts.
    relayed = np.zeros(height * width, bool)
    relayed[here] = has_turn[there] & (there > here)
    open_ends = here[relayed[here]]
    while open_ends.size:
        # Each round halves what is left of every chain, so a few resolve even the longest.
        via = source[open_ends]
        still = relayed[via]
        source[open_ends] = source[via]
        relayed[open_ends] = still
        open_ends = open_ends[still]
    shuffled: np.ndarray = image.reshape(height * width, -1)[source].reshape(image.shape)
    return shuffled


# Corrupted images on disk


class CorruptedImages:
    """Corrupted images, each computed once and kept as a PNG file.

    All are in one folder, which may be deleted at any time. When its files exceed the limit, the
    least recently used are removed. Several processes may share it.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        folder = cache_folder() / 'corrupted_images' if folder is None else Path(folder)
        self.folder = folder.absolute()
        self.limit = CACHE_LIMIT

    def get(self, image: np.ndarray, name: str, seed: int) -> np.ndarray:
        """Return what `corrupt` returns, from disk if it was computed before."""
        check_name(name)
        path = self.path(image, name, seed)
        kept = read_checked(path)
        if kept is not None and kept.shape == image.shape:
            with contextlib.suppress(OSError):
                os.utime(path)  # just used, so the last to be removed
            return kept
        corrupted = corrupt(image, name, seed)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_checked(path, corrupted)
            self.trim()
        except OSError as error:
            raise CacheNotUsable(self.folder, error) from None
        return corrupted

    def path(self, image: np.ndarray, name: str, seed: int) -> Path:
        """Return the file of a corrupted image; its name has all that its pixels depend on."""
        digest = hashlib.sha256()
        about = [name, seed, SEVERITY, REVISION, image.shape, str(image.dtype), *versions()]
        digest.update(json.dumps(about).encode())
        digest.update(image.tobytes())
        return self.folder / f'{name}-{digest.hexdigest()}.png'

    def trim(self) -> None:
        """Remove the least recently used files until the rest fits."""
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                # Including what a killed process left unfinished, but no other files.
                if re.fullmatch(r'\.?\w+-[0-9a-f]{64}\.png(\.\w+\.unfinished)?', entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        files.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            Path(path).unlink(missing_ok=True)
            total -= size


def versions() -> list[str]:
    """List the versions of everything that affects the pixels."""
    try:
        library = importlib.metadata.version(LIBRARY)
    except importlib.metadata.PackageNotFoundError as error:
        raise LibraryMissing(error) from None
    others = (np, cv2, PIL, scipy, skimage)
    return [library, *(str(module.__version__) for module in others)]


def write_checked(path: Path, image: np.ndarray) -> None:
    """Write an image as PNG, followed by the hash of the file.

    Viewers ignore what follows the end of a PNG, and decoders do not notice all kinds of damage.
    """
    fast = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    content = cv2.imencode('.png', image[..., ::-1], fast)[1].tobytes()
    # A separate name for each writer: several may write the same image at the same time.
    descriptor, staged = tempfile.mkstemp('.unfinished', f'.{path.name}.', path.parent)
    try:
        with os.fdopen(descriptor, 'wb') as file:
            file.write(content + hashlib.sha256(content).digest())
        publish(Path(staged), path)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise


def read_checked(path: Path) -> np.ndarray | None:
    """Read what `write_checked` wrote; None if it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    png, digest = content[:-DIGEST_SIZE], content[-DIGEST_SIZE:]
    if hashlib.sha256(png).digest() != digest:
        return None
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    return None if image is None else np.ascontiguousarray(image[..., ::-1])
