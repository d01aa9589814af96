"""Tracking in scenes with known ground truth: its accuracy, and when it must stop."""

from dataclasses import dataclass, replace
from threading import Thread

import cv2
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.images.decoding import ImageError
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import corner_error, jacobian, Status, Verdict
from niom_ros.simulation.virtual_scene import example_photo, View, VirtualScene
from niom_ros.tracking.appearance import Appearance
from niom_ros.tracking.corners import choose_corners, CornerParameters
from niom_ros.tracking.frames import grey_frame, History, HistoryParameters, shrinking
from niom_ros.tracking.patches import jacobians_at, Patches
from niom_ros.tracking.track import FullMatch, Track, TrackingParameters, why_too_sudden
from niom_ros.tracking.tracker import Tracker, TrackerParameters

RATE = 30  # frames per second
COFFEE = Box(0, 0, 600, 400)
SURE = 0.96
MAX_DRIFT = TrackingParameters().max_drift


@dataclass(frozen=True)
class Approaching(VirtualScene):
    """A camera that comes three times as close in a second."""

    def pose(self, seconds):
        rotation, _ = super().pose(0)
        return rotation, np.array([0, 0, 2.4 * 3.0**-seconds])


@pytest.fixture(scope='module')
def views(scene):
    return [scene.view(frame / RATE, frame) for frame in range(60)]


def match_of(view, frame, moved=(0, 0), revision=0, image=None):
    """Return a full match of a view that is right except for a shift of some pixels."""
    grid = np.stack(np.meshgrid(np.linspace(20, 580, 9), np.linspace(20, 380, 7)), axis=-1)
    reference_points = grid.reshape(-1, 2)
    shift = np.array([[1, 0, moved[0]], [0, 1, moved[1]], [0, 0, 1]])
    reference_to_image = shift @ view.picture_to_image
    correspondences = Correspondences(
        reference_points.astype(np.float32),
        warp_points(reference_to_image, reference_points).astype(np.float32),
        np.ones(len(reference_points), np.float32),
    )
    agreeing = np.ones(len(reference_points), bool)
    verdict = Verdict(Status.OK, 'found', agreeing, reference_to_image, SURE)
    image = view.image if image is None else image
    return FullMatch(
        stamp=frame / RATE,
        image=image,
        verdict=verdict,
        correspondences=correspondences,
        reference_box=COFFEE,
        counting_area=COFFEE.area,
        revision=revision,
    )


def follow_all(tracker, images, first=0):
    return [tracker.follow(image, frame / RATE) for frame, image in enumerate(images, start=first)]


def error_of(tracked, view):
    assert tracked.found, tracked.verdict.message
    return corner_error(tracked.verdict.reference_to_image, view.picture_to_image, COFFEE)


def images_of(views):
    return [view.image for view in views]


def covered(view, from_share, to_share):
    """Lay another photo over a part of the picture, between two shares of its width."""
    cover = example_photo('astronaut')
    height, width = cover.shape[:2]
    left, right = 600 * from_share, 600 * to_share
    place = warp_points(
        view.picture_to_image, np.array([[left, -30], [right, -30], [right, 430], [left, 430]])
    )
    onto = cv2.getPerspectiveTransform(
        np.float32([[0, 0], [width, 0], [width, height], [0, height]]), place.astype(np.float32)
    )
    size = view.image.shape[1::-1]
    return cv2.warpPerspective(
        cover, onto, size, dst=view.image.copy(), borderMode=cv2.BORDER_TRANSPARENT
    )


def assert_lost(tracked):
    assert not tracked.found
    assert tracked.verdict.reference_to_image is None
    assert tracked.verdict.confidence < 0.5
    assert len(tracked.verdict.message) > 10


# Frames


