"""What part of an object each place of an image shows, as networks see it that name objects.

Nothing is trained here. Middle layers of networks trained on ImageNet know the place, late ones
the part: a layer of each, equally weighted, makes noses similar to noses.
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
    max_shrinking: float = 2.0  # by interpolation alone; beyond that, pixels are averaged first,
    averaged_to: float = 1.5  # to this many for one of the network


DEFAULTS = FeatureParameters()


class Backbone:
    """A network, and the stages whose outputs describe parts. Safe to use from several threads."""

    def __init__(
        self, network: InvertedResiduals, stages: tuple[int, ...], device: torch.device
    ) -> None:
        """Move the network to the device."""
        self._network = network.to(device)
        self._stages = stages
        self._device = device
        self._mean = torch.tensor(MEAN, device=device)[:, None, None]
        self._deviation = torch.tensor(DEVIATION, device=device)[:, None, None]

    @torch.inference_mode()
    def see(self, image: np.ndarray, area: Area, size: tuple[int, int]) -> list[Tensor]:
        """Return the chosen layers for an area of an RGB image, seen at this height and width."""
        pixels = torch.from_numpy(resampled(image, area, size)).to(self._device)
        normalised = (pixels.permute(2, 0, 1).float() / 255 - self._mean) / self._deviation
        layers = self._network(normalised[None])
        return [layers[number][0] for number in self._stages]


class PartFeatures:
    """The backbones that describe parts of objects."""

    def __init__(self, store: ModelStore, device: torch.device) -> None:
        """Load the networks from the model store."""
        mobilenet, efficientnet = DEFAULTS.mobilenet_stages, DEFAULTS.efficientnet_stages
        self.coarse = Backbone(
            efficientnet_lite2(max(efficientnet) + 1, store.load_state_dict('efficientnet-lite2')),
            efficientnet,
            device,
        )
        fine = mobilenet_v2(max(mobilenet) + 1, store.load_state_dict('mobilenet-v2'))
        self.both = (Backbone(fine, mobilenet, device), self.coarse)


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


def resampled(image: np.ndarray, area: Area, size: tuple[int, int]) -> np.ndarray:
    """Return an area of an image at this height and width; beyond the image, its edge goes on."""
    height, width = size
    shrinking = max(area.width / width, area.height / height)
    left, top, right, bottom = area.left + 0.5, area.top + 0.5, area.right + 0.5, area.bottom + 0.5
    if shrinking > DEFAULTS.max_shrinking:
        scale = DEFAULTS.averaged_to / shrinking
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
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
