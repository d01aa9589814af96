"""Faults of cameras, clocks, networks and peers, each brought about in front of a real matcher.

Whatever happens, all that the matcher says is recorded and checked: see recorder.py.
"""

from array import array
from contextlib import contextmanager
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import cv2
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from film_camera import film
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
from niom_ros.srv import ListReferences, RemoveReference, SelectReference, SetReference
import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from recorded_film import (
    is_matched,
    is_tracked,
    PATIENCE,
    PERIOD,
    recorded,
    stamped,
    START,
    status_is,
)
from recorder import nanoseconds, Recorder
from ros_client import Inbox, ros_network, spin_until
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
import torch

from niom_ros.core.faults import explained, printable, printable_lines
from niom_ros.models.store import default_folder, ModelStore
from niom_ros.nodes import private_network
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope='module')
def models(tmp_path_factory):
    """Return a model store of links, which can be broken without harm."""
    folder = tmp_path_factory.mktemp('models')
    for file in default_folder().iterdir():
        (folder / file.name).symlink_to(file)
    return folder


@contextmanager
def faulty_bench(folder, models, *arguments):
    """Run a matcher in which faults can be set, and hear all that it says."""
    faults = folder / 'faults'
    faults.mkdir()
    tracking = ('-p', 'tracking:=true', '-p', 'match_interval:=0.5', '-p', 'image_timeout:=1.5')
    # The traps are in the networks; SIFT has a test of its own.
    arguments = (*FAST, *tracking, '-p', 'keypoint_search:=networks', *arguments)
    with ros_network() as node, pytest.MonkeyPatch.context() as patch:
        patch.setenv('FAULTS', str(faults))
        patch.setenv('NIOM_MODELS', str(models))
        command = [sys.executable, HERE / 'faulty_matcher.py', '--ros-args', *arguments]
        with private_network.running(command, folder / 'log.txt') as process:
            bench = Bench(node, process)
            bench.log = folder / 'log.txt'
            bench.faults = faults
            bench.diagnostics = Inbox(node, DiagnosticArray, '/diagnostics')
            bench.info = node.create_publisher(CameraInfo, 'camera_info', QoSProfile(depth=1))
            bench.recorder = Recorder(node)
            bench.wait_until_connected()
            yield bench
            assert process.poll() is None, bench.log.read_text()


@pytest.fixture(scope='module')
def bench(tmp_path_factory, models):
    with faulty_bench(tmp_path_factory.mktemp('matcher'), models) as bench:
        yield bench


@pytest.fixture
def bare_film(bench, scene):
    """Return a film before which nothing is looked for; all that is said during it is checked."""
    with recorded(bench, scene) as film:
        yield film
        for trap in bench.faults.iterdir():
            trap.unlink()


@pytest.fixture(scope='module')
def cup(bench, coffee):
    """Set the cup once: each test leaves it as it was."""
    set_cup(bench, coffee)


@pytest.fixture
def cup_film(bare_film, bench, scene, cup):
    """Return a film during which the cup is looked for, found, and followed."""
    for _ in range(3):  # it is best effort
        bench.info.publish(calibration(scene))
        bench.recorder.listen(0.05)
    bare_film.show_until_tracked()
    return bare_film


def set_cup(bench, coffee):
    answer = bench.set_reference(
        id='cup',
        image=rgb_to_message(coffee, Header()),
        physical_width=0.3,
        landmark_names=['handle'],
        landmark_x=[480.0],
        landmark_y=[180.0],
    )
    assert answer.success, answer.message


def calibration(scene):
    camera = scene.camera_matrix()
    return CameraInfo(
        width=scene.width,
        height=scene.height,
        distortion_model='plumb_bob',
        d=[0.0] * 5,
        k=camera.ravel(),
        p=np.column_stack([camera, np.zeros(3)]).ravel(),
    )


def wait_for_diagnostics(bench, part, words, meanwhile=None):
    """Return the next status of a part that says these words; meanwhile the camera may go on."""

    def says(status):
        texts = [status.message, *(pair.value for pair in status.values)]
        return status.name.endswith(part) and any(words in text for text in texts)

    messages = bench.diagnostics.messages
    start, end = len(messages), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if meanwhile is None:
            bench.recorder.listen(0.1)
        else:
            meanwhile()
        found = [each for message in messages[start:] for each in message.status if says(each)]
        if found:
            return found[0]
    raise AssertionError(f'diagnostics do not say {words}; the last ones: {messages[-1:]}')


