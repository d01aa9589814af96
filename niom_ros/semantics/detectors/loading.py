"""From the name of a detector to the detector."""

import torch

from niom_ros.core.extras import needs_extra
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import Detector, DetectorOptions


def load_detector(settings: Settings, store: ModelStore, device: torch.device) -> Detector | None:
    """Load the detector that the settings name; None for 'none'.

    Each is imported only when it is asked for: some need packages or have licences that others
    do not.
    """
    name, path = settings.detector, settings.detector_path
    options = DetectorOptions(settings.detector_threshold, settings.cam, settings.gate_heat)
    by_path = name in ('onnx', 'ultralytics')
    if by_path and not path:
        raise SettingsError(f"detector '{name}' needs a model file: set detector_path to it")
    if path and not by_path:
        raise SettingsError(
            f"detector_path is set, but detector is '{name}': "
            "set detector to 'onnx' or 'ultralytics', or leave the path empty"
        )
    if settings.detector_sha256 and name != 'ultralytics':
        raise SettingsError("detector_sha256 is only for detector 'ultralytics': leave it empty")
    if settings.detector_labels and name != 'onnx':
        raise SettingsError("detector_labels is only for detector 'onnx': leave it empty")
    if name == 'yolov4-tiny':
        from niom_ros.semantics.detectors.darknet import load_yolov4_tiny

        return load_yolov4_tiny(store, options, device)
    if name == 'yolov7-seg':
        from niom_ros.semantics.detectors.yolov7_seg import load_yolov7_seg

        return load_yolov7_seg(store, options, device)
    if name == 'onnx':
        with needs_extra('onnx', "detector 'onnx'"):
            from niom_ros.semantics.detectors.onnx_yolo import load_onnx_yolo

        return load_onnx_yolo(path, settings.detector_labels, options, device)
    if name == 'ultralytics':
        from niom_ros.semantics.detectors.ultralytics_yolo import load_ultralytics

        return load_ultralytics(path, settings.detector_sha256, options, device)
    return None
