"""The short form of the soak; `make soak` runs the long one."""

from dataclasses import replace

import pytest
from soak import Findings, problems, run_soak, SERVICES, table

SECONDS = 60.0  # that count: with the start and the warm-up it is more than two minutes
FEWER_KEYPOINTS = ('-p', 'max_keypoints:=512')  # other tests share the processors


@pytest.mark.timeout(600)  # it waits for others, and is two minutes long by itself
def test_two_minutes_of_load_leave_the_node_as_it_was(tmp_path):
    found = run_soak(SECONDS, tmp_path, FEWER_KEYPOINTS)
    print(table(found))  # which pytest shows if it fails
    assert problems(found) == []


def test_a_node_that_ends_is_told_with_its_log(tmp_path):
    with pytest.raises(AssertionError, match=r'ended by itself with code 78; its log:[^$]*sift'):
        run_soak(SECONDS, tmp_path, ('-p', 'extractor:=sift'))


GOOD = Findings(
    seconds=300.0,
    frames_sent=9000,
    frames_received=8000,
    frames_dropped=2000,
    results=6000,
    results_ok=5900,
    results_tracked=5800,
    statuses={'OK': 5900},
    calls=dict.fromkeys(SERVICES, 20),
    slowest_calls={'set_reference': 6.0},
    unanswered_calls=0,
    refused_calls=0,
    stamps_backward=0,
    unknown_stamps=0,
    share_waited=0.01,
    pictures={'debug_image': 100, 'overlay_image': 100, 'heatmap_image': 9},
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
        ({'frames_sent': 7000, 'frames_received': 6000}, 'sent only 7000 frames'),
        ({'frames_received': 2600}, 'only 2600 of 9000 frames arrived'),
        ({'results_tracked': 800}, 'only 800 frames were tracked'),
        ({'share_waited': 0.06}, '6% of the results are not those of the newest frame'),
        ({'refused_calls': 1}, '1 calls were refused'),
        ({'calls': dict.fromkeys(SERVICES[1:], 20)}, 'get_parameters was never called'),
        ({'pictures': {'debug_image': 0, 'overlay_image': 9}}, 'no debug_image came'),
        ({'latency': (0.26, 0.25, 0.25, 0.25)}, 'tracked frames took 0.26 s'),
        ({'unanswered_calls': 1}, '1 calls were not answered'),
        ({'slowest_calls': {'set_reference': 10.1}}, 'set_reference once took 10.1 s'),
        ({'stamps_backward': 1}, 'went back in time'),
        ({'unknown_stamps': 2}, '2 results of frames never sent'),
        ({'wrong_claims': 1}, '1 results say OK and are wrong'),
        ({'frames_dropped': 1000}, 'only 7000 were answered or counted dropped'),
        ({'megabytes': (1400.0, 1700.0, 1740.0, 1741.0)}, 'memory grew from 1700 to 1741 MB'),
        ({'threads': (24, 24, 26, 27)}, 'threads grew from 24 to 27'),
        ({'files': (23, 23, 27, 32)}, 'open files grew from 23 to 32'),
        ({'latency': (0.02, 0.03, 0.03, 0.036)}, 'latency grew from 0.020 to 0.036 s'),
    ],
)
def test_what_a_soak_must_not_find_is_told(bad, words):
    assert problems(GOOD) == []
    (problem,) = problems(replace(GOOD, **bad))
    assert words in problem


def test_a_short_run_may_vary_more_but_not_without_end():
    short = replace(GOOD, seconds=60.0, latency=(0.02, 0.03, 0.03, 0.055))
    assert problems(replace(short, megabytes=(1400.0, 1700.0, 1740.0, 1940.0))) == []
    (problem,) = problems(replace(short, megabytes=(1400.0, 1700.0, 1740.0, 1960.0)))
    assert problem == 'memory grew from 1700 to 1960 MB'
    (problem,) = problems(replace(short, latency=(0.02, 0.03, 0.03, 0.065)))
    assert 'latency grew from 0.020 to 0.065 s' in problem
