import cv2
from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.uncertainty import ViewUncertainty
from niom_ros.simulation.virtual_scene import VirtualScene
from niom_ros.stream import pose as pose_module
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.pose import difference, Placement, Pose

SIZE = 600, 400
WIDTH = 0.3  # metres
MATRIX = np.array([[900.0, 0, 640], [0, 900, 360], [0, 0, 1]])
PINHOLE = CameraModel((1280, 720), MATRIX, np.zeros(0))
WIDE = CameraModel((1280, 720), MATRIX, np.array([-0.2, 0.05, 0.001, -0.001, 0.0]))
FISHEYE = CameraModel((1280, 720), MATRIX, np.array([-0.02, 0.01, -0.005, 0.001]), fisheye=True)


def rotated(x=0.0, y=0.0, z=0.0):
    """Return the rotation by a vector whose length is the angle in degrees."""
    return cv2.Rodrigues(np.radians([x, y, z]))[0]


def tilted(degrees, random):
    """Return the rotation of a picture tilted about a random line in its plane."""
    azimuth, roll = random.uniform(0, 2 * np.pi, 2)
    axis = degrees * np.array([np.cos(azimuth), np.sin(azimuth)])
    return rotated(*axis) @ rotated(z=np.degrees(roll))


def seen(reference_points, placement, camera=PINHOLE):
    """Return where points of the picture appear."""
    middle = (np.array(SIZE) - 1) / 2
    plane = (reference_points - middle) * WIDTH / SIZE[0]
    points = np.column_stack([plane, np.zeros(len(plane))])
    return camera.project(points @ placement.rotation.T + placement.translation)


def random_points(count, random):
    return random.uniform((0, 0), np.array(SIZE) - 1, (count, 2))


def find_pose(reference_points, image_points, size, width, camera):
    """Return the pose of points whose homography is that of least squares."""
    known, seen_at = (
        np.where(np.isfinite(points), points, 0) for points in (reference_points, image_points)
    )
    fitted = cv2.findHomography(known, seen_at)[0] if len(known) >= 4 else None
    view = np.eye(3) if fitted is None else fitted
    uncertainty = ViewUncertainty.of_points(view, Box(0, 0, *size), known, seen_at)
    return pose_module.find_pose(reference_points, image_points, size, width, camera, uncertainty)


def noisy_pose(placement, count, noise, random):
    reference_points = random_points(count, random)
    image_points = seen(reference_points, placement) + random.normal(0, noise, (count, 2))
    return find_pose(reference_points, image_points, SIZE, WIDTH, PINHOLE)


def placement_of(pose):
    return Placement(pose.rotation, pose.translation)


def squared_error(pose, truth):
    """Return the squared error in units of the covariance; its mean is 6 if that is right."""
    apart = difference(placement_of(pose), truth)
    return apart @ np.linalg.solve(pose.covariance, apart)


def angle(pose, truth):
    return np.degrees(np.linalg.norm(difference(pose, truth)[3:]))


def test_a_picture_straight_ahead_by_hand():
    # 600 pixels are 0.3 m wide, so 2000 a metre; at 900 pixels per radian and 0.45 m also 2000.
    corners = Box(0, 0, *SIZE).corners()
    image_points = corners - (299.5, 199.5) + (640, 360)
    pose = find_pose(corners, image_points, SIZE, WIDTH, PINHOLE)
    assert pose.translation == pytest.approx([0, 0, 0.45], abs=1e-6)
    assert pose.rotation == pytest.approx(np.eye(3), abs=1e-4)
    assert pose.quaternion == pytest.approx((0, 0, 0, 1), abs=1e-4)
    assert pose.error < 1e-6


def test_z_leads_into_the_picture():
    # The right edge is further away, so it appears shorter than the left one.
    corners = Box(0, 0, *SIZE).corners()
    image_points = np.array([[440, 160], [840, 220], [840, 500], [440, 560]])
    pose = find_pose(corners, image_points, SIZE, WIDTH, PINHOLE)
    to_the_right, _, into = pose.rotation.T
    assert to_the_right[2] > 0.3
    assert into[0] < -0.3
    assert into[2] > 0


@pytest.mark.parametrize(
    ('vector', 'quaternion'),
    [
        ((0, 0, 90), (0, 0, 0.5**0.5, 0.5**0.5)),
        ((0, -60, 0), (0, -0.5, 0, 0.75**0.5)),
        ((180, 0, 0), (1, 0, 0, 0)),
        ((0, 0, 0), (0, 0, 0, 1)),
        ((0, 0, 270), (0, 0, -(0.5**0.5), 0.5**0.5)),
    ],
)
def test_quaternions_by_hand(vector, quaternion):
    pose = Pose(rotated(*vector), np.zeros(3), np.eye(6), 0.0, 0.0)
    assert pose.quaternion == pytest.approx(quaternion, abs=1e-7)


