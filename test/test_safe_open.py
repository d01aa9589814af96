"""Files that clients name: only regular ones in allowed folders, whatever their names lead to."""

from contextlib import suppress
import io
import os
from pathlib import Path
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image
from PIL.GifImagePlugin import GifImageFile
import pytest

from niom_ros.images import decoding as images
from niom_ros.images import safe_open
from niom_ros.images.decoding import ImageError
from niom_ros.images.pages.reading import read_reference_picture
from niom_ros.images.safe_open import AllowedFolders, FileForbidden, FileRefused, opened_file
from niom_ros.images.tiff_layout import check_tiff

CLONE = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path):
    """Return an allowed folder beside a secret one."""
    (tmp_path / 'allowed/sub').mkdir(parents=True)
    (tmp_path / 'allowed/sub/a.txt').write_text('inside')
    (tmp_path / 'secret').mkdir()
    (tmp_path / 'secret/a.txt').write_text('secret')
    return tmp_path / 'allowed'


def content(path, folder, **limits):
    with opened_file(path, AllowedFolders.named([str(folder)]), **limits) as stream:
        return stream.read()


def answers(paths, folder):
    """Return what is said about files that may not be named."""
    said = set()
    for path in paths:
        with pytest.raises(FileForbidden) as caught:
            content(path, folder)
        said.add(str(caught.value))
    return said


def test_a_file_in_an_allowed_folder_is_opened(folder, monkeypatch):
    assert content(folder / 'sub/a.txt', folder) == b'inside'
    monkeypatch.chdir(folder)
    assert content('sub/a.txt', folder) == b'inside'
    monkeypatch.setenv('HOME', str(folder))
    assert content('~/sub/a.txt', '~') == b'inside'


def test_links_inside_are_followed_and_those_that_lead_out_are_not(folder):
    (folder / 'same.txt').symlink_to('sub/a.txt')
    assert content(folder / 'same.txt', folder) == b'inside'
    (folder / 'out.txt').symlink_to(folder.parent / 'secret/a.txt')
    (folder / 'out').symlink_to(folder.parent / 'secret')
    for name in ('out.txt', 'out/a.txt'):
        with pytest.raises(FileForbidden, match='leads outside of reference_folders'):
            content(folder / name, folder)


def test_the_folder_itself_may_be_a_link(folder):
    (folder.parent / 'link').symlink_to(folder)
    for name in ('link/sub/a.txt', 'allowed/sub/a.txt'):
        assert content(folder.parent / name, folder.parent / 'link') == b'inside'


@pytest.mark.parametrize(
    'name', ['../secret/a.txt', 'sub/../sub/a.txt', 'sub/../../secret/a.txt', '../nothing.txt']
)
def test_a_path_that_climbs_is_refused(folder, name):
    with pytest.raises(FileForbidden, match=r"'\.\.'"):
        content(f'{folder}/{name}', folder)


def test_outside_nobody_learns_whether_a_file_exists(folder):
    names = ('secret/a.txt', 'secret/nothing.txt', 'nowhere/a.txt', 'allowed-too/a.txt')
    said = answers([folder.parent / name for name in names], folder)
    assert len(said) == 1
    assert str(folder) in said.pop()


def test_behind_a_link_nobody_learns_it_either(folder):
    secret = folder.parent / 'secret'
    (secret / 'loop').symlink_to('loop')
    (folder / 'out').symlink_to(secret)
    (folder / 'nothing.txt').symlink_to(secret / 'nothing.txt')
    names = ('out/a.txt', 'out/nothing.txt', 'out/a.txt/below', 'out/loop', 'nothing.txt')
    assert len(answers([folder / name for name in names], folder)) == 1
    (folder / '.ssh').mkdir()
    (folder / '.ssh/key').write_text('key')
    (folder / 'keys').symlink_to('.ssh')
    hidden = answers([folder / 'keys/key', folder / 'keys/nothing'], folder)
    assert len(hidden) == 1
    assert 'hidden' in hidden.pop()
    with pytest.raises(FileRefused, match='there is no file'):
        content(folder / 'sub/nothing.txt', folder)


