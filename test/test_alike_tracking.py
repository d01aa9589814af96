"""Tracking objects that are only alike: where their points go, and when they are given up."""

from dataclasses import replace
import math
import time
from types import SimpleNamespace

from alike_pictures import CLOCK_MARKS, CLOCK_PLACE, CLOCK_SIDE, on_the_wall, picture, wall
import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits, Settings, StreamOptions
from niom_ros.matching.alike_object import AlikeObject, GuidePoints, Warp
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Landmark, Reference
from niom_ros.messages.results import (
    FrameInfo,
    homography_message,
    landmarks_message,
    match_message,
    SEMANTIC,
    TRACKED,
)
from niom_ros.references.known_reference import KnownReference
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import Scene
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.frame import Frame
from niom_ros.stream.stream import Stream
from niom_ros.tracking.alike_motion import affine_at, AlikeMotion
from niom_ros.tracking.alike_track import AlikeMatch
from niom_ros.tracking.frames import grey_frame
from niom_ros.tracking.local_motion import LocalMotion
from niom_ros.tracking.track import FullMatch, TrackingParameters
from niom_ros.tracking.tracker import Tracker

RATE = 30  # frames per second
SURE = 0.8
MARKS = np.array(list(CLOCK_MARKS.values()))
LANDMARKS = tuple(Landmark(name, x, y) for name, (x, y) in CLOCK_MARKS.items())
AROUND_CLOCK = Area(329.5, 109.5, 549.5, 329.5)
MIDDLE = np.array([440.0, 220.0])
BLANK = np.full((480, 640, 3), 128, np.uint8)
STILL = np.eye(3)


def motion(degrees=0.0, zoom=1.0, right=0.0, down=0.0):
    """Return a motion of the whole image around the clock."""
    turn = np.deg2rad(degrees)
    linear = zoom * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shift = MIDDLE - linear @ MIDDLE + np.array([right, down])
    return np.vstack([np.column_stack([linear, shift]), [0, 0, 1]])


def seen(moved=STILL, seed=0, base=None):
    """Return what a camera sees of the wall after it moved, with sensor noise."""
    base = wall() if base is None else base
    image = cv2.warpPerspective(base, moved, (640, 480), borderMode=cv2.BORDER_REFLECT)
    noise = np.random.default_rng(seed).normal(0, 3, image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8)


def grid_over(box):
    shares = (np.arange(12) + 0.5) / 12
    x, y = np.meshgrid(box.left + shares * box.width, box.top + shares * box.height)
    return np.column_stack([x.ravel(), y.ravel()])


def alike_in(box, reference_points, image_points, marks, warp=STILL):
    """Return what a full match knows that found these points, those close to the middle surely."""
    middle = image_points.mean(axis=0)
    near = np.linalg.norm(image_points - middle, axis=1) < 0.45 * box.width
    order = np.argsort(~near, kind='stable')
    scores = np.where(near, 0.8, 0.2)[order].astype(np.float32)
    points = Correspondences(
        reference_points[order].astype(np.float32), image_points[order].astype(np.float32), scores
    )
    guides = GuidePoints(marks, np.full(len(marks), 10.0), np.full(len(marks), 0.8))
    alike = AlikeObject(SURE, box, guides, Warp(warp, 8.0), size=box.width)
    verdict = Verdict(Status.ALIKE, 'alike', near[order], confidence=SURE)
    return Match(verdict, points, alike=alike)


def clock_in(moved=STILL):
    """Return a full match that found the clock where it is after a motion."""
    reference_points = grid_over(Area(-0.5, -0.5, 319.5, 319.5))
    box = AROUND_CLOCK
    corners = np.array([[box.left, box.top], [box.right, box.bottom]])
    corners = warp_points(moved, corners)
    scale = CLOCK_SIDE / 240
    onto_wall = np.array([[scale, 0, 0], [0, scale, 0], [0, 0, 1.0]])
    onto_wall[:2, 2] = np.array(CLOCK_PLACE) - 40 * scale
    return alike_in(
        Area(*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()),
        reference_points,
        warp_points(moved, on_the_wall(reference_points)),
        warp_points(moved, on_the_wall(MARKS)),
        moved @ onto_wall,
    )


def as_alike(match, image, stamp, revision=1):
    return AlikeMatch(
        stamp=stamp,
        image=image,
        verdict=match.verdict,
        correspondences=match.correspondences,
        alike=match.alike,
        revision=revision,
    )


