"""Landmarks, pose, TF, markers and diagnostics of a real matcher process."""

import math
import os

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography, LandmarkArray
import numpy as np
import pytest
import rclpy
from rclpy.qos import QoSProfile
from ros_client import Inbox, ros_network, running, spin_until
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from niom_ros.core.homographies import warp_points
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo

SECONDS = 8.0  # of the virtual scene
WIDTH = 0.3  # metres, of the photo
LANDMARKS = {'handle': (480.0, 180.0), 'spoon': (200.0, 330.0), 'corner': (0.0, 0.0)}

# tf2_ros is not to be had as a wheel. This stands in for its broadcaster, which is a publisher.
TF2_ROS = """
from geometry_msgs.msg import TransformStamped


class TransformBroadcaster:
    def __init__(self, node):
        self.pub_tf = node.create_publisher(TransformStamped, '/tf_stand_in', 10)

    def sendTransform(self, transform):
        self.pub_tf.publish(transform)
"""


@pytest.fixture(scope='module')
def bench(tmp_path_factory, coffee):
    folder = tmp_path_factory.mktemp('matcher')
    (folder / 'tf2_ros.py').write_text(TF2_ROS)
    paths = [str(folder), *filter(None, [os.environ.get('PYTHONPATH')])]
    with ros_network() as node, pytest.MonkeyPatch.context() as patch:
        patch.setenv('PYTHONPATH', os.pathsep.join(paths))
        # In a namespace, as one of several cameras would be.
        place = ('-r', '__ns:=/cell', '-r', 'image:=/image', '-r', 'camera_info:=/camera_info')
        with running('matcher_node', folder / 'log.txt', *place, *FAST) as process:
            bench = Bench(node, process, 'cell/matcher')
            bench.landmarks = Inbox(node, LandmarkArray, 'cell/matcher/landmarks')
            bench.poses = Inbox(node, PoseWithCovarianceStamped, 'cell/matcher/pose')
            bench.transforms = Inbox(node, TransformStamped, '/tf_stand_in')
            bench.markers = Inbox(node, MarkerArray, 'cell/matcher/markers')
            bench.diagnostics = Inbox(node, DiagnosticArray, '/diagnostics')
            bench.info = node.create_publisher(CameraInfo, 'camera_info', QoSProfile(depth=1))
            bench.wait_until_connected()
            bench.folder = folder
            yield bench


@pytest.fixture
def view(scene):
    return scene.view(SECONDS, 0)


@pytest.fixture
def with_reference(bench, coffee):
    set_cup(bench, coffee)


def set_cup(bench, coffee, **fields):
    x, y = zip(*LANDMARKS.values(), strict=True)
    given = {'landmark_names': list(LANDMARKS), 'landmark_x': x, 'landmark_y': y, **fields}
    image = rgb_to_message(coffee, Header())
    answer = bench.set_reference(id='cup', image=image, **{'physical_width': WIDTH, **given})
    assert answer.success, answer.message


def calibration(scene, **fields):
    camera = scene.camera_matrix()
    return CameraInfo(
        **{
            'width': scene.width,
            'height': scene.height,
            'distortion_model': 'plumb_bob',
            'd': [0.0] * 5,
            'k': camera.ravel(),
            'p': np.column_stack([camera, np.zeros(3)]).ravel(),
            **fields,
        }
    )


def calibrate(bench, info):
    """Send a calibration until the matcher has it: it is best effort."""
    for _ in range(5):
        bench.info.publish(info)
        rclpy.spin_once(bench.node, timeout_sec=0.1)


def message_of(bench, inbox, stamp):
    def there():
        return [m for m in inbox.messages if m.header.stamp == stamp]

    spin_until(bench.node, there, 'the message of the frame')
    return there()[0]


@pytest.mark.parametrize('mode', ['global', 'local'])
def test_landmarks_are_where_they_are(bench, with_reference, view, mode):
    assert bench.set_parameter('landmark_mode', mode).successful
    try:
        result = bench.result_of(rgb_to_message(view.image, Header()))
    finally:
        assert bench.set_parameter('landmark_mode', 'auto').successful
    placed = message_of(bench, bench.landmarks, result.header.stamp)
    assert placed.header == result.header
    assert placed.status == Homography.OK
    assert placed.mode == {'global': LandmarkArray.GLOBAL, 'local': LandmarkArray.LOCAL}[mode]
    assert placed.reference_id == 'cup'
    assert placed.reference_revision == result.homography.reference_revision
    assert list(placed.names) == list(LANDMARKS)
    truth = warp_points(view.picture_to_image, np.array(list(LANDMARKS.values())))
    found = np.column_stack([placed.x, placed.y])
    assert np.linalg.norm(found - truth, axis=1).max() < 3
    inside = ((truth > -0.5) & (truth < (639.5, 479.5))).all(axis=1)
    assert list(placed.inside) == inside.tolist()
    assert all(placed.supported)
    assert len(result.homography.corner_deviation) == 4
    assert all(0 < deviation < 4 for deviation in result.homography.corner_deviation)
    assert all(0 < deviation < 4 for deviation in placed.deviation)
    assert all(0 < confidence <= result.homography.confidence for confidence in placed.confidence)


