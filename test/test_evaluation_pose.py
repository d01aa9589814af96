import math
import time

import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.benchmark import DataMissing
from niom_ros.benchmarks.evaluation.corruptions import (
    CORRUPTIONS,
    LibraryMissing,
    UnknownCorruption,
)
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import pose
from niom_ros.benchmarks.evaluation.suites.pose import motion_error, PoseBenchmark
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.simulation.virtual_scene import example_photo

WIDTH, HEIGHT = 320, 240
CAMERA = np.array([[300.0, 0, 159.5], [0, 300, 119.5], [0, 0, 1]])
ROTATION = cv2.Rodrigues(np.radians([1.0, -5.0, 2.0]))[0]
TRANSLATION = np.array([0.4, 0.02, 0.05])
FAR, NEAR = 4.0, 2.0  # depths of the two planes of the scene
PLAIN = method_named('plain', Settings(device='cpu', max_keypoints=512), Options())


def two_photos():
    """Return two photos of a picture that stands before a wall, from two places."""
    wall = cv2.resize(example_photo('brick'), (WIDTH, HEIGHT))
    picture = cv2.resize(example_photo('coffee'), (150, 140))
    first, mask = wall.copy(), np.zeros((HEIGHT, WIDTH), np.uint8)
    first[50:190, 120:270], mask[50:190, 120:270] = picture, 255
    far, near = (
        CAMERA @ (ROTATION + np.outer(TRANSLATION, [0, 0, 1]) / depth) @ np.linalg.inv(CAMERA)
        for depth in (FAR, NEAR)
    )
    size = WIDTH, HEIGHT
    second = cv2.warpPerspective(wall, far, size, borderMode=cv2.BORDER_REFLECT_101)
    before = cv2.warpPerspective(first, near, size)
    covered = cv2.warpPerspective(mask, near, size, flags=cv2.INTER_NEAREST)
    second[covered > 0] = before[covered > 0]
    return first, second


