from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import socket
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import (
    choose_device,
    Limits,
    Options,
    Pairing,
    Settings,
    SettingsError,
    Weighting,
    WEIGHTINGS,
)
from niom_ros.images.decoding import ImageError, TooPlain
from niom_ros.matching.features import Extractor
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.matching.match import Approach
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prior import DEFAULTS as PRIOR_DEFAULTS
from niom_ros.matching.prior import Prior
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.reference import Reference
from niom_ros.matching.strategies.points import keypoint_step, part_around, Points
from niom_ros.models.store import ModelMissing, ModelStore
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import MarkedObject
from niom_ros.simulation.virtual_scene import example_photo, View, VirtualScene


def by_points(limits: Limits | None = None, **changes: Any) -> Options:
    """Return options with which keypoints of networks alone are tried."""
    return Options(limits or Limits(), strategies=('points',), **changes)


SEW = by_points(weighting=Weighting('sew'))
BY_POINTS, BY_WEIGHTED_POINTS = Approach(Points.name), Approach(Points.name, 'sew')


@pytest.fixture(scope='module')
def reference(matcher, coffee):
    return matcher.prepare(coffee)


@pytest.fixture(scope='module')
def view(scene):
    return scene.view(8.0, frame=0)


@pytest.mark.parametrize(
    ('extractor', 'matcher', 'pixels'),
    [
        ('aliked', 'lightglue', 3),
        ('disk', 'lightglue', 3),
        ('xfeat', 'lightglue', 12),  # its keypoints have no sub-pixel precision
        ('aliked', 'nearest', 3),
    ],
)
def test_a_photo_is_found_where_it_is(extractor, matcher, pixels, coffee, view):
    settings = Settings(extractor=extractor, matcher=matcher, device='cpu', max_keypoints=512)
    loaded = Matcher(settings)
    reference = loaded.prepare(coffee)
    match = loaded.match(reference, view.image, by_points())
    assert match.verdict.status is Status.OK, match.verdict.message
    found = match.verdict.reference_to_image
    assert corner_error(found, view.picture_to_image, reference.box) < pixels
    assert match.verdict.confidence > 0.6
    assert loaded.method == f'{extractor}+{matcher}'
    assert set(match.stage_seconds) == {'extract', 'match', 'verify'}
    assert match.weighting == 'none'
    agreeing = match.correspondences.reference_points[match.verdict.inliers]
    truly = warp_points(view.picture_to_image, agreeing)
    off = np.linalg.norm(truly - match.correspondences.image_points[match.verdict.inliers], axis=1)
    assert np.median(off) < 2


def test_correspondences_come_best_first(matcher, reference, view):
    scores = matcher.match(reference, view.image, by_points()).correspondences.scores
    assert (np.diff(scores) <= 0).all()
    assert scores.min() > 0.1
    strict = matcher.match(reference, view.image, by_points(Limits(score_threshold=0.8)))
    assert 0 < len(strict.correspondences) < len(scores)
    assert strict.correspondences.scores.min() > 0.8


@pytest.mark.parametrize('name', ['astronaut', 'chelsea', 'rocket', 'brick', 'page'])
def test_another_picture_is_not_taken_for_the_reference(matcher, reference, name):
    match = matcher.match(reference, example_photo(name), by_points())
    assert match.verdict.status in (
        Status.FEW_MATCHES,
        Status.REJECTED_GEOMETRY,
        Status.LOW_CONFIDENCE,
    )
    assert match.verdict.reference_to_image is None
    assert match.verdict.message


def test_images_without_anything_in_them_say_so(matcher, reference):
    for image in (
        np.full((480, 640, 3), 127, np.uint8),
        np.zeros((480, 640, 3), np.uint8),
        np.full((1, 1, 3), 9, np.uint8),
        np.zeros((20, 4000, 3), np.uint8),
    ):
        match = matcher.match(reference, image, by_points())
        assert match.verdict.status is Status.NO_KEYPOINTS
        assert 'check light, focus' in match.verdict.message


