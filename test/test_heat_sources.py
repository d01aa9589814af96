"""Heat that weights keypoints, from each of its sources, with real weights."""

from dataclasses import replace

from alike_pictures import CLOCK_PLACE, CLOCK_SIDE, picture, wall
import cv2
import numpy as np
import pytest
import torch
from torchvision.models import mobilenet_v2

from niom_ros.core.boxes import Box
from niom_ros.core.parameters import MATCH_PARAMETERS, MATCHER_PARAMETERS, options_of
from niom_ros.core.settings import HEAT_SOURCES, Options, Settings, SettingsError, Weighting
from niom_ros.matching import found_parts
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Reference
from niom_ros.models.store import ModelStore
from niom_ros.networks.inverted_residuals import mobilenet_v2 as our_mobilenet_v2
from niom_ros.pictures.matches import draw_semantics
from niom_ros.semantics.classifier import Classifier
from niom_ros.semantics.correspondence.agreement import agreement
from niom_ros.semantics.correspondence.features import normalised, PartFeatures
from niom_ros.semantics.correspondence.field import find_parts, prepare_parts
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.scene import MarkedObject
from niom_ros.simulation.virtual_scene import example_photo

CPU = torch.device('cpu')
CAT, CUP = example_photo('chelsea'), example_photo('coffee')
EGYPTIAN_CAT, ESPRESSO = 285, 967  # classes of ImageNet


@pytest.fixture(scope='module')
def classifier():
    return Classifier(PartFeatures(ModelStore(), CPU).mobilenet, CPU)


@pytest.fixture(scope='module')
def features():
    return PartFeatures(ModelStore(), CPU)


@pytest.fixture(scope='module')
def matcher():
    return Matcher(Settings(device='cpu', max_keypoints=256))


@pytest.fixture(scope='module')
def cat(matcher):
    return matcher.prepare(CAT)


@pytest.fixture(scope='module')
def other_cat():
    """Return the cat, mirrored, smaller and darker, on gravel."""
    image = cv2.resize(example_photo('gravel'), (640, 480))
    image[150:350, 200:500] = cv2.resize(CAT[:, ::-1], (300, 200)) * 0.8
    return image


def weighted_by(source, kind='sew'):
    options = Weighting(kind, source=source)
    return Options(weighting=options, strategies=('points',))


