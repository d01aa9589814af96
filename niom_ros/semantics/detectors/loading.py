"""Load the detector that the settings name."""

import torch

from niom_ros.core.plugins import DETECTORS
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.plugins import load_part, refuse_settings_of_others
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import Detector, DetectorPlugin

# Used only by the detectors that name them in `takes`.
PLUGIN_SETTINGS = ('detector_path', 'detector_sha256', 'detector_labels')


def load_detector(settings: Settings, store: ModelStore, device: torch.device) -> Detector | None:
    """Load the detector that the settings name; None for 'none'."""
    plugin = DETECTORS.load(settings.detector, DetectorPlugin)
    if 'detector_path' in plugin.takes and not settings.detector_path:
        raise SettingsError(
            f"detector '{plugin.name}' needs a model file: set detector_path to it"
        )
    refuse_settings_of_others(DETECTORS, plugin, settings, PLUGIN_SETTINGS)
    return load_part(
        DETECTORS, plugin, store, lambda models: plugin.load(settings, models, device)
    )