def as_very(image, stamp, moved=STILL, revision=1):
    """Return a full match that found the very clock: the image itself is the reference."""
    points = grid_over(AROUND_CLOCK).astype(np.float32)
    every = np.ones(len(points), bool)
    found = warp_points(moved, points).astype(np.float32)
    return FullMatch(
        stamp=stamp,
        image=image,
        verdict=Verdict(Status.OK, 'found', every, moved, 0.95),
        correspondences=Correspondences(points, found, np.ones(len(points), np.float32)),
        reference_box=Box(330, 110, 220, 220),
        counting_area=220 * 220,
        revision=revision,
    )


def locked(revision=1):
    """Return a tracker that has seen a full match of the still clock at time 0."""
    tracker = Tracker()
    tracker.matched(as_alike(clock_in(), seen(), 0.0, revision))
    return tracker


def follow_still(tracker, frames, first=1):
    return [tracker.follow(seen(seed=n), n / RATE) for n in range(first, first + frames)]


def error_of(tracked, moved=STILL):
    """Return the largest error of a landmark, in pixels."""
    assert tracked.located, tracked.verdict.message
    places = tracked.alike.landmarks.places
    return np.linalg.norm(places - warp_points(moved, on_the_wall(MARKS)), axis=1).max()


def assert_lost(tracked, reason):
    assert not tracked.located and not tracked.found
    assert tracked.alike is None and tracked.view is None
    assert tracked.verdict.reference_to_image is None
    assert tracked.verdict.confidence < 0.5
    assert len(tracked.correspondences) == len(tracked.verdict.inliers) == 0
    assert reason in tracked.verdict.message


# Where the points go


@pytest.mark.parametrize(
    'most',
    [
        {'right': 70, 'down': -40},
        {'zoom': 1.6},
        {'zoom': 0.6},
        {'degrees': 35},
        {'degrees': -15, 'zoom': 1.2, 'right': -50},
    ],
)
def test_points_follow_whatever_the_camera_does(most):
    tracker = locked()
    for number in range(1, 31):
        share = number / 30
        part = {name: value * share for name, value in most.items() if name != 'zoom'}
        moved = motion(zoom=most.get('zoom', 1.0) ** share, **part)
        tracked = tracker.follow(seen(moved, number), number / RATE)
        assert error_of(tracked, moved) < 1.5
    points = tracked.correspondences
    expected = warp_points(moved, on_the_wall(points.reference_points))
    assert np.linalg.norm(points.image_points - expected, axis=1).max() < 2
    middle = np.array([[160.0, 160.0]])
    assert warp_points(tracked.alike.warp.matrix, middle)[0] == pytest.approx(
        warp_points(moved, on_the_wall(middle))[0], abs=1.5
    )
    corners = warp_points(moved, AROUND_CLOCK.corners())
    lowest, highest = corners.min(axis=0).clip(-0.5), corners.max(axis=0)
    box = tracked.alike.box
    assert [box.left, box.top] == pytest.approx(lowest, abs=3)
    assert [box.right, box.bottom] == pytest.approx(np.minimum(highest, (639.5, 479.5)), abs=3)


def test_a_tracked_object_is_alike_and_has_no_homography():
    tracked = follow_still(locked(revision=7), 3)[-1]
    verdict, points = tracked.verdict, tracked.correspondences
    assert verdict.status is Status.ALIKE and tracked.located and not tracked.found
    assert verdict.reference_to_image is None
    assert 'another object of its kind' in verdict.message and 'agree' in verdict.message
    assert (tracked.revision, tracked.matched_stamp) == (7, 0)
    assert tracked.age == pytest.approx(0.1)
    assert verdict.checks.share_alike > 0.9 and verdict.checks.drift < 2
    assert len(verdict.inliers) == len(points)
    assert (np.diff(points.scores) <= 0).all()
    assert (points.scores[verdict.inliers] >= 0.5).all()
    assert tracked.alike.parts is None
    assert 0.5 < tracked.alike.confidence == verdict.confidence < SURE


