"""LightGlue: matches the keypoints of two images with attention.

After the paper (Lindenberger, Sarlin, Pollefeys: LightGlue: Local Feature Matching at Light Speed,
2023) and the code of its authors (cvg/LightGlue, Apache-2.0, Copyright 2023 ETH Zurich), changed
for one pair at a time on a CPU: only the last of the large matrices is stored, what depends on one
image alone is computed separately, so that it can be kept, there is no early exit, and pruning
drops only points that are very unlikely to have a match. The published weights are rearranged when
they are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn, Tensor
from torch.nn.functional import logsigmoid, scaled_dot_product_attention


@dataclass(frozen=True)
class Architecture:
    """The sizes of a LightGlue."""

    input_width: int = 256  # of a descriptor
    width: int = 256  # of each layer
    layers: int = 9
    heads: int = 4


@dataclass(frozen=True)
class ImageState:
    """What LightGlue computes from one image alone."""

    points: Tensor  # N x width
    rotation: Tensor  # N x 1 x half the width of a head, complex


class LightGlue(nn.Module):
    """Scores how well the keypoints of two images match."""

    def __init__(self, architecture: Architecture, min_match_probability: float = 0.0) -> None:
        """Create the network with random weights.

        Points whose matchability falls to `min_match_probability` are left out of later layers;
        with 0, all points stay.
        """
        super().__init__()
        self.min_match_probability = min_match_probability
        width, heads = architecture.width, architecture.heads
        self.input_proj: nn.Module = nn.Identity()
        if architecture.input_width != width:
            self.input_proj = nn.Linear(architecture.input_width, width)
        self.frequencies = nn.Parameter(torch.randn(width // heads // 2, 2))
        self.within = nn.ModuleList(
            SelfAttention(width, heads) for _ in range(architecture.layers)
        )
        self.across = nn.ModuleList(
            CrossAttention(width, heads) for _ in range(architecture.layers)
        )
        self.final_proj = nn.Linear(width, width)
        self.matchability = nn.Linear(width, 1)
        # The matchability after each layer except the last.
        self.prospects = nn.ModuleList(nn.Linear(width, 1) for _ in range(architecture.layers - 1))

    def encode(self, descriptors: Tensor, keypoints: Tensor, size: tuple[int, int]) -> ImageState:
        """Compute what depends on one image alone.

        Takes the projected descriptors (N x width, weighted or not), the keypoints (N x 2), and
        the width and height of the image.
        """
        # The longer side of the image is from -1 to 1.
        half_size = keypoints.new_tensor(size) / 2
        positions = ((keypoints - half_size) / half_size.max()).float()
        # Not a matrix product, which autocast would do in half precision, rounding to pixels.
        angles = (positions[:, None] * self.frequencies).sum(2)
        rotation = torch.polar(torch.ones_like(angles), angles)[:, None]
        return ImageState(self.within[0](descriptors, rotation, [len(descriptors)]), rotation)

    def forward(self, reference: ImageState, image: ImageState) -> Tensor:
        """Return the log assignment of each pair of keypoints (N x M)."""
        shape = [len(reference.points), len(image.points)]
        if not all(shape):
            return reference.points.new_empty(shape)
        points = torch.cat([reference.points, image.points])
        rotation = torch.cat([reference.rotation, image.rotation])
        sides, left = shape, torch.arange(len(points), device=points.device)
        for number, across in enumerate(self.across):
            if number:  # `encode` did the first
                points = self.within[number](points, rotation, sides)
            points = across(points, sides)
            if self.min_match_probability and number < len(self.prospects):
                worth = self.prospects[number](points)[:, 0].sigmoid() > self.min_match_probability
                points, rotation, left = points[worth], rotation[worth], left[worth]
                sides = [int(side.sum()) for side in worth.split(sides)]
                if not all(sides):
                    break
        if len(left) == sum(shape):
            return self.assign(points, sides)
        assignment = points.new_full(shape, -torch.inf, dtype=torch.float32)
        if all(sides):
            rows, columns = left.split(sides)
            assignment[rows[:, None], columns - shape[0]] = self.assign(points, sides)
        return assignment

    def assign(self, points: Tensor, counts: list[int]) -> Tensor:
        """Return the log assignment from the final state of all points."""
        # Scaled before the product, which would overflow in half precision otherwise.
        final = self.final_proj(points) / points.shape[1] ** 0.25
        reference, image = final.split(counts)
        likeness = (reference @ image.T).float()
        certain_reference, certain_image = logsigmoid(
            self.matchability(points).float()[:, 0]
        ).split(counts)
        # The product of the softmax along rows and along columns.
        of_rows = certain_reference - likeness.logsumexp(1)
        of_columns = certain_image - likeness.logsumexp(0)
        return likeness.mul_(2).add_(of_rows[:, None]).add_(of_columns)


class SelfAttention(nn.Module):
    """Self-attention among the points of each image."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the layers."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)  # queries, keys, values
        self.update = Update(width)

    def forward(self, points: Tensor, rotation: Tensor, counts: list[int]) -> Tensor:
        """Return the new points (of all images, concatenated: N x width)."""
        queries_keys, values = self.qkv(points).unflatten(1, (3, self.heads, -1)).split([2, 1], 1)
        queries, keys = rotated(queries_keys.flatten(1, 2), rotation).split(self.heads, 1)
        parts = zip(
            queries.split(counts), keys.split(counts), values[:, 0].split(counts), strict=True
        )
        return self.update(points, torch.cat([attention(*part) for part in parts]))


