"""Images of rotated cameras, turned upright and back."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.uncertainty import ViewUncertainty
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import Scene
from niom_ros.stream.rotation import Rotation


@given(
    st.sampled_from([0, 90, 180, 270]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_every_pixel_is_found_again_where_it_was_received(degrees, width, height, seed):
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    rotation = Rotation(degrees, width, height)
    upright = rotation.upright(image)
    rows, columns = upright.shape[:2]
    assert (rows, columns) == ((height, width) if degrees in (0, 180) else (width, height))
    places = np.array([(x, y) for y in range(rows) for x in range(columns)], float)
    received = warp_points(rotation.upright_to_received, places).round().astype(int)
    for (x, y), (u, v) in zip(places.astype(int), received, strict=True):
        assert (upright[y, x] == image[v, u]).all()


def test_90_degrees_turn_clockwise():
    image = np.zeros((2, 3, 3), np.uint8)
    image[0, 0] = 255  # top left
    assert (Rotation(90, 3, 2).upright(image)[0, 1] == 255).all()  # top right


@pytest.mark.parametrize('degrees', [0, 90, 180, 270])
def test_what_was_found_is_told_in_received_pixels(degrees):
    rotation = Rotation(degrees, 640, 480)
    back = rotation.upright_to_received
    homography = np.array([[0.9, 0.1, 30.0], [-0.1, 0.8, 60.0], [1e-4, 0.0, 1.0]])
    reference_points = np.array([[0, 0], [100, 0], [50, 70]], np.float32)
    upright_points = warp_points(homography, reference_points).astype(np.float32)
    width, height = (640, 480) if degrees in (0, 180) else (480, 640)
    area = Area(9.5, 19.5, 59.5, 99.5)
    heat = HeatMap.filled(area, GridFrame(width, height), torch.empty(0))
    uncertainty = ViewUncertainty(homography, Box(0, 0, 100, 70), np.eye(8), reference_points)
    inliers = np.ones(3, bool)
    match = Match(
        Verdict(Status.OK, 'found', inliers, homography, 0.9, uncertainty=uncertainty),
        Correspondences(reference_points, upright_points, np.ones(3, np.float32)),
        scene=Scene((SeenObject('cup', 1.0, area, heat),), 'test'),
    )
    received = rotation.received(match)
    expected = warp_points(back, upright_points)
    assert np.allclose(received.correspondences.image_points, expected, atol=1e-3)
    found = warp_points(received.verdict.reference_to_image, reference_points)
    assert np.allclose(found, expected, atol=1e-3)
    assert received.verdict.reference_to_image[2, 2] == 1
    turned = received.verdict.uncertainty
    assert turned.at_corners == pytest.approx(uncertainty.at_corners)
    assert (turned.reference_to_image == received.verdict.reference_to_image).all()
    box = received.scene.objects[0].area
    assert {box.width, box.height} == {50, 80}
    assert (box.width == 50) == (degrees in (0, 180))
    assert -0.5 <= box.left < box.right <= 639.5
    assert -0.5 <= box.top < box.bottom <= 479.5
    corner = warp_points(back, np.array([[9.5, 19.5]]))[0]
    assert corner[0] in (box.left, box.right)
    assert corner[1] in (box.top, box.bottom)
