"""Models of ultralytics (YOLOv8, YOLO11 and similar, also -seg), by the path of a .pt file.

Users install the package themselves: it is under the AGPL-3.0, so it is neither part of this one
nor installed with it. A .pt file can hold any code, so it is read only if the user gives its
sha256. Besides, current versions of ultralytics are set to load only weights and known layers;
older ones run any code in the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import hashlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from niom_ros.core.faults import reason
from niom_ros.core.settings import existing_file, SettingsError
from niom_ros.semantics.detectors.grid_detector import (
    Candidate,
    corners_of,
    DetectorOptions,
    DetectorPlugin,
    Level,
    NetworkOutput,
)
from niom_ros.semantics.detectors.yolo import TorchDetector

USUAL_SIDE = 640  # of the input, if the model does not say
QUIET = {
    'YOLO_OFFLINE': 'true',  # no network access while importing
    'YOLO_AUTOINSTALL': 'false',  # no installation of packages that a model file asks for
    'YOLO_VERBOSE': 'false',
    'ULTRALYTICS_SAFE_LOAD': 'true',  # weights and known layers, no other code from the file
}
"""Set before ultralytics is imported, unless the user has set them."""
READABLE = "use one for 'detect' or 'segment' of YOLOv8, YOLO11 or similar"


@dataclass(frozen=True)
class RawOutput:
    """The output of a network before it is decoded."""

    logits: list[torch.Tensor]  # 1 x C x h x w for each level
    boxes: torch.Tensor  # N x 4: centre, width and height; the cells of all levels in order
    features: torch.Tensor  # D x h x w


class Network(nn.Module):
    """A model of ultralytics that returns class scores before the sigmoid."""

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._head: Any = head

    @property
    def branches(self) -> list[Any]:
        """Return the classification branch of each level, which ends in a 1x1 convolution."""
        return list(self._head.cv3)

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the scores of each level (1 x C x h x w)."""
        return self.run(pixels).logits

    def run(self, pixels: torch.Tensor) -> RawOutput:
        """Run the network once, and capture intermediate results by hooks."""
        logits: dict[nn.Module, torch.Tensor] = {}
        entering: list[torch.Tensor] = []

        def keep(branch: nn.Module, _: Any, output: torch.Tensor) -> None:
            logits[branch] = output

        def keep_levels(_: nn.Module, inputs: tuple[list[torch.Tensor]]) -> None:
            entering.extend(inputs[0])

        hooks = [branch.register_forward_hook(keep) for branch in self.branches]
        hooks.append(self._head.register_forward_pre_hook(keep_levels))
        try:
            output = self.model(pixels)
        finally:
            for hook in hooks:
                hook.remove()
        while not isinstance(output, torch.Tensor):
            output = output[0]  # the others are for training, or masks
        # The finest level describes edges, the coarsest whole scenes; objects are in between.
        middle = entering[len(entering) // 2]
        ordered = [logits[branch] for branch in self.branches]
        return RawOutput(ordered, output[0, :4].T, middle[0])


class UltralyticsDetector(TorchDetector):
    """A detector of ultralytics."""

    network: Network

    def run_network(self, pixels: torch.Tensor) -> NetworkOutput:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        raw = self.network.run(pixels)
        centres, sizes = raw.boxes.float().split(2, dim=1)
        parts = corners_of(centres, sizes).split([logits[0, 0].numel() for logits in raw.logits])
        levels = []
        for boxes, logits, branch in zip(parts, raw.logits, self.network.branches, strict=True):
            rows, columns = logits.shape[-2:]
            logits = logits.float()
            evidence = logits - branch[-1].bias[:, None, None]
            levels.append(Level(boxes.view(1, rows, columns, 4), logits.sigmoid(), evidence))
        return NetworkOutput(tuple(levels), raw.features.float())

    def score_of(self, candidate: Candidate) -> tuple[nn.Module, int]:
        """Return the layer before an object's last convolution, and the channel of its class."""
        return self.network.branches[candidate.level][-2], candidate.class_index


def load_ultralytics(
    path: Path | str, sha256: str, options: DetectorOptions, device: torch.device
) -> UltralyticsDetector:
    """Load a .pt file trained by ultralytics. Nothing is ever downloaded."""
    path = existing_pt(path)
    model = load_model(path, trusted_content(path, sha256))
    head = detection_head(model, path)
    labels = tuple(str(model.names[number]) for number in range(head.nc))
    side = trained_side(model)
    multiple = max(32, int(head.stride.max()))
    network = Network(model, head)
    return UltralyticsDetector(
        name=f'ultralytics:{path.name}',
        network=network,
        labels=labels,
        side=side,
        multiple=multiple,
        options=options,
        device=device,
    )


def existing_pt(path: Path | str) -> Path:
    """Return the path of a .pt file, after checking that it exists.

    For other names, ultralytics would create an untrained network or download one.
    """
    if Path(path).suffix.lower() != '.pt':
        raise SettingsError(
            f'{path} is not a .pt file: set detector_path to one that ultralytics has trained, '
            "or use detector 'onnx' for an .onnx file"
        )
    return existing_file(path, 'detector_path')


def trusted_content(path: Path, sha256: str) -> bytes:
    """Return the content of a file, if it is the one that the user trusts."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if not sha256:
        raise SettingsError(
            f'{path} can hold code that would be run: if you trust where it comes from, '
            f'set detector_sha256 to {found}'
        )
    if found != sha256.strip().lower():
        raise SettingsError(
            f'{path} is not the file that detector_sha256 names ({sha256}), it has {found}: '
            'set detector_sha256 to that if you changed the file and trust it'
        )
    return content


def load_model(path: Path, content: bytes) -> Any:
    """Return the network of a .pt file with this content."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        from ultralytics import YOLO
    except ImportError as error:
        raise SettingsError(
            f"detector 'ultralytics' needs the Python package ultralytics ({error}): "
            'pip install ultralytics (mind its licence, AGPL-3.0), or use another detector'
        ) from None
    with plain_copy(content) as copy:
        try:
            model = YOLO(str(copy)).model
        except Exception as error:  # of any kind: the file may hold anything
            why = reason(error).replace(str(copy), path.name)
            raise SettingsError(
                f'ultralytics cannot load {path} ({why}): {READABLE}; if it has custom '
                'layers and you trust it, set ULTRALYTICS_SAFE_LOAD=false in the environment'
            ) from None
    if not isinstance(model, nn.Module):
        raise SettingsError(f'ultralytics finds no network in {path}: {READABLE}')
    return model


@contextmanager
def plain_copy(content: bytes) -> Iterator[Path]:
    """Write a private temporary file with this content and a plain name.

    Ultralytics replaces some names, such as yolov5s.pt with yolov5su.pt, drops apostrophes, and
    then downloads what it does not find.
    """
    with TemporaryDirectory(prefix='niom') as folder:
        copy = Path(folder) / 'model.pt'
        copy.write_bytes(content)
        yield copy


def detection_head(model: Any, path: Path) -> Any:
    """Return the head of a network, after checking that it scores classes on grids."""
    task = getattr(model, 'task', 'unknown')
    if task not in ('detect', 'segment'):
        raise SettingsError(f"{path} is a model for '{task}': {READABLE}")
    head = model.model[-1]
    branches = getattr(head, 'cv3', None)
    if branches is None and getattr(head, 'one2one_cv3', None) is not None:
        raise SettingsError(
            f'{path} has lost its outputs on grids, as end-to-end models do when they are fused: '
            'use the .pt file that training wrote'
        )
    last = [branch[-1] for branch in branches or () if isinstance(branch, nn.Sequential)]
    if not last or not all(
        isinstance(layer, nn.Conv2d) and layer.out_channels == head.nc for layer in last
    ):
        raise SettingsError(f'{path} has an unsupported head, {type(head).__name__}: {READABLE}')
    if getattr(head, 'end2end', False):
        # These models were trained for both; the outputs without grids only avoid NMS.
        head.end2end = False
    return head


def trained_side(model: Any) -> int:
    """Return the longer side of the images that a model was trained with."""
    arguments = getattr(model, 'args', {})
    size = arguments.get('imgsz') if isinstance(arguments, dict) else None
    sides = size if isinstance(size, list | tuple) else [size]
    return max((side for side in sides if isinstance(side, int)), default=USUAL_SIDE)


PLUGIN = DetectorPlugin(
    name='ultralytics',
    description='a .pt file of ultralytics, from detector_path; needs that package',
    licence='AGPL-3.0',
    load=lambda settings, store, device: load_ultralytics(
        settings.detector_path, settings.detector_sha256, DetectorOptions.of(settings), device
    ),
    takes=('detector_path', 'detector_sha256'),
)
