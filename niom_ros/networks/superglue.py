"""SuperGlue: matches the keypoints of two images with attention and optimal transport.

Written from the paper (Sarlin, DeTone, Malisiewicz, Rabinovich: SuperGlue: Learning Feature
Matching with Graph Neural Networks, 2020). The names of the layers are those of the published
weights. Inside, everything is 1 x channels x keypoints.
"""

from itertools import pairwise
import math
from typing import NamedTuple

import torch
from torch import nn, Tensor
from torch.nn import functional

WIDTH = 256  # of a descriptor, at the input and in each layer
HEADS = 4
LAYERS = 18  # self-attention and cross-attention in turn


class ImageSide(NamedTuple):
    """The keypoints of one image, as SuperGlue takes them."""

    keypoints: Tensor  # N x 2
    scores: Tensor  # N
    descriptors: Tensor  # N x 256, weighted or not
    size: tuple[int, int]  # width and height of the image


class SuperGlue(nn.Module):
    """Assigns each keypoint of an image to one of another image or to none."""

    def __init__(self, iterations: int = 100) -> None:
        """Create the network with random weights; the iterations are those of Sinkhorn."""
        super().__init__()
        self.iterations = iterations
        self.kenc = KeypointEncoder()
        self.gnn = AttentionalGraph()
        self.final_proj = nn.Conv1d(WIDTH, WIDTH, 1)
        self.bin_score = nn.Parameter(torch.ones(()))

    def forward(self, side0: ImageSide, side1: ImageSide) -> Tensor:
        """Return the log assignment, (N + 1) x (M + 1).

        Its last row and its last column are for keypoints without a partner.
        """
        if not len(side0.keypoints) or not len(side1.keypoints):
            return all_unmatched(side0.descriptors, side1.descriptors)
        features0, features1 = (
            side.descriptors.T[None] + self.kenc(side.keypoints, side.scores, side.size)
            for side in (side0, side1)
        )
        features0, features1 = self.gnn(features0, features1)
        # Scaled before the product, which would overflow in half precision otherwise.
        features0 = self.final_proj(features0)[0] / math.sqrt(WIDTH)
        features1 = self.final_proj(features1)[0]
        return optimal_transport(features0.T @ features1, self.bin_score, self.iterations)


class KeypointEncoder(nn.Module):
    """Encodes the position and score of keypoints, to be added to descriptors."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.encoder = perceptron(3, 32, 64, 128, WIDTH, WIDTH)

    def forward(self, keypoints: Tensor, scores: Tensor, size: tuple[int, int]) -> Tensor:
        """Return the encoding (1 x 256 x N)."""
        width, height = size
        # The longer side of the image is from -0.71 to 0.71, as in the training.
        centre = keypoints.new_tensor([width / 2, height / 2])
        positions = (keypoints - centre) / (0.7 * max(width, height))
        return self.encoder(torch.cat([positions.T, scores[None]])[None])


class AttentionalGraph(nn.Module):
    """Self-attention and cross-attention between keypoints, in turn."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = nn.ModuleList(AttentionalLayer() for _ in range(LAYERS))

    def forward(self, features0: Tensor, features1: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new features of both images."""
        for number, layer in enumerate(self.layers):
            seen0, seen1 = features0, features1
            if number % 2:
                seen0, seen1 = features1, features0
            features0, features1 = layer(features0, seen0), layer(features1, seen1)
        return features0, features1


class AttentionalLayer(nn.Module):
    """An attention layer with a residual connection."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.attn = Attention()
        self.mlp = perceptron(2 * WIDTH, 2 * WIDTH, WIDTH)

    def forward(self, features: Tensor, seen: Tensor) -> Tensor:
        """Return the new features."""
        message = self.attn(features, seen)
        return features + self.mlp(torch.cat([features, message], dim=1))


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.merge = nn.Conv1d(WIDTH, WIDTH, 1)
        self.proj = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3))

    def forward(self, features: Tensor, seen: Tensor) -> Tensor:
        """Return the attention of features over those seen."""
        to_query, to_key, to_value = self.proj
        message = functional.scaled_dot_product_attention(
            split_heads(to_query(features)), split_heads(to_key(seen)), split_heads(to_value(seen))
        )
        return self.merge(message.permute(0, 3, 1, 2).flatten(1, 2))


def split_heads(features: Tensor) -> Tensor:
    """Return features (1 x 256 x N) as heads x N x channels of each head, in a batch of one."""
    # In the published weights neighbouring channels belong to different heads.
    return features.unflatten(1, (-1, HEADS)).permute(0, 2, 3, 1)


def perceptron(*channels: int) -> nn.Sequential:
    """Return a multilayer perceptron, applied to each keypoint, with these channels."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels[:-1]):
        layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(channels[-2], channels[-1], 1))


def optimal_transport(similarities: Tensor, bin_score: Tensor, iterations: int) -> Tensor:
    """Return the log assignment that favours similar keypoints, with dustbins (Sinkhorn).

    After exp, the row of each of N keypoints and the column of each of M keypoints sums to 1. The
    dustbins have room for all of the other image: their row sums to M, their column to N. The sums
    of rows are only as exact as the number of iterations makes them.
    """
    # Half precision is too coarse for many iterations on logarithms.
    dtype = torch.promote_types(similarities.dtype, torch.float32)
    rows, columns = similarities.shape
    scores = bin_score.to(dtype).repeat(rows + 1, columns + 1)
    scores[:-1, :-1] = similarities

    row_sums, column_sums = scores.new_zeros(rows + 1), scores.new_zeros(columns + 1)
    row_sums[-1], column_sums[-1] = math.log(columns), math.log(rows)
    for_rows, for_columns = torch.zeros_like(row_sums), torch.zeros_like(column_sums)
    for _ in range(iterations):
        for_rows = row_sums - (scores + for_columns).logsumexp(1)
        for_columns = column_sums - (scores + for_rows[:, None]).logsumexp(0)
    return scores + for_rows[:, None] + for_columns


def all_unmatched(descriptors0: Tensor, descriptors1: Tensor) -> Tensor:
    """Return the assignment if one image has no keypoints, so that none has a partner."""
    assignment = descriptors0.new_zeros(len(descriptors0) + 1, len(descriptors1) + 1)
    assignment[-1, -1] = -math.inf
    return assignment


def mutual_matches(assignment: Tensor, score_threshold: float) -> tuple[Tensor, Tensor]:
    """Return matches (K x 2, keypoints of either image) and their scores (K), from 0 to 1.

    The assignment is that of `SuperGlue`. A match is the best of its row and of its column and
    scores above the threshold.
    """
    partners = assignment[:-1, :-1]
    if not partners.numel():
        nothing = partners.new_zeros(0)
        return nothing.long().reshape(0, 2), nothing
    best, best1 = partners.max(dim=1)
    best0 = partners.argmax(dim=0)
    own = torch.arange(len(best1), device=best1.device)
    scores = best.exp()
    good = (best0[best1] == own) & (scores > score_threshold)
    return torch.stack([own, best1], dim=1)[good], scores[good]