def test_shrinking_by_hand():
    # Two pixels become one: its centre is where they meet.
    halved = shrinking((1280, 720), (640, 360))
    assert warp_points(halved, np.array([[0.5, 0.5], [2.5, 4.5]])).tolist() == [[0, 0], [1, 2]]
    assert shrinking((640, 480), (640, 480)).tolist() == np.eye(3).tolist()


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_the_edges_of_an_image_and_of_its_smaller_copy_fall_together(width, height):
    longest = max(width, height)
    small = (max(1, width * 640 // longest), max(1, height * 640 // longest))
    edges = np.array([[-0.5, -0.5], [width - 0.5, height - 0.5]])
    expected = [[-0.5, -0.5], [small[0] - 0.5, small[1] - 0.5]]
    assert warp_points(shrinking((width, height), small), edges) == pytest.approx(
        np.array(expected)
    )


@pytest.mark.parametrize(
    ('size', 'small'),
    [
        ((640, 480), (640, 480)),
        ((1280, 720), (640, 360)),
        ((90, 160), (90, 160)),
        ((1, 1), (1, 1)),
    ],
)
def test_sizes_of_frames(size, small):
    frame = grey_frame(np.zeros((size[1], size[0], 3), np.uint8), 0.0)
    assert frame.size == small
    assert frame.image_size == size


@pytest.mark.parametrize(
    'image',
    [
        np.zeros((48, 64), np.uint8),
        np.zeros((48, 64, 4), np.uint8),
        np.zeros((48, 64, 3), np.float32),
        np.zeros((0, 64, 3), np.uint8),
    ],
)
def test_what_is_no_rgb_image_is_refused(image):
    with pytest.raises(ImageError, match='RGB'):
        Tracker().follow(image, 0.0)


@pytest.mark.parametrize('stamp', [np.nan, np.inf])
def test_what_is_no_time_is_refused(stamp):
    with pytest.raises(ValueError, match='seconds'):
        Tracker().follow(np.zeros((48, 64, 3), np.uint8), stamp)


def test_a_history_is_bounded_thinned_and_without_gaps():
    parameters = HistoryParameters(max_frames=20)
    history = History(parameters)
    blank = np.zeros((8, 8, 3), np.uint8)
    for frame in range(1000):
        history.add(grey_frame(blank, frame / RATE))
        assert len(history) <= 20
    stamps = np.array([frame.stamp for frame in history.after(-1)])
    assert stamps[-1] == 999 / RATE
    assert stamps[0] > 999 / RATE - parameters.max_seconds - 0.1
    # 300 frames on 20 places: none is more than four times the fair share away from the next.
    assert (np.diff(stamps) > 0).all()
    assert np.diff(stamps).max() < 4 * parameters.max_seconds / 20
    history.forget_until(stamps[-2])
    assert len(history) == 1


# Points


def test_corners_are_chosen_and_not_points_along_lines():
    image = np.full((240, 320, 3), 200, np.uint8)
    cv2.rectangle(image, (60, 50), (240, 180), (0, 0, 0), 3)
    area = np.array([[20, 20], [300, 20], [300, 220], [20, 220]])
    corners = choose_corners(grey_frame(image, 0.0), area)
    vertices = np.array([[60, 50], [240, 50], [240, 180], [60, 180]])
    distances = np.linalg.norm(corners[:, None] - vertices, axis=2)
    assert distances.min(axis=1).max() < 6  # each is at a vertex
    assert distances.min(axis=0).max() < 5  # each vertex has one


def test_corners_are_spread_over_the_area_and_stay_in_it(scene):
    frame = grey_frame(scene.view(0, 0).image, 0.0)
    area = np.array([[200, 150], [440, 150], [440, 330], [200, 330]])
    corners = choose_corners(frame, area)
    most = CornerParameters().max_corners
    assert most / 2 < len(corners) <= most
    assert (corners >= (200, 150)).all() and (corners <= (440, 330)).all()
    quarters = (corners > area.mean(axis=0)) @ [1, 2]
    assert np.bincount(quarters, minlength=4).min() > len(corners) / 10
    assert len(choose_corners(frame, area + 5000)) == 0
    assert len(choose_corners(frame, area, CornerParameters(max_corners=30))) == 30


@pytest.mark.parametrize(('gain', 'bias'), [(1.0, 0), (0.5, 20), (1.4, -30)])
def test_patches_find_a_shift_whatever_the_light(coffee, gain, bias):
    photo = coffee.astype(np.float32)
    shift = np.array([[1, 0, 1.3], [0, 1, -0.8], [0, 0, 1]])
    moved = cv2.warpPerspective(photo, shift, (600, 400), borderMode=cv2.BORDER_REPLICATE)
    first = grey_frame((0.7 * photo).astype(np.uint8), 0.0)
    second = grey_frame((0.7 * gain * moved + bias).clip(0, 255).astype(np.uint8), 1.0)
    corners = choose_corners(first, COFFEE.corners())
    aligned = Patches(first, corners).align(second, np.eye(3))
    offsets = aligned.points - corners
    assert np.median(offsets, axis=0) == pytest.approx([1.3, -0.8], abs=0.05)
    assert np.median(aligned.correlations) > 0.95


def test_jacobians_are_those_of_the_geometry(scene):
    homography = scene.picture_to_image(1.0)
    points = np.array([[0, 0], [599, 0], [100, 300]], np.float64)
    expected = [jacobian(homography, point) for point in points]
    assert jacobians_at(homography, points) == pytest.approx(np.array(expected))


def test_appearance_ignores_light_and_notices_another_picture(coffee):
    def look(picture):
        return grey_frame(picture.astype(np.uint8), 0.0)

    appearance = Appearance(look(coffee), np.eye(3), COFFEE)
    slope = np.linspace(0.3, 0.9, 600)[None, :, None]
    half = coffee.copy()
    half[:, :300] = cv2.resize(example_photo('astronaut'), (300, 400))
    other = cv2.resize(example_photo('astronaut'), (600, 400))
    assert appearance.share_alike(look(coffee), np.eye(3)) == 1
    assert appearance.share_alike(look(coffee * slope), np.eye(3)) == 1
    assert appearance.share_alike(look(other), np.eye(3)) < 0.3
    assert 0.3 < appearance.share_alike(look(half), np.eye(3)) < 0.8


def test_a_plain_picture_has_no_appearance():
    plain = grey_frame(np.full((400, 600, 3), 90, np.uint8), 0.0)
    assert np.isnan(Appearance(plain, np.eye(3), COFFEE).share_alike(plain, np.eye(3)))


def test_an_outline_may_move_fast_but_not_change_at_once():
    outline = COFFEE.corners()
    larger = 1.5 * (outline - outline.mean(axis=0)) + outline.mean(axis=0)
    assert why_too_sudden(outline, outline + 200, 0.03) == ''
    assert 'too suddenly' in why_too_sudden(outline, larger, 0.03)
    assert why_too_sudden(outline, larger, 0.3) == ''  # ten frames were missing


# Tracking


def test_tracked_frames_are_as_exact_as_the_full_match(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0, revision=1))
    answers = follow_all(tracker, images_of(views[1:]), first=1)
    errors = [error_of(*pair) for pair in zip(answers, views[1:], strict=True)]
    assert max(errors) < 0.3
    last = answers[-1]
    assert (last.revision, last.matched_stamp, last.age) == (1, 0, 59 / RATE)
    agreeing = last.verdict.inliers
    assert len(agreeing) == len(last.correspondences)
    offsets = (
        warp_points(last.verdict.reference_to_image, last.correspondences.reference_points)
        - last.correspondences.image_points
    )
    assert np.linalg.norm(offsets[agreeing], axis=1).max() < 2


def test_a_larger_image_is_tracked_in_its_own_pixels(coffee):
    scene = VirtualScene(coffee, example_photo('gravel'), 1280, 720)
    tracker = Tracker()
    tracker.matched(match_of(scene.view(0, 0), 0))
    for frame in range(1, 8):
        view = scene.view(frame / RATE, frame)
        assert error_of(tracker.follow(view.image, frame / RATE), view) < 0.4


def test_the_same_frames_give_the_same_answers(views):
    answers = []
    for _ in range(2):
        tracker = Tracker()
        tracker.matched(match_of(views[0], 0))
        answers.append(follow_all(tracker, images_of(views[1:8]), first=1))
    for one, other in zip(*answers, strict=True):
        assert np.array_equal(one.verdict.reference_to_image, other.verdict.reference_to_image)
        assert one.verdict.confidence == other.verdict.confidence


def test_confidence_falls_with_age_and_with_what_is_hidden(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    answers = follow_all(tracker, images_of(views[1:30]), first=1)
    confidences = [answer.verdict.confidence for answer in answers]
    assert SURE > confidences[0] > confidences[-1] > 0.5
    hidden = tracker.follow(covered(views[30], 0, 0.5), 1.0)
    assert 0.5 <= hidden.verdict.confidence < confidences[-1] - 0.02


def test_a_lamp_that_is_switched_off_does_not_matter(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    for frame in range(1, 20):
        image = views[frame].image
        if frame % 8 < 4:
            image = (0.4 * image + 5).astype(np.uint8)
        assert error_of(tracker.follow(image, frame / RATE), views[frame]) < 0.5


def test_a_part_that_is_covered_for_a_while_does_not_matter(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    for frame in range(1, 30):
        image = covered(views[frame], 0.1, 0.48) if 5 <= frame < 25 else views[frame].image
        assert error_of(tracker.follow(image, frame / RATE), views[frame]) < 1


def test_a_full_cover_is_noticed_and_a_short_one_ends_by_itself(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    follow_all(tracker, images_of(views[1:10]), first=1)
    for frame in range(10, 16):
        assert_lost(tracker.follow(covered(views[frame], -0.1, 1.1), frame / RATE))
    assert error_of(tracker.follow(views[16].image, 16 / RATE), views[16]) < 0.3


def test_a_long_cover_ends_with_a_full_match(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    follow_all(tracker, images_of(views[1:4]), first=1)
    for frame in range(4, 34):
        assert_lost(tracker.follow(covered(views[frame], -0.1, 1.1), frame / RATE))
    follow_all(tracker, images_of(views[34:50]), first=34)
    assert_lost(tracker.follow(views[50].image, 50 / RATE))
    answer = tracker.matched(match_of(views[40], 40))
    assert answer.stamp == 50 / RATE
    assert error_of(answer, views[50]) < 0.3
    assert error_of(tracker.follow(views[51].image, 51 / RATE), views[51]) < 0.3


@pytest.mark.parametrize('photo', ['astronaut', 'chelsea', 'gravel', 'brick', None])
def test_a_cut_is_noticed_and_never_answered(views, photo):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    follow_all(tracker, images_of(views[1:5]), first=1)
    other = np.zeros((480, 640, 3), np.uint8)
    if photo is not None:
        other = cv2.resize(example_photo(photo), (640, 480))
    for frame in range(5, 12):
        assert_lost(tracker.follow(other, frame / RATE))


def test_what_leaves_the_view_is_lost(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    answers = []
    for frame in range(1, 22):
        away = np.float32([[1, 0, 30 * frame], [0, 1, 0]])
        image = cv2.warpAffine(views[frame].image, away, (640, 480))
        answers.append(tracker.follow(image, frame / RATE))
    truth = View(image, np.vstack([[1, 0, 150], [0, 1, 0], [0, 0, 1]]) @ views[5].picture_to_image)
    assert error_of(answers[4], truth) < 1
    assert_lost(answers[-1])


def test_another_view_is_compared_with_a_newer_frame_and_the_drift_is_known(coffee):
    scene = Approaching(coffee, example_photo('gravel'))
    track = Track(match_of(scene.view(0, 0), 0))
    assert track.drift == 0
    for frame in range(1, RATE + 1):
        view = scene.view(frame / RATE, frame)
        answer = track.follow(grey_frame(view.image, frame / RATE))
        assert error_of(answer, view) < MAX_DRIFT
    assert 0 < track.drift <= MAX_DRIFT
    # After a second, 97 % of the confidence above 0.5 are left, and less here.
    assert answer.verdict.confidence < 0.5 + 0.9 * (SURE - 0.5)


def test_no_newer_frame_is_compared_with_once_the_drift_is_too_large(coffee):
    scene = Approaching(coffee, example_photo('gravel'))
    track = Track(match_of(scene.view(0, 0), 0), parameters=TrackingParameters(max_drift=0.1))
    for frame in range(1, RATE):
        track.follow(grey_frame(scene.view(frame / RATE, frame).image, frame / RATE))
    assert track.drift == 0


def test_points_that_agree_in_a_picture_that_looks_different_are_not_believed(views, monkeypatch):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    assert tracker.follow(views[1].image, 1 / RATE).found
    monkeypatch.setattr(Appearance, 'share_alike', lambda *_: 0.25)
    answer = tracker.follow(views[2].image, 2 / RATE)
    assert_lost(answer)
    assert 'only 25% of the reference still looks as in the full match' in answer.verdict.message


def test_only_the_part_that_the_full_match_saw_is_followed(views):
    match = match_of(views[0], 0)
    left = match.correspondences.reference_points[:, 0] < 300
    match = replace(match, verdict=replace(match.verdict, inliers=left))
    tracker = Tracker()
    tracker.matched(match)
    answer = tracker.follow(views[1].image, 1 / RATE)
    assert answer.found
    assert answer.correspondences.reference_points[:, 0].max() < 400


# Full matches


def test_nothing_is_known_before_the_first_full_match(views):
    tracker = Tracker()
    answer = tracker.follow(views[0].image, 0.0)
    assert_lost(answer)
    assert 'no full match' in answer.verdict.message
    tracker.not_found(0.0)
    assert_lost(tracker.follow(views[1].image, 1 / RATE))


def test_a_full_match_of_an_earlier_frame_catches_up(views):
    tracker = Tracker()
    follow_all(tracker, images_of(views[:59]))
    answer = tracker.matched(match_of(views[3], 3))
    assert (answer.stamp, answer.matched_stamp) == (58 / RATE, 3 / RATE)
    assert error_of(answer, views[58]) < 0.3
    assert error_of(tracker.follow(views[59].image, 59 / RATE), views[59]) < 0.3


def test_catching_up_goes_step_by_step_where_a_leap_is_too_far(coffee):
    scene = Approaching(coffee, example_photo('gravel'))
    views = [scene.view(frame / RATE, frame) for frame in range(RATE)]
    tracker = Tracker()
    follow_all(tracker, images_of(views))
    assert error_of(tracker.matched(match_of(views[0], 0)), views[-1]) < MAX_DRIFT


def test_a_leap_is_as_exact_as_small_steps_or_is_not_made(scene):
    slow = [scene.view(frame / 10, frame) for frame in range(40)]
    errors = []
    for start in range(0, 25, 3):
        for gap in (6, 9, 12, 15):
            track = Track(match_of(slow[start], 3 * start))
            later = start + gap
            if track.leap(grey_frame(slow[later].image, later / 10)):
                errors.append(error_of(track.newest, slow[later]))
    assert len(errors) > 20
    assert max(errors) < 2


def test_a_full_match_from_before_a_cut_is_not_carried_over_it(views):
    tracker = Tracker()
    cat = cv2.resize(example_photo('chelsea'), (640, 480))
    follow_all(tracker, [*images_of(views[:10]), *[cat] * 10])
    assert_lost(tracker.matched(match_of(views[5], 5)))
    assert_lost(tracker.follow(cat, 20 / RATE))


@pytest.mark.parametrize('moved', [(4, -3), (90, 60)])
def test_a_full_match_corrects_a_track_that_is_off(views, moved):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0, moved=moved))
    off = follow_all(tracker, images_of(views[1:40]), first=1)[-1]
    assert not off.found or error_of(off, views[39]) > 3
    answer = tracker.matched(match_of(views[20], 20))
    assert error_of(answer, views[39]) < 0.3
    assert answer.matched_stamp == 20 / RATE


BLANK = np.full((480, 640, 3), 90, np.uint8)  # in which nothing can be tracked


def following(views, **fields):
    """Return a tracker that has tracked from the first frame to number 19."""
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0, **fields))
    follow_all(tracker, images_of(views[1:20]), first=1)
    return tracker


def test_a_full_match_that_cannot_be_carried_on_confirms_the_track(views):
    tracker = following(views)
    tracker.matched(match_of(views[10], 10, image=BLANK))
    answer = tracker.follow(views[20].image, 20 / RATE)
    assert error_of(answer, views[20]) < 0.3
    assert answer.matched_stamp == 10 / RATE


def test_a_full_match_that_contradicts_and_cannot_be_carried_on_ends_the_track(views):
    tracker = following(views)
    assert_lost(tracker.matched(match_of(views[10], 10, moved=(80, 0), image=BLANK)))
    assert_lost(tracker.follow(views[20].image, 20 / RATE))


def test_a_full_match_of_another_reference_does_not_confirm_the_track(views):
    tracker = following(views, revision=1)
    assert_lost(tracker.matched(match_of(views[10], 10, revision=2, image=BLANK)))


def test_a_full_match_is_dropped_if_all_is_forgotten_while_it_catches_up(views, monkeypatch):
    tracker = Tracker()
    follow_all(tracker, images_of(views[:10]))
    monkeypatch.setattr(
        'niom_ros.tracking.tracker.catch_up',
        lambda *_, **__: tracker.forget('another one is sought'),
    )
    answer = tracker.matched(match_of(views[2], 2))
    assert_lost(answer)
    assert answer.verdict.message == 'another one is sought'


def test_an_older_full_match_changes_nothing(views):
    tracker = Tracker()
    follow_all(tracker, images_of(views[:10]))
    tracker.matched(match_of(views[8], 8))
    answer = tracker.matched(match_of(views[2], 2, moved=(50, 0)))
    assert answer.matched_stamp == 8 / RATE
    assert error_of(answer, views[9]) < 0.3


def test_another_reference_takes_over(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0, revision=1))
    follow_all(tracker, images_of(views[1:10]), first=1)
    assert tracker.matched(match_of(views[5], 5, revision=2)).revision == 2


def test_three_full_matches_that_find_nothing_end_the_track(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    for frame in range(1, 10):
        answer = tracker.follow(views[frame].image, frame / RATE)
        if frame in (3, 5):
            tracker.not_found(frame / RATE)
        assert answer.found
    tracker.not_found(9 / RATE)
    lost = tracker.follow(views[10].image, 10 / RATE)
    assert_lost(lost)
    assert '3 full matches in a row' in lost.verdict.message


def test_parameters_reach_the_tracks_of_a_tracker(views):
    strict = TrackingParameters(min_points=1000)
    tracker = Tracker(TrackerParameters(max_misses=1, tracking=strict))
    tracker.matched(match_of(views[0], 0))
    lost = tracker.follow(views[1].image, 1 / RATE)
    assert_lost(lost)
    assert '1000 are needed' in lost.verdict.message
    tracker.not_found(1 / RATE)
    lost = tracker.follow(views[2].image, 2 / RATE)
    assert '1 full matches in a row' in lost.verdict.message


def test_a_full_match_that_finds_it_starts_the_count_again(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    for frame in range(1, 12):
        tracker.follow(views[frame].image, frame / RATE)
        if frame == 6:
            tracker.matched(match_of(views[frame], frame))
        elif frame in (3, 4, 8, 9):
            tracker.not_found(frame / RATE)
    assert tracker.follow(views[12].image, 12 / RATE).found


def test_full_matches_that_find_nothing_for_seconds_end_the_track(views):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    for second in range(1, 8):
        answer = tracker.follow(views[second].image, second)
        assert answer.found == (second < 7)
        if second in (1, 6):
            tracker.not_found(second)


def test_only_a_full_match_that_found_something_can_be_followed(views):
    match = match_of(views[0], 0)
    refused = Verdict(Status.LOW_CONFIDENCE, 'not sure', match.verdict.inliers)
    with pytest.raises(ValueError, match='status OK'):
        replace(match, verdict=refused)
    broken = replace(match.verdict, reference_to_image=np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match='numbers'):
        replace(match, verdict=broken)


@pytest.mark.parametrize('change', ['time', 'size', 'forget'])
def test_a_new_beginning_forgets_what_was_before(views, change):
    tracker = Tracker()
    tracker.matched(match_of(views[0], 0))
    assert tracker.follow(views[1].image, 1 / RATE).found
    image, frame, reason = views[2].image, 2, 'another picture is sought'
    if change == 'time':
        frame, reason = 0, 'the stamps went back'
    elif change == 'size':
        image, reason = cv2.resize(image, (320, 240)), 'size changed'
    else:
        tracker.forget(reason)
    answer = tracker.follow(image, frame / RATE)
    assert_lost(answer)
    assert reason in answer.verdict.message
    assert np.isnan(answer.matched_stamp)


def test_frames_are_followed_while_a_full_match_catches_up(views):
    tracker = Tracker()
    follow_all(tracker, images_of(views[:40]))
    matching = Thread(target=tracker.matched, args=(match_of(views[2], 2),))
    matching.start()
    answers = follow_all(tracker, images_of(views[40:50]), first=40)
    matching.join()
    answers += follow_all(tracker, images_of(views[50:52]), first=50)
    for frame, answer in enumerate(answers, start=40):
        assert not answer.found or error_of(answer, views[frame]) < 0.3
    assert answers[-1].found


@pytest.mark.parametrize('demanded', [0.0, 0.95])
def test_as_many_points_of_a_track_must_agree_as_of_full_matches(views, demanded):
    tracker = Tracker()
    tracker.limits = Limits(min_inlier_ratio=demanded)
    tracker.matched(match_of(views[0], 0))
    answer = tracker.follow(covered(views[1], 0.7, 1.0), 1 / RATE)
    if not demanded:
        assert answer.found and answer.verdict.inliers.mean() < 0.95
        return
    assert_lost(answer)
    assert '95% of them are needed' in answer.verdict.message


def test_a_track_must_be_as_sure_as_full_matches_must(views):
    tracker = Tracker()
    tracker.limits = Limits(min_confidence=SURE - 0.05)
    tracker.matched(match_of(views[0], 0))
    soon = tracker.follow(views[1].image, 1 / RATE)
    assert soon.found and soon.verdict.confidence >= SURE - 0.05
    late = tracker.follow(views[2].image, 60.0)
    assert_lost(late)
    assert f'{SURE - 0.05:.2f} is needed' in late.verdict.message