def test_unusable_references_are_refused_with_a_reason(matcher, coffee):
    for image, words in (
        (coffee[:1, :1], 'only 1 x 1 pixels of the reference are used'),
        (np.full((300, 300, 3), 255, np.uint8), 'only 0 distinct points'),
        (np.tile(coffee[:80], (1, 5, 1)), '1024 x 27 after shrinking'),
        (np.empty((0, 10, 3), np.uint8), 'empty'),
        (np.broadcast_to(np.uint8(0), (20_000, 20_000, 3)), 'limit of 50 million'),
    ):
        with pytest.raises(ImageError, match=words):
            matcher.prepare(image)


def test_a_mask_limits_where_the_reference_counts(matcher, coffee):
    mask = np.zeros(coffee.shape[:2], np.uint8)
    mask[100:350, 200:500] = 1
    features = matcher.prepare(Reference(coffee, mask=mask)).features
    x, y = features.keypoints.T
    assert 100 <= len(features) <= 512
    assert x.min() >= 199.5 and x.max() <= 499.5
    assert y.min() >= 99.5 and y.max() <= 349.5
    with pytest.raises(ImageError, match='make them the same size'):
        matcher.prepare(Reference(coffee, mask=mask[:-1]))
    with pytest.raises(ImageError, match='only 0 x 0 pixels of the reference are used'):
        matcher.prepare(Reference(coffee, mask=np.zeros_like(mask)))


def test_a_small_part_of_a_large_page_is_found(matcher, coffee, view):
    # A blueprint page with the picture in one corner of it, a twentieth of its area.
    page = np.full((2000, 2600, 3), 250, np.uint8)
    page[1500:1900, 1900:2500] = coffee
    mask = np.zeros(page.shape[:2], np.uint8)
    mask[1500:1900, 1900:2500] = 255
    reference = matcher.prepare(Reference(page, mask=mask))
    assert len(reference.features) == 512
    match = matcher.match(reference, view.image, by_points())
    assert match.verdict.status is Status.OK, match.verdict.message
    page_to_picture = np.array([[1, 0, -1900], [0, 1, -1500], [0, 0, 1]])
    truth = view.picture_to_image @ page_to_picture
    assert corner_error(match.verdict.reference_to_image, truth, reference.box) < 3


def test_a_slanted_mask_is_found(matcher, coffee):
    mask = np.zeros(coffee.shape[:2], np.uint8)
    cv2.line(mask, (60, 380), (500, 30), 255, 60)
    match = matcher.match(matcher.prepare(Reference(coffee, mask=mask)), coffee, by_points())
    assert match.verdict.status is Status.OK, match.verdict.message


def test_a_reference_needs_as_many_points_as_must_agree(matcher, coffee):
    with pytest.raises(TooPlain, match='only 512 distinct points, and 600 must be found again'):
        matcher.prepare(coffee, fewest_keypoints=600)
    assert matcher.prepare(coffee).matchability == 1


def test_the_features_of_a_reference_are_computed_once(matcher, coffee, view, monkeypatch):
    seen = []
    extract = Extractor.extract
    monkeypatch.setattr(
        Extractor, 'extract', lambda self, image: seen.append(image) or extract(self, image)
    )
    reference = matcher.prepare(coffee)
    matcher.match(reference, view.image, by_points())
    matcher.match(reference, view.image, by_points())
    shapes = [image.shape[:2] for image in seen]
    assert shapes == [coffee.shape[:2], view.image.shape[:2], view.image.shape[:2]]


def test_shrinking_a_large_image_does_not_move_its_keypoints(coffee):
    # Doubled, then halved inside: the same pixels reach the network, so the same points come out.
    device = choose_device('cpu')
    extractor = Extractor(Settings(max_keypoints=256, max_image_side=600), ModelStore(), device)
    small = extractor.extract(coffee)
    large = extractor.extract(np.repeat(np.repeat(coffee, 2, axis=0), 2, axis=1))
    assert (large.width, large.height) == (1200, 800)
    # Pixel k of the small image covers pixels 2k and 2k + 1, whose centre is 2k + 0.5.
    assert torch.allclose(large.keypoints, small.keypoints * 2 + 0.5, atol=0.01)


