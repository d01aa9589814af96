"""Check how a TIFF file lays out its pixels, before Pillow opens it.

A page is decompressed strip by strip or tile by tile. The file says how many there are, how large
they are, and where the bytes of each one are, so a tiny file can demand far more memory than the
pixels of its page.
"""

from dataclasses import dataclass
import struct
from typing import BinaryIO

from niom_ros.images.safe_open import MAX_FILE_BYTES

MAX_PARTS = 200_000  # strips or tiles of a page; Pillow allocates memory for each of them
MAX_TAGS = 4096  # on a page, as in libtiff
MAX_BITS = 64  # per sample
MAX_TILED = 64_000_000  # pixels of all tiles of a page; the last ones may reach beyond it

WIDTH, HEIGHT, BITS = 256, 257, 258
STRIPS, SAMPLES, STRIP_ROWS, STRIP_BYTES, PLANES = 273, 277, 278, 279, 284
TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES = 322, 323, 324, 325
LAYOUT = {WIDTH, HEIGHT, BITS, STRIPS, SAMPLES, STRIP_ROWS, STRIP_BYTES, PLANES}
LAYOUT |= {TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES}

CODES = {3: 'H', 4: 'L', 16: 'Q'}  # struct format codes of TIFF's number types
MAGIC_NUMBERS = (b'II*\0', b'MM\0*', b'II\0*', b'MM*\0')  # Pillow also reads the last two
BIGTIFF, BIG_ENDIAN_BIGTIFF = b'II+\0', b'MM\0+'


class BadLayout(ValueError):
    """Strips or tiles that do not fit their page."""


@dataclass(frozen=True)
class TiffNumbers:
    """Reads the numbers in a TIFF file."""

    source: BinaryIO
    order: str  # byte order, as struct writes it
    big: bool  # BigTIFF: offsets and counts have 8 bytes

    def at(self, offset: int, code: str) -> tuple[int, ...]:
        """Return the numbers at an offset."""
        self.source.seek(offset)
        size = struct.calcsize(self.order + code)
        data = self.source.read(size)
        if len(data) < size:
            raise BadLayout('its tags are cut off')
        return struct.unpack(self.order + code, data)

    def tags(self, page: int) -> tuple[int, int, int]:
        """Return the offset of a page's tags, their number, and the offset of the next page."""
        (count,) = self.at(page, 'Q' if self.big else 'H')
        if count > MAX_TAGS:
            raise BadLayout(f'it has {count} tags, more than the limit of {MAX_TAGS}')
        begin = page + (8 if self.big else 2)
        (next_page,) = self.at(begin + count * self.tag_size, self.offset_code)
        return begin, count, next_page

    @property
    def offset_code(self) -> str:
        """Return the struct code of an offset."""
        return 'Q' if self.big else 'L'

    @property
    def tag_size(self) -> int:
        """Return the size of a tag in bytes."""
        return 20 if self.big else 12

    def layout(self, page: int) -> dict[int, tuple[int, ...]]:
        """Return the values of the tags that describe the layout.

        A tag that occurs twice or has an unusual type is refused: Pillow and libtiff would read
        different values.
        """
        begin, count, _ = self.tags(page)
        values: dict[int, tuple[int, ...]] = {}
        for offset in range(begin, begin + count * self.tag_size, self.tag_size):
            tag, kind, length = self.at(offset, f'HH{self.offset_code}')
            if tag not in LAYOUT:
                continue
            if tag in values or kind not in CODES:
                raise BadLayout(f'tag {tag} occurs twice or is not a number')
            if length > MAX_PARTS:
                raise BadLayout(f'it has more than {MAX_PARTS} strips or tiles')
            code = f'{length}{CODES[kind]}'
            room = struct.calcsize(self.order + self.offset_code)
            inside = offset + self.tag_size - room
            if struct.calcsize(self.order + code) > room:
                (inside,) = self.at(inside, self.offset_code)
            values[tag] = self.at(inside, code)
        return values


def check_tiff(source: BinaryIO, page: int) -> None:
    """Refuse a TIFF file whose first or requested page decompresses to more than it shows."""
    head = source.read(4)
    source.seek(0)
    if head == BIG_ENDIAN_BIGTIFF:  # Pillow and libtiff read it differently
        raise BadLayout('save it in little-endian order')
    if head not in (*MAGIC_NUMBERS, BIGTIFF):
        return
    numbers = TiffNumbers(source, '<' if head[:1] == b'I' else '>', head == BIGTIFF)
    (offset,) = numbers.at(8 if numbers.big else 4, numbers.offset_code)
    pages: list[int] = []
    while offset and offset not in pages and len(pages) <= page:
        pages.append(offset)
        _, _, offset = numbers.tags(offset)
    for offset in {*pages[:1], *pages[-1:]}:
        check_layout(numbers.layout(offset))
    source.seek(0)


def check_layout(layout: dict[int, tuple[int, ...]]) -> None:
    """Refuse a page whose strips or tiles are more, or larger, than its size needs."""

    def number(tag: int, default: int) -> int:
        value, *more = layout.get(tag) or (default,)
        if more:
            raise BadLayout(f'tag {tag} has more than one value')
        return value

    width, height = number(WIDTH, 0), number(HEIGHT, 0)
    if not (width and height):
        return  # Pillow reports it
    tiled = not layout.keys().isdisjoint((TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES))
    if tiled and STRIPS in layout:
        raise BadLayout('it has both strips and tiles')
    part_width = number(TILE_WIDTH, 0) if tiled else width
    part_height = number(TILE_HEIGHT, 0) if tiled else min(number(STRIP_ROWS, height), height)
    if not (part_width and part_height):
        raise BadLayout('its strips or tiles have no size')
    across, down = -(-width // part_width), -(-height // part_height)
    planes = number(SAMPLES, 1) if number(PLANES, 1) == 2 else 1
    if len(layout.get(TILES if tiled else STRIPS, ())) > across * down * planes:
        raise BadLayout('it has more strips or tiles than its size needs')
    # Many strips or tiles can share the same bytes.
    if max(sum(layout.get(tag, ())) for tag in (STRIP_BYTES, TILE_BYTES)) > MAX_FILE_BYTES:
        raise BadLayout('its strips or tiles have more bytes than a file may have')
    if max(layout.get(BITS, (1,))) > MAX_BITS:
        raise BadLayout(f'a sample has more than {MAX_BITS} bits')
    covered = across * part_width, down * part_height
    if tiled and covered[0] * covered[1] > MAX_TILED:
        raise BadLayout(f'its tiles have {covered[0]} x {covered[1]} pixels: save it without')
