"""LightGlue: a network that matches, with weights for each extractor. The default."""

from dataclasses import replace

import torch

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.matching.features import extractor_plugin, Features
from niom_ros.matching.matches import MatcherPlugin, Matches
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import best_pairs, LightGlue, OneSide, rearranged

LEAST_PROSPECT = 1e-4  # of a point to have a partner, below which pruning drops it


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


PLUGIN = MatcherPlugin(
    name='lightglue',
    description='LightGlue, for extractors that name weights for it',
    licence='Apache-2.0',
    load=LightGlueMatcher,
)
