"""The benchmark of tracking: films whose truth is known, and numbers that a person can check."""

from dataclasses import replace
import json
import math

from benchmark_data import write_films
import cv2
import numpy as np
import pytest
from scripted_matcher import named_reference, ScriptedMatcher

from niom_ros.benchmarks.evaluation.film_chart import draw_chart
from niom_ros.benchmarks.evaluation.film_pictures import draw_film, Moment, thumbnail
from niom_ros.benchmarks.evaluation.glossary import meaning
from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import films, tracking
from niom_ros.benchmarks.evaluation.suites.films import (
    cut_film,
    cut_out,
    laid_over,
    place_of_cover,
    play,
    Shot,
    TrackedShot,
    video_film,
    Visibility,
)
from niom_ros.benchmarks.evaluation.suites.tracking import grained, Notes, Timer, TrackingBenchmark
from niom_ros.cli.main import main
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings, StreamOptions
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.pictures.lettering import WHITE
from niom_ros.pictures.marks import BLUE, SLATE, VERMILLION
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene
from niom_ros.stream.answers import Answer

DEFAULT = method_named('default', Settings(device='cpu'), Options())
BLACK = np.zeros((4, 4, 3), np.uint8)
SQUARE = Picture('square', np.zeros((100, 100, 3), np.uint8))


def moved(x: float) -> np.ndarray:
    """Return a homography that moves all corners to the right."""
    return np.array([[1.0, 0, x], [0, 1, 0], [0, 0, 1]])


def played(shots, view_of, box, on_match=lambda shot, answer: None):
    """Play a film with full matches that find the reference where `view_of` says for a shot."""
    shown = {}  # by the image itself, which a matcher sees alone

    def noted():
        for shot in shots:
            shown[id(shot.image)] = shot
            yield shot

    matcher = ScriptedMatcher(lambda image: view_of(shown[id(image)]), box)
    reference = named_reference(np.zeros((box.height, box.width, 3), np.uint8))
    return play(noted(), matcher, reference, StreamOptions(), on_match)


class TwoPixelsOff:
    """Full matches that find everything two pixels to the right of where it is."""

    def __init__(self, reference, method, runner, film):
        self._box = reference.box
        self.views = {}

    def play(self, shots):
        return played(shots, self.full_match, self._box)

    def full_match(self, shot, copy=''):
        here = shot.truth is not None and shot.visibility is not Visibility.NOTHING
        return moved(2) @ shot.truth if here else None


class Liar(TwoPixelsOff):
    """Full matches that find the reference where nothing of it is."""

    def full_match(self, shot, copy=''):
        view = super().full_match(shot)
        return np.array([[0.5, 0, 100], [0, 0.5, 100], [0, 0, 1]]) if view is None else view


def measured(monkeypatch, name, player=TwoPixelsOff):
    monkeypatch.setattr(tracking, 'FilmPlayer', player)
    benchmark = TrackingBenchmark(None, 0)
    monkeypatch.setattr(benchmark, '_frames', lambda folder: ())
    (case,) = (case for case in benchmark.cases() if case.name == name)
    return {**benchmark.measure(case, DEFAULT, None), 'group': case.group}


# Playing a film


def test_full_matches_come_late_and_of_the_frames_that_the_node_would_take():
    asked = []
    scene = VirtualScene(example_photo('coffee'), example_photo('gravel'), 320, 240)

    def view_of(shot):
        asked.append(shot.number)
        return shot.truth

    box = Box(0, 0, 600, 400)
    answers = list(played(films.camera_film(scene, 0, 5.0), view_of, box))
    # The first takes until 1.5 s. Then the newest that came before is taken, frame 44, until
    # 3.0 s. The next is due 2 s after frame 44.
    assert asked == [0, 44, 104]
    assert [answer.found for answer in answers] == [False] * 45 + [True] * 105
    starts = [answer.answer.matched_tag.number for answer in answers[45:]]
    assert starts == [0] * 45 + [44] * 59 + [104]


def test_a_match_of_nothing_does_not_stop_the_next_one():
    asked = []

    def view_of(shot):
        asked.append(shot.number)

    shots = [Shot(number, number / 10, np.zeros((48, 64, 3), np.uint8)) for number in range(51)]
    assert not any(answer.found for answer in played(shots, view_of, Box(0, 0, 60, 40)))
    assert asked == [0, 14, 29]


# Films