# Upside down, where OpenCV's solver loses a solution.
@example(tilt=17.5, azimuth=1.0, roll=180.0, x=0.0, y=0.0, z=1.0, camera=PINHOLE, seed=0)
@settings(max_examples=60, deadline=None)
@given(
    tilt=st.floats(0, 60),
    azimuth=st.floats(0, 2 * np.pi),
    roll=st.floats(-180, 180),
    x=st.floats(-0.25, 0.25),
    y=st.floats(-0.15, 0.15),
    z=st.floats(0.5, 1.5),
    camera=st.sampled_from([PINHOLE, WIDE, FISHEYE]),
    seed=st.integers(0, 1000),
)
def test_exact_points_give_the_exact_pose(tilt, azimuth, roll, x, y, z, camera, seed):
    rotation = rotated(tilt * np.cos(azimuth), tilt * np.sin(azimuth)) @ rotated(z=roll)
    truth = Placement(rotation, np.array([x, y, z]))
    reference_points = random_points(20, np.random.default_rng(seed))
    image_points = seen(reference_points, truth, camera)
    pose = find_pose(reference_points, image_points, SIZE, WIDTH, camera)
    assert pose.error < 0.001
    assert pose.rotation == pytest.approx(truth.rotation, abs=1e-3)
    assert pose.translation == pytest.approx(truth.translation, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    tilt=st.floats(0, 70),
    z=st.floats(0.4, 20),
    noise=st.floats(0, 3),
    count=st.integers(6, 40),
    seed=st.integers(0, 1000),
)
def test_the_covariance_is_positive_definite(tilt, z, noise, count, seed):
    random = np.random.default_rng(seed)
    truth = Placement(tilted(tilt, random), np.array([0.02, 0.01, z]))
    pose = noisy_pose(truth, count, noise, random)
    if pose is None:
        return  # so small that noise hides its shape
    assert (pose.covariance == pose.covariance.T).all()
    assert np.linalg.eigvalsh(pose.covariance).min() > 0
    # No axis is more uncertain than an arbitrary rotation.
    assert np.diag(pose.covariance)[3:].max() <= np.pi**2 * 2
    assert 0 <= pose.ambiguity <= 1
    assert (pose.ambiguity > 0) == (pose.alternative is not None)


def test_the_demo_scene_is_where_it_was_rendered():
    scene = VirtualScene(np.zeros((400, 600, 3), np.uint8), np.zeros((9, 9, 3), np.uint8))
    matrix = np.array([[576.0, 0, 319.5], [0, 576, 239.5], [0, 0, 1]])
    camera = CameraModel((640, 480), matrix, np.zeros(0))
    reference_points = random_points(30, np.random.default_rng(0))
    for seconds in range(8):
        image_points = warp_points(scene.picture_to_image(seconds), reference_points)
        pose = find_pose(reference_points, image_points, SIZE, 1.0, camera)
        distance = 1.5 + 0.35 * np.sin(0.6 * seconds)  # in widths of the picture
        sideways = 0.10 * np.sin(0.8 * seconds)
        assert pose.translation[2] == pytest.approx(distance, abs=1e-5)
        assert pose.translation[0] == pytest.approx(sideways, abs=1e-5)
        assert pose.error < 1e-6


def test_a_picture_twice_as_wide_is_twice_as_far():
    random = np.random.default_rng(0)
    reference_points = random_points(30, random)
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.8]))
    image_points = seen(reference_points, truth) + random.normal(0, 1, (30, 2))
    small, large = (
        find_pose(reference_points, image_points, SIZE, width, PINHOLE)
        for width in (WIDTH, 2 * WIDTH)
    )
    assert large.translation == pytest.approx(2 * small.translation)
    assert large.rotation == pytest.approx(small.rotation)
    ratio = large.covariance / small.covariance
    assert ratio[:3, :3] == pytest.approx(np.full((3, 3), 4))
    assert ratio[:3, 3:] == pytest.approx(np.full((3, 3), 2))
    assert ratio[3:, 3:] == pytest.approx(np.ones((3, 3)))


@pytest.mark.parametrize(
    ('tilt', 'distance', 'count'), [(35, 0.6, 20), (10, 0.8, 40), (45, 1.5, 12)]
)
def test_the_covariance_predicts_the_spread(tilt, distance, count):
    random = np.random.default_rng(0)
    squares = []
    for _ in range(150):
        truth = Placement(tilted(tilt, random), np.array([0.05, -0.03, distance]))
        squares.append(squared_error(noisy_pose(truth, count, 1.5, random), truth))
    # 6 if it is exact; less because of the error that real matches share, and these do not.
    assert 3 < np.mean(squares) < 8


def test_more_matches_do_not_make_it_certain_without_end():
    # Matches that agree exactly may still all be half a pixel aside: 0.25 mm at half a metre.
    reference_points = random_points(5000, np.random.default_rng(0))
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.45]))
    pose = find_pose(reference_points, seen(reference_points, truth), SIZE, WIDTH, PINHOLE)
    assert 0.00005 < np.sqrt(pose.covariance[0, 0]) < 0.00025


