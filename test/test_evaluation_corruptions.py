"""Corruptions of images: the same every time, unlike for every image, computed once."""

from concurrent.futures import ThreadPoolExecutor
import hashlib
import json
import os
import random
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation import corruptions
from niom_ros.benchmarks.evaluation.corruptions import (
    corrupt,
    CorruptedImages,
    CORRUPTIONS,
    seed_of,
)
from niom_ros.core.errors import UserError
from niom_ros.simulation.virtual_scene import example_photo

RANDOM = {
    'gaussian_noise',
    'shot_noise',
    'impulse_noise',
    'glass_blur',
    'motion_blur',
    'snow',
    'frost',
    'fog',
    'elastic_transform',
}


@pytest.fixture(scope='module')
def photo():
    return cv2.resize(example_photo('coffee'), (192, 128), interpolation=cv2.INTER_AREA)


def fingerprints(image, names, seed):
    return {name: hashlib.sha256(corrupt(image, name, seed)).hexdigest() for name in names}


@pytest.fixture(scope='module')
def expected(photo):
    return fingerprints(photo, CORRUPTIONS, 7)


def correlation(one, other):
    return np.corrcoef(one.ravel().astype(float), other.ravel().astype(float))[0, 1]


# The pixels


@pytest.mark.parametrize('name', CORRUPTIONS)
def test_an_image_is_spoilt_but_still_the_same_scene(photo, name):
    before = photo.copy()
    corrupted = corrupt(photo, name, 7)
    assert (corrupted.shape, corrupted.dtype) == (photo.shape, np.uint8)
    assert corrupted.flags.c_contiguous
    assert corrupted.flags.writeable
    assert np.array_equal(photo, before)
    assert not np.shares_memory(corrupted, photo)
    assert np.abs(corrupted.astype(int) - photo).mean() > 3
    assert correlation(corrupted, photo) > 0.4


@pytest.mark.parametrize('name', CORRUPTIONS)
@pytest.mark.parametrize('shape', [(32, 95), (131, 40)])
def test_odd_sizes_and_grey_photos(photo, name, shape):
    grey = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)
    image = np.stack([cv2.resize(grey, shape[::-1])] * 3, axis=-1)
    assert corrupt(image, name, 0).shape == image.shape


def test_frost_covers_images_larger_than_its_pictures(photo):
    image = cv2.resize(photo, (1536, 1024))
    corrupted = corrupt(image, 'frost', 7)
    assert corrupted.shape == image.shape
    # Beside the frost there is 0.6 of the photo: nothing would be left where no frost is.
    frost = corrupted - 0.6 * image
    blocks = frost.reshape(8, 128, 8, 192, 3).mean(axis=(1, 3, 4))
    assert blocks.min() > 10


def test_glass_blur_is_that_of_the_library_given_the_same_random_numbers(photo):
    corruptions.load_library()
    from imagecorruptions import corruptions as library

    with pytest.MonkeyPatch.context() as patch:
        # With numba installed this is the compiled loop, with random numbers of its own.
        loop = library._shuffle_pixels_njit_glass_blur
        patch.setattr(library, '_shuffle_pixels_njit_glass_blur', getattr(loop, 'py_func', loop))
        with corruptions.drawing_from(np.random.RandomState()):
            slow = np.uint8(library.glass_blur(photo, corruptions.SEVERITY, seed=3))
    assert np.array_equal(corruptions.glass_blur(photo, np.random.RandomState(3)), slow)


# The same every time


def test_the_same_seed_gives_the_same_pixels_in_any_order(photo, expected):
    assert fingerprints(photo, reversed(CORRUPTIONS), 7) == expected


def test_another_seed_gives_other_pixels_where_there_is_chance(photo, expected):
    other = fingerprints(photo, CORRUPTIONS, 8)
    assert {name for name in CORRUPTIONS if other[name] != expected[name]} == RANDOM


