"""Truncated MCAP files, as a recorder that crashed leaves them."""

import io
from pathlib import Path
from typing import Any

# An MCAP file consists of a magic number, records (one byte of opcode, eight of length, content)
# and the magic number again. The footer record points to an index; zeros say that there is none.
MCAP_MAGIC = b'\x89MCAP0\r\n'
MCAP_FOOTER, MCAP_DATA_END = 0x02, 0x0F
MCAP_END = bytes([MCAP_FOOTER, 20]) + bytes(7 + 20) + MCAP_MAGIC


class CutMcap:
    """Stands in for the path of a truncated MCAP file: when rosbags opens it, it has an end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.suffix = path.suffix

    def __str__(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        """Return True: the file exists."""
        return True

    def is_dir(self) -> bool:
        """Return False: it is a file."""
        return False

    def open(self, _: str) -> io.BufferedReader:
        """Return the complete records of the file, followed by an end."""
        return io.BufferedReader(RepairedMcap(self._path, whole_records(self._path)))


def whole_records(path: Path) -> int:
    """Return the number of bytes up to the last complete data record."""
    size = path.stat().st_size
    with path.open('rb') as file:
        end = len(file.read(len(MCAP_MAGIC)))
        while len(head := file.read(9)) == 9:
            after = end + 9 + int.from_bytes(head[1:], 'little')
            # Zero is not an opcode, but some file systems leave zeros after a power cut.
            if head[0] in (0, MCAP_FOOTER, MCAP_DATA_END) or after > size:
                break
            end = file.seek(after)
    return end


class RepairedMcap(io.RawIOBase):
    """The first bytes of a file, followed by the end of an MCAP file."""

    def __init__(self, path: Path, length: int) -> None:
        self._file = path.open('rb')
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: reading may start anywhere."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        end = self._length + len(MCAP_END)
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence, end)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        self._file.seek(self._position)
        data = self._file.read(max(0, min(len(buffer), self._length - self._position)))
        data = data or MCAP_END[self._position - self._length :][: len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
