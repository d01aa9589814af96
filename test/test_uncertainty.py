import math

import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.core.uncertainty import (
    INK,
    shared_variance,
    slopes_at,
    SupportErrors,
    ViewUncertainty,
)
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import fit_homography, remark_on

BOX = Box(0, 0, 400, 300)
VIEW = np.array([[0.9, 0.1, 60], [-0.08, 0.95, 40], [1e-4, 2e-4, 1]])
EXACT = SupportErrors()


def spread(area, count, random):
    return random.uniform(
        (area.left, area.top), (area.left + area.width, area.top + area.height), (count, 2)
    )


def fitted(points, noise, random):
    """Return a view fitted to noisy points, and its uncertainty."""
    image_points = warp_points(VIEW, points) + random.normal(0, noise, points.shape)
    matches = Correspondences(
        points.astype(np.float32), image_points.astype(np.float32), np.ones(len(points))
    )
    view, inliers = fit_homography(matches, 50.0)
    assert inliers.all()
    return view, ViewUncertainty.of_points(view, BOX, points, image_points, EXACT)


def test_the_slopes_are_what_small_motions_do():
    points = np.array([[20.0, 30], [350, 200]])
    slopes = slopes_at(VIEW, BOX, points)
    middle, unit = np.array([199.5, 149.5]), 250.0
    to_unit = np.array(
        [[1 / unit, 0, -middle[0] / unit], [0, 1 / unit, -middle[1] / unit], [0, 0, 1]]
    )
    for index in range(8):
        step = np.zeros(9)
        step[index] = 1e-6
        motion = np.linalg.inv(to_unit) @ (np.eye(3) + step.reshape(3, 3)) @ to_unit
        change = (warp_points(VIEW @ motion, points) - warp_points(VIEW, points)) / 1e-6
        assert change == pytest.approx(slopes[:, :, index], rel=1e-3, abs=1e-2)


def test_errors_are_as_large_as_stated_at_the_points_and_far_from_them():
    random = np.random.default_rng(0)
    places = np.array([[80.0, 80], [200, 150], [390, 290]])
    area, squares, deviations = Box(20, 20, 150, 150), [], []
    for _ in range(200):
        view, uncertainty = fitted(spread(area, 60, random), 1.0, random)
        offsets = warp_points(view, places) - warp_points(VIEW, places)
        scaled = np.linalg.solve(uncertainty.covariances(places), offsets[:, :, None])[:, :, 0]
        squares.append((offsets * scaled).sum(axis=1) / 2)
        deviations.append(uncertainty.deviations(places))
    # 1 is right; the mean of 200 of them is within 0.14 of it.
    assert (np.mean(squares, axis=0) > 0.6).all()
    assert (np.mean(squares, axis=0) < 1.4).all()
    at, beside, far = np.median(deviations, axis=0)
    assert at < 0.5 < beside < 2 < far


def test_distances_are_in_spreads_of_the_support():
    support = np.array([[90.0, 100], [110, 100], [100, 90], [100, 110]])
    uncertainty = ViewUncertainty.of_points(np.eye(3), BOX, support, support)
    # 10 is the root mean square distance of the four from their middle.
    assert uncertainty.distances(np.array([[110.0, 100], [130, 100]])) == pytest.approx([0, 2])


def test_points_on_a_line_say_nothing_beside_it():
    along = np.column_stack([np.linspace(0, 399, 50), np.full(50, 150.0)])
    uncertainty = ViewUncertainty.of_points(np.eye(3), BOX, along, along + 0.3)
    on_it, beside = uncertainty.deviations(np.array([[200.0, 150], [200, 250]]))
    assert on_it < 1
    assert beside > 1e3
    assert 'uncertain, by' in remark_on(uncertainty, Limits())


def test_no_remark_on_a_view_that_rests_on_points_everywhere():
    points = spread(BOX, 100, np.random.default_rng(0))
    uncertainty = ViewUncertainty.of_points(np.eye(3), BOX, points, points)
    assert remark_on(uncertainty, Limits()) == ''
    assert remark_on(None, Limits()) == ''


def test_a_line_does_not_hold_a_drawing_along_itself():
    # Two vertical strokes: known across, anywhere along.
    y = np.tile(np.linspace(20, 280, 100), 2)
    points = np.column_stack([np.repeat([100.0, 300.0], 100), y])
    noisy = points + np.random.default_rng(0).normal(0, 1, points.shape)
    uncertainty = ViewUncertainty.of_lines(np.eye(3), BOX, points, np.zeros(200), noisy, INK)
    covariance = uncertainty.covariances(np.array([[100.0, 150]]))[0]
    # However many points there are, they count like 18.
    assert 1 / 18 / 2 < covariance[0, 0] < 1
    assert covariance[1, 1] > 1e3


def test_what_neighbours_share_is_not_averaged_out():
    random = np.random.default_rng(0)
    points = spread(BOX, 500, random)
    noise = random.normal(0, 1, (500, 2))
    bent = np.column_stack([np.sin(points[:, 1] / 60), np.cos(points[:, 0] / 60)]) * math.sqrt(2)
    assert shared_variance(points, noise) < 0.1
    assert shared_variance(points, bent) == pytest.approx(1, abs=0.2)
    assert shared_variance(points[:1], noise[:1]) == 0
    certain, uncertain = (
        ViewUncertainty.of_points(np.eye(3), BOX, points, points + offsets).at_corners.max()
        for offsets in (noise, bent)
    )
    assert uncertain > 2 * certain


def test_the_error_of_the_first_view_stays_when_the_camera_moves():
    random = np.random.default_rng(0)
    _, first = fitted(spread(Box(20, 20, 100, 100), 60, random), 1.0, random)
    twice = np.diag([2.0, 2.0, 1.0])
    later = ViewUncertainty.of_points(
        twice @ VIEW,
        BOX,
        points := spread(BOX, 100, random),
        warp_points(twice @ VIEW, points),
        EXACT,
    )
    both = later.plus(first)
    # The image is twice as large, and so is the error of the first view.
    assert both.at_corners == pytest.approx(2 * first.seen_as(VIEW).at_corners, rel=0.1)
    with pytest.raises(ValueError, match='different parts'):
        later.plus(ViewUncertainty.of_points(VIEW, Box(0, 0, 9, 9), points, points))


def test_behind_the_camera_nothing_is_certain():
    horizon = np.array([[1.0, 0, 0], [0, 1, 0], [-0.004, 0, 1]])  # at x = 250
    points = spread(Box(0, 0, 200, 300), 50, np.random.default_rng(0))
    uncertainty = ViewUncertainty.of_points(horizon, BOX, points, warp_points(horizon, points))
    assert uncertainty.deviations(np.array([[250.0, 100]])) == np.inf
    assert uncertainty.as_checks()['support_deviation'] < 10
