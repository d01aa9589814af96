"""The numbers of diagnostics."""

import pytest

from niom_ros.matching.geometry import Status
from niom_ros.nodes import statistics
from niom_ros.nodes.statistics import Statistics


@pytest.fixture
def clock(monkeypatch):
    """Stop the steady clock; tests move it."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(statistics, 'time', clock)
    return clock


def test_nothing_yet(clock):
    summary = Statistics().summary()
    assert summary.seconds_since_image is None
    assert (summary.rate_in, summary.rate_out, summary.latency) == (0, 0, None)
    assert summary.statuses == summary.stages == {}
    assert summary.fault == ''


def test_rates_and_medians_are_those_of_the_last_seconds(clock):
    counts = Statistics()
    for number in range(300):  # 10 Hz for 30 s, every fifth is matched
        clock.now = 100 + number / 10
        counts.image_arrived()
        if number % 5 == 0:
            stages = {'extract': 0.1 if number < 150 else 0.3}
            counts.finished(Status.OK, number / 1000, stages)
    clock.now += 0.05
    summary = counts.summary()
    assert summary.rate_in == pytest.approx(10, rel=0.02)
    assert summary.rate_out == pytest.approx(2, rel=0.06)
    assert summary.latency == pytest.approx(0.2475, abs=0.01)
    assert summary.stages == {'extract': 0.3}
    assert summary.statuses == {'OK': 60}
    assert summary.seconds_since_image == pytest.approx(0.05)
    clock.now += 60
    silent = counts.summary()
    assert (silent.rate_in, silent.rate_out, silent.latency) == (0, 0, None)
    assert silent.seconds_since_image == pytest.approx(60.05)
    assert silent.statuses == {'OK': 60}


def test_a_node_that_just_started_has_a_rate_as_well(clock):
    counts = Statistics()
    clock.now += 2
    for _ in range(10):
        counts.image_arrived()
    assert counts.summary().rate_in == 5


def test_the_last_fault_is_remembered_with_its_age(clock):
    counts = Statistics()
    counts.failed('first')
    clock.now += 3
    counts.failed('second: do this')
    clock.now += 4
    summary = counts.summary()
    assert (summary.fault, summary.fault_age) == ('second: do this', 4)


def test_stages_that_not_every_frame_has(clock):
    counts = Statistics()
    counts.finished(Status.OK, 0.1, {'extract': 0.1})
    counts.finished(Status.LOW_CONFIDENCE, 0.1, {'extract': 0.1, 'detect': 0.7})
    assert counts.summary().stages == {'extract': 0.1, 'detect': 0.7}
    assert counts.summary().statuses == {'OK': 1, 'LOW_CONFIDENCE': 1}


def test_after_a_restart_rates_begin_anew(clock):
    counts = Statistics()
    for _ in range(100):
        counts.image_arrived()
        counts.finished(Status.OK, 0.1, {})
    clock.now += 30
    counts.restart()
    clock.now += 2
    counts.image_arrived()
    summary = counts.summary()
    assert (summary.rate_in, summary.rate_out) == (0.5, 0)
    assert summary.statuses == {'OK': 100}
