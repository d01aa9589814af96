from types import SimpleNamespace

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from niom_ros.stream.camera import CameraError, CameraModel

WIDE_PLUMB_BOB = [-0.28, 0.07, 0.001, -0.0005, 0.0]
# Like those that depth cameras are shipped with.
RATIONAL = [0.45, -2.7, 0.0008, -0.0003, 1.6, 0.32, -2.5, 1.5]
THIN_PRISM = [-0.3, 0.1, 0.001, 0.001, 0, 0, 0, 0, 0.001, 0.0005, -0.001, 0.0003]
TILTED = [*THIN_PRISM, 0.01, -0.02]
LENSES = {
    'none': ('plumb_bob', []),
    'plumb_bob of 4': ('plumb_bob', WIDE_PLUMB_BOB[:4]),
    'plumb_bob': ('plumb_bob', WIDE_PLUMB_BOB),
    'rational': ('rational_polynomial', RATIONAL),
    'thin prism': ('rational_polynomial', THIN_PRISM),
    'tilted': ('rational_polynomial', TILTED),
    'equidistant': ('equidistant', [-0.02, 0.01, -0.005, 0.001]),
}


def camera_info(model='plumb_bob', d=(), roi=(0, 0, 0, 0), binning=(0, 0), r=None, **changes):
    """Return the calibration of a camera with 1280 x 720 pixels that sees 100 degrees."""
    x_offset, y_offset, width, height = roi
    fields = {
        'header': Header(),
        'width': 1280,
        'height': 720,
        'distortion_model': model,
        'd': list(d),
        'k': [540.0, 0.0, 630.0, 0.0, 550.0, 365.0, 0.0, 0.0, 1.0],
        'r': np.ravel(np.eye(3) if r is None else r).tolist(),
        'p': [500.0, 0.0, 620.0, 0.0, 0.0, 505.0, 355.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        'binning_x': binning[0],
        'binning_y': binning[1],
        'roi': SimpleNamespace(
            x_offset=x_offset, y_offset=y_offset, width=width, height=height, do_rectify=False
        ),
    }
    return SimpleNamespace(**{**fields, **changes})


def test_a_pinhole_by_hand():
    camera = CameraModel.of_message(camera_info(), rectified=False)
    # Half a unit to the right at 2 units ahead: 540 * 0.25 right of the centre 630.
    assert camera.project(np.array([[0.5, 0, 2]])) == pytest.approx(np.array([[765, 365]]))
    assert camera.rays(np.array([[765, 365]])) == pytest.approx(np.array([[0.25, 0]]))
    assert camera.slopes(np.array([[0.1, 0.2]])) == pytest.approx(np.array([[[540, 0], [0, 550]]]))


def test_plumb_bob_by_hand():
    camera = CameraModel.of_message(camera_info(d=[-0.2, 0, 0, 0, 0]), rectified=False)
    # r = 0.5, so the ray is shortened by 1 - 0.2 * 0.25 = 0.95.
    assert camera.project(np.array([[0.5, 0, 1]])) == pytest.approx(
        np.array([[630 + 540 * 0.475, 365]])
    )


def test_equidistant_by_hand():
    camera = CameraModel.of_message(camera_info('equidistant', [0] * 4), rectified=False)
    # 45 degrees to the side arrive at pi / 4 times the focal length.
    assert camera.project(np.array([[3.0, 0, 3]])) == pytest.approx(
        np.array([[630 + 540 * np.pi / 4, 365]])
    )


def test_rectified_images_have_the_projection_matrix_and_no_distortion():
    camera = CameraModel.of_message(camera_info(d=WIDE_PLUMB_BOB), rectified=True)
    assert camera.project(np.array([[0.5, 0, 2]])) == pytest.approx(np.array([[745, 355]]))


def test_region_and_binning_by_hand():
    info = camera_info(roi=(200, 100, 800, 600), binning=(2, 4))
    camera = CameraModel.of_message(info, rectified=False)
    assert camera.expected_size == (400, 150)
    # (765, 365) of the full image.
    assert camera.project(np.array([[0.5, 0, 2]])) == pytest.approx(
        np.array([[(765 - 200) / 2, (365 - 100) / 4]])
    )
    rectified = CameraModel.of_message(info, rectified=True)
    assert rectified.project(np.array([[0.5, 0, 2]])) == pytest.approx(
        np.array([[(745 - 200) / 2, (355 - 100) / 4]])
    )


def test_no_region_and_no_binning_mean_the_whole_image():
    assert CameraModel.of_message(camera_info(), rectified=False).expected_size == (1280, 720)
    binned = camera_info(binning=(2, 1))
    assert CameraModel.of_message(binned, rectified=False).expected_size == (640, 720)


@pytest.mark.parametrize('lens', LENSES)
@settings(max_examples=30, deadline=None)
@given(
    rays=st.lists(st.tuples(st.floats(-1, 1), st.floats(-0.6, 0.6)), min_size=1, max_size=20),
    depth=st.floats(0.01, 100),
    roi=st.sampled_from([(0, 0, 0, 0), (120, 40, 1000, 640)]),
    binning=st.sampled_from([(0, 0), (1, 2), (4, 4)]),
    turn=st.floats(-0.1, 0.1),
)
def test_pixels_lead_back_to_the_points_they_show(lens, rays, depth, roi, binning, turn):
    model, d = LENSES[lens]
    rectification = cv2.Rodrigues(turn * np.array([0.3, 1.0, -0.2]))[0]
    info = camera_info(model, d, roi, binning, rectification)
    for rectified in (False, True):
        camera = CameraModel.of_message(info, rectified)
        points = depth * np.column_stack([rays, np.ones(len(rays))])
        image_points = camera.project(points)
        assert camera.rays(image_points) == pytest.approx(np.array(rays), abs=1e-6)


@pytest.mark.parametrize('lens', LENSES)
def test_every_pixel_of_a_wide_image_leads_back_to_itself(lens):
    camera = CameraModel.of_message(camera_info(*LENSES[lens]), rectified=False)
    columns, rows = np.meshgrid(np.linspace(0, 1279, 33), np.linspace(0, 719, 19))
    image_points = np.column_stack([columns.ravel(), rows.ravel()])
    rays = camera.rays(image_points)
    assert np.abs(rays[:, 0]).max() > 0.9  # truly wide
    again = camera.project(np.column_stack([rays, np.ones(len(rays))]))
    assert np.linalg.norm(again - image_points, axis=1).max() < 0.01


@pytest.mark.parametrize('lens', ['plumb_bob', 'equidistant'])
def test_raw_and_rectified_images_see_the_same_direction(lens):
    # As image_geometry finds the raw pixel of a rectified one.
    rectification = cv2.Rodrigues(np.array([0.02, -0.05, 0.03]))[0]
    info = camera_info(*LENSES[lens], r=rectification)
    rectified_points = np.array([[100.0, 80], [640, 360], [1200, 650]])
    rays = (rectified_points - (620, 355)) / (500, 505)
    project = cv2.fisheye.projectPoints if lens == 'equidistant' else cv2.projectPoints
    raw_points, _ = project(
        np.column_stack([rays, np.ones(3)])[:, None],
        cv2.Rodrigues(rectification.T)[0],
        np.zeros(3),
        np.reshape(info.k, (3, 3)),
        np.array(info.d),
    )
    raw, rectified = (CameraModel.of_message(info, rectified) for rectified in (False, True))
    assert raw.rays(raw_points[:, 0]) == pytest.approx(rectified.rays(rectified_points))


def test_nothing_is_seen_beyond_the_circle_where_a_lens_model_folds_over():
    # r - 0.3 r^3 grows up to r = sqrt(1 / 0.9) = 1.054, where it is 0.703: pixel 630 + 379.
    camera = CameraModel.of_message(camera_info(d=[-0.3, 0, 0, 0]), rectified=False)
    assert camera.reach == pytest.approx(1.054, abs=0.02)
    rays = camera.rays(np.array([[1005.0, 365], [1014, 365]]))
    assert np.isnan(rays[:, 0]).tolist() == [False, True]
    # A ray of 1.5 would come back to 630 + 540 * 0.4875, which is inside the image.
    assert np.isnan(camera.project(np.array([[1.0, 0, 1], [1.5, 0, 1]]))[:, 0]).tolist() == [
        False,
        True,
    ]


def test_no_ray_is_made_up_for_the_black_corners_of_a_lens():
    lens = [-0.32, 0.12, 0.001, -0.0005, -0.02]  # folds over at about 1.6
    camera = CameraModel.of_message(camera_info(d=lens), rectified=False)
    columns, rows = np.meshgrid(np.linspace(0, 1279, 65), np.linspace(0, 719, 37))
    image_points = np.column_stack([columns.ravel(), rows.ravel()])
    rays = camera.rays(image_points)
    visible = np.isfinite(rays[:, 0])
    assert 0.7 < visible.mean() < 0.99
    again = camera.project(np.column_stack([rays[visible], np.ones(visible.sum())]))
    assert np.linalg.norm(again - image_points[visible], axis=1).max() < 0.01
    # The corners are black, not the middle.
    distances = np.linalg.norm(image_points - (630, 365), axis=1)
    assert distances[~visible].min() > distances[visible].max() - 30


def test_points_behind_or_beside_the_camera_are_not_seen():
    for model, d in (('plumb_bob', []), ('equidistant', [0] * 4)):
        camera = CameraModel.of_message(camera_info(model, d), rectified=False)
        image_points = camera.project(np.array([[0, 0, 1.0], [0, 0, -1], [1, 0, 0], [0, 0, 0]]))
        assert np.isnan(image_points).any(axis=1).tolist() == [False, True, True, True]


def test_pixels_that_look_sideways_have_no_ray():
    # Beyond 90 degrees from the axis of a fisheye x / z has no meaning.
    camera = CameraModel.of_message(camera_info('equidistant', [0] * 4), rectified=False)
    edge = 540 * np.pi / 2
    rays = camera.rays(np.array([[630 + 0.9 * edge, 365], [630 + 1.1 * edge, 365]]))
    assert np.isnan(rays[:, 0]).tolist() == [False, True]


def test_no_points_are_no_problem():
    camera = CameraModel.of_message(camera_info(), rectified=False)
    assert camera.rays(np.empty((0, 2))).shape == (0, 2)
    assert camera.project(np.empty((0, 3))).shape == (0, 2)


def test_a_real_message_is_read():
    message = CameraInfo(width=1280, height=720, distortion_model='plumb_bob', d=WIDE_PLUMB_BOB)
    like = camera_info(d=WIDE_PLUMB_BOB)
    message.k, message.r, message.p = like.k, like.r, like.p
    points = np.array([[0.3, -0.2, 1.0]])
    assert CameraModel.of_message(message, False).project(points) == pytest.approx(
        CameraModel.of_message(like, False).project(points)
    )


def test_matrices_that_drivers_leave_out_do_nothing():
    info = camera_info('', [0.0] * 5, r=np.zeros((3, 3)))
    camera = CameraModel.of_message(info, rectified=False)
    assert camera.project(np.array([[0.5, 0, 2]])) == pytest.approx(np.array([[765, 365]]))


@pytest.mark.parametrize(
    ('changes', 'rectified', 'words'),
    [
        ({'k': [0.0] * 9}, False, 'no calibration.*in k.*camera_calibration'),
        ({'p': [0.0] * 12}, True, 'no calibration.*in p'),
        ({'k': [np.nan] * 9}, False, 'k in camera_info must be 9 finite numbers'),
        ({'p': [500.0] * 9}, True, 'p in camera_info must be 12 finite numbers'),
        ({'d': [np.inf, 0, 0, 0, 0]}, False, 'd in camera_info must be 0 or 4 or 5 finite'),
        ({'d': [0.1] * 8}, False, "must be 0 or 4 or 5.*'plumb_bob'.*calibrate the camera again"),
        ({'distortion_model': 'equidistant', 'd': [0.1] * 5}, False, 'must be 4 finite'),
        ({'distortion_model': '', 'd': [0.1]}, False, 'must be 0 finite'),
        ({'distortion_model': 'omni'}, False, "'omni': use one of plumb_bob, rational_poly"),
        ({'r': [2.0, 0, 0, 0, 1, 0, 0, 0, 1]}, False, 'r in camera_info is not a rotation matrix'),
        ({'width': 0}, False, 'describes 0 x 720 images'),
        ({'d': [0.1] * 1_000_000}, False, 'and 999980 more: calibrate the camera again'),
        ({'distortion_model': 'x' * 1_000_000}, False, "'xxx*': use one of plumb_bob"),
    ],
)
def test_unusable_calibrations_say_what_to_do_in_few_words(changes, rectified, words):
    with pytest.raises(CameraError, match=words) as refused:
        CameraModel.of_message(camera_info(**changes), rectified)
    assert len(str(refused.value)) < 500


def test_images_of_another_size_are_refused():
    camera = CameraModel.of_message(camera_info(), rectified=False)
    camera.check_image(1280, 720, 'left')
    with pytest.raises(CameraError, match=r'describes 1280 x 720 images, but .* 640 x 360: use'):
        camera.check_image(640, 360, 'left')


@pytest.mark.parametrize('rectified', [False, True])
def test_images_of_another_camera_are_refused(rectified):
    info = camera_info(header=Header(frame_id='left'))
    camera = CameraModel.of_message(info, rectified)
    for own in ('left', '/left', ''):  # with a slash in ROS 1; some drivers leave it empty
        camera.check_image(1280, 720, own)
    with pytest.raises(CameraError, match=r"of 'left', but .* from 'right': use"):
        camera.check_image(1280, 720, 'right')
