"""Whether matches are on an object, with boxes that can be checked by hand."""

from dataclasses import replace
import math

import cv2
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import kinds
from niom_ros.benchmarks.evaluation.suites.kinds import KindsBenchmark
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings, SettingsError
from niom_ros.models.store import ModelStore, State
from niom_ros.semantics.heat_maps import Area
from niom_ros.simulation.virtual_scene import example_photo

SMALL = Settings(device='cpu', max_keypoints=128)
LEFT_HALF = Area(-0.5, -0.5, 49.5, 79.5)  # of a picture of 100 x 80 pixels


def write(path, picture):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture[..., ::-1])


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Write a person that the detector sees, and guitars that it does not know."""
    folder = tmp_path_factory.mktemp('kinds')
    pacs = folder / 'drawing/pacs'
    face = cv2.resize(example_photo('astronaut'), (227, 227), interpolation=cv2.INTER_AREA)
    lines = 255 - cv2.Canny(cv2.GaussianBlur(face, (0, 0), 1.5), 60, 150)
    sketch = cv2.cvtColor(lines, cv2.COLOR_GRAY2RGB)
    write(pacs / 'sketch/person/12116.png', sketch)
    write(pacs / 'photo/person/253_1.jpg', face)
    wall = cv2.resize(example_photo('coffee'), (227, 227))
    write(pacs / 'sketch/guitar/n02_7-3.png', sketch)
    for name in ('n02_7', 'n02_8', 'n02_9', 'n03_1', 'n03_2'):
        write(pacs / f'photo/guitar/{name}.jpg', wall)
    return folder


def test_a_sketch_never_meets_the_photo_that_it_was_drawn_from(data):
    for seed in range(20):
        cases = KindsBenchmark(data, seed).cases()
        guitars = [case for case in cases if case.group == 'guitar']
        assert len(guitars) == len({case.photo for case in guitars}) == kinds.DEFAULTS.photos
        assert 'n02_7' not in {case.photo.stem for case in guitars}
        assert {case.unit for case in guitars} == {'guitar/n02_7'}
        strange = [case for case in cases if case.group == kinds.OTHER_KINDS]
        for case in cases:
            assert case.kind == case.sketch.parent.name
            assert (case.photo.parent.name != case.kind) == (case in strange)
        # Both photos of other kinds for the person, the only one of them for the guitar.
        assert sorted(case.kind for case in strange) == ['guitar', 'person', 'person']
    assert [case.name for case in cases if case.group == 'person'] == ['person/12116-253_1']
    assert 'guitar/n02_7-3-person-253_1' in {case.name for case in strange}


def test_points_in_boxes():
    points = np.array([[0, 0], [49.5, 10], [50, 10], [-1, 0], [99, 79]])
    assert kinds.inside(points, [LEFT_HALF]).tolist() == [True, True, False, False, False]
    assert kinds.share_inside(points, [LEFT_HALF]) == 2 / 5
    assert kinds.share_inside(points, [LEFT_HALF, Area(90, 70, 99.5, 79.5)]) == 3 / 5
    assert kinds.share_inside(np.empty((0, 2)), [LEFT_HALF]) == 0


def test_boxes_that_overlap_cover_their_common_part_once():
    assert kinds.covered_share([LEFT_HALF], (100, 80)) == 0.5
    assert kinds.covered_share([LEFT_HALF, LEFT_HALF], (100, 80)) == 0.5
    lower = Area(-0.5, 39.5, 99.5, 79.5)
    assert kinds.covered_share([LEFT_HALF, lower], (100, 80)) == 0.75


def test_points_fit_an_object_if_they_span_it_and_nothing_else():
    corners = np.array([[-0.5, -0.5], [49.5, 79.5]])
    assert kinds.best_overlap(corners, [LEFT_HALF]) == 1
    assert kinds.best_overlap(corners + np.array([25, 0]), [LEFT_HALF]) == pytest.approx(1 / 3)
    assert kinds.best_overlap(corners * 0.5, [LEFT_HALF]) == pytest.approx(0.25, abs=0.01)
    assert kinds.best_overlap(corners + np.array([60, 0]), [LEFT_HALF]) == 0
    far_away = Area(200, 200, 210, 210)
    assert kinds.best_overlap(corners, [far_away, LEFT_HALF]) == 1
    assert kinds.best_overlap(np.empty((0, 2)), [LEFT_HALF]) == 0
    assert kinds.best_overlap(np.array([[5.0, 5.0]]), [LEFT_HALF]) == 0


def test_points_that_are_moved_blindly_are_in_a_box_as_often_as_it_is_large():
    chance = np.random.default_rng(0)
    points = chance.uniform([0, 0], [99, 79], (40, 2))
    shares = kinds.moved_shares(points, [LEFT_HALF], (100, 80))
    assert shares.shape == (kinds.DEFAULTS.shifts**2,)
    assert shares.mean() == pytest.approx(0.5, abs=0.01)
    assert kinds.moved_shares(np.empty((0, 2)), [LEFT_HALF], (100, 80)).max() == 0


def test_many_points_at_one_place_are_no_more_than_one():
    heap = np.full((500, 2), 20.0)
    shares = kinds.moved_shares(heap, [LEFT_HALF], (100, 80))
    assert set(shares.tolist()) == {0.0, 1.0}
    assert np.mean(shares >= 1) == pytest.approx(0.5, abs=0.02)


def test_points_that_just_fit_into_the_box_are_not_there_by_luck():
    columns, rows = np.meshgrid(np.arange(1, 49, 4), np.arange(1, 79, 4))
    points = np.column_stack([columns.ravel(), rows.ravel()]).astype(float)
    assert kinds.share_inside(points, [LEFT_HALF]) == 1
    shares = kinds.moved_shares(points, [LEFT_HALF], (100, 80))
    # Down by any amount, since the box is as high as the picture; across by hardly anything.
    assert np.mean(shares >= 1) < 0.1


def record(kind, on_object=None, luck=0.0, accepted=False, status='LOW_CONFIDENCE'):
    known = {
        'on_object': on_object,
        'agreeing_on_object': 0.5,
        'chance_on_object': 0.4,
        'blind_on_object': 0.6,
        'blind_mostly': True,
        'overlap': 0.6 if on_object and on_object > 0.85 else 0.2,
        'blind_overlap': 0.1,
        'chance_mostly': 0.3,
        'luck': luck,
    }
    told = {'group': kind, 'accepted': accepted, 'status': status}
    return told | ({} if on_object is None else known)


def test_what_is_not_measured_is_counted_and_left_out():
    records = [
        record('dog', 0.9, luck=0.01, accepted=True),
        record('dog', 0.8, luck=0.4, status='ALIKE'),
        record('dog', 0.5, luck=0.01, status='ALIKE'),
        record('dog'),
        record('guitar', accepted=True),
    ]
    metrics = KindsBenchmark(None, 0).summarise(records)
    assert metrics['mostly_on_object'] == metrics['mostly_on_object_dog'] == 2 / 3
    assert metrics['surely_on_object'] == metrics['fits_object'] == 1 / 3
    assert metrics['blind_fits_object'] == 0
    assert metrics['overlap'] == pytest.approx(1 / 3)
    assert metrics['on_object'] == pytest.approx(2.2 / 3)
    assert metrics['chance_on_object'] == pytest.approx(0.4)
    assert metrics['chance_mostly_on_object'] == pytest.approx(0.3)
    assert metrics['blind_mostly_on_object'] == 1
    assert (metrics['not_measured'], metrics['not_measured_dog']) == (2, 1)
    assert metrics['not_measured_guitar'] == 1
    assert math.isnan(metrics['mostly_on_object_guitar'])
    assert metrics['accepted'] == 2 / 5
    assert metrics['accepted_guitar'] == 1
    assert (metrics['called_alike'], metrics['called_alike_on_object']) == (2 / 5, 1 / 2)


def test_photos_of_other_kinds_are_counted_apart():
    def other(status, shows_kind=False, accepted=False):
        told = {'group': kinds.OTHER_KINDS, 'accepted': accepted, 'status': status}
        return told | {'shows_kind': shows_kind}

    records = [
        record('dog', 0.9, status='ALIKE'),
        other('ALIKE'),
        other('OK', accepted=True),
        *[other('LOW_CONFIDENCE') for _ in range(6)],
        other('ALIKE', shows_kind=True),
    ]
    metrics = KindsBenchmark(None, 0).summarise(records)
    assert metrics['called_alike'] == metrics['called_alike_on_object'] == 1
    assert (metrics['other_kinds'], metrics['falsely_called_alike']) == (8, 2 / 8)
    assert 0.25 < metrics['falsely_called_alike_upper'] < 0.7
    assert metrics['not_measured'] == 0


def test_which_pairs_are_worth_a_picture():
    quality = KindsBenchmark(None, 0).quality
    assert quality(record('dog', 0.9)) == pytest.approx(0.5)
    assert math.isnan(quality(record('guitar')))


@pytest.mark.parametrize('name', ['default', 'plain', 'sift'])
def test_matches_on_a_person_are_measured_and_a_guitar_is_not(data, name):
    method = method_named(name, SMALL, Options())
    benchmark, runner = KindsBenchmark(data, 0), MethodRunner()
    cases = benchmark.cases()
    person = next(case for case in cases if case.group == 'person')
    guitar = next(case for case in cases if case.group == 'guitar')
    found = benchmark.measure(person, method, runner)
    assert 0.2 < found['chance_on_object'] < 0.9
    assert 0 <= found['on_object'] <= 1 and 0 < found['luck'] <= 1
    assert (found['matches'] == 0) <= (found['on_object'] == 0)
    assert 'on_object' not in benchmark.measure(guitar, method, runner)
    # That the photo of a person shows no guitar is known from the detector.
    strange = next(case for case in cases if case.photo.parent.name != case.kind == 'guitar')
    told = benchmark.measure(strange, method, runner)
    assert told['shows_kind'] is False and 'on_object' not in told
    for case in (person, guitar):
        picture = benchmark.picture(case, method, runner)
        assert picture.dtype == np.uint8 and picture.shape[1] > 300


def test_without_a_detector_nobody_knows_where_objects_are(data):
    method = method_named('plain', Settings(detector='none'), Options())
    benchmark = KindsBenchmark(data, 0)
    benchmark.judge = ''
    with pytest.raises(UserError, match='kinds needs a detector'):
        benchmark.usable(method)
    benchmark.judge = kinds.JUDGE
    benchmark.usable(method)
    assert benchmark.variant() == kinds.JUDGE


def test_who_judges_depends_on_what_was_fetched(data, monkeypatch):
    monkeypatch.setattr(ModelStore, 'state', lambda store, name: State.MISSING)
    assert KindsBenchmark(data, 0).judge == ''
    monkeypatch.setattr(ModelStore, 'state', lambda store, name: State.OK)
    assert KindsBenchmark(data, 0).judge == kinds.JUDGE


def test_another_detector_may_judge(data, monkeypatch):
    benchmark, runner = KindsBenchmark(data, 0), MethodRunner()
    benchmark.judge = 'yolov4-tiny'
    person = next(case for case in benchmark.cases() if case.group == 'person')
    blind = method_named('plain', replace(SMALL, detector='none'), Options())
    found = benchmark.measure(person, blind, runner)
    assert 0.2 < found['chance_on_object'] < 0.9
    with pytest.raises(SettingsError, match='not a detector'):
        runner.detector('none')