def test_a_larger_image_is_tracked_in_its_own_pixels():
    double = np.diag([2.0, 2.0, 1.0])
    match = clock_in()
    points = replace(match.correspondences, image_points=2 * match.correspondences.image_points)
    alike, box = match.alike, match.alike.box
    alike = replace(
        alike,
        box=Area(2 * box.left, 2 * box.top, 2 * box.right, 2 * box.bottom),
        size=2 * alike.size,
        landmarks=replace(alike.landmarks, places=2 * alike.landmarks.places),
    )
    large = replace(match, correspondences=points, alike=alike)
    tracker = Tracker()
    tracker.matched(as_alike(large, cv2.warpPerspective(seen(), double, (1280, 960)), 0.0))
    for number in range(1, 6):
        moved = motion(right=4 * number)
        image = cv2.warpPerspective(seen(moved, number), double, (1280, 960))
        tracked = tracker.follow(image, number / RATE)
    expected = 2 * warp_points(moved, on_the_wall(MARKS))
    assert np.linalg.norm(tracked.alike.landmarks.places - expected, axis=1).max() < 2


def test_an_object_without_landmarks_and_warp_is_followed_by_its_box():
    match = clock_in()
    bare = replace(match, alike=replace(match.alike, landmarks=GuidePoints.none(), warp=None))
    tracker = Tracker()
    tracker.matched(as_alike(bare, seen(), 0.0))
    tracked = tracker.follow(seen(motion(right=20.0)), 0.1)
    assert tracked.alike.box.left == pytest.approx(AROUND_CLOCK.left + 20, abs=1)
    assert tracked.alike.warp is None and len(tracked.alike.landmarks.places) == 0
    assert tracked.verdict.status is Status.ALIKE


class Relief:
    """A picture on a dome in front of a still wall: the middle moves further than the rim."""

    def __init__(self, name, height):
        self.wall = cv2.resize(example_photo('brick'), (640, 480))
        self.picture = self.wall.copy()
        self.picture[120:360, 200:440] = cv2.resize(picture(name), (240, 240))
        self.mask = cv2.circle(np.zeros((480, 640), np.float32), (320, 240), 120, 1.0, -1)
        self.height = height
        self.box = Area(199.5, 119.5, 439.5, 359.5)
        x, y = np.meshgrid(np.arange(640.0), np.arange(480.0))
        self.pixels = np.stack([x, y], axis=-1)

    def move(self, points, right):
        """Return how far points move."""
        squared = ((points - (320, 240)) ** 2).sum(axis=-1) / 120**2
        factor = 1 + self.height * np.clip(1 - squared, 0, 1)
        return np.stack([right * factor, 0 * factor], axis=-1)

    def seen(self, right):
        source = self.pixels
        for _ in range(8):
            source = self.pixels - self.move(source, right)
        x, y = np.moveaxis(source.astype(np.float32), -1, 0)
        share = cv2.remap(self.mask, x, y, cv2.INTER_LINEAR)[..., None]
        return (
            share * cv2.remap(self.picture, x, y, cv2.INTER_LINEAR) + (1 - share) * self.wall
        ).astype(np.uint8)


@pytest.mark.parametrize('name', ['wolf', 'other_clock'])
def test_points_of_an_object_that_is_not_flat_go_where_their_surroundings_go(name):
    relief = Relief(name, height=0.2)
    points = grid_over(relief.box)
    marks = np.array([[320.0, 240], [320, 180], [380, 240], [280, 290]])
    tracker = Tracker()
    start = as_alike(alike_in(relief.box, points, points, marks), relief.seen(0), 0.0)
    tracker.matched(start)
    for number in range(1, 11):
        right = 8.0 * number
        tracked = tracker.follow(relief.seen(right), number / 10)
    # The middle went 16 pixels further than the rim.
    found = tracked.alike.landmarks.places
    errors = np.linalg.norm(found - marks - relief.move(marks, right), axis=1)
    assert errors.max() < 3
    sure = tracked.correspondences.reference_points[tracked.verdict.inliers]
    found = tracked.correspondences.image_points[tracked.verdict.inliers]
    errors = np.linalg.norm(found - sure - relief.move(sure, right), axis=1)
    assert np.median(errors) < 2 and errors.max() < 12


def test_the_same_frames_give_the_same_answers():
    one, other = (follow_still(locked(), 3)[-1] for _ in range(2))
    assert np.array_equal(one.alike.landmarks.places, other.alike.landmarks.places)
    assert np.array_equal(one.correspondences.scores, other.correspondences.scores)


# How certain they are


