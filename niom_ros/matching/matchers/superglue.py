"""SuperGlue, as in the paper; its weights are for non-commercial use only."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import Features
from niom_ros.matching.keypoint_matcher import KeypointMatches, MatcherPlugin, MatchesAsExtracted
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.superglue import ImageSide, mutual_matches, SuperGlue


class SuperGlueMatcher(MatchesAsExtracted):
    """Matches features of SuperPoint with SuperGlue; for non-commercial use only."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights."""
        model = SuperGlue()
        model.load_state_dict(store.load_state_dict('superglue-outdoor'))
        self._model = model.eval().to(device)

    @torch.no_grad()
    def match(
        self, reference: Features, image: Features, score_threshold: float
    ) -> KeypointMatches:
        """Return the pairs of features that score above the threshold."""
        sides = (
            ImageSide(side.keypoints, side.scores, side.descriptors, (side.width, side.height))
            for side in (reference, image)
        )
        return KeypointMatches.sorted(*mutual_matches(self._model(*sides), score_threshold))


PLUGIN = MatcherPlugin(
    name='superglue',
    description='SuperGlue: what the paper uses',
    licence='Magic Leap non-commercial',
    load=SuperGlueMatcher,
    models=models_named('superglue-outdoor'),
    extractors=('superpoint',),
)
