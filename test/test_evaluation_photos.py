"""The benchmarks turned and zoomed: what their cameras see, and what counts as found."""

from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.benchmark import DataMissing, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites.instances import InstancesBenchmark
from niom_ros.benchmarks.evaluation.suites.photo_views import CAMERA, visible_error
from niom_ros.benchmarks.evaluation.suites.turned import DIRECTIONS, TurnedBenchmark
from niom_ros.benchmarks.evaluation.suites.zoomed import SCALES, ZoomedBenchmark
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.partly_hidden import overlap
from niom_ros.simulation.virtual_scene import example_photo

SIZE = (500, 375)


@pytest.fixture(scope='module')
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('data')
    photos = folder / 'scenes' / 'imagenet'
    photos.mkdir(parents=True)
    for name in ('coffee', 'astronaut'):
        photo = cv2.resize(example_photo(name), SIZE, interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(photos / f'{name}.JPEG'), photo[..., ::-1])
    return folder


def centre_of(view: np.ndarray) -> np.ndarray:
    return warp_points(view, np.array([[(SIZE[0] - 1) / 2, (SIZE[1] - 1) / 2]]))[0]


def direction_of(view: np.ndarray) -> float:
    """Return by how many degrees a view turns a photo anticlockwise."""
    ends = np.array([[SIZE[0] * 0.25, SIZE[1] / 2], [SIZE[0] * 0.75, SIZE[1] / 2]])
    across, down = np.diff(warp_points(view, ends), axis=0)[0]
    return float(np.degrees(np.arctan2(-down, across)) % 360)


def test_every_photo_lies_in_every_direction_alone_and_among_clutter(data: Path) -> None:
    benchmark = TurnedBenchmark(data, 0)
    cases = benchmark.cases()
    assert len(cases) == 2 * DIRECTIONS * 2
    assert {case.pair for case in cases} == {'coffee', 'astronaut'}
    for case in cases[:DIRECTIONS]:
        photo, image, view = benchmark.pictures(case)
        assert photo.pixels.shape == (SIZE[1], SIZE[0], 3)
        assert image.pixels.shape == (CAMERA.height, CAMERA.width, 3)
        off = (direction_of(view) - case.direction * 15 + 180) % 360 - 180
        assert abs(off) < 15  # 5 degrees of jitter, and what the perspective does
        assert ((centre_of(view) > 0) & (centre_of(view) < [640, 480])).all()


def test_the_image_shows_the_photo_where_the_view_says(data: Path) -> None:
    benchmark = TurnedBenchmark(data, 0)
    case = next(case for case in benchmark.cases() if case.direction == 9)
    photo, image, view = benchmark.pictures(case)
    seen = cv2.warpPerspective(
        image.pixels, view, SIZE, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    )
    inside = cv2.warpPerspective(
        np.ones(image.pixels.shape[:2], np.uint8), view, SIZE, flags=cv2.WARP_INVERSE_MAP
    )
    blurred = (cv2.GaussianBlur(each, None, 4)[inside > 0] for each in (seen, photo.pixels))
    assert np.corrcoef(*(each.mean(axis=1) for each in blurred))[0, 1] > 0.95


def test_the_same_seed_gives_the_same_picture(data: Path) -> None:
    case = ZoomedBenchmark(data, 0).cases()[3]
    first, again, other = (
        ZoomedBenchmark(data, seed).pictures(case)[1].pixels for seed in (0, 0, 1)
    )
    assert (first == again).all() and (first != other).any()


def test_scales_are_those_of_the_longer_side(data: Path) -> None:
    benchmark = ZoomedBenchmark(data, 0)
    for case in benchmark.cases():
        _, _, view = benchmark.pictures(case)
        middle = centre_of(view)
        ends = np.array([[SIZE[0] / 2 - 5, SIZE[1] / 2], [SIZE[0] / 2 + 5, SIZE[1] / 2]])
        length = np.linalg.norm(np.diff(warp_points(view, ends), axis=0)) / 10 * SIZE[0]
        assert length / CAMERA.width == pytest.approx(SCALES[case.scale], rel=0.25)
        if case.scale in ('sixth', 'quarter'):
            assert ((middle > 0) & (middle < [640, 480])).all()


def test_an_error_counts_only_where_the_photo_is_visible() -> None:
    truth = np.array([[4, 0, -900], [0, 4, -600], [0, 0, 1.0]])
    assert visible_error(truth, truth, SIZE) == pytest.approx(0, abs=1e-9)
    shift = np.array([[1, 0, 3], [0, 1, 4], [0, 0, 1.0]])
    assert visible_error(shift @ truth, truth, SIZE) == pytest.approx(5)
    # Far off at a corner that is not in the image, hardly off in it
    bent = truth @ np.array([[1, 0, 0], [0, 1, 0], [2e-5, 0, 1 - 2e-5 * 300]])
    corner = np.array([[499.0, 374.0]])
    offset = np.linalg.norm(warp_points(bent, corner) - warp_points(truth, corner))
    assert visible_error(bent, truth, SIZE) < offset / 2
    outside = np.array([[1, 0, 5000], [0, 1, 0], [0, 0, 1.0]])
    assert visible_error(outside, outside, SIZE) == np.inf