def test_features_have_the_promised_form(coffee):
    features = Extractor(Settings(max_keypoints=300), ModelStore(), choose_device('cpu')).extract(
        coffee
    )
    assert features.keypoints.shape == (300, 2)
    assert features.scores.shape == (300,)
    assert features.descriptors.shape == (300, 128)
    assert torch.allclose(features.descriptors.norm(dim=1), torch.ones(300), atol=1e-4)


def test_blurred_images_keep_keypoints(coffee):
    extractor = Extractor(Settings(max_keypoints=512), ModelStore(), choose_device('cpu'))
    assert len(extractor.extract(cv2.GaussianBlur(coffee, (0, 0), 5))) > 100


def test_threads_do_not_disturb_each_other(matcher, reference, scene):
    images = [scene.view(seconds, frame=0).image for seconds in (6.0, 8.0)]
    alone = [
        matcher.match(reference, image, by_points()).verdict.reference_to_image for image in images
    ]
    with ThreadPoolExecutor(2) as threads:
        together = threads.map(lambda image: matcher.match(reference, image, by_points()), images)
    for expected, match in zip(alone, together, strict=True):
        assert np.allclose(match.verdict.reference_to_image, expected, atol=1e-6)


def test_loading_and_matching_need_no_network(monkeypatch, coffee):
    def refuse(*_):
        raise AssertionError('something tried to reach the network')

    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    matcher = Matcher(Settings(device='cpu', max_keypoints=64))
    matcher.match(matcher.prepare(coffee), coffee, by_points())


def test_limits_decide(matcher, reference, view):
    strict = by_points(Limits(min_inliers=500))
    assert matcher.match(reference, view.image, strict).verdict.status is not Status.OK


def test_wrong_settings_say_what_to_use(tmp_path):
    with pytest.raises(SettingsError, match='use one of aliked, disk, xfeat, superpoint'):
        Matcher(Settings(extractor='sift'))
    with pytest.raises(SettingsError, match='use one of auto, cpu, cuda'):
        Matcher(Settings(device='tpu'))
    with pytest.raises(SettingsError, match='max_keypoints is 0'):
        Settings(max_keypoints=0)
    with pytest.raises(ModelMissing, match='niom models fetch aliked-n16'):
        Matcher(Settings(), ModelStore(tmp_path))
    if not torch.cuda.is_available():
        with pytest.raises(SettingsError, match='no usable CUDA GPU'):
            Matcher(Settings(device='cuda'))
        assert choose_device('auto').type == 'cpu'


def test_half_precision_is_for_gpus():
    with pytest.raises(SettingsError, match="precision 'half' is for CUDA GPUs"):
        Matcher(Settings(device='cpu', precision='half'))


def test_the_match_says_where_the_weights_came_from(matcher, reference, view):
    match = matcher.match(reference, view.image, SEW)
    assert match.weighting == 'sew'
    assert set(match.stage_seconds) == {'extract', 'detect', 'pair', 'match', 'verify'}
    assert reference.scene.objects[0].label == 'cup'
    assert match.reference_weights.description.startswith('yolov4-tiny: ')
    assert 'cup' in match.reference_weights.description
    weights = match.reference_weights.values
    assert weights.shape == (len(reference.features),)
    assert 0.5 <= weights.min() < 0.7 and weights.max() == 1
    assert len(match.correspondences.reference_weights) == len(match.correspondences)


def test_marked_objects_weigh_what_they_cover(matcher, coffee, view):
    marks = (MarkedObject('cup', Area(150, 20, 450, 330)),)
    reference = matcher.prepare(Reference(coffee, objects=marks))
    options = by_points(weighting=Weighting('sew'), pairing=Pairing('none'))
    match = matcher.match(reference, view.image, options)
    inside = marks[0].area.contains(reference.features.keypoints)
    weights = match.reference_weights.values
    assert weights[inside].unique().tolist() == [1]
    assert weights[~inside].unique().tolist() == [0.5]


