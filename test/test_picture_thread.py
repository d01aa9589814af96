"""Pictures are drawn beside the work on frames: the newest of each topic, for those who look."""

import os
from threading import Event, get_native_id
import time
from types import SimpleNamespace

import pytest

from niom_ros.nodes.outputs import HEAT, PICTURES
from niom_ros.nodes.picture_thread import PictureRequest, PictureThread
from niom_ros.pictures.answers import View

DEBUG = '~/debug_image'


class Outputs:
    """Stands in for publishers: notes what is drawn, and waits while a test wants that."""

    def __init__(self):
        self.watched = set(PICTURES)
        self.drawn = []
        self.drawing, self.go_on = Event(), Event()
        self.go_on.set()
        self.error = None

    def is_watched(self, topic):
        return topic in self.watched

    def publish_picture(self, topic, answer, header, width):
        self.drawing.set()
        assert self.go_on.wait(10)
        if self.error:
            raise self.error
        self.drawn.append((topic, header))


@pytest.fixture
def outputs():
    return Outputs()


@pytest.fixture
def faults():
    return []


@pytest.fixture
def pictures(outputs, faults):
    thread = PictureThread(outputs, faults.append)
    yield thread
    outputs.go_on.set()
    thread.close()
    thread.thread.join(10)
    assert not thread.thread.is_alive()


def frame(number, tracked=False):
    analysis = None if tracked else 'what the networks saw'
    answer = SimpleNamespace(analysis=analysis)
    return PictureRequest(answer=answer, stamp=float(number), header=number, view=View(width=100))


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def hold(outputs, pictures):
    """Keep the thread busy with the debug picture of frame 0."""
    outputs.go_on.clear()
    outputs.watched = {DEBUG}
    pictures.show(frame(0))
    assert outputs.drawing.wait(10)


def test_nobody_waits_and_the_newest_is_drawn(outputs, pictures):
    hold(outputs, pictures)
    begin = time.monotonic()
    for number in range(1, 50):
        pictures.show(frame(number))
    assert time.monotonic() - begin < 1
    outputs.go_on.set()
    until(lambda: (DEBUG, 49) in outputs.drawn)
    assert outputs.drawn == [(DEBUG, 0), (DEBUG, 49)]


def test_pictures_do_not_go_back_in_time(outputs, pictures):
    outputs.watched = {DEBUG}
    for number in (7, 6, 8):
        pictures.show(frame(number))
        until(lambda: outputs.drawn)
    until(lambda: outputs.drawn[-1] == (DEBUG, 8))
    assert (DEBUG, 6) not in outputs.drawn


def test_what_nobody_looks_at_is_not_drawn(outputs, pictures):
    outputs.watched = {HEAT}
    pictures.show(frame(1))
    until(lambda: outputs.drawn)
    assert outputs.drawn == [(HEAT, 1)]


def test_a_tracked_frame_does_not_displace_the_heat_of_a_full_match(outputs, pictures):
    hold(outputs, pictures)
    outputs.watched = set(PICTURES)
    pictures.show(frame(1), only_heat=True)
    pictures.show(frame(2, tracked=True))
    outputs.go_on.set()
    until(lambda: len(outputs.drawn) == 4)
    assert (HEAT, 1) in outputs.drawn
    assert {topic for topic, number in outputs.drawn if number == 2} == set(PICTURES) - {HEAT}


def test_a_picture_that_cannot_be_drawn_is_reported_and_the_next_one_comes(
    outputs, pictures, faults
):
    outputs.watched = {DEBUG}
    outputs.error = MemoryError()
    pictures.show(frame(1))
    until(lambda: faults)
    assert faults[0].startswith('a picture could not be drawn: out of memory')
    outputs.error = None
    pictures.show(frame(2))
    until(lambda: outputs.drawn == [(DEBUG, 2)])


def test_drawing_yields_to_matching_and_tracking(outputs, pictures):
    priorities = []
    outputs.publish_picture = lambda *_: priorities.append(
        os.getpriority(os.PRIO_PROCESS, get_native_id())
    )
    pictures.show(frame(1))
    until(lambda: priorities)
    assert priorities[0] > os.getpriority(os.PRIO_PROCESS, get_native_id())