def test_deviations_grow_and_confidences_fall_with_age():
    tracker = locked()
    answers = [tracker.follow(seen(seed=n), float(n)) for n in range(1, 12, 2)]
    deviations = [answer.alike.landmarks.deviations.max() for answer in answers]
    confidences = [answer.alike.landmarks.confidences.max() for answer in answers]
    assert deviations[0] > 10 and (np.diff(deviations) > 0).all()
    assert confidences[0] < 0.8 and (np.diff(confidences) < 0).all()
    # Half a percent of 220 pixels in each of 11 seconds, and what the corners are uncertain by.
    assert deviations[-1] == pytest.approx(math.hypot(10, 11 * 1.1), abs=0.5)
    assert (np.diff([answer.verdict.confidence for answer in answers]) < 0).all()
    assert (np.diff([answer.alike.warp.deviation for answer in answers]) > 0).all()


def test_points_that_become_improbable_are_no_longer_inliers():
    tracker = locked()
    soon = tracker.follow(seen(seed=1), 1.0)
    later = tracker.follow(seen(seed=2), 12.0)
    assert soon.verdict.inliers.sum() > 50
    assert later.located
    assert 0.5 < later.correspondences.scores.max() < soon.correspondences.scores.max()
    # Of a point that was within 22 pixels with 0.8, half a percent of 220 in each second leaves
    # less than one half after 12.8 s: exp(-1 / 2 (0.31 + 0.41)) = 0.5.
    assert_lost(tracker.follow(seen(seed=3), 13.5), 'only 0 of 144 points are still certain')


@pytest.mark.parametrize(('certain', 'located'), [(4, True), (3, False)])
def test_it_takes_as_many_certain_points_as_in_a_full_match(certain, located):
    match = clock_in()
    scores = np.where(np.arange(144) < certain, 0.8, 0.2).astype(np.float32)
    points = replace(match.correspondences, scores=scores)
    verdict = replace(match.verdict, inliers=scores >= 0.5)
    tracker = Tracker()
    tracker.matched(as_alike(replace(match, correspondences=points, verdict=verdict), seen(), 0))
    tracked = tracker.follow(seen(seed=1), 1 / RATE)
    assert tracked.located == located
    if not located:
        assert_lost(tracked, 'only 3 of 144 points are still certain, 4 are needed')


def test_an_object_that_may_be_of_another_kind_is_lost_before_its_points_are():
    match = clock_in()
    verdict = replace(match.verdict, confidence=0.55)
    tracker = Tracker()
    tracker.matched(as_alike(replace(match, verdict=verdict), seen(), 0.0))
    soon = tracker.follow(seen(seed=1), 1.0)
    assert soon.located and 0.5 < soon.verdict.confidence < 0.55
    # The confidence that it is still the same object halves its way to 0.5 in 20 s.
    assert 0.55 * (0.5 + 0.5 * 0.5 ** (8 / 20)) < 0.5
    assert_lost(tracker.follow(seen(seed=2), 8.0), 'confidence 0.4')


def test_a_full_match_that_agrees_renews_the_confidence():
    track = as_alike(clock_in(), seen(), 0.0).track()
    track.follow(grey_frame(seen(seed=1), 10.0, TrackingParameters().frames))
    assert track.newest.verdict.confidence == pytest.approx(0.8 * (0.5 + 0.5**1.5), abs=0.01)
    track.confirm(10.0, 0.9)
    track.follow(grey_frame(seen(seed=2), 10.1, TrackingParameters().frames))
    assert track.newest.verdict.confidence == pytest.approx(0.9, abs=0.01)


def test_what_is_hidden_costs_confidence_and_certainty():
    tracker = locked()
    follow_still(tracker, 5)
    clear = follow_still(tracker, 1, first=6)[0]
    image = seen(seed=7)
    image[110:330, 330:455] = cv2.resize(example_photo('astronaut'), (125, 220))
    hidden = tracker.follow(image, 7 / RATE)
    assert error_of(hidden) < 5
    assert hidden.verdict.confidence < clear.verdict.confidence - 0.02
    assert hidden.alike.landmarks.deviations.max() > clear.alike.landmarks.deviations.max() + 0.2


