"""Keypoints and descriptors of an image."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch

from niom_ros.core.plugins import EXTRACTORS
from niom_ros.core.settings import Settings
from niom_ros.models.plugins import load_part, Plugin
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import Architecture

MIN_SIDE = 32  # pixels; below this the networks' coarsest layer has no cell left


@dataclass(frozen=True)
class Features:
    """The keypoints of one image, in pixels of that image (pixel centres at integers)."""

    keypoints: torch.Tensor  # N x 2, x and y
    scores: torch.Tensor  # N, larger is better; the scale is the extractor's own
    descriptors: torch.Tensor  # N x D, unit length until they are weighted
    width: int
    height: int

    def __len__(self) -> int:
        """Return the number of keypoints."""
        return len(self.keypoints)

    def where(self, keep: torch.Tensor) -> 'Features':
        """Return only some of the keypoints: `keep` is a boolean mask (N) or indices."""
        return replace(
            self,
            keypoints=self.keypoints[keep],
            scores=self.scores[keep],
            descriptors=self.descriptors[keep],
        )

    def strongest(self, most: int) -> 'Features':
        """Return at most this many keypoints, those with the best scores, in their order."""
        return self.where(strongest(self.scores, most))

    def moved(self, left: int, top: int, width: int, height: int) -> 'Features':
        """Return the features of a crop as those of the whole image, of this size."""
        keypoints = self.keypoints + self.keypoints.new_tensor([left, top])
        return replace(self, keypoints=keypoints, width=width, height=height)

    def inside(self, mask: np.ndarray) -> 'Features':
        """Return only the keypoints where the mask (height x width) is not zero."""
        columns, rows = self.keypoints.round().long().cpu().numpy().T
        keep = mask[rows.clip(0, self.height - 1), columns.clip(0, self.width - 1)] != 0
        return self.where(torch.from_numpy(keep).to(self.keypoints.device))


def strongest(scores: torch.Tensor, most: int) -> torch.Tensor:
    """Return the indices of the `most` best of N scores, ascending; all if there are fewer."""
    return scores.topk(min(most, len(scores))).indices.sort().values


Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Keypoints (N x 2, x and y), scores (N) and descriptors (N x D, unit length)."""

Network = Callable[[torch.Tensor], Found]
"""From an image (1 x 3 x H x W, RGB, 0 to 1) to its keypoints, on the same device."""


@dataclass(frozen=True)
class LightGlueWeights:
    """LightGlue weights trained for an extractor."""

    model: str  # its name in the store
    architecture: Architecture


@dataclass(frozen=True, kw_only=True)
class ExtractorPlugin(Plugin[Network]):
    """A network that finds keypoints; `load` puts it on the device, ready to be called."""

    makes = Callable

    # How far weights may go below 1. The paper uses 0.5; less where that costs many matches.
    weight_range: float = 0.5
    lightglue: LightGlueWeights | None = None  # None: use another matcher


def extractor_plugin(name: str) -> ExtractorPlugin:
    """Return the extractor of this name, not loaded yet."""
    return EXTRACTORS.load(name, ExtractorPlugin)


class Extractor:
    """Finds the keypoints of images, with the network that the settings name."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the network from the store."""
        self._device = device
        self._max_side = settings.max_image_side
        plugin = extractor_plugin(settings.extractor)
        self.weight_range = plugin.weight_range  # suits its descriptors
        self._network = load_part(
            EXTRACTORS, plugin, store, lambda models: plugin.load(settings, models, device)
        )

    def shrunk_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height at which the network sees an image of this size."""
        shrink = min(1.0, self._max_side / max(width, height, 1))
        return round(width * shrink), round(height * shrink)

    @torch.inference_mode()
    def extract(self, image: np.ndarray) -> Features:
        """Return the features of an RGB image (height x width x 3, uint8)."""
        height, width = image.shape[:2]
        small_width, small_height = self.shrunk_size(width, height)
        if min(small_width, small_height) < MIN_SIDE:
            nothing = torch.empty(0, 2, device=self._device)
            return Features(
                keypoints=nothing,
                scores=nothing[:, 0],
                descriptors=nothing,
                width=width,
                height=height,
            )
        if small_width < width:
            image = cv2.resize(image, (small_width, small_height), interpolation=cv2.INTER_AREA)
        # torch needs a contiguous, writable array, although it only reads it.
        pixels = np.require(image, requirements=['C', 'W'])
        tensor = torch.from_numpy(pixels).to(self._device)
        keypoints, scores, descriptors = self._network(tensor.permute(2, 0, 1)[None].float() / 255)
        # Pixel centres are integers, so the image starts at -0.5.
        scale = keypoints.new_tensor([small_width / width, small_height / height])
        return Features(
            keypoints=(keypoints + 0.5) / scale - 0.5,
            scores=scores,
            descriptors=descriptors,
            width=width,
            height=height,
        )
