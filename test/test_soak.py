"""The short form of the soak; `make soak` runs the long one."""

from dataclasses import replace

import pytest
from soak import Findings
from soak import problems
from soak import run_soak
from soak import table

SECONDS = 60.0  # that count: with the start and the warm-up it is more than two minutes
FEWER_KEYPOINTS = ('-p', 'max_keypoints:=512')  # other tests share the processors


@pytest.mark.timeout(600)  # it waits for others, and is two minutes long by itself
def test_two_minutes_of_load_leave_the_node_as_it_was(tmp_path):
    found = run_soak(SECONDS, tmp_path, FEWER_KEYPOINTS)
    print(table(found))  # which pytest shows if it fails
    assert problems(found) == []


def test_a_node_that_ends_is_told_with_its_log(tmp_path):
    with pytest.raises(AssertionError, match=r'ended by itself with code 1; its log:[^$]*sift'):
        run_soak(SECONDS, tmp_path, ('-p', 'extractor:=sift'))


GOOD = Findings(
    seconds=300.0,
    frames_sent=2400,
    frames_received=2300,
    frames_dropped=500,
    results=1800,
    results_ok=1790,
    results_tracked=1780,
    statuses={'OK': 1790},
    calls={'set_reference': 20},
    slowest_calls={'set_reference': 6.0},
    unanswered_calls=0,
    refused_calls=0,
    stamps_backward=0,
    unknown_stamps=0,
    wrong_claims=0,
    megabytes=(1400.0, 1700.0, 1710.0, 1720.0),
    megabytes_per_1000_frames=10.0,
    threads=(24, 24, 25, 25),
    files=(23, 23, 23, 24),
    latency=(0.02, 0.03, 0.03, 0.025),
    control=(0.001, 0.001, 0.001, 0.001),
    megabytes_by_time=(1400.0, 1720.0),
)


@pytest.mark.parametrize(
    ('bad', 'words'),
    [
        ({'results_tracked': 0}, 'nothing was tracked'),
        ({'unanswered_calls': 1}, '1 calls were not answered'),
        ({'slowest_calls': {'set_reference': 10.1}}, 'set_reference once took 10.1 s'),
        ({'stamps_backward': 1}, 'went back in time'),
        ({'unknown_stamps': 2}, '2 results of frames never sent'),
        ({'wrong_claims': 1}, '1 results say OK and are wrong'),
        ({'frames_dropped': 200}, 'only 2000 were answered or counted dropped'),
        ({'megabytes': (1400.0, 1700.0, 1740.0, 1761.0)}, 'memory grew from 1700 to 1761 MB'),
        ({'threads': (24, 24, 26, 27)}, 'threads grew from 24 to 27'),
        ({'files': (23, 23, 27, 32)}, 'open files grew from 23 to 32'),
        ({'latency': (0.02, 0.03, 0.04, 0.07)}, 'latency grew from 0.020 to 0.070 s'),
    ],
)
def test_what_a_soak_must_not_find_is_told(bad, words):
    assert problems(GOOD) == []
    (problem,) = problems(replace(GOOD, **bad))
    assert words in problem


def test_memory_may_rise_to_its_plateau_in_a_short_run_but_not_without_end():
    short = replace(GOOD, seconds=60.0)
    assert problems(replace(short, megabytes=(1400.0, 1700.0, 1740.0, 1940.0))) == []
    (problem,) = problems(replace(short, megabytes=(1400.0, 1700.0, 1740.0, 1960.0)))
    assert problem == 'memory grew from 1700 to 1960 MB'
