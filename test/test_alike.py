"""Other objects of the reference's kind: what is claimed, and what is reported of them."""

from dataclasses import replace
import math

from alike_pictures import CLOCK_MARKS, CLOCK_PLACE, CLOCK_SIDE, on_the_wall, picture, wall
import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings, SettingsError, StreamOptions
from niom_ros.images.decoding import TooPlain
from niom_ros.matching.alike_object import (
    AlikeObject,
    fit_warp,
    GuidePoints,
    moved,
    Warp,
)
from niom_ros.matching.confidence import KIND_SIGNS
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Landmark, Reference
from niom_ros.models.store import ModelMissing, ModelStore
from niom_ros.pictures.answers import heatmap_picture, View
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import MarkedObject
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.rotation import Rotation
from niom_ros.stream.stream import Stream

SMALLER = np.array([[0.5, 0.1, 40], [-0.05, 0.6, 30], [0, 0, 1]])
LANDMARKS = tuple(Landmark(name, x, y) for name, (x, y) in CLOCK_MARKS.items())


@pytest.fixture(scope='module')
def matcher():
    return Matcher(Settings(device='cpu', max_keypoints=512))


@pytest.fixture(scope='module')
def clock(matcher):
    return matcher.prepare(
        Reference(picture('clock'), 'clock', drawing=False, landmarks=LANDMARKS)
    )


@pytest.fixture(scope='module')
def found(matcher, clock):
    return Stream(matcher, clock).answer(wall())


# The warp


def points_under(transform, noise=0.0, wrong=0):
    rng = np.random.default_rng(0)
    reference = rng.uniform(0, 300, (100, 2))
    image = warp_points(transform, reference) + rng.normal(0, noise, (100, 2))
    image[:wrong] = rng.uniform(0, 300, (wrong, 2))
    return Correspondences(
        reference.astype(np.float32), image.astype(np.float32), np.ones(100, np.float32)
    )


def test_the_warp_is_the_transform_that_most_points_agree_with():
    warp = fit_warp(points_under(SMALLER, noise=2.0, wrong=5), np.ones(100), 180)
    corners = np.array([[0, 0], [300, 0], [300, 300], [0, 300]], float)
    errors = np.linalg.norm(
        warp_points(warp.matrix, corners) - warp_points(SMALLER, corners), axis=1
    )
    assert errors.max() < 4
    assert 1 < warp.deviation < 4  # the few wrong ones do not count


def test_the_warp_follows_points_in_proportion_to_their_confidence():
    half = points_under(SMALLER, noise=1.0, wrong=50)
    confidences = np.where(np.arange(100) < 50, 0.01, 0.9)
    warp = fit_warp(half, confidences, 180)
    assert warp.matrix == pytest.approx(SMALLER, abs=2)


@pytest.mark.parametrize(
    ('transform', 'noise'),
    [
        (np.diag([-1.0, 1, 1]), 0),  # mirrored
        (np.diag([1.0, 0.2, 1]), 0),  # squashed
        (SMALLER, 60),  # no transform at all
        (np.diag([0.0, 1, 1]), 0),  # all on one line
    ],
)
def test_points_that_no_view_explains_have_no_warp(transform, noise):
    assert fit_warp(points_under(transform, noise), np.ones(100), 180) is None


def test_a_few_points_do_not_make_a_warp():
    points = points_under(SMALLER)
    assert fit_warp(points, np.where(np.arange(100) < 5, 1.0, 0.0), 180) is None
    assert fit_warp(Correspondences.none(), np.empty(0), 180) is None


# A camera that is rotated


