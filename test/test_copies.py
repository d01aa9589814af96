"""Where copies of a reference may be: places for which SIFT matches vote together."""

import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.matching.copies import agreeing_votes, likely_places
from niom_ros.matching.sift import sift_features, SiftFeatures, SPARSE

BOX = Box(0, 0, 200, 100)


def features_of(points, sides):
    """Return keypoints, each with a descriptor of its own."""
    return SiftFeatures(
        points.astype(np.float32),
        np.eye(len(points), 128, dtype=np.float32),
        np.broadcast_to(sides, len(points)).astype(np.complex64),
    )


def seen(reference, scale, degrees, shift):
    """Return the keypoints of a copy that is scaled, turned and moved."""
    change = scale * np.exp(1j * np.radians(degrees))
    moved = change * (reference.points @ [1, 1j]) + complex(*shift)
    return SiftFeatures(
        np.column_stack([moved.real, moved.imag]).astype(np.float32),
        reference.descriptors,
        (change * reference.sides).astype(np.complex64),
    )


def joined(*several):
    return SiftFeatures(
        *(
            np.concatenate([getattr(each, name) for each in several])
            for name in ('points', 'descriptors', 'sides')
        )
    )


@pytest.fixture
def reference():
    points = np.random.default_rng(0).uniform((0, 0), (200, 100), (40, 2))
    return features_of(points, 4.0)


VIEWS = [
    (0.5, 0, (100, 100)),
    (0.5, 10, (260, 100)),
    (1.2, 170, (500, 300)),
    (0.8, 90, (300, 300)),
]


def test_each_copy_is_a_place_of_its_own(reference):
    copies = [seen(reference, *view) for view in VIEWS]
    # Copies that show less get fewer votes.
    shown = [
        SiftFeatures(each.points[:n], each.descriptors[:n], each.sides[:n])
        for each, n in zip(copies, (40, 30, 20, 10), strict=True)
    ]
    places = likely_places(reference, joined(*shown), BOX)
    assert [len(place.votes) for place in places] == [40, 30, 20, 10]
    for place, copy in zip(places, copies, strict=True):
        put = warp_points(place.reference_to_image, reference.points)
        assert np.abs(put - copy.points).max() < 0.1


def test_matches_that_agree_on_nothing_are_no_place(reference):
    random = np.random.default_rng(1)
    sides = 8 * np.exp(1j * random.uniform(0, 2 * np.pi, 40)) * 2.0 ** random.uniform(-2, 2, 40)
    wrong = SiftFeatures(
        random.uniform(0, 800, (40, 2)).astype(np.float32),
        reference.descriptors,
        sides.astype(np.complex64),
    )
    assert likely_places(reference, wrong, BOX) == []
    (place,) = likely_places(reference, joined(wrong, seen(reference, *VIEWS[2])), BOX)
    put = warp_points(place.reference_to_image, reference.points)
    assert np.abs(put - seen(reference, *VIEWS[2]).points).max() < 1


def test_nothing_votes_for_nothing(reference):
    empty = SiftFeatures(reference.points[:0], reference.descriptors[:0], reference.sides[:0])
    assert likely_places(reference, empty, BOX) == []
    assert likely_places(empty, reference, BOX) == []


def test_when_votes_agree():
    def agree(change, middle):
        return agreeing_votes(np.array([1.0, change]), np.array([0j, middle]), 100.0)[0, 1]

    assert agree(1.0, 0j) and agree(1.4, 0j) and agree(0.7, 0j)
    assert not agree(1.7, 0j) and not agree(0.6, 0j)
    assert agree(np.exp(1j * np.radians(-20)), 0j) and not agree(np.exp(1j * np.radians(30)), 0j)
    assert agree(1.0, 20 + 10j) and not agree(1.0, 26j)
    assert not agree(0.7, 18j)  # a quarter of the smaller one


def test_two_copies_on_a_real_photo(coffee):
    image = np.full((480, 900, 3), 120, np.uint8)
    small = cv2.resize(coffee, (300, 200), interpolation=cv2.INTER_AREA)
    image[20:220, 30:330] = small
    image[200:500, 600:800] = np.rot90(small)[:280]
    reference, found = (sift_features(each, 1024, SPARSE) for each in (coffee, image))
    first, second = likely_places(reference, found, Box.around(coffee))[:2]
    places = [
        warp_points(each.reference_to_image, np.array([[300, 200]])) for each in (first, second)
    ]
    assert places[0][0] == pytest.approx([180, 120], abs=3)
    assert places[1][0] == pytest.approx([700, 350], abs=3)
