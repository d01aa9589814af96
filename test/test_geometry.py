from dataclasses import replace

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.matching.checks import Checks
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import (
    corner_error,
    Evidence,
    hull_area,
    implausibility,
    in_front,
    jacobian,
    locate,
    measure,
    Status,
    Verdict,
)
from niom_ros.matching.strategies.ink_judgement import InkChecks

REFERENCE = Box(0, 0, 400, 300)
IMAGE = Box(0, 0, 640, 480)


def correspondences_under(homography, count=80, noise=0.0, outliers=0, seed=0):
    random = np.random.default_rng(seed)
    reference_points = random.uniform(
        (0, 0), (REFERENCE.width, REFERENCE.height), (count + outliers, 2)
    )
    image_points = warp_points(homography, reference_points)
    image_points += random.normal(0, noise, image_points.shape)
    image_points[count:] = random.uniform((0, 0), (IMAGE.width, IMAGE.height), (outliers, 2))
    scores = np.linspace(1, 0.1, count + outliers)
    return Correspondences(
        reference_points.astype(np.float32),
        image_points.astype(np.float32),
        scores.astype(np.float32),
    )


def homography_to(quadrilateral):
    return cv2.getPerspectiveTransform(
        REFERENCE.corners().astype(np.float32), np.float32(quadrilateral)
    )


UPRIGHT = homography_to([[100, 80], [500, 100], [480, 400], [110, 380]])
MIRRORED = [[500, 100], [100, 80], [110, 380], [480, 400]]
FOLDED = [[100, 80], [480, 400], [500, 100], [110, 380]]


def test_warp_points_by_hand():
    # w = 1 + 0.01 * x, so (100, 50) is halved.
    homography = np.array([[1, 0, 0], [0, 1, 0], [0.01, 0, 1]])
    assert warp_points(homography, np.array([[100, 50]])).tolist() == [[50, 25]]


def test_corners_are_pixel_centres_clockwise():
    assert Box(0, 0, 4, 3).corners().tolist() == [[0, 0], [3, 0], [3, 2], [0, 2]]
    assert Box(10, 20, 4, 3).corners().tolist() == [[10, 20], [13, 20], [13, 22], [10, 22]]


def test_corner_error_by_hand():
    moved = np.array([[1, 0, 3], [0, 1, 4], [0, 0, 1]])
    assert corner_error(moved, np.eye(3), REFERENCE) == pytest.approx(5)
    assert corner_error(UPRIGHT, UPRIGHT, REFERENCE) == 0


def test_the_part_of_a_picture_by_hand():
    picture = np.arange(12).reshape(3, 4)
    assert Box(1, 0, 2, 2).part_of(picture).tolist() == [[1, 2], [5, 6]]


def test_hull_area_by_hand():
    square_with_a_point_inside = np.array([[0, 0], [10, 0], [10, 10], [0, 10], [5, 5]])
    assert hull_area(square_with_a_point_inside) == 100
    assert hull_area(np.array([[0, 0], [3, 3]])) == 0


def test_exact_correspondences_give_the_homography():
    verdict = locate(correspondences_under(UPRIGHT), REFERENCE, REFERENCE.area, IMAGE, Limits())
    assert verdict.status is Status.OK
    assert corner_error(verdict.reference_to_image, UPRIGHT, REFERENCE) < 0.01
    assert verdict.inliers.all()
    assert verdict.confidence == pytest.approx(80 / (80 + Limits().min_inliers))
    assert verdict.checks.inlier_ratio == 1
    assert 0.8 < verdict.checks.coverage <= 1
    # The quadrilateral is about 382 x 300 of 640 x 480 pixels.
    assert verdict.checks.area_ratio == pytest.approx(0.37, abs=0.02)


def test_half_of_the_matches_may_be_wrong():
    found = locate(
        correspondences_under(UPRIGHT, count=60, noise=1.0, outliers=60),
        REFERENCE,
        REFERENCE.area,
        IMAGE,
        Limits(),
    )
    assert found.status is Status.OK
    assert corner_error(found.reference_to_image, UPRIGHT, REFERENCE) < 2
    assert found.inliers[:60].mean() > 0.9
    assert found.inliers[60:].mean() < 0.1