@pytest.mark.parametrize('degrees', [0, 90, 180, 270])
def test_an_object_is_turned_back_to_the_received_image(degrees):
    rotation = Rotation(degrees, 640, 480)
    back = rotation.upright_to_received
    places = np.array([[10.0, 20], [30, 5]])
    alike = AlikeObject(
        confidence=0.9,
        box=Area(5, 0, 40, 30),
        landmarks=GuidePoints(places, np.ones(2), np.ones(2)),
        warp=Warp(SMALLER, 3.0),
        size=30.0,
    )
    match = Match(Verdict(Status.ALIKE, '', np.ones(0, bool), confidence=0.9), alike=alike)
    turned = rotation.received(match).alike
    assert turned.landmarks.places == pytest.approx(warp_points(back, places))
    assert turned.size == 30
    assert turned.warp.matrix == pytest.approx(back @ SMALLER)
    corners = np.array([[turned.box.left, turned.box.top], [turned.box.right, turned.box.bottom]])
    upright = warp_points(np.linalg.inv(back), corners)
    assert sorted(upright[:, 0]) == pytest.approx([5, 40])
    assert sorted(upright[:, 1]) == pytest.approx([0, 30])


def test_an_object_without_landmarks_and_warp_can_be_turned():
    alike = AlikeObject(0.9, Area(0, 0, 9, 9), GuidePoints.none(), size=9.0)
    turned = moved(alike, Rotation(90, 640, 480).upright_to_received)
    assert turned.warp is None and len(turned.landmarks.places) == 0


# What is claimed


def test_another_object_of_the_kind_is_alike_and_has_no_homography(found):
    assert found.status is Status.ALIKE and found.located and not found.found
    assert found.reference_to_image is None and found.pose is None
    assert found.match.strategy == 'alike'
    assert found.match.alike.confidence >= 0.5
    assert set(found.match.checks) == {*KIND_SIGNS, 'mirrored'}
    assert 'another object of its kind' in found.message


def test_its_landmarks_are_at_its_parts(found):
    truth = on_the_wall(np.array(list(CLOCK_MARKS.values())))
    places = np.array([[mark.x, mark.y] for mark in found.landmarks])
    assert [mark.name for mark in found.landmarks] == list(CLOCK_MARKS)
    assert np.linalg.norm(places - truth, axis=1).max() < 25  # an eighth of the clock
    assert all(mark.inside and 0 < mark.deviation < 60 for mark in found.landmarks)
    assert all(0 < mark.confidence <= 1 for mark in found.landmarks)


def test_its_box_and_its_warp_are_around_it(found):
    alike = found.match.alike
    middle = on_the_wall(np.array([[160.0, 160.0]]))[0]
    box = alike.box
    assert (box.left + box.right) / 2 == pytest.approx(middle[0], abs=30)
    assert (box.top + box.bottom) / 2 == pytest.approx(middle[1], abs=30)
    assert 180 < box.width < 360
    # One size: a point is as likely to be within a tenth of it as its confidence says.
    assert alike.size == alike.parts.object_size
    assert 0.7 * CLOCK_SIDE < alike.size < 1.3 * CLOCK_SIDE
    assert warp_points(alike.warp.matrix, np.array([[160.0, 160.0]]))[0] == pytest.approx(
        middle, abs=15
    )


@pytest.mark.parametrize('image', ['brick', 'coffee', 'astronaut', 'rocket'])
def test_objects_of_another_kind_are_refused_with_a_reason(matcher, clock, image):
    match = matcher.match(clock, example_photo(image))
    assert not match.located
    assert 'no object of its kind is seen: confidence 0.' in match.message
    assert match.confidence < 0.5
    assert match.alike is not None  # for pictures and benchmarks


def test_an_object_that_is_mirrored_is_refused_because_left_and_right_would_be_swapped(matcher):
    photo = example_photo('chelsea')
    face = matcher.prepare(Reference(photo, 'cat', wanted='same_kind'))
    upright = matcher.match(face, photo)
    assert upright.status is Status.ALIKE and upright.checks['mirrored'] < 0
    mirrored = matcher.match(face, np.ascontiguousarray(photo[:, ::-1]))
    assert mirrored.status is Status.LOW_CONFIDENCE and mirrored.checks['mirrored'] > 0.2
    assert 'mirrored or from its other side' in mirrored.message
    assert 'set the mirrored picture as another reference' in mirrored.message


