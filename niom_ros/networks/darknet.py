"""Darknet networks, rebuilt in torch from their cfg and weight files."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from niom_ros.models.store import ModelStore

Section = dict[str, str]


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
    """Return the integers of a list like '10,14,  23,27'."""
    return [int(part) for part in text.split(',')]


class Route(nn.Module):
    """Concatenates outputs of earlier layers, or one group of their channels."""

    def __init__(self, layers: list[int], groups: int, group: int) -> None:
        super().__init__()
        self.layers = layers
        self._groups = groups
        self._group = group

    def forward(self, outputs: list[torch.Tensor]) -> torch.Tensor:
        """Return the concatenated channels."""
        parts = [outputs[layer].chunk(self._groups, dim=1)[self._group] for layer in self.layers]
        return torch.cat(parts, dim=1)


class Darknet(nn.Module):
    """A network built from the sections of a cfg file."""

    def __init__(self, cfg: str) -> None:
        super().__init__()
        (_, self.net), *sections = parse_cfg(cfg)
        self.heads: list[tuple[int, Section]] = []  # the layers named [yolo], and their options
        self.layers = nn.ModuleList()
        channels: list[int] = []
        for index, (kind, options) in enumerate(sections):
            in_channels = channels[-1] if channels else int(self.net['channels'])
            layer, out_channels = self._layer(index, kind, options, in_channels, channels)
            self.layers.append(layer)
            channels.append(out_channels)

    def _layer(
        self, index: int, kind: str, options: Section, in_channels: int, channels: list[int]
    ) -> tuple[nn.Module, int]:
        if kind == 'convolutional':
            return convolution(options, in_channels), int(options['filters'])
        if kind == 'route':
            sources = [n if n >= 0 else index + n for n in numbers(options['layers'])]
            groups = int(options.get('groups', 1))
            out_channels = sum(channels[n] // groups for n in sources)
            return Route(sources, groups, int(options.get('group_id', 0))), out_channels
        if kind == 'maxpool':
            return nn.MaxPool2d(int(options['size']), int(options['stride'])), in_channels
        if kind == 'upsample':
            return nn.Upsample(scale_factor=int(options['stride']), mode='nearest'), in_channels
        if kind == 'yolo':
            self.heads.append((index, options))
            return nn.Identity(), in_channels
        raise ValueError(f'unknown layer type [{kind}]')

    def features(self, pixels: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        """Return the outputs of some layers for an input (1 x D x h x w each)."""
        outputs: list[torch.Tensor] = []
        x = pixels
        for layer in self.layers[: max(layers) + 1]:
            x = layer(outputs) if isinstance(layer, Route) else layer(x)
            outputs.append(x)
        return [outputs[index] for index in layers]

    def load_weights(self, data: bytes) -> None:
        """Load a darknet weight file, which must have exactly the right size."""
        # Three version numbers, and the 64-bit count of images seen in training.
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
            conv: Any = layer[0]
            norm: Any = layer[1]
            normalised = isinstance(norm, nn.BatchNorm2d)
            if normalised:
                yield from (norm.bias, norm.weight, norm.running_mean, norm.running_var)
            else:
                yield conv.bias
            yield conv.weight


def convolution(options: Section, in_channels: int) -> nn.Sequential:
    """Return a convolution with its normalisation and activation."""
    size, out_channels = int(options['size']), int(options['filters'])
    normalised = options.get('batch_normalize', '0') == '1'
    conv = nn.Conv2d(
        in_channels,
        out_channels,
        size,
        int(options['stride']),
        size // 2 if options.get('pad', '0') == '1' else 0,
        bias=not normalised,
    )
    norm: nn.Module = nn.BatchNorm2d(out_channels) if normalised else nn.Identity()
    activations: dict[str, nn.Module] = {'leaky': nn.LeakyReLU(0.1), 'linear': nn.Identity()}
    return nn.Sequential(conv, norm, activations[options['activation']])


def yolov4_tiny_network(store: ModelStore) -> Darknet:
    """Return the network with its weights."""
    network = Darknet(store.path('yolov4-tiny-cfg').read_text())
    network.load_weights(store.path('yolov4-tiny').read_bytes())
    return network
