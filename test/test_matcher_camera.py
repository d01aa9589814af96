"""What a real matcher process makes of cameras: transport, QoS, stamps, clocks and rotation."""

from array import array
import math
import time

import cv2
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
import numpy as np
import pytest
import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import Inbox, ros_network, running, spin_until
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.nodes.ros_messages import rgb_to_message

REFERENCE = Box(0, 0, 600, 400)


@pytest.fixture(scope='module')
def bench(tmp_path_factory, coffee):
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        arguments = ('-p', 'image_timeout:=2.0', *FAST)
        with running('matcher_node', log, *arguments) as process:
            bench = Bench(node, process)
            bench.log = log
            bench.diagnostics = Inbox(node, DiagnosticArray, '/diagnostics')
            bench.wait_until_connected()
            answer = bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
            assert answer.success, answer.message
            yield bench


@pytest.fixture
def view(scene):
    return scene.view(8.0, 0)


def camera_status(bench, condition, what):
    """Return the next status of the camera for which a condition holds."""

    def fits(message):
        return any(s.name.endswith(': camera') and condition(s) for s in message.status)

    message = bench.diagnostics.wait_for(fits, what)
    return next(s for s in message.status if s.name.endswith(': camera'))


def value(status, key):
    return next(pair.value for pair in status.values if pair.key == key)


def as_stored(rgb, encoding):
    """Return an RGB picture as a camera of this encoding sends it."""
    bgr = rgb[..., ::-1]
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    yuv = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV)
    yuyv = yuv[:, :, :2].copy()
    yuyv[:, 1::2, 1] = yuv[:, ::2, 2]
    bayer = rgb[..., 2].copy()  # bggr
    bayer[::2, 1::2], bayer[1::2, ::2] = rgb[::2, 1::2, 1], rgb[1::2, ::2, 1]
    bayer[1::2, 1::2] = rgb[1::2, 1::2, 0]
    alpha = np.full((*rgb.shape[:2], 1), 255, np.uint8)
    return {
        'rgb8': rgb,
        'bgr8': bgr,
        'rgba8': np.dstack([rgb, alpha]),
        'bgra8': np.dstack([bgr, alpha]),
        'mono8': grey,
        'mono16': grey.astype('>u2') * 257,
        'bayer_bggr8': bayer,
        'yuv422_yuy2': yuyv,
    }[encoding]


@pytest.mark.parametrize(
    'encoding',
    ['rgb8', 'bgr8', 'rgba8', 'bgra8', 'mono8', 'mono16', 'bayer_bggr8', 'yuv422_yuy2'],
)
def test_every_common_encoding_is_matched_also_with_padded_rows(bench, view, encoding):
    stored = np.ascontiguousarray(as_stored(view.image, encoding))
    rows = stored.view(np.uint8).reshape(480, -1)
    padded = np.pad(rows, ((0, 0), (0, 13)), constant_values=77)
    image = Image(
        width=640,
        height=480,
        encoding=encoding,
        is_bigendian=stored.dtype == np.dtype('>u2'),
        step=padded.shape[1],
        data=array('B', padded.tobytes()),
    )
    result = bench.result_of(image)
    assert result.homography.status == Homography.OK, result.status_message
    found = np.array(result.homography.matrix).reshape(3, 3)
    assert corner_error(found, view.picture_to_image, REFERENCE) < 4


def test_depth_images_are_refused_with_what_to_connect(bench):
    depth = Image(width=2, height=2, step=4, encoding='16UC1', data=array('B', bytes(8)))
    result = bench.result_of(depth)
    assert result.homography.status == Homography.BAD_IMAGE
    assert 'connect the colour or grey image' in result.status_message