@pytest.mark.parametrize('stage', ['before', 'after'])
@pytest.mark.parametrize('kind', WEIGHTINGS)
def test_every_weighting_can_be_chosen(matcher, reference, view, kind, stage):
    options = by_points(weighting=Weighting(kind, stage=stage), wanted='same_object')
    match = matcher.match(reference, view.image, options)
    assert match.weighting == ('none' if kind == 'auto' else kind)
    if kind in ('auto', 'none'):
        assert match.verdict.status is Status.OK
        assert match.correspondences.reference_weights is None
        why = 'found without weights' if kind == 'auto' else 'not weighted'
        assert match.reference_weights.description == f'none: {why}'
        assert set(match.stage_seconds) == {'extract', 'match', 'verify'}
    elif kind in ('sew', 'one_plus_heat'):
        assert match.verdict.status is Status.OK


def test_weights_change_what_is_matched(matcher, reference, view):
    plain = matcher.match(reference, view.image, by_points(weighting=Weighting('none')))
    strong = matcher.match(reference, view.image, by_points(weighting=Weighting('sew', range=0.9)))
    assert len(strong.correspondences) != len(plain.correspondences)


def test_without_objects_weighting_changes_nothing(coffee, view):
    matcher = Matcher(Settings(device='cpu', max_keypoints=256, detector='none'))
    reference = matcher.prepare(coffee)
    assert reference.scene.source == 'none: no detector'
    weighted = matcher.match(reference, view.image, SEW)
    plain = matcher.match(reference, view.image, by_points(weighting=Weighting('none')))
    assert weighted.image_weights.description == 'none: no detector'
    assert np.array_equal(weighted.correspondences.scores, plain.correspondences.scores)


def test_only_paired_objects_weigh(matcher, coffee, view):
    corner = Area(0, 0, 80, 80)
    marks = (MarkedObject('airplane', corner), MarkedObject('cup', Area(150, 20, 450, 330)))
    reference = matcher.prepare(Reference(coffee, objects=marks))
    paired = matcher.match(reference, view.image, SEW)
    assert [pair.reference_object for pair in paired.paired.pairs] == [1]
    in_corner = corner.contains(reference.features.keypoints)
    assert in_corner.any()
    assert paired.reference_weights.values[in_corner].max() == 0.5
    options = by_points(weighting=Weighting('sew'), pairing=Pairing('none'))
    alone = matcher.match(reference, view.image, options)
    assert alone.reference_weights.values[in_corner].min() == 1


def test_when_nothing_has_a_partner_nothing_is_weighted(matcher, coffee, view):
    marks = (MarkedObject('airplane', Area(0, 0, 80, 80)),)
    reference = matcher.prepare(Reference(coffee, objects=marks))
    match = matcher.match(reference, view.image, SEW)
    assert match.reference_weights.values is None
    assert match.image_weights.description == 'none: no objects were paired'
    assert 'pairing_floor (0.2)' in match.paired.how


def test_a_drawing_is_recognised_and_can_be_overruled(matcher, coffee):
    drawing = np.full((400, 600, 3), 255, np.uint8)
    corners = np.random.default_rng(0).integers((150, 100), (450, 300), (30, 2))
    cv2.polylines(drawing, [corners.astype(np.int32)], True, (0, 0, 0), 2, cv2.LINE_AA)
    reference = matcher.prepare(drawing)
    assert reference.drawing and reference.kind_confidence > 0.5
    assert reference.scene.source == 'hull of the ink'
    photo = matcher.prepare(Reference(drawing, drawing=False))
    assert not photo.drawing
    assert photo.kind_confidence == 1
    assert photo.scene.source != 'hull of the ink'
    assert not matcher.prepare(coffee).drawing


