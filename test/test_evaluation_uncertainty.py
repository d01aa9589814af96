"""The benchmark of uncertainty: numbers that a person can check, and one film."""

from dataclasses import replace
from pathlib import Path

from benchmark_data import write
import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.halves import in_first_half
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import photo_views, uncertainty
from niom_ros.benchmarks.evaluation.suites.uncertainty import (
    Claim,
    squared_errors,
    TRACKED_PHOTOS,
    UncertaintyBenchmark,
)
from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, Settings
from niom_ros.core.uncertainty import ViewUncertainty
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.simulation.virtual_scene import example_photo

BOX = Box(0, 0, 200, 100)
GRID = np.stack(np.meshgrid(np.arange(10, 200, 20.0), np.arange(10, 100, 20.0)), -1).reshape(-1, 2)
SHIFT = np.zeros((8, 8))
# A shift by one pixel in both directions: the unit of the covariance is half the diagonal.
SHIFT[[2, 5], [2, 5]] = 1 / (np.hypot(200, 100) / 2) ** 2


def claim_of(shift):
    """Return a claim that is shifted from the truth, and says so with a deviation of 1 pixel."""
    points = GRID.astype(np.float32)
    view = ViewUncertainty(np.eye(3), BOX, SHIFT, GRID)
    verdict = Verdict(Status.OK, '', np.ones(len(GRID), bool), np.eye(3), 0.9, None, view)
    truth = np.array([[1.0, 0, shift[0]], [0, 1, shift[1]], [0, 0, 1]])
    matches = Correspondences(points, points, np.ones(len(GRID), np.float32))
    return Claim(verdict, matches, truth, (200, 100), (640, 480))


def record_of(place, value, count=2):
    return {
        'group': 'photos',
        'unit': place,
        'places': [place],
        'answers': count,
        'means': {'corners_far': [value] * count},
        'singles': {'corners_far': [value] * count},
    }


def test_errors_in_units_of_deviations_by_hand():
    # 2 pixels in both directions are two deviations in each.
    squares = squared_errors(claim_of((2.0, 2.0)), np.random.default_rng(0))
    assert squares['support_at'] == pytest.approx(np.full(25, 4.0))
    (corners,) = (value for key, value in squares.items() if key.startswith('corners'))
    assert corners == pytest.approx(np.full(4, 4.0))
    # A landmark is compared in one direction; its error is that much or less in any.
    landmarks = np.concatenate([v for key, v in squares.items() if key.startswith('landmarks')])
    assert len(landmarks) == 25
    assert (landmarks <= 8.01).all()
    assert 'pose' not in squares


def test_the_summary_says_how_far_it_is_from_one():
    names = [f'picture {number}' for number in range(40)]
    known = [name for name in names if in_first_half(name)][:5]
    unseen = [name for name in names if not in_first_half(name)][:5]
    benchmark = UncertaintyBenchmark(Path(), 0)
    records = [record_of(name, 1.0) for name in known] + [record_of(n, 0.25) for n in unseen]
    metrics = benchmark.summarise(records)
    assert metrics['squared_photos_corners_far'] == pytest.approx(0.625)
    assert metrics['squared_photos_corners_far_held_out'] == pytest.approx(0.25)
    assert metrics['worst_factor'] == pytest.approx(4)
    assert metrics['answers'] == 20
    # The median of the squared length of a normal vector is 1.39, so half of that per direction.
    assert metrics['median_photos_corners_far'] == pytest.approx(0.625 / 0.693, abs=0.01)
    # Nine answers are not enough, nor are many about four pictures.
    few = [
        record_of(name, 0.25, count) for name, count in zip(unseen, (1, 2, 2, 2, 2), strict=True)
    ]
    for too_few in (few, [record_of(name, 0.25, 9) for name in unseen[:4]]):
        metrics = benchmark.summarise(too_few)
        assert np.isnan(metrics['squared_photos_corners_far_held_out'])


def test_a_film_is_measured(tmp_path, monkeypatch):
    for name, photo in (('n1_cup', 'coffee'), ('n2_cat', 'chelsea')):
        picture = cv2.resize(example_photo(photo), (300, 200), interpolation=cv2.INTER_AREA)
        write(tmp_path / f'scenes/imagenet/{name}.JPEG', picture)
    benchmark = UncertaintyBenchmark(tmp_path, 0)
    short = replace(uncertainty.PARAMETERS, film_seconds=0.4)
    monkeypatch.setattr(uncertainty, 'PARAMETERS', short)
    case = next(case for case in benchmark.cases() if case.group == TRACKED_PHOTOS)
    settings = Settings(device='cpu', max_keypoints=256, detector='none')
    method = method_named('classical', settings, Options())
    record = benchmark.measure(case, method, MethodRunner())
    assert record['answers'] == 5  # the first frame, and four that were tracked
    assert len(record['means']['pose']) == 5
    assert all(0 < value < 20 for value in record['means']['support_at'])


def test_a_photo_that_is_shrunk_is_where_the_truth_says():
    # Blurred, so that shrinking does not matter; a third of 500 pixels is not a whole number.
    photo = cv2.GaussianBlur(cv2.resize(example_photo('coffee'), (500, 333)), (0, 0), 6)
    random = np.random.default_rng(0)
    view = photo_views.view_of(
        (500, 333), longer_side=166.0, degrees=0.0, centre=(320, 240), random=random
    )
    image = photo_views.seen_by_camera(photo, view, None, random)
    expected = cv2.warpPerspective(
        photo,
        view,
        (640, 480),
        dst=np.full_like(image, image[0, 0]),
        borderMode=cv2.BORDER_TRANSPARENT,
    )
    part = np.s_[150:330, 200:440]
    shift, _ = cv2.phaseCorrelate(
        *(cv2.cvtColor(seen[part], cv2.COLOR_RGB2GRAY).astype(float) for seen in (expected, image))
    )
    assert np.hypot(*shift) < 0.1
