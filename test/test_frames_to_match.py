"""Which frames are matched in full."""

import numpy as np
import pytest

from niom_ros.matching.geometry import Status, Verdict
from niom_ros.stream.frames_to_match import FramesToMatch, MAX_WAITING, Waiting
from niom_ros.tracking.track import Tracked


@pytest.fixture
def frames():
    return FramesToMatch()


def tracked(stamp, located=True):
    status, view = (Status.OK, np.eye(3)) if located else (Status.LOW_CONFIDENCE, None)
    return Tracked(stamp, Verdict(status, '', np.zeros(0, bool), view))


def due(frames, stamp, where):
    """Return whether a frame is to be matched, if one in two seconds is."""
    frames.consider(stamp, where, begun=stamp + 0.25, interval=2.0)
    return frames.newest_is_due


def test_what_is_not_tracked_is_due_and_what_is_tracked_once_in_an_interval(frames):
    assert not frames.newest_is_due
    assert due(frames, 1.0, None)
    assert due(frames, 2.0, tracked(2.0, located=False))
    assert [due(frames, stamp, tracked(stamp)) for stamp in (3.0, 3.9, 4.0, 5.0, 6.0)] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_frame_may_be_passed_over(frames):
    assert due(frames, 1.0, None)
    frames.pass_over()
    assert not frames.newest_is_due


def test_what_is_known_of_a_frame_is_taken_once_and_older_ones_are_dropped(frames):
    there = tracked(2.0)
    for stamp, where in ((1.0, None), (3.0, there), (5.0, None)):
        assert due(frames, stamp, where)
    assert frames.take(3.0, now=9.0) == Waiting(3.25, there, 0)
    for gone in (1.0, 3.0):
        assert frames.take(gone, now=9.0) == Waiting(9.0, None, 0)
    assert frames.take(5.0, now=9.0) == Waiting(5.25, None, 0)


def test_frames_that_nobody_matches_do_not_pile_up(frames):
    for stamp in range(MAX_WAITING + 1):
        due(frames, float(stamp), None)
    assert frames.take(0.0, now=-1.0).begun == -1.0
    assert frames.take(1.0, now=-1.0).begun == 1.25


def test_after_the_stamps_went_back_nothing_of_before_counts(frames):
    assert due(frames, 7.0, None)
    assert due(frames, 8.0, None)
    under_way = frames.take(7.0, now=9.0)
    assert frames.is_current(under_way)
    frames.start_over()
    assert not frames.is_current(under_way)
    assert due(frames, 1.0, tracked(1.0))
    assert frames.take(8.0, now=9.0) == Waiting(9.0, None, 1)
