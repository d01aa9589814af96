"""`niom eval` and `niom calibrate` as users run them, with real weights on small data."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
import json
from pathlib import Path
import subprocess
import sys

from benchmark_data import VIEW, write_benchmark_data
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation import method_runner
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.command import BENCHMARKS
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import sketch
from niom_ros.benchmarks.evaluation.suites.homography import HomographyBenchmark
from niom_ros.benchmarks.evaluation.suites.instances import InstancesBenchmark
from niom_ros.benchmarks.evaluation.suites.sketch import drawing_of, random_view, SketchBenchmark
from niom_ros.benchmarks.evaluation.suites.tracking import SECONDS, TrackingBenchmark
from niom_ros.benchmarks.evaluation.suites.turned import TurnedBenchmark
from niom_ros.benchmarks.evaluation.suites.uncertainty import UncertaintyBenchmark
from niom_ros.benchmarks.evaluation.suites.zoomed import ZoomedBenchmark
from niom_ros.cli.main import BENCHMARK_NAMES, main
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings
from niom_ros.drawings import tracing
from niom_ros.images.decoding import read_image
from niom_ros.matching.confidence import INK_SIGNS, SIGNS
from niom_ros.matching.features import Features

FAST = ('--max-keypoints', '256', '--jobs', '1', '--device', 'cpu')
MANUAL_GROUPS = ('warped', 'thicker', 'photographed', 'part_of_a_page')
# What each benchmark must tell, by the names that others rely on.
PROMISED = {
    'sketch': ('success_10px', 'success_20px', 'wrong_accepted'),
    'manual': (
        *(f'success_{limit}px_{group}' for limit in (10, 20) for group in MANUAL_GROUPS),
        *(f'wrong_accepted_{group}' for group in MANUAL_GROUPS),
        'false_accept',
        'false_accept_upper',
    ),
    'kinds': ('mostly_on_object', 'chance_mostly_on_object', 'on_object', 'accepted'),
    'tmc': (
        *('rmse', 'pck_01', 'pck_05', 'pck_10', 'recall_01', 'recall_05', 'recall_10'),
        *('paired_pck_05', 'paired_pck_10', 'chance_pck_05'),
        *('blind_paired_pck_10', 'moved_paired_pck_10'),
    ),
    'pose': (
        *(f'auc_{limit}_{kind}' for limit in (5, 10, 20) for kind in ('clean', 'both', 'one')),
        'auc_20_both_fog',
        'auc_5_one_fog',
    ),
    'homography': ('auc_3', 'auc_5', 'auc_10'),
    'turned': ('found', 'found_least', 'found_on_table', 'wrong_accepted'),
    'zoomed': ('found', 'found_sixth', 'wrong_accepted', 'wrong_accepted_upper'),
    'instances': ('copies_found', 'wrong_accepted', 'wrong_accepted_upper'),
    'pairing': ('top1',),
    'abstain': ('false_accept', 'true_accept'),
    'landmarks': ('pck_05', 'pck_10'),
    'tracking': ('lost', 'relocked', 'wrong_claims'),
    'uncertainty': (),  # its metrics are about 1 and need more answers than there are here
}
# Of tracking: each takes ten seconds, and so few keypoints find nothing in most others.
FILMS = ('camera/coffee', 'occlusion/coffee')
SOME_VIEWS = 8  # of turned and zoomed photos, one in so many


@pytest.fixture(scope='module')
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark_data(tmp_path_factory.mktemp('small') / 'data')


@pytest.fixture(scope='module', autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NIOM_CACHE', str(tmp_path_factory.mktemp('cache')))
        yield


def only_some(find_cases: Callable[[Benchmark], Iterable[Case]]) -> Callable[..., list[Case]]:
    return lambda benchmark: list(find_cases(benchmark))[::SOME_VIEWS]


@pytest.fixture(scope='module')
def everything(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with what `niom eval all` wrote."""
    folder = tmp_path_factory.mktemp('all')
    words = ['eval', 'all', '--data', str(data), '--corruptions', 'fog', '--methods', 'sew+nop']
    outputs = ['--json', str(folder / 'all.json'), '--report', str(folder / 'report')]
    every = TrackingBenchmark.find_cases
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            TrackingBenchmark,
            'find_cases',
            lambda self: [case for case in every(self) if case.name in FILMS],
        )
        patch.setitem(SECONDS, 'camera', 3.0)
        for kind in (TurnedBenchmark, UncertaintyBenchmark, ZoomedBenchmark):
            patch.setattr(kind, 'find_cases', only_some(kind.find_cases))
        copies = InstancesBenchmark.find_cases
        patch.setattr(
            InstancesBenchmark,
            'find_cases',
            lambda self: [case for case in copies(self) if case.count == 2],
        )
        assert main([*words, *outputs, *FAST]) == 0
    return folder


