"""Which keypoint of the reference is which keypoint of the image."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from niom_ros.core.plugins import MATCHERS
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import Features
from niom_ros.models.plugins import load_part, Plugin
from niom_ros.models.store import ModelStore

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


@runtime_checkable
class KeypointMatcher(Protocol):
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


@dataclass(frozen=True, kw_only=True)
class MatcherPlugin(Plugin[KeypointMatcher]):
    """A matcher."""

    makes = KeypointMatcher

    extractors: tuple[str, ...] = ()  # whose features it knows; none: any


def load_matcher(settings: Settings, store: ModelStore, device: torch.device) -> KeypointMatcher:
    """Load the matcher that the settings name."""
    plugin = MATCHERS.load(settings.matcher, MatcherPlugin)
    if plugin.extractors and settings.extractor not in plugin.extractors:
        known = ' or '.join(f"'{name}'" for name in plugin.extractors)
        raise SettingsError(
            f"matcher '{plugin.name}' knows only features of extractor {known}, not of "
            f"'{settings.extractor}': change one of them"
        )
    return load_part(MATCHERS, plugin, settings, store, device)
