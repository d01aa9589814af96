"""The number of keypoints adapts to the allowed time, on machines of known speed."""

import pytest

from niom_ros.stream.keypoint_budget import BudgetParameters, KeypointBudget

FEWEST, STEP = BudgetParameters().min_keypoints, BudgetParameters().step


def linear(keypoints):
    return 0.2 + 0.9 * keypoints / 1024


def quadratic(keypoints):
    return 0.1 + 1.0 * (keypoints / 1024) ** 2


def numbers(budget, cost, max_latency, matches):
    """Return how many keypoints each of some matches had."""
    used = []
    for _ in range(matches):
        used.append(budget.keypoints(max_latency) or 1024)
        budget.took(cost(used[-1]), max_latency)
    return used


@pytest.mark.parametrize('cost', [linear, quadratic])
@pytest.mark.parametrize('max_latency', [0.4, 0.6, 0.9])
def test_it_settles_just_below_the_time(cost, max_latency):
    used = numbers(KeypointBudget(1024), cost, max_latency, 60)
    late = [cost(keypoints) for keypoints in used[20:]]
    assert sum(seconds <= max_latency for seconds in late) > 0.5 * len(late)
    assert max(late) < 1.2 * max_latency
    assert min(late) > 0.6 * max_latency


def test_a_first_answer_that_is_late_is_followed_by_a_cut_at_once():
    budget = KeypointBudget(1024)
    assert budget.keypoints(0.5) is None
    budget.took(1.1, 0.5)
    assert budget.keypoints(0.5) == int(0.6 * 1024) // STEP * STEP


def test_nothing_is_limited_where_there_is_time_or_no_limit():
    budget = KeypointBudget(1024)
    assert numbers(budget, linear, 5.0, 5) == [1024] * 5
    assert numbers(budget, linear, 0.0, 5) == [1024] * 5


def test_all_keypoints_are_back_once_the_limit_is_gone():
    budget = KeypointBudget(1024)
    numbers(budget, linear, 0.4, 10)
    assert budget.keypoints(0.4) < 512
    assert budget.keypoints(0.0) is None
    assert budget.keypoints(0.4) < 512  # to ask changes nothing
    budget.took(1.0, 0.0)
    assert budget.keypoints(0.4) is None


def test_one_slow_match_among_quick_ones_is_made_up_for():
    budget = KeypointBudget(1024)
    numbers(budget, linear, 0.6, 30)
    before = budget.keypoints(0.6)
    budget.took(5.0, 0.6)
    assert budget.keypoints(0.6) < before
    assert numbers(budget, linear, 0.6, 8)[-1] >= before - STEP


def test_it_says_when_the_time_cannot_be_kept():
    budget = KeypointBudget(1024)
    assert numbers(budget, lambda _: 1.0, 0.1, 20)[-1] == FEWEST
    assert budget.too_slow == (
        'a full match takes 1.00 s even with 128 keypoints, and max_latency is 0.1 s: '
        'raise it, or shrink max_image_side'
    )
    budget.took(0.05, 0.1)
    assert not budget.too_slow


def test_an_extractor_with_few_keypoints_is_never_asked_for_more():
    budget = KeypointBudget(64)
    for seconds in (1.0, 1.0, 0.1, 0.1, 1.0):
        budget.took(seconds, 0.5)
        assert budget.keypoints(0.5) in (64, None)
    assert budget.too_slow.startswith('a full match takes 1.00 s even with 64 keypoints')
