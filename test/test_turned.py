"""Networks that are shown a reference turned by quarter turns."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.matching.match import Approach
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.matching.reference import Reference
from niom_ros.matching.strategies.strategy import Search
from niom_ros.matching.strategies.turned import likely_turns, quarter_turn, quarters_of, Turned

NETWORKS = Options(keypoint_search='networks', wanted='same_object')
ONLY_TURNED = Options(strategies=('turned',))
APPROACH = Approach('turned')


@pytest.fixture(scope='module')
def matcher() -> Matcher:
    return Matcher(Settings(device='cpu', max_keypoints=512, detector='none'))


@pytest.fixture(scope='module')
def cup(matcher: Matcher, coffee: np.ndarray) -> PreparedReference:
    return matcher.prepare(coffee)


def turned_image(picture: np.ndarray, quarters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an image that shows a picture at half its size, turned, and the view."""
    height, width = picture.shape[:2]
    small = cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    image = np.full((480, 640, 3), 120, np.uint8)
    turned = np.rot90(small, quarters)
    image[40 : 40 + turned.shape[0], 60 : 60 + turned.shape[1]] = turned
    halved = np.array([[0.5, 0, -0.25], [0, 0.5, -0.25], [0, 0, 1]])
    shift = np.array([[1, 0, 60], [0, 1, 40], [0, 0, 1.0]])
    return image, shift @ quarter_turn(quarters, width // 2, height // 2) @ halved


@pytest.mark.parametrize('quarters', [1, 2, 3])
def test_a_photo_that_lies_turned_is_found(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray, quarters: int
) -> None:
    image, view = turned_image(coffee, quarters)
    match = matcher.match(cup, image, ONLY_TURNED)
    assert match.found and match.strategy == 'turned'
    assert match.reference_to_image is not None
    assert corner_error(match.reference_to_image, view, cup.box) < 3
    assert quarters_of(match.reference_to_image, cup) == quarters


def test_upright_photos_do_not_pay_for_it(
    matcher: Matcher, coffee: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError('turned although it is upright')

    monkeypatch.setattr(Turned, 'find', fail)
    image, _ = turned_image(coffee, 0)
    match = matcher.match(matcher.prepare(coffee), image, NETWORKS)
    assert match.found and match.strategy == 'points'


def test_the_last_turn_is_tried_first_and_sides_are_prepared_once(
    matcher: Matcher, coffee: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[int] = []
    original = Turned._prepare_side

    def counted(
        self: Turned, reference: PreparedReference, quarters: int, most: int | None
    ) -> object:
        prepared.append(quarters)
        return original(self, reference, quarters, most)

    monkeypatch.setattr(Turned, '_prepare_side', counted)
    cup = matcher.prepare(coffee)
    image, view = turned_image(coffee, 3)
    prior = Prior(cup, APPROACH, view)
    for _ in range(2):
        analysis = matcher.analyse(image)
        (match,) = matcher.match_all([cup], analysis, NETWORKS, prior)
        assert match.found and match.approach == APPROACH
    assert prepared == [3]


def test_what_fits_in_two_directions_is_not_believed(matcher: Matcher, coffee: np.ndarray) -> None:
    cup = matcher.prepare(coffee)
    image, _ = turned_image(coffee, 1)
    image[250:, 350:] = 120
    small = cv2.resize(coffee, (250, 167), interpolation=cv2.INTER_AREA)
    image[300:467, 370:620] = np.rot90(small, 2)
    match = matcher.match(cup, image, ONLY_TURNED)
    assert not match.found and match.status is Status.LOW_CONFIDENCE
    assert 'in another direction' in match.message and match.confidence < 0.5
    # What was found before tells them apart.
    prior = Prior(cup, APPROACH, turned_image(coffee, 1)[1])
    (match,) = matcher.match_all([cup], matcher.analyse(image), ONLY_TURNED, prior)
    assert match.found and quarters_of(match.reference_to_image, cup) == 1


def test_turns_follow_from_a_view(matcher: Matcher, cup: PreparedReference) -> None:
    search = Search(
        reference=cup, image=matcher.analyse(cup.image), options=NETWORKS, approach=APPROACH
    )
    assert list(likely_turns(search)) == [2, 1, 3]
    view = quarter_turn(1, *cup.size)
    search = replace(search, prior=Prior(cup, APPROACH, view))
    assert list(likely_turns(search)) == [1, 2, 3]


@pytest.mark.parametrize('quarters', [0, 1, 2, 3])
def test_a_quarter_turn_is_that_of_numpy(quarters: int) -> None:
    picture = np.arange(12).reshape(3, 4)
    turned = np.rot90(picture, quarters)
    for row in range(3):
        for column in range(4):
            (x, y), *_ = warp_points(quarter_turn(quarters, 4, 3), np.array([[column, row]]))
            assert turned[round(y), round(x)] == picture[row, column]


def test_a_mask_turns_with_its_picture(matcher: Matcher, coffee: np.ndarray) -> None:
    mask = np.zeros(coffee.shape[:2], np.uint8)
    mask[:, : coffee.shape[1] // 2] = 255
    reference = matcher.prepare(Reference(coffee, mask=mask))
    image, view = turned_image(coffee, 1)
    match = matcher.match(reference, image, ONLY_TURNED)
    assert match.found and match.strategy == 'turned'
    assert match.correspondences.reference_points[:, 0].max() < coffee.shape[1] // 2
    assert corner_error(match.reference_to_image, view, reference.box) < 5