def test_a_cover_hides_for_as_long_as_it_should():
    covered = 2.0, 3.0
    assert place_of_cover(1.0, covered) == -1
    assert place_of_cover(1.85, covered) == pytest.approx(-0.5)
    assert place_of_cover(2.0, covered) == place_of_cover(2.99, covered) == 0
    assert 0 < place_of_cover(3.0, covered) < 0.2
    assert place_of_cover(4.0, covered) == 1
    scene = VirtualScene(example_photo('coffee'), example_photo('gravel'), 64, 48)
    cover = example_photo('brick')
    # Between frames, so that rounding decides nothing.
    shots = list(films.covered_film(scene, cover, 0, 5, (2.01, 3.01)))
    assert sum(shot.visibility is Visibility.NOTHING for shot in shots) == 30
    assert sum(shot.visibility is Visibility.PART for shot in shots) == 9 + 8
    assert shots[60].visibility is Visibility.PART
    assert shots[61].visibility is Visibility.NOTHING


def test_a_cover_is_laid_over_from_the_left_and_leaves_to_the_right():
    picture = np.full((1, 4, 3), 9, np.uint8)
    cover = np.repeat(np.arange(4, dtype=np.uint8).reshape(1, 4, 1), 3, axis=2)
    seen = {
        place: laid_over(picture, cover, place)[0, :, 0].tolist()
        for place in (-1, -0.5, 0, 0.5, 1)
    }
    assert seen == {
        -1: [9, 9, 9, 9],
        -0.5: [2, 3, 9, 9],
        0: [0, 1, 2, 3],
        0.5: [9, 9, 0, 1],
        1: [9, 9, 9, 9],
    }


def test_after_a_cut_nothing_is_there():
    scene = VirtualScene(example_photo('coffee'), example_photo('gravel'), 64, 48)
    other = replace(scene, picture=example_photo('rocket'))
    shots = list(cut_film(scene, 0, other, 1.0, 0.5, leap=7))
    assert [shot.truth is None for shot in shots] == [False] * 15 + [True] * 15
    assert [shot.visibility for shot in shots] == [Visibility.ALL] * 15 + [Visibility.NOTHING] * 15
    np.testing.assert_array_equal(shots[20].image, other.view(20 / 30 + 7, 20).image)


def test_a_part_of_an_image_is_set_straight():
    image = np.zeros((60, 80, 3), np.uint8)
    image[20:30, 10:30] = 200
    corners = np.array([[10, 20], [29, 20], [29, 29], [10, 29]])
    part = cut_out(image, corners, (40, 20))
    assert part.shape == (20, 40, 3)
    assert part.min() == part.max() == 200


def test_what_is_no_video_is_said(tmp_path):
    file = tmp_path / 'box.mp4'
    file.write_bytes(b'no video')
    with pytest.raises(UserError, match=r'box\.mp4 cannot be read as a video'):
        next(video_film(file))


def test_a_copy_has_more_noise_and_is_the_same_each_time():
    shot = Shot(3, 0.1, np.full((100, 100, 3), 128, np.uint8))
    copy = grained(shot, 0)
    assert copy.image.std() == pytest.approx(4, rel=0.05)
    np.testing.assert_array_equal(copy.image, grained(shot, 0).image)
    assert (copy.image != grained(replace(shot, number=4), 0).image).any()


# Measuring


def test_tracking_from_matches_that_are_two_pixels_off_is_two_pixels_off(monkeypatch):
    monkeypatch.setitem(tracking.SECONDS, 'camera', 5.0)
    record = measured(monkeypatch, 'camera/coffee')
    assert record['locked_seconds'] == 1.5
    assert record['expected'] == record['claims'] == 105
    assert record['lost'] == record['wrong'] == record['unconfirmed'] == 0
    # At 1.5, 2.5, 3.5 and 4.5 s.
    assert [full for _, full in record['compared']] == [2.0] * 4
    metrics = TrackingBenchmark(None, 0).summarise([record])
    assert metrics['full_error'] == 2
    assert metrics['tracked_error'] == pytest.approx(2, abs=0.3)
    assert metrics['tracked_minus_full'] == pytest.approx(0, abs=0.3)
    assert metrics['tracked_near_full'] == 1
    assert metrics['lost'] == metrics['wrong_claims'] == 0
    json.dumps(record, allow_nan=False)


