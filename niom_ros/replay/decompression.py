"""Compressed bags, unpacked with a limit: a few bytes can unpack to many gigabytes.

rosbags sets no limit. `bound_rosbags` gives it decompressors that do, built on the packages that
rosbags itself depends on.
"""

from collections.abc import Callable
import shutil
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

from lz4.frame import LZ4FrameDecompressor
from rosbags.rosbag2 import reader, ReaderError, storage_mcap

from niom_ros.core.errors import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_UNPACKED = 500_000_000  # bytes of a chunk or a message; recorders write chunks of megabytes
MAX_FRAMES = 1000  # compressed frames of a chunk or a message; recorders write one
PIECE = 1_000_000  # bytes given to the decompressor at once
MAX_DISK_SHARE = 0.5  # share of the free space that an unpacked file may take


def unpacked(data: bytes, decompressor: Callable[[], Any], most: int) -> bytes:
    """Return the content of one or more compressed frames; refuse more than `most` bytes."""
    parts: list[bytes] = []
    place, left, frames = 0, most, 0
    while place < len(data):
        frames += 1
        if frames > MAX_FRAMES:
            raise ReaderError(f'it has more than {MAX_FRAMES} compressed frames')
        frame = decompressor()
        while not frame.eof:
            # In pieces, because at its end a frame copies all input beyond it.
            given = data[place : place + PIECE] if frame.needs_input else b''
            part = frame.decompress(given, left + 1)
            if not (given or part or frame.eof):
                raise ReaderError('its compressed data is cut off')
            place += len(given)
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise ReaderError(f'it unpacks to more than the {most} bytes that it may have')
        place -= len(frame.unused_data or b'')
    return b''.join(parts)


def unpacked_chunk(data: bytes, decompressor: Callable[[], Any], size: int) -> bytes:
    """Return the content of a chunk of an MCAP file that declares this size."""
    return unpacked(data, decompressor, min(size, MAX_UNPACKED))


def unpacked_message(data: bytes) -> bytes:
    """Return the content of a message that was compressed on its own."""
    return unpacked(data, zstd.ZstdDecompressor, MAX_UNPACKED)


class UnpackedFile(zstd.ZstdFile):
    """A file that is compressed as a whole; rosbags copies it into the temporary folder."""

    def __init__(self, *args: Any) -> None:
        """Open it for reading."""
        super().__init__(*args)
        self._free = shutil.disk_usage(tempfile.gettempdir()).free
        self._read = 0

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, as long as there is room for them."""
        data: bytes = super().read(size)
        self._read += len(data)
        if self._read > MAX_DISK_SHARE * self._free:
            raise UserError(
                f'unpacked, a file of the bag takes more than half of the {self._free / 1e6:.0f} '
                f'MB that are free in {tempfile.gettempdir()}: set TMPDIR to a folder with more '
                'space'
            )
        return data


def bound_rosbags() -> None:
    """Make rosbags use decompressors with limits."""
    storage_mcap.DECOMPRESSORS.update(
        lz4=lambda data, size: unpacked_chunk(data, LZ4FrameDecompressor, size),
        zstd=lambda data, size: unpacked_chunk(data, zstd.ZstdDecompressor, size),
    )
    vars(reader)['zstd'] = SimpleNamespace(open=UnpackedFile, decompress=unpacked_message)