@pytest.mark.parametrize(
    'exhaust',
    [
        lambda: np.empty(1 << 50),
        lambda: torch.empty(1 << 50),
        lambda: cv2.resize(np.zeros((9, 9, 9), np.float64), (1 << 30, 1 << 30)),
    ],
    ids=['numpy', 'torch', 'opencv'],
)
def test_memory_that_runs_out_is_told_with_a_remedy_whoever_notices(exhaust):
    with pytest.raises((MemoryError, RuntimeError, cv2.error)) as caught:
        exhaust()
    assert explained(caught.value).startswith('out of memory: free memory, or lower')
    assert explained(ValueError('no')) == "ValueError('no')"


def test_a_text_of_anyone_is_shown_in_one_line_without_codes_of_terminals():
    assert printable('Gehäuse 3/4 😀') == 'Gehäuse 3/4 😀'
    assert printable('a\nb\r\t\x1b[2J\x9b\u2028\u202e') == r'a\nb\r\t\x1b[2J\x9b\u2028\u202e'
    assert printable('\udcff\ud800') == r'\udcff\ud800'
    lines = printable_lines('Traceback:\n  File\nValueError: a\r\n[INFO] \x1b[2J\n')
    assert lines == 'Traceback:\n  File\n  ValueError: a\\r\n  [INFO] \\x1b[2J'
    assert printable_lines(lines) == lines


def test_what_is_checked_was_said_at_all(cup_film):
    # The checks of the recorder are about something: all outputs speak while the cup is tracked.
    for _ in range(5):
        cup_film.show()
    recorder = cup_film.recorder
    assert recorder.check() > 3
    assert recorder.poses.messages and recorder.transforms.messages
    assert any(len(array.markers) > 1 for array in recorder.markers.messages)
    assert any(marks.names for marks in recorder.landmarks.messages)


# Cameras


def test_a_camera_that_stops_is_told_claims_nothing_and_is_followed_when_it_is_back(
    cup_film, bench
):
    recorder = cup_film.recorder
    cup_film.wait_for_the_last_answer()
    before = len(recorder.homographies.messages)
    status = wait_for_diagnostics(bench, ': camera', 'no image for')
    assert status.level == DiagnosticStatus.ERROR
    # Silence is all that those hear who read only the homography.
    assert len(recorder.homographies.messages) == before
    cup_film.show_until_tracked()
    status = wait_for_diagnostics(bench, ': camera', 'images arrive at', cup_film.show)
    assert status.level == DiagnosticStatus.OK


@pytest.mark.parametrize('output', ['homography', 'match', 'landmarks', 'pose', 'markers'])
def test_who_comes_late_gets_nothing_old(bench, output):
    # No reader could try this: one that does not ask for what was said before never gets it.
    def publishers():
        return bench.node.get_publishers_info_by_topic(f'/matcher/{output}')

    spin_until(bench.node, publishers, 'the publisher')
    durabilities = [publisher.qos_profile.durability for publisher in publishers()]
    assert durabilities == [DurabilityPolicy.VOLATILE]


def test_a_camera_that_changes_size_and_encoding_is_followed_again(cup_film, scene, coffee):
    large = VirtualScene(coffee, example_photo('gravel'), 800, 600)
    shown = cup_film.shown * PERIOD
    for number in range(3):
        view = large.view(shown, number)
        cup_film.show(view.image, view.picture_to_image)
    matched = cup_film.show_until(
        is_tracked, image=view.image, truth=view.picture_to_image
    ).homography
    assert (matched.image_width, matched.image_height) == (800, 600)
    grey = scene.view(shown, 0)
    mono = cv2.cvtColor(grey.image, cv2.COLOR_RGB2GRAY)
    message = Image(
        width=640, height=480, step=640, encoding='mono8', data=array('B', mono.tobytes())
    )
    matched = cup_film.show_until(
        lambda m: is_tracked(m) and m.homography.image_width == 640,
        image=message,
        truth=grey.picture_to_image,
    )
    cup_film.show_until_tracked()