def test_all_benchmarks_tell_what_was_promised(everything: Path) -> None:
    written = json.loads((everything / 'all.json').read_text())
    assert written['missing'] == {}
    assert (*(kind.name for kind in BENCHMARKS), 'all') == BENCHMARK_NAMES
    assert set(written['benchmarks']) == set(PROMISED) == {kind.name for kind in BENCHMARKS}
    for name, promised in PROMISED.items():
        result = written['benchmarks'][name]
        assert (result['benchmark'], result['data'], result['seed']) == (name, 'data', 0)
        assert {'torch', 'opencv-python-headless', 'niom_ros'} <= set(result['versions'])
        assert result['pairs'] >= 1
        (metrics,) = result['methods'].values()
        for metric in promised:
            assert 0 <= metrics[metric] <= 1, (name, metric)
            low, high = metrics[f'{metric}_ci']
            assert 0 <= low <= metrics[metric] <= high <= 1, (name, metric)


def test_easy_pairs_are_found_and_unrelated_ones_are_not(everything: Path) -> None:
    results = json.loads((everything / 'all.json').read_text())['benchmarks']

    def value(benchmark: str, metric: str) -> float:
        return float(results[benchmark]['methods']['sew+nop'][metric])

    assert value('homography', 'auc_10') > 0.8
    assert value('pose', 'auc_20_clean') > 0.7
    assert value('abstain', 'false_accept') == 0
    assert value('abstain', 'true_accept_homography') == 1
    assert value('landmarks', 'pck_10') == 1
    assert value('tmc', 'chance_pck_05') < value('tmc', 'pck_05')


def test_the_report_has_a_chapter_for_each(everything: Path) -> None:
    page = (everything / 'report/index.html').read_text()
    for kind in BENCHMARKS:
        assert kind.title in page
    assert list((everything / 'report/pictures').glob('*.jpg'))


def test_one_benchmark_alone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / 'result.json'
    words = ['eval', 'homography', '--data', str(data), '--methods', 'sift,orb', '--seed', '3']
    assert main([*words, '--limit', '1', '--json', str(file), *FAST]) == 0
    result = json.loads(file.read_text())
    assert (result['benchmark'], result['seed'], result['pairs']) == ('homography', 3, 1)
    assert list(result['methods']) == ['sift', 'orb']
    assert list(result['differences']) == ['orb - sift']
    assert result['methods']['sift']['auc_10'] > 0.8
    shown = capsys.readouterr().out
    assert '1 pairs, seed 3' in shown and 'auc_10' in shown and 'sift' in shown


def test_what_was_measured_is_not_measured_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    measure = HomographyBenchmark.measure

    def counted(self: HomographyBenchmark, case, method, runner) -> Record:  # type: ignore
        measured.append(f'{case.name} {method.name}')
        return measure(self, case, method, runner)

    monkeypatch.setattr(HomographyBenchmark, 'measure', counted)
    words = ['eval', 'homography', '--data', str(data), '--seed', '9', *FAST, '--methods']
    assert main([*words, 'orb']) == 0
    assert sorted(measured) == ['homogr/Rocket orb', 'oxford/cup/1-2 orb']
    assert main([*words, 'orb', 'sift']) == 0
    assert len(measured) == 4
    assert main([*words, 'orb', '--again']) == 0
    assert len(measured) == 6


