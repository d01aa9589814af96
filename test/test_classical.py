"""Finding photos by SIFT: in any direction, at any distance, and nothing where nothing is."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.settings import KeypointSearch, Limits, Options, Settings, Weighting
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.matching.strategies import classical
from niom_ros.matching.strategies.classical import own_limits
from niom_ros.simulation.virtual_scene import example_photo

SETTINGS = Settings(device='cpu', max_keypoints=256, detector='none')
ONLY_SIFT = Options(keypoint_search='classical', wanted='same_object')
SIZE = (640, 480)


@pytest.fixture(scope='module')
def matcher() -> Matcher:
    return Matcher(SETTINGS)


@pytest.fixture(scope='module')
def cup(matcher: Matcher, coffee: np.ndarray) -> PreparedReference:
    return matcher.prepare(coffee)


@pytest.fixture(scope='module')
def behind() -> np.ndarray:
    """Return what the photo lies on."""
    return cv2.resize(example_photo('astronaut'), SIZE)


def view_of(
    picture: np.ndarray,
    degrees: float,
    scale: float,
    middle: tuple[float, float] = (320, 240),
    tilt: float = 0.06,
) -> np.ndarray:
    """Return a view of a picture that is turned, scaled and tilted a little."""
    height, width = picture.shape[:2]
    corners = Box.around(picture).corners().astype(np.float32)
    moved = corners + np.float32([[tilt, 0], [0, tilt], [-tilt, 0], [0, 0]]) * (width, height)
    bent = cv2.getPerspectiveTransform(corners, moved.astype(np.float32))
    turn = np.eye(3)
    turn[:2] = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, scale)
    turn[:2, 2] += np.array(middle) - [width / 2, height / 2]
    return turn @ bent


def seen(picture: np.ndarray, view: np.ndarray, behind: np.ndarray) -> np.ndarray:
    image = behind.copy()
    cv2.warpPerspective(picture, view, SIZE, dst=image, borderMode=cv2.BORDER_TRANSPARENT)
    noise = np.random.default_rng(0).normal(0, 5, image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize('degrees', range(0, 360, 45))
def test_a_photo_is_found_in_every_direction(
    matcher: Matcher,
    cup: PreparedReference,
    coffee: np.ndarray,
    behind: np.ndarray,
    degrees: float,
) -> None:
    view = view_of(coffee, degrees + 17, 0.6)
    match = matcher.match(cup, seen(coffee, view, behind))
    assert match.found and match.strategy == 'classical'
    assert match.reference_to_image is not None
    assert corner_error(match.reference_to_image, view, cup.box) < 2
    assert match.confidence > 0.5
    assert list(match.stage_seconds) == ['sift']  # no network had to run


@pytest.mark.parametrize(('scale', 'within'), [(0.18, 3), (0.4, 2), (1.5, 2), (4.0, 6)])
def test_a_photo_is_found_from_afar_and_from_close_by(
    matcher: Matcher,
    cup: PreparedReference,
    coffee: np.ndarray,
    behind: np.ndarray,
    scale: float,
    within: float,
) -> None:
    view = view_of(coffee, 200, scale, (300, 250), tilt=0.02)
    match = matcher.match(cup, seen(coffee, view, behind), ONLY_SIFT)
    assert match.found, match.message
    assert match.reference_to_image is not None
    assert corner_error(match.reference_to_image, view, cup.box) < within


def test_nothing_is_found_where_it_is_not(
    matcher: Matcher, cup: PreparedReference, behind: np.ndarray
) -> None:
    match = matcher.match(cup, behind, ONLY_SIFT)
    assert match.status is Status.FEW_MATCHES and not match.found
    assert 'points agree, 12 must' in match.message


@pytest.mark.parametrize(
    'image',
    [
        np.zeros((480, 640, 3), np.uint8),
        np.random.default_rng(0).integers(0, 255, (480, 640, 3), np.uint8),
        np.tile(np.uint8([[[0] * 3] * 20 + [[255] * 3] * 20]), (480, 16, 1)),
        np.zeros((40, 8000, 3), np.uint8),
    ],
    ids=['black', 'noise', 'stripes', 'strip'],
)
def test_images_that_show_nothing(
    matcher: Matcher, cup: PreparedReference, image: np.ndarray
) -> None:
    match = matcher.match(cup, image, ONLY_SIFT)
    assert not match.found and match.message


def test_a_part_of_a_panorama_and_of_a_strip_is_found(
    matcher: Matcher, coffee: np.ndarray, cup: PreparedReference
) -> None:
    panorama = np.full((480, 4800, 3), 90, np.uint8)
    panorama[100:400, 3000:3450] = cv2.resize(coffee, (450, 300), interpolation=cv2.INTER_AREA)
    match = matcher.match(cup, panorama, ONLY_SIFT)
    assert match.found, match.message
    corner = match.reference_to_image @ [0, 0, 1]
    assert corner[:2] / corner[2] == pytest.approx([3000, 100], abs=4)
    strip = matcher.prepare(np.tile(coffee[180:260], (1, 4, 1))[:, :2000])
    assert not matcher.match(strip, panorama[:, :600], ONLY_SIFT).found


@pytest.mark.parametrize(
    ('search', 'strategies'),
    [
        ('both', {'classical', 'points', 'turned'}),
        ('classical', {'classical'}),
        ('networks', {'points', 'turned'}),
    ],
)
def test_keypoint_search_selects_strategies(
    matcher: Matcher, cup: PreparedReference, search: KeypointSearch, strategies: set[str]
) -> None:
    options = Options(keypoint_search=search, wanted='same_object')
    assert {each.strategy for each in matcher.approaches(cup, options)} == strategies


def test_weights_that_are_asked_for_are_not_left_out(
    matcher: Matcher, cup: PreparedReference
) -> None:
    options = Options(weighting=Weighting('sew'), wanted='same_object')
    assert {each.strategy for each in matcher.approaches(cup, options)} == {'points'}


def test_fewer_points_are_enough_than_for_networks() -> None:
    assert own_limits(Limits()).min_inliers == 12
    assert own_limits(Limits(min_inliers=50)).min_inliers == 30
    assert own_limits(Limits(min_coverage=0.5)).min_coverage == 0.5


def test_a_larger_share_of_the_points_must_agree() -> None:
    assert own_limits(Limits()).min_inlier_ratio == 0.5
    assert own_limits(Limits(min_inlier_ratio=0.7)).min_inlier_ratio == 0.7


def test_min_inliers_raises_the_bar(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray, behind: np.ndarray
) -> None:
    image = seen(coffee, view_of(coffee, 90, 0.2), behind)
    strict = replace(ONLY_SIFT, limits=Limits(min_inliers=1000))
    assert matcher.match(cup, image, ONLY_SIFT).found
    match = matcher.match(cup, image, strict)
    assert not match.found and '600' in match.message


@pytest.fixture
def seen_by_sift(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the pictures in which keypoints are found."""
    pictures: list[np.ndarray] = []
    original = classical.sift_features

    def noted(image: np.ndarray, *rest: object) -> object:
        pictures.append(image)
        return original(image, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(classical, 'sift_features', noted)
    return pictures


def test_keypoints_of_a_reference_are_found_once(
    matcher: Matcher, coffee: np.ndarray, behind: np.ndarray, seen_by_sift: list[np.ndarray]
) -> None:
    reference = matcher.prepare(coffee)
    for degrees in (10, 100, 190):
        image = seen(coffee, view_of(coffee, degrees, 0.5), behind)
        assert matcher.match(reference, image, ONLY_SIFT).found
    assert sum(np.shares_memory(picture, reference.image) for picture in seen_by_sift) == 1


def test_what_is_masked_has_no_part_in_it(
    matcher: Matcher, coffee: np.ndarray, behind: np.ndarray
) -> None:
    mask = np.zeros(coffee.shape[:2], np.uint8)
    mask[: coffee.shape[0] // 2] = 255
    image = seen(coffee, view_of(coffee, 60, 0.7), behind)
    other = coffee.copy()
    other[coffee.shape[0] // 2 :] = 0
    first, second = (
        matcher.match(matcher.prepare(Reference(picture, mask=mask)), image, ONLY_SIFT)
        for picture in (coffee, other)
    )
    assert first.found and second.found
    assert first.correspondences.reference_points[:, 1].max() < coffee.shape[0] // 2
    # Keypoints beside the edge of the mask see a few pixels across it.
    assert np.abs(first.reference_to_image - second.reference_to_image).max() < 0.5


def test_a_copy_of_a_drawing_is_found_when_it_lies_turned(
    matcher: Matcher, behind: np.ndarray
) -> None:
    paper = np.full((300, 400, 3), 255, np.uint8)
    random = np.random.default_rng(3)
    for _ in range(25):
        first, second = random.integers(20, [380, 280], (2, 2)).tolist()
        cv2.line(paper, first, second, (0, 0, 0), 2, cv2.LINE_AA)
    reference = matcher.prepare(Reference(paper, drawing=True))
    view = view_of(paper, 140, 0.8)
    match = matcher.match(reference, seen(paper, view, behind), Options(wanted='same_object'))
    assert match.found and match.strategy == 'classical'
    only_ink = Options(drawing_search='ink', wanted='same_object')
    assert {each.strategy for each in matcher.approaches(reference, only_ink)} == {'ink'}
