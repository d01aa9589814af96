"""How late the full match under way is."""

import pytest

from niom_ros.stream.match_deadline import MatchDeadline, MatchTimer


@pytest.mark.parametrize(('references', 'due'), [(1, 108.0), (3, 124.0), (4, 130.0), (200, 130.0)])
def test_more_references_may_take_longer_up_to_a_limit(references, due):
    assert MatchDeadline(seconds=8.0, max_seconds=30.0).after(100.0, references) == due


def test_only_a_match_that_is_under_way_can_be_late():
    now = 0.0
    timer = MatchTimer(MatchDeadline(seconds=8.0), lambda: now)
    now = 1000.0
    assert timer.seconds_late() == 0
    with timer.timed(references=1):
        now = 1008.0
        assert timer.seconds_late() == 0
        now = 1010.5
        assert timer.seconds_late() == 2.5
    assert timer.seconds_late() == 0


def test_a_match_that_fails_is_over():
    now = 0.0
    timer = MatchTimer(MatchDeadline(seconds=8.0), lambda: now)
    with pytest.raises(ZeroDivisionError), timer.timed(references=1):
        raise ZeroDivisionError
    now = 9.0
    assert timer.seconds_late() == 0
