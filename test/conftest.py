"""What several tests need: photos, a matcher with real weights, and ROS of their own."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.settings import default_threads, Settings
from niom_ros.matching.matcher import Matcher
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene

# Two threads on two busy cores are several times slower than one.
torch.set_num_threads(default_threads())

CLONE = Path(__file__).resolve().parent.parent


@pytest.fixture(scope='session')
def clone() -> Path:
    """Return the root of the source tree."""
    return CLONE


@pytest.fixture(scope='session')
def coffee() -> np.ndarray:
    """Return a photo of a cup, 600 x 400 pixels."""
    return example_photo('coffee')


@pytest.fixture(scope='session')
def scene(coffee: np.ndarray) -> VirtualScene:
    """Return the cup photo lying on gravel, seen by a moving camera."""
    return VirtualScene(coffee, example_photo('gravel'))


@pytest.fixture(scope='session')
def matcher() -> Matcher:
    """Return the default matcher with real weights, with fewer keypoints to save time."""
    return Matcher(Settings(device='cpu', max_keypoints=512))


@pytest.fixture
def coffee_file(coffee: np.ndarray, tmp_path: Path) -> Path:
    """Return the cup photo as a file."""
    path = tmp_path / 'coffee.png'
    cv2.imwrite(str(path), coffee[..., ::-1])
    return path
