"""YOLOv7, rebuilt in torch from the plan stored with its weights.

The file holds the variant that also segments; masks are not computed here. The network is
that of "YOLOv7: Trainable bag-of-freebies sets new state-of-the-art for real-time object
detectors" (Wang, Bochkovskiy, Liao, 2022). Attributes carry the names that the weights have.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import conv2d

from niom_ros.core.settings import Settings
from niom_ros.models.foreign_pickle import load_foreign_pickle, tensors_of
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.semantics.detectors.grid_detector import DetectorOptions, DetectorPlugin
from niom_ros.semantics.detectors.yolo import (
    FIRST_CLASS,
    squared_growth,
    YoloDetector,
    YoloHead,
    YoloNetwork,
)

Plan = dict[str, Any]

INPUT = -1  # index of the input, as if it were a layer
SIDE = 640  # pixels of the longer side of the input


class Conv(nn.Module):
    """A convolution with its normalisation and activation."""

    def __init__(
        self, in_channels: int, out_channels: int, size: int = 1, stride: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, size, stride, size // 2, bias=False)
        self.bn = nn.BatchNorm2d(out_channels, eps=1e-3)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features of the next layer."""
        features: torch.Tensor = self.act(self.bn(self.conv(x)))
        return features


class Concat(nn.Module):
    """Puts the channels of several layers together."""

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        """Return all channels, in the order of the layers."""
        return torch.cat(parts, dim=1)


class Pyramid(nn.Module):
    """SPPCSPC: spatial pyramid pooling in one of two paths."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.cv1 = Conv(in_channels, out_channels)
        self.cv2 = Conv(in_channels, out_channels)
        self.cv3 = Conv(out_channels, out_channels, 3)
        self.cv4 = Conv(out_channels, out_channels)
        self.m = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13))
        self.cv5 = Conv(4 * out_channels, out_channels)
        self.cv6 = Conv(out_channels, out_channels, 3)
        self.cv7 = Conv(2 * out_channels, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features of both paths, combined."""
        near = self.cv4(self.cv3(self.cv1(x)))
        wide = torch.cat([near, *(pool(near) for pool in self.m)], dim=1)
        both = torch.cat((self.cv6(self.cv5(wide)), self.cv2(x)), dim=1)
        features: torch.Tensor = self.cv7(both)
        return features


class Heads(nn.Module):
    """The last layer: a 1x1 convolution for each level."""

    def __init__(self, in_channels: list[int], out_channels: int) -> None:
        super().__init__()
        self.m = nn.ModuleList(nn.Conv2d(count, out_channels, 1) for count in in_channels)

    def forward(self, *levels: torch.Tensor) -> list[torch.Tensor]:
        """Return the raw output for each level."""
        return [m(x) for m, x in zip(self.m, levels, strict=True)]


class YoloV7(YoloNetwork):
    """A network built from the rows of a plan: sources, repeats, kind of layer, arguments."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        rows: list[Any] = [*plan['backbone'], *plan['head']]
        # The end of the backbone: no later layer re-identifies objects better.
        self.feature_layer = len(plan['backbone']) - 1
        levels, _, _, (_, _, masks, _) = rows.pop()
        self.model = nn.ModuleList()
        self.sources: list[list[int]] = []  # for each layer, the layers whose outputs it takes
        channels = {INPUT: int(plan['ch'])}
        for index, (source, _, kind, numbers) in enumerate(rows):
            sources = source if isinstance(source, list) else [source]
            sources = [n if n >= 0 else index + n for n in sources]
            layer, channels[index] = layer_of(kind, numbers, [channels[n] for n in sources])
            self.model.append(layer)
            self.sources.append(sources)

        anchors = [list(zip(sides[::2], sides[1::2], strict=True)) for sides in plan['anchors']]
        classes = int(plan['nc'])
        out_channels = len(anchors[0]) * (FIRST_CLASS + classes + masks)
        last: Any = Heads([channels[n] for n in levels], out_channels)
        self.model.append(last)
        self.sources.append(levels)
        self.heads = [
            YoloHead(
                entering=self.model[n],
                convolution=m,
                anchors=pairs,
                classes=classes,
                stretch=2.0,
                growth=squared_growth,
            )
            for n, m, pairs in zip(levels, last.m, anchors, strict=True)
        ]
        self._last_use = {n: index for index, used in enumerate(self.sources) for n in used}

    def outputs(self, pixels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the raw output of every head, and a feature map (all 1 x D x h x w)."""
        outputs: dict[int, Any] = {INPUT: pixels}
        for index, layer in enumerate(self.model):
            outputs[index] = layer(*(outputs[n] for n in self.sources[index]))
            # Together they would take half a gigabyte.
            for n in self.sources[index]:
                if self._last_use[n] == index and n != self.feature_layer:
                    del outputs[n]
        return outputs[len(self.model) - 1], outputs[self.feature_layer]

    def load_weights(self, tensors: dict[str, torch.Tensor]) -> None:
        """Load the tensors of the file; all that the network needs must be there."""
        end = f'model.{len(self.model) - 1}.'
        needed = {name: tensors[name].float() for name in self.state_dict()}
        for level in range(len(self.heads)):
            # In the file, a learnt constant is added to the input of these convolutions. It does
            # not depend on the image, so it is folded into the bias.
            shift = tensors[f'{end}ia.{level}.implicit'].float()
            weight = needed[f'{end}m.{level}.weight']
            bias = f'{end}m.{level}.bias'
            needed[bias] = needed[bias] + conv2d(shift, weight).flatten()
        self.load_state_dict(needed)


def layer_of(kind: str, numbers: list[Any], of_sources: list[int]) -> tuple[nn.Module, int]:
    """Return a layer for sources with these channels, and its number of output channels."""
    in_channels = of_sources[0]
    if kind == 'Conv':
        out_channels, size, stride = numbers
        return Conv(in_channels, out_channels, size, stride), out_channels
    if kind == 'Concat':
        return Concat(), sum(of_sources)
    if kind == 'MP':
        return nn.MaxPool2d(2), in_channels
    if kind == 'nn.Upsample':
        return nn.Upsample(scale_factor=numbers[1], mode='nearest'), in_channels
    if kind == 'SPPCSPC':
        return Pyramid(in_channels, numbers[0]), numbers[0]
    raise ValueError(f'unknown layer type {kind}')


def load_yolov7_seg(
    store: ModelStore, options: DetectorOptions, device: torch.device
) -> YoloDetector:
    """YOLOv7: slower and more accurate than YOLOv4-tiny, under the GPL. The same 80 classes."""
    saved = load_foreign_pickle(store.path('yolov7-seg'))['model']
    network = YoloV7(saved.yaml)
    network.load_weights(tensors_of(saved))
    labels = tuple(saved.names.values())
    return YoloDetector('yolov7-seg', network, labels, SIDE, options, device)


def load(settings: Settings, store: ModelStore, device: torch.device) -> YoloDetector:
    """Load YOLOv7 with the options of the settings."""
    return load_yolov7_seg(store, DetectorOptions.of(settings), device)


PLUGIN = DetectorPlugin(
    name='yolov7-seg',
    description='YOLOv7: slower and more accurate than YOLOv4-tiny, the same 80 classes',
    licence='GPL-3.0',
    load=load,
    models=models_named('yolov7-seg'),
)
