"""Which thing is which: numbers of equal things, by where they are and should be."""

import numpy as np
import pytest

from niom_ros.stream.numbers import (
    cheapest,
    distance_to_way,
    hidden_ones,
    NumberingParameters,
    Numbers,
)

PART = 1  # revision of the reference
MEMORY = NumberingParameters().memory


def outline(x, y=0.0, side=100.0):
    """Return a square around a middle."""
    return np.array([[x, y]]) + side / 2 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])


def found(*places, revision=PART):
    return [(revision, outline(*place)) for place in places]


@pytest.fixture
def numbers():
    """Return the numbers of three things in a row, 200 apart: 1, 2 and 3."""
    numbers = Numbers()
    assert numbers.identify(0.0, found((0,), (200,), (400,))) == [1, 2, 3]
    return numbers


def follow(numbers, number, stamps, x, pace=0.0, y=0.0):
    """Note where something goes while it is tracked."""
    for stamp in stamps:
        numbers.see(number, stamp, outline(x + pace * stamp, y))


def test_what_stays_keeps_its_number_whatever_the_order(numbers):
    assert numbers.identify(1.0, found((400,), (0,), (200,))) == [3, 1, 2]


def test_what_is_new_gets_a_new_number_and_a_lost_one_is_not_used_again(numbers):
    assert numbers.identify(1.0, found((0,), (600,), (400,))) == [1, 4, 3]
    numbers.forget()
    assert numbers.known == ()
    assert numbers.identify(2.0, found((0,))) == [5]


def test_what_was_tracked_elsewhere_keeps_its_number(numbers):
    """Even at the old place of another one, which was tracked too."""
    for stamp in (0.5, 1.0):
        numbers.see(1, stamp, outline(400 * stamp))
        numbers.see(3, stamp, outline(400 - 400 * stamp))
        numbers.see(2, stamp, outline(200, 300))
    assert numbers.identify(1.0, found((0,), (400,), (200, 300))) == [3, 1, 2]


def test_a_match_of_an_older_frame_is_compared_with_that_frame(numbers):
    follow(numbers, 1, (0.5, 1.0, 1.5, 2.0), 0, pace=100)
    assert numbers.identify(1.0, found((100,))) == [1]
    assert [place.stamp for place in numbers.known[0].places] == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_what_was_hidden_while_it_moved_on_gets_its_number_back(numbers):
    follow(numbers, 2, (0.1, 0.2, 0.3, 0.4), 200, pace=150, y=0)
    assert numbers.identify(1.4, found((200 + 150 * 1.4,), (0,))) == [2, 1]


def test_what_stopped_on_its_way_while_it_was_hidden_gets_its_number_back(numbers):
    follow(numbers, 1, (0.5, 1.0), 0)
    follow(numbers, 2, (0.1, 0.2, 0.3, 0.4), 200, pace=-150)
    assert numbers.identify(4.0, found((-250,), (0,), (-250, 300))) == [2, 1, 4]


def test_where_two_should_be_by_now_counts_more_than_their_ways():
    numbers = Numbers()
    assert numbers.identify(0.0, found((0,), (600,))) == [1, 2]
    for stamp in (0.1, 0.2, 0.3, 0.4):  # then both are hidden, and stop late
        numbers.see(1, stamp, outline(150 * stamp))
        numbers.see(2, stamp, outline(600 - 150 * stamp))
    assert numbers.identify(5.0, found((200,), (400,))) == [2, 1]


def test_the_distance_from_a_way_by_hand():
    start, end = np.array([0.0, 0.0]), np.array([10.0, 0.0])
    assert distance_to_way(start, end, np.array([4.0, 3.0])) == pytest.approx(3)
    assert distance_to_way(start, end, np.array([13.0, 4.0])) == pytest.approx(5)
    assert distance_to_way(start, start, np.array([3.0, 4.0])) == pytest.approx(5)


