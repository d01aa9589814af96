"""MobileNetV2 and EfficientNet-Lite2: networks of inverted residual blocks that name an object.

Written from the papers (Sandler et al.: MobileNetV2, 2018; Tan and Le: EfficientNet, 2019, in its
Lite variant without attention). Published weights are loaded in the order of their layers, because
each publisher names them in another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
import math

from torch import nn, Tensor
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

STEM = 32  # channels of the first layer
HEAD = 1280  # and of the last one
CLASSES = 1000  # of ImageNet
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
    """Describes an image at each stage, and names what it shows."""

    def __init__(self, architecture: Architecture) -> None:
        """Create the layers, with random weights."""
        super().__init__()
        self.stem = nn.Sequential(
            *convolution(architecture, 3, STEM, kernel=3, stride=2), nn.ReLU6()
        )
        width, made = STEM, []
        for stage in architecture.stages:
            blocks = []
            for number in range(stage.blocks):
                stride = 1 if number else stage.stride
                blocks.append(Block(architecture, stage, width, stride))
                width = stage.channels
            made.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(made)
        self.head = nn.Sequential(*convolution(architecture, width, HEAD), nn.ReLU6())
        self.classes = nn.Linear(HEAD, CLASSES)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return a description (1 x 1280) and scores (1 x 1000) of what an image shows."""
        description = self._described(pixels).mean((2, 3))
        return description, self.classes(description)

    def evidence(self, pixels: Tensor) -> Tensor:
        """Return the evidence for each class in each cell (classes x h x w).

        Its mean over the cells, with the bias, is the score of a class: the network averages over
        the cells before its last layer, but both are linear. So it is the class activation map.
        """
        return functional.conv2d(self._described(pixels), self.classes.weight[:, :, None, None])[0]

    def _described(self, pixels: Tensor) -> Tensor:
        described: Tensor = self.head(self.after(pixels, len(self.stages))[-1])
        return described

    def after(self, pixels: Tensor, stages: int) -> list[Tensor]:
        """Return the features after each of the first stages, from normalised pixels."""
        features, outputs = self.stem(pixels), []
        for stage in self.stages[:stages]:
            features = stage(features)
            outputs.append(features)
        return outputs

    def load_in_order(self, published: Mapping[str, Tensor]) -> None:
        """Load weights whose layers have other names but the same order."""
        given = [tensor for name, tensor in published.items() if not name.endswith(COUNTERS)]
        names = [name for name in self.state_dict() if not name.endswith(COUNTERS)]
        if len(given) != len(names):
            raise ValueError(f'{len(given)} weights are published, but {len(names)} are needed')
        self.load_state_dict(dict(zip(names, given, strict=True)), strict=False)


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
    # Where nothing is skipped, TensorFlow pads all sides alike as well.
    symmetric = architecture.symmetric or stride == 1
    make = nn.Conv2d if symmetric else PaddedAsInTensorFlow
    padding = kernel // 2 if symmetric else 0
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


def mobilenet_v2(weights: Mapping[str, Tensor]) -> InvertedResiduals:
    """Return MobileNetV2 with its weights."""
    return loaded(MOBILENET_V2, weights)


def efficientnet_lite2(weights: Mapping[str, Tensor]) -> InvertedResiduals:
    """Return EfficientNet-Lite2 with its weights."""
    return loaded(EFFICIENTNET_LITE2, weights)


def loaded(architecture: Architecture, weights: Mapping[str, Tensor]) -> InvertedResiduals:
    """Return a network with its weights, ready to be called."""
    network = InvertedResiduals(architecture)
    network.load_in_order(weights)
    return without_normalisation(network.eval())


def without_normalisation(network: InvertedResiduals) -> InvertedResiduals:
    """Return a network in which each normalisation is part of the convolution before it."""
    for layers in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for number, (first, second) in enumerate(pairwise(list(layers))):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                layers[number] = fuse_conv_bn_eval(first, second)
                layers[number + 1] = nn.Identity()
    return network