def test_confidences_fade_as_a_normal_distribution_says():
    corners = grid_over(Area(0, 0, 100, 100))
    local = LocalMotion(STILL, corners, corners, 100.0)
    points = GuidePoints(np.array([[50.0, 50]] * 4), np.zeros(4), np.array([0, 0.5, 0.8, 1]))
    # A point is right within 10 pixels; a deviation of 10 alone leaves 1 - exp(-1/2).
    moved = AlikeMotion(STILL, local, size=100.0, drift=10.0, slip=0.0).move_guides(points)
    assert moved.deviations == pytest.approx(np.full(4, 10.0))
    assert moved.confidences[[0, 3]] == pytest.approx([0, 1 - math.exp(-0.5)], abs=1e-3)
    variance = 50 / math.log(2)
    assert moved.confidences[1] == pytest.approx(1 - math.exp(-50 / (variance + 100)))
    same = AlikeMotion(STILL, local, size=100.0, drift=0.0, slip=0.0).move_guides(points)
    assert same.confidences == pytest.approx(points.confidences, abs=1e-6)


def test_seen_from_closer_points_are_as_certain_but_in_more_pixels():
    corners = grid_over(Area(0, 0, 100, 100))
    double = np.diag([2.0, 2.0, 1.0])
    local = LocalMotion(double, corners, 2 * corners, 100.0)
    points = GuidePoints(np.array([[50.0, 50]]), np.array([8.0]), np.array([0.7]))
    moved = AlikeMotion(double, local, size=100.0, drift=0.0, slip=0.0).move_guides(points)
    assert moved.places[0] == pytest.approx([100, 100])
    assert moved.deviations == pytest.approx([16.0])
    assert moved.confidences == pytest.approx([0.7])
    seen_before = AlikeObject(0.9, Area(0, 0, 130, 130), points, size=100.0)
    motion = AlikeMotion(double, local, size=100.0, drift=0.0, slip=0.0)
    assert motion.move(seen_before, 0.9, (640, 480)).size == pytest.approx(200)


def test_a_wider_box_does_not_change_what_a_tenth_of_the_size_is():
    match = clock_in()
    for box in (match.alike.box, Area(300, 80, 579, 359)):
        tracker = Tracker()
        alike = replace(match.alike, box=box)
        tracker.matched(as_alike(replace(match, alike=alike), seen(), 0.0))
        tracked = tracker.follow(seen(seed=1), 10.0)
        # Half a percent of 220 pixels in each of 10 seconds.
        expected = np.full(len(MARKS), math.hypot(10, 11))
        assert tracked.alike.landmarks.deviations == pytest.approx(expected, abs=0.3)
        assert tracked.alike.size == pytest.approx(220, rel=0.01)


# Local motion


def test_a_point_goes_where_the_corners_near_it_go():
    corners = grid_over(Area(0, 0, 200, 200))
    moved = corners + np.where(corners[:, :1] < 100, (6.0, 0), (0, 0))
    local = LocalMotion(STILL, corners, moved, 200.0)
    carried = local.carry(np.array([[30.0, 100], [170, 100], [100, 100]]))
    assert carried.places[0] == pytest.approx([36, 100], abs=1)
    assert carried.places[1] == pytest.approx([170, 100], abs=0.5)
    left, right, between = carried.deviations
    assert between > 1.5 > max(left, right)


def test_one_corner_that_goes_astray_is_overruled_and_noticed():
    corners = grid_over(Area(0, 0, 200, 200))
    moved = corners.copy()
    moved[72] += (30, 0)
    local = LocalMotion(STILL, corners, moved, 200.0)
    carried = local.carry(corners[[72, 0]])
    assert carried.places == pytest.approx(corners[[72, 0]], abs=1)
    assert carried.deviations[0] > 3 > 0.1 > carried.deviations[1]


def test_an_affine_transform_is_itself_and_a_homography_alike_nearby():
    affine = motion(20, 1.3, 5, 6)
    assert affine_at(affine, MIDDLE) == pytest.approx(affine)
    homography = np.array([[1, 0.1, 3], [0, 1.2, 4], [1e-4, 2e-4, 1]])
    nearby = MIDDLE + np.array([[0, 0], [1.0, 0], [0, 1.0]])
    assert warp_points(affine_at(homography, MIDDLE), nearby) == pytest.approx(
        warp_points(homography, nearby), abs=1e-2
    )


# When it is lost


