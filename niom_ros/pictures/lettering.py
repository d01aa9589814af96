"""Text in pictures: banners, legends and labels in a font that is legible when small."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
import math
from pathlib import Path
import unicodedata

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WHITE = (245, 245, 245)
SKY = (86, 180, 233)

MAX_TEXT_LENGTH = 400  # characters: ids and labels come from outside

Colour = Sequence[int]  # red, green, blue
Entry = tuple[np.ndarray, str]  # of a legend: a symbol and what it means


def banner(
    width: int,
    colour: Colour,
    *,
    headline: str,
    note: str,
    paragraphs: Sequence[tuple[str, str]],
    lines_each: int,
) -> np.ndarray:
    """Return a strip with a headline on a coloured plate, and named paragraphs.

    Its height does not depend on the text, so that pictures of a stream keep their size.
    """
    size = text_size(width)
    line = line_height(size)
    strip = np.zeros((lines_each * len(paragraphs) * line + size, width, 3), np.uint8)
    widest = max(text_width(headline, size, bold=True), text_width(note, size))
    plate = min(widest + 2 * size, width // 2)
    strip[:, :plate] = colour
    top = strip.shape[0] // 2 - line
    headline = shortened(headline, size, plate - 2 * size, bold=True)
    write(strip, headline, (size, top), size, bold=True)
    write(strip, shortened(note, size, plate - 2 * size), (size, top + line), size)

    rows = []
    for name, text in paragraphs:
        rows += wrapped(name, text, size, width - plate - 2 * size, lines_each)
    top = (strip.shape[0] - len(rows) * line) // 2
    for name, text in rows:
        write(strip, name, (plate + size, top), size, SKY, bold=True)
        write(strip, text, (plate + size + text_width(name, size, bold=True), top), size)
        top += line
    return strip


def legend(width: int, entries: Sequence[Entry]) -> np.ndarray:
    """Return a strip that explains symbols, in as many rows as needed."""
    size = text_size(width)
    rows = [np.zeros((line_height(size), size // 2, 3), np.uint8)]
    for mark, text in entries:
        words = shortened(text, size, width - mark.shape[1] - size)
        entry = np.hstack([mark, lettered(words, size)])
        if rows[-1].shape[1] + entry.shape[1] > width:
            rows.append(rows[0][:, : size // 2])
        rows[-1] = np.hstack([rows[-1], entry, lettered('   ', size)])
    shown = [row[:, :width] for row in rows]
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in shown]
    return np.pad(np.vstack(padded), ((size // 4, size // 4), (0, 0), (0, 0)))


def lettered(text: str, size: int) -> np.ndarray:
    """Return a line of text on black."""
    strip = np.zeros((line_height(size), text_width(text, size), 3), np.uint8)
    write(strip, text, (0, 0), size)
    return strip


def write_plate(pixels: np.ndarray, text: str, place: tuple[int, int], size: int) -> None:
    """Write a line on a dark plate, legible on any background."""
    left, top = max(0, place[0]), max(0, place[1])
    width = text_width(text, size) + size // 2
    plate = pixels[top : top + line_height(size), left : left + width]
    plate[:] = plate // 5
    write(pixels, text, (left + size // 4, top), size)


def text_size(width: int) -> int:
    """Return the letter height for a picture of this width, legible even when it is shrunk."""
    return round(min(max(6 + width / 90, 9), 28))


def line_height(size: int) -> int:
    """Return the distance between two lines of text."""
    return round(1.4 * size)


@lru_cache(maxsize=64)
def font(size: int, bold: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return a font with all European letters; the one of Pillow has only ASCII."""
    name = 'DejaVuSans-Bold.ttf' if bold else 'DejaVuSans.ttf'
    files = [name]  # Pillow looks among the fonts of the system.
    # It also comes with matplotlib, of which only this file is used.
    if (matplotlib := find_spec('matplotlib')) and matplotlib.origin:
        files.insert(0, str(Path(matplotlib.origin).parent / 'mpl-data/fonts/ttf' / name))
    for file in files:
        try:
            return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)
        except OSError:
            continue
    return ImageFont.load_default(size)


def text_width(text: str, size: int, bold: bool = False) -> int:
    """Return the width of a line in pixels."""
    return math.ceil(font(size, bold).getlength(text))


def cleaned(text: str) -> str:
    """Return text as one line of printable characters."""
    composed = unicodedata.normalize('NFC', text[:MAX_TEXT_LENGTH])
    return ' '.join(''.join(c if c.isprintable() else ' ' for c in composed).split())


def shortened(text: str, size: int, room: int, bold: bool = False) -> str:
    """Return as much of a text as fits, with an ellipsis where it was cut."""
    text = cleaned(text)
    if text_width(text, size, bold) <= room:
        return text

    def width_of_beginning(length: int) -> int:
        return text_width(text[:length].rstrip() + '…', size, bold)

    length = bisect_right(range(len(text)), room, key=width_of_beginning) - 1
    return text[:length].rstrip() + '…' if length > 0 else ''


def wrapped(name: str, text: str, size: int, room: int, lines: int) -> list[tuple[str, str]]:
    """Return a paragraph as rows of name and text; only the first has the name."""
    name = shortened(name, size, room // 2, bold=True)
    name += '  ' if name else ''
    rows, words = [], cleaned(text).split()
    for _ in range(lines - 1):
        free = room - text_width(name, size, bold=True)
        count = 0
        while count < len(words) and text_width(' '.join(words[: count + 1]), size) <= free:
            count += 1
        rows.append((name, ' '.join(words[:count])))
        name, words = '', words[count:]
    if words or not rows:
        free = room - text_width(name, size, bold=True)
        rows.append((name, shortened(' '.join(words), size, free)))
    return rows


def write(
    pixels: np.ndarray,
    text: str,
    place: tuple[int, int],
    size: int,
    colour: Colour = WHITE,
    bold: bool = False,
) -> None:
    """Write a line with its top left corner at this place."""
    left, top = place
    part = pixels[top : top + line_height(size), left : left + text_width(text, size, bold)]
    if part.size:
        patch = Image.fromarray(part)
        baseline = round(1.05 * size)
        ImageDraw.Draw(patch).text(
            (0, baseline), text, tuple(colour), font(size, bold), anchor='ls'
        )
        part[:] = np.asarray(patch)