@settings(max_examples=40, deadline=None)
@given(
    shifts=st.lists(st.floats(-60, 60), min_size=8, max_size=8),
    scale=st.floats(0.3, 1.2),
    angle=st.floats(-np.pi, np.pi),
)
def test_any_camera_view_is_recovered(shifts, scale, angle):
    centre = (REFERENCE.corners() - REFERENCE.corners().mean(axis=0)) * scale
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # Corners move by up to a quarter of the shorter side: always convex, never mirrored.
    seen = centre @ turn.T + np.array(shifts).reshape(4, 2) * scale + (320, 240)
    truth = homography_to(seen)
    found = locate(correspondences_under(truth), REFERENCE, REFERENCE.area, IMAGE, Limits())
    assert found.status is Status.OK, found.message
    assert corner_error(found.reference_to_image, truth, REFERENCE) < 0.1


@pytest.mark.parametrize(
    ('quadrilateral', 'words'),
    [
        (MIRRORED, 'no view'),  # the estimator itself drops these
        (FOLDED, 'fold|behind'),
        ([[300, 200], [306, 200], [306, 205], [300, 205]], 'times the image'),
        ([[300, 100], [340, 239], [340, 241], [300, 380]], 'stretch|as large as|behind'),
    ],
)
def test_views_that_no_camera_has_are_rejected(quadrilateral, words):
    verdict = locate(
        correspondences_under(homography_to(quadrilateral)),
        REFERENCE,
        REFERENCE.area,
        IMAGE,
        Limits(reprojection_error=1.0),
    )
    assert verdict.status is Status.REJECTED_GEOMETRY
    assert verdict.reference_to_image is None
    assert any(word in verdict.message for word in words.split('|')), verdict.message


def test_mirrored_views_are_recognised_whatever_estimator_made_them():
    plausible = Checks(
        agreeing=40,
        inlier_ratio=0.8,
        coverage=0.9,
        area_ratio=0.4,
        corner_deviation=14.0,
        stretch=2.0,
        perspective=2.0,
    )
    mirrored = homography_to(MIRRORED)
    none = np.zeros(0, bool)
    assert 'mirrored' in implausibility(Evidence(none, mirrored, plausible), REFERENCE, Limits())
    assert implausibility(Evidence(none, UPRIGHT, plausible), REFERENCE, Limits()) == ''


def test_ink_has_checks_of_its_own_between_those_of_every_view():
    none = np.zeros(0, bool)
    good = InkChecks(
        agreeing=40,
        inlier_ratio=0.8,
        coverage=0.01,
        area_ratio=0.4,
        corner_deviation=14.0,
        stretch=2.0,
        perspective=2.0,
        ink_on_edges=0.9,
        sharpness=1.1,
        size=0.5,
        corner_uncertainty=0.01,
        contrast=0.6,
    )
    for checks, words in (
        (good, 'span only 1.0%'),
        (replace(good, corner_uncertainty=0.03), 'may be 14 pixels off: set its region'),
        (replace(good, corner_uncertainty=0.03, ink_on_edges=0.7), 'the ink lies on edges that'),
        (replace(good, ink_on_edges=0.7, stretch=9.0), 'stretch the reference 9 times'),
    ):
        assert words in implausibility(Evidence(none, UPRIGHT, checks), REFERENCE, Limits())


def test_a_part_behind_the_camera_is_rejected():
    behind = np.array([[1, 0, 0], [0, 1, 0], [-0.004, 0, 1]])  # w < 0 beyond x = 250
    points = correspondences_under(behind, count=200)
    in_front = points.reference_points[:, 0] < 200
    seen = Correspondences(
        points.reference_points[in_front], points.image_points[in_front], points.scores[in_front]
    )
    verdict = locate(seen, REFERENCE, REFERENCE.area, IMAGE, Limits())
    assert verdict.status is Status.REJECTED_GEOMETRY
    assert 'behind the camera' in verdict.message


def test_agreement_in_one_spot_only_is_rejected():
    points = correspondences_under(UPRIGHT, count=80)
    small = points.reference_points * 0.15
    spot = Correspondences(small, warp_points(UPRIGHT, small).astype(np.float32), points.scores)
    verdict = locate(spot, REFERENCE, REFERENCE.area, IMAGE, Limits())
    assert verdict.status is Status.REJECTED_GEOMETRY
    assert 'span only' in verdict.message


def test_few_exact_points_say_nothing_about_the_corners():
    for count, known in ((4, False), (8, False), (30, True)):
        found = correspondences_under(UPRIGHT, count=count)
        everything = np.ones(len(found), bool)
        checks = measure(UPRIGHT, found, everything, REFERENCE, REFERENCE.area, IMAGE)
        assert (checks.corner_deviation < 5) == known, count