def test_the_very_object_comes_first(matcher, clock):
    image = wall()
    image[100:419, 300:620] = picture('clock')
    match = matcher.match(clock, image)
    assert match.found and match.alike is None


# References and images that are out of the ordinary


def with_landmarks(matcher, points, **given):
    marks = tuple(Landmark(str(number), x, y) for number, (x, y) in enumerate(points))
    return matcher.prepare(
        Reference(picture('clock'), 'clock', drawing=False, landmarks=marks, **given)
    )


@pytest.mark.parametrize('count', [1, 200])
def test_any_number_of_landmarks_is_placed(matcher, count):
    rng = np.random.default_rng(0)
    points = rng.uniform(70, 250, (count, 2))
    answer = Stream(matcher, with_landmarks(matcher, points)).answer(wall())
    assert answer.status is Status.ALIKE and len(answer.landmarks) == count
    places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
    assert np.median(np.linalg.norm(places - on_the_wall(points), axis=1)) < 25


def test_a_landmark_outside_of_the_region_is_placed_beside_it_without_confidence(matcher):
    points = [(160.0, 160.0), (20.0, 160.0)]
    reference = with_landmarks(matcher, points, region=Box(40, 40, 240, 240))
    landmarks = matcher.match(reference, wall(), Options(strategies=('alike',))).alike.landmarks
    inner, outer = landmarks.confidences
    assert outer < 0.05 < inner
    assert landmarks.deviations[1] > 2 * landmarks.deviations[0]
    truth = on_the_wall(np.array(points))
    assert math.dist(landmarks.places[1], truth[1]) < 60


def test_a_landmark_that_is_masked_has_no_confidence_beside_one_that_is_not(matcher):
    height, width = picture('clock').shape[:2]
    rows, columns = np.mgrid[:height, :width]
    mask = (((columns - 160) ** 2 + (rows - 160) ** 2 < 115**2) * 255).astype(np.uint8)
    # The second one is in a corner of the box around the mask.
    reference = with_landmarks(matcher, [(160.0, 160.0), (50.0, 50.0)], mask=mask)
    answer = Stream(matcher, reference).answer(wall())
    assert answer.status is Status.ALIKE
    inner, outer = answer.landmarks
    assert inner.confidence > 0.5 and outer.confidence == 0
    assert outer.deviation >= answer.match.alike.size / 2 > inner.deviation


def test_a_mask_that_leaves_no_point_of_the_grid_is_answered(matcher):
    mask = np.zeros(picture('clock').shape[:2], np.uint8)
    mask[100:102] = 255
    mask[:, 100:102] = 255
    reference = Reference(picture('clock'), 'clock', mask=mask, wanted='same_kind')
    prepared = matcher.prepare(reference)
    answer = Stream(matcher, prepared).answer(wall())
    assert answer.match.alike is not None and len(answer.match.correspondences) < 30
    assert heatmap_picture(answer, View()) is not None


def beside_noise(ignored, seed):
    """Return the clock with noise where it is ignored."""
    image = picture('clock').copy()
    noise = np.random.default_rng(seed).integers(0, 256, image.shape, np.uint8)
    image[ignored] = noise[ignored]
    return image


@pytest.mark.parametrize('given', ['mask', 'region', 'both'])
def test_what_is_masked_changes_nothing(matcher, given):
    height, width = picture('clock').shape[:2]
    rows, columns = np.mgrid[:height, :width]
    region, disc = Box(50, 45, 220, 230), (columns - 160) ** 2 + (rows - 160) ** 2 < 115**2
    inside = np.zeros((height, width), bool)
    region.part_of(inside)[:] = True
    used = {'mask': disc, 'region': inside, 'both': disc & inside}[given]
    limits = {
        **({} if given == 'region' else {'mask': disc}),
        **({} if given == 'mask' else {'region': region}),
    }
    one, other = (
        matcher.match(
            matcher.prepare(
                Reference(
                    beside_noise(~used, seed),
                    'clock',
                    drawing=False,
                    wanted='same_kind',
                    landmarks=LANDMARKS,
                    **limits,
                )
            ),
            wall(),
        )
        for seed in (1, 2)
    )
    assert one.status is Status.ALIKE
    assert one.alike.signs == other.alike.signs
    assert one.alike.box == other.alike.box and one.confidence == other.confidence
    assert np.array_equal(one.alike.landmarks.places, other.alike.landmarks.places)
    assert np.array_equal(one.correspondences.image_points, other.correspondences.image_points)
    assert np.array_equal(one.correspondences.scores, other.correspondences.scores)


