"""ALIKED: fast and precise. The default."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import ExtractorPlugin, LightGlueWeights
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.aliked import ALIKED, rearranged
from niom_ros.networks.lightglue import Architecture

# With its authors' threshold of 0.2 a blurred image has almost no keypoints. A uniform grey or
# white image reaches 0.017, a photo blurred beyond recognition (sigma 10) still 0.04.
THRESHOLD = 0.02


def load(settings: Settings, store: ModelStore, device: torch.device) -> ALIKED:
    """Load the network."""
    model = ALIKED(settings.max_keypoints, THRESHOLD)
    model.load_state_dict(rearranged(store.load_state_dict('aliked-n16')))
    return model.eval().to(device)


PLUGIN = ExtractorPlugin(
    name='aliked',
    description='ALIKED: fast and precise',
    licence='BSD-3-Clause',
    load=load,
    models=models_named('aliked-n16', 'lightglue-aliked'),
    weight_range=0.5,
    lightglue=LightGlueWeights('lightglue-aliked', Architecture(input_width=128)),
)
