"""Homographies that are refined, against ones that are known."""

import numpy as np
import pytest

from niom_ros.core.homographies import warp_points
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import fit_homography
from niom_ros.matching.refinement import normalising, refined

VIEW = np.array([[0.9, -0.3, 120.0], [0.25, 1.1, 40.0], [2e-4, -1e-4, 1.0]])
CORNERS = np.array([[0.0, 0.0], [600, 0], [600, 400], [0, 400]])
LIMIT = 4.0  # reprojection error in pixels


def points(noise=0.5, just_within=0.0, far=0.0, count=400):
    """Return points of VIEW; shares of them are pulled right, within the limit or far beyond."""
    rng = np.random.default_rng(3)
    here = rng.uniform(0, [600, 400], (count, 2))
    there = warp_points(VIEW, here) + rng.normal(0, noise, (count, 2))
    pulled = int(just_within * count)
    there[:pulled, 0] += rng.uniform(2, 3.5, pulled)
    lost = int(far * count)
    there[count - lost :] = rng.uniform(0, 700, (lost, 2))
    return here.astype(np.float32), there.astype(np.float32)


def corner_error(view):
    offsets = warp_points(view, CORNERS) - warp_points(VIEW, CORNERS)
    return np.linalg.norm(offsets, axis=1).mean()


def test_exact_points_give_the_exact_view():
    start = VIEW + np.array([[0.01, 0, 3], [0, -0.01, -2], [0, 0, 0]])
    here, there = points(noise=0)
    assert corner_error(refined(start, here, there, LIMIT)) < 1e-3


def test_points_just_within_the_limit_hardly_pull():
    here, there = points(noise=0.3, just_within=0.3)
    everything = refined(VIEW, here, there, 1000.0)  # all count alike
    assert corner_error(everything) > 0.5
    assert corner_error(refined(VIEW, here, there, LIMIT)) < 0.6 * corner_error(everything)


def test_points_far_off_do_not_count():
    here, there = points(far=0.4)
    assert corner_error(refined(VIEW, here, there, LIMIT)) < 0.4


def test_a_fit_is_refined_and_its_agreeing_points_are_those_within_the_limit():
    here, there = points(just_within=0.2, far=0.3)
    view, agreeing = fit_homography(Correspondences(here, there, np.ones(len(here))), LIMIT)
    assert corner_error(view) < 0.5
    distances = np.linalg.norm(warp_points(view, here) - there, axis=1)
    assert np.array_equal(agreeing, distances <= LIMIT)
    assert 0.65 < agreeing.mean() < 0.75


@pytest.mark.parametrize('count', [1, 50])
def test_points_that_do_not_determine_a_view_are_refused(count):
    along = np.column_stack([np.linspace(0, 100, count), np.linspace(0, 50, count)])
    assert refined(np.eye(3), along, along, LIMIT) is None


def test_normalised_points_are_around_the_origin():
    here, _ = points()
    normal = warp_points(normalising(here), here)
    assert normal.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert np.linalg.norm(normal, axis=1).mean() == pytest.approx(2**0.5)