def test_of_a_scene_the_marked_object_is_the_reference(matcher):
    (left, top), side = CLOCK_PLACE, CLOCK_SIDE
    clock = MarkedObject('clock', Area(left, top, left + side, top + side))
    scene = Reference(wall(), 'scene', objects=(clock,), wanted='same_kind')
    match = matcher.match(matcher.prepare(scene), picture('clock'))
    assert match.status is Status.ALIKE
    points = match.correspondences.reference_points
    assert points.min() >= top - 40 and points[:, 0].min() >= left - 40
    assert points[:, 0].max() <= left + side + 40
    centre = warp_points(match.alike.warp.matrix, on_the_wall(np.array([[160.0, 160.0]])))
    assert centre[0] == pytest.approx((160, 160), abs=20)


@pytest.mark.parametrize('shade', [0, 128, 255])
def test_a_blank_image_shows_no_object_of_the_kind(matcher, clock, shade):
    answer = Stream(matcher, clock).answer(np.full((480, 640, 3), shade, np.uint8))
    assert not answer.located and not answer.landmarks
    assert 'no object of its kind is seen' in answer.message


def test_a_reference_without_an_object_is_not_alike_to_anything(matcher):
    gravel = matcher.prepare(Reference(example_photo('gravel'), 'gravel'))
    match = matcher.match(gravel, wall())
    assert not match.located and 'no object of its kind is seen' in match.message


def test_of_an_object_that_is_cut_off_the_rest_is_found(matcher, clock):
    shown = np.ascontiguousarray(wall()[:, : CLOCK_PLACE[0] + 160])  # the 3 is beyond the edge
    answer = Stream(matcher, clock).answer(shown)
    assert answer.status is Status.ALIKE
    truth = on_the_wall(np.array(list(CLOCK_MARKS.values())))
    places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
    seen = [0, 2, 3]
    assert np.linalg.norm(places - truth, axis=1)[seen].max() < 35
    box = answer.match.alike.box
    assert box.right <= shown.shape[1] - 0.5


def test_of_two_objects_of_the_kind_one_is_reported_whole(matcher, clock):
    image = wall()
    left, top = CLOCK_PLACE
    image[top : top + CLOCK_SIDE, 60 : 60 + CLOCK_SIDE] = image[
        top : top + CLOCK_SIDE, left : left + CLOCK_SIDE
    ]
    answer = Stream(matcher, clock).answer(image)
    assert answer.status is Status.ALIKE
    truth = on_the_wall(np.array(list(CLOCK_MARKS.values())))
    places = np.array([[mark.x, mark.y] for mark in answer.landmarks])
    errors = [
        np.linalg.norm(places - truth + (shift, 0), axis=1).max() for shift in (0, left - 60)
    ]
    assert min(errors) < 30


# What is wanted


def test_only_the_very_object_may_be_wanted(matcher, clock):
    match = matcher.match(clock, wall(), Options(wanted='same_object'))
    assert not match.located and match.alike is None
    assert 'kind' not in match.message


def test_any_object_of_the_kind_may_be_wanted(matcher, clock):
    options = Options(wanted='same_kind')
    match = matcher.match(clock, wall(), options)
    assert match.status is Status.ALIKE and list(match.stage_seconds) == ['detect', 'alike']
    very_one = matcher.match(clock, picture('clock'), options)
    assert very_one.status is Status.ALIKE and very_one.reference_to_image is None
    nothing = matcher.match(clock, example_photo('coffee'), options)
    assert nothing.status is Status.LOW_CONFIDENCE
    assert nothing.message.startswith('no object of its kind is seen')