def record(direction: int, error: float | None, group: str = 'on_table') -> Record:
    return {
        'direction': direction,
        'scale': 'half',
        'error': error,
        'accepted': error is not None,
        'group': group,
        'unit': 'photo',
        'places': ['photo'],
    }


def test_metrics_of_turned_photos(data: Path) -> None:
    records = [record(direction, 1.0) for direction in range(DIRECTIONS)] * 2
    metrics = TurnedBenchmark(data, 0).summarise(records)
    assert metrics['found_least'] == metrics['found'] == 1 and metrics['wrong_accepted'] == 0
    assert 0 < metrics['wrong_accepted_upper'] < 0.1
    records[5], records[6] = record(5, None), record(6, 11.0)  # refused, and wrongly claimed
    metrics = TurnedBenchmark(data, 0).summarise(records)
    assert metrics['found_least'] == 0.5
    assert metrics['found'] == pytest.approx(46 / 48)
    assert metrics['wrong_accepted'] == pytest.approx(1 / 47)


def test_metrics_of_zoomed_photos(data: Path) -> None:
    records = [record(0, 1.0, 'upright'), record(0, None, 'any_direction')]
    metrics = ZoomedBenchmark(data, 0).summarise(records)
    assert metrics['found'] == metrics['found_half'] == 0.5
    assert (metrics['found_upright'], metrics['found_any_direction']) == (1, 0)
    assert np.isnan(metrics['found_sixth'])


def test_sift_alone_finds_turned_and_zoomed_photos(data: Path) -> None:
    method = method_named('classical', Settings(device='cpu', detector='none'), Options())
    runner = MethodRunner()
    for benchmark in (TurnedBenchmark(data, 0), ZoomedBenchmark(data, 0)):
        for case in benchmark.cases()[:48:7]:
            measured = benchmark.measure(case, method, runner)
            assert measured['accepted'] and measured['error'] < 10, case.name


def test_a_folder_without_photos_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match='scenes/imagenet'):
        TurnedBenchmark(tmp_path, 0).cases()


# Several copies


def test_copies_lie_where_the_views_say_and_overlap_only_where_they_may(data: Path) -> None:
    benchmark = InstancesBenchmark(data, 0)
    cases = benchmark.cases()
    assert len(cases) == 2 * 6  # none, one, two and five; two and five also overlapping
    for case in cases:
        photo, image, views = benchmark.pictures(case)
        assert len(views) == case.count and image.pixels.shape == (480, 640, 3)
        outlines = [warp_points(view, photo.box.corners()) for view in views]
        shared = [overlap(*pair) for pair in combinations(outlines, 2)]
        assert max(shared, default=0) <= (0.25 if case.group == 'overlapping' else 0)
        assert all((each >= 0).all() and (each <= [639, 479]).all() for each in outlines)
    assert any(len(benchmark.pictures(case)[2]) == 5 for case in cases)


def test_sift_alone_finds_every_copy_and_claims_no_other_place(data: Path) -> None:
    method = method_named('classical', Settings(device='cpu', detector='none'), Options())
    benchmark, runner = InstancesBenchmark(data, 0), MethodRunner()
    for case in [each for each in benchmark.cases() if each.pair == 'coffee']:
        measured = benchmark.measure(case, method, runner)
        assert measured['copies'] == measured['count'] and measured['wrong'] == 0
        least = measured['count'] - (case.group == 'overlapping')
        assert measured['right'] >= least, case.name


def test_metrics_of_copies(data: Path) -> None:
    def copies(count: int, right: int, wrong: int = 0, group: str = 'apart') -> Record:
        return {'count': count, 'copies': count, 'right': right, 'wrong': wrong, 'group': group}

    records = [copies(0, 0), copies(1, 1), copies(2, 1), copies(5, 4, 1), copies(2, 0)]
    records += [copies(5, 4, group='overlapping')]
    metrics = InstancesBenchmark(data, 0).summarise(records)
    assert metrics['copies_found'] == pytest.approx(10 / 15)
    assert metrics['copies_found_of_two'] == pytest.approx(1 / 4)
    assert metrics['copies_found_of_five'] == metrics['copies_found_overlapping'] == 0.8
    assert metrics['wrong_accepted'] == pytest.approx(1 / 11)
    with pytest.raises(UserError, match='sift finds one place only'):
        InstancesBenchmark(data, 0).usable(method_named('sift', Settings(), Options()))
