"""Reference and image as they look from the same side."""

import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.matching.rectified import rectified

SIZE = (640, 480)


def seen(picture: np.ndarray, view: np.ndarray) -> np.ndarray:
    return cv2.warpPerspective(picture, view, SIZE, flags=cv2.INTER_AREA)


def turned(picture: np.ndarray, degrees: float, scale: float) -> np.ndarray:
    height, width = picture.shape[:2]
    view = np.eye(3)
    view[:2] = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, scale)
    view[:2, 2] += np.array(SIZE) / 2 - [width / 2, height / 2]
    return view


def test_both_pictures_show_the_same_at_the_same_place(coffee: np.ndarray) -> None:
    view = turned(coffee, 130, 0.8)
    pair = rectified(coffee, Box.around(coffee), seen(coffee, view), view)
    assert pair is not None and pair.image.shape == pair.reference.shape
    inside = cv2.erode(pair.mask, np.ones((9, 9), np.uint8)) > 0
    assert inside.mean() > 0.7
    difference = np.abs(pair.image.astype(int) - pair.reference)[inside]
    assert difference.mean() < 6  # grey values; a turn of 130 degrees gives 60


def test_points_of_both_lead_back_to_reference_and_image(coffee: np.ndarray) -> None:
    view = turned(coffee, -40, 1.5)
    pair = rectified(coffee, Box.around(coffee), seen(coffee, view), view)
    assert pair is not None
    points = np.array([[10.0, 20.0], [100.0, 50.0]])
    on_reference = warp_points(pair.to_reference, points)
    assert warp_points(view, on_reference) == pytest.approx(warp_points(pair.to_image, points))


def test_only_the_visible_part_of_a_reference_is_shown(coffee: np.ndarray) -> None:
    view = turned(coffee, 0, 6.0)
    pair = rectified(coffee, Box.around(coffee), seen(coffee, view), view)
    assert pair is not None
    visible = SIZE[0] / 6
    assert visible < pair.part.width < 1.3 * visible < coffee.shape[1]
    # Enlarged, but at most four times
    assert 3.9 < pair.image.shape[1] / pair.part.width <= 4.1


def test_a_small_object_is_enlarged_to_the_size_of_the_reference(coffee: np.ndarray) -> None:
    view = turned(coffee, 20, 0.15)
    pair = rectified(coffee, Box.around(coffee), seen(coffee, view), view)
    assert pair is not None
    # By four at most: more would only be blur.
    assert pair.image.shape[1] == pytest.approx(0.6 * coffee.shape[1], rel=0.02)


def test_a_mask_of_the_reference_is_shown_alike(coffee: np.ndarray) -> None:
    view = turned(coffee, 0, 1.0)
    pair = rectified(coffee, Box.around(coffee), seen(coffee, view), view)
    assert pair is not None
    mask = np.zeros(coffee.shape[:2], bool)
    mask[:, : coffee.shape[1] // 2] = True
    shown = pair.seen_mask(mask)
    assert shown.shape == pair.mask.shape
    on_reference = warp_points(pair.to_reference, np.array([[5.0, 5.0]]))[0]
    column, row = on_reference.round().astype(int)
    assert bool(shown[5, 5]) == bool(mask[row, column])
    assert 0 < shown.mean() < 1


@pytest.mark.parametrize('shift', [(5000, 0), (0, -5000)])
def test_nothing_is_shown_of_a_reference_outside_of_the_image(
    coffee: np.ndarray, shift: tuple[int, int]
) -> None:
    view = np.array([[1, 0, shift[0]], [0, 1, shift[1]], [0, 0, 1.0]])
    assert rectified(coffee, Box.around(coffee), seen(coffee, view), view) is None


def test_nothing_is_shown_of_a_view_behind_the_camera(coffee: np.ndarray) -> None:
    view = np.array([[1, 0, 0], [0, 1, 0], [-1 / 200, 0, 1.0]])
    assert rectified(coffee, Box.around(coffee), np.zeros((480, 640, 3), np.uint8), view) is None
