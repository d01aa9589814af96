"""Where two pictures agree: places of each whose counterpart in the other one is clear."""

from dataclasses import dataclass

import torch
from torch import Tensor

from niom_ros.semantics.correspondence.field import PartField
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap


@dataclass(frozen=True)
class AgreementParameters:
    """How likelihoods become heat."""

    exponent: float = 0.25  # likelihoods are products: one place would outshine all others


DEFAULTS = AgreementParameters()

Size = tuple[int, int]
"""Width and height of a picture in pixels."""


def agreement(
    parts: PartField, reference: Size, image: Size, device: torch.device
) -> tuple[HeatMap, HeatMap]:
    """Return how well each place of a reference finds a counterpart in an image, and conversely.

    It is as clear as the likeliest of all counterparts is likely.
    """
    likelihood = parts.likelihood.to(device)
    return (
        heat_over(likelihood.amax((2, 3)), parts.reference_area, reference),
        heat_over(likelihood.amax((0, 1)), parts.image_area, image),
    )


def heat_over(likelihood: Tensor, area: Area, size: Size) -> HeatMap:
    """Return the heat in an area of a picture; outside of it, nothing was compared."""
    frame = GridFrame.over(*size, area, *likelihood.shape)
    return HeatMap.of_grid(likelihood**DEFAULTS.exponent, frame, area)
