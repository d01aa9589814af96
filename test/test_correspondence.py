"""Parts of one object found in another: networks, region and field, with real weights."""

from dataclasses import asdict, replace
import math

import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.confidence import KIND_SIGNS
from niom_ros.matching.geometry import Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Reference
from niom_ros.models.store import ModelStore
from niom_ros.networks.inverted_residuals import (
    EFFICIENTNET_LITE2,
    efficientnet_lite2,
    InvertedResiduals,
    MOBILENET_V2,
    mobilenet_v2,
    PaddedAsInTensorFlow,
)
from niom_ros.semantics.correspondence import field
from niom_ros.semantics.correspondence.features import descriptors, PartFeatures, resampled
from niom_ros.semantics.correspondence.field import (
    find_parts,
    parts_in,
    peaks,
    prepare_parts,
    regularised,
)
from niom_ros.semantics.correspondence.region import find_regions, Offer
from niom_ros.semantics.heat_maps import Area, overlap
from niom_ros.simulation.virtual_scene import example_photo

CPU = torch.device('cpu')
CAT = example_photo('chelsea')
# The eyes, the nose and the tip of an ear of the cat, in its pixels.
MARKS = np.array([[174.0, 121], [259, 114], [219, 168], [128, 15]])
SIDE = field.DEFAULTS.cells


@pytest.fixture(scope='module')
def features():
    return PartFeatures(ModelStore(), CPU)


@pytest.fixture(scope='module')
def cat(features):
    return prepare_parts(features, CAT, Area.of_box(Box.around(CAT)))


@pytest.fixture(scope='module')
def placed():
    """Return an image with a smaller, stretched and darker cat, and the map to its pixels."""
    image = cv2.resize(example_photo('gravel'), (640, 480))
    width, height, left, top = 250, 180, 330, 220
    small = cv2.resize(CAT, (width, height), interpolation=cv2.INTER_AREA)
    image[top : top + height, left : left + width] = (small * 0.8).astype(np.uint8)
    scale = np.array([width / CAT.shape[1], height / CAT.shape[0]])
    return image, lambda points: (points + 0.5) * scale - 0.5 + (left, top)


# Networks