def test_garbage_ends_a_track_at_once_and_the_next_good_image_begins_anew(cup_film):
    random = np.random.default_rng(0)
    short = Image(width=640, height=480, step=1920, encoding='rgb8', data=array('B', bytes(99)))
    odd = Image(width=640, height=480, step=1920, encoding='\x00rgb', data=array('B', bytes(9)))
    for garbage, words in ((short, 'bytes'), (odd, 'encoding'), (Image(), 'cannot be used')):
        cup_film.show_until_tracked()
        answer = cup_film.answer_to(garbage)
        assert answer.homography.status == Homography.BAD_IMAGE
        assert words in answer.status_message
    noise = random.integers(0, 256, (480, 640, 3), np.uint8)
    cup_film.show_until_tracked()
    assert cup_film.answer_to(noise).homography.status != Homography.OK
    cup_film.show_until_tracked()


def test_messages_that_are_broken_on_the_wire_are_dropped(cup_film, bench, scene, coffee):
    header = stamped(cup_film.seconds + PERIOD / 2)
    image = serialize_message(rgb_to_message(coffee, header))
    endless = bytearray(image)
    endless[-coffee.size - 4 : -coffee.size] = (2**31 - 1).to_bytes(4, 'little')  # its length
    bench.camera.publish(bytes(endless))
    info = serialize_message(calibration(scene))
    for length in (0, 3, 10, 40, 200):
        bench.camera.publish(image[:length])
        bench.info.publish(info[:length])
        bench.recorder.listen(PERIOD)
    bench.recorder.listen(1.0)
    assert header.stamp not in [answer.header.stamp for answer in cup_film.answers]
    cup_film.show_until_tracked()


def late_stamps(diagnostics):
    """Return how many images were ignored because of their stamps; None: it does not say."""
    values = [pair for status in diagnostics.status for pair in status.values]
    counts = [int(pair.value) for pair in values if pair.key == 'late stamps (ignored)']
    return counts[0] if counts else None


def has_late_stamps(diagnostics):
    return late_stamps(diagnostics) is not None


def test_a_camera_that_runs_backward_in_time_is_ignored_until_that_is_a_new_beginning(
    cup_film, bench
):
    recorder = cup_film.recorder
    cup_film.wait_for_the_last_answer()
    newest = cup_film.seconds
    answered = len(recorder.results.messages)
    view = cup_film.scene.view(0.0, 0)
    before = late_stamps(bench.diagnostics.wait_for(has_late_stamps, 'diagnostics'))
    for step in range(1, 8):
        stamp = newest - step * PERIOD
        message = rgb_to_message(view.image, stamped(stamp))
        bench.camera.publish(message)  # not noted: no answer is allowed
        recorder.listen(PERIOD)
    assert len(recorder.results.messages) == answered
    bench.diagnostics.wait_for(
        lambda m: late_stamps(m) == before + 7, f'7 late stamps more than {before}'
    )
    cup_film.seconds = newest - 500  # a bag that starts again
    again = cup_film.show_until_tracked()
    assert again.header.stamp.sec < newest - 400


def test_two_cameras_at_once_are_told_and_neither_is_claimed_for_the_other(cup_film, bench):
    other = cv2.resize(example_photo('astronaut'), (640, 480))
    second = bench.node.create_publisher(Image, 'image', QoSProfile(depth=1))
    spin_until(bench.node, lambda: second.get_subscription_count() == 1, 'the connection')

    def show_both():
        cup_film.show()
        cup_film.show(other, camera=second)

    for _ in range(12):
        show_both()
    status = wait_for_diagnostics(bench, ': camera', '2 cameras publish on /image', show_both)
    assert status.level == DiagnosticStatus.WARN
    bench.node.destroy_publisher(second)
    cup_film.show_until_tracked()
    status = wait_for_diagnostics(bench, ': camera', 'images arrive at', cup_film.show)
    assert status.level == DiagnosticStatus.OK


# Clocks


