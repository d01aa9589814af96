"""MobileNetV2 and EfficientNet-Lite2: networks of inverted residual blocks, without their heads.

Written from the papers (Sandler et al.: MobileNetV2, 2018; Tan and Le: EfficientNet, 2019, in its
Lite variant without attention). Published weights are loaded in the order of their layers, because
each publisher names them in another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import math

import torch
from torch import nn, Tensor
from torch.nn import functional

STEM = 32  # channels of the first layer
COUNTERS = 'num_batches_tracked'  # of batch normalisation, needed for training only


@dataclass(frozen=True)
class Stage:
    """Blocks of the same width; the first one may halve the resolution."""

    channels: int
    blocks: int
    kernel: int
    stride: int
    expansion: int


@dataclass(frozen=True)
class Architecture:
    """The stages of a network, and how its publishers pad and normalise."""

    stages: tuple[Stage, ...]
    symmetric: bool  # padding; TensorFlow pads more on the right and below
    epsilon: float  # of batch normalisation


MOBILENET_V2 = Architecture(
    (
        Stage(16, 1, 3, 1, 1),
        Stage(24, 2, 3, 2, 6),
        Stage(32, 3, 3, 2, 6),
        Stage(64, 4, 3, 2, 6),
        Stage(96, 3, 3, 1, 6),
        Stage(160, 3, 3, 2, 6),
        Stage(320, 1, 3, 1, 6),
    ),
    symmetric=True,
    epsilon=1e-5,
)
EFFICIENTNET_LITE2 = Architecture(
    (
        Stage(16, 1, 3, 1, 1),
        Stage(24, 3, 3, 2, 6),
        Stage(48, 3, 5, 2, 6),
        Stage(88, 4, 3, 2, 6),
        Stage(120, 4, 5, 1, 6),
        Stage(208, 5, 5, 2, 6),
        Stage(352, 1, 3, 1, 6),
    ),
    symmetric=False,
    epsilon=1e-3,
)


class InvertedResiduals(nn.Module):
    """Returns what each stage makes of an image."""

    def __init__(self, architecture: Architecture, stages: int) -> None:
        """Create the first stages, with random weights."""
        super().__init__()
        self.stem = nn.Sequential(
            *convolution(architecture, 3, STEM, kernel=3, stride=2), nn.ReLU6()
        )
        width, made = STEM, []
        for stage in architecture.stages[:stages]:
            blocks = []
            for number in range(stage.blocks):
                stride = 1 if number else stage.stride
                blocks.append(Block(architecture, stage, width, stride))
                width = stage.channels
            made.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(made)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        """Return the features after each stage, from normalised pixels (1 x 3 x H x W)."""
        features, outputs = self.stem(pixels), []
        for stage in self.stages:
            features = stage(features)
            outputs.append(features)
        return outputs

    def load_in_order(self, published: Mapping[str, Tensor]) -> None:
        """Load weights whose layers have other names but the same order; the head is left out."""
        given = [tensor for name, tensor in published.items() if not name.endswith(COUNTERS)]
        names = [name for name in self.state_dict() if not name.endswith(COUNTERS)]
        if len(given) < len(names):
            raise ValueError(f'{len(given)} weights are published, but {len(names)} are needed')
        self.load_state_dict(dict(zip(names, given, strict=False)), strict=False)


class Block(nn.Module):
    """Widens, filters each channel on its own, and narrows again."""

    def __init__(
        self, architecture: Architecture, stage: Stage, channels: int, stride: int
    ) -> None:
        """Create the layers; the input is added where it has the same shape."""
        super().__init__()
        wide = channels * stage.expansion
        layers: list[nn.Module] = []
        if stage.expansion > 1:
            layers += [*convolution(architecture, channels, wide), nn.ReLU6()]
        layers += convolution(architecture, wide, wide, stage.kernel, stride, groups=wide)
        layers += [nn.ReLU6(), *convolution(architecture, wide, stage.channels)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == stage.channels

    def forward(self, features: Tensor) -> Tensor:
        """Return the features of the next layer."""
        filtered: Tensor = self.layers(features)
        return features + filtered if self.residual else filtered


def convolution(
    architecture: Architecture,
    channels: int,
    outputs: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
) -> list[nn.Module]:
    """Return a convolution that keeps the size, or halves it, with its normalisation."""
    make = nn.Conv2d if architecture.symmetric else PaddedAsInTensorFlow
    padding = kernel // 2 if architecture.symmetric else 0
    layer = make(channels, outputs, kernel, stride, padding=padding, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs, eps=architecture.epsilon)]


class PaddedAsInTensorFlow(nn.Conv2d):
    """Pads with zeros so that no pixel is left out, more on the right and below."""

    def forward(self, features: Tensor) -> Tensor:
        """Return the filtered features."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, right = (
            max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
            for size in features.shape[-2:]
        )
        edges = [right // 2, right - right // 2, down // 2, down - down // 2]
        return super().forward(functional.pad(features, edges))


def mobilenet_v2(stages: int, weights: Mapping[str, Tensor]) -> InvertedResiduals:
    """Return the first stages of MobileNetV2."""
    return loaded(InvertedResiduals(MOBILENET_V2, stages), weights)


def efficientnet_lite2(stages: int, weights: Mapping[str, Tensor]) -> InvertedResiduals:
    """Return the first stages of EfficientNet-Lite2."""
    return loaded(InvertedResiduals(EFFICIENTNET_LITE2, stages), weights)


def loaded(network: InvertedResiduals, weights: Mapping[str, torch.Tensor]) -> InvertedResiduals:
    """Return a network with its weights, ready to be called."""
    network.load_in_order(weights)
    return network.eval()