@pytest.fixture
def matcher_calls(matcher, monkeypatch):
    """Return a list that grows with every call of the matcher."""
    calls = []
    match = matcher.perception.keypoint_matcher.match

    def counted(*given):
        calls.append(given)
        return match(*given)

    monkeypatch.setattr(matcher.perception.keypoint_matcher, 'match', counted)
    return calls


@pytest.fixture
def prepared(matcher, monkeypatch):
    """Return a list that grows with the features that the matcher projects and prepares."""
    calls = []

    def counted(name, original):
        def call(features):
            calls.append((name, features.keypoints))
            return original(features)

        return call

    for name in ('project', 'prepare'):
        original = getattr(matcher.perception.keypoint_matcher, name)
        monkeypatch.setattr(matcher.perception.keypoint_matcher, name, counted(name, original))
    return calls


@pytest.mark.parametrize('kind', ['none', 'sew'])
def test_of_the_reference_nothing_is_computed_for_the_second_image(
    matcher, coffee, view, kind, prepared
):
    marks = (MarkedObject('cup', Area(150, 20, 450, 330)),)
    reference = matcher.prepare(Reference(coffee, objects=marks))
    analysis, options = matcher.analyse(view.image), by_points(weighting=Weighting(kind))
    of_reference = reference.features.keypoints
    (first,) = matcher.match_all([reference], analysis, options)
    assert sorted(name for name, points in prepared if points is of_reference) == [
        'prepare',
        'project',
    ]
    prepared.clear()
    (second,) = matcher.match_all([reference], analysis, options)
    assert [name for name, _ in prepared] == ['project', 'prepare']
    assert not [name for name, points in prepared if points is of_reference]
    assert (first.reference_weights.values is not None) == (kind == 'sew')
    assert (second.correspondences.scores == first.correspondences.scores).all()


def test_another_pairing_or_weighting_prepares_the_reference_again(matcher, coffee, prepared):
    marks = (
        MarkedObject('cat', Area(150, 20, 450, 330)),
        MarkedObject('person', Area(10, 200, 300, 390)),
    )
    reference = matcher.prepare(Reference(coffee, objects=marks))
    cat, person = (
        matcher.analyse(example_photo('chelsea')),
        matcher.analyse(example_photo('astronaut')),
    )
    for analysis, weighting, prepares_again in (
        (cat, Weighting('sew'), True),
        (person, Weighting('sew'), True),
        (cat, Weighting('sew'), False),
        (cat, Weighting('sew', stage='after'), True),
        (cat, Weighting('none'), True),
        (person, Weighting('sew'), False),
    ):
        assert len(analysis.features)
        prepared.clear()
        (match,) = matcher.match_all([reference], analysis, by_points(weighting=weighting))
        assert len(prepared) == (4 if prepares_again else 2)
        fresh = matcher.prepare(Reference(coffee, objects=marks))
        (again,) = matcher.match_all([fresh], analysis, by_points(weighting=weighting))
        assert (again.correspondences.scores == match.correspondences.scores).all()


def test_a_changed_reference_shares_nothing_that_was_prepared(matcher, reference, view):
    matcher.match(reference, view.image, by_points())
    assert (
        replace(reference, matchability=0.5).prepared_features is not reference.prepared_features
    )


def test_only_what_was_used_last_is_kept():
    cache, made = RecentlyUsed(4), []
    for key in (1, 2, 3, 4, 1, 5, 1, 2):
        assert cache.get(key, lambda key=key: made.append(key) or key) == key
    assert made == [1, 2, 3, 4, 5, 2]


def test_there_is_room_for_as_many_as_needed():
    cache, made = RecentlyUsed(2), []
    cache.make_room(3)
    cache.make_room(1)
    for key in (1, 2, 3) * 2:
        assert cache.get(key, lambda key=key: made.append(key) or key) == key
    assert made == [1, 2, 3]


