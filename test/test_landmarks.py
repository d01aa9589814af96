import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import homography_jacobian, warp_points
from niom_ros.core.settings import Limits, SettingsError
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import locate, Status, Verdict
from niom_ros.matching.offset_field import corrected, OffsetField
from niom_ros.matching.reference import Landmark
from niom_ros.stream.landmarks import place_landmarks, PlacedLandmark

REFERENCE = Box(0, 0, 400, 300)
IMAGE = Box(0, 0, 640, 480)
SHIFT = np.array([[1.0, 0, 100], [0, 1, 50], [0, 0, 1]])
UPRIGHT = cv2.getPerspectiveTransform(
    REFERENCE.corners().astype(np.float32),
    np.float32([[100, 80], [500, 100], [480, 400], [110, 380]]),
)
MODES = ('global', 'local')


def flat(reference_points):
    """Return how far a flat picture deviates from its homography."""
    return np.zeros_like(reference_points)


def raised_box(reference_points):
    """Move a box in the middle of the picture 12 pixels to the right, as seen from a side."""
    x, y = reference_points.T
    on_it = (x > 130) & (x < 270) & (y > 90) & (y < 210)
    return np.outer(on_it, [12.0, 0.0])


def bent(reference_points):
    """Bend the picture in waves 6 pixels high and 300 long."""
    x, y = reference_points.T * 2 * np.pi / 300
    return 6 * np.column_stack([np.sin(y), np.cos(x)])


def matched(homography, shape=flat, count=150, noise=1.0, outliers=0.3, seed=0, area=REFERENCE):
    """Return noisy matches of an object, a share of them wrong."""
    random = np.random.default_rng(seed)
    reference_points = random.uniform(
        (area.left, area.top), (area.left + area.width, area.top + area.height), (count, 2)
    )
    image_points = warp_points(homography, reference_points) + shape(reference_points)
    image_points += random.normal(0, noise, (count, 2))
    wrong = random.random(count) < outliers
    image_points[wrong] = random.uniform((0, 0), (IMAGE.width, IMAGE.height), (wrong.sum(), 2))
    return Correspondences(
        reference_points.astype(np.float32),
        image_points.astype(np.float32),
        np.ones(count, np.float32),
    )


def located(correspondences):
    verdict = locate(correspondences, REFERENCE, REFERENCE.area, IMAGE, Limits())
    assert verdict.status is Status.OK, verdict.message
    return verdict


def found(homography, inliers, confidence=0.8):
    return Verdict(Status.OK, '', inliers, homography, confidence)


def place(points, correspondences, verdict, mode):
    """Return the places and deviations of points, as arrays."""
    landmarks = tuple(Landmark(str(i), float(x), float(y)) for i, (x, y) in enumerate(points))
    placed = place_landmarks(landmarks, correspondences, verdict, 640, 480, mode, 4.0)
    assert [landmark.name for landmark in placed] == [landmark.name for landmark in landmarks]
    return (
        np.array([[landmark.x, landmark.y] for landmark in placed]).reshape(-1, 2),
        np.array([landmark.deviation for landmark in placed]),
    )


def grid(spacing=30):
    """Return landmarks all over the reference."""
    columns, rows = np.meshgrid(np.arange(20, 390, spacing), np.arange(20, 290, spacing))
    return np.column_stack([columns.ravel(), rows.ravel()]).astype(float)


def errors(found_points, true_points):
    return np.linalg.norm(found_points - true_points, axis=1)


@pytest.mark.parametrize('mode', MODES)
def test_a_shifted_picture_by_hand(mode):
    exact = matched(SHIFT, noise=0, outliers=0)
    verdict = found(SHIFT, np.ones(150, bool))
    (hole,) = place_landmarks((Landmark('hole', 20, 30),), exact, verdict, 640, 480, mode, 4.0)
    assert (hole.name, hole.inside) == ('hole', True)
    assert (hole.x, hole.y) == pytest.approx((120, 80), abs=1e-3)
    # Exact matches may still share an error of some tenths of a pixel.
    assert 0.1 < hole.deviation < 1
    assert hole.confidence == pytest.approx(0.8 / (1 + (hole.deviation / 4) ** 2))


@pytest.mark.parametrize('mode', MODES)
def test_nothing_is_placed_unless_the_reference_was_found(mode):
    matches = matched(SHIFT)
    lost = Verdict(Status.LOW_CONFIDENCE, '', np.ones(150, bool), None, 0.3)
    hole = (Landmark('hole', 20, 30),)
    assert place_landmarks(hole, matches, lost, 640, 480, mode, 4.0) == ()
    seen = found(SHIFT, np.ones(150, bool))
    assert place_landmarks((), matches, seen, 640, 480, mode, 4.0) == ()