def test_a_cover_is_noticed_and_it_is_found_again(monkeypatch):
    record = measured(monkeypatch, 'occlusion/coffee')
    assert record['wrong'] == 0
    # One match that began under the cover is in vain; the next begins and ends in 3 s at most.
    assert 0 < record['relocked_seconds'] <= 2 * films.MATCH_SECONDS + 0.1
    assert record['lost'] >= 30 * record['relocked_seconds'] - 1


@pytest.mark.parametrize('name', ['cut/coffee/swapped', 'cut/rocket/elsewhere'])
def test_a_cut_is_noticed(monkeypatch, name):
    record = measured(monkeypatch, name)
    assert record['was_followed']
    assert record['cut_frames'] <= 3
    assert record['wrong'] <= 2
    assert record['relocked_seconds'] is None


def test_what_is_claimed_after_a_cut_is_wrong(monkeypatch):
    record = measured(monkeypatch, 'cut/coffee/swapped', Liar)
    assert record['wrong'] > 10
    metrics = TrackingBenchmark(None, 0).summarise([record])
    assert metrics['wrong_claims'] == metrics['wrong_claims_cut'] > 0.1


def shot_at(stamp, view, visibility=Visibility.ALL, truth=None):
    """Return what tracking says of a frame; no view: it is lost."""
    status = Status.LOW_CONFIDENCE if view is None else Status.OK
    verdict = Verdict(status, '', np.zeros(0, bool), view)
    return TrackedShot(Shot(0, stamp, BLACK, truth, visibility), Answer(Match(verdict)))


def test_notes_by_hand():
    notes, there = Notes(SQUARE), np.eye(3)
    for stamp, offset in enumerate([None, None, 1, 9.9, 10, None]):
        view = None if offset is None else moved(offset)
        notes.add(shot_at(stamp, view), there)
    notes.add(shot_at(6, moved(3), Visibility.PART), there)
    notes.add(shot_at(7, moved(0), Visibility.NOTHING), there)
    notes.add(shot_at(8, moved(0), Visibility.NOTHING), None)
    notes.add(shot_at(9, None, Visibility.NOTHING), None)
    notes.add(shot_at(10, moved(0), Visibility.PART), there)
    notes.add(shot_at(11, None), there)
    notes.add(shot_at(12, moved(50)), there)  # not yet: it is wrong
    notes.add(shot_at(13, moved(2)), there)
    notes.add(shot_at(14, moved(99)), None)  # nobody knows
    notes.compare(shot_at(13, moved(2)), moved(1), moved(1), there)
    notes.compare(shot_at(13, moved(2)), None, None, there)
    assert notes.record() == {
        'tracked_errors': [1, 9.9, 10, 50, 2],
        'compared': [[2, 1]],
        'confirmed': 1,
        'unconfirmed': 1,
        'expected': 7,  # 2 to 5 and 11 to 13 s
        'lost': 2,
        'claims': 9,
        'wrong': 4,  # at 4, 7, 8 and 12 s
        'locked_seconds': 2,
        'was_followed': True,
        'cut_frames': 3,
        'relocked_seconds': 2,
    }


def test_the_next_comparison_is_due_when_the_time_has_passed():
    timer = Timer(1.0)
    assert [timer.due(stamp) for stamp in (0, 0.9, 1.2, 2.1, 2.2, 3.2)] == [
        *(False, False, True),
        *(False, True, True),
    ]


def record(group, **changes):
    return {
        **{'group': group, 'tracked_errors': [], 'compared': [], 'confirmed': 0, 'unconfirmed': 0},
        **{'expected': 10, 'lost': 0, 'claims': 10, 'wrong': 0, 'locked_seconds': 1.5},
        **{'was_followed': True, 'cut_frames': None, 'relocked_seconds': None, **changes},
    }