def on_ground(photo):
    """Return where something is drawn on the grey ground of a picture."""
    different = np.abs(photo.astype(int) - photo[0, 0]).max(axis=2) > 20
    outlines, _ = cv2.findContours(
        different.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    filled = cv2.drawContours(np.zeros(photo.shape[:2], np.uint8), outlines, -1, 1, cv2.FILLED)
    return filled.astype(bool)


def on_wall():
    """Return where the clock on the wall is."""
    (left, top), radius = CLOCK_PLACE, CLOCK_SIDE // 2
    disc = np.zeros(wall().shape[:2], np.uint8)
    return cv2.circle(disc, (left + radius, top + radius), radius, 1, -1).astype(bool)


def contrast(heat, mask):
    """Return by how much the mean heat on an object is above that off it."""
    shown = heat.picture(mask.shape[1], mask.shape[0]).numpy()
    return shown[mask].mean() - shown[~mask].mean()


# The classifier


def test_the_whole_network_is_that_of_torchvision(classifier):
    published = ModelStore().load_state_dict('mobilenet-v2')
    theirs = mobilenet_v2()
    theirs.load_state_dict(published)
    theirs.eval()
    ours = our_mobilenet_v2(published)
    for photo, name in ((CAT, EGYPTIAN_CAT), (CUP, ESPRESSO)):
        pixels = normalised(photo, Area.of_box(Box.around(photo)), (224, 320), CPU)
        with torch.inference_mode():
            scores = ours.evidence(pixels).mean((1, 2)) + ours.classes.bias
            assert scores.allclose(theirs(pixels)[0], atol=1e-3)
        assert scores.argmax() == name


@pytest.mark.parametrize('name', ['wolf', 'tiger', 'clock', 'other_clock'])
def test_a_classifier_is_warmer_on_the_object_than_off_it(classifier, name):
    photo = picture(name)
    assert contrast(classifier.heat(photo), on_ground(photo)) > 0.2


def test_a_classifier_finds_a_small_object(classifier):
    assert contrast(classifier.heat(wall()), on_wall()) > 0.4


@pytest.mark.parametrize('size', [(64, 64), (40, 900), (900, 40)])
def test_a_classifier_takes_images_of_any_shape(classifier, size):
    heat = classifier.heat(np.full((*size, 3), 90, np.uint8)).picture(8, 8)
    assert heat.isfinite().all() and heat.min() >= 0 and heat.max() <= 1


# Agreement


def maps_of(features, reference, image):
    prepared = prepare_parts(features, reference, Area.of_box(Box.around(reference)))
    sizes = (reference.shape[1::-1], image.shape[1::-1])
    return agreement(find_parts(features, prepared, image).field, *sizes, CPU)


def test_pictures_agree_where_both_show_a_clock(features):
    of_reference, of_image = maps_of(features, picture('clock'), wall())
    assert contrast(of_reference, on_ground(picture('clock'))) > 0.2
    assert contrast(of_image, on_wall()) > 0.4


def test_heat_covers_an_area_to_the_pixel():
    grid = torch.tensor([[0.0, 1.0], [0.5, 0.0]])
    area = Area(19.5, 9.5, 39.5, 29.5)
    heat = HeatMap.of_grid(grid, GridFrame.over(100, 50, area, 2, 2), area)
    # The centres of the cells, and a place outside.
    points = torch.tensor([[24.5, 14.5], [34.5, 14.5], [24.5, 24.5], [34.5, 24.5], [60.0, 14.5]])
    assert heat.at(points).tolist() == pytest.approx([0, 1, 0.5, 0, 0])
    whole = GridFrame(100, 50).area
    assert GridFrame.over(100, 50, whole, 3, 4) == GridFrame.spanning(100, 50, 3, 4)


# The setting


@pytest.mark.parametrize('source', HEAT_SOURCES)
def test_the_source_reaches_the_matcher(matcher, cat, other_cat, source):
    match = matcher.match(cat, other_cat, weighted_by(source))
    name = 'yolov4-tiny: cat' if source == 'detector' else source
    for weights in (match.reference_weights, match.image_weights):
        assert weights.description == name
        assert weights.values.min() < 0.7 and weights.values.max() == 1
        assert len(weights.heat) == 1
    assert bool(match.scene.objects) == (source == 'detector')
    assert draw_semantics(cat, other_cat, match).ndim == 3


@pytest.mark.parametrize('source', HEAT_SOURCES)
def test_controls_have_the_weights_of_sew_elsewhere_or_their_mean(matcher, cat, other_cat, source):
    sew, shuffled, uniform = (
        matcher.match(cat, other_cat, weighted_by(source, kind))
        for kind in ('sew', 'shuffled', 'uniform')
    )
    for side in ('reference_weights', 'image_weights'):
        values, elsewhere, mean = (
            getattr(match, side).values for match in (sew, shuffled, uniform)
        )
        assert torch.equal(elsewhere.sort().values, values.sort().values)
        assert not torch.equal(elsewhere, values)
        assert mean.allclose(values.mean())


def test_no_detector_is_needed_for_the_other_sources(other_cat):
    blind = Matcher(Settings(device='cpu', max_keypoints=128, detector='none'))
    reference = blind.prepare(CAT)
    applied = {
        source: blind.match(reference, other_cat, weighted_by(source)).weighting
        for source in HEAT_SOURCES
    }
    assert applied == {'detector': 'none', 'classifier': 'sew', 'agreement': 'sew'}


def test_marked_objects_go_before_classes(matcher, other_cat):
    marks = (MarkedObject('eye', Area(150, 90, 200, 140)),)
    reference = matcher.prepare(Reference(CAT, objects=marks))
    match = matcher.match(reference, other_cat, weighted_by('classifier'))
    assert match.reference_weights.description == 'marked objects: eye'
    assert match.image_weights.description == 'classifier'


def test_classes_are_looked_for_in_the_region_of_the_reference(matcher):
    clock = picture('clock')
    height, width = clock.shape[:2]
    wolf = cv2.resize(picture('wolf'), (width, height))
    given = Reference(np.hstack([clock, wolf]), region=Box(width, 0, width, height))
    match = matcher.match(matcher.prepare(given, 0), wall(), weighted_by('classifier'))
    (heat,) = match.reference_weights.heat
    shown, mask = heat.picture(2 * width, height).numpy(), on_ground(wolf)
    assert shown[:, : width - 1].max() == 0
    assert shown[:, width:][mask].mean() > shown[:, width:][~mask].mean() + 0.2


def test_the_agreement_of_a_reference_differs_from_image_to_image(matcher, other_cat):
    kept, fresh = matcher.prepare(CAT), matcher.prepare(CAT)
    options = weighted_by('agreement')
    first = matcher.match(kept, CUP, options)
    second, alone = (matcher.match(each, other_cat, options) for each in (kept, fresh))
    assert not torch.equal(first.reference_weights.values, second.reference_weights.values)
    assert torch.equal(second.reference_weights.values, alone.reference_weights.values)
    # What was prepared for the first image is not used for the second.
    assert np.array_equal(second.correspondences.scores, alone.correspondences.scores)


def test_an_image_is_compared_with_a_reference_once(matcher, cat, other_cat, monkeypatch):
    calls = []
    monkeypatch.setattr(
        found_parts, 'find_parts', lambda *given: calls.append(1) or find_parts(*given)
    )
    analysis = matcher.analyse(other_cat)
    for kind in ('sew', 'shuffled'):
        matcher.match_all([cat], analysis, weighted_by('agreement', kind))
    assert len(calls) == 1
    # Also with the strategy that looks for other objects of the kind.
    matcher.match_all([cat], analysis, Options(strategies=('alike',)))
    assert len(calls) == 1
    # Also if there are many references.
    cats = [cat, *(replace(cat) for _ in range(8))]
    for kind in ('sew', 'shuffled'):
        matcher.match_all(cats, analysis, weighted_by('agreement', kind))
    assert len(calls) == 9


def test_the_parameter_is_the_setting():
    (parameter,) = (each for each in MATCH_PARAMETERS if each.name == 'heat_source')
    assert (parameter.default, parameter.live) == ('detector', True)
    values = {each.name: each.default for each in MATCHER_PARAMETERS}
    assert options_of(values).weighting.source == 'detector'
    assert options_of(values | {'heat_source': 'agreement'}).weighting.source == 'agreement'


def test_another_source_is_refused():
    said = "'magic': use one of detector, classifier, agreement"
    with pytest.raises(SettingsError, match=f'unknown heat_source {said}'):
        Weighting(source='magic')
    (parameter,) = (each for each in MATCH_PARAMETERS if each.name == 'heat_source')
    assert parameter.problem_with('magic').endswith(said)
