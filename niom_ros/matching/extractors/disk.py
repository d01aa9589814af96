"""DISK: finds more keypoints on plain surfaces, but is slower."""

from kornia.feature import DISK
import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import ExtractorPlugin, Found, LightGlueWeights
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.lightglue import Architecture

# A uniform grey or white image reaches 11.3; keypoints of photos score up to 115.
THRESHOLD = 12.0


class Disk(torch.nn.Module):
    """DISK of kornia."""

    def __init__(self, max_keypoints: int) -> None:
        super().__init__()
        self.model = DISK()
        self._max_keypoints = max_keypoints

    def forward(self, image: torch.Tensor) -> Found:
        """Return the keypoints of an image (1 x 3 x H x W, in [0, 1])."""
        (found,) = self.model(
            image,
            n=self._max_keypoints,
            score_threshold=THRESHOLD,
            pad_if_not_divisible=True,
        )
        return found.keypoints, found.detection_scores, found.descriptors


def load(settings: Settings, store: ModelStore, device: torch.device) -> Disk:
    """Load the network."""
    network = Disk(settings.max_keypoints)
    network.model.load_state_dict(store.load_state_dict('disk')['extractor'])
    return network.eval().to(device)


PLUGIN = ExtractorPlugin(
    name='disk',
    description='DISK: finds more keypoints on plain surfaces, but is slower',
    licence='Apache-2.0',
    load=load,
    models=models_named('disk', 'lightglue-disk'),
    weight_range=0.25,  # with 0.5 it loses half of its matches or more
    lightglue=LightGlueWeights('lightglue-disk', Architecture(input_width=128)),
)
