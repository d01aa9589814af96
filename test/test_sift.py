"""SIFT keypoints: what they know of direction and scale, and which of them match."""

from dataclasses import replace

import numpy as np
import pytest

from niom_ros.core.homographies import warp_points
from niom_ros.matching.sift import (
    mutual_matches,
    nearest_matches,
    sift_features,
    SiftFeatures,
    SPARSE,
)
from niom_ros.matching.strategies.turned import quarter_turn

SIDE = 1024
SIDES = np.complex64([2, 3j])


@pytest.mark.parametrize('quarters', [0, 1, 2, 3])
def test_matches_of_a_turned_picture_are_where_the_turn_puts_them(
    coffee: np.ndarray, quarters: int
) -> None:
    turned = np.ascontiguousarray(np.rot90(coffee, quarters))
    found = mutual_matches(
        sift_features(coffee, SIDE, SPARSE), sift_features(turned, SIDE, SPARSE), SPARSE
    )
    view = quarter_turn(quarters, coffee.shape[1], coffee.shape[0])
    errors = np.linalg.norm(warp_points(view, found.reference_points) - found.image_points, axis=1)
    assert len(found) > 300
    assert np.median(errors) < 0.1 and (errors < 1).mean() > 0.95


def test_a_shrunk_picture_gives_points_in_its_own_pixels(coffee: np.ndarray) -> None:
    whole = sift_features(coffee, SIDE, SPARSE)
    shrunk = sift_features(coffee, max(coffee.shape) // 2, SPARSE)
    matches = mutual_matches(whole, shrunk, SPARSE)
    offsets = matches.image_points - matches.reference_points
    assert len(matches) > 100
    assert np.abs(np.median(offsets, axis=0)).max() < 0.3


def test_descriptors_have_unit_length_and_a_plain_picture_has_none(coffee: np.ndarray) -> None:
    found = sift_features(coffee, SIDE, SPARSE)
    assert 500 < len(found) <= SPARSE.most + 10  # OpenCV keeps keypoints of equal strength
    assert np.linalg.norm(found.descriptors, axis=1) == pytest.approx(1, abs=1e-4)
    nothing = sift_features(np.full((200, 300, 3), 127, np.uint8), SIDE, SPARSE)
    assert len(nothing) == 0 and nothing.descriptors.shape == (0, 128)
    assert len(mutual_matches(found, nothing, SPARSE)) == 0
    assert len(mutual_matches(nothing, found, SPARSE)) == 0


def test_each_point_matches_one_other_at_most(coffee: np.ndarray) -> None:
    reference = sift_features(coffee, SIDE, SPARSE)
    image = sift_features(coffee[:, ::-1].copy(), SIDE, SPARSE)
    found = mutual_matches(reference, image, replace(SPARSE, ratio=1.0))
    for points in (found.reference_points, found.image_points):
        # Keypoints of several directions share a place.
        assert len(np.unique(points, axis=0)) > 0.8 * len(points)
    assert (np.diff(found.scores) <= 0).all()


def test_a_point_with_two_equal_partners_matches_neither() -> None:
    one = np.zeros((2, 128), np.float32)
    one[0, 0] = one[1, 1] = 1
    twice = SiftFeatures(np.float32([[1, 1], [9, 9]]), one[[0, 0]], SIDES)
    image = SiftFeatures(np.float32([[5, 5]]), one[:1], SIDES[:1])
    assert len(mutual_matches(twice, image, SPARSE)) == 0
    single = SiftFeatures(np.float32([[1, 1], [9, 9]]), one, SIDES)
    (point,) = mutual_matches(single, image, SPARSE).reference_points
    assert point.tolist() == [1, 1]


def test_masked_and_moved_points() -> None:
    features = SiftFeatures(np.float32([[1, 1], [5, 2]]), np.eye(2, 128, dtype=np.float32), SIDES)
    mask = np.zeros((4, 8), np.uint8)
    mask[2, 5] = 255
    kept = features.inside(mask)
    assert kept.points.tolist() == [[5, 2]] and kept.sides.tolist() == [3j]
    assert features.moved(10, 20).points.tolist() == [[11, 21], [15, 22]]


@pytest.mark.parametrize('quarters', [0, 1, 2, 3])
def test_keypoints_know_how_large_and_how_turned_they_are(
    coffee: np.ndarray, quarters: int
) -> None:
    small = np.rot90(coffee[::2, ::2], quarters).copy()
    reference, image = sift_features(coffee, SIDE, SPARSE), sift_features(small, SIDE, SPARSE)
    in_reference, in_image = nearest_matches(reference, image, SPARSE)
    change = image.sides[in_image] / reference.sides[in_reference]
    # A quarter turn anticlockwise, with y down: the x axis points up.
    turn = (-1j) ** quarters
    assert len(change) > 100
    assert np.median(np.abs(change)) == pytest.approx(0.5, rel=0.05)
    assert (np.abs(np.angle(change / turn)) < np.radians(15)).mean() > 0.8


def test_several_points_may_have_the_same_nearest_one() -> None:
    one = np.zeros((2, 128), np.float32)
    one[0, 0] = one[1, 1] = 1
    reference = SiftFeatures(np.float32([[1, 1], [9, 9]]), one, SIDES)
    image = SiftFeatures(np.float32([[1, 1], [2, 2], [3, 3]]), one[[1, 0, 1]], SIDES[[0, 0, 1]])
    in_reference, in_image = nearest_matches(reference, image, SPARSE)
    assert dict(zip(in_image.tolist(), in_reference.tolist(), strict=True)) == {0: 1, 1: 0, 2: 1}
    twice = SiftFeatures(reference.points, one[[0, 0]], SIDES)
    assert not len(nearest_matches(twice, image, SPARSE)[0])
