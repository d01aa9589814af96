"""The matcher follows what it found, over real DDS: at camera rate, lost at once, found again."""

import json

from bag_files import write_bag
import cv2
from diagnostic_msgs.msg import DiagnosticArray
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
import numpy as np
import pytest
from recorded_film import is_matched, is_tracked, PERIOD, recorded
from recorder import nanoseconds, Recorder
from ros_client import Inbox, ros_network, running
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.cli.main import main
from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.messages.results import image_message
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.replay.messages import build
from niom_ros.simulation.virtual_scene import example_photo

FARTHEST = 4.0  # pixels that corners may be off, on average


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        arguments = (*FAST, '-p', 'tracking:=true', '-p', 'match_interval:=1.0')
        with running('matcher_node', log, *arguments) as process:
            bench = Bench(node, process)
            bench.recorder = Recorder(node)
            bench.wait_until_connected()
            yield bench


@pytest.fixture
def film(bench, scene, coffee):
    answer = bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
    assert answer.success, answer.message
    with recorded(bench, scene) as film:
        yield film


def when(message):
    return nanoseconds(message.header.stamp)


def error_of(film, answer):
    return film.recorder.error_of(answer.homography)


def test_what_was_found_is_followed_and_corrected(film):
    def matched(answer):
        return nanoseconds(answer.homography.matched_stamp)

    first = film.show_until(is_tracked)
    film.show_until(lambda answer: is_tracked(answer) and matched(answer) > matched(first))
    tracked = [answer for answer in film.answers if is_tracked(answer)]
    for answer in tracked:
        assert answer.homography.status == Homography.OK
        assert error_of(film, answer) < FARTHEST
        assert matched(answer) < when(answer)
        assert answer.stage_names == ['track']
        assert answer.inliers == sum(answer.inlier) >= 15
        assert answer.homography.reference_id == 'cup'
    # Frames between are not left out, as they are by full matches.
    seconds = (when(tracked[-1]) - when(tracked[0])) / 1e9
    assert len(tracked) > 0.5 * seconds / PERIOD


def test_a_replay_of_the_same_frames_agrees(film, coffee, tmp_path, monkeypatch):
    """But for the first ones: the node needs time for a full match, the replay takes none."""
    film.show_until(is_tracked)
    for _ in range(15):
        film.show()
    film.wait_for_the_last_answer()

    def messages():
        for number, stamp in enumerate(film.stamps):
            image = film.scene.view(number * PERIOD, number).image
            when = build('builtin_interfaces/Time', sec=stamp.sec, nanosec=stamp.nanosec)
            header = build('std_msgs/Header', stamp=when, frame_id='camera')
            yield '/image', nanoseconds(stamp), image_message(build, image, header)

    reference, output = tmp_path / 'cup.png', tmp_path / 'results.jsonl'
    cv2.imwrite(str(reference), coffee[..., ::-1])
    bag = write_bag(tmp_path / 'run', messages())
    options = ['--max-keypoints', '512', '--match-interval', '1', '--device', 'cpu']
    arguments = ['replay', bag, '--reference', reference, '-o', output, *options]
    assert main(list(map(str, arguments))) == 0
    replayed = [json.loads(line)['match'] for line in output.read_text().splitlines()]
    sources = [answer['homography']['source'] for answer in replayed]
    assert sources == [Homography.MATCHED] + [Homography.TRACKED] * (len(film.stamps) - 1)
    matrices = {
        nanoseconds(stamp): np.reshape(answer['homography']['matrix'], (3, 3))
        for stamp, answer in zip(film.stamps, replayed, strict=True)
    }
    tracked = [answer for answer in film.answers if is_tracked(answer)]
    assert len(tracked) >= 10
    for answer in tracked:
        by_node = np.reshape(answer.homography.matrix, (3, 3))
        assert corner_error(by_node, matrices[when(answer)], Box.around(coffee)) < FARTHEST


def test_what_the_networks_saw_is_shown_of_full_matches_meanwhile(film, bench):
    heat = Inbox(bench.node, Image, 'matcher/heatmap_image')
    try:
        first = film.show_until(is_tracked)
        film.show_until(lambda _: any(when(picture) > when(first) for picture in heat.messages))
    finally:
        heat.close()
    by_stamp = {when(answer): answer for answer in film.answers}
    shown = [by_stamp[when(picture)] for picture in heat.messages if when(picture) in by_stamp]
    # Frames that were followed already when their full match was done.
    assert any(is_tracked(answer) for answer in shown)


def test_a_cut_is_told_within_three_frames_and_nothing_is_claimed_after_it(film):
    film.show_until(is_tracked)
    other = cv2.resize(example_photo('astronaut'), (640, 480))
    stamps = [nanoseconds(film.show(other)) for _ in range(15)]
    after = [answer for answer in film.answers if when(answer) >= stamps[0]]
    assert not [answer for answer in after if answer.homography.status == Homography.OK]
    assert after and when(after[0]) <= stamps[2]
    # And it finds the cup again by itself.
    assert error_of(film, film.show_until(is_tracked)) < FARTHEST


def test_another_reference_is_not_answered_with_the_track_of_the_first(film, bench):
    film.show_until(is_tracked)
    cat = rgb_to_message(example_photo('chelsea'), Header())
    answer = bench.set_reference(id='cat', image=cat)
    assert answer.success, answer.message
    from_now_on = nanoseconds(film.show())
    film.show_until(lambda answer: when(answer) >= from_now_on)
    for _ in range(20):
        film.show()
    late = [answer for answer in film.answers if when(answer) >= from_now_on]
    assert not [answer for answer in late if answer.homography.status == Homography.OK]


def test_a_limit_that_is_raised_holds_for_what_is_tracked_already(film, bench):
    film.show_until(lambda answer: is_tracked(answer) and answer.homography.confidence < 0.999)
    assert bench.set_parameter('min_confidence', 0.999).successful
    try:
        from_now_on = nanoseconds(film.show())
        film.show_until(lambda answer: when(answer) >= from_now_on)
        for _ in range(20):
            film.show()
    finally:
        assert bench.set_parameter('min_confidence', 0.5).successful
    late = [answer.homography for answer in film.answers if when(answer) >= from_now_on]
    believed = [answer for answer in late if answer.status == Homography.OK]
    assert not [answer for answer in believed if answer.confidence < 0.999]
    film.show_until(is_tracked)


def test_tracking_can_be_switched_off_and_on(film, bench):
    film.show_until(is_tracked)
    assert bench.set_parameter('tracking', False).successful
    from_now_on = nanoseconds(film.show())
    matched = film.show_until(lambda answer: when(answer) > from_now_on and is_matched(answer))
    assert error_of(film, matched) < FARTHEST
    late = [answer for answer in film.answers if when(answer) > from_now_on]
    assert not [answer for answer in late if is_tracked(answer)]
    assert bench.set_parameter('tracking', True).successful
    film.show_until(is_tracked)


def test_full_matches_get_as_many_keypoints_as_max_latency_allows(film, bench):
    assert bench.set_parameter('tracking', False).successful
    assert bench.set_parameter('keypoint_search', 'networks').successful
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
    assert bench.set_parameter('keypoint_search', 'both').successful
    assert bench.set_parameter('tracking', True).successful


def told(diagnostics):
    return [status.message for array in diagnostics.messages for status in array.status]
