"""Scenes put together from photos whose objects are known; detector and labels are real."""

import math

import cv2
import numpy as np
import pytest
import torch

from niom_ros.benchmarks.evaluation.benchmark import DataMissing
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import pairing
from niom_ros.benchmarks.evaluation.suites.pairing import Choice, PairingBenchmark
from niom_ros.benchmarks.evaluation.suites.scenes import read_labels, read_voc
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap, overlap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import MarkedObject, Scene
from niom_ros.simulation.virtual_scene import example_photo

SMALL = Settings(device='cpu', max_keypoints=64)
SIDE = 240
# Where people see the objects in the photos, at that size: left, top, right, bottom.
PHOTOS = {
    'chelsea': ('cat', (1, 1, 215, 236)),
    'astronaut': ('person', (1, 1, 168, 240)),
    'coffee': ('cup', (60, 11, 170, 155)),
}


def method(name):
    return method_named(name, SMALL, Options())


def write_scene(folder, name, objects):
    """Write a list of objects, (label, (xmin, ymin, xmax, ymax)) each."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = ''.join(
        f'<object><name>{label}</name><bndbox>'
        + ''.join(
            f'<{side}>{value}</{side}>'
            for side, value in zip(('xmin', 'ymin', 'xmax', 'ymax'), box, strict=True)
        )
        + '</bndbox></object>'
        for label, box in objects
    )
    (folder / f'{name}.xml').write_text(f'<annotation>{entries}</annotation>')


def write_empty_scenes(folder, **scenes):
    """Write scenes for which it does not matter what they look like."""
    for name, labels in scenes.items():
        write_scene(folder, name, [(label, (1, 1, 9, 9)) for label in labels])
        cv2.imwrite(str(folder / f'{name}.jpg'), np.zeros((8, 8, 3), np.uint8))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / 'scenes/voc100'


@pytest.fixture
def real_scenes(folder):
    """Write three scenes of two photos side by side; any two share one kind of object."""
    for name, photos in (
        ('1', ('chelsea', 'astronaut')),
        ('2', ('coffee', 'chelsea')),
        ('3', ('astronaut', 'coffee')),
    ):
        sides = [
            cv2.resize(example_photo(photo), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            for photo in photos
        ]
        objects = [
            (PHOTOS[photo][0], np.add(PHOTOS[photo][1], (SIDE * index, 0) * 2))
            for index, photo in enumerate(photos)
        ]
        write_scene(folder, name, objects)
        cv2.imwrite(str(folder / f'{name}.jpg'), np.hstack(sides)[..., ::-1])
    return folder


@pytest.fixture(scope='module')
def runner():
    return MethodRunner()


def seen(label, area, score=0.9):
    return SeenObject(label, score, area, HeatMap.filled(area, GridFrame(99, 99), torch.empty(0)))


LEFT, RIGHT = Area(0, 0, 40, 40), Area(50, 0, 90, 40)
TWO_KINDS = (MarkedObject('dog', LEFT), MarkedObject('person', RIGHT))
ONE_KIND = (MarkedObject('dog', RIGHT),)


def choice(reference, image, chosen):
    return Choice((Scene(reference), Scene(image)), (TWO_KINDS, ONE_KIND), chosen, '')


def test_boxes_of_voc_begin_at_the_edge_of_their_first_pixel(folder):
    write_scene(folder, 'a', [('tvmonitor', (1, 1, 10, 20)), ('dog', (3, 4, 5, 6))])
    television, dog = read_voc(folder / 'a.xml')
    assert television == MarkedObject('tv', Area(-0.5, -0.5, 9.5, 19.5))
    assert dog == MarkedObject('dog', Area(1.5, 2.5, 4.5, 5.5))


@pytest.mark.parametrize('text', ['<annotation>', '<a><object><name>dog</name></object></a>'])
def test_a_damaged_list_is_named(folder, text):
    folder.mkdir(parents=True)
    (folder / 'a.xml').write_text(text)
    with pytest.raises(UserError, match=r'a\.xml is not an XML file of Pascal VOC'):
        read_voc(folder / 'a.xml')


def test_names_of_a_text_list(tmp_path):
    (tmp_path / 'a.txt').write_text('sofa 1 2 3 4\ncup 5 6 7 8\n\ncup 1 1 2 2\n')
    assert read_labels(tmp_path / 'a.txt') == {'couch', 'cup'}
    with pytest.raises(UserError, match=r'b\.txt'):
        read_labels(tmp_path / 'b.txt')


def test_overlap_is_the_common_share_of_two_boxes():
    box = Area(0, 0, 10, 10)
    assert overlap(box, box) == 1
    assert overlap(box, Area(5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap(box, Area(10, 0, 20, 10)) == 0
    assert overlap(box, Area(20, 20, 30, 30)) == 0


def test_pairs_share_a_kind_and_leave_a_choice(tmp_path, folder):
    write_empty_scenes(
        folder, a=['dog'], b=['dog', 'dog'], c=['dog', 'person'], d=['sofa'], e=['person', 'dog']
    )
    write_scene(folder, 'f', [('dog', (1, 1, 2, 2)), ('person', (1, 1, 2, 2))])  # no photo
    cases = PairingBenchmark(tmp_path, 0).cases()
    assert [case.name for case in cases] == ['a-c', 'a-e', 'b-c', 'b-e', 'c-e']
    # Both share two kinds: the rarer one names the group.
    assert [case.group for case in cases] == ['dog', 'dog', 'dog', 'dog', 'person']
    assert [case.unit for case in cases] == ['a', 'a', 'b', 'b', 'c']


def test_if_there_are_too_many_pairs_rare_kinds_stay(tmp_path, folder, monkeypatch):
    crowd = {f'p{index}': ['person', 'car' if index % 2 else 'bus'] for index in range(6)}
    write_empty_scenes(folder, **crowd, s1=['sheep', 'cow'], s2=['sheep'])
    everything = PairingBenchmark(tmp_path, 0).cases()
    assert len(everything) == 15 + 1
    monkeypatch.setattr(pairing, 'MAX_PAIRS', 6)
    few = PairingBenchmark(tmp_path, 0).cases()
    assert few == PairingBenchmark(tmp_path, 0).cases()
    assert len(few) == 6
    assert 's1-s2' in [case.name for case in few]
    # One of each in turn: bus, car, person, sheep, bus, car.
    assert sorted(case.group for case in few) == ['bus', 'bus', 'car', 'car', 'person', 'sheep']
    assert few != PairingBenchmark(tmp_path, 1).cases()


def test_without_scenes_it_says_what_is_missing(tmp_path):
    with pytest.raises(DataMissing, match='pairing needs scenes/voc100'):
        PairingBenchmark(tmp_path, 0).cases()


def test_right_are_two_objects_of_a_kind_that_both_have():
    reference = seen('dog', LEFT), seen('person', RIGHT)
    image = (seen('dog', RIGHT),)
    assert choice(reference, image, (0, 0)).right
    assert not choice(reference, image, (1, 0)).right
    assert not choice(reference, image, None).right
    elsewhere = (seen('dog', LEFT),)
    assert not choice(reference, elsewhere, (0, 0)).right
    # What counts is where it is, not what the detector calls it.
    assert choice((seen('cat', LEFT),), image, (0, 0)).right


def test_detectable_is_what_was_found_and_named_on_both_sides():
    image = (seen('dog', RIGHT),)
    assert choice((seen('dog', LEFT),), image, None).detectable
    assert not choice((seen('cat', LEFT),), image, None).detectable
    assert not choice((seen('dog', RIGHT),), image, None).detectable
    assert not choice((seen('person', RIGHT),), image, None).detectable
    assert not choice((), image, None).detectable


def test_pairing_by_labels_finds_what_both_have_and_without_pairing_the_surest_objects(
    tmp_path, real_scenes, runner
):
    benchmark = PairingBenchmark(tmp_path, 0)
    cases = benchmark.cases()
    assert [case.group for case in cases] == ['cat', 'person', 'cup']
    for case, shared in zip(cases, ('cat', 'person', 'cup'), strict=True):
        record = benchmark.measure(case, method('sew+nop'), runner)
        assert record['chosen'] == [shared, shared]
        assert record['right']
        assert record['detectable']
    # In neither of the last two scenes is the detector surest of the cup.
    record = benchmark.measure(cases[2], method('sew'), runner)
    assert record['chosen'] == ['cat', 'person']
    assert not record['right']
    assert record['detectable']
    assert record == benchmark.measure(cases[2], method('plain'), runner)
    for name in ('sew+visual', 'sew+both'):
        assert len(benchmark.measure(cases[2], method(name), runner)['chosen']) == 2


def test_where_nothing_is_seen_nothing_is_right(tmp_path, folder, runner):
    write_empty_scenes(folder, a=['dog'], b=['dog', 'cat'])
    grey = np.full((64, 64, 3), 128, np.uint8)
    for name in 'ab':
        cv2.imwrite(str(folder / f'{name}.jpg'), grey)
    benchmark = PairingBenchmark(tmp_path, 0)
    (case,) = benchmark.cases()
    for name in ('sew+nop', 'sew'):
        record = benchmark.measure(case, method(name), runner)
        assert (record['right'], record['detectable'], record['chosen']) == (False, False, [])
        assert benchmark.picture(case, method(name), runner).ndim == 3


def test_what_knows_no_objects_is_refused():
    benchmark = PairingBenchmark(None, 0)
    with pytest.raises(UserError, match=r'cannot be measured for sift.*sew\+nop'):
        benchmark.usable(method('sift'))
    blind = method_named('sew+nop', Settings(detector='none'), Options())
    with pytest.raises(UserError, match='needs a detector'):
        benchmark.usable(blind)
    for name in (*PairingBenchmark.default_methods, 'plain', 'uniform', 'shuffled', 'default'):
        benchmark.usable(method(name))


def test_shares_of_right_choices():
    records = [
        {'right': right, 'detectable': detectable, 'group': group}
        for right, detectable, group in (
            (True, True, 'person'),
            (True, True, 'person'),
            (False, True, 'person'),
            (False, False, 'person'),
            (False, False, 'cat'),
        )
    ]
    assert PairingBenchmark(None, 0).summarise(records) == {
        'top1': 2 / 5,
        'top1_detectable': 2 / 3,
        'detectable': 3 / 5,
        'top1_kinds': (2 / 4 + 0) / 2,
    }
    nothing = PairingBenchmark(None, 0).summarise([])
    assert all(math.isnan(value) for value in nothing.values())


def test_worst_is_a_wrong_choice_of_what_was_detected():
    def quality(right, detectable, objects):
        record = {'right': right, 'detectable': detectable, 'objects': objects}
        return PairingBenchmark(None, 0).quality(record)

    ordered = [
        quality(True, True, [5, 4]),
        quality(True, True, [1, 2]),
        quality(False, False, [3, 0]),
        quality(False, True, [3, 2]),
    ]
    assert ordered == sorted(ordered, reverse=True)
    assert len(set(ordered)) == 4


def test_the_picture_marks_what_was_chosen(tmp_path, real_scenes, runner):
    benchmark = PairingBenchmark(tmp_path, 0)
    case = benchmark.cases()[2]
    right = benchmark.picture(case, method('sew+nop'), runner)
    wrong = benchmark.picture(case, method('sew'), runner)
    # The plate at the left top is blue if the choice is right.
    assert right[0, 0].tolist() == list(pairing.BLUE)
    assert wrong[0, 0].tolist() == list(pairing.VERMILLION)
    truth = (right == pairing.PURPLE).all(axis=2)
    assert truth.sum() > 500