def test_a_blank_frame_loses_it_and_says_why():
    tracker = locked()
    follow_still(tracker, 3)
    assert_lost(tracker.follow(BLANK, 4 / RATE), 'point')
    assert error_of(follow_still(tracker, 1, first=5)[0]) < 1  # a short loss ends by itself
    for number in range(6, 30):
        assert_lost(tracker.follow(BLANK, number / RATE), 'point')
    assert_lost(follow_still(tracker, 1, first=30)[0], 'point')  # this takes a full match


def test_an_object_that_leaves_the_image_is_lost():
    tracker = locked()
    tracked = []
    for number in range(1, 41):
        moved = motion(right=8.0 * number)
        image = cv2.warpPerspective(wall(), moved, (640, 480), borderMode=cv2.BORDER_CONSTANT)
        tracked.append(tracker.follow(image, number / RATE))
    assert tracked[9].located and error_of(tracked[9], motion(right=80.0)) < 2
    assert_lost(tracked[-1], 'point')
    half_out = [each for each in tracked if each.located][-1]
    assert half_out.alike.box.right == 639.5
    assert (half_out.correspondences.image_points[:, 0] < 639.5).all()
    assert len(half_out.alike.landmarks.places) == len(MARKS)


def test_another_picture_in_its_place_is_noticed():
    tracker = locked()
    follow_still(tracker, 3)
    image = seen(seed=4)
    image[100:340, 320:560] = cv2.resize(example_photo('astronaut'), (240, 240))
    assert_lost(tracker.follow(image, 4 / RATE), 'hardly any point could be tracked')


def test_an_object_without_corners_is_not_followed_and_the_reason_is_said():
    tracker = Tracker()
    tracker.matched(as_alike(clock_in(), BLANK, 0.0))
    assert_lost(tracker.follow(seen(), 0.1), 'hardly any point could be tracked')


def test_it_is_given_up_when_no_full_match_confirms_it():
    match = clock_in()
    sure = np.ones(144, np.float32)
    points, verdict = replace(match.correspondences, scores=sure), match.verdict
    surest = replace(verdict, inliers=sure > 0, confidence=1.0)
    tracker = Tracker()
    tracker.matched(as_alike(replace(match, correspondences=points, verdict=surest), seen(), 0.0))
    assert tracker.follow(seen(seed=1), 16.0).located
    assert_lost(tracker.follow(seen(seed=2), 17.5), 'still certain, 4 are needed')
    assert_lost(tracker.follow(seen(seed=3), 20.0), 'still certain, 4 are needed')


def test_limits_of_homographies_do_not_end_it():
    tracker = Tracker()
    tracker.limits = Limits(min_confidence=0.95)
    tracker.matched(as_alike(clock_in(), seen(), 0.0))
    assert follow_still(tracker, 1)[0].located


@pytest.mark.parametrize('change', ['time', 'size', 'forget'])
def test_a_new_beginning_forgets_it(change):
    tracker = locked()
    follow_still(tracker, 2)
    image, stamp, reason = seen(), 3 / RATE, 'another picture is sought'
    if change == 'time':
        stamp, reason = 0.0, 'the stamps went back'
    elif change == 'size':
        image, reason = cv2.resize(image, (320, 240)), 'size changed'
    else:
        tracker.forget(reason)
    assert_lost(tracker.follow(image, stamp), reason)


def test_only_what_is_alike_starts_such_a_track():
    match = clock_in()
    refused = replace(match, verdict=replace(match.verdict, status=Status.LOW_CONFIDENCE))
    with pytest.raises(ValueError, match='status ALIKE'):
        as_alike(refused, seen(), 0.0)


# Full matches that come later


def test_a_late_full_match_is_carried_forward_and_corrects_the_track():
    tracker = Tracker()
    images = {number: seen(motion(right=3.0 * number), number) for number in range(36)}
    tracker.follow(images[0], 0.0)
    off = clock_in(motion(right=6.0))  # 6 pixels too far
    tracker.matched(as_alike(off, images[0], 0.0))
    for number in range(1, 31):
        tracked = tracker.follow(images[number], number / RATE)
    assert error_of(tracked, motion(right=96.0)) < 1.5
    right = clock_in(motion(right=24.0))
    now = tracker.matched(as_alike(right, images[8], 8 / RATE))
    assert now.stamp == 1.0 and error_of(now, motion(right=90.0)) < 1.5
    for number in range(31, 36):
        tracked = tracker.follow(images[number], number / RATE)
        assert error_of(tracked, motion(right=3.0 * number)) < 1.5
    assert tracked.matched_stamp == 8 / RATE
    older = tracker.matched(as_alike(off, images[4], 4 / RATE))
    assert older.matched_stamp == 8 / RATE