def test_few_matches_and_few_inliers_say_so():
    few = locate(
        correspondences_under(UPRIGHT, count=10), REFERENCE, REFERENCE.area, IMAGE, Limits()
    )
    assert few.status is Status.FEW_MATCHES
    assert few.message == 'only 10 points were recognised, 20 must agree'
    weak = locate(
        correspondences_under(UPRIGHT, count=15, outliers=10),
        REFERENCE,
        REFERENCE.area,
        IMAGE,
        Limits(),
    )
    assert weak.status is Status.LOW_CONFIDENCE
    assert weak.reference_to_image is None
    assert 0 < weak.confidence < 0.5


def test_a_low_share_of_agreeing_matches_is_not_believed():
    verdict = locate(
        correspondences_under(UPRIGHT, count=40, outliers=160),
        REFERENCE,
        REFERENCE.area,
        IMAGE,
        Limits(min_inlier_ratio=0.5),
    )
    assert verdict.status is Status.LOW_CONFIDENCE
    assert verdict.message.endswith('200 recognised points agree; 50% of them are needed')
    assert verdict.confidence < 0.5


def test_random_points_are_never_believed():
    for seed in range(30):
        noise = correspondences_under(UPRIGHT, count=0, outliers=100, seed=seed)
        assert locate(noise, REFERENCE, REFERENCE.area, IMAGE, Limits()).status is not Status.OK


def test_identical_points_are_rejected_without_a_crash():
    same = np.full((50, 2), 7, np.float32)
    verdict = locate(
        Correspondences(same, same, np.ones(50, np.float32)),
        REFERENCE,
        REFERENCE.area,
        IMAGE,
        Limits(),
    )
    assert verdict.status is Status.REJECTED_GEOMETRY


def test_jacobian_by_hand():
    # x' = x / (1 + x / 100) has the slope 1 / (1 + x / 100)^2, y' = y / (1 + x / 100).
    homography = np.array([[1, 0, 0], [0, 1, 0], [0.01, 0, 1]])
    assert jacobian(homography, np.array([100, 0])) == pytest.approx(np.diag([0.25, 0.5]))


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(0.1, 3),
    angle=st.floats(-np.pi, np.pi),
    shift=st.tuples(st.floats(-300, 300), st.floats(-300, 300)),
)
def test_size_place_and_rotation_are_no_distortion(scale, angle, shift):
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    similarity = np.array([[cosine, -sine, shift[0]], [sine, cosine, shift[1]], [0, 0, 1]])
    found = correspondences_under(similarity)
    checks = measure(
        similarity, found, np.ones(len(found), bool), REFERENCE, REFERENCE.area, IMAGE
    )
    assert checks.stretch == pytest.approx(1, abs=1e-6)
    assert checks.perspective == pytest.approx(1, abs=1e-6)


def test_stretch_by_hand():
    tripled = np.diag([3.0, 1.0, 1.0])
    found = correspondences_under(tripled)
    checks = measure(tripled, found, np.ones(len(found), bool), REFERENCE, REFERENCE.area, IMAGE)
    assert checks.stretch == pytest.approx(3)
    assert checks.perspective == pytest.approx(1)


def test_only_the_part_that_counts_must_be_covered():
    # A stamp on a page: all matches lie in a twentieth of the picture.
    part = Box(100, 100, 100, 60)
    points = correspondences_under(UPRIGHT, count=80)
    inside = (points.reference_points * (0.25, 0.2) + (100, 100)).astype(np.float32)
    seen = Correspondences(inside, warp_points(UPRIGHT, inside).astype(np.float32), points.scores)
    assert (
        locate(seen, REFERENCE, REFERENCE.area, IMAGE, Limits()).status is Status.REJECTED_GEOMETRY
    )
    verdict = locate(seen, part, part.area, IMAGE, Limits())
    assert verdict.status is Status.OK, verdict.message
    assert verdict.checks.coverage > 0.7


def test_a_verdict_cannot_contradict_itself():
    for status, homography in ((Status.OK, None), (Status.FEW_MATCHES, np.eye(3))):
        with pytest.raises(ValueError, match='exactly when the status is OK'):
            Verdict(status, '', np.zeros(0, bool), homography)


def test_a_reference_that_touches_the_horizon_is_rejected():
    horizon = np.array([[1, 0, 0], [0, 1, 0], [-1 / 399, 0, 1]])  # depth 0 at the right edge
    assert not in_front(horizon, REFERENCE)
    assert in_front(UPRIGHT, REFERENCE)
    assert in_front(-UPRIGHT, REFERENCE)
