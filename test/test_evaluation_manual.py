"""Drawings made of a few lines, on paper whose place in the camera image is known."""

import math

import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.benchmark import DataMissing
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import manual, paper
from niom_ros.benchmarks.evaluation.suites.manual import ManualBenchmark
from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings


def drawing_of(kind, width=500, height=400):
    """Return a drawing of four lines and a circle, another one for each number."""
    chance = np.random.default_rng(kind)
    picture = np.full((height, width, 3), 255, np.uint8)
    for _ in range(4):
        start, end = (chance.integers(20, [width - 20, height - 20]).tolist() for _ in range(2))
        cv2.line(picture, start, end, (0, 0, 0), 3, cv2.LINE_AA)
    middle = chance.integers(80, [width - 80, height - 80]).tolist()
    cv2.circle(picture, middle, 50, (0, 0, 0), 3, cv2.LINE_AA)
    return picture


def write_step(folder, kind, product, step, picture):
    path = folder / f'drawing/ikea/{kind}/{product}/step_{step}/step_{step}.png'
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('manuals')
    for step in (0, 2, 10):
        write_step(folder, 'Chair', 'stol', step, drawing_of(step))
    write_step(folder, 'Table', 'bord', 0, drawing_of(20, 300, 600))
    write_step(folder, 'Misc', 'vagn', 3, drawing_of(30, 700, 300))
    mask = folder / 'drawing/ikea/Chair/stol/masks/step_0_mask.png'
    mask.parent.mkdir()
    assert cv2.imwrite(str(mask), np.zeros((9, 9), np.uint8))
    return folder


def cases_of(data, group, seed=0):
    return [case for case in ManualBenchmark(data, seed).cases() if case.group == group]


def ink_points(picture):
    """Return the pixels that are certainly ink."""
    rows, columns = np.nonzero(picture[..., 0] < 60)
    return np.column_stack([columns, rows]).astype(float)


def grey_at(image, points):
    """Return how bright an image is at points that lie in it."""
    columns, rows = points.round().astype(int).T
    seen = (columns >= 0) & (columns < image.shape[1]) & (rows >= 0) & (rows < image.shape[0])
    assert seen.mean() > 0.8
    return image[rows[seen], columns[seen]].mean(axis=1)


def test_the_first_and_the_last_step_of_each_product_in_each_setting(data):
    cases = ManualBenchmark(data, 0).cases()
    assert {case.pair for case in cases} == {
        'stol/step_0',
        'stol/step_10',
        'bord/step_0',
        'vagn/step_3',
    }
    assert len({case.name for case in cases}) == len(cases) == 4 * (4 + 2)
    for case in cases:
        assert case.unit == case.pair.split('/')[0] == case.drawing.parts[-3]
        assert 'mask' not in str(case.drawing)


def test_what_else_the_camera_sees_is_of_other_products(data):
    for case in ManualBenchmark(data, 0).cases():
        products = [path.parts[-3] for path in case.others]
        assert case.unit not in products
        if case.group == manual.OTHER_PRODUCT:
            assert len(products) == 1
        else:
            assert bool(products) == (case.group == manual.PART_OF_A_PAGE)
    shown = [case.others[0].parts[-3] for case in cases_of(data, manual.OTHER_PRODUCT)]
    assert sorted(shown) == sorted(['bord', 'vagn'] * 2 + ['stol', 'vagn'] + ['stol', 'bord'])


def test_a_single_product_has_no_other_to_be_confused_with(tmp_path):
    write_step(tmp_path, 'Chair', 'stol', 0, drawing_of(0))
    groups = {case.group for case in ManualBenchmark(tmp_path, 0).cases()}
    assert groups == {manual.WARPED, manual.THICKER, manual.PHOTOGRAPHED}


def test_without_drawings_nothing_can_be_measured(tmp_path):
    (tmp_path / 'drawing/ikea').mkdir(parents=True)
    with pytest.raises(DataMissing, match='manual found no pair'):
        ManualBenchmark(tmp_path, 0).cases()


@pytest.mark.parametrize('group', manual.TO_FIND)
def test_the_ink_is_where_the_truth_says(data, group):
    benchmark = ManualBenchmark(data, 0)
    for case in cases_of(data, group):
        reference, image, truth = benchmark.pictures(case)
        assert image.pixels.shape == (480, 640, 3) and image.pixels.dtype == np.uint8
        points = warp_points(truth, ink_points(reference.pixels))
        here = np.median(grey_at(image.pixels, points))
        beside = [
            np.median(grey_at(image.pixels, points + np.array(step)))
            for step in ((15, 0), (-15, 0), (0, 15), (0, -15))
        ]
        assert here < 0.8 * np.median(beside), case.name


@pytest.mark.parametrize('group', [*manual.TO_FIND, manual.OTHER_PRODUCT])
def test_the_same_seed_gives_the_same_image(data, group):
    (case, *_) = cases_of(data, group)
    _, image, truth = ManualBenchmark(data, 0).pictures(case)
    _, same, _ = ManualBenchmark(data, 0).pictures(case)
    _, other, _ = ManualBenchmark(data, 1).pictures(case)
    assert np.array_equal(image.pixels, same.pixels)
    assert image.name == same.name != other.name
    assert not np.array_equal(image.pixels, other.pixels)
    assert (truth is None) == (group == manual.OTHER_PRODUCT)