@pytest.mark.parametrize('camera', [PINHOLE, WIDE, FISHEYE])
def test_no_other_pose_nearby_explains_the_points_better(camera):
    random = np.random.default_rng(0)
    reference_points = random_points(30, random)
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.6]))
    image_points = seen(reference_points, truth, camera) + random.normal(0, 2, (30, 2))
    pose = find_pose(reference_points, image_points, SIZE, WIDTH, camera)

    def error(placement):
        offsets = seen(reference_points, placement, camera) - image_points
        return np.sqrt((offsets**2).sum(axis=1).mean())

    assert pose.error == pytest.approx(error(placement_of(pose)), abs=0.001)
    assert pose.error < error(truth)
    for step in np.concatenate([np.eye(6), -np.eye(6)]) * 0.0001:  # of a metre, of a radian
        rotation = cv2.Rodrigues(step[3:])[0] @ pose.rotation
        assert error(Placement(rotation, pose.translation + step[:3])) > pose.error


def test_no_rotation_is_more_uncertain_than_half_a_turn():
    # A picture 7 pixels wide: its tilt cannot be measured at all, but its roll can.
    reference_points = random_points(20, np.random.default_rng(0))
    truth = Placement(np.eye(3), np.array([0.0, 0.0, 40.0]))
    pose = find_pose(reference_points, seen(reference_points, truth), SIZE, WIDTH, PINHOLE)
    about_x, about_y, about_z = np.sqrt(np.diag(pose.covariance)[3:])
    assert (about_x, about_y) == pytest.approx((np.pi, np.pi), rel=0.1)
    assert about_z < 0.1


def test_a_near_picture_is_not_ambiguous():
    random = np.random.default_rng(0)
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.5]))
    pose = noisy_pose(truth, 60, 1.0, random)
    assert pose.ambiguity < 0.2
    assert angle(placement_of(pose), truth) < 1
    # A standard deviation of a degree at most.
    assert np.sqrt(np.diag(pose.covariance)[3:]).max() < np.radians(1)


def test_a_far_picture_may_be_tilted_either_way_and_the_covariance_says_so():
    random = np.random.default_rng(0)
    flips = 0
    for _ in range(60):
        truth = Placement(tilted(30, random), np.array([0.1, 0.1, 6.0]))  # 45 pixels wide
        pose = noisy_pose(truth, 40, 1.0, random)
        assert pose.ambiguity > 0.8
        best, other = angle(placement_of(pose), truth), angle(pose.alternative, truth)
        assert min(best, other) < 20
        # 22.5 is exceeded once in a thousand times if the covariance is right.
        assert squared_error(pose, truth) < 22.5
        assert np.sqrt(np.diag(pose.covariance)[3:].sum()) > np.radians(10)
        if other < best:
            flips += 1
            assert best > 30
    assert 10 < flips < 40  # neither pose is always right: it is truly ambiguous


def test_the_back_of_a_picture_is_no_pose():
    reference_points = random_points(30, np.random.default_rng(0))
    behind = Placement(rotated(y=170), np.array([0, 0, 0.6]))
    image_points = seen(reference_points, behind)
    assert np.isfinite(image_points).all()
    assert find_pose(reference_points, image_points, SIZE, WIDTH, PINHOLE) is None


def test_points_that_tell_no_pose():
    random = np.random.default_rng(0)
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.8]))

    def pose_from(reference_points, image_points=None):
        if image_points is None:
            image_points = seen(reference_points, truth)
        return find_pose(reference_points, image_points, SIZE, WIDTH, PINHOLE)

    points = random_points(10, random)
    image_points = seen(points, truth)
    assert pose_from(points) is not None
    assert pose_from(points[:4]) is not None
    assert pose_from(points[:3]) is None
    assert pose_from(points[:0]) is None
    assert pose_from(np.column_stack([np.arange(10) * 20, np.arange(10) * 10])) is None
    assert pose_from(np.full((10, 2), 7.0)) is None
    assert pose_from(points, np.full((10, 2), 7.0)) is None
    assert pose_from(points, np.column_stack([np.arange(10), np.arange(10)])) is None
    for value in (np.nan, np.inf):
        broken = image_points.copy()
        broken[3, 1] = value
        assert pose_from(points, broken) is None
        assert pose_from(broken, image_points) is None


def test_pixels_that_show_nothing_are_left_out():
    # Beyond 0.703 times the focal length from its centre this lens shows nothing.
    camera = CameraModel((1280, 720), MATRIX, np.array([-0.3, 0, 0, 0]))
    reference_points = random_points(30, np.random.default_rng(0))
    truth = Placement(rotated(20, 25, 5), np.array([0.05, 0.02, 0.8]))
    image_points = seen(reference_points, truth, camera)
    image_points[:3] = [[1279, 719], [0, 0], [1279, 0]]
    pose = find_pose(reference_points, image_points, SIZE, WIDTH, camera)
    assert angle(placement_of(pose), truth) < 0.01


def test_a_width_that_cannot_be_is_refused():
    for width in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match='must be positive'):
            find_pose(np.zeros((4, 2)), np.zeros((4, 2)), SIZE, width, PINHOLE)