def test_another_process_gives_the_same_pixels(photo, expected, tmp_path):
    np.save(tmp_path / 'photo.npy', photo)
    program = (
        'import hashlib, json, sys\n'
        'import numpy as np\n'
        'from niom_ros.benchmarks.evaluation.corruptions import corrupt, CORRUPTIONS\n'
        'photo = np.load(sys.argv[1])\n'
        'np.random.seed(99)\n'
        'found = {n: hashlib.sha256(corrupt(photo, n, 7)).hexdigest() for n in CORRUPTIONS}\n'
        'print(json.dumps(found))\n'
    )
    answer = subprocess.run(
        [sys.executable, '-c', program, tmp_path / 'photo.npy'],
        env={**os.environ, 'PYTHONHASHSEED': '4242', 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(answer.stdout) == expected


def test_other_threads_change_nothing(photo, expected):
    done = threading.Event()

    def meddle():
        while not done.is_set():
            np.random.seed(1)
            np.random.normal(size=100)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda name: fingerprints(photo, [name], 7), CORRUPTIONS * 2))
    finally:
        done.set()
        meddler.join()
    assert all(expected[name] == found for one in found for name, found in one.items())


def test_global_random_numbers_are_neither_used_nor_disturbed(photo, expected):
    np.random.seed(5)
    random.seed(5)
    before = (np.random.get_state(), random.getstate())
    assert fingerprints(photo, CORRUPTIONS, 7) == expected
    after = np.random.get_state()
    assert all(np.array_equal(one, other) for one, other in zip(before[0], after, strict=True))
    assert random.getstate() == before[1]


def test_others_who_use_the_library_get_the_global_random_numbers(photo):
    library = corruptions.load_library()
    np.random.seed(5)
    first = library.corrupt(photo, 5, 'gaussian_noise')
    np.random.seed(5)
    assert np.array_equal(first, library.corrupt(photo, 5, 'gaussian_noise'))
    assert not np.array_equal(first, library.corrupt(photo, 5, 'gaussian_noise'))


def test_each_image_has_a_seed_of_its_own_that_stays():
    assert seed_of(0, '0000.jpg', 'fog') == 9_895_778_603_292_835_120
    seeds = {
        seed_of(seed, image, name)
        for seed in (0, 1)
        for image in ('0000.jpg', '0001.jpg')
        for name in CORRUPTIONS
    }
    assert len(seeds) == 60


def test_the_two_images_of_a_pair_do_not_share_their_noise(photo):
    noise = [
        corrupt(photo, 'gaussian_noise', seed_of(0, name, 'gaussian_noise')).astype(float) - photo
        for name in ('a.jpg', 'b.jpg')
    ]
    # Not exactly 0, because bright pixels can only get darker.
    assert correlation(*noise) < 0.3
    assert correlation(noise[0], noise[0]) > 0.99


# What a user can do wrong


def test_an_unknown_name_is_answered_with_the_known_ones(photo, tmp_path):
    for call in (corrupt, CorruptedImages(tmp_path).get):
        with pytest.raises(UserError) as caught:
            call(photo, 'rain', 0)
        assert all(name in str(caught.value) for name in ('rain', *CORRUPTIONS))


def test_an_image_that_is_too_small_is_refused(photo):
    with pytest.raises(UserError, match='40 x 31 pixels is too small'):
        corrupt(photo[:31, :40], 'fog', 0)


@pytest.mark.parametrize('wrong', [lambda p: p[..., 0], lambda p: p / 255.0])
def test_only_colour_images_of_bytes_are_taken(photo, wrong):
    with pytest.raises(ValueError, match='RGB'):
        corrupt(wrong(photo), 'fog', 0)


@pytest.mark.parametrize('name', ['fog', 'glass_blur'])
def test_without_the_library_it_says_what_to_install(photo, monkeypatch, name):
    monkeypatch.setitem(sys.modules, 'imagecorruptions', None)
    with pytest.raises(UserError, match='pip install --no-deps imagecorruptions-imaug'):
        corrupt(photo, name, 0)


def test_another_distribution_of_the_same_module_is_not_enough(photo, monkeypatch, tmp_path):
    monkeypatch.setattr(corruptions, 'LIBRARY', 'imagecorruptions-of-somebody')
    for call in (corrupt, CorruptedImages(tmp_path).get):
        with pytest.raises(UserError, match='imagecorruptions-of-somebody'):
            call(photo, 'fog', 0)