def test_computing_a_value_may_need_another_one():
    cache = RecentlyUsed(1)
    assert cache.get('sum', lambda: 1 + cache.get('part', lambda: 2)) == 3
    assert cache.get('sum', lambda: 0) == 3


def test_auto_weights_nothing_that_is_found_without(matcher, reference, view, matcher_calls):
    match = matcher.match(reference, view.image, by_points())
    assert match.verdict.status is Status.OK
    assert (match.weighting, len(matcher_calls)) == ('none', 1)


def test_auto_tries_again_with_weights_and_takes_the_better(matcher, coffee, matcher_calls):
    marks = (MarkedObject('cat', Area(150, 20, 450, 330)),)
    reference = matcher.prepare(Reference(coffee, objects=marks))
    match = matcher.match(reference, example_photo('chelsea'), by_points())
    assert len(matcher_calls) == 2
    assert match.verdict.status is not Status.OK
    assert [match.scene.objects[p.image_object].label for p in match.paired.pairs] == ['cat']
    alone = [
        matcher.match(reference, example_photo('chelsea'), by_points(weighting=Weighting(kind)))
        for kind in ('none', 'sew')
    ]
    assert match.agreement == max(attempt.agreement for attempt in alone)


def test_auto_does_not_try_again_when_it_sees_no_object(matcher, reference, matcher_calls):
    grey = np.full((400, 600, 3), 127, np.uint8)
    grey[100:300:8, 100:500] = grey[100:300, 100:500:8] = 0
    match = matcher.match(reference, grey, by_points())
    assert (match.weighting, len(matcher_calls)) == ('none', 1)
    assert match.image_weights.description == 'none: yolov4-tiny saw nothing'


def test_a_figure_on_a_page_is_seen_as_large_as_it_is(matcher, coffee):
    page = np.full((2400, 3600, 3), 255, np.uint8)
    page[1800:2200, 200:800] = coffee
    mask = np.zeros((2400, 3600), np.uint8)
    mask[1800:2200, 200:800] = 1
    reference = matcher.prepare(Reference(page, mask=mask))
    alone = matcher.prepare(coffee)
    seen, expected = reference.scene.objects[0], alone.scene.objects[0]
    assert seen.label == expected.label == 'cup'
    assert seen.area == expected.area.moved(200, 1800)
    assert torch.allclose(reference.scene.heat, alone.scene.heat, atol=1e-4)


def test_one_look_at_an_image_finds_the_best_of_several_references(matcher, coffee, scene):
    references = [
        matcher.prepare(example_photo('chelsea')),
        matcher.prepare(coffee),
        matcher.prepare(example_photo('rocket')),
    ]
    analysis = matcher.analyse(scene.view(8.0, frame=0).image)
    matches = matcher.match_all(references, analysis, by_points())
    assert [match.verdict.status is Status.OK for match in matches] == [False, True, False]
    assert matches[1].agreement == max(match.agreement for match in matches)
    # One of them was found without weights, so nothing was detected for the others.
    assert not analysis.has_scene
    alone = matcher.match(references[1], analysis.image, by_points())
    assert np.allclose(
        alone.verdict.reference_to_image, matches[1].verdict.reference_to_image, rtol=1e-6
    )


def test_objects_are_detected_once_for_all_references(matcher, coffee):
    references = [matcher.prepare(coffee), matcher.prepare(example_photo('chelsea'))]
    analysis = matcher.analyse(example_photo('astronaut'))
    matches = matcher.match_all(references, analysis, by_points())
    assert all(match.verdict.status is not Status.OK for match in matches)
    assert analysis.has_scene
    assert matches[0].scene is matches[1].scene is analysis.scene


# A stream: fewer keypoints, and a search where the reference was tracked to