def test_the_reference_decides_before_the_options(matcher, clock):
    strict = replace(clock, given=replace(clock.given, wanted='same_object'))
    assert not matcher.match(strict, wall(), Options(wanted='either')).located
    open_minded = replace(clock, given=replace(clock.given, wanted='either'))
    match = matcher.match(open_minded, wall(), Options(wanted='same_object'))
    assert match.status is Status.ALIKE


def test_a_plain_reference_will_do_if_any_object_of_its_kind_is_wanted(matcher):
    blurred = Reference(cv2.GaussianBlur(picture('clock'), (0, 0), 8), 'clock', drawing=False)
    with pytest.raises(TooPlain, match='or set wanted to same_kind'):
        matcher.prepare(blurred, fewest_keypoints=100)
    plain = matcher.prepare(replace(blurred, wanted='same_kind'), fewest_keypoints=100)
    assert matcher.match(plain, wall()).status is Status.ALIKE


@pytest.fixture
def store_without_parts(tmp_path):
    """Return a store that lacks a network of alike objects."""
    whole = ModelStore()
    for model in whole.models.values():
        file = whole.folder / model.file
        if file.is_file() and model.name != 'efficientnet-lite2':
            (tmp_path / model.file).symlink_to(file)
    return ModelStore(tmp_path)


def test_networks_are_loaded_only_if_the_kind_may_be_wanted(store_without_parts):
    matcher = Matcher(Settings(device='cpu', max_keypoints=256), store_without_parts)
    strict = Options(wanted='same_object')
    matcher.load_for(strict)
    clock = matcher.prepare(Reference(picture('clock'), 'clock', drawing=False))
    assert matcher.match(clock, picture('clock'), strict).found
    # A reference that wants its kind tells when it is set, and the options when they are.
    for wanted in ('same_kind', 'either'):
        with pytest.raises(ModelMissing, match='niom models fetch efficientnet-lite2'):
            matcher.prepare(Reference(picture('clock'), 'clock', wanted=wanted))
        with pytest.raises(ModelMissing, match='niom models fetch efficientnet-lite2'):
            matcher.load_for(Options(wanted=wanted))
    matcher.load_for(Options(strategies=('points',)))
    with pytest.raises(ModelMissing, match='efficientnet-lite2'):
        matcher.match(clock, wall())


@pytest.mark.parametrize('make', [Options, lambda **given: Reference(picture('clock'), **given)])
def test_anything_else_cannot_be_wanted(make):
    with pytest.raises(SettingsError, match='use one of same_object, same_kind, either'):
        make(wanted='something')


def test_of_several_references_the_very_object_wins(matcher, clock):
    cup = matcher.prepare(Reference(example_photo('coffee'), 'cup'))
    image = example_photo('coffee')
    answer = Stream(matcher, [clock, cup]).answer(image)
    assert answer.found and answer.reference.id == 'cup'
    answer = Stream(matcher, [cup, clock], StreamOptions(tracking=False)).answer(wall())
    assert answer.status is Status.ALIKE and answer.reference.id == 'clock'
    assert dict(answer.tried)['clock'] > dict(answer.tried)['cup']


def test_what_was_tried_before_is_told_of_an_alike_object(matcher):
    label = matcher.prepare(Reference(picture('clock'), 'clock', label='clock', drawing=False))
    match = matcher.match(label, wall())
    assert match.status is Status.ALIKE and match.weighting == 'none'
    assert match.reference_weights.description.startswith('none: ')
    assert match.image_weights.description.startswith('none: ')
    assert 'not weighted' not in match.image_weights.description
    assert match.scene.source_is_known
    alone = matcher.match(label, wall(), Options(wanted='same_kind'))
    assert alone.image_weights.description == 'none'


def test_confidences_are_numbers(found):
    alike = found.match.alike
    for values in (alike.landmarks.confidences, found.match.correspondences.scores):
        assert ((values >= 0) & (values <= 1)).all()
    assert math.isfinite(alike.warp.deviation)
