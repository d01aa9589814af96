"""LightGlue: a matching network, with weights for each extractor. The default."""

from dataclasses import replace

import torch

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import extractor_plugin, Features
from niom_ros.matching.keypoint_matcher import KeypointMatches, MatcherPlugin
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import best_pairs, ImageState, LightGlue, rearranged

MIN_MATCH_PROBABILITY = 1e-4  # probability of a partner below which pruning drops a point


class LightGlueMatcher:
    """Matches features with LightGlue, trained for one extractor."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the weights for the extractor."""
        # No early exit, which was trained on unweighted descriptors: it loses a quarter of the
        # matches. Pruning as its authors have it (0.01) loses up to a third.
        extractor = extractor_plugin(settings.extractor)
        if extractor.lightglue is None:
            raise SettingsError(
                f"matcher 'lightglue' has no weights for extractor '{settings.extractor}': "
                "use matcher 'nearest', or another extractor"
            )
        architecture = extractor.lightglue.architecture
        weights = store.with_models(extractor.models).load_state_dict(extractor.lightglue.model)
        model = LightGlue(architecture, MIN_MATCH_PROBABILITY if settings.pruning else 0.0)
        model.load_state_dict(rearranged(weights, architecture))
        self._model = model.eval().to(device)
        self._input_width = architecture.input_width
        self._half = settings.precision == 'half'

    @torch.no_grad()
    def project(self, features: Features) -> Features:
        """Return features with their descriptors after LightGlue's first layer."""
        descriptors = features.descriptors.float()
        if not len(features):  # the image was too small for the extractor
            descriptors = descriptors.new_empty(0, self._input_width)
        descriptors = self._model.input_proj(descriptors)
        return replace(features, descriptors=descriptors)

    @torch.no_grad()
    def prepare(self, projected: Features) -> ImageState:
        """Compute what LightGlue needs of one image alone."""
        with self._precision():
            return self._model.encode(
                projected.descriptors, projected.keypoints, (projected.width, projected.height)
            )

    @torch.no_grad()
    def match(
        self, reference: ImageState, image: ImageState, score_threshold: float
    ) -> KeypointMatches:
        """Return the pairs of features that score above the threshold."""
        with self._precision():
            assignment = self._model(reference, image)
        return KeypointMatches.sorted(*best_pairs(assignment, score_threshold))

    def _precision(self) -> torch.autocast:
        return torch.autocast('cuda', torch.float16, enabled=self._half)


PLUGIN = MatcherPlugin(
    name='lightglue',
    description='LightGlue, for extractors that name weights for it',
    licence='Apache-2.0',
    load=LightGlueMatcher,
)
