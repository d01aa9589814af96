"""Load the detector that the settings name."""

import torch

from niom_ros.core.plugins import DETECTORS
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.plugins import load_part
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import Detector, DetectorPlugin


def load_detector(settings: Settings, store: ModelStore, device: torch.device) -> Detector | None:
    """Load the detector that the settings name; None for 'none'."""
    plugin = DETECTORS.load(settings.detector, DetectorPlugin)
    name, path = settings.detector, settings.detector_path
    by_path = 'detector_path' in plugin.takes
    if by_path and not path:
        raise SettingsError(f"detector '{name}' needs a model file: set detector_path to it")
    if path and not by_path:
        raise SettingsError(
            f"detector_path is set, but detector is '{name}': "
            "set detector to 'onnx' or 'ultralytics', or leave the path empty"
        )
    if settings.detector_sha256 and 'detector_sha256' not in plugin.takes:
        raise SettingsError("detector_sha256 is only for detector 'ultralytics': leave it empty")
    if settings.detector_labels and 'detector_labels' not in plugin.takes:
        raise SettingsError("detector_labels is only for detector 'onnx': leave it empty")
    return load_part(DETECTORS, plugin, settings, store, device)