def test_a_full_match_that_agrees_confirms_a_track_that_it_cannot_continue():
    tracker = locked()
    follow_still(tracker, 10)
    # Nothing in this image can be followed, but the box is where the track has it.
    tracked = tracker.matched(as_alike(clock_in(motion(right=10.0)), BLANK, 5 / RATE))
    assert tracked.located
    tracked = follow_still(tracker, 1, first=11)[0]
    assert error_of(tracked) < 1 and tracked.matched_stamp == 5 / RATE
    elsewhere = clock_in(motion(right=-200.0))
    assert not tracker.matched(as_alike(elsewhere, BLANK, 8 / RATE)).located


def test_a_full_match_of_a_frame_that_the_former_track_followed_still_finds_its_past():
    tracker = locked()
    follow_still(tracker, 20)
    tracker.matched(as_alike(clock_in(), seen(seed=5), 5 / RATE))
    tracker.matched(as_alike(clock_in(), BLANK, 15 / RATE))
    tracked = follow_still(tracker, 1, first=21)[0]
    assert tracked.located and tracked.matched_stamp == 15 / RATE


def test_repeated_full_matches_that_find_nothing_end_it():
    tracker = locked()
    for number in range(1, 5):
        tracked = follow_still(tracker, 1, first=number)[0]
        assert tracked.located == (number < 4)
        tracker.not_found(number / RATE)
    assert '3 full matches in a row did not find the reference' in tracked.verdict.message


def test_the_very_object_replaces_what_is_alike():
    tracker = locked()
    follow_still(tracker, 4)
    tracked = tracker.matched(as_very(seen(seed=2), 2 / RATE))
    assert tracked.found and tracked.alike is None
    tracked = follow_still(tracker, 1, first=5)[0]
    assert tracked.found and tracked.matched_stamp == 2 / RATE


def test_what_is_alike_replaces_the_very_object_only_when_that_is_lost():
    tracker = Tracker()
    tracker.matched(as_very(seen(), 0.0))
    for number in range(1, 4):
        tracked = follow_still(tracker, 1, first=number)[0]
        assert tracked.found
        tracked = tracker.matched(as_alike(clock_in(), seen(seed=number), number / RATE))
    assert tracked.verdict.status is Status.ALIKE  # the third in a row
    assert error_of(follow_still(tracker, 1, first=4)[0]) < 1


# In a stream


class Script:
    """Stands in for the networks: finds the clock where it is, alike or not."""

    max_keypoints = 1024

    def __init__(self):
        self.match = clock_in()

    def analyse(self, image, max_keypoints=None):
        return SimpleNamespace(
            image=image, max_keypoints=None, scene_was_detected=False, scene=Scene()
        )

    def match_all(self, references, analysis, options=None, prior=None):
        return [self.match for _ in references]


def plain(name, **fields):
    return fields


def frame_of(image, number, **options):
    given = Reference(picture('clock'), 'clock', landmarks=LANDMARKS)
    prepared = SimpleNamespace(given=given, box=Box(0, 0, 320, 320), counting_area=320 * 320)
    prepared.scene, prepared.features = Scene(), ()
    known = KnownReference(prepared, 1)
    return Frame(
        image, number / RATE, (known,), options=StreamOptions(**options), tag=f'frame {number}'
    )


def test_a_stream_tracks_between_full_matches_and_says_so():
    stream = Stream(Script())
    assert stream.follow(frame_of(seen(), 0)) is None
    assert stream.match(frame_of(seen(), 0)).status is Status.ALIKE
    for number in range(1, 6):
        moved = motion(right=5.0 * number)
        answer = stream.follow(frame_of(seen(moved, number), number))
        assert answer.status is Status.ALIKE and answer.tracked and not stream.wants_match
    assert answer.matched_tag == 'frame 0' and answer.pose is None
    assert [mark.name for mark in answer.landmarks] == list(CLOCK_MARKS)
    places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
    assert np.abs(places - warp_points(moved, on_the_wall(MARKS))).max() < 1.5
    assert all(mark.inside and mark.deviation > 10 for mark in answer.landmarks)
    info = FrameInfo(
        header={'stamp': 5}, width=640, height=480, method='m', detector='d', landmark_mode='local'
    )
    homography = homography_message(plain, answer, info)
    assert homography['source'] == TRACKED and homography['matched_stamp'] == 'frame 0'
    assert 'matrix' not in homography and homography['confidence'] == 0
    message = match_message(plain, answer, info, homography)
    assert message['alike']['confidence'] == answer.confidence
    assert len(message['alike']['warp']) == 9 and message['alike']['warp_deviation'] > 8
    assert {'share_alike', 'drift'} <= set(message['check_names'])
    assert len(message['inlier']) == len(message['image_x']) == len(message['score'])
    marks = landmarks_message(plain, answer, info)
    assert marks['mode'] == SEMANTIC and marks['names'] == list(CLOCK_MARKS)


