"""Nearest neighbours, for the features of any extractor."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import Features
from niom_ros.matching.keypoint_matcher import KeypointMatches, MatcherPlugin, MatchesAsExtracted
from niom_ros.models.store import ModelStore


class NearestMatcher(MatchesAsExtracted):
    """Matches features that are nearest to each other; needs no training and no weights."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load nothing: there are no weights."""

    @torch.no_grad()
    def match(
        self, reference: Features, image: Features, score_threshold: float
    ) -> KeypointMatches:
        """Return mutual nearest neighbours; the score is how much farther the second one is."""
        likeness = reference.descriptors.float() @ image.descriptors.float().T
        nearest = likeness.argmax(dim=1)
        numbers = torch.arange(len(reference), device=nearest.device)
        mutual = likeness.argmax(dim=0)[nearest] == numbers
        # Weights help to decide which is nearest, but distances are between directions, so
        # weights are divided out.
        lengths = reference.descriptors.norm(dim=1)[:, None] * image.descriptors.norm(dim=1)
        distances = (2 - 2 * likeness / lengths.clamp(min=1e-9)).clamp(min=0).sqrt()
        two_best = likeness.topk(min(2, len(image)), dim=1).indices
        first, second = distances.gather(1, two_best)[:, [0, -1]].T
        scores = ((second - first) / second.clamp(min=1e-6)).clamp(min=0)
        good = mutual & (scores > score_threshold)
        return KeypointMatches.sorted(torch.stack((numbers, nearest), 1)[good], scores[good])


PLUGIN = MatcherPlugin(
    name='nearest',
    description='mutual nearest neighbours, for any extractor',
    licence='Apache-2.0',
    load=NearestMatcher,
)
