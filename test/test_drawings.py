"""Photos and drawings made by the tests."""

import cv2
import numpy as np
import pytest

from niom_ros.drawings.likeness import drawing_likeness
from niom_ros.drawings.paper import ink_hull
from niom_ros.semantics.saliency import saliency
from niom_ros.simulation.virtual_scene import example_photo


def sketch(paper=255, ink=20, size=(300, 400)):
    picture = np.full((*size, 3), paper, np.uint8)
    cv2.rectangle(picture, (100, 80), (300, 220), (ink,) * 3, 2)
    cv2.circle(picture, (200, 150), 40, (ink,) * 3, 2)
    cv2.line(picture, (100, 80), (300, 220), (ink,) * 3, 1)
    return picture


@pytest.mark.parametrize(('paper', 'ink'), [(255, 0), (235, 60), (20, 230)])
def test_lines_on_paper_are_a_drawing_even_white_on_black(paper, ink):
    assert drawing_likeness(sketch(paper, ink)) > 0.9


def test_a_scan_with_noise_and_yellow_paper_is_a_drawing():
    noise = np.random.default_rng(0).normal(0, 4, (300, 400, 1))
    scan = (sketch(240) * np.array([1, 0.98, 0.93]) + noise).clip(0, 255).astype(np.uint8)
    assert drawing_likeness(scan) > 0.9


@pytest.mark.parametrize('name', ['coffee', 'astronaut', 'chelsea', 'rocket', 'gravel'])
def test_a_photo_is_not_a_drawing(name):
    assert drawing_likeness(example_photo(name)) < 0.3


def test_white_lines_on_blue_are_a_drawing():
    share_of_ink = 1 - sketch()[:, :, :1] / 255
    blueprint = np.array([25, 60, 130]) + share_of_ink * np.array([210, 180, 120])
    assert drawing_likeness(blueprint.astype(np.uint8)) > 0.9


def test_a_photographed_sheet_is_a_drawing_even_half_in_shadow():
    shadow = 1 - 0.45 / (1 + np.exp(-(np.arange(400) - 220) / 12))[None, :, None]
    sheet = sketch(paper=230, ink=60) * shadow * np.array([1, 0.97, 0.9])
    noise = np.random.default_rng(1).normal(0, 4, sheet.shape)
    assert drawing_likeness((sheet + noise).clip(0, 255).astype(np.uint8)) > 0.9


def test_pencil_on_grid_paper_is_a_drawing():
    page = sketch(paper=250, ink=140)
    page[::20] = np.minimum(page[::20], 225)
    page[:, ::20] = np.minimum(page[:, ::20], 225)
    assert drawing_likeness(page) > 0.9


def test_thick_marker_is_a_drawing():
    assert drawing_likeness(cv2.erode(sketch(), np.ones((7, 7)))) > 0.9


def test_a_thing_on_a_white_background_is_not_a_drawing():
    picture = np.full((300, 400, 3), 255, np.uint8)
    picture[90:210, 130:270] = example_photo('coffee')[90:210, 130:270]
    assert drawing_likeness(picture) < 0.3


def test_an_empty_page_is_not_a_drawing_and_has_no_ink():
    page = np.full((50, 60, 3), 250, np.uint8)
    assert drawing_likeness(page) == 0
    assert ink_hull(page) is None


def test_the_hull_holds_all_ink_and_little_more():
    hull = ink_hull(sketch())
    rows, columns = np.nonzero(hull)
    assert (columns.min(), columns.max()) == pytest.approx((99, 301), abs=1)
    assert (rows.min(), rows.max()) == pytest.approx((79, 221), abs=1)
    assert hull[80:221, 100:301].all()


def test_dust_is_not_ink():
    dusty = sketch()
    dusty[5, 5] = dusty[290, 390] = 0
    assert (ink_hull(dusty) == ink_hull(sketch())).all()


def test_ink_outside_of_the_mask_does_not_count():
    picture = sketch()
    cv2.rectangle(picture, (5, 5), (60, 60), (0, 0, 0), 2)
    mask = np.zeros((300, 400), np.uint8)
    mask[70:230, 90:310] = 255
    assert (ink_hull(picture, mask) == ink_hull(sketch())).all()


def test_what_stands_out_is_salient():
    picture = np.full((240, 320, 3), 90, np.uint8)
    cv2.circle(picture, (240, 60), 14, (250, 250, 250), -1)
    found = saliency(picture)
    assert np.isfinite(found).all() and found.min() >= 0
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert (column / 64 * 320, row / 64 * 240) == pytest.approx((240, 60), abs=30)


@pytest.mark.parametrize('size', [(1, 1), (1, 500), (3, 2), (64, 64)])
def test_pictures_of_any_size_can_be_judged(size):
    picture = np.random.default_rng(1).integers(0, 255, (*size, 3), dtype=np.uint8)
    assert 0 <= drawing_likeness(picture) <= 1
    assert np.isfinite(saliency(picture)).all()
    ink_hull(picture)