def test_a_clock_that_jumps_makes_frames_stale_never_fresh(cup_film, bench):
    recorder = cup_film.recorder
    clock = bench.node.create_publisher(Clock, '/clock', QoSProfile(depth=1))

    def set_clock(seconds):
        for _ in range(4):  # it is best effort
            message = Clock()
            message.clock = stamped(seconds).stamp
            clock.publish(message)
            recorder.listen(0.05)

    def show_at(seconds, condition):
        """Show frames around a time until a result for one of them fulfils the condition."""
        cup_film.seconds = seconds
        return cup_film.show_until(
            lambda m: abs(m.header.stamp.sec - seconds) < 20 and condition(m)
        )

    assert bench.set_parameter('use_sim_time', True).successful
    assert bench.set_parameter('max_image_age', 30.0).successful
    try:
        spin_until(bench.node, lambda: clock.get_subscription_count() > 0, 'the clock')
        set_clock(5000)
        show_at(4999, is_tracked)
        set_clock(9000)  # and the camera still has the old time
        stale = show_at(5005, status_is(Homography.STALE))
        assert 's old, and max_image_age is 30 s' in stale.status_message
        show_at(8999, is_tracked)
        set_clock(1000)
        stale = show_at(9005, status_is(Homography.STALE))
        assert 'in the future' in stale.status_message
        assert 'different clocks' in stale.status_message
        show_at(999, is_tracked)
    finally:
        assert bench.set_parameter('max_image_age', 0.0).successful
        assert bench.set_parameter('use_sim_time', False).successful
        bench.node.destroy_publisher(clock)
    cup_film.seconds = START * 2  # later than all that was shown
    cup_film.show_until_tracked()


def test_a_frame_that_grows_too_old_while_it_is_matched_is_stale(cup_film, bench):
    assert bench.set_parameter('tracking', False).successful
    cup_film.show_until(is_matched)  # the first frame that is not followed is told as a loss
    assert bench.set_parameter('max_image_age', 2.0).successful
    trap = bench.faults / 'matcher'
    try:
        trap.write_text('WAIT')
        cup_film.seconds = time.time()
        stamp = cup_film.show(stamp=cup_film.seconds)
        spin_until(bench.node, trap.with_suffix('.WAITING').exists, 'the match')
        cup_film.recorder.listen(2.5)
        trap.unlink()
        late = cup_film.answer_of(stamp)
        assert late.homography.status == Homography.STALE
        assert 's old, and max_image_age is 2 s' in late.status_message
        assert list(late.homography.matrix) == []
    finally:
        assert bench.set_parameter('max_image_age', 0.0).successful
        assert bench.set_parameter('tracking', True).successful
    cup_film.show_until_tracked()


# Stages that fail


def test_a_stage_that_fails_costs_its_frames_and_nothing_else(cup_film, bench):
    memory = 'out of memory: free memory, or lower max_image_side'
    assert bench.set_parameter('tracking', False).successful
    assert bench.set_parameter('weighting', 'sew').successful
    try:
        for stage, error, words in (
            ('extractor', 'MemoryError', memory),
            ('matcher', 'OutOfMemoryError', memory),
            ('detector', 'RuntimeError', "RuntimeError('the plug-in broke')"),
        ):
            (bench.faults / stage).write_text(error)
            fault = cup_film.show_until(status_is(Homography.FAULT))
            assert words in fault.status_message
            status = wait_for_diagnostics(bench, ': matching', words)
            assert status.level == DiagnosticStatus.WARN
            assert words in bench.log.read_text()
            (bench.faults / stage).unlink()
            cup_film.show_until(is_matched)
        # As long as this lasts, not even the fault can be told as a result.
        (bench.faults / 'message').write_text('MemoryError')
        wait_for_diagnostics(bench, ': matching', memory, cup_film.show)
        (bench.faults / 'message').unlink()
        cup_film.show_until(is_matched)
    finally:
        assert bench.set_parameter('weighting', 'auto').successful
        assert bench.set_parameter('tracking', True).successful
    cup_film.show_until_tracked()


def test_sift_that_fails_costs_its_frames_and_nothing_else(cup_film, bench):
    assert bench.set_parameter('tracking', False).successful
    assert bench.set_parameter('keypoint_search', 'both').successful
    try:
        trap = bench.faults / 'sift'
        trap.write_text('MemoryError')
        fault = cup_film.show_until(status_is(Homography.FAULT))
        assert 'out of memory: free memory, or lower max_image_side' in fault.status_message
        trap.unlink()
        cup_film.show_until(is_matched)
    finally:
        assert bench.set_parameter('keypoint_search', 'networks').successful
        assert bench.set_parameter('tracking', True).successful
    cup_film.show_until_tracked()