def test_a_frame_without_the_reference_has_no_landmarks(bench, with_reference):
    result = bench.result_of(rgb_to_message(example_photo('astronaut'), Header()))
    placed = message_of(bench, bench.landmarks, result.header.stamp)
    assert placed.status == result.homography.status != Homography.OK
    assert list(placed.names) == list(placed.x) == list(placed.inside) == []


def angle_between(first, second):
    """Return the angle in degrees between two rotations given as quaternions."""
    dot = abs(np.dot(first, second))
    return math.degrees(2 * math.acos(min(1.0, dot)))


def test_the_pose_is_that_of_the_scene_and_goes_to_tf(bench, with_reference, scene, view):
    calibrate(bench, calibration(scene))
    result = bench.result_of(rgb_to_message(view.image, Header()))
    assert result.homography.status == Homography.OK
    stamped = message_of(bench, bench.poses, result.header.stamp)
    assert stamped.header == result.header
    place, turn = stamped.pose.pose.position, stamped.pose.pose.orientation
    rotation, shift = scene.pose(SECONDS)
    assert np.allclose([place.x, place.y, place.z], WIDTH * shift, atol=0.01)
    w = math.sqrt(1 + np.trace(rotation)) / 2
    x, y, z = (
        (rotation[2, 1] - rotation[1, 2]) / (4 * w),
        (rotation[0, 2] - rotation[2, 0]) / (4 * w),
        (rotation[1, 0] - rotation[0, 1]) / (4 * w),
    )
    assert angle_between([turn.x, turn.y, turn.z, turn.w], [x, y, z, w]) < 2
    covariance = np.array(stamped.pose.covariance).reshape(6, 6)
    assert np.allclose(covariance, covariance.T)
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    deviations = np.sqrt(np.diag(covariance))
    assert (deviations[:3] < 0.02).all()
    assert (deviations[3:] < 0.2).all()
    checks = dict(zip(result.check_names, result.check_values, strict=True))
    assert 0 <= checks['pose_ambiguity'] < 1
    assert 0 < checks['pose_error'] < 4
    # TF says the same.
    transform = message_of(bench, bench.transforms, result.header.stamp)
    assert transform.header.frame_id == 'camera_optical_frame'
    assert transform.child_frame_id == 'cell/matcher/cup'
    moved = transform.transform.translation
    assert (moved.x, moved.y, moved.z) == (place.x, place.y, place.z)
    assert transform.transform.rotation == turn


def test_markers_lie_where_the_reference_is(bench, with_reference, scene, view):
    calibrate(bench, calibration(scene))
    result = bench.result_of(rgb_to_message(view.image, Header()))
    markers = markers_of(bench, result)
    corners = outline_in(markers)
    assert len(corners) == 5
    assert np.linalg.norm(corners[1] - corners[0]) == pytest.approx(WIDTH, rel=0.01)
    assert np.linalg.norm(corners[2] - corners[1]) == pytest.approx(WIDTH * 400 / 600, rel=0.01)
    projected = corners[:4] @ scene.camera_matrix().T
    truth = warp_points(
        view.picture_to_image, np.array([[0, 0], [599, 0], [599, 399], [0, 399]], float)
    )
    assert np.abs(projected[:, :2] / projected[:, 2:] - truth).max() < 4
    names = {m.text for m in markers if m.type == Marker.TEXT_VIEW_FACING}
    assert names == set(LANDMARKS)
    lost = bench.result_of(rgb_to_message(example_photo('astronaut'), Header()))
    assert markers_of(bench, lost) == []


def markers_of(bench, result):
    """Return the markers of a frame, without the one that removes those of the last."""

    def there():
        return [
            m for m in bench.markers.messages if m.markers[0].header.stamp == result.header.stamp
        ]

    spin_until(bench.node, there, 'the markers')
    first, *markers = there()[0].markers
    assert first.action == Marker.DELETEALL
    return markers


def outline_in(markers):
    outline = next(m for m in markers if m.ns == 'outline')
    return np.array([(p.x, p.y, p.z) for p in outline.points])