@pytest.mark.parametrize(
    ('name', 'architecture', 'strides'),
    [
        ('mobilenet-v2', MOBILENET_V2, [2, 4, 8, 16, 16, 32, 32]),
        ('efficientnet-lite2', EFFICIENTNET_LITE2, [2, 4, 8, 16, 16, 32, 32]),
    ],
)
def test_published_weights_fit_layer_by_layer(name, architecture, strides):
    published = ModelStore().load_state_dict(name)
    network = InvertedResiduals(architecture)
    network.load_in_order(published)
    given = [v for k, v in published.items() if not k.endswith('num_batches_tracked')]
    mine = [v for k, v in network.state_dict().items() if not k.endswith('num_batches_tracked')]
    assert all(torch.equal(first, second) for first, second in zip(mine, given, strict=True))
    outputs = network.eval().after(torch.zeros(1, 3, 128, 96), 7)
    assert [output.shape[1] for output in outputs] == [s.channels for s in architecture.stages]
    assert [128 // output.shape[2] for output in outputs] == strides
    with pytest.raises(ValueError, match='weights are published'):
        network.load_in_order({'stem.0.weight': given[0]})


@pytest.mark.parametrize('make', [mobilenet_v2, efficientnet_lite2])
def test_a_network_computes_the_same_without_its_normalisation(make):
    name = 'mobilenet-v2' if make is mobilenet_v2 else 'efficientnet-lite2'
    fused = make(ModelStore().load_state_dict(name))
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in fused.modules())
    plain = InvertedResiduals(MOBILENET_V2 if make is mobilenet_v2 else EFFICIENTNET_LITE2)
    plain.load_in_order(ModelStore().load_state_dict(name))
    pixels = torch.randn(1, 3, 96, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for one, other in zip(fused(pixels), plain.eval()(pixels), strict=True):
            assert one.allclose(other, atol=1e-3)


def test_networks_name_what_an_area_shows(features):
    ranks = [
        # 281 to 285 are the cats of ImageNet.
        each.impression(CAT, Area.of_box(Box.around(CAT))).names.argmax()
        for each in features.both
    ]
    assert all(281 <= rank <= 285 for rank in ranks)


def test_tensorflow_pads_more_on_the_right_and_below():
    layer = PaddedAsInTensorFlow(1, 1, 3, 2, bias=False)
    torch.nn.init.ones_(layer.weight)
    ones = torch.ones(1, 1, 4, 4)
    # Nothing is added on the left and above: the first window is full.
    assert layer(ones)[0, 0].tolist() == [[9, 6], [6, 4]]


def test_a_normalised_network_names_parts_alike_in_both_scales(features):
    area = Area.of_box(Box.around(CAT))
    for backbone in features.both:
        small, large = (
            descriptors(backbone.see(CAT, area, size), (6, 9)) for size in ((128, 192), (256, 384))
        )
        assert small.norm(dim=0).allclose(torch.ones(6, 9), atol=1e-4)
        own = (small * large).sum(0).mean()
        others = (small.flatten(1).T @ large.flatten(1)).mean()
        assert own > others + 0.3


def test_an_area_is_resampled_to_the_pixel():
    ramp = np.arange(40, dtype=np.uint8)[None, :, None].repeat(30, 0).repeat(3, 2)
    same = resampled(ramp, Area(-0.5, -0.5, 39.5, 29.5), (30, 40))
    assert (same == ramp).all()
    part = resampled(ramp, Area(9.5, 4.5, 19.5, 14.5), (10, 10))
    assert (part[0, :, 0] == np.arange(10, 20)).all()
    beyond = resampled(ramp, Area(-10.5, -0.5, -0.5, 9.5), (10, 10))
    assert (beyond == 0).all()
    quarter = resampled(ramp, Area(-0.5, -0.5, 39.5, 29.5), (8, 10))
    assert abs(quarter[4].mean(axis=1) - (np.arange(10) * 4 + 1.5)).max() < 1


# Region and field


def test_the_region_is_found_without_a_detector(features, cat, placed):
    image, _ = placed
    region, *others = find_regions(features.coarse, cat.filters, image, 3)
    assert len(others) == 2 and region.score > others[0].score > others[1].score
    assert all(overlap(region.area, other.area) < 0.5 for other in others)
    truth = Area(330 - 0.5, 220 - 0.5, 580 - 0.5, 400 - 0.5)
    assert overlap(region.area, truth) > 0.6


def test_where_a_detector_sees_one_only_there_is_compared(features, cat, placed):
    image, _ = placed
    there, beside = Area(330, 220, 580, 400), Area(20, 20, 200, 150)
    best, other = find_regions(features.coarse, cat.filters, image, 3, [beside, there])
    assert best.area == there
    assert other.area == beside and best.score > other.score + 0.1
    free, *_ = find_regions(features.coarse, cat.filters, image, 3)
    assert best.score == pytest.approx(free.score, abs=0.05)
    offers = [Offer(beside, 0.5), Offer(there, 0.7)]
    assert find_parts(features, cat, image, offers).area == there
    assert find_parts(features, cat, image, offers).signs.label == 0.7
    cut_off = [replace(offer, whole=False) for offer in offers]
    found = find_parts(features, cat, image, cut_off)
    assert found.area == free.area and found.signs.label == 0.7


@pytest.mark.parametrize('known', [False, True])
def test_parts_arrive_where_they_are(features, cat, placed, known):
    image, to_image = placed
    if known:
        field = parts_in(features, cat, image, Area(329.5, 219.5, 579.5, 399.5))
    else:
        field = find_parts(features, cat, image).field
    found = field.carry(MARKS)
    errors = np.linalg.norm(found.places - to_image(MARKS), axis=1)
    assert errors.max() < 0.08 * 250
    assert field.certainty > 0.7 and (found.peaks > 0.05).all()


def test_an_image_that_shows_nothing_alike_is_less_certain(features, cat, placed):
    sure = find_parts(features, cat, placed[0]).signs
    gravel = cv2.resize(example_photo('gravel'), (640, 480))
    unsure = find_parts(features, cat, gravel).signs
    assert asdict(sure).keys() == {*KIND_SIGNS, 'mirrored'}
    compared = KIND_SIGNS.keys() - {'label'}
    assert all(getattr(unsure, name) < getattr(sure, name) - 0.1 for name in compared)
    assert sure.label == unsure.label == 0  # no detector was asked


@pytest.mark.parametrize('size', [(1, 1), (3, 900), (900, 3), (64, 64)])
def test_images_of_any_shape_have_an_answer(features, cat, size):
    parts = find_parts(features, cat, np.full((*size, 3), 90, np.uint8))
    found = parts.field.carry(MARKS)
    assert np.isfinite(found.places).all() and np.isfinite(found.peaks).all()
    assert all(math.isfinite(value) for value in asdict(parts.signs).values())


def test_neighbours_that_move_alike_outvote_a_better_lone_pair():
    noise = torch.rand(SIDE**2, SIDE**2, generator=torch.Generator().manual_seed(1)) * 0.1
    cosine = noise.view(SIDE, SIDE, SIDE, SIDE)
    for row in range(4, 20):
        for column in range(4, 18):
            cosine[row, column, row, column + 3] = 0.5
    cosine[10, 10, 2, 2] = 0.55  # alone, and against all its neighbours
    likelihood = regularised(cosine.view(SIDE**2, SIDE**2))
    (place,) = peaks(likelihood[10, 10][None])
    assert place.tolist() == pytest.approx([13.5 / SIDE, 10.5 / SIDE], abs=0.5 / SIDE)


def test_places_lie_between_cells():
    maps = torch.zeros(1, SIDE, SIDE)
    maps[0, 5, 7], maps[0, 5, 8] = 1.0, 1.0
    (place,) = peaks(maps)
    assert place.tolist() == pytest.approx([8 / SIDE, 5.5 / SIDE])


# The strategy


@pytest.fixture(scope='module')
def matcher():
    return Matcher(Settings(device='cpu', max_keypoints=128, detector='none'))


def test_the_strategy_gives_points_but_no_homography(matcher, placed):
    image, to_image = placed
    reference = matcher.prepare(CAT)
    match = matcher.match(reference, image, Options(strategies=('alike',)))
    assert match.status is Status.ALIKE and match.reference_to_image is None
    assert match.strategy == 'alike' and not match.by_keypoints
    count = len(match.correspondences)
    assert f'{match.inliers.sum()} of {count} points are certain' in match.message
    certain = match.inliers
    assert certain.sum() > 30
    points = match.correspondences
    errors = np.linalg.norm(
        points.image_points[certain] - to_image(points.reference_points[certain]), axis=1
    )
    assert np.quantile(errors, 0.8) < 0.1 * 250
    assert (np.diff(points.scores) <= 0).all()


def test_points_stay_within_the_region_of_the_reference(matcher, placed):
    given = Reference(CAT, region=Box(100, 0, 250, 200))
    reference = matcher.prepare(given)
    match = matcher.match(reference, placed[0], Options(strategies=('alike',)))
    points = match.correspondences.reference_points
    assert points.min(axis=0).tolist() >= [99.5, -0.5]
    assert points.max(axis=0).tolist() <= [349.5, 199.5]


def test_it_is_tried_last():
    assert Settings().strategies[-1] == 'alike'
