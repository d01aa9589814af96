"""YOLOv4-tiny, and any network of that family, rebuilt in torch from its darknet files."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from niom_ros.models.store import ModelStore
from niom_ros.semantics.cam import cells_of
from niom_ros.semantics.cam import CLOSED_FORM
from niom_ros.semantics.cam import library_cam
from niom_ros.semantics.detectors.grid_detector import Candidate
from niom_ros.semantics.detectors.grid_detector import DetectorOptions
from niom_ros.semantics.detectors.grid_detector import GridDetector
from niom_ros.semantics.detectors.grid_detector import Letterbox
from niom_ros.semantics.detectors.grid_detector import Level
from niom_ros.semantics.detectors.grid_detector import Look

Section = dict[str, str]

# Labels are compared as text: these are the words for what darknet's file runs together.
WORDS = {
    'diningtable': 'dining table',
    'pottedplant': 'potted plant',
    'tvmonitor': 'tv monitor',
}


def parse_cfg(text: str) -> list[tuple[str, Section]]:
    """Return the sections of a darknet cfg file, in their order."""
    sections: list[tuple[str, Section]] = []
    for line in text.splitlines():
        line = line.partition('#')[0].strip()
        if line.startswith('['):
            sections.append((line.strip('[]'), {}))
        elif line:
            key, _, value = line.partition('=')
            sections[-1][1][key.strip()] = value.strip()
    return sections


def numbers(text: str) -> list[int]:
    """Return the whole numbers of a list like '10,14,  23,27'."""
    return [int(part) for part in text.split(',')]


class Route(nn.Module):
    """Takes the outputs of earlier layers, or one part of their channels."""

    def __init__(self, layers: list[int], groups: int, group: int) -> None:
        super().__init__()
        self.layers = layers
        self._groups = groups
        self._group = group

    def forward(self, outputs: list[torch.Tensor]) -> torch.Tensor:
        """Return the chosen channels of the chosen layers, one after the other."""
        parts = [outputs[layer].chunk(self._groups, dim=1)[self._group] for layer in self.layers]
        return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class YoloHead:
    """How to read the output of one of the last convolutions."""

    layer: int  # of that convolution
    anchors: torch.Tensor  # A x 2, width and height in pixels of the input
    classes: int
    stretch: float  # how far beyond its cell an object's centre may lie


class Darknet(nn.Module):
    """A network made of the sections of a cfg file."""

    def __init__(self, cfg: str) -> None:
        super().__init__()
        (_, self.net), *sections = parse_cfg(cfg)
        self.heads: list[YoloHead] = []
        layers: list[nn.Module] = []
        channels: list[int] = []
        for index, (kind, options) in enumerate(sections):
            before = channels[-1] if channels else int(self.net['channels'])
            layer, after = self._layer(index, kind, options, before, channels)
            layers.append(layer)
            channels.append(after)
        self.layers = nn.ModuleList(layers)
        self.channels = channels

    def _layer(
        self, index: int, kind: str, options: Section, before: int, channels: list[int]
    ) -> tuple[nn.Module, int]:
        if kind == 'convolutional':
            return convolution(options, before), int(options['filters'])
        if kind == 'route':
            sources = [n if n >= 0 else index + n for n in numbers(options['layers'])]
            groups = int(options.get('groups', 1))
            after = sum(channels[n] // groups for n in sources)
            return Route(sources, groups, int(options.get('group_id', 0))), after
        if kind == 'maxpool':
            return nn.MaxPool2d(int(options['size']), int(options['stride'])), before
        if kind == 'upsample':
            return nn.Upsample(scale_factor=int(options['stride']), mode='nearest'), before
        if kind == 'yolo':
            pairs = torch.tensor(numbers(options['anchors']), dtype=torch.float32).view(-1, 2)
            head = YoloHead(
                index - 1,
                pairs[numbers(options['mask'])],
                int(options['classes']),
                float(options.get('scale_x_y', 1.0)),
            )
            self.heads.append(head)
            return nn.Identity(), before
        raise ValueError(f'a layer of kind [{kind}] is not known')

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the raw output of every head, each 1 x A(5 + C) x h x w."""
        outputs = self.all_outputs(pixels)
        return [outputs[head.layer] for head in self.heads]

    def all_outputs(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the output of every layer."""
        outputs: list[torch.Tensor] = []
        x = pixels
        for layer in self.layers:
            x = layer(outputs) if isinstance(layer, Route) else layer(x)
            outputs.append(x)
        return outputs

    def load_weights(self, data: bytes) -> None:
        """Fill in a darknet weight file, which must have exactly as many numbers as needed."""
        # Three version numbers and the count of images seen in training, 64 bits of it.
        values = torch.from_numpy(np.frombuffer(data, np.float32, offset=20).copy())
        position = 0
        for tensor in self._stored_tensors():
            part = values[position : position + tensor.numel()]
            if len(part) < tensor.numel():
                raise ValueError('the weight file is shorter than its cfg file demands')
            tensor.data.copy_(part.view_as(tensor))
            position += tensor.numel()
        if position != len(values):
            raise ValueError('the weight file is longer than its cfg file demands')

    def _stored_tensors(self) -> Iterable[torch.Tensor]:
        for layer in self.layers:
            if not isinstance(layer, nn.Sequential):
                continue
            conv, norm = layer[0], layer[1]
            if isinstance(norm, nn.BatchNorm2d):
                yield from (norm.bias, norm.weight, norm.running_mean, norm.running_var)
            else:
                yield conv.bias
            yield conv.weight


def convolution(options: Section, before: int) -> nn.Sequential:
    """Return a convolution with its normalisation and activation."""
    size, after = int(options['size']), int(options['filters'])
    normalised = options.get('batch_normalize', '0') == '1'
    conv = nn.Conv2d(
        before,
        after,
        size,
        int(options['stride']),
        size // 2 if options.get('pad', '0') == '1' else 0,
        bias=not normalised,
    )
    norm: nn.Module = nn.BatchNorm2d(after) if normalised else nn.Identity()
    activations: dict[str, nn.Module] = {'leaky': nn.LeakyReLU(0.1), 'linear': nn.Identity()}
    return nn.Sequential(conv, norm, activations[options['activation']])


class DarknetDetector(GridDetector):
    """Detects with a darknet YOLO."""

    def __init__(
        self,
        name: str,
        network: Darknet,
        labels: tuple[str, ...],
        options: DetectorOptions,
        device: torch.device,
    ) -> None:
        """Take a network with its weights, and the names of its classes."""
        super().__init__(options, device)
        self.name = name
        self.labels = labels
        self.network = network.eval().requires_grad_(False).to(device)

    def letterbox(self, width: int, height: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        return Letterbox.fit(width, height, int(self.network.net['width']), multiple=32)

    def look(self, pixels: torch.Tensor) -> Look:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        outputs = self.network.all_outputs(pixels)
        levels = tuple(
            decode(outputs[head.layer][0], head, self._class_bias(head), pixels.shape[-1])
            for head in self.network.heads
        )
        # What the first head and, upsampled, the second are computed from.
        return Look(levels, outputs[self.network.heads[0].layer - 2][0])

    def evidence(self, look: Look, candidate: Candidate, pixels: torch.Tensor) -> torch.Tensor:
        """Return how the cells of an object's grid speak for it (h x w)."""
        if self.options.cam == CLOSED_FORM:
            return super().evidence(look, candidate, pixels)
        head = self.network.heads[candidate.level]
        rows, columns = look.levels[candidate.level].scores.shape[-2:]
        return library_cam(
            self.options.cam,
            self.network,
            self.network.layers[head.layer - 1],
            candidate.level,
            candidate.anchor * (5 + head.classes) + 5 + candidate.class_index,
            pixels,
            cells_of(candidate.input_area, rows, columns, pixels.shape[-2:]),
        )

    def _class_bias(self, head: YoloHead) -> torch.Tensor:
        layer: Any = self.network.layers[head.layer]
        bias: torch.Tensor = layer[0].bias.view(len(head.anchors), 5 + head.classes)
        return bias[:, 5:]


def decode(
    output: torch.Tensor, head: YoloHead, class_bias: torch.Tensor, input_width: int
) -> Level:
    """Read the raw output of a head, A(5 + C) x h x w."""
    count = len(head.anchors)
    rows, columns = output.shape[-2:]
    stride = input_width / columns
    raw = output.view(count, 5 + head.classes, rows, columns).float()
    cell_x = torch.arange(columns, device=raw.device)
    cell_y = torch.arange(rows, device=raw.device)[:, None]
    spread, half = head.stretch, (head.stretch - 1) / 2
    centre_x = (raw[:, 0].sigmoid() * spread - half + cell_x) * stride
    centre_y = (raw[:, 1].sigmoid() * spread - half + cell_y) * stride
    anchors = head.anchors.to(raw.device)[:, :, None, None]
    half_width, half_height = (raw[:, 2:4].exp() * anchors / 2).unbind(1)
    boxes = torch.stack(
        (
            centre_x - half_width,
            centre_y - half_height,
            centre_x + half_width,
            centre_y + half_height,
        ),
        dim=-1,
    )
    class_scores = raw[:, 5:]
    scores = raw[:, 4:5].sigmoid() * class_scores.sigmoid()
    return Level(boxes, scores, class_scores - class_bias[:, :, None, None])


def load_yolov4_tiny(
    store: ModelStore, options: DetectorOptions, device: torch.device
) -> DarknetDetector:
    """YOLOv4-tiny: small, fast, free for any use. 80 classes of everyday things."""
    network = Darknet(store.path('yolov4-tiny-cfg').read_text())
    network.load_weights(store.path('yolov4-tiny').read_bytes())
    names = store.path('coco-labels').read_text().split('\n')
    labels = tuple(WORDS.get(name, name) for name in names if name)
    return DarknetDetector('yolov4-tiny', network, labels, options, device)
