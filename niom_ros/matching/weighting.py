"""Semantic Enhancement Weighting: descriptors count as much as their place matters.

A weight is a number for each keypoint that its descriptor is multiplied with. Matchers compare
descriptors by their products, so points with small weights attract less attention and match less.
"""

import torch

from niom_ros.core.settings import Weighting

PAPERS_RANGE = 0.5


def one_heat(heat: torch.Tensor, aggregation: str) -> torch.Tensor:
    """Make one heat (N) of the heat of several objects (K x N), always 0 to 1."""
    if aggregation == 'max':
        return heat.amax(dim=0)
    if aggregation == 'mean':
        return heat.mean(dim=0)
    if aggregation == 'sigmoid':  # of the sum, shifted and stretched so that no heat stays 0
        return 2 * heat.sum(dim=0).sigmoid() - 1
    return (heat.softmax(dim=0) * heat).sum(dim=0)


def weights_of(heat: torch.Tensor, weighting: Weighting) -> torch.Tensor:
    """Return the weight of each keypoint from its heat (N, 0 to 1)."""
    if weighting.kind == 'none' or not len(heat):
        return torch.ones_like(heat)
    if weighting.kind == 'heat':
        return heat
    if weighting.kind == 'one_plus_heat':
        return 1 + heat
    # With the paper's range the gain is 1, and this is its formula.
    spread = PAPERS_RANGE if weighting.range is None else weighting.range
    raised = 1 + heat * spread / (1 - spread)
    weights = raised / raised.max()
    if weighting.kind == 'uniform':
        return weights.mean().expand_as(weights)
    if weighting.kind == 'shuffled':
        # Drawn on the CPU, so that every device shuffles alike.
        order = torch.randperm(len(weights), generator=seeded(weighting.seed))
        return weights[order.to(weights.device)]
    return weights


def seeded(seed: int) -> torch.Generator:
    """Return a source of random numbers that starts anew each time."""
    return torch.Generator().manual_seed(seed)


def weighted(descriptors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Multiply descriptors (N x D) with their weights (N)."""
    return descriptors * weights[:, None].to(descriptors.dtype)