@pytest.mark.parametrize('change', ['select_reference', 'remove_reference', 'match_all'])
def test_a_reference_that_is_dropped_while_a_frame_is_matched_is_not_claimed(
    cup_film, bench, coffee, change
):
    cat = rgb_to_message(example_photo('chelsea'), Header())
    assert bench.set_reference(id='cat', image=cat, keep_selection=True).success
    assert bench.set_parameter('tracking', False).successful
    if change == 'match_all':
        assert bench.set_parameter('match_all', True).successful
        assert bench.call(SelectReference, 'select_reference', id='cat').success
    try:
        cup_film.show_until(is_matched)
        trap = bench.faults / 'matcher'
        trap.write_text('WAIT')
        stamp = cup_film.show()
        waiting = trap.with_suffix('.WAITING')
        spin_until(bench.node, waiting.exists, 'the match')
        if change == 'match_all':
            assert bench.set_parameter('match_all', False).successful
        elif change == 'select_reference':
            assert bench.call(SelectReference, 'select_reference', id='cat').success
        else:
            assert bench.call(RemoveReference, 'remove_reference', id='cup').success
        trap.unlink()
        late = cup_film.answer_of(stamp)
        assert late.homography.status == Homography.STALE
        assert "'cup' was replaced, removed or deselected" in late.status_message
    finally:
        assert bench.set_parameter('match_all', False).successful
        assert bench.set_parameter('tracking', True).successful
        set_cup(bench, coffee)
        assert bench.call(RemoveReference, 'remove_reference', id='cat').success
    cup_film.show_until_tracked()


def test_a_track_of_a_picture_that_was_replaced_under_its_name_is_not_followed(
    cup_film, bench, coffee
):
    def waits(stage):
        spin_until(bench.node, (bench.faults / f'{stage}.WAITING').exists, stage)

    def show_without_cup():
        for _ in range(3):
            view = cup_film.scene.view(cup_film.shown * PERIOD, cup_film.shown)
            cup_film.show(view.image, truth=None)  # it is there, but not what is looked for

    # The full match of a frame before is about to begin a track, and later has just begun it.
    for stage in ('new_track', 'begun_track'):
        (bench.faults / stage).write_text('WAIT')
    cup_film.show_until(lambda _: (bench.faults / 'new_track.WAITING').exists())
    cat = rgb_to_message(cv2.resize(example_photo('chelsea'), (600, 400)), Header())
    assert bench.set_reference(id='cup', image=cat).success
    show_without_cup()
    (bench.faults / 'new_track').unlink()
    waits('begun_track')
    show_without_cup()
    (bench.faults / 'begun_track').unlink()
    show_without_cup()
    set_cup(bench, coffee)
    cup_film.show_until_tracked()


def test_a_camera_that_is_set_upright_in_another_way_is_not_followed_upside_down(
    cup_film, bench, coffee
):
    """The border of this card looks the same when it is turned by half; its middle does not."""
    blots = np.random.default_rng(1).integers(0, 255, (25, 60, 3), np.uint8)
    half = cv2.resize(blots, (600, 200), interpolation=cv2.INTER_CUBIC)
    card = np.concatenate([half, half[::-1, ::-1]])
    card[150:250, 200:400] = cv2.resize(example_photo('astronaut'), (200, 100))
    assert bench.set_reference(id='card', image=rgb_to_message(card, Header())).success
    centred = np.array([[0.8, 0, 79.9], [0, 0.8, 79.9], [0, 0, 1]])  # turned, it is in place
    image = cv2.warpPerspective(
        card,
        centred,
        (640, 480),
        dst=cv2.resize(example_photo('gravel'), (640, 480)),
        borderMode=cv2.BORDER_TRANSPARENT,
    )
    cup_film.show_until(is_tracked, image=image, truth=centred)
    (bench.faults / 'matcher').write_text('RuntimeError')  # so that only the track could find it
    assert bench.set_parameter('image_rotation', 180).successful
    for _ in range(8):
        cup_film.show(image, truth=None)
    assert bench.set_parameter('image_rotation', 0).successful
    upright = nanoseconds(cup_film.show(image, truth=centred))
    cup_film.show_until(
        lambda answer: nanoseconds(answer.header.stamp) >= upright, image=image, truth=centred
    )
    (bench.faults / 'matcher').unlink()
    cup_film.show_until(is_tracked, image=image, truth=centred)
    set_cup(bench, coffee)
    cup_film.show_until_tracked()