def test_nobody_learns_which_users_exist(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert len(answers(['~root/a.txt', '~nobody-of-this-name/a.txt'], folder)) == 1
    assert len(answers(['~root/../a.txt', '~nobody-of-this-name/../a.txt'], folder)) == 1
    for name in ('~nobody-of-this-name/a.txt', '~no\0body/a.txt'):
        with pytest.raises(FileRefused, match='no such home folder'), opened_file(name):
            pass


def test_what_is_hidden_stays_hidden_unless_its_folder_is_named(folder):
    hidden = folder / '.ssh/a.txt'
    hidden.parent.mkdir()
    hidden.write_text('key')
    (folder / 'harmless.txt').symlink_to(hidden)
    for path in (hidden, folder / 'harmless.txt'):
        with pytest.raises(FileForbidden, match='hidden'):
            content(path, folder)
    assert content(hidden, hidden.parent) == b'key'


@pytest.mark.parametrize('names', [(), ('',)])
def test_without_folders_no_file_is_taken(folder, names):
    with (
        pytest.raises(FileForbidden, match='takes no files: send the picture as image'),
        opened_file(folder / 'sub/a.txt', AllowedFolders.named(names)),
    ):
        pass


@pytest.mark.parametrize('home', ['/', '//', '', '/tmp/..', '/proc/self/root', '~'])
def test_a_home_that_is_the_whole_disk_is_not_a_folder_for_files(folder, monkeypatch, home):
    monkeypatch.setenv('HOME', home)
    with pytest.raises(FileForbidden, match=r'takes no files .*left out.*: send the picture'):
        content(folder / 'sub/a.txt', '~')
    both = AllowedFolders.named(['~', str(folder)])
    assert both.folders == (folder,)
    assert both.problem.startswith('~ in reference_folders is left out')
    assert not AllowedFolders.named([str(folder), '/']).problem
    assert content(folder / 'sub/a.txt', '/') == b'inside'  # if somebody wants that


def test_a_home_that_nobody_knows_is_not_a_folder_for_files(folder):
    with pytest.raises(FileForbidden, match=r'takes no files .*~nobody-of-this-name.*left out'):
        content(folder / 'sub/a.txt', '~nobody-of-this-name')


def test_pipes_and_devices_are_not_opened(folder, monkeypatch):
    os.mkfifo(folder / 'pipe')
    opened = []
    monkeypatch.setattr(Path, 'open', lambda *path: opened.append(path))
    for path, allowed in ((folder / 'pipe', folder), ('/dev/zero', '/dev'), ('/dev/tty', '/dev')):
        with pytest.raises(FileRefused, match='not a regular file'):
            content(path, allowed)
    with pytest.raises(FileRefused, match='is a folder'):
        content(folder / 'sub', folder)
    assert not opened


def test_a_file_that_is_too_large_is_not_read(folder):
    with (folder / 'sub/a.txt').open('wb') as file:
        file.truncate(safe_open.MAX_FILE_BYTES + 1)
    with pytest.raises(FileRefused, match='over the limit of 500 MB'):
        content(folder / 'sub/a.txt', folder)


@pytest.mark.parametrize('swapped', ['file', 'folder'])
def test_a_name_that_changes_between_check_and_use_gains_nothing(folder, monkeypatch, swapped):
    check = safe_open.check_kind

    def swap(*arguments):
        """Put a link to the secret in the place of what was checked."""
        check(*arguments)
        if swapped == 'file':
            (folder / 'sub/a.txt').unlink()
            (folder / 'sub/a.txt').symlink_to(folder.parent / 'secret/a.txt')
        else:
            (folder / 'sub').rename(folder / 'moved')
            (folder / 'sub').symlink_to(folder.parent / 'secret')

    monkeypatch.setattr(safe_open, 'check_kind', swap)
    assert content(folder / 'sub/a.txt', folder) == b'inside'
    assert (folder / 'sub/a.txt').read_text() == 'secret'


def test_a_page_is_read_from_the_file_that_was_checked(folder, monkeypatch):
    """The process that draws gets the file, not a name that may lead elsewhere by then."""
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="{}">'
    page = svg + '<path d="M9 9h70v9"/></svg>'
    (folder / 'page.svg').write_text(page.format(90))
    (folder.parent / 'secret/page.svg').write_text(page.format(45))
    check = safe_open.check_kind

    def swap(*arguments):
        check(*arguments)
        (folder / 'page.svg').unlink()
        (folder / 'page.svg').symlink_to(folder.parent / 'secret/page.svg')

    monkeypatch.setattr(safe_open, 'check_kind', swap)
    allowed = AllowedFolders.named([str(folder)])
    assert read_reference_picture(folder / 'page.svg', 0, 96.0, allowed).image.shape[0] == 90


def test_no_file_stays_open(folder):
    before = len(list(Path('/proc/self/fd').iterdir()))
    for name in ('sub/a.txt', 'sub', 'nothing'):
        with suppress(FileRefused):
            content(folder / name, folder)
    assert len(list(Path('/proc/self/fd').iterdir())) == before


# What a few bytes of a picture can ask for


def webp(kind, body):
    return b'RIFF' + bytes(4) + b'WEBP' + kind + bytes(4) + body + bytes(40)


@pytest.mark.parametrize(
    'data',
    [
        webp(b'VP8X', bytes(4) + b'\x5f\xea\0' * 2),
        webp(b'VP8L', b'\x2f' + (16_000 | 16_000 << 14).to_bytes(4, 'little')),
        webp(b'VP8 ', bytes(3) + b'\x9d\x01\x2a' + (16_000).to_bytes(2, 'little') * 2),
    ],
)
def test_a_large_webp_is_refused_before_pillow_sees_it(data, monkeypatch):
    monkeypatch.setattr(images.Image, 'open', lambda *_, **__: pytest.fail('it was opened'))
    with pytest.raises(ImageError, match='more than the limit of 50 million'):
        images.decode_image(data)


def tiff_page(tags, at, following=0, order='<'):
    """Return a page of a TIFF file that begins at a place; tags are (number, type, values)."""
    codes = {3: 'H', 4: 'L', 17: 'q'}
    entries, behind = b'', b''
    for tag, kind, values in tags:
        data = struct.pack(f'{order}{len(values)}{codes[kind]}', *values)
        if len(data) > 4:
            place = at + 2 + 12 * len(tags) + 4 + len(behind)
            data, behind = struct.pack(f'{order}L', place), behind + data
        entries += struct.pack(f'{order}HHL', tag, kind, len(values)) + data.ljust(4, b'\0')
    head, tail = struct.pack(f'{order}H', len(tags)), struct.pack(f'{order}L', following)
    return head + entries + tail + behind


def tiff(*tags, side=20, bits=8, compression=8, data=b'', order='<'):
    """Return a grey TIFF file; its data begins at place 8."""
    size = [(256, 4, [side]), (257, 4, [side]), (258, 3, [bits]), (259, 3, [compression])]
    begin = {'<': b'II*\0', '>': b'MM\0*'}[order] + struct.pack(f'{order}L', 8 + len(data)) + data
    return begin + tiff_page([*size, (262, 3, [1]), *tags], len(begin), order=order)


def tiles(width, height, places=(8,) * 4, sizes=(9,) * 4, kind=4):
    return (322, kind, [width]), (323, 4, [height]), (324, 4, places), (325, 4, sizes)


@pytest.mark.parametrize('order', ['<', '>'])
def test_a_tiff_in_tiles_is_read(order):
    packed = [zlib.compress(bytes([10 + n]) * 256) for n in range(4)]
    places = [8 + sum(map(len, packed[:n])) for n in range(4)]
    tags = tiles(16, 16, places, list(map(len, packed)))
    image = images.decode_image(tiff(*tags, data=b''.join(packed), order=order))
    assert image.shape == (20, 20, 3)
    assert image[::19, ::19, 0].tolist() == [[10, 11], [12, 13]]


def test_a_photo_of_48_megapixels_in_tiles_is_not_refused():
    # Its last tiles end beyond it, so that all of them have more pixels than a picture may have.
    size = (256, 4, [8064]), (257, 4, [6048]), (258, 3, [8]), (259, 3, [1]), (262, 3, [1])
    count = 32 * 24
    page = tiff_page([*size, *tiles(256, 256, [8] * count, [65_536] * count)], 8)
    assert check_tiff(io.BytesIO(b'II*\0' + struct.pack('<L', 8) + page), 0) is None


@pytest.mark.parametrize('compression', ['raw', 'tiff_lzw', 'packbits', 'jpeg'])
@pytest.mark.parametrize('big', [False, True])
def test_tiff_files_of_any_compression_are_read(compression, big, coffee):
    stream = io.BytesIO()
    picture = Image.fromarray(coffee)
    picture.save(stream, 'TIFF', compression=compression, big_tiff=big, save_all=True,
                 append_images=[picture.rotate(180)])  # fmt: skip
    stream.seek(0)
    turned = images.read_image_from(stream, 1)[::-1, ::-1].astype(int)
    assert np.abs(turned - coffee).mean() < 5


@pytest.mark.parametrize(
    ('data', 'words'),
    [
        (tiff(*tiles(10**7, 16, [8] * 2)), 'tiles have 10000000 x 32 pixels'),  # took 50 s
        (tiff(*tiles(32_000, 32_000, [8], [9])), '32000 x 32000 pixels'),  # took 2 GB
        (tiff(*tiles(16, 0)), 'no size'),
        (tiff(*tiles(16, 16)[1:]), 'no size'),
        (tiff(*tiles(10**7, 16, kind=17)), 'not a number'),  # libtiff reads these, Pillow does not
        (tiff(*tiles(10**7, 16, kind=17), *tiles(16, 16)), 'not a number'),
        (tiff(*tiles(10**7, 16), *tiles(16, 16)), 'twice'),
        (tiff(*tiles(16, 16), (273, 4, [8])), 'both strips and tiles'),
        (tiff((273, 4, [8, 8] * 99), (278, 4, [10]), compression=1), 'than its size needs'),
        (tiff((273, 4, [8] * 20), (278, 4, [1]), (279, 4, [10**8] * 20)), 'more bytes than a'),
        (tiff((273, 4, [8] * 200_001), (278, 4, [1]), side=10**6), 'more than 200000 strips'),
        (tiff(*[(1000, 4, [0])] * 5000), 'more than the limit of 4096'),
        (tiff(*tiles(16, 16), bits=65_535), 'more than 64 bits'),
        (tiff(*tiles(16, 16))[:-60], 'cut off'),
        (b'MM\0+' + tiff(*tiles(16, 16))[4:], 'little-endian'),
    ],
    ids=lambda value: value if isinstance(value, str) else '',
)
def test_a_tiff_that_unpacks_to_more_than_it_shows_is_refused(data, words, monkeypatch):
    monkeypatch.setattr(images.Image, 'open', lambda *_, **__: pytest.fail('it was opened'))
    with pytest.raises(ImageError, match=words):
        images.decode_image(data)


def test_the_tiles_of_a_far_page_are_looked_at_as_well(monkeypatch):
    data = tiff(*tiles(16, 16))
    page = data.index(struct.pack('<HHL', 256, 4, 1)) - 2
    far = len(data)
    end = page + 2 + 12 * 9
    data = data[:end] + struct.pack('<L', far) + data[end + 4 :]
    data += tiff_page([(256, 4, [20]), (257, 4, [20]), *tiles(10**7, 16, [8] * 2)], far)
    monkeypatch.setattr(images.Image, 'open', lambda *_, **__: pytest.fail('it was opened'))
    with pytest.raises(ImageError, match='10000000 x 32 pixels'):
        images.read_image_from(io.BytesIO(data), 1)


def test_pillow_writes_nothing_about_pictures(tmp_path):
    """In a process of its own, because pytest has filters of its own for warnings."""
    outside = [(1000 + n, 4, [0, 0]) for n in range(50)]  # their values are behind the end
    strip = (273, 4, [8]), (279, 4, [400])
    cut = tiff(*strip, *outside, compression=1, data=bytes(400))[: -8 * 50]
    many_samples = tiff(*strip, (277, 3, [9]), compression=1, data=bytes(400))
    large = io.BytesIO()
    Image.new('1', (10_000, 10_000)).save(large, 'PNG')  # Pillow warns of such a size
    for n, data in enumerate((cut, many_samples, large.getvalue())):
        (tmp_path / str(n)).write_bytes(data)
    code = """
import sys
from niom_ros.images.decoding import ImageError, read_image
for file in sys.argv[1:] * 2:
    try:
        print(read_image(file).shape)
    except ImageError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, '-W', 'default', '-c', code, *sorted(tmp_path.iterdir())],
        capture_output=True, text=True, check=True, cwd=CLONE,
    )  # fmt: skip
    assert '(20, 20, 3)' in done.stdout
    assert 'not an image' in done.stdout
    assert 'than the limit of 50 million' in done.stdout
    assert 'PIL' not in done.stderr and 'samples' not in done.stderr


@pytest.mark.parametrize('name', ['JPEG', 'MPO'])  # the latter has a second picture behind it
def test_a_jpeg_with_scans_without_end_is_refused(name, coffee):
    stream = io.BytesIO()
    picture = Image.fromarray(coffee)
    picture.save(stream, name, progressive=True, append_images=[picture])
    data = stream.getvalue()
    assert Image.open(io.BytesIO(data), formats=images.FORMATS).format == name
    assert images.decode_image(data).shape == coffee.shape
    end = data.index(b'\xff\xd9')
    scan = data[data.index(b'\xff\xda') : data.index(b'\xff\xda') + 200]
    with pytest.raises(ImageError, match='more than 100 scans'):
        images.decode_image(data[:end] + scan * 100 + data[end:])


def test_a_far_page_of_an_animation_is_refused_before_it_is_decoded(tmp_path):
    frames = [Image.new('L', (1000, 1000), grey) for grey in (0, 90, 180)]
    frames[0].save(tmp_path / 'a.gif', save_all=True, append_images=frames[1:])
    assert images.read_image(tmp_path / 'a.gif', 2)[0, 0, 0] == 180
    with pytest.raises(ImageError, match='too far into an animation'):
        images.read_image(tmp_path / 'a.gif', 501)


def growing_gif(*sides):
    """Return an animation whose frames are larger than its first one."""
    data = b'GIF89a' + struct.pack('<HHBBB', 1, 1, 0x80, 0, 0) + bytes(range(6))
    for side in sides:
        stream = io.BytesIO()
        Image.new('P', (side, side)).save(stream, 'GIF')
        frame = stream.getvalue()
        data += frame[frame.index(b',' + struct.pack('<HHHH', 0, 0, side, side)) : -1]
    return data + b';'


@pytest.mark.parametrize(
    ('sides', 'words'),
    [((1, 8000, 1), '8000 x 8000 pixels'), ((1, *[1000] * 9), 'too far into an animation')],
)
def test_an_animation_that_grows_is_refused_before_it_is_decoded(sides, words, monkeypatch):
    monkeypatch.setattr(images, 'MAX_ANIMATED_PIXELS', 7 * 10**6)
    data = growing_gif(*sides)
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (1, 1)
    load = GifImageFile.load
    decoded = []
    monkeypatch.setattr(
        GifImageFile, 'load', lambda image: decoded.append(image.size) or load(image)
    )
    with pytest.raises(ImageError, match=words):
        images.read_image_from(io.BytesIO(data), len(sides) - 1)
    assert set(decoded) == {(1, 1)}
    assert images.read_image_from(io.BytesIO(data), 0).shape == (1, 1, 3)


@pytest.mark.parametrize('suffix', ['tif', 'gif', 'png'])
def test_a_page_without_end_is_not_looked_for(suffix, tmp_path):
    file = tmp_path / f'a.{suffix}'
    Image.new('L', (8, 8)).save(file)
    with pytest.raises(ImageError, match='page 1001 is beyond the limit of 1000'):
        images.read_image(file, 1001)
    with pytest.raises(ImageError, match='there is no page 1000'):
        images.read_image(file, 1000)


def test_more_bytes_than_a_picture_needs_are_refused(monkeypatch):
    monkeypatch.setattr(images, 'MAX_FILE_BYTES', 1000)
    with pytest.raises(ImageError, match='over the limit'):
        images.decode_image(bytes(1001))
