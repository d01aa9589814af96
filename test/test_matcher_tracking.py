"""The matcher follows what it found, over real DDS: at camera rate, lost at once, found again."""

import time

import cv2
from diagnostic_msgs.msg import DiagnosticArray
from matcher_bench import Bench
from matcher_bench import FAST
from niom_ros.msg import Homography
import numpy as np
import pytest
import rclpy
from ros_client import Inbox
from ros_client import ros_network
from ros_client import running
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.matching.geometry import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.virtual_scene import example_photo

PERIOD = 0.1  # seconds between frames, of the camera and of the scene
PATIENCE = 60.0  # seconds
BOX = Box(0, 0, 600, 400)


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        arguments = (*FAST, '-p', 'tracking:=true', '-p', 'match_interval:=1.0')
        with running('matcher_node', log, *arguments) as process:
            bench = Bench(node, process)
            bench.wait_until_connected()
            yield bench


class Film:
    """Shows the scene frame by frame, and collects what the matcher says about it."""

    def __init__(self, bench, scene):
        self.bench = bench
        self.scene = scene
        self.truths = {}  # by the second of the stamp; none: the cup is not in the frame
        self.shown = 0
        self.first = len(bench.results.messages)

    def show(self, image=None):
        """Show the next frame, or another image instead, and listen for a moment."""
        view = self.scene.view(self.shown * PERIOD, self.shown)
        picture = view.image if image is None else image
        stamp = self.bench.publish(rgb_to_message(picture, Header()))
        self.truths[stamp.sec] = view.picture_to_image if image is None else None
        self.shown += 1
        end = time.monotonic() + PERIOD
        while time.monotonic() < end:
            rclpy.spin_once(self.bench.node, timeout_sec=0.02)
        return stamp.sec

    @property
    def answers(self):
        return self.bench.results.messages[self.first :]

    def show_until(self, condition, image=None):
        """Show frames until a result fulfils the condition; return it."""
        end = time.monotonic() + PATIENCE
        seen = len(self.answers)
        while time.monotonic() < end:
            self.show(image)
            for answer in self.answers[seen:]:
                if condition(answer):
                    return answer
            seen = len(self.answers)
        raise AssertionError('no such result in time')

    def error_of(self, answer):
        truth = self.truths[answer.header.stamp.sec]
        assert truth is not None, 'found where it is not'
        return corner_error(np.array(answer.homography.matrix).reshape(3, 3), truth, BOX)


def is_tracked(answer):
    return answer.homography.source == Homography.TRACKED


@pytest.fixture
def film(bench, scene, coffee):
    answer = bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
    assert answer.success, answer.message
    return Film(bench, scene)


def test_what_was_found_is_followed_and_corrected(film):
    first = film.show_until(is_tracked)
    corrected = film.show_until(
        lambda answer: (
            is_tracked(answer)
            and answer.homography.matched_stamp.sec > first.homography.matched_stamp.sec
        )
    )
    assert corrected.homography.matched_stamp.sec in film.truths
    tracked = [answer for answer in film.answers if is_tracked(answer)]
    for answer in tracked:
        assert answer.homography.status == Homography.OK
        assert answer.homography.confidence >= 0.5
        assert film.error_of(answer) < 4
        assert answer.homography.matched_stamp.sec < answer.header.stamp.sec
        assert answer.stage_names == ['track']
        assert answer.inliers == sum(answer.inlier) >= 15
        assert answer.homography.reference_id == 'cup'
    # In the order of the frames, none twice.
    stamps = [answer.header.stamp.sec for answer in film.answers]
    assert stamps == sorted(set(stamps))
    # Frames between are not left out, as they are by full matches.
    followed = [answer.header.stamp.sec for answer in tracked]
    assert len(followed) > 0.5 * (followed[-1] - followed[0])


def test_what_the_networks_saw_is_shown_of_full_matches_meanwhile(film, bench):
    heat = Inbox(bench.node, Image, 'matcher/heatmap_image')
    try:
        first = film.show_until(is_tracked)
        film.show_until(
            lambda _: any(
                picture.header.stamp.sec > first.header.stamp.sec for picture in heat.messages
            )
        )
    finally:
        heat.close()
    by_stamp = {answer.header.stamp.sec: answer for answer in film.answers}
    shown = [by_stamp[p.header.stamp.sec] for p in heat.messages if p.header.stamp.sec in by_stamp]
    # Frames that were followed already when their full match was done.
    assert any(is_tracked(answer) for answer in shown)


def test_a_cut_is_told_within_three_frames_and_nothing_is_claimed_after_it(film):
    film.show_until(is_tracked)
    other = cv2.resize(example_photo('astronaut'), (640, 480))
    cut = film.shown
    before = len(film.answers)
    stamps = [film.show(other) for _ in range(15)]
    assert cut < film.shown
    after = [answer for answer in film.answers[before:] if answer.header.stamp.sec >= stamps[0]]
    assert not [answer for answer in after if answer.homography.status == Homography.OK]
    assert after and after[0].header.stamp.sec <= stamps[2]
    assert list(after[0].homography.matrix) == []
    assert after[0].homography.source == Homography.NONE
    assert after[0].status_message
    # And it finds the cup again by itself.
    again = film.show_until(is_tracked)
    assert film.error_of(again) < 4


def test_another_reference_is_not_answered_with_the_track_of_the_first(film, bench):
    film.show_until(is_tracked)
    cat = rgb_to_message(example_photo('chelsea'), Header())
    answer = bench.set_reference(id='cat', image=cat)
    assert answer.success, answer.message
    from_now_on = film.show()
    for _ in range(20):
        film.show()
    late = [a for a in film.answers if a.header.stamp.sec >= from_now_on]
    assert not [a for a in late if a.homography.status == Homography.OK]
    assert not [a for a in late if is_tracked(a)]


def test_tracking_can_be_switched_off_and_on(film, bench):
    film.show_until(is_tracked)
    assert bench.set_parameter('tracking', False).successful
    from_now_on = film.show()
    matched = film.show_until(
        lambda a: a.header.stamp.sec > from_now_on and a.homography.source == Homography.MATCHED
    )
    assert film.error_of(matched) < 4
    late = [a for a in film.answers if a.header.stamp.sec > from_now_on]
    assert not [a for a in late if is_tracked(a)]
    assert bench.set_parameter('tracking', True).successful
    film.show_until(is_tracked)


def test_full_matches_get_as_many_keypoints_as_max_latency_allows(film, bench):
    assert bench.set_parameter('tracking', False).successful
    all_of_them = film.show_until(lambda a: a.homography.status == Homography.OK).image_keypoints
    assert all_of_them > 128
    diagnostics = Inbox(bench.node, DiagnosticArray, '/diagnostics')
    try:
        assert bench.set_parameter('max_latency', 0.001).successful
        film.show_until(lambda a: a.image_keypoints == 128)
        film.show_until(
            lambda _: any('max_latency is 0.001 s' in text for text in told(diagnostics))
        )
    finally:
        diagnostics.close()
        assert bench.set_parameter('max_latency', 0.0).successful
    film.show_until(lambda a: a.image_keypoints == all_of_them)
    assert bench.set_parameter('tracking', True).successful


def told(diagnostics):
    return [status.message for array in diagnostics.messages for status in array.status]