@pytest.mark.parametrize('degrees', [90, 180, 270])
def test_a_turned_camera_is_set_upright_and_answered_in_its_own_pixels(bench, view, degrees):
    turns = degrees // 90
    image = rgb_to_message(np.ascontiguousarray(np.rot90(view.image, turns)), Header())
    # From pixels of the upright view to those of the turned one, by hand.
    turned = {
        90: [[0, 1, 0], [-1, 0, 639], [0, 0, 1]],
        180: [[-1, 0, 639], [0, -1, 479], [0, 0, 1]],
        270: [[0, -1, 479], [1, 0, 0], [0, 0, 1]],
    }[degrees]
    assert bench.set_parameter('image_rotation', degrees).successful
    try:
        result = bench.result_of(image)
    finally:
        assert bench.set_parameter('image_rotation', 0).successful
    assert result.homography.status == Homography.OK, result.status_message
    found = np.array(result.homography.matrix).reshape(3, 3)
    assert corner_error(found, np.array(turned) @ view.picture_to_image, REFERENCE) < 3
    size = (640, 480) if degrees == 180 else (480, 640)
    assert (result.homography.image_width, result.homography.image_height) == size
    points = np.column_stack([result.reference_x, result.reference_y, np.ones(len(result.score))])
    mapped = points @ found.T
    off = mapped[:, :2] / mapped[:, 2:] - np.column_stack([result.image_x, result.image_y])
    inliers = np.array(result.inlier)
    assert np.abs(off[inliers]).max() < 6


def test_the_current_frame_of_a_turned_camera_is_taken_upright(bench, view, coffee):
    sideways = np.ascontiguousarray(np.rot90(view.image))
    image = rgb_to_message(sideways, Header())
    assert bench.set_parameter('image_rotation', 90).successful
    try:
        bench.result_of(image)
        answer = bench.set_reference(id='seen', use_current_frame=True)
        assert answer.success, answer.message
        assert (answer.width, answer.height) == (640, 480)
        result = bench.result_of(image)
    finally:
        assert bench.set_parameter('image_rotation', 0).successful
        bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
    found = np.array(result.homography.matrix).reshape(3, 3)
    # From the upright picture to the pixels that the camera sent.
    assert np.allclose(found, [[0, 1, 0], [-1, 0, 639], [0, 0, 1]], atol=0.01)


def test_compressed_images_are_matched_and_garbage_is_told(bench, view):
    camera = bench.node.create_publisher(CompressedImage, 'image/compressed', QoSProfile(depth=1))
    assert bench.set_parameter('image_transport', 'compressed').successful
    try:
        spin_until(bench.node, lambda: camera.get_subscription_count() == 1, 'the subscription')
        for suffix, error in (('.jpg', 4), ('.png', 3)):
            data = cv2.imencode(suffix, view.image[..., ::-1])[1].tobytes()
            message = CompressedImage(format=suffix, data=array('B', data))
            result = bench.result_of(message, camera)
            assert result.homography.status == Homography.OK, result.status_message
            found = np.array(result.homography.matrix).reshape(3, 3)
            assert corner_error(found, view.picture_to_image, REFERENCE) < error
            assert result.homography.image_width == 640
        for kind, bad, words in (
            ('jpeg', b'garbage', 'not an image of a known format'),
            ('16UC1; compressedDepth png', data, 'carries depth'),
            ('jpeg', b'', 'not an image of a known format'),
        ):
            message = CompressedImage(format=kind, data=array('B', bad))
            result = bench.result_of(message, camera)
            assert result.homography.status == Homography.BAD_IMAGE
            assert words in result.status_message
    finally:
        assert bench.set_parameter('image_transport', 'raw').successful
        bench.node.destroy_publisher(camera)
    bench.wait_until_connected()
    result = bench.result_of(rgb_to_message(view.image, Header()))
    assert result.homography.status == Homography.OK
    assert result.homography.reference_id == 'cup'


