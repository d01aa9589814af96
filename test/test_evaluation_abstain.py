"""Unrelated and true pairs from small data sets that are written here."""

from itertools import chain, combinations
import math
from pathlib import Path
import random

import cv2
import numpy as np
import pytest
from scipy.io import savemat

from niom_ros.benchmarks.evaluation.benchmark import DataMissing
from niom_ros.benchmarks.evaluation.halves import halves, in_first_half
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, MethodRunner
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import abstain
from niom_ros.benchmarks.evaluation.suites.abstain import (
    AbstainBenchmark,
    DatasetPicture,
    draw_pairs,
    find_drawings,
    find_photos,
    UnrelatedCase,
)
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.simulation.virtual_scene import example_photo

SMALL = Settings(device='cpu', max_keypoints=256)
GREY = np.full((40, 60, 3), 128, np.uint8)


def method(name):
    return method_named(name, SMALL, Options())


def write_picture(path, pixels=GREY):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels[..., ::-1])


def write_voc(folder, name, *labels, side=10):
    write_picture(folder / f'{name}.jpg', GREY if side < 40 else np.zeros((side, side, 3), 'u1'))
    end = side - 1
    box = f'<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>{end}</xmax><ymax>{end}</ymax></bndbox>'
    objects = ''.join(f'<object><name>{label}</name>{box}</object>' for label in labels)
    (folder / f'{name}.xml').write_text(f'<annotation>{objects}</annotation>')


def write_boundaries(path, *annotators):
    """Write a file like those of BSDS: for each annotator where the boundaries are."""
    entries = np.empty((1, len(annotators)), object)
    for index, ink in enumerate(annotators):
        entries[0, index] = {'Boundaries': ink.astype(np.uint8)}
    savemat(path, {'groundTruth': entries})


@pytest.fixture
def data(tmp_path):
    """Write a little of every data set."""
    scenes, drawing = tmp_path / 'scenes', tmp_path / 'drawing'
    write_voc(scenes / 'voc100', 'dogs', 'dog')
    write_voc(scenes / 'voc100', 'dog_on_sofa', 'dog', 'sofa')
    write_voc(scenes / 'voc100', 'chairs', 'chair')
    for name, label in (('room1', 'sofa'), ('room2', 'cup')):
        write_picture(scenes / f'cartucho85/{name}.jpg')
        (scenes / f'cartucho85/{name}.txt').write_text(f'{label} 1 1 9 9\n')
    for name in ('n01_hen', 'n02_gong', 'n03_gong'):
        write_picture(scenes / f'imagenet/{name}.JPEG')
    for name in ('108005', '108170', '42012'):
        write_picture(drawing / f'bsds/{name}.jpg')
        write_boundaries(drawing / f'bsds/{name}.mat', np.eye(40, 60))
    write_picture(drawing / 'ikea/Chair/stig/step_0/step_1.png')
    write_picture(drawing / 'ikea/Chair/stig/masks/step_0_mask.png')
    write_picture(drawing / 'ikea/Misc/vesken/step_0/step_0.png')
    for kind in ('dog', 'guitar'):
        write_picture(drawing / f'pacs/sketch/{kind}/1.png')
        write_picture(drawing / f'pacs/photo/{kind}/1.jpg')
    flat = tmp_path / 'homography/homogr'
    write_picture(flat / 'wallA.png')
    write_picture(flat / 'wallB.png')
    np.savetxt(flat / 'wall_model.txt', np.diag([1 / 2, 1 / 2, 1]))
    return tmp_path


class SayingRunner(MethodRunner):
    """A fake that always claims the same homography, or nothing if it is None."""

    def __init__(self, claim):
        super().__init__()
        self.claim = claim

    def match(self, method, reference, image):
        nobody = np.zeros(0, bool)
        status = Status.FEW_MATCHES if self.claim is None else Status.OK
        verdict = Verdict(status, '', nobody, self.claim, 0 if self.claim is None else 0.9)
        return MethodAnswer(Match(verdict), Evidence(nobody), plausible=False)


def measured(benchmark, runner, cases=None):
    return [
        {
            **benchmark.measure(case, method('plain'), runner),
            'group': case.group,
            'unit': case.unit,
            'places': case.places,
        }
        for case in cases or benchmark.cases()
    ]


def pairs_of(cases, group):
    """Return the names of what is put together."""
    return [
        tuple(case.name.removeprefix(f'{group}/').split('-'))
        for case in cases
        if case.group == group
    ]