def test_a_thicker_pen_draws_two_to_three_times_as_wide():
    drawing = drawing_of(1)
    again = paper.thickened(drawing, np.random.default_rng(0))
    ratio = (again[..., 0] < 128).sum() / (drawing[..., 0] < 128).sum()
    assert 1.7 < ratio < 3.3
    # The hand strays by a pixel or two, not more: the old lines are under the new ones.
    assert np.mean(again[..., 0][drawing[..., 0] < 60] < 128) > 0.9


@pytest.mark.parametrize('size', [(500, 400), (300, 900), (1400, 400)])
def test_a_sheet_is_in_the_photo_whole_and_a_camera_could_see_it_so(size):
    for seed in range(20):
        view = paper.view_of_sheet(*size, np.random.default_rng(seed))
        corners = warp_points(view, Box(0, 0, *size).corners())
        assert np.all(corners >= -1) and np.all(corners <= [641, 481])
        assert cv2.isContourConvex(corners.astype(np.float32))
        assert cv2.contourArea(corners.astype(np.float32)) > 0.1 * 640 * 480 * min(
            size[0] / size[1], size[1] / size[0]
        )
        # Not mirrored: the corners go round the same way.
        assert np.cross(*np.column_stack([np.diff(corners[:3], axis=0), np.zeros(2)]))[2] > 0


def test_a_photo_has_a_table_around_the_paper_and_uneven_light(data):
    (case, *_) = cases_of(data, manual.PHOTOGRAPHED)
    reference, image, truth = ManualBenchmark(data, 0).pictures(case)
    corners = warp_points(truth, reference.box.corners())
    sheet = np.zeros((480, 640), np.uint8)
    cv2.fillConvexPoly(sheet, corners.round().astype(np.int32), 1)
    grey = cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY)
    on_sheet, table = grey[sheet > 0], grey[sheet == 0]
    assert table.mean() < on_sheet.mean()
    assert np.percentile(on_sheet, 95) > 1.15 * np.percentile(on_sheet, 15)


def test_drawings_on_a_page_leave_each_other_room():
    drawings = [drawing_of(kind, 300 + 50 * kind, 400) for kind in range(8)]
    chance = np.random.default_rng(0)
    page, to_page = manual.page_with(drawings[0], drawings[1:], chance)
    assert page.shape == (*manual.PAGE.size[::-1], 3)
    ends = np.array([[0, 0], drawings[0].shape[1::-1]])
    left, top, right, bottom = warp_points(to_page, ends).round().astype(int).ravel()
    assert 0.35 <= max(right - left, bottom - top) / manual.PAGE.size[0] <= 0.6
    alone = page.copy()
    alone[top:bottom, left:right] = 255
    # There are others, and none in the strip around it.
    assert (alone < 128).sum() > 1000
    gap = int(manual.PAGE.gap * manual.PAGE.size[0]) - 2
    strip = alone[max(0, top - gap) : bottom + gap, max(0, left - gap) : right + gap]
    assert strip.min() == 255


def test_places_that_touch():
    here = (100, 100, 50, 50)
    gap = math.ceil(manual.PAGE.gap * manual.PAGE.size[0])
    assert manual.touch(here, (120, 120, 10, 10))
    assert manual.touch(here, (150 + gap - 2, 100, 10, 10))
    assert not manual.touch(here, (150 + gap, 100, 10, 10))
    assert not manual.touch(here, (100, 100 - 10 - gap, 10, 10))


def record(group, error=None, guess=None):
    return {
        'group': group,
        'accepted': error is not None,
        'error': error if group != manual.OTHER_PRODUCT else None,
        'best_error': error if guess is None else guess,
    }


def test_each_setting_is_summed_up_on_its_own():
    records = [
        record('warped', 3.0),
        record('warped', 15.0),
        record('warped', 90.0),
        record('warped', None, 4.0),
        record('photographed', None),
        *(record(manual.OTHER_PRODUCT, 1.0 if claimed else None) for claimed in (True, False)),
    ]
    metrics = ManualBenchmark(None, 0).summarise(records)
    assert metrics['success_10px_warped'] == 1 / 4
    assert metrics['success_20px_warped'] == 2 / 4
    assert metrics['guess_10px_warped'] == 2 / 4
    assert metrics['wrong_accepted_warped'] == 1 / 3
    assert metrics['success_10px_photographed'] == metrics['wrong_accepted_photographed'] == 0
    assert math.isnan(metrics['success_10px_thicker'])
    assert metrics['false_accept'] == 1 / 2
    assert 0.97 < metrics['false_accept_upper'] < 0.98


def test_which_pairs_are_worth_a_picture():
    quality = ManualBenchmark(None, 0).quality
    assert quality(record('warped', 3.0)) > quality(record('warped', 30.0))
    assert quality(record('warped', None)) == -math.inf
    assert quality(record(manual.OTHER_PRODUCT, 1.0)) == -math.inf
    assert math.isnan(quality(record(manual.OTHER_PRODUCT)))


@pytest.mark.parametrize('name', ['default', 'sift'])
def test_a_case_is_measured_and_drawn(data, name):
    method = method_named(name, Settings(device='cpu', max_keypoints=128), Options())
    benchmark, runner = ManualBenchmark(data, 0), MethodRunner()
    (case, *_) = cases_of(data, manual.WARPED)
    (stranger, *_) = cases_of(data, manual.OTHER_PRODUCT)
    found = benchmark.measure(case, method, runner)
    if name == 'default':
        assert found['best_error'] < 10
    assert benchmark.measure(stranger, method, runner)['best_error'] is None
    for shown in (case, stranger):
        picture = benchmark.picture(shown, method, runner)
        assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[1] > 500
