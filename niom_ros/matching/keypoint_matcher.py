"""What a keypoint matcher is, and how it is loaded."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from niom_ros.core.plugins import MATCHERS
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import Features
from niom_ros.models.plugins import load_part, Plugin
from niom_ros.models.store import ModelStore

PreparedFeatures = Any
"""What a matcher computes from the features of one image alone; of its own type."""


@dataclass(frozen=True)
class KeypointMatches:
    """Pairs of keypoints, by their indices, best first."""

    reference_index: torch.Tensor  # M
    image_index: torch.Tensor  # M
    scores: torch.Tensor  # M, 0 to 1

    @classmethod
    def sorted(cls, pairs: torch.Tensor, scores: torch.Tensor) -> 'KeypointMatches':
        """Sort pairs of indices (M x 2) by their scores (M)."""
        best_first = scores.argsort(descending=True, stable=True)
        reference_index, image_index = pairs[best_first].T
        return cls(reference_index, image_index, scores[best_first])


@runtime_checkable
class KeypointMatcher(Protocol):
    """Matches the features of two images.

    Descriptors may have been multiplied by weights, before or after `project`, so a matcher must
    not normalise them. What is prepared of a reference can be kept from image to image.
    """

    def project(self, features: Features) -> Features:
        """Return features with their descriptors after the first layer of the matcher."""

    def prepare(self, projected: Features) -> PreparedFeatures:
        """Return what `match` needs of one image and does not depend on the other."""

    def match(
        self, reference: PreparedFeatures, image: PreparedFeatures, score_threshold: float
    ) -> KeypointMatches:
        """Return the pairs of features that score above the threshold."""


class MatchesAsExtracted:
    """A matcher that needs nothing of one image alone but its features."""

    def project(self, features: Features) -> Features:
        """Return the features unchanged."""
        return features

    def prepare(self, projected: Features) -> Features:
        """Return the features unchanged."""
        return projected


@dataclass(frozen=True, kw_only=True)
class MatcherPlugin(Plugin[KeypointMatcher]):
    """A keypoint matcher."""

    makes = KeypointMatcher

    extractors: tuple[str, ...] = ()  # whose features it can match; empty: any


def load_matcher(settings: Settings, store: ModelStore, device: torch.device) -> KeypointMatcher:
    """Load the matcher that the settings name."""
    plugin = MATCHERS.load(settings.matcher, MatcherPlugin)
    if plugin.extractors and settings.extractor not in plugin.extractors:
        known = ' or '.join(f"'{name}'" for name in plugin.extractors)
        raise SettingsError(
            f"matcher '{plugin.name}' knows only features of extractor {known}, not of "
            f"'{settings.extractor}': change one of them"
        )
    return load_part(MATCHERS, plugin, store, lambda models: plugin.load(settings, models, device))