def test_photos_meet_all_that_they_are_not_related_to(data):
    met = pairs_of(AbstainBenchmark(data, 0).cases(), 'unrelated/photo')
    names = [
        *('voc100/dogs', 'voc100/dog_on_sofa', 'voc100/chairs'),
        *('cartucho85/room1', 'cartucho85/room2'),
        *('imagenet/n01_hen', 'imagenet/n02_gong', 'imagenet/n03_gong'),
        *('bsds/108005', 'bsds/108170', 'bsds/42012'),
    ]
    related = {
        frozenset(pair)
        for pair in (
            ('voc100/dogs', 'voc100/dog_on_sofa'),
            ('voc100/dog_on_sofa', 'cartucho85/room1'),  # VOC's sofa is COCO's couch in both
            ('cartucho85/room1', 'cartucho85/room2'),
            ('imagenet/n02_gong', 'imagenet/n03_gong'),
            ('bsds/108005', 'bsds/108170'),  # of one series
        )
    }
    expected = {frozenset(pair) for pair in combinations(names, 2)} - related
    # So few pictures that each meets every other, and once.
    assert len(met) == len(expected)
    assert {frozenset(pair) for pair in met} == expected


def test_drawings_meet_only_photos_of_something_else(data):
    met = pairs_of(AbstainBenchmark(data, 0).cases(), 'unrelated/drawing')

    def met_by(name):
        return {image for reference, image in met if reference == name}

    everything = {shown.name for shown in chain(*find_photos(data).values())}
    assert len(everything) == 11
    assert met_by('bsds/108005') == everything - {'bsds/108005', 'bsds/108170'}
    assert met_by('ikea/Chair/stig/step_0/step_1') == everything - {'voc100/chairs'}
    assert met_by('ikea/Misc/vesken/step_0/step_0') == everything
    # Whether there is a dog in it is known of these alone.
    listed = {name for name in everything if name.startswith(('voc100', 'cartucho85'))}
    assert met_by('pacs/dog/1') == listed - {'voc100/dogs', 'voc100/dog_on_sofa'}
    assert met_by('pacs/guitar/1') == listed
    references = {shown.name for shown in chain(*find_drawings(data).values())}
    assert {reference for reference, _ in met} == references


def test_pictures_of_a_pair_are_never_the_same(data):
    benchmark = AbstainBenchmark(data, 0)
    unrelated = [case for case in benchmark.cases() if isinstance(case, UnrelatedCase)]
    assert unrelated
    assert not any(case.reference == case.image for case in unrelated)
    assert not any(case.reference.with_suffix('.jpg') == case.image for case in unrelated)


def test_the_same_seed_gives_the_same_pairs_and_another_one_others(data, monkeypatch):
    monkeypatch.setattr(abstain, 'PHOTO_PAIRS', 10)
    monkeypatch.setattr(abstain, 'DRAWING_PAIRS', 5)
    cases = AbstainBenchmark(data, 3).cases()
    assert cases == AbstainBenchmark(data, 3).cases()
    assert cases != AbstainBenchmark(data, 4).cases()
    assert len({case.name for case in cases}) == len(cases) == 10 + 5 + 1 + 3


def sets_of(count, *names):
    return {
        name: [
            DatasetPicture(
                f'{name}/{index}', Path(f'{name}/{index}.jpg'), f'{name}/{index}', frozenset()
            )
            for index in range(count)
        ]
        for name in names
    }


def test_no_set_and_no_reference_dominates():
    photos = sets_of(20, 'a', 'b', 'c')
    photos['large'] = sets_of(200, 'large')['large']
    pairs = draw_pairs(photos, photos, 300, random.Random(0))
    assert len(pairs) == 300
    by_set = [reference.name.partition('/')[0] for reference, _ in pairs]
    assert {name: by_set.count(name) for name in photos} == dict.fromkeys(photos, 75)
    uses = [sum(reference.name == f'a/{index}' for reference, _ in pairs) for index in range(20)]
    assert sorted(uses) == [3] * 5 + [4] * 15
    met = [frozenset((reference.name, image.name)) for reference, image in pairs]
    assert all(len(pair) == 2 for pair in met)
    assert len(set(met)) == 300


def test_there_are_enough_pairs_a_third_of_them_with_drawings():
    assert abstain.PHOTO_PAIRS + abstain.DRAWING_PAIRS >= 400
    assert abstain.DRAWING_PAIRS * 3 == abstain.PHOTO_PAIRS + abstain.DRAWING_PAIRS


def test_references_of_one_place_stay_together_and_no_flat_is_a_reference(data):
    units = {case.unit for case in AbstainBenchmark(data, 0).cases()}
    assert {'bsds series 108', 'ikea/stig', 'pacs/guitar/1', 'voc100/dogs'} <= units
    assert not any('cartucho' in unit for unit in units)


