"""Tracking what is looked for, with the real tracker on a picture that does not move."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_matcher import found_at, named_reference

from niom_ros.core.settings import Options, StreamOptions
from niom_ros.matching.geometry import Status
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.answers import Answer, no_answer
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.target_tracker import assigned, TargetTracker, tracked_answer
from niom_ros.tracking.tracker import Tracker

PICTURE = example_photo('coffee')
KNOWN = named_reference(PICTURE)


def frame(stamp, **changes):
    return Frame(PICTURE, stamp, (KNOWN,), tag=f'frame at {stamp:g} s', **changes)


def found(there=True):
    match = found_at(np.eye(3) if there else None, KNOWN.prepared.box)
    answer = Answer(match, image=PICTURE, reference=KNOWN)
    return replace(answer, instances=(answer,)) if there else answer


def correct(tracker, at, answer):
    tracker.correct(at, tracker.identify(at, answer))


@pytest.fixture
def tracker():
    tracker = TargetTracker(Tracker())
    first = frame(1.0)
    tracker.aim(first)
    tracker.follow(first)
    correct(tracker, first, found())
    return tracker


def is_tracked(tracker, stamp):
    sights = tracker.follow(frame(stamp))
    return [(sight.tracked.located, sight.tag) for sight in sights] == [(True, 'frame at 1 s')]


def test_a_track_names_the_frame_that_it_started_from(tracker):
    sights = tracker.follow(frame(1.1))
    assert np.allclose(sights[0].tracked.view, np.eye(3), atol=0.01)
    answer = tracked_answer(frame(1.1), sights, seconds=0.004)
    assert answer.tracked and answer.matched_tag == 'frame at 1 s'
    assert answer.number == 1 and [each.number for each in answer.instances] == [1]
    assert answer.reference is KNOWN
    assert answer.match.stage_seconds == {'track': 0.004}
    assert answer.match.image_weights.why_none == 'tracked'


def test_a_lost_track_and_a_refused_frame_have_answers_too():
    lost = tracked_answer(frame(1.1), [], seconds=0.0)
    assert lost.status is Status.FEW_MATCHES and 'searching again' in lost.message
    damaged = no_answer(Status.BAD_IMAGE, 'it is damaged')
    assert tracked_answer(RefusedFrame(damaged, 1.1), [], seconds=0.0) is damaged


@pytest.mark.parametrize(
    'other',
    [
        frame(1.1, options=StreamOptions(tracking=False)),
        frame(1.1, options=StreamOptions(rotation=90)),
        replace(frame(1.1), references=(named_reference(PICTURE, revision=2),)),
    ],
    ids=['nothing', 'turned', 'another reference'],
)
def test_a_track_of_something_else_is_given_up(tracker, other):
    tracker.aim(other)
    tracker.aim(frame(1.2))
    assert not is_tracked(tracker, 1.2)


def test_the_same_target_keeps_its_track(tracker):
    later = frame(1.1, options=StreamOptions(Options(wanted='same_object')))
    tracker.aim(later)
    assert is_tracked(tracker, 1.2)


def test_a_match_of_what_is_no_longer_looked_for_starts_no_track():
    tracker, first = TargetTracker(Tracker()), frame(1.0)
    tracker.aim(first)
    tracker.follow(first)
    tracker.aim(replace(first, options=StreamOptions(tracking=False)))
    correct(tracker, first, found())
    tracker.aim(first)
    assert not is_tracked(tracker, 1.1)


def test_a_refused_frame_is_not_tracked_and_ends_no_track(tracker):
    refused = RefusedFrame(no_answer(Status.BAD_IMAGE, 'it is damaged'), 1.1, (KNOWN,))
    assert tracker.follow(refused) == []
    assert is_tracked(tracker, 1.2)


def test_matches_without_the_reference_end_its_track(tracker):
    for stamp in (1.1, 1.2, 1.3):
        assert is_tracked(tracker, stamp)
        correct(tracker, frame(stamp), found(there=False))
    assert not is_tracked(tracker, 1.4)


def test_a_forgotten_track_is_gone(tracker):
    tracker.forget('the test wants that')
    assert not is_tracked(tracker, 1.1)


def test_what_is_lost_is_named_with_the_time_since_it_was_seen(tracker):
    tracker.follow(frame(1.5))
    tracker.forget('the test wants that')
    nothing = no_answer(Status.FEW_MATCHES, 'nothing there')
    (lost,) = tracker.with_unseen(frame(4.0), nothing).instances
    assert (lost.number, lost.status) == (1, Status.FEW_MATCHES)
    assert lost.message == 'not seen for 2.5 s' and lost.reference is KNOWN
    assert tracker.with_unseen(frame(22.0), nothing).instances == ()


@pytest.mark.parametrize(
    ('known', 'found', 'expected'),
    [
        ([1, 2, None], [2, 1], [1, 2, None]),
        ([1, 2, None], [3, 1], [1, None, 3]),  # a free one before that of something missed
        ([1, 2], [3, 4], [3, 4]),
        ([0, None], [1], [1, None]),  # the thing itself instead of one that is only alike
        ([1, None], [0], [0, None]),  # one that is only alike competes with a track
        ([None, 1], [], [None, None]),
    ],
)
def test_matches_go_to_the_trackers_of_their_numbers(known, found, expected):
    trackers = [SimpleNamespace(number=number) for number in known]
    matches = [SimpleNamespace(number=number, only_alike=not number) for number in found]
    got = assigned(trackers, matches)
    assert [tracker for tracker, _ in got] == trackers
    assert [match and match.number for _, match in got] == expected