def test_the_strongest_keypoints_are_kept_in_their_order(matcher, reference):
    few = reference.with_most(100)
    assert len(few.features) == few.scene.heat.shape[1] == 100
    weakest = few.features.scores.min()
    assert (reference.features.scores > weakest).sum() < 100
    places = [
        (reference.features.keypoints == keypoint).all(dim=1).nonzero().item()
        for keypoint in few.features.keypoints
    ]
    assert places == sorted(places)
    assert torch.equal(few.scene.heat, reference.scene.heat[:, places])
    assert reference.with_most(100) is few
    for number in range(101, 109):
        reference.with_most(number)
    assert reference.with_most(100) is not few  # eight others were used since
    assert reference.with_most(100_000) is reference


def test_fewer_keypoints_are_matched_on_both_sides(matcher, reference, view, matcher_calls):
    analysis = matcher.analyse(view.image, max_keypoints=200)
    (match,) = matcher.match_all([reference], analysis, by_points())
    assert [len(side.points) for side in matcher_calls[0][:2]] == [200, 200]
    assert match.image_keypoints == 200
    assert match.verdict.status is Status.OK
    found = match.verdict.reference_to_image
    assert corner_error(found, view.picture_to_image, reference.box) < 3


@pytest.fixture(scope='module')
def small_view(coffee):
    """Return an image in which the photo is small, off centre, among similar things."""
    scene = VirtualScene(coffee, example_photo('gravel'), 1280, 720)
    away = np.array([[0.4, 0, 700], [0, 0.4, 60], [0, 0, 1]])
    picture_to_image = away @ scene.picture_to_image(8.0)
    image = scene.view(8.0, frame=0).image
    return View(
        cv2.warpPerspective(image, away, (1280, 720), cv2.BORDER_REFLECT), picture_to_image
    )


def prior_of(reference, view, **changes):
    return replace(Prior(reference, BY_POINTS, view.picture_to_image, tracked=True), **changes)


@pytest.mark.parametrize('options', [by_points(), SEW], ids=['auto', 'sew'])
def test_a_closer_look_is_taken_where_it_was_tracked_to(
    matcher, reference, small_view, options, matcher_calls
):
    analysis = matcher.analyse(small_view.image)
    approach = BY_POINTS if options == by_points() else BY_WEIGHTED_POINTS
    prior = prior_of(reference, small_view, approach=approach, locked=3)
    (match,) = matcher.match_all([reference], analysis, options, prior)
    assert match.verdict.status is Status.OK
    assert (match.locked, match.approach, len(matcher_calls)) == (4, approach, 1)
    found = match.verdict.reference_to_image
    assert corner_error(found, small_view.picture_to_image, reference.box) < 1.5
    # About a third of the image was searched, with proportionally fewer keypoints.
    assert match.image_keypoints < 512
    corners = warp_points(small_view.picture_to_image, reference.box.corners())
    size = np.ptp(corners, axis=0)
    inside = match.correspondences.image_points
    assert (inside > corners.min(axis=0) - 0.15 * size).all()
    assert (inside < corners.max(axis=0) + 0.15 * size).all()
    if approach == BY_WEIGHTED_POINTS:
        assert match.weighting == 'sew'
        assert analysis.scene is match.scene
    else:
        assert match.image_weights.description == 'none: found without weights'


def test_what_is_not_where_it_was_tracked_to_is_found_elsewhere(matcher, reference, small_view):
    wrong = np.array([[0.4, 0, 20], [0, 0.4, 400], [0, 0, 1]])
    prior = prior_of(reference, small_view, reference_to_image=wrong)
    (match,) = matcher.match_all([reference], matcher.analyse(small_view.image), prior=prior)
    (alone,) = matcher.match_all([reference], matcher.analyse(small_view.image), by_points())
    assert match.locked == 0
    assert match.verdict.status is alone.verdict.status
    assert (match.correspondences.scores == alone.correspondences.scores).all()