def test_metrics_by_hand():
    records = [
        record(
            'camera',
            tracked_errors=[1, 2, 3],
            compared=[[1, 0.5], [3, 1]],
            confirmed=3,
            unconfirmed=1,
            lost=1,
        ),
        record('camera', tracked_errors=[4, 5], compared=[[2, 1]], lost=4, wrong=1),
        record('occlusion', relocked_seconds=2.0),
        record('occlusion', relocked_seconds=3.0),
        record('occlusion', relocked_seconds=0.0, wrong=2),
        record('cut', cut_frames=1),
        record('cut', cut_frames=4),
        record('cut', was_followed=False),
        record('box', tracked_errors=[0.5], compared=[[0.5, 0.7]], claims=1),
    ]
    metrics = TrackingBenchmark(None, 0).summarise(records)
    kitchen = {name for name in metrics if name.endswith('_kitchen')}
    assert len(kitchen) == 9
    assert all(math.isnan(metrics[name]) for name in kitchen)
    expected = {
        'full_error': 1,
        'tracked_error': 3,
        'tracked_error_95': 5,
        'tracked_minus_full': 1,
        'tracked_minus_full_95': 2,
        'tracked_near_full': 2 / 3,
        'unconfirmed': 1 / 4,
        'lost': 5 / 20,
        'tracked_minus_full_box': pytest.approx(-0.2),
        'relocked': 1,
        'relocked_seconds': 2,
        'relocked_seconds_most': 3,
        'cut_in_3_frames': 1 / 2,
        'cut_frames_most': 4,
        'wrong_claims': 3 / 80,
        'wrong_claims_camera': 1 / 20,
        'wrong_claims_occlusion': 2 / 30,
        'wrong_claims_cut': 0,
        'wrong_claims_box': 0,
    }
    assert {name: metrics[name] for name in expected} == expected
    for name in metrics:
        assert meaning('tracking', name).words, name


def test_what_never_happens_takes_for_ever():
    metrics = TrackingBenchmark(None, 0).summarise([record('occlusion'), record('cut')])
    assert metrics['relocked'] == metrics['cut_in_3_frames'] == 0
    assert metrics['relocked_seconds'] == metrics['cut_frames_most'] == math.inf


def test_wrong_claims_are_worst_then_large_errors():
    films_of_all_kinds = [
        record('camera', tracked_errors=[1.0]),
        record('box', tracked_errors=[3.0]),
        record('cut'),
        record('camera', tracked_errors=[1.0], wrong=1),
    ]
    qualities = [TrackingBenchmark(None, 0).quality(film) for film in films_of_all_kinds]
    assert qualities == sorted(qualities, reverse=True)
    assert len(set(qualities)) == 4


def test_a_film_in_which_nothing_is_found_has_a_picture():
    frame = thumbnail(np.full((48, 64, 3), 99, np.uint8))
    moments = [
        Moment(
            stamp=stamp / 10,
            frame=frame,
            view=None,
            truth=np.eye(3),
            error=None,
            hidden=False,
            wrong=False,
        )
        for stamp in range(9)
    ]
    shown = draw_film('film', SQUARE, moments, {0: None})
    assert shown.shape[1] == 4 * 320 + 3 * 4


def test_the_chart_shows_when_it_was_tracked_and_how_far_off():
    frame = thumbnail(np.full((48, 64, 3), 99, np.uint8))

    def moment(number):
        tracked, hidden, wrong = number < 50, 60 <= number < 80, number == 30
        error = (8.0 if wrong else 2.0) if tracked else None
        view = np.eye(3) if tracked else None
        return Moment(
            stamp=number / 10,
            frame=frame,
            view=view,
            truth=np.eye(3),
            error=error,
            hidden=hidden,
            wrong=wrong,
        )

    chart = draw_chart(1292, [moment(number) for number in range(100)], {10: 4.0})

    def columns(colour, rows=slice(None)):
        found = (np.abs(chart[rows].astype(int) - colour).max(axis=2) < 8).any(axis=0)
        return np.flatnonzero(found)

    blue, yellow = columns(BLUE), columns((240, 228, 66))
    strip = slice(int(np.argmax((chart == BLUE).all(axis=2).sum(axis=1))), None)
    hidden = columns(SLATE, slice(16, 18))  # above all lines of the grid
    whole = columns(SLATE, strip)[-1] - blue[0]
    assert np.ptp(blue) == pytest.approx(0.505 * whole, rel=0.02)
    assert np.ptp(hidden) == pytest.approx(0.2 * whole, rel=0.05)
    assert hidden[0] - blue[0] == pytest.approx(0.606 * whole, rel=0.02)
    assert yellow.mean() - blue[0] == pytest.approx(0.101 * whole, abs=3)

    def height(colour, around, size=6):
        left = round(blue[0] + around * whole)
        part = chart[: strip.start - 8, left - size : left + size].astype(int)
        return np.flatnonzero((np.abs(part - colour).max(axis=2) < 8).any(axis=1)).mean()

    # 2, 4 and 8 pixels of error.
    right, ring, wrong = (
        height(WHITE, 0.2525),
        height((240, 228, 66), 0.101),
        height(VERMILLION, 0.303),
    )
    assert (ring - wrong) / (right - ring) == pytest.approx(2, abs=0.15)