def test_true_pairs_come_from_homography_and_sketch(data):
    benchmark = AbstainBenchmark(data, 0)
    true = [case for case in benchmark.cases() if case.group.startswith('true/')]
    assert [(case.group, case.unit) for case in true] == [
        ('true/homography', 'homography/wall'),
        *[('true/sketch', f'bsds series {series}') for series in (108, 108, 42)],
    ]
    _, _, truth = benchmark.pictures(true[0])
    np.testing.assert_allclose(truth, np.diag([2, 2, 1]))
    drawing, image, truth = benchmark.pictures(true[1])
    assert drawing.pixels.shape == image.pixels.shape == GREY.shape
    assert drawing.pixels[0, 0].max() < 100  # ink
    assert drawing.pixels[0, -1].min() == 255  # paper
    assert truth.shape == (3, 3)


def test_who_claims_everything_is_always_wrong_on_unrelated_pairs(data):
    benchmark = AbstainBenchmark(data, 0)
    # It is the truth of the one pair of homography.
    metrics = benchmark.summarise(measured(benchmark, SayingRunner(np.diag([2.0, 2.0, 1.0]))))
    for name in ('', '_photo', '_drawing', '_upper'):
        assert metrics[f'false_accept{name}'] == 1
    assert metrics['true_accept_homography'] == 1
    assert metrics['true_accept_sketch'] == 0
    assert metrics['true_accept'] == 1 / 4
    assert metrics['wrong_accepted'] == 3 / 4


def test_who_claims_nothing_is_never_wrong_and_finds_nothing(data):
    benchmark = AbstainBenchmark(data, 0)
    metrics = benchmark.summarise(measured(benchmark, SayingRunner(None)))
    assert metrics['false_accept'] == metrics['true_accept'] == metrics['wrong_accepted'] == 0
    assert 0 < metrics['false_accept_upper'] < 0.1


def test_shares_by_hand():
    seen, unseen = (
        next(str(n) for n in range(99) if in_first_half(str(n)) == wanted)
        for wanted in (True, False)
    )

    def record(group, accepted, error=None, place=seen, status='LOW_CONFIDENCE'):
        return {
            **{'group': group, 'accepted': accepted, 'error': error},
            **{'confidence': 0.5, 'places': [place], 'status': status},
        }

    records = [
        *[record('unrelated/photo', False)] * 199,
        *[record('unrelated/photo', False, place=unseen)] * 100,
        record('unrelated/photo', True),
        *[record('unrelated/drawing', False)] * 150,
        record('true/homography', True, 19.9),
        record('true/homography', True, 20.0),
        record('true/sketch', True, 3.0, unseen),
        record('true/sketch', False),
        record('true/sketch', False),
        *[record('unrelated/object', False)] * 40,
        *[record('unrelated/object', False, place=unseen)] * 9,
        record('unrelated/object', False, place=unseen, status='ALIKE'),
        record('kind/object', False, status='ALIKE'),
        record('kind/object', False, status='ALIKE', place=unseen),
        *[record('kind/object', False)] * 2,
    ]
    metrics = AbstainBenchmark(None, 0).summarise(records)
    assert metrics.pop('false_accept_upper') == pytest.approx(0.0105, abs=5e-5)
    assert metrics.pop('false_accept_upper_held_out') == pytest.approx(0.0295, abs=5e-5)
    assert metrics.pop('false_alike_upper') == pytest.approx(0.0094, abs=1e-4)
    assert metrics.pop('false_alike_upper_held_out') == pytest.approx(0.0423, abs=1e-4)
    assert metrics == {
        'false_alike': 1 / 500,
        'false_alike_held_out': 1 / 110,
        'true_alike': 1 / 2,
        'true_alike_held_out': 1,
        'false_accept': 1 / 450,
        'false_accept_photo': 1 / 300,
        'false_accept_drawing': 0,
        'true_accept': 2 / 5,
        'true_accept_homography': 1 / 2,
        'true_accept_sketch': 1 / 3,
        'wrong_accepted': 1 / 3,
        'false_accept_held_out': 0,
        'true_accept_held_out': 1,
        'wrong_accepted_held_out': 0,
    }
    none_wrong = AbstainBenchmark(None, 0).summarise([record('unrelated/photo', False)] * 450)
    assert none_wrong['false_accept_upper'] == pytest.approx(1 - 0.05 ** (1 / 450))
    assert math.isnan(none_wrong['true_accept'])