def test_the_stand_in_for_numba_does_not_stay(photo):
    corrupt(photo, 'fog', 0)
    assert getattr(sys.modules.get('numba'), '__spec__', 'real') is not None


# Kept on disk


@pytest.fixture
def cache(tmp_path):
    return CorruptedImages(tmp_path / 'a cache')


@pytest.fixture
def computed(monkeypatch):
    """List what is computed rather than read."""
    calls = []

    def counted(image, name, seed):
        calls.append((name, seed))
        return corrupt(image, name, seed)

    monkeypatch.setattr(corruptions, 'corrupt', counted)
    return calls


def test_what_was_computed_is_read(cache, photo, computed):
    first = cache.get(photo, 'snow', 1)
    second = CorruptedImages(cache.folder).get(photo, 'snow', 1)
    assert computed == [('snow', 1)]
    assert np.array_equal(first, second)
    assert np.array_equal(first, corrupt(photo, 'snow', 1))
    # As any program shows it: a PNG with the colours in their order.
    (file,) = cache.folder.iterdir()
    assert np.array_equal(cv2.imread(str(file))[..., ::-1], first)


def test_other_pixels_names_seeds_and_versions_are_computed(cache, photo, computed, monkeypatch):
    cache.get(photo, 'fog', 1)
    changed = photo.copy()
    changed[0, 0, 0] ^= 1
    cache.get(changed, 'fog', 1)
    cache.get(photo.reshape(96, 256, 3), 'fog', 1)
    cache.get(photo, 'snow', 1)
    cache.get(photo, 'fog', 2)
    monkeypatch.setattr(corruptions.importlib.metadata, 'version', lambda name: '99')
    cache.get(photo, 'fog', 1)
    assert len(computed) == 6


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize('broken', [cut, flipped, lambda content: b'', lambda content: b'\0' * 99])
def test_a_broken_file_is_made_anew(cache, photo, computed, broken):
    first = cache.get(photo, 'fog', 1)
    (file,) = cache.folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(broken(whole))
    assert np.array_equal(cache.get(photo, 'fog', 1), first)
    assert len(computed) == 2
    assert file.read_bytes() == whole


def test_several_may_write_the_same_image_at_once(cache, photo):
    expected = corrupt(photo, 'pixelate', 0)
    path = cache.path(photo, 'pixelate', 0)

    def write_and_read(_):
        found = cache.get(photo, 'pixelate', 0)
        corruptions.write_checked(path, found)
        kept = corruptions.read_checked(path)
        return np.array_equal(found, expected) and np.array_equal(kept, expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(64)))
    assert list(cache.folder.iterdir()) == [path]


def test_what_was_not_used_for_longest_is_removed(cache, photo, computed):
    foreign = cache.folder / 'holiday.png'
    cache.folder.mkdir()
    foreign.write_bytes(b'not ours' * 100_000)
    left_over = cache.folder / f'.{cache.path(photo, "fog", 9).name}.abc.unfinished'
    left_over.write_bytes(b'half')
    paths = [cache.path(photo, 'pixelate', seed) for seed in range(4)]
    for age, seed in enumerate(range(3)):
        cache.get(photo, 'pixelate', seed)
        os.utime(paths[seed], (age + 10, age + 10))
    os.utime(left_over, (1, 1))
    size = paths[0].stat().st_size
    cache.get(photo, 'pixelate', 0)  # now the newest
    cache.limit = 3 * size
    cache.get(photo, 'pixelate', 3)
    assert {*cache.folder.iterdir()} == {foreign, paths[0], paths[2], paths[3]}


def test_a_cache_that_cannot_be_written_is_named(photo, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(UserError, match='NIOM_CACHE'):
        CorruptedImages(tmp_path / 'file').get(photo, 'fog', 0)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.delenv('NIOM_CACHE', raising=False)
    monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
    assert CorruptedImages().folder == tmp_path / '.cache/niom_ros/corrupted_images'
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'xdg'))
    assert CorruptedImages().folder == tmp_path / 'xdg/niom_ros/corrupted_images'
    monkeypatch.setenv('NIOM_CACHE', '~/mine')
    assert CorruptedImages().folder == tmp_path / 'mine/corrupted_images'