def test_a_tracker_that_fails_is_told_at_once_and_full_matches_go_on(cup_film, bench):
    (bench.faults / 'tracker').write_text('MemoryError')
    fault = cup_film.show_until(status_is(Homography.FAULT))
    assert 'out of memory' in fault.status_message
    (bench.faults / 'tracker').unlink()
    cup_film.show_until_tracked()
    # Where no track can begin, every frame is matched in full.
    (bench.faults / 'new_track').write_text('MemoryError')
    set_cup(bench, example_photo('coffee'))
    for _ in range(2):
        cup_film.show_until(is_matched)
    wait_for_diagnostics(bench, ': matching', 'tracking could not start: out of memory')
    (bench.faults / 'new_track').unlink()
    cup_film.show_until_tracked()


def test_a_picture_that_cannot_be_drawn_does_not_stop_the_guidance(cup_film, bench):
    overlays = Inbox(bench.node, Image, 'matcher/overlay_image')
    cup_film.show_until(lambda _: overlays.messages)
    (bench.faults / 'picture').write_text('MemoryError')
    wait_for_diagnostics(bench, ': matching', 'a picture could not be drawn', cup_film.show)
    first = cup_film.show_until_tracked()
    # Tracks are corrected meanwhile.
    cup_film.show_until(
        lambda m: (
            is_tracked(m)
            and m.homography.matched_stamp.sec > first.homography.matched_stamp.sec + 1
        )
    )
    (bench.faults / 'picture').unlink()
    before = len(overlays.messages)
    cup_film.show_until(lambda _: len(overlays.messages) > before)
    overlays.close()


def test_a_plug_in_that_ends_the_program_ends_only_its_frame(cup_film, bench):
    assert bench.set_parameter('tracking', False).successful
    (bench.faults / 'extractor').write_text('SystemExit')
    fault = cup_film.show_until(status_is(Homography.FAULT))
    assert 'the node failed on this frame: SystemExit(3)' in fault.status_message
    (bench.faults / 'extractor').unlink()
    cup_film.show_until(is_matched)
    assert bench.set_parameter('tracking', True).successful
    cup_film.show_until_tracked()


def test_full_matches_that_end_the_program_end_the_track_that_they_no_longer_confirm(
    cup_film, bench
):
    (bench.faults / 'extractor').write_text('SystemExit')
    cup_film.show_until(status_is(Homography.FAULT))
    (bench.faults / 'extractor').unlink()
    cup_film.show_until_tracked()


def test_a_full_match_that_does_not_end_is_told_in_every_frame_and_ends_the_track(cup_film, bench):
    (bench.faults / 'matcher').write_text('WAIT')
    fault = cup_film.show_until(status_is(Homography.FAULT))
    assert 'a full match should have ended' in fault.status_message
    assert 'restart the node' in fault.status_message
    seen = len(cup_film.answers)
    for _ in range(5):
        cup_film.show()
    told = [answer.homography.status for answer in cup_film.answers[seen:]]
    assert set(told) == {Homography.FAULT}
    wait_for_diagnostics(bench, ': matching', 'a full match should have ended')
    (bench.faults / 'matcher').unlink()
    cup_film.show_until_tracked()


def test_a_reference_that_cannot_be_shown_is_looked_for_all_the_same(cup_film, bench, coffee):
    trap = bench.faults / 'reference_image'
    trap.write_text('MemoryError')
    answer = bench.set_reference(
        id='rocket', image=rgb_to_message(example_photo('rocket'), Header())
    )
    assert answer.success, answer.message
    wait_for_diagnostics(bench, ': matching', '~/reference_image was not published: out of memory')
    assert bench.call(SelectReference, 'select_reference', id='cup').success
    assert bench.call(SelectReference, 'select_reference', id='rocket').success
    assert bench.call(RemoveReference, 'remove_reference', id='rocket').success
    listed = bench.call(ListReferences, 'list_references')
    assert 'rocket' not in [info.id for info in listed.references]
    trap.unlink()
    assert bench.call(SelectReference, 'select_reference', id='cup').success
    cup_film.show_until_tracked()