def test_sure_wrong_claims_are_worst():
    def quality(group, accepted, confidence, error=None):
        record = {'group': group, 'accepted': accepted, 'confidence': confidence, 'error': error}
        return AbstainBenchmark(None, 0).quality(record)

    ordered = [
        quality('true/sketch', True, 0.95, 2),
        quality('unrelated/photo', False, 0.2),
        quality('true/sketch', True, 0.7, 2),
        quality('true/sketch', False, 0.3),
        quality('unrelated/photo', True, 0.6),
        quality('true/sketch', True, 0.8, 50),
    ]
    assert ordered == sorted(ordered, reverse=True)
    assert len(set(ordered)) == len(ordered)


def test_pairs_of_pictures_from_both_halves_count_only_for_all():
    seen, unseen = (
        next(str(n) for n in range(99) if in_first_half(str(n)) == wanted)
        for wanted in (True, False)
    )
    record = {'accepted': False, 'error': None, 'confidence': 0.5, 'status': 'ALIKE'}
    mixed = {**record, 'group': 'kind/object', 'places': [unseen, seen]}
    records = [mixed, {**mixed, 'places': [unseen, unseen], 'status': 'LOW_CONFIDENCE'}]
    metrics = AbstainBenchmark(None, 0).summarise(records)
    assert metrics['true_alike'] == 1 / 2
    assert metrics['true_alike_held_out'] == 0


def test_a_photo_is_in_the_same_half_in_all_groups(data):
    for name in ('dogs', 'dog_on_sofa', 'chairs'):
        write_voc(data / 'scenes/voc100', name, name[:3], side=200)
    for name in ('1', '2'):
        write_picture(data / f'afhq/cat/{name}.jpg', np.zeros((200, 200, 3), np.uint8))
    cases = AbstainBenchmark(data, 0).cases()
    places = {}
    for case in cases:
        if isinstance(case, UnrelatedCase):
            for path, place in zip((case.reference, case.image), case.places, strict=True):
                places.setdefault(path, set()).add(place)
    groups = {case.group for case in cases}
    assert {'unrelated/photo', 'unrelated/object', 'kind/object'} <= groups
    assert all(len(names) == 1 for names in places.values())
    voc = data / 'scenes/voc100'
    assert places[voc / 'dogs.jpg'] == {'voc100/dogs'}
    assert places[data / 'afhq/cat/1.jpg'] == {'afhq/cat/1'}
    records = [{'places': case.places, 'case': case} for case in cases]
    seen, unseen = ({p for one in half for p in one['places']} for half in halves(records))
    assert not seen & unseen


def test_without_any_folder_it_says_what_is_missing(tmp_path):
    with pytest.raises(DataMissing, match='abstain needs scenes/voc100 or scenes/cartucho85'):
        AbstainBenchmark(tmp_path, 0).cases()


def test_one_set_is_enough(tmp_path):
    for name in ('n01_hen', 'n02_gong'):
        write_picture(tmp_path / f'scenes/imagenet/{name}.JPEG')
    benchmark = AbstainBenchmark(tmp_path, 0)
    (case,) = benchmark.cases()
    assert case.group == 'unrelated/photo'
    assert 'scenes/imagenet' not in benchmark.missing()
    assert len(benchmark.missing()) == len(benchmark.folders) - 1


@pytest.mark.parametrize('name', ['plain', 'orb'])
def test_a_real_matcher_finds_a_photo_again_and_no_other(tmp_path, name):
    coffee, cat = (
        cv2.resize(example_photo(photo), (300, 200), interpolation=cv2.INTER_AREA)
        for photo in ('coffee', 'chelsea')
    )
    write_picture(tmp_path / 'scenes/imagenet/n01_coffee.JPEG', coffee)
    write_picture(tmp_path / 'scenes/imagenet/n02_cat.JPEG', cat)
    flat = tmp_path / 'homography/homogr'
    turned = np.vstack([cv2.getRotationMatrix2D((150, 100), 10, 0.9), [0, 0, 1]])
    write_picture(flat / 'cupA.png', coffee)
    write_picture(flat / 'cupB.png', cv2.warpPerspective(coffee, turned, (300, 200)))
    np.savetxt(flat / 'cup_model.txt', np.linalg.inv(turned))
    benchmark, runner = AbstainBenchmark(tmp_path, 0), MethodRunner()
    unrelated, true = benchmark.cases()
    record = benchmark.measure(unrelated, method(name), runner)
    assert not record['accepted']
    assert record['error'] is None
    record = benchmark.measure(true, method(name), runner)
    assert record['accepted']
    assert record['error'] < 3
    assert benchmark.picture(true, method(name), runner).dtype == np.uint8
