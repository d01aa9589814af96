"""Which keypoint of the reference is which keypoint of the image."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import Features
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import Architecture, best_pairs, LightGlue, OneSide, rearranged
from niom_ros.networks.superglue import mutual_matches, SuperGlue

LIGHTGLUE_ARCHITECTURES = {
    'aliked': Architecture(input_width=128),
    'disk': Architecture(input_width=128),
    'superpoint': Architecture(),
    'xfeat': Architecture(input_width=64, width=96, layers=6, heads=1),  # known as LighterGlue
}

LEAST_PROSPECT = 1e-4  # of a point to have a partner, below which pruning drops it

Side = Any
"""What a matcher makes of the features of one image, without those of the other."""


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
    lengths as they are. The side of a reference can be kept from image to image.
    """

    def project(self, features: Features) -> Features:
        """Return features with descriptors as the first layer of the matcher makes them."""

    def prepare(self, projected: Features) -> Side:
        """Return all that `match` needs of one image and that does not depend on the other."""

    def match(self, reference: Side, image: Side, score_threshold: float) -> Matches:
        """Return which features belong together and score more than the threshold."""


class LightGlueMatcher:
    """Matches features with LightGlue, trained for one extractor."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights for the extractor."""
        # No early exit, which was trained on unweighted descriptors: it loses a quarter of the
        # matches. Pruning as its authors have it (0.01) loses up to a third.
        architecture = LIGHTGLUE_ARCHITECTURES[settings.extractor]
        weights = store.load_state_dict(f'lightglue-{settings.extractor}')
        model = LightGlue(architecture, LEAST_PROSPECT if settings.pruning else 0.0)
        model.load_state_dict(rearranged(weights, architecture))
        self._model = model.eval().to(device)
        self._input_width = architecture.input_width
        self._half = settings.precision == 'half'

    @torch.no_grad()
    def project(self, features: Features) -> Features:
        """Return features with descriptors as LightGlue's first layer makes them."""
        descriptors = features.descriptors.float()
        if not len(features):  # of an image so small that the extractor never saw it
            descriptors = descriptors.new_empty(0, self._input_width)
        descriptors = self._model.input_proj(descriptors)
        return replace(features, descriptors=descriptors)

    @torch.no_grad()
    def prepare(self, projected: Features) -> OneSide:
        """Return the features as far as LightGlue comes without those of the other image."""
        with self._precision():
            return self._model.look(
                projected.descriptors, projected.keypoints, (projected.width, projected.height)
            )

    @torch.no_grad()
    def match(self, reference: OneSide, image: OneSide, score_threshold: float) -> Matches:
        """Return which features belong together and score more than the threshold."""
        with self._precision():
            assignment = self._model(reference, image)
        return Matches.sorted(*best_pairs(assignment, score_threshold))

    def _precision(self) -> torch.autocast:
        return torch.autocast('cuda', torch.float16, enabled=self._half)


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

    def prepare(self, projected: Features) -> Features:
        """Return the features as they are."""
        return projected

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

    def prepare(self, projected: Features) -> Features:
        """Return the features as they are."""
        return projected

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
