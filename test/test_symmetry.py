"""Pictures that look the same after a turn: said, not decided in silence."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from niom_ros.core.settings import Options, Settings
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Reference
from niom_ros.matching.symmetry import described_turns, EVERY, symmetric_turns
from niom_ros.simulation.virtual_scene import example_photo

BLACK = (0, 0, 0)


def paper() -> np.ndarray:
    return np.full((300, 400, 3), 255, np.uint8)


def ring(drawing: np.ndarray) -> None:
    cv2.circle(drawing, (200, 150), 100, BLACK, 4, cv2.LINE_AA)


def square(drawing: np.ndarray) -> None:
    cv2.rectangle(drawing, (100, 50), (300, 250), BLACK, 4)


def plate(drawing: np.ndarray) -> None:
    cv2.rectangle(drawing, (60, 60), (340, 240), BLACK, 4)


def plate_with_a_hole(drawing: np.ndarray) -> None:
    plate(drawing)
    cv2.circle(drawing, (110, 110), 22, BLACK, 3, cv2.LINE_AA)


def flange(drawing: np.ndarray) -> None:
    ring(drawing)
    for angle in np.arange(6) * np.pi / 3:
        centre = round(200 + 65 * np.cos(angle)), round(150 + 65 * np.sin(angle))
        cv2.circle(drawing, centre, 18, BLACK, 3, cv2.LINE_AA)


@pytest.mark.parametrize(
    ('draw', 'turns'),
    [
        (ring, EVERY),
        (square, (90, 180, 270)),
        (plate, (180,)),
        (plate_with_a_hole, ()),
        (flange, (60, 120, 180, 240, 300)),
    ],
)
def test_turns_after_which_a_drawing_looks_the_same(
    draw: Callable[[np.ndarray], None], turns: tuple[int, ...]
) -> None:
    drawing = paper()
    draw(drawing)
    assert symmetric_turns(drawing) == turns
    elsewhere = np.roll(drawing, (20, -40), axis=(0, 1))
    assert symmetric_turns(elsewhere) == turns


@pytest.mark.parametrize('name', ['coffee', 'astronaut', 'chelsea', 'rocket'])
def test_photos_look_the_same_after_no_turn(name: str) -> None:
    assert symmetric_turns(example_photo(name)) == ()


def test_what_is_masked_does_not_tell_turns_apart() -> None:
    drawing = paper()
    ring(drawing)
    cv2.rectangle(drawing, (5, 5), (60, 60), BLACK, 5)
    mask = np.zeros(drawing.shape[:2], np.uint8)
    cv2.circle(mask, (200, 150), 115, 255, -1)
    assert symmetric_turns(drawing) == ()
    assert symmetric_turns(drawing, mask) == EVERY


def test_an_empty_picture_has_no_turns() -> None:
    assert symmetric_turns(paper()) == ()


def test_turns_in_words() -> None:
    assert described_turns(()) == ''
    assert described_turns((180,)) == 'it looks the same when turned by 180 degrees'
    assert described_turns((90, 180)) == 'it looks the same when turned by 90 or 180 degrees'
    assert described_turns(EVERY) == 'it looks the same in every direction'


def test_a_match_says_that_the_direction_is_a_guess() -> None:
    matcher = Matcher(Settings(device='cpu', max_keypoints=256, detector='none'))
    drawing = paper()
    plate(drawing)
    reference = matcher.prepare(Reference(drawing, drawing=True))
    assert reference.symmetric_turns == (180,)
    image = np.full((480, 640, 3), 140, np.uint8)
    cv2.rectangle(image, (150, 120), (430, 300), (60, 60, 60), -1)
    options = Options(drawing_search='ink', wanted='same_object')
    match = matcher.match(reference, image, options)
    assert match.found, match.message
    assert match.message.endswith('; it looks the same when turned by 180 degrees')
    plain = matcher.match(reference, np.full((480, 640, 3), 140, np.uint8), options)
    assert not plain.found and 'turned' not in plain.message