# Data


def test_without_data_there_are_the_films_of_the_virtual_camera(tmp_path):
    benchmark = TrackingBenchmark(tmp_path, 0)
    cases = benchmark.cases()
    assert {case.group for case in cases} == {'camera', 'occlusion', 'cut', 'relief'}
    assert len({case.name for case in cases}) == len(cases) == 5 * len(tracking.PHOTOS)
    assert benchmark.missing() == ['video/box', 'video/kitchen7scenes']


def test_videos_are_played_where_they_are(tmp_path):
    write_films(tmp_path / 'video')
    benchmark = TrackingBenchmark(tmp_path, 0)
    assert benchmark.missing() == []
    cases = {case.name: case for case in benchmark.cases() if case.group in ('box', 'kitchen')}
    assert list(cases) == ['box/top', 'box/front', 'kitchen/table', 'kitchen/wall']
    reference = benchmark.reference(cases['box/top'])
    first = next(benchmark.film(cases['box/top']))
    assert reference.pixels.shape == (320, 480, 3)
    # A corner of the part, and the middle of its upper edge.
    for (x, y), (column, row) in (((0, 0), (351, 26)), ((479, 0), (592, 68))):
        np.testing.assert_allclose(reference.pixels[y, x], first.image[row, column], atol=1)
    shots = list(benchmark.film(cases['kitchen/wall']))
    assert [shot.stamp for shot in shots] == pytest.approx([0, 1 / 3, 2 / 3])
    (tmp_path / 'video/box/box.mp4').unlink()
    assert benchmark.missing() == ['video/box']


def test_in_a_video_the_full_match_is_the_truth(tmp_path, monkeypatch):
    write_films(tmp_path / 'video')
    benchmark = TrackingBenchmark(tmp_path, 0)
    (case,) = (case for case in benchmark.cases() if case.name == 'box/top')
    corners = np.array(case.corners, np.float32)
    straight = Box(0, 0, *case.size).corners().astype(np.float32)
    at_first = cv2.getPerspectiveTransform(straight, corners)

    class OfStandingCamera(TwoPixelsOff):
        def full_match(self, shot, copy=''):
            return moved(1 if copy else 0) @ at_first

    monkeypatch.setattr(tracking, 'FilmPlayer', OfStandingCamera)
    measured = benchmark.measure(case, DEFAULT, None)
    # It is tracked from 1.5 s on, and compared at 2 s; nothing moves.
    ((tracked_error, full_error),) = measured['compared']
    assert tracked_error < 0.1
    assert full_error == pytest.approx(1)
    assert measured['tracked_errors'] == [tracked_error]
    assert measured['claims'] == measured['expected'] == 1
    assert measured['lost'] == 0


def test_what_says_nothing_of_its_confidence_is_refused(tmp_path, capsys):
    words = ['eval', 'tracking', '--data', str(tmp_path), '--methods', 'sift', '--jobs', '1']
    assert main(words) == 1
    assert 'tracking cannot be measured for sift' in capsys.readouterr().err


def test_it_runs_without_data_and_says_what_was_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('NIOM_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setitem(tracking.SECONDS, 'camera', 3.0)
    every = TrackingBenchmark.find_cases
    monkeypatch.setattr(
        TrackingBenchmark,
        'find_cases',
        lambda self: [case for case in every(self) if case.name == 'camera/coffee'],
    )
    words = ['--methods', 'plain', '--max-keypoints', '512', '--jobs', '1', '--device', 'cpu']
    file, page = tmp_path / 'tracking.json', tmp_path / 'page'
    assert main(['eval', 'tracking', *words, '--json', str(file), '--report', str(page)]) == 0
    assert 'tracking: there is no video/box in .' in capsys.readouterr().err
    result = json.loads(file.read_text())
    assert result['missing'] == ['video/box', 'video/kitchen7scenes']
    metrics = result['methods']['plain']
    assert metrics['tracked_error'] < 3
    assert metrics['tracked_minus_full'] < 1.5
    assert metrics['wrong_claims'] == metrics['lost'] == 0
    (picture,) = (page / 'pictures').glob('*.jpg')
    shown = cv2.imread(str(picture))
    assert shown.shape[1] == 4 * 320 + 3 * 4
    assert shown.std() > 30