def test_a_frame_is_answered_once_and_a_late_one_never(bench, view):
    image = rgb_to_message(view.image, Header())
    first = bench.result_of(image)
    stamp = first.header.stamp
    for sec, nanosec in ((stamp.sec, 0), (stamp.sec - 1, 500_000_000)):
        image.header.stamp.sec, image.header.stamp.nanosec = sec, nanosec
        for _ in range(3):
            bench.camera.publish(image)
            time.sleep(0.2)  # or the next one replaces it before it is sent
    image.header.stamp.nanosec = 0
    last = bench.result_of(image)
    answered = [m.header.stamp for m in bench.results.messages]
    assert answered.count(stamp) == 1
    assert not [s for s in answered if s.nanosec]
    assert last.frames_received == first.frames_received + 1
    status = camera_status(
        bench, lambda s: value(s, 'duplicate stamps (ignored)') != '0', 'the count'
    )
    assert int(value(status, 'duplicate stamps (ignored)')) >= 1
    assert int(value(status, 'late stamps (ignored)')) >= 1


def test_a_camera_whose_clock_stands_still_is_told(bench, view):
    image = rgb_to_message(view.image, Header(frame_id='camera_optical_frame'))
    bench.result_of(image)
    seen = len(bench.diagnostics.messages)

    def told():
        bench.camera.publish(image)  # with the same stamp, again and again
        rclpy.spin_once(bench.node, timeout_sec=0.1)
        return [
            s
            for message in bench.diagnostics.messages[seen:]
            for s in message.status
            if 'stamps are not newer' in s.message
        ]

    spin_until(bench.node, told, 'the fault')
    assert told()[0].level == DiagnosticStatus.ERROR
    assert 'check the clock of the camera' in told()[0].message


def test_an_image_without_a_stamp_is_matched_but_has_no_age(bench, view):
    image = rgb_to_message(view.image, Header(frame_id='unstamped'))

    def answered():
        bench.camera.publish(image)
        rclpy.spin_once(bench.node, timeout_sec=0.3)
        return [m for m in bench.results.messages if m.header.frame_id == 'unstamped']

    spin_until(bench.node, answered, 'a result')
    assert answered()[-1].homography.status == Homography.OK
    assert math.isnan(answered()[-1].latency)
    assert bench.set_parameter('max_image_age', 60.0).successful
    try:
        # Images that came before are still matched without that limit.
        spin_until(
            bench.node,
            lambda: answered()[-1].homography.status == Homography.STALE,
            'a stale result',
        )
        stale = answered()[-1]
    finally:
        assert bench.set_parameter('max_image_age', 0.0).successful
    assert stale.homography.status == Homography.STALE
    assert 'has no stamp' in stale.status_message


def test_images_too_old_to_guide_are_stale_and_have_no_homography(bench, view):
    # The stamps of the bench are of 1970.
    assert bench.set_parameter('max_image_age', 60.0).successful
    try:
        stale = bench.result_of(rgb_to_message(view.image, Header()))
        fresh = rgb_to_message(view.image, Header())
        fresh.header.stamp = bench.node.get_clock().now().to_msg()
        fresh.header.frame_id = 'camera_optical_frame'
        bench.camera.publish(fresh)
        answered = bench.results.wait_for(
            lambda m: m.header.stamp == fresh.header.stamp, 'the result'
        )
    finally:
        assert bench.set_parameter('max_image_age', 0.0).successful
    assert stale.homography.status == Homography.STALE
    assert 'max_image_age is 60 s' in stale.status_message
    assert list(stale.homography.matrix) == []
    assert answered.homography.status == Homography.OK
    assert 0 < answered.latency < 60