class CrossAttention(nn.Module):
    """Cross-attention between the points of two images."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the layers."""
        super().__init__()
        self.heads = heads
        self.qv = nn.Linear(width, 2 * width)  # queries, which are keys as well, and values
        self.update = Update(width)

    def forward(self, points: Tensor, counts: list[int]) -> Tensor:
        """Return the new points (of both images, concatenated: N x width)."""
        first, second = self.qv(points).unflatten(1, (2, self.heads, -1)).split(counts)
        seen_by_first = attention(first[:, 0], second[:, 0], second[:, 1])
        seen_by_second = attention(second[:, 0], first[:, 0], first[:, 1])
        return self.update(points, torch.cat([seen_by_first, seen_by_second]))


class Update(nn.Module):
    """The feed-forward network after attention, with a residual connection."""

    def __init__(self, width: int) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * width, 2 * width),
            nn.LayerNorm(2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )

    def forward(self, points: Tensor, seen: Tensor) -> Tensor:
        """Return the new points (N x width)."""
        return points + self.layers(torch.cat([points, seen], 1))


def rotated(heads: Tensor, rotation: Tensor) -> Tensor:
    """Apply the rotary encoding to queries or keys (N x heads x D)."""
    pairs = torch.view_as_complex(heads.float().unflatten(2, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(2).to(heads.dtype)


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the attention of queries (N x heads x D) over M keys and values: N x heads * D."""
    queries, keys, values = (side.transpose(0, 1)[None] for side in (queries, keys, values))
    return scaled_dot_product_attention(queries, keys, values)[0].transpose(0, 1).flatten(1)


def best_pairs(assignment: Tensor, score_threshold: float) -> tuple[Tensor, Tensor]:
    """Return the mutually best pairs (K x 2), and their scores (K)."""
    if not assignment.numel():
        return assignment.new_empty(0, 2, dtype=torch.long), assignment.new_empty(0)
    best, partner = assignment.max(1)
    numbers = torch.arange(len(partner), device=partner.device)
    scores = best.exp()
    good = (assignment.argmax(0)[partner] == numbers) & (scores > score_threshold)
    return torch.stack([numbers, partner], 1)[good], scores[good]


def rearranged(published: Mapping[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """Return published weights with the names and layouts of this LightGlue.

    The output projection of each attention is folded into the next linear layer.
    """
    weights = with_present_names(published)
    state = {
        name: weights[name]
        for name in ('input_proj.weight', 'input_proj.bias')
        if architecture.input_width != architecture.width
    }
    state['frequencies'] = weights['posenc.Wr.weight']
    last = f'log_assignment.{architecture.layers - 1}'
    for layer in ('final_proj', 'matchability'):
        for kind in ('weight', 'bias'):
            state[f'{layer}.{kind}'] = weights[f'{last}.{layer}.{kind}']
    for number in range(architecture.layers - 1):
        for kind in ('weight', 'bias'):
            entry = weights[f'log_assignment.{number}.matchability.{kind}']
            state[f'prospects.{number}.{kind}'] = entry
    for number in range(architecture.layers):
        within, across = (f'transformers.{number}.{kind}' for kind in ('self_attn', 'cross_attn'))
        for kind in ('weight', 'bias'):
            # Published as heads x width of a head x (query, key, value).
            qkv = weights[f'{within}.Wqkv.{kind}'].unflatten(0, (-1, 3))
            state[f'within.{number}.qkv.{kind}'] = qkv.transpose(0, 1).flatten(0, 1)
            parts = [weights[f'{across}.{part}.{kind}'] for part in ('to_qk', 'to_v')]
            state[f'across.{number}.qv.{kind}'] = torch.cat(parts)
        for place, source, output in (
            (f'within.{number}', within, 'out_proj'),
            (f'across.{number}', across, 'to_out'),
        ):
            for layer in ('0', '1', '3'):
                for kind in ('weight', 'bias'):
                    entry = weights[f'{source}.ffn.{layer}.{kind}']
                    state[f'{place}.update.layers.{layer}.{kind}'] = entry
            own, seen = weights[f'{source}.ffn.0.weight'].double().chunk(2, 1)
            behind = weights[f'{source}.{output}.weight'].double()
            offset = seen @ weights[f'{source}.{output}.bias'].double()
            first = f'{place}.update.layers.0'
            state[f'{first}.weight'] = torch.cat([own, seen @ behind], 1).float()
            state[f'{first}.bias'] = (state[f'{first}.bias'] + offset).float()
    return state


def with_present_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the entries of a LightGlue weight file to the current names of its authors."""
    renamed = {}
    for name, value in weights.items():
        name = name.removeprefix('matcher.')
        kind, _, rest = name.partition('.')
        if kind in ('self_attn', 'cross_attn'):
            layer, _, rest = rest.partition('.')
            name = f'transformers.{layer}.{kind}.{rest}'
        renamed[name] = value
    return renamed