def test_without_a_width_or_with_a_wrong_calibration_there_is_no_pose(bench, scene, view, coffee):
    image = rgb_to_message(view.image, Header())
    set_cup(bench, coffee, physical_width=0.0)
    calibrate(bench, calibration(scene))
    unknown_width = bench.result_of(image)
    set_cup(bench, coffee)
    calibrate(bench, calibration(scene, width=1280, height=720))
    other_size = bench.result_of(image)
    status = matching_status(bench, lambda s: '1280 x 720' in value(s, 'pose'), 'the reason')
    assert '640 x 480' in value(status, 'pose')
    calibrate(bench, calibration(scene, header=Header(frame_id='another_camera')))
    other_camera = bench.result_of(image)
    matching_status(bench, lambda s: "'another_camera'" in value(s, 'pose'), 'the reason')
    calibrate(bench, calibration(scene, k=np.zeros(9), p=np.zeros(12)))
    uncalibrated = bench.result_of(image)
    said = matching_status(bench, lambda s: 'calibrat' in value(s, 'last fault'), 'the fault')
    assert said
    calibrate(bench, calibration(scene, header=Header(frame_id='camera_optical_frame')))
    right = bench.result_of(image)
    message_of(bench, bench.poses, right.header.stamp)
    # Without a width, things are one metre before the camera; without a calibration, nowhere.
    assert np.allclose(outline_in(markers_of(bench, unknown_width))[:, 2], 1)
    for result in (other_size, other_camera, uncalibrated):
        assert markers_of(bench, result) == []
    stamps = [m.header.stamp for m in bench.poses.messages]
    for result in (unknown_width, other_size, other_camera, uncalibrated):
        assert result.homography.status == Homography.OK
        assert result.header.stamp not in stamps


def matching_status(bench, condition, what):
    def fits(message):
        return any(s.name == 'cell/matcher: matching' and condition(s) for s in message.status)

    message = bench.diagnostics.wait_for(fits, what)
    return next(s for s in message.status if s.name == 'cell/matcher: matching')


def value(status, key):
    return next(pair.value for pair in status.values if pair.key == key)


def test_a_lens_that_cannot_show_the_outline_gives_no_markers(bench, scene, view, coffee):
    set_cup(bench, coffee, physical_width=0.0)
    # So strong a distortion that the corners of the image are beyond its reach.
    calibrate(bench, calibration(scene, d=[-0.9, 0.0, 0.0, 0.0, 0.0]))
    result = bench.result_of(rgb_to_message(scene.view(0.0, 0).image, Header()))
    for marker in markers_of(bench, result):
        assert np.isfinite([(p.x, p.y, p.z) for p in marker.points]).all()
        assert np.isfinite([marker.scale.x, marker.scale.z, marker.pose.position.x]).all()
    calibrate(bench, calibration(scene))


def test_diagnostics_tell_how_it_goes(bench, with_reference, view):
    # Only frames in which SIFT finds nothing go through the stages of networks.
    bench.result_of(rgb_to_message(example_photo('astronaut'), Header()))
    for _ in range(3):
        bench.result_of(rgb_to_message(view.image, Header()))
    status = matching_status(bench, lambda s: value(s, 'state') == 'active', 'the state')
    assert status.hardware_id == '/cell/matcher'
    assert float(value(status, 'rate out (Hz)')) > 0
    for stage in ('extract', 'match', 'verify'):
        assert float(value(status, f'{stage} (s)')) >= 0
    assert value(status, 'latency, capture to publish (s)') != 'none'
    assert int(value(status, 'frames OK')) >= 3
    assert value(status, 'models') == 'aliked+lightglue, detector yolov4-tiny'
    assert value(status, 'device') in ('cpu', 'cuda')
    assert 100 < float(value(status, 'memory (MB)')) < 20_000
    assert value(status, 'selected') == 'cup'
    times = [m.header.stamp.sec + m.header.stamp.nanosec / 1e9 for m in bench.diagnostics.messages]
    assert np.median(np.diff(times)) == pytest.approx(1.0, abs=0.3)


def test_a_fault_is_told_with_its_remedy(bench, with_reference):
    image = rgb_to_message(np.zeros((8, 8, 3), np.uint8), Header())
    image.encoding = '32FC1'
    bench.result_of(image)
    status = matching_status(bench, lambda s: 'carries depth' in s.message, 'the fault')
    assert status.level == DiagnosticStatus.WARN
    assert 'connect the colour or grey image' in value(status, 'last fault')
    assert ' s ago)' in value(status, 'last fault')
