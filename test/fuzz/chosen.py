"""Choices that the bytes of an input make: a mutated input is a slightly different choice."""

from collections.abc import Sequence
import random
import struct
from typing import TypeVar

T = TypeVar('T')
ODD_NUMBERS = (0, 1, -1, 0.5, 255, 256, 1e-30, 1e30, 2**31 - 1, 2**32, 2**63, -(2**31), 60_000)
ODD_FLOATS = (float('nan'), float('inf'), -float('inf'))


def noises(count: int, length: int = 400) -> list[bytes]:
    """Return inputs that choose without a pattern, the same ones each time."""
    chance = random.Random(0)
    return [chance.randbytes(length) for _ in range(count)]


class Chosen:
    """Reads choices from bytes; when these are used up, everything is zero."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def bytes(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken.ljust(count, b'\0')

    def rest(self) -> bytes:
        return self._data[self._at :]

    def integer(self, low: int, high: int) -> int:
        return low + int.from_bytes(self.bytes(4), 'little') % (high - low + 1)

    def chance(self, share: float = 0.5) -> bool:
        return self.bytes(1)[0] < 256 * share

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def number(self) -> float:
        kind = self.bytes(1)[0] % 4
        if kind == 0:
            return self.pick((*ODD_NUMBERS, *ODD_FLOATS))
        if kind == 1:
            return struct.unpack('<d', self.bytes(8))[0]
        return self.integer(-10, 1000) / (kind if kind == 2 else 1)

    def text(self, most: int = 300) -> str:
        if most > 100 and self.chance(0.01):
            return 'x' * 1_000_000
        return self.bytes(self.integer(0, most) % (most + 1)).decode(errors='replace')
