"""Matchers on features that a person can match, and on photos with real weights."""

from dataclasses import replace

import pytest
import torch

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import Extractor, Features
from niom_ros.matching.keypoint_matcher import load_matcher
from niom_ros.matching.weighting import weighted
from niom_ros.models.store import ModelStore

CPU = torch.device('cpu')


def features(rows):
    descriptors = torch.nn.functional.normalize(torch.tensor(rows), dim=1)
    keypoints = torch.arange(2.0 * len(rows)).view(-1, 2)
    return Features(keypoints, torch.ones(len(rows)), descriptors, 100, 100)


@pytest.fixture(scope='module')
def nearest():
    return load_matcher(Settings(matcher='nearest'), ModelStore(), CPU)


def pairs(matches):
    return list(zip(matches.reference_index.tolist(), matches.image_index.tolist(), strict=True))


def test_nearest_neighbours_must_be_mutual(nearest):
    reference = features([[1.0, 0, 0], [0.9, 0.1, 0], [0, 0, 1.0]])
    image = features([[0, 0.1, 1.0], [1.0, 0.01, 0]])
    matches = nearest.match(reference, image, 0.0)
    assert sorted(pairs(matches)) == [(0, 1), (2, 0)]


def test_the_score_falls_when_the_second_nearest_is_near(nearest):
    reference = features([[1.0, 0, 0]])
    clear = nearest.match(reference, features([[1.0, 0.1, 0], [0, 1.0, 0]]), 0.0)
    unclear = nearest.match(reference, features([[1.0, 0.1, 0], [1.0, 0.12, 0]]), 0.0)
    assert clear.scores.item() > 0.8
    assert unclear.scores.item() < 0.3
    assert (
        len(nearest.match(reference, features([[1.0, 0.1, 0], [1.0, 0.12, 0]]), 0.5).scores) == 0
    )


def test_a_single_feature_is_unclear(nearest):
    one = features([[1.0, 0, 0]])
    assert len(nearest.match(one, one, 0.1).scores) == 0


@pytest.mark.parametrize('extractor', ['aliked', 'xfeat'])
def test_an_image_matches_itself(extractor, coffee):
    settings = Settings(extractor=extractor, max_keypoints=256)
    found = Extractor(settings, ModelStore(), CPU).extract(coffee)
    for name in ('lightglue', 'nearest'):
        matcher = load_matcher(replace(settings, matcher=name), ModelStore(), CPU)
        side = matcher.prepare(matcher.project(found))
        matches = matcher.match(side, side, 0.1)
        same = matches.reference_index == matches.image_index
        assert same.float().mean() > 0.98
        assert len(same) > 200
        assert (matches.scores.diff() <= 0).all()
        assert matches.scores.min() > 0 and matches.scores.max() <= 1


def test_weights_before_and_after_the_first_layer_differ_by_its_bias(coffee):
    settings = Settings(max_keypoints=128)
    found = Extractor(settings, ModelStore(), CPU).extract(coffee)
    matcher = load_matcher(settings, ModelStore(), CPU)
    nothing = replace(found, descriptors=torch.zeros_like(found.descriptors))
    bias = matcher.project(nothing).descriptors
    weights = torch.linspace(0.5, 1, len(found))
    before = matcher.project(
        replace(found, descriptors=weighted(found.descriptors, weights))
    ).descriptors
    after = weighted(matcher.project(found).descriptors, weights)
    assert bias.abs().max() > 0.01
    assert torch.allclose(before - bias, after - weighted(bias, weights), atol=1e-5)


def test_superglue_asks_for_superpoint():
    with pytest.raises(SettingsError, match="only features of extractor 'superpoint'"):
        load_matcher(Settings(matcher='superglue'), ModelStore(), CPU)