def test_a_stream_answers_a_loss_at_once_and_matches_again():
    stream = Stream(Script())
    stream.match(frame_of(seen(), 0))
    stream.follow(frame_of(seen(), 0))
    stream.match(frame_of(seen(), 0))
    assert stream.follow(frame_of(seen(seed=1), 1)).located
    lost = stream.follow(frame_of(BLANK, 2))
    assert not lost.located and lost.landmarks == () and lost.message
    assert stream.wants_match


def test_an_object_without_certain_points_is_answered_but_not_tracked():
    script = Script()
    verdict = script.match.verdict
    few = np.zeros_like(verdict.inliers)
    few[:3] = True
    script.match = replace(script.match, verdict=replace(verdict, inliers=few))
    stream = Stream(script)
    for number in range(4):
        frame = frame_of(seen(seed=number), number)
        assert stream.follow(frame) is None and stream.wants_match
        assert stream.match(frame).status is Status.ALIKE


def test_a_stream_matches_in_full_as_often_as_for_the_very_object():
    stream = Stream(Script())
    wanted = []
    for number in range(16):
        frame = frame_of(seen(seed=number), number, match_interval=0.2)
        answer = stream.answer_frame(frame)
        assert answer.status is Status.ALIKE
        wanted.append(stream.wants_match)
    assert [number for number, wants in enumerate(wanted) if wants] == [0, 6, 12]


@pytest.mark.parametrize('degrees', [90, 180, 270])
def test_a_rotated_camera_gets_places_in_the_received_image(degrees):
    stream = Stream(Script())
    images = [np.rot90(seen(seed=number), degrees // 90) for number in range(3)]
    for number, image in enumerate(images):
        answer = stream.answer_frame(
            frame_of(np.ascontiguousarray(image), number, rotation=degrees)
        )
    assert answer.tracked
    back = answer.rotation.upright_to_received
    places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
    assert places == pytest.approx(warp_points(back, on_the_wall(MARKS)), abs=1)


def test_what_the_networks_found_is_tracked_at_camera_rate():
    matcher = Matcher(Settings(device='cpu', max_keypoints=256))
    clock = matcher.prepare(Reference(picture('clock'), 'clock', landmarks=LANDMARKS))
    stream = Stream(matcher, clock, StreamOptions(match_interval=60))
    first = stream.answer(seen(), 0.0)
    assert first.status is Status.ALIKE and not first.tracked
    start = np.array([[mark.x, mark.y] for mark in first.landmarks])
    for number in range(1, 11):
        moved = motion(degrees=number, zoom=1.02**number, right=-4.0 * number)
        answer = stream.answer(seen(moved, number), number / RATE)
        assert answer.status is Status.ALIKE and answer.tracked
        assert list(answer.match.stage_seconds) == ['track']
        places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
        assert np.linalg.norm(places - warp_points(moved, start), axis=1).max() < 2
    assert answer.confidence <= first.confidence
    assert all(
        late.deviation > early.deviation
        for early, late in zip(first.landmarks, answer.landmarks, strict=True)
    )


# What it costs


def test_a_tracked_frame_costs_about_as_much_as_one_of_the_very_object():
    alike, very = locked(), Tracker()
    very.matched(as_very(seen(), 0.0))
    seconds = {alike: [], very: []}
    for number in range(1, 16):
        image = seen(motion(right=2.0 * number), number)
        for tracker, taken in seconds.items():
            begun = time.perf_counter()
            assert tracker.follow(image, number / RATE).located
            taken.append(time.perf_counter() - begun)
    assert np.median(seconds[alike]) < 5 * np.median(seconds[very])