def test_an_unknown_mode_is_refused():
    verdict = found(SHIFT, np.ones(150, bool))
    with pytest.raises(SettingsError, match="'nearby': use one of auto, global, local"):
        place_landmarks((), matched(SHIFT), verdict, 640, 480, 'nearby', 4.0)


def test_pixels_end_half_a_pixel_beside_their_centres():
    exact = matched(SHIFT, noise=0, outliers=0)
    verdict = found(SHIFT, np.ones(150, bool))
    edges = {-100.4: True, -100.6: False, 539.4: True, 539.6: False}
    for x, inside in edges.items():
        (placed,) = place_landmarks((Landmark('', x, 9),), exact, verdict, 640, 480, 'global', 4.0)
        assert placed.inside is inside, x


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('sign', [1, -1])
def test_landmarks_behind_the_camera_cannot_be_seen(mode, sign):
    horizon = np.array([[1.0, 0, 0], [0, 1, 0], [-0.004, 0, 1]])  # at x = 250
    matches = matched(horizon, outliers=0, area=Box(0, 0, 200, 300))
    verdict = found(sign * horizon, np.ones(150, bool))
    landmarks = tuple(Landmark(name, x, 100) for name, x in (('near', 100), ('far', 300)))
    near, far = place_landmarks(landmarks, matches, verdict, 640, 480, mode, 4.0)
    assert (near.x, near.y) == pytest.approx((100 / 0.6, 100 / 0.6), abs=1)
    assert np.isnan([far.x, far.y]).all()
    assert (far.name, far.confidence, far.inside) == ('far', 0.0, False)


@pytest.mark.parametrize('mode', MODES)
def test_with_too_few_inliers_nothing_is_certain(mode):
    inliers = np.arange(150) < 3
    verdict = found(SHIFT, inliers)
    (placed,) = place_landmarks(
        (Landmark('hole', 20, 30),), matched(SHIFT), verdict, 640, 480, mode, 4.0
    )
    assert placed == PlacedLandmark('hole', 120.0, 80.0, np.inf, 0.0, True, False)


@pytest.mark.parametrize('count', [4, 6, 8, 20])
@pytest.mark.parametrize('mode', MODES)
def test_few_matches_are_enough(mode, count):
    matches = matched(UPRIGHT, count=count, noise=0.5, outliers=0)
    verdict = found(UPRIGHT, np.ones(count, bool))
    points, deviations = place(grid(), matches, verdict, mode)
    assert errors(points, warp_points(UPRIGHT, grid())).max() < 2
    assert np.isfinite(deviations).all()


def test_the_deviation_predicts_the_spread_near_and_far_from_the_matches():
    landmarks = np.array([[80.0, 80], [200, 150], [390, 290]])
    area = Box(20, 20, 150, 150)  # the matches cover one corner of the reference only
    squares, deviations = [], []
    for seed in range(200):
        matches = matched(UPRIGHT, count=60, noise=1.5, outliers=0, seed=seed, area=area)
        homography, _ = cv2.findHomography(matches.reference_points, matches.image_points)
        placed, deviation = place(
            landmarks, matches, found(homography, np.ones(60, bool)), 'global'
        )
        squares.append(errors(placed, warp_points(UPRIGHT, landmarks)) ** 2)
        deviations.append(deviation)
    spread, predicted = np.sqrt(np.mean(squares, axis=0)), np.median(deviations, axis=0)
    # The deviation is that of the worst direction, so between 1 and 1.4 times is right.
    assert (spread < 1.5 * predicted).all()
    assert (spread > 0.6 * predicted).all()
    assert predicted[0] < 1 < predicted[1] < predicted[2]
    assert predicted[2] > 5


def test_the_jacobian_is_what_small_changes_do():
    homography = UPRIGHT / UPRIGHT[2, 2]
    points = np.array([[20.0, 30], [350, 200]])
    jacobian = homography_jacobian(homography, points)
    for index in range(8):
        step = np.zeros(9)
        step[index] = 1e-7
        ahead, behind = homography + step.reshape(3, 3), homography - step.reshape(3, 3)
        change = (warp_points(ahead, points) - warp_points(behind, points)) / 2e-7
        assert jacobian[:, :, index] == pytest.approx(change, rel=1e-4, abs=1e-3)


def test_matches_at_a_landmark_replace_the_homography_by_hand():
    # 16 matches at one place say: 5 pixels further right. They are all that counts there, so the
    # homography's deviation of 10 does not, but the error of 0.3 that they share does.
    field = OffsetField(np.full((16, 2), 50.0), np.tile([5.0, 0.0], (16, 1)), 0.09, 25.0, 100.0)
    points, deviations = corrected(np.array([[50.0, 50.0]]), np.array([10.0]), field, 4.0)
    assert points == pytest.approx(np.array([[55, 50]]), abs=0.01)
    assert deviations == pytest.approx(np.array([np.sqrt(0.09 + 0.09 / 16)]), abs=0.01)


