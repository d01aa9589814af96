"""SuperPoint, as in the paper; its weights are for non-commercial use only."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import ExtractorPlugin, LightGlueWeights
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.lightglue import Architecture
from niom_ros.networks.superpoint import SuperPoint


def load(settings: Settings, store: ModelStore, device: torch.device) -> SuperPoint:
    """Load the network."""
    model = SuperPoint(settings.max_keypoints)
    model.load_state_dict(store.load_state_dict('superpoint'))
    return model.eval().to(device)


PLUGIN = ExtractorPlugin(
    name='superpoint',
    description='SuperPoint: what the paper uses',
    licence='Magic Leap non-commercial',
    load=load,
    models=models_named('superpoint', 'lightglue-superpoint'),
    weight_range=0.5,
    lightglue=LightGlueWeights('lightglue-superpoint', Architecture()),
)
