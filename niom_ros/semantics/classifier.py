"""Where an image shows what a classifier names: class activation maps of MobileNetV2.

No class is chosen: each counts by its probability. So a wolf has heat even if the network cannot
decide between several breeds of dogs.
"""

from dataclasses import dataclass

import numpy as np
import torch

from niom_ros.core.boxes import Box
from niom_ros.networks.inverted_residuals import InvertedResiduals
from niom_ros.semantics.correspondence.features import normalised, rounded
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap


@dataclass(frozen=True)
class ClassifierParameters:
    """How large the network sees images: larger than in training, for finer maps."""

    side: int = 320  # pixels, the longer one


DEFAULTS = ClassifierParameters()


class Classifier:
    """Names what images show, and says where. Safe to use from several threads."""

    def __init__(self, network: InvertedResiduals, device: torch.device) -> None:
        """Use a network that is on the device."""
        self._network = network
        self._device = device

    @torch.inference_mode()
    def heat(self, image: np.ndarray) -> HeatMap:
        """Return where an RGB image shows what the network takes it for."""
        whole = Area.of_box(Box.around(image))
        scale = DEFAULTS.side / max(whole.width, whole.height)
        size = rounded(whole.height * scale), rounded(whole.width * scale)
        evidence = self._network.evidence(normalised(image, whole, size, self._device))
        scores = evidence.mean((1, 2)) + self._network.classes.bias
        # Evidence for all classes alike is evidence for none.
        distinct = evidence - evidence.mean(0)
        grid = torch.einsum('c,chw->hw', scores.softmax(0), distinct)
        width, height = image.shape[1], image.shape[0]
        return HeatMap.of_grid(grid, GridFrame.spanning(width, height, *grid.shape))