def test_local_is_global_for_a_flat_picture():
    for seed in range(5):
        matches = matched(UPRIGHT, seed=seed)
        verdict = located(matches)
        everywhere, _ = place(grid(), matches, verdict, 'global')
        nearby, _ = place(grid(), matches, verdict, 'local')
        assert errors(everywhere, warp_points(UPRIGHT, grid())).max() < 1
        # Both are closer to each other than any single match, with its noise of 1, to either.
        assert errors(nearby, everywhere).max() < 1
        assert np.median(errors(nearby, everywhere)) < 0.2


def test_local_follows_a_part_that_stands_out():
    matches = matched(UPRIGHT, raised_box, count=400)
    verdict = located(matches)
    on_the_box = np.array([[160.0, 120], [200, 150], [240, 180]])
    beside_it = np.array([[60.0, 60], [340, 150], [60, 240]])
    for landmarks in (on_the_box, beside_it):
        truth = warp_points(UPRIGHT, landmarks) + raised_box(landmarks)
        nearby, _ = place(landmarks, matches, verdict, 'local')
        assert errors(nearby, truth).max() < 4
    truth = warp_points(UPRIGHT, on_the_box) + raised_box(on_the_box)
    everywhere, _ = place(on_the_box, matches, verdict, 'global')
    assert errors(everywhere, truth).min() > 10


def test_local_follows_a_bent_picture_and_knows_better_how_certain_it_is():
    matches = matched(UPRIGHT, bent, count=300)
    verdict = located(matches)
    truth = warp_points(UPRIGHT, grid()) + bent(grid())
    everywhere, uncertain = place(grid(), matches, verdict, 'global')
    nearby, certain = place(grid(), matches, verdict, 'local')
    assert np.median(errors(nearby, truth)) < 2
    assert np.median(errors(everywhere, truth)) > 4
    # Both estimate their own error about right.
    for placed, deviations in ((everywhere, uncertain), (nearby, certain)):
        squares = errors(placed, truth) ** 2 / 2 / deviations**2
        assert 0.1 < squares.mean() < 2
    assert np.median(certain) < np.median(uncertain) / 2


def test_local_falls_back_on_the_homography_where_there_are_no_matches():
    left = Box(0, 0, 120, 300)
    matches = matched(SHIFT, lambda points: np.full_like(points, 3.0), area=left, outliers=0)
    verdict = found(SHIFT, np.ones(150, bool))
    points, deviations = place(np.array([[60.0, 150], [2000, 150]]), matches, verdict, 'local')
    assert points[0] == pytest.approx((163, 203), abs=0.5)
    assert points[1] == pytest.approx((2100, 200), abs=0.5)
    assert deviations[0] < 1.5
    assert deviations[1] > 3


@pytest.mark.parametrize('mode', MODES)
def test_a_second_such_object_does_not_disturb(mode):
    one = matched(SHIFT @ np.diag([0.5, 0.5, 1.0]), count=150, outliers=0)
    other = matched(
        np.array([[1.0, 0, 400], [0, 1, 50], [0, 0, 1]]) @ np.diag([0.5, 0.5, 1.0]),
        count=100,
        outliers=0,
        seed=1,
    )
    both = Correspondences(
        np.concatenate([one.reference_points, other.reference_points]),
        np.concatenate([one.image_points, other.image_points]),
        np.ones(250, np.float32),
    )
    verdict = located(both)
    points, deviations = place(grid(), both, verdict, mode)
    assert errors(points, grid() / 2 + (100, 50)).max() < 1
    assert deviations.max() < 1


@settings(max_examples=30, deadline=None)
@given(
    mode=st.sampled_from(MODES),
    x=st.floats(-200, 200),
    y=st.floats(-200, 200),
    turns=st.integers(0, 3),
    factor=st.sampled_from([1.0, -1.0, 0.01]),
    seed=st.integers(0, 1000),
)
def test_moving_the_image_moves_the_landmarks(mode, x, y, turns, factor, seed):
    matches = matched(UPRIGHT, bent, outliers=0.1, seed=seed)
    inliers = errors(matches.image_points, warp_points(UPRIGHT, matches.reference_points)) < 12
    turn = np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), turns)
    motion = np.eye(3)
    motion[:2] = np.column_stack([turn, [x, y]])
    moved = Correspondences(
        matches.reference_points, matches.image_points @ turn.T + (x, y), matches.scores
    )
    points, deviations = place(grid(60), matches, found(UPRIGHT, inliers), mode)
    # A homography times any number is the same one.
    again, same = place(grid(60), moved, found(factor * motion @ UPRIGHT, inliers), mode)
    assert again == pytest.approx(warp_points(motion, points), abs=0.01)
    assert same == pytest.approx(deviations, rel=0.01)