def test_what_is_found_far_from_where_it_was_tracked_to_is_looked_for_everywhere(
    matcher, reference, small_view
):
    aside = np.array([[1.0, 0, 40], [0, 1, 0], [0, 0, 1]]) @ small_view.picture_to_image
    analysis = matcher.analyse(small_view.image)
    prior = prior_of(reference, small_view, reference_to_image=aside)
    (match,) = matcher.match_all([reference], analysis, prior=prior)
    assert match.locked == 0
    assert analysis.has_features  # of the whole image
    closer = small_view.picture_to_image.copy()
    closer[0] += 5 * closer[2]
    prior = prior_of(reference, small_view, reference_to_image=closer)
    (match,) = matcher.match_all([reference], matcher.analyse(small_view.image), prior=prior)
    assert match.locked == 1


@pytest.mark.parametrize(
    'changes',
    [
        {'tracked': False},
        {'locked': PRIOR_DEFAULTS.longest_lock},
        {'approach': BY_WEIGHTED_POINTS},
    ],
)
def test_the_whole_image_is_looked_at_without_such_a_prior(
    matcher, reference, small_view, changes
):
    analysis = matcher.analyse(small_view.image)
    (match,) = matcher.match_all(
        [reference],
        analysis,
        by_points(weighting=Weighting('none')),
        prior_of(reference, small_view, **changes),
    )
    assert match.locked == 0
    assert (analysis.features.width, analysis.features.height) == (1280, 720)


def test_several_references_are_all_looked_for_everywhere(matcher, reference, small_view, coffee):
    references = [reference, matcher.prepare(example_photo('chelsea'))]
    analysis = matcher.analyse(small_view.image)
    matches = matcher.match_all(references, analysis, prior=prior_of(reference, small_view))
    assert [match.locked for match in matches] == [0, 0]


def test_objects_that_are_known_are_not_detected_again(matcher, reference, small_view):
    scene = matcher.analyse(small_view.image).scene
    analysis = matcher.analyse(small_view.image)
    prior = prior_of(reference, small_view, approach=BY_WEIGHTED_POINTS, scene=scene)
    (match,) = matcher.match_all([reference], analysis, SEW, prior)
    assert match.scene is scene
    assert 'detect' not in match.stage_seconds


def test_the_part_around_a_reference_has_a_margin_and_ends_with_the_image():
    box, whole = Box(0, 0, 201, 101), Box(0, 0, 640, 480)
    moved = np.array([[1.0, 0, 100], [0, 1, 200], [0, 0, 1]])
    assert part_around(moved, box, whole) == Box(80, 184, 240, 132)
    moved[0, 2] = -10
    assert part_around(moved, box, whole) == Box(0, 184, 210, 132)
    # Hardly in the image, beyond the horizon, and almost the whole image.
    moved[0, 2] = 600
    assert part_around(moved, box, whole) is None
    assert part_around(np.diag([1.0, 1, -1]), box, whole) is None
    assert part_around(np.diag([3.2, 4.8, 1]), box, whole) is None


def test_a_part_gets_one_of_a_few_numbers_of_keypoints():
    assert [keypoint_step(1024, wanted) for wanted in (10, 256, 257, 500, 600, 1024)] == [
        256,
        256,
        384,
        512,
        768,
        1024,
    ]
    assert keypoint_step(100, 20) == 100


def test_detector_and_extractor_work_side_by_side_with_the_same_result(matcher, view):
    both, apart = matcher.analyse(view.image), matcher.analyse(view.image)
    features, scene = both.features_and_scene()
    assert (features, scene) == (both.features, both.scene)
    assert torch.equal(features.keypoints, apart.features.keypoints)
    assert [o.area for o in scene.objects] == [o.area for o in apart.scene.objects]
    assert list(both.times.seconds()) == ['extract', 'detect']


def test_a_detector_that_fails_beside_the_extractor_is_told(matcher, reference, view, monkeypatch):
    def fail(image):
        raise RuntimeError('no more memory')

    monkeypatch.setattr(matcher.perception._reader, 'read_image', fail)
    with pytest.raises(RuntimeError, match='no more memory'):
        matcher.match(reference, view.image, SEW)
    monkeypatch.undo()
    assert matcher.match(reference, view.image, SEW).verdict.status is Status.OK
