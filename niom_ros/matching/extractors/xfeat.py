"""XFeat: made for speed, on CPUs too; less precise."""

import torch
from torch.nn.functional import interpolate

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import ExtractorPlugin, Found, LightGlueWeights
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.lightglue import Architecture


class Xfeat(torch.nn.Module):
    """XFeat of kornia."""

    def __init__(self, max_keypoints: int) -> None:
        super().__init__()
        try:
            from kornia.feature import XFeat
        except ImportError:  # kornia has it since 0.8.3, which needs Python 3.11
            raise SettingsError(
                "extractor 'xfeat' needs kornia 0.8.3 or later, for which Python must be 3.11 or "
                'later: use another extractor, or a newer Python'
            ) from None
        self.model = XFeat(top_k=max_keypoints)

    def forward(self, image: torch.Tensor) -> Found:
        """Return the keypoints of an image (1 x 3 x H x W, in [0, 1])."""
        # XFeat would do this itself, but then be half a pixel off.
        height, width = image.shape[-2:]
        size = max(32, height // 32 * 32), max(32, width // 32 * 32)
        image = interpolate(image, size, mode='bilinear', align_corners=False)
        (found,) = self.model.detectAndCompute(image)
        scale = image.new_tensor([width / size[1], height / size[0]])
        keypoints = (found['keypoints'] + 0.5) * scale - 0.5
        return keypoints, found['scores'], found['descriptors']


def load(settings: Settings, store: ModelStore, device: torch.device) -> Xfeat:
    """Load the network."""
    network = Xfeat(settings.max_keypoints)
    network.model.net.load_state_dict(store.load_state_dict('xfeat'))
    return network.eval().to(device)


PLUGIN = ExtractorPlugin(
    name='xfeat',
    description='XFeat: made for speed, on CPUs too; less precise',
    licence='Apache-2.0',
    load=load,
    models=models_named('xfeat', 'lightglue-xfeat'),
    weight_range=0.25,  # with 0.5 it loses half of its matches or more
    # Known as LighterGlue
    lightglue=LightGlueWeights(
        'lightglue-xfeat', Architecture(input_width=64, width=96, layers=6, heads=1)
    ),
)