def test_two_that_cross_while_one_is_hidden_keep_their_numbers():
    numbers = Numbers()
    assert numbers.identify(0.0, found((0,), (300,))) == [1, 2]
    for stamp in np.arange(0.1, 2.05, 0.1):
        numbers.see(1, stamp, outline(150 * stamp))
        if stamp < 0.75:  # then it is behind the other one
            numbers.see(2, stamp, outline(300 - 150 * stamp))
    assert numbers.identify(2.0, found((0,), (300,))) == [2, 1]


def test_what_was_hidden_while_the_camera_moved_is_where_the_others_say(numbers):
    """All move 600 pixels, the hidden one starts at once: its own pace says nothing."""
    for stamp in (0.5, 1.0, 1.5, 2.0, 2.5):
        for number, x in ((1, 0), (3, 400)):
            numbers.see(number, stamp, outline(x + 240 * stamp))
    assert numbers.identify(2.5, found((600,), (800,), (1000,))) == [1, 2, 3]


def test_what_appears_far_from_where_something_was_lost_is_another_one(numbers):
    follow(numbers, 1, (0.5, 1.0), 0)
    assert numbers.identify(1.0, found((0,), (200, 160))) == [1, 4]


def test_what_is_of_another_size_or_reference_is_another_one(numbers):
    assert numbers.identify(1.0, found((200, 0, 200))) == [4]
    assert numbers.identify(1.0, found((0,), revision=2)) == [5]


def test_what_is_tracked_goes_before_what_is_new(numbers):
    """There is room for three: 1 and 2 are tracked, one of two new ones fits, both if none is."""
    new = found((0,), (700,), (900,))
    assert numbers.identify(1.0, new, tracked={1, 2}, most=3) == [1, 4, 0]
    assert numbers.identify(2.0, found((0,), (1100,)), tracked={1, 2, 4}, most=3) == [1, 0]
    elsewhere = found((2000,), (2200,), (2400,))
    assert numbers.identify(3.0, elsewhere, tracked={1, 2, 4}, most=3) == [5, 6, 7]


def test_each_number_is_given_once(numbers):
    assert numbers.identify(1.0, found((195,), (205,))) == [2, 4]


def test_what_is_not_seen_for_too_long_loses_its_number(numbers):
    follow(numbers, 1, (MEMORY / 2,), 0)
    numbers.forget_old(MEMORY + 1)
    assert [each.number for each in numbers.known] == [1]
    assert numbers.identify(MEMORY + 1, found((200,), (0,))) == [4, 1]


def test_only_numbers_of_known_references_are_kept(numbers):
    assert numbers.identify(0.0, found((0, 500), revision=2)) == [4]
    numbers.keep({2})
    assert [each.number for each in numbers.known] == [4]


def test_nothing_was_found(numbers):
    assert numbers.identify(1.0, []) == []
    assert Numbers().identify(0.0, []) == []


def test_the_cheapest_pairs_are_as_many_as_possible():
    costs = np.array([[0.1, 0.2], [0.1, np.inf]])
    assert sorted(cheapest(costs)) == [(0, 1), (1, 0)]
    assert cheapest(np.full((2, 3), np.inf)) == []
    assert cheapest(np.zeros((0, 3))) == []


def test_of_two_at_one_place_the_one_with_less_support_is_hidden():
    outlines = {1: outline(0), 2: outline(20), 3: outline(300)}
    assert hidden_ones(outlines, {1: 0.5, 2: 0.9, 3: 0.1}, {1, 2}, 0.5) == {1: 2}
    assert hidden_ones(outlines, {1: 0.9, 2: 0.88, 3: 0.1}, {1, 2}, 0.5) == {2: 1}  # older
    apart = {1: outline(0), 2: outline(60)}
    assert hidden_ones(apart, {1: 1.0, 2: 0.1}, {1, 2}, 0.5) == {}


def test_what_reappears_at_the_place_of_another_one_is_hidden_by_it():
    outlines = {1: outline(0), 2: outline(20)}
    assert hidden_ones(outlines, {1: 1.0, 2: 0.6}, {2}, 0.5) == {1: 2}