def test_a_plug_in_that_ends_the_program_ends_neither_a_call_nor_a_transition(
    cup_film, bench, coffee
):
    trap = bench.faults / 'extractor'
    trap.write_text('SystemExit')
    answer = bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
    trap.unlink()
    assert answer.error == SetReference.Response.FAULT
    assert 'SystemExit(3)' in answer.message and "still looking for 'cup'" in answer.message
    trap = bench.faults / 'matcher'
    trap.write_text('SystemExit')
    assert not configured_again(bench)
    assert bench.state() == 'unconfigured'
    assert 'cannot configure: SystemExit(3)' in bench.log.read_text()
    trap.unlink()
    assert configured_again(bench)
    activate(bench)
    set_cup(bench, coffee)
    cup_film.show_until_tracked()


def test_out_of_memory_for_a_new_reference_leaves_the_old_one(cup_film, bench, coffee):
    picture = rgb_to_message(example_photo('rocket'), Header())
    for stage, error in (('extractor', 'MemoryError'), ('detector', 'OutOfMemoryError')):
        (bench.faults / stage).write_text(error)
        answer = bench.set_reference(id='rocket', image=picture)
        (bench.faults / stage).unlink()
        assert not answer.success
        assert answer.error == SetReference.Response.FAULT
        assert 'out of memory: free memory' in answer.message
        assert "still looking for 'cup'" in answer.message
    (bench.faults / 'list').write_text('MemoryError')
    listed = bench.call(ListReferences, 'list_references')
    (bench.faults / 'list').unlink()
    assert not listed.success and 'out of memory: free memory' in listed.message
    listed = bench.call(ListReferences, 'list_references')
    assert listed.success
    assert 'rocket' not in [info.id for info in listed.references]
    cup_film.show_until_tracked()


# Models and plug-ins


def configured_again(bench, **parameters):
    """Configure the matcher anew, and return whether that succeeded."""
    if bench.state() == 'active':
        assert bench.change_state('deactivate')
    if bench.state() == 'inactive':
        assert bench.change_state('cleanup')
    for name, value in parameters.items():
        assert bench.set_parameter(name, value).successful
    return bench.change_state('configure')


def activate(bench):
    assert bench.change_state('activate')
    spin_until(bench.node, lambda: bench.camera.get_subscription_count() == 1, 'the subscription')


