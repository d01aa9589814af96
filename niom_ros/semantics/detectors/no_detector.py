"""No detector: for matching without objects, or with marked ones."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import DetectorPlugin


def load(settings: Settings, store: ModelStore, device: torch.device) -> None:
    """Load nothing."""


PLUGIN = DetectorPlugin(
    name='none',
    description='sees nothing',
    licence='Apache-2.0',
    load=load,
)