def line(first, second, camera=CAMERA, rotation=ROTATION, rotations='0 0'):
    """Return a line of a file of pairs."""
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = rotation, TRANSLATION
    numbers = (*np.ravel(camera), *np.ravel(CAMERA), *motion.ravel())
    return ' '.join([first, second, rotations, *(f'{number:.8g}' for number in numbers)])


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a data folder with one pair."""
    monkeypatch.setenv('NIOM_CACHE', str(tmp_path / 'cache'))
    folder = tmp_path / 'data/pose/strecha'
    (folder / 'wall').mkdir(parents=True)
    for name, photo in zip(('0000', '0001'), two_photos(), strict=True):
        cv2.imwrite(str(folder / f'wall/{name}.png'), photo[..., ::-1])
    write(tmp_path / 'data', line('wall/0000.png', 'wall/0001.png'))
    return tmp_path / 'data'


def write(data, *lines):
    """Replace the pairs of the data folder."""
    (data / 'pose/strecha/wall_pairs_with_gt.txt').write_text('\n'.join(lines) + '\n')


def true_matches(count=60, seed=0, first_camera=CAMERA):
    """Return where both cameras see points between the two planes."""
    random = np.random.default_rng(seed)
    points = random.uniform((-0.8, -0.6, NEAR), (0.8, 0.6, FAR), (count, 3))
    moved = points @ ROTATION.T + TRANSLATION
    seen = points @ first_camera.T, moved @ CAMERA.T
    first, second = ((rays[:, :2] / rays[:, 2:]).astype(np.float32) for rays in seen)
    return Correspondences(first, second, np.ones(count, np.float32))


class Matches:
    """A runner that always has the same matches and remembers what it was shown."""

    def __init__(self, correspondences):
        self.correspondences = correspondences
        self.shown = []

    def match(self, method, reference, image):
        self.shown.append((reference, image))
        nobody = np.zeros(len(self.correspondences), bool)
        verdict = Verdict(Status.LOW_CONFIDENCE, 'not flat', nobody)
        return MethodAnswer(Match(verdict, self.correspondences), Evidence(nobody), False)


def measured(data, correspondences, **options):
    """Return the records of all cases."""
    benchmark = PoseBenchmark(data, 0, **options)
    runner = Matches(correspondences)
    records = [
        {**benchmark.measure(case, PLAIN, runner), 'group': case.group}
        for case in benchmark.cases()
    ]
    return benchmark, records


# Cases


def test_each_pair_comes_clean_and_corrupted_in_two_ways(data):
    cases = PoseBenchmark(data, 0).cases()
    assert len(cases) == 31
    assert [case.group for case in cases[:5]] == [
        'clean',
        'both/gaussian_noise',
        'one/gaussian_noise',
        'both/shot_noise',
        'one/shot_noise',
    ]
    assert {case.pair for case in cases} == {'strecha/wall/0000-0001'}
    assert {case.unit for case in cases} == {'strecha/wall/0000-0001'}
    assert len({case.name for case in cases}) == 31


def test_the_corruptions_can_be_chosen(data):
    few = PoseBenchmark(data, 0, ('fog',)).cases()
    assert [case.group for case in few] == ['clean', 'both/fog', 'one/fog']
    assert [case.group for case in PoseBenchmark(data, 0, ()).cases()] == ['clean']
    # The same names as without a choice, so that what was measured counts for both.
    assert {case.name for case in few} < {case.name for case in PoseBenchmark(data, 0).cases()}
    assert PoseBenchmark(data, 0).variant() == PoseBenchmark(data, 0, ()).variant() != ''
    with pytest.raises(UnknownCorruption, match='mist'):
        PoseBenchmark(data, 0, ('mist',))


def test_clean_photos_need_no_library(data, monkeypatch):
    def missing():
        raise LibraryMissing(ImportError('not there'))

    monkeypatch.setattr(pose, 'versions', missing)
    assert PoseBenchmark(data, 0, ()).variant() == ''
    with pytest.raises(LibraryMissing):
        PoseBenchmark(data, 0).variant()


def test_the_numbers_of_a_line_go_where_they_belong(data):
    wide = CAMERA * [[2], [3], [1]]
    write(data, line('wall/0000.png', 'wall/0001.png', wide))
    (case,) = PoseBenchmark(data, 0, ()).cases()
    photos = case.photos
    assert [photo.name for photo in photos.photos] == ['0000.png', '0001.png']
    np.testing.assert_allclose(photos.cameras, [wide, CAMERA])
    np.testing.assert_allclose(np.array(photos.motion)[:3, :3], ROTATION, atol=1e-7)
    np.testing.assert_allclose(np.array(photos.motion)[:3, 3], TRANSLATION)


def test_both_folders_are_read_and_either_may_be_missing(data):
    other = data / 'pose/scannet15'
    (data / 'pose/strecha').rename(other)
    assert [case.pair for case in PoseBenchmark(data, 0, ()).cases()] == [
        'scannet15/wall/0000-0001'
    ]
    assert PoseBenchmark(data, 0).missing() == ['pose/strecha']
    (other / 'wall_pairs_with_gt.txt').unlink()
    with pytest.raises(DataMissing, match='no pair'):
        PoseBenchmark(data, 0).cases()


def with_word(number, word):
    """Return a good line in which one word is another one."""
    words = line('wall/0000.png', 'wall/0001.png').split()
    words[number] = word
    return ' '.join(words)


@pytest.mark.parametrize(
    ('bad', 'why'),
    [
        ('wall/0000.png wall/0001.png 0 0 1', 'has 5 entries, not 38'),
        (line('wall/0000.png', 'wall/0001.png', rotations='0 1'), 'rotated'),
        (with_word(5, 'zero'), 'zero'),
        (with_word(4, 'nan'), 'not finite'),
        (with_word(4, '0'), 'has an invalid K'),
        (with_word(12, '2'), 'has an invalid K'),
        (line('wall/0000.png', 'wall/0001.png', rotation=2 * ROTATION), 'not a rigid transform'),
        (line('wall/0000.png', 'wall/0001.png', rotation=-ROTATION), 'not a rigid transform'),
        (line('wall/0000.png', 'wall/0009.png'), 'wall/0009.png, which does not exist'),
        (line('wall/0000.png', 'wall/0001.png'), 'repeats the pair'),
    ],
)
def test_a_bad_line_is_named(data, bad, why):
    write(data, line('wall/0000.png', 'wall/0001.png'), '', bad)
    with pytest.raises(UserError) as caught:
        PoseBenchmark(data, 0).cases()
    assert 'wall_pairs_with_gt.txt, line 3' in str(caught.value)
    assert why in str(caught.value)


# Measuring


def test_perfect_matches_score_1(data):
    benchmark, records = measured(data, true_matches(), corruptions=('brightness',))
    assert [record['matches'] for record in records] == [60, 60, 60]
    assert max(record['error'] for record in records) < 0.05
    metrics = benchmark.summarise(records)
    assert metrics.pop('weighted') == 0
    assert len(metrics) == 15
    assert min(metrics.values()) > 0.99


def test_wrong_matches_score_next_to_nothing(data):
    random = np.random.default_rng(1)
    wrong = [random.uniform(0, (WIDTH, HEIGHT), (60, 2)).astype(np.float32) for _ in range(2)]
    benchmark, records = measured(
        data, Correspondences(*wrong, np.ones(60, np.float32)), corruptions=()
    )
    assert benchmark.summarise(records)['auc_20_clean'] < 0.1


def test_the_movement_is_that_from_the_first_to_the_second(data):
    right = true_matches()
    (case,) = PoseBenchmark(data, 0, ()).cases()
    assert motion_error(right.reference_points, right.image_points, case.photos) < 0.05
    # The inverse has the same angle, but the other sign: twice the 5.5 degrees of the rotation.
    assert motion_error(right.image_points, right.reference_points, case.photos) > 10


def test_each_photo_has_its_own_camera(data):
    wide = CAMERA * [[0.5], [0.7], [1]]
    write(data, line('wall/0000.png', 'wall/0001.png', wide))
    _, (record,) = measured(data, true_matches(first_camera=wide), corruptions=())
    assert record['error'] < 0.05


def test_nothing_matched_is_an_infinite_error(data):
    benchmark, (record,) = measured(data, Correspondences.none(), corruptions=())
    assert record == {'error': math.inf, 'matches': 0, 'weighted': False, 'group': 'clean'}
    assert benchmark.summarise([record])['auc_20_clean'] == 0
    assert benchmark.quality(record) < benchmark.quality({'error': 179.0})


def test_photos_are_corrupted_as_the_case_says(data):
    benchmark, runner = PoseBenchmark(data, 0, ('gaussian_noise',)), Matches(true_matches())
    for case in benchmark.cases():
        benchmark.measure(case, PLAIN, runner)
    clean, both, one = runner.shown
    for picture, photo in zip(clean, two_photos(), strict=True):
        np.testing.assert_array_equal(picture.pixels, photo)
    assert one[0].name == clean[0].name
    np.testing.assert_array_equal(one[0].pixels, clean[0].pixels)
    assert one[1].name == both[1].name
    np.testing.assert_array_equal(one[1].pixels, both[1].pixels)
    assert len({picture.name for picture in (*clean, *both)}) == 4
    for corrupted, original in zip(both, clean, strict=True):
        assert np.abs(corrupted.pixels - original.pixels.astype(float)).mean() > 20


def test_no_two_photos_share_their_noise(data):
    folder = data / 'pose/strecha/wall'
    (folder / '0001.png').write_bytes((folder / '0000.png').read_bytes())
    runner = Matches(true_matches())
    for seed in (0, 1):
        benchmark = PoseBenchmark(data, seed, ('gaussian_noise',))
        benchmark.measure(benchmark.cases()[1], PLAIN, runner)
    pictures = [picture for pair in runner.shown for picture in pair]
    assert len({picture.name for picture in pictures}) == 4
    # Shared noise would be matched itself; and another seed is another noise.
    assert len({picture.pixels.tobytes() for picture in pictures}) == 4


def test_noise_does_not_depend_on_where_the_data_are(data, tmp_path):
    runner = Matches(true_matches())
    for folder in (data, tmp_path / 'elsewhere'):
        if not folder.exists():
            data.rename(folder)
        benchmark = PoseBenchmark(folder, 0, ('gaussian_noise',))
        benchmark.measure(benchmark.cases()[1], PLAIN, runner)
    (here, _), (there, _) = runner.shown
    assert here.name != there.name
    np.testing.assert_array_equal(here.pixels, there.pixels)


def test_real_weights_find_the_movement(data):
    benchmark, runner = PoseBenchmark(data, 0, ('brightness',)), MethodRunner()
    clean, both, _ = benchmark.cases()
    found = benchmark.measure(clean, PLAIN, runner)
    assert found['error'] < 3
    assert found['matches'] > 50
    assert benchmark.measure(both, PLAIN, runner)['matches'] != found['matches']


# Summing up


def test_the_mean_of_the_corruptions_is_that_of_their_areas():
    errors = {
        'clean': [1.0, math.inf],
        'both/fog': [0.0, 0.0],
        'both/snow': [math.inf, math.inf],
        'one/fog': [4.0, 8.0],
    }
    records = [
        {'group': group, 'error': error, 'weighted': group == 'clean'}
        for group, values in errors.items()
        for error in values
    ]
    metrics = PoseBenchmark(None, 0).summarise(records)
    # Half of the pairs lie on the curve, which rises to 1 / 2 until 1 degree.
    assert metrics['auc_5_clean'] == pytest.approx((0.25 + 0.5 * 4) / 5)
    assert metrics['auc_5_both_fog'] == 1
    assert metrics['auc_5_both_snow'] == 0
    assert metrics['auc_5_both'] == 0.5
    # To 1 / 2 until 4 degrees, to 1 until 8, then 1.
    assert metrics['auc_10_one'] == pytest.approx((0.25 * 4 + 0.75 * 4 + 2) / 10)
    assert metrics['auc_10_one'] == metrics['auc_10_one_fog']
    assert metrics.pop('weighted') == 0.25
    assert set(metrics) == {
        f'auc_{limit}_{name}'
        for limit in (5, 10, 20)
        for name in ('clean', 'both', 'both_fog', 'both_snow', 'one', 'one_fog')
    }


def test_what_does_not_occur_is_left_out():
    benchmark = PoseBenchmark(None, 0)
    record = {'error': 1.0, 'weighted': True}
    only_one = benchmark.summarise([{**record, 'group': 'one/fog'}])
    areas = {f'auc_{t}_{n}' for t in (5, 10, 20) for n in ('one', 'one_fog')}
    assert set(only_one) == {'weighted', *areas}
    assert benchmark.main_metric in benchmark.summarise([{**record, 'group': 'clean'}])


def test_summing_up_is_quick_enough_to_be_done_a_thousand_times():
    random = np.random.default_rng(0)
    groups = ['clean', *(f'{kind}/{name}' for name in CORRUPTIONS for kind in ('both', 'one'))]
    records = [
        {'group': group, 'error': error, 'weighted': True}
        for group in groups
        for error in random.exponential(9, 12)
    ]
    benchmark, start = PoseBenchmark(None, 0), time.process_time()
    for _ in range(10):
        benchmark.summarise(records)
    assert time.process_time() - start < 0.5
