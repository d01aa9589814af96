"""Pictures that claim too much, and small right ones in each format to be damaged."""

import io
import struct
import zlib

from PIL import Image

from niom_ros.images.decoding import FORMATS


def damaged_pictures() -> list[bytes]:
    """Return pictures for a fuzzer to start from, among them some that are attacks."""
    small = []
    for kind in FORMATS:
        for mode in ('RGB', 'L', '1'):
            data = io.BytesIO()
            Image.linear_gradient('L').resize((24, 17)).convert(mode).save(data, kind)
            small.append(data.getvalue())
    tiles = [tiff_of_tiles(16, tile) for tile in (16, 60_000)]
    return [*small, png(60_000, 60_000), png_bomb(), gif_of(60_000), tiff_of(60_000), *tiles]


def png(width: int, height: int, rows: bytes = b'') -> bytes:
    """Return a grey PNG file that claims a size, with compressed rows if they are given."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        )

    head = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b'IHDR', head), chunk(b'IDAT', rows or zlib.compress(bytes(100)))]
    return b'\x89PNG\r\n\x1a\n' + b''.join(parts) + chunk(b'IEND', b'')


def png_bomb() -> bytes:
    """Return a PNG file of a few pixels whose rows unpack to 100 MB."""
    return png(8, 8, zlib.compress(bytes(100_000_000), 9))


def gif_of(side: int) -> bytes:
    return b'GIF89a' + struct.pack('<HHBBB', side, side, 0, 0, 0) + b',' + bytes(20) + b';'


def tiff_of(side: int) -> bytes:
    """Return a TIFF file that claims a size, in one strip."""
    return tiff({256: side, 257: side, 273: 8, 278: side, 279: 9})


def tiff_of_tiles(side: int, tile: int) -> bytes:
    """Return a TIFF file that is made of one tile, which may be far larger than it is."""
    return tiff({256: side, 257: side, 322: tile, 323: tile, 324: 8, 325: 9})


def tiff(layout: dict[int, int]) -> bytes:
    tags = sorted({258: 8, 259: 1, 262: 1, **layout}.items())
    entries = b''.join(struct.pack('<HHII', tag, 4, 1, value) for tag, value in tags)
    return b'II*\0' + struct.pack('<I', 8) + struct.pack('<H', len(tags)) + entries + bytes(4)