def test_a_broken_model_is_refused_with_the_remedy_which_works_without_a_restart(
    bare_film, bench, models, coffee
):
    aliked = models / ModelStore().model('aliked-n16').file
    good = aliked.resolve().read_bytes()
    wrong = bytearray(good)
    wrong[len(good) // 2] ^= 1
    cases = ((None, 'missing'), (good[: len(good) // 2], 'broken'), (bytes(wrong), 'broken'))
    for content, state in cases:
        aliked.unlink()
        if content is not None:
            aliked.write_bytes(content)
        assert not configured_again(bench)
        assert bench.state() == 'unconfigured'
        status = wait_for_diagnostics(bench, ': matching', f'aliked-n16 is {state}')
        assert status.level == DiagnosticStatus.ERROR
        assert 'run: niom models fetch aliked-n16' in status.message
        answer = bench.set_reference(image=rgb_to_message(coffee, Header()))
        assert answer.error == SetReference.Response.NOT_READY
        aliked.unlink(missing_ok=True)
        aliked.write_bytes(good)
    assert configured_again(bench)
    activate(bench)
    set_cup(bench, coffee)
    bare_film.show_until_tracked()


# Peers that vanish


CLIENT = """
import sys
import numpy as np
import rclpy
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.srv import SetReference
from std_msgs.msg import Header

rclpy.init()
node = rclpy.create_node('brief_client')
client = node.create_client(SetReference, 'matcher/set_reference')
assert client.wait_for_service(30)
picture = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
client.call_async(SetReference.Request(id='brief', image=rgb_to_message(picture, Header())))
print('called', flush=True)
rclpy.spin(node)
"""


def test_a_call_that_takes_long_keeps_neither_parameters_nor_states_waiting(
    cup_film, bench, coffee
):
    node = bench.node
    setting = node.create_client(SetReference, 'matcher/set_reference')
    changing = node.create_client(ChangeState, 'matcher/change_state')
    assert setting.wait_for_service(PATIENCE) and changing.wait_for_service(PATIENCE)
    trap = bench.faults / 'extractor'
    trap.write_text('WAIT')
    picture = rgb_to_message(coffee, Header())
    reference = setting.call_async(SetReference.Request(id='cup', image=picture))
    spin_until(node, trap.with_suffix('.WAITING').exists, 'the extraction')
    request = ChangeState.Request(transition=Transition(label='deactivate'))
    transition = changing.call_async(request)
    assert bench.set_parameter('min_inliers', 20).successful
    assert bench.state() == 'active'
    assert bench.call(ListReferences, 'list_references').success
    assert not reference.done() and not transition.done()
    trap.unlink()
    spin_until(node, lambda: reference.done() and transition.done(), 'the answers')
    assert reference.result().success and transition.result().success
    activate(bench)
    cup_film.show_until_tracked()
    node.destroy_client(setting)
    node.destroy_client(changing)


def test_a_client_killed_in_the_middle_of_a_call_harms_nobody(cup_film, bench):
    client = subprocess.Popen([sys.executable, '-c', CLIENT], stdout=subprocess.PIPE)
    try:
        assert client.stdout.readline() == b'called\n'
        cup_film.show()  # some of the call is under way
    finally:
        client.kill()
        client.wait()
    # Whether the call came through or not, others are answered.
    set_cup(bench, example_photo('coffee'))
    cup_film.show_until_tracked()


# Looks at all that is large, reliably, and says so.
ONLOOKER = """
import rclpy
from niom_ros.msg import MatchResult
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

rclpy.init()
node = rclpy.create_node('onlooker')
heard = set()
for kind, topic in (
    (Image, 'debug_image'),
    (Image, 'overlay_image'),
    (MatchResult, 'match'),
):
    node.create_subscription(
        kind, f'matcher/{topic}', lambda _, topic=topic: heard.add(topic), QoSProfile(depth=10)
    )
while len(heard) < 3:
    rclpy.spin_once(node)
print('looking', flush=True)
rclpy.spin(node)
"""


def test_an_onlooker_that_freezes_and_dies_keeps_nobody_waiting(cup_film, bench):
    onlooker = subprocess.Popen([sys.executable, '-c', ONLOOKER], stdout=subprocess.PIPE)
    try:
        os.set_blocking(onlooker.stdout.fileno(), False)
        cup_film.show_until(lambda _: onlooker.stdout.readline() == b'looking\n')
        for end in (signal.SIGSTOP, signal.SIGKILL):
            onlooker.send_signal(end)
            shown = [cup_film.show() for _ in range(40)]
            answered = {nanoseconds(answer.header.stamp) for answer in cup_film.answers}
            # It goes on at the rate of the camera, not at that of somebody's acknowledgements.
            assert sum(nanoseconds(stamp) in answered for stamp in shown) > 20
            assert bench.call(ListReferences, 'list_references').success
    finally:
        onlooker.kill()
        onlooker.wait()
    cup_film.show_until_tracked()


def test_a_camera_process_that_is_killed_may_come_back(bare_film, bench, coffee, tmp_path):
    recorder = bare_film.recorder
    set_cup(bench, coffee)
    bench.node.destroy_publisher(bench.camera)
    log = tmp_path / 'sent.txt'
    command = [sys.executable, HERE / 'film_camera.py', '640', '480', '10', '10', str(log)]
    camera = subprocess.Popen(command)
    try:
        spin_until(
            bench.node, lambda: sum(map(is_tracked, recorder.results.messages)) > 5, 'tracking'
        )
    finally:
        camera.kill()
        camera.wait()
        recorder.listen(1.0)
        bench.camera = bench.node.create_publisher(Image, 'image', QoSProfile(depth=1))
    pictures = film(640, 480, 10)
    for line in log.read_text().splitlines():
        stamp, picture = map(int, line.split())
        recorder.truths[stamp] = pictures[picture].picture_to_image
    answered = len(recorder.results.messages)
    wait_for_diagnostics(bench, ': camera', 'no image for')
    assert len(recorder.results.messages) == answered
    recorder.check()
    bare_film.seconds = time.time() + 10
    bare_film.show_until_tracked()