def test_a_silent_camera_is_told_with_the_topics_there_are(bench, view):
    other = bench.node.create_publisher(Image, '/front/image_raw', QoSProfile(depth=1))
    status = camera_status(
        bench, lambda s: 'no image for' in s.message and 'front' in s.message, 'the silence'
    )
    assert status.level == DiagnosticStatus.ERROR
    assert 'on /image; these image topics exist: /front/image_raw (Image)' in status.message
    assert '/matcher/debug_image' not in status.message
    # Also on the console, once.
    lines = [line for line in bench.log.read_text().splitlines() if 'no image for' in line]
    assert 'on /image; these image topics exist: /front/image_raw (Image)' in lines[-1]
    assert '[WARN]' in lines[-1]
    bench.node.destroy_publisher(other)
    stop = time.monotonic() + 60
    while time.monotonic() < stop:
        bench.publish(rgb_to_message(view.image, Header()))
        rclpy.spin_once(bench.node, timeout_sec=0.1)
        statuses = [s for m in bench.diagnostics.messages[-2:] for s in m.status]
        if any(s.name == 'matcher: camera' and s.level == DiagnosticStatus.OK for s in statuses):
            break
    else:
        pytest.fail(f'the camera is not OK again: {statuses}')


def test_an_incompatible_camera_is_told_with_the_remedy_which_works(bench, view):
    # The bench asks for reliable delivery; this camera does not offer it.
    quality = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    unreliable = bench.node.create_publisher(Image, 'image', quality)
    status = camera_status(bench, lambda s: 'reliable_image' in s.message, 'the incompatibility')
    assert status.level in (DiagnosticStatus.WARN, DiagnosticStatus.ERROR)
    assert 'set reliable_image to false' in status.message
    assert 'set reliable_image to false' in bench.log.read_text()
    assert unreliable.get_subscription_count() == 0
    assert bench.set_parameter('reliable_image', False).successful
    try:
        spin_until(bench.node, lambda: unreliable.get_subscription_count() == 1, 'connection')
        image = rgb_to_message(cv2.resize(view.image, (320, 240)), Header())
        before = len(bench.results.messages)

        def answered():
            bench.publish(image, unreliable)
            rclpy.spin_once(bench.node, timeout_sec=0.2)
            return bench.results.messages[before:]

        spin_until(bench.node, answered, 'a result')
        assert answered()[0].homography.reference_id == 'cup'
    finally:
        assert bench.set_parameter('reliable_image', True).successful
        bench.node.destroy_publisher(unreliable)


def test_a_subscription_may_be_made_anew_at_any_moment(bench, view):
    """Each time one is destroyed while other threads of the node wait for it."""
    image = rgb_to_message(view.image, Header())
    for _ in range(30):
        for reliable in (False, True):
            bench.publish(image)
            assert bench.set_parameter('reliable_image', reliable).successful
    first = bench.publish(image).sec

    def answered():
        bench.publish(image)
        rclpy.spin_once(bench.node, timeout_sec=0.3)
        return bench.results.messages[-1].header.stamp.sec >= first

    spin_until(bench.node, answered, 'a result')
    assert bench.process.poll() is None


def test_simulated_time_is_the_time_of_latencies(bench, view, coffee_file, tmp_path):
    clock = bench.node.create_publisher(Clock, '/clock', QoSProfile(depth=1))
    arguments = ('-r', '__node:=simulated', '-p', 'use_sim_time:=true', *FAST)
    reference = ('-p', f'reference_path:={coffee_file}', '-p', 'max_image_age:=30.0')
    with running('matcher_node', tmp_path / 'log.txt', *arguments, *reference) as process:
        simulated = Bench(bench.node, process, 'simulated')
        spin_until(bench.node, lambda: simulated.state() == 'active', 'the second matcher')
        now = Clock()
        now.clock.sec = 5000
        image = rgb_to_message(view.image, Header(frame_id='camera_optical_frame'))

        def answered():
            clock.publish(now)
            image.header.stamp.sec = 4990
            image.header.stamp.nanosec += 1_000_000
            simulated.camera.publish(image)
            rclpy.spin_once(bench.node, timeout_sec=0.3)
            return [
                m
                for m in simulated.results.messages
                if m.header.stamp.sec == 4990 and m.homography.status == Homography.OK
            ]

        spin_until(bench.node, answered, 'a result in simulated time')
        assert 9 < answered()[-1].latency < 11
        simulated.close()
    bench.node.destroy_publisher(clock)
