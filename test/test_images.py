import os
import struct
import zlib

import numpy as np
from PIL import Image
import pytest

from niom_ros.images.decoding import ImageError, read_image


def claimed_png(width, height):
    """Return a PNG whose header claims a size that its data does not have."""
    header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)

    def chunk(kind, data):
        body = kind + data
        return struct.pack('>I', len(data)) + body + struct.pack('>I', zlib.crc32(body))

    data = chunk(b'IDAT', zlib.compress(b'\0' * 100))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + data + chunk(b'IEND', b'')


def test_colour_file_is_rgb(tmp_path):
    Image.new('RGB', (3, 2), (10, 20, 30)).save(tmp_path / 'a.png')
    image = read_image(tmp_path / 'a.png')
    assert image.shape == (2, 3, 3)
    assert image.dtype == np.uint8
    assert image[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ('mode', 'colour', 'expected'),
    [
        ('L', 77, [77, 77, 77]),
        ('1', 1, [255, 255, 255]),
        ('I;16', 257 * 99, [99, 99, 99]),
        ('I;16', 99 * 16, [99, 99, 99]),  # 12 bits of a sensor
        ('RGBA', (0, 0, 0, 0), [255, 255, 255]),  # transparent ink on paper
        ('RGBA', (0, 0, 0, 255), [0, 0, 0]),
        ('LA', (0, 0), [255, 255, 255]),
    ],
)
def test_other_kinds_of_pixels(tmp_path, mode, colour, expected):
    Image.new(mode, (4, 4), colour).save(tmp_path / 'a.png')
    assert read_image(tmp_path / 'a.png')[0, 0].tolist() == expected


def test_phone_photos_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held sideways
    Image.new('RGB', (30, 20)).save(tmp_path / 'a.jpg', exif=exif)
    assert read_image(tmp_path / 'a.jpg').shape == (30, 20, 3)


def test_pages_of_a_file(tmp_path):
    pages = [Image.new('L', (5, 5), grey) for grey in (10, 200)]
    pages[0].save(tmp_path / 'a.tif', save_all=True, append_images=pages[1:])
    assert read_image(tmp_path / 'a.tif')[0, 0, 0] == 10
    assert read_image(tmp_path / 'a.tif', page=1)[0, 0, 0] == 200
    with pytest.raises(ImageError, match='there is no page 2'):
        read_image(tmp_path / 'a.tif', page=2)


def test_bad_files_are_refused_with_a_reason(tmp_path):
    (tmp_path / 'text.png').write_text('not an image')
    (tmp_path / 'empty.png').write_bytes(b'')
    Image.new('RGB', (200, 200), 'red').save(tmp_path / 'whole.png')
    (tmp_path / 'cut.png').write_bytes((tmp_path / 'whole.png').read_bytes()[:-60])
    (tmp_path / 'bomb.png').write_bytes(claimed_png(60_000, 60_000))
    (tmp_path / 'large.png').write_bytes(claimed_png(20_000, 20_000))
    (tmp_path / 'larger.png').write_bytes(claimed_png(8_000, 8_000))
    (tmp_path / 'drawing.eps').write_text('%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n')
    os.mkfifo(tmp_path / 'pipe')
    for name, words in {
        'missing.png': 'there is no file',
        '.': 'is a folder',
        'text.png': 'not an image of a known format',
        'empty.png': 'not an image of a known format',
        'cut.png': 'damaged',
        'bomb.png': 'more pixels than the limit',
        'large.png': 'than the limit of 50 million',
        'larger.png': 'has 8000 x 8000 pixels, more than the limit of 50 million: scale it down',
        'pipe': 'not a regular file',
        'a\0b': 'cannot access',
        'drawing.eps': 'not an image of a known format',
        'x' * 5000: 'cannot access',
    }.items():
        with pytest.raises(ImageError, match=words):
            read_image(f'{tmp_path}/{name}')


def test_a_home_folder_that_does_not_exist_is_refused():
    with pytest.raises(ImageError, match='cannot access'):
        read_image('~no_such_user/a.png')