def test_a_missing_set_is_reported(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / 'part'
    part.mkdir()
    (part / 'homography').mkdir()
    (part / 'homography/oxford').symlink_to(data / 'homography/oxford')
    file = tmp_path / 'all.json'
    (part / 'scenes').mkdir()
    (part / 'scenes/voc100').symlink_to(data / 'scenes/voc100')
    words = ['--data', str(part), '--methods', 'orb', *FAST]
    assert main(['eval', 'all', *words, '--json', str(file)]) == 0
    said = capsys.readouterr().err
    assert 'there is no homography/homogr' in said
    assert 'sketch needs drawing/bsds' in said
    written = json.loads(file.read_text())
    assert 'homography' in written['benchmarks']
    assert written['benchmarks']['homography']['missing'] == ['homography/homogr']
    assert 'sketch' in written['missing']
    # There are scenes, but a method without objects has nothing to pair.
    assert 'pairing cannot be measured for orb' in said
    assert 'cannot be measured for any' in written['missing']['pairing']
    assert main(['eval', 'sketch', *words]) == 1
    assert 'sketch needs drawing/bsds: there is no such folder' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--data', 'nowhere'], 'there is no folder nowhere: --data must name'),
        (['--data', 'DATA', '--methods', 'see'], "there is no method 'see'"),
        (['--data', 'DATA', '--limit', '-1'], '--limit is -1: it must be 0 or more'),
        (['--data', 'DATA', '--max-keypoints', '3'], 'max_keypoints is 3: use 64 to 8192'),
        (['--data', 'DATA', '--report', 'DATA/pose/strecha/wall/0.png'], '0.png'),
    ],
)
def test_bad_input_is_said(
    data: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    words = [word.replace('DATA', str(data)) for word in words]
    assert main(['eval', 'homography', '--jobs', '1', *words]) == 1
    assert said in capsys.readouterr().err


def test_an_unknown_corruption_is_said(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['eval', 'pose', '--data', str(data), '--corruptions', 'rain', *FAST]) == 1
    assert "there is no corruption 'rain'" in capsys.readouterr().err


def test_the_installed_program_measures_the_same_in_two_processes(
    data: Path, tmp_path: Path
) -> None:
    words = ['eval', 'homography', '--data', str(data), '--methods', 'sift', 'orb', '--again']
    one, two = tmp_path / 'one.json', tmp_path / 'two.json'
    assert main([*words, '--jobs', '1', '--json', str(one)]) == 0
    niom = Path(sys.prefix) / 'bin/niom'
    subprocess.run([niom, *words, '--jobs', '2', '--json', two], check=True, timeout=120)
    assert json.loads(two.read_text()) == json.loads(one.read_text())


class TestCalibrate:
    # So low that wrong matches come as far as being judged, even of so few and small pictures.
    LOW = ('--min-inliers', '4', '--min-inlier-ratio', '0', '--min-coverage', '0')
    SMALL = ('--max-keypoints', '128', '--jobs', '1', '--device', 'cpu')

    @pytest.fixture(autouse=True)
    def _search_little(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """There are many pairs, and few ways of laying a drawing are enough for these."""
        quick = tracing.TracingParameters(starts=15, finalists=5, rounds=1, children=4)
        traced = partial(tracing.trace, parameters=quick)
        monkeypatch.setattr('niom_ros.matching.strategies.ink.trace', traced)

    def test_it_writes_what_it_learnt_and_from_what(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / 'calibration.json'
        words = ['calibrate', '--data', str(data), *self.SMALL, *self.LOW, '-o', str(file)]
        assert main([*words, '--subjects', 'drawings', 'matches']) == 0
        assert 'held out, standard: ' in capsys.readouterr().out
        entries = json.loads(file.read_text())
        assert set(entries) == {'ink', 'aliked+lightglue'}
        assert set(entries['ink']['weights']) == set(INK_SIGNS)
        assert set(entries['aliked+lightglue']['weights']) == set(SIGNS)
        for entry in entries.values():
            told = entry['provenance']
            assert told['command'].startswith('niom calibrate --data data --max-keypoints 128')
            assert '--min-inliers 4' in told['command']
            assert told['results']['fitted on, standard']['wrong_accepted'] == 0

    def test_one_subject_leaves_the_other_as_it_was(self, data: Path, tmp_path: Path) -> None:
        file = tmp_path / 'calibration.json'
        before = {'aliked+lightglue': {'weights': {'agreeing': 1.0}, 'bias': -1.0}}
        file.write_text(json.dumps(before))
        words = ['calibrate', '--data', str(data), *self.SMALL, *self.LOW, '-o', str(file)]
        assert main([*words, '--subjects', 'drawings']) == 0
        after = json.loads(file.read_text())
        assert after['aliked+lightglue'] == before['aliked+lightglue']
        assert set(after['ink']['weights']) == set(INK_SIGNS)

    def test_a_part_of_the_pairs_is_not_enough_to_keep(
        self, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ['calibrate', '--data', str(data), '--limit', '3', '-o', str(tmp_path / 'x.json')]
        assert main(words) == 1
        assert 'leave out --limit' in capsys.readouterr().err
        assert not (tmp_path / 'x.json').exists()


class TestHomography:
    def test_both_formats_tell_where_points_of_the_first_picture_are(self, data: Path) -> None:
        cases = {case.name: case for case in HomographyBenchmark(data, 0).cases()}
        assert set(cases) == {'oxford/cup/1-2', 'homogr/Rocket'}
        for case in cases.values():
            assert np.allclose(case.reference_to_image, VIEW, atol=1e-6)

    def test_every_set_is_told_on_its_own(self) -> None:
        def record(group: str, unit: str, error: float) -> Record:
            return {'group': group, 'unit': unit, 'error': error, 'accepted': True}

        records = [
            record('oxford', 'boat', 0.0),
            record('oxford', 'boat', 20.0),
            record('oxford', 'graf', 0.0),
            record('homogr', 'Rocket', 0.0),
            record('homogr', 'Brussels', 20.0),
        ]
        metrics = HomographyBenchmark(Path(), 0).summarise(records)
        assert metrics['auc_10'] == pytest.approx(3 / 5)
        assert (metrics['auc_10_boat'], metrics['auc_10_graf']) == (0.5, 1)
        assert metrics['auc_10_homogr'] == 0.5

    @pytest.mark.parametrize('content', ['1 2 3', 'no numbers', '<a><b></a>'])
    def test_a_broken_file_is_named(self, tmp_path: Path, content: str) -> None:
        folder = write_benchmark_data(tmp_path / 'data')
        (folder / 'homography/oxford/cup/H1to2p.xml').write_text(content)
        with pytest.raises(UserError, match=r'H1to2p\.xml does not contain a 3 x 3 matrix'):
            HomographyBenchmark(folder, 0).cases()


class TestSketch:
    def test_the_drawing_with_most_ink_is_taken(self, data: Path) -> None:
        drawing = drawing_of(data / 'drawing/bsds/1001.mat')
        assert drawing.shape == (160, 240, 3) and drawing.dtype == np.uint8
        assert drawing[0, 0].tolist() == [255, 255, 255]
        # A diagonal would be 2 % of the pixels.
        assert 0.05 < (drawing[..., 0] < 128).mean() < 0.5

    def test_the_camera_sees_the_photo_where_the_truth_says(self, data: Path) -> None:
        benchmark = SketchBenchmark(data, seed=0)
        cases = benchmark.cases()
        settings = ['standard', 'rotated', 'scaled', 'cluttered', 'small']
        assert [case.group for case in cases[: 3 * len(settings) : 3]] == settings
        truths = [benchmark.pictures(case)[2] for case in cases]
        assert len(np.unique(truths, axis=0)) == len(cases)
        for case in cases:
            reference, image, truth = benchmark.pictures(case)
            points = np.array([[80.0, 60], [150, 70], [120, 100]])
            seen = warp_points(truth, points)
            inside = ((seen > 2) & (seen < np.array([237, 157]))).all(axis=1)
            original = read_image(case.photo).astype(float)
            for (x, y), (u, v) in zip(points[inside], seen[inside], strict=True):
                there = image.pixels[round(v), round(u)].astype(float)
                around = original[int(y) - 3 : int(y) + 4, int(x) - 3 : int(x) + 4]
                low, high = around.min(axis=(0, 1)) - 12, around.max(axis=(0, 1)) + 12
                assert ((there >= low) & (there <= high)).all(), case.name
            assert reference.pixels.shape == image.pixels.shape

    def test_views_are_as_the_setting_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Without moved corners only turn, scale and shift are left, which can be read off.
        monkeypatch.setattr(sketch, 'VIEWS', sketch.ViewParameters(corner_shift=0))
        random = np.random.default_rng(0)
        width, height = 300, 200
        for setting, scales, angles in (
            ('standard', (0.85, 0.85), (-10, 10)),
            ('rotated', (0.85, 0.85), (-180, 180)),
            ('scaled', (0.4, 1.6), (-10, 10)),
            ('cluttered', (0.2**0.5, 1), (-10, 10)),
            ('small', (0.3, 0.45), (-10, 10)),
        ):
            seen_scales, seen_angles = [], []
            for _ in range(200):
                view = random_view(width, height, setting, random)
                view = view / view[2, 2]
                seen_scales.append(np.hypot(view[0, 0], view[1, 0]))
                seen_angles.append(np.degrees(np.arctan2(view[0, 1], view[0, 0])))
                middle = warp_points(view, np.array([[(width - 1) / 2, (height - 1) / 2]]))[0]
                room = (1 - seen_scales[-1]) / 2 * np.array([width, height])
                shift = np.abs(middle - [(width - 1) / 2, (height - 1) / 2])
                assert (
                    shift <= (room if setting in sketch.AMONG_CLUTTER else 0) + 1e-3 * np.ones(2)
                ).all()
            for seen, (low, high) in ((seen_scales, scales), (seen_angles, angles)):
                assert low - 1e-6 <= min(seen) and max(seen) <= high + 1e-6, setting
                # And they reach both ends.
                assert min(seen) <= low + 0.1 * (high - low) + 1e-6, setting
                assert max(seen) >= high - 0.1 * (high - low) - 1e-6, setting

    def test_corners_move_by_up_to_an_eighth(self) -> None:
        random = np.random.default_rng(0)
        corners = np.array([[0, 0], [299, 0], [299, 199], [0, 199]], float)
        moves = []
        for _ in range(300):
            view = random_view(300, 200, 'standard', random)
            # What is left after taking back the shrinking is the turn and the moved corners.
            centre = np.array([149.5, 99.5])
            moved = (warp_points(view, corners) - centre) / 0.85 + centre
            moves.append(np.abs(np.linalg.norm(moved - corners, axis=1)).max())
        furthest_turn = 2 * np.sin(np.radians(5)) * np.hypot(149.5, 99.5)
        assert 20 < max(moves) <= np.hypot(36, 24) + furthest_turn * 1.3

    def test_views_depend_on_the_seed_and_the_case_alone(self, data: Path) -> None:
        one, same, other = (
            SketchBenchmark(data, 1),
            SketchBenchmark(data, 1),
            SketchBenchmark(data, 2),
        )
        case = one.cases()[0]
        assert np.array_equal(one.pictures(case)[2], same.pictures(case)[2])
        assert not np.array_equal(one.pictures(case)[2], other.pictures(case)[2])

    def test_refusals_are_misses_and_wrong_claims_are_counted_among_claims(
        self, data: Path
    ) -> None:
        def record(error: float | None, group: str = 'standard') -> Record:
            return {'error': error, 'accepted': error is not None, 'group': group}

        records = [record(e) for e in (3.0, 15.0, 25.0, None, None)] + [record(9.0, 'rotated')]
        found = SketchBenchmark(data, 0).summarise(records)
        assert found['success_10px'] == pytest.approx(1 / 5)
        assert found['success_20px'] == pytest.approx(2 / 5)
        assert found['wrong_accepted'] == pytest.approx(1 / 3)
        assert (found['success_10px_rotated'], found['wrong_accepted_rotated']) == (1, 0)
        assert (found['accepted'], found['accepted_rotated']) == (pytest.approx(3 / 5), 1)
        # With one wrong of three answers, .86 of all could be wrong; with none of one, .95.
        assert found['wrong_accepted_upper'] == pytest.approx(0.865, abs=0.001)
        assert found['wrong_accepted_upper_rotated'] == pytest.approx(0.95)
        assert np.isnan(found['success_10px_scaled'])

    def test_what_is_no_bsds_file_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / 'x.mat'
        file.write_text('nothing')
        with pytest.raises(UserError, match='is not a BSDS file of boundaries'):
            drawing_of(file)


class TestMethodRunner:
    def test_each_picture_is_seen_once_for_all_methods_with_the_same_networks(
        self, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = MethodRunner()
        settings = Settings(device='cpu', max_keypoints=128)
        methods = [method_named(n, settings, Options()) for n in ('plain', 'sew', 'uniform')]
        matcher = runner.matcher(methods[0])
        assert runner.matcher(methods[1]) is matcher
        extracted: list[int] = []
        extract = matcher.perception.extractor.extract

        def counted(pixels: np.ndarray) -> Features:
            extracted.append(1)
            return extract(pixels)

        monkeypatch.setattr(matcher.perception.extractor, 'extract', counted)
        benchmark = HomographyBenchmark(data, 0)
        for method in methods:
            benchmark.measure(benchmark.cases()[0], method, runner)
        assert len(extracted) == 2  # the reference and the image

    def test_memory_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(method_runner, 'KEPT', 3)
        runner = MethodRunner()
        made: list[int] = []
        for key in (1, 2, 3, 1, 4, 1, 2):
            runner.once(key, lambda key=key: made.append(key))  # type: ignore[misc]
        # 4 displaced 2, which was not asked for longest.
        assert made == [1, 2, 3, 4, 2]

    def test_a_picture_without_any_keypoint_is_a_refusal(self) -> None:
        grey = Picture('grey', np.full((64, 64, 3), 128, np.uint8))
        for name in ('plain', 'sift', 'orb'):
            method = method_named(name, Settings(device='cpu', max_keypoints=128), Options())
            answer = MethodRunner().match(method, grey, grey)
            assert not answer.accepted and not answer.plausible
            assert len(answer.correspondences) == 0
