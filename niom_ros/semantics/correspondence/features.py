"""Descriptors of the parts of objects, from two classifiers trained on ImageNet.

Nothing is trained here. The middle layers of such a network tell where in the object a part is,
and the late ones which part it is. Descriptors contain both, with equal weight, so those of
corresponding parts are similar.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from niom_ros.models.store import ModelStore
from niom_ros.networks.inverted_residuals import (
    efficientnet_lite2,
    InvertedResiduals,
    mobilenet_v2,
)
from niom_ros.semantics.heat_maps import Area

# Of ImageNet, by which the networks expect pixels to be normalised
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class FeatureParameters:
    """Which layers describe a part, and how images are scaled for them."""

    mobilenet_stages: tuple[int, ...] = (3, 4, 5)  # counted from 0
    efficientnet_stages: tuple[int, ...] = (3, 4, 5, 6)
    step: int = 32  # pixels: sizes are multiples of the coarsest stride
    min_side: int = 64  # pixels
    whole_side: int = 256  # pixels at which an area is looked at as a whole
    max_shrinking: float = 2.0  # by interpolation alone; beyond that, pixels are averaged first,
    averaged_to: float = 1.5  # to this many for one pixel of the network


DEFAULTS = FeatureParameters()


@dataclass(frozen=True)
class Impression:
    """What a network makes of an area as a whole."""

    description: Tensor  # 1280 features
    names: Tensor  # 1000 probabilities, of the classes of ImageNet


class Backbone:
    """A network, and the stages whose outputs describe parts. Safe to use from several threads."""

    def __init__(
        self, network: InvertedResiduals, stages: tuple[int, ...], device: torch.device
    ) -> None:
        """Move the network to the device."""
        self._network = network.to(device)
        self._stages = stages
        self._device = device

    @torch.inference_mode()
    def see(self, image: np.ndarray, area: Area, size: tuple[int, int]) -> list[Tensor]:
        """Return the chosen layers for an area of an RGB image, seen at this height and width."""
        pixels = normalised(image, area, size, self._device)
        layers = self._network.after(pixels, max(self._stages) + 1)
        return [layers[number][0] for number in self._stages]

    @torch.inference_mode()
    def impression(self, image: np.ndarray, area: Area) -> Impression:
        """Return what an area of an RGB image shows as a whole."""
        scale = DEFAULTS.whole_side / max(area.width, area.height)
        size = rounded(area.height * scale), rounded(area.width * scale)
        description, scores = self._network(normalised(image, area, size, self._device))
        return Impression(description[0].cpu(), scores[0].softmax(0).cpu())


class PartFeatures:
    """The backbones that describe parts of objects."""

    def __init__(self, store: ModelStore, device: torch.device) -> None:
        """Load the networks from the model store."""
        self.mobilenet = mobilenet_v2(store.load_state_dict('mobilenet-v2')).to(device)
        coarse = efficientnet_lite2(store.load_state_dict('efficientnet-lite2'))
        self.coarse = Backbone(coarse, DEFAULTS.efficientnet_stages, device)
        self.both = (Backbone(self.mobilenet, DEFAULTS.mobilenet_stages, device), self.coarse)


def descriptors(layers: list[Tensor], cells: tuple[int, int]) -> Tensor:
    """Return unit descriptors (D x rows x columns), in which all layers have equal weight."""
    resized = [
        functional.normalize(
            functional.interpolate(
                functional.normalize(layer, dim=0)[None],
                size=cells,
                mode='bilinear',
                antialias=True,
            )[0],
            dim=0,
        )
        for layer in layers
    ]
    return torch.cat(resized) / len(resized) ** 0.5


def normalised(
    image: np.ndarray, area: Area, size: tuple[int, int], device: torch.device
) -> Tensor:
    """Return an area of an RGB image as the networks expect it: 1 x 3 x height x width."""
    pixels = torch.from_numpy(resampled(image, area, size)).to(device).permute(2, 0, 1)
    mean, deviation = (torch.tensor(of, device=device)[:, None, None] for of in (MEAN, DEVIATION))
    return ((pixels.float() / 255 - mean) / deviation)[None]


def resampled(image: np.ndarray, area: Area, size: tuple[int, int]) -> np.ndarray:
    """Return an area of an image at this height and width; pixels of its border are repeated."""
    height, width = size
    shrinking = max(area.width / width, area.height / height)
    left, top, right, bottom = area.left + 0.5, area.top + 0.5, area.right + 0.5, area.bottom + 0.5
    if shrinking > DEFAULTS.max_shrinking:
        scale = DEFAULTS.averaged_to / shrinking
        small_size = [max(1, round(side * scale)) for side in (image.shape[1], image.shape[0])]
        small = cv2.resize(image, small_size, interpolation=cv2.INTER_AREA)
        across, down = small.shape[1] / image.shape[1], small.shape[0] / image.shape[0]
        image = small
        left, right, top, bottom = left * across, right * across, top * down, bottom * down
    scale_x, scale_y = width / (right - left), height / (bottom - top)
    to_area = np.array(
        [
            [scale_x, 0, 0.5 * scale_x - 0.5 - left * scale_x],
            [0, scale_y, 0.5 * scale_y - 0.5 - top * scale_y],
        ]
    )
    return cv2.warpAffine(
        image, to_area, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )


def rounded(side: float, least: int = DEFAULTS.min_side) -> int:
    """Return a side in pixels that suits the strides of the networks."""
    return max(least, round(side / DEFAULTS.step) * DEFAULTS.step)
