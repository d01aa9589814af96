"""LightGlue: matches the keypoints of two images with attention.

After the paper (Lindenberger, Sarlin, Pollefeys: LightGlue: Local Feature Matching at Light Speed,
2023) and the code of its authors (cvg/LightGlue, Apache-2.0, Copyright 2023 ETH Zurich), changed
for one pair at a time on a CPU: no large matrix but the last one is ever written down, what can be
said of one image alone is computed apart, so that it can be kept, there is no early exit, and
pruning is for points that have hardly any prospect. The published weights are rearranged when they
are loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn, Tensor
from torch.nn.functional import logsigmoid, scaled_dot_product_attention


@dataclass(frozen=True)
class Architecture:
    """The sizes of a LightGlue."""

    input_width: int = 256  # numbers in a descriptor
    width: int = 256  # of them in each layer
    layers: int = 9
    heads: int = 4


@dataclass(frozen=True)
class OneSide:
    """What LightGlue computes from one image without the other."""

    points: Tensor  # N x width
    rotation: Tensor  # N x 1 x pairs of numbers in a head, complex


class LightGlue(nn.Module):
    """Scores how well the keypoints of two images belong together."""

    def __init__(self, architecture: Architecture, least_prospect: float = 0.0) -> None:
        """Create the network with random weights.

        Points whose prospect to have a partner sinks to the least one are not looked at in later
        layers; with 0 all are.
        """
        super().__init__()
        self.least_prospect = least_prospect
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
        # The same after each layer but the last.
        self.prospects = nn.ModuleList(nn.Linear(width, 1) for _ in range(architecture.layers - 1))

    def look(self, descriptors: Tensor, keypoints: Tensor, size: tuple[int, int]) -> OneSide:
        """Return what can be said of one image alone.

        Given are descriptors as the first layer makes them (N x width, weighted or not), the
        keypoints (N x 2), and the image's width and height.
        """
        # The longer side of the image is from -1 to 1.
        half_size = keypoints.new_tensor(size) / 2
        positions = ((keypoints - half_size) / half_size.max()).float()
        # No matrix product, which autocast would do in half precision: that rounds to pixels.
        angles = (positions[:, None] * self.frequencies).sum(2)
        rotation = torch.polar(torch.ones_like(angles), angles)[:, None]
        return OneSide(self.within[0](descriptors, rotation, [len(descriptors)]), rotation)

    def forward(self, reference: OneSide, image: OneSide) -> Tensor:
        """Return the logarithm of how well each pair of keypoints belongs together (N x M)."""
        shape = [len(reference.points), len(image.points)]
        if not all(shape):
            return reference.points.new_empty(shape)
        points = torch.cat([reference.points, image.points])
        rotation = torch.cat([reference.rotation, image.rotation])
        sides, left = shape, torch.arange(len(points), device=points.device)
        for number, across in enumerate(self.across):
            if number:  # the first has been done for each side apart
                points = self.within[number](points, rotation, sides)
            points = across(points, sides)
            if self.least_prospect and number < len(self.prospects):
                worth = self.prospects[number](points)[:, 0].sigmoid() > self.least_prospect
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
        """Return the logarithm of the assignment from what all points know in the end."""
        # Divided before the product, which half precision could not hold otherwise.
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
    """Lets the points of each image look at each other."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the layers."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)  # queries, keys, values
        self.update = Update(width)

    def forward(self, points: Tensor, rotation: Tensor, counts: list[int]) -> Tensor:
        """Return the new points (all images in one: N x width)."""
        queries_keys, values = self.qkv(points).unflatten(1, (3, self.heads, -1)).split([2, 1], 1)
        queries, keys = rotated(queries_keys.flatten(1, 2), rotation).split(self.heads, 1)
        parts = zip(
            queries.split(counts), keys.split(counts), values[:, 0].split(counts), strict=True
        )
        return self.update(points, torch.cat([attention(*part) for part in parts]))


class CrossAttention(nn.Module):
    """Lets the points of two images look at those of the other."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the layers."""
        super().__init__()
        self.heads = heads
        self.qv = nn.Linear(width, 2 * width)  # queries, which are keys as well, and values
        self.update = Update(width)

    def forward(self, points: Tensor, counts: list[int]) -> Tensor:
        """Return the new points (both images in one: N x width)."""
        first, second = self.qv(points).unflatten(1, (2, self.heads, -1)).split(counts)
        seen_by_first = attention(first[:, 0], second[:, 0], second[:, 1])
        seen_by_second = attention(second[:, 0], first[:, 0], first[:, 1])
        return self.update(points, torch.cat([seen_by_first, seen_by_second]))


class Update(nn.Module):
    """Adds to points what follows from what they have seen."""

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
    """Return numbers (N x heads x D) turned, two by two, by the angles of their points."""
    pairs = torch.view_as_complex(heads.float().unflatten(2, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(2).to(heads.dtype)


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return what queries (N x heads x D) see in values (M x heads x D), as N x heads * D."""
    queries, keys, values = (side.transpose(0, 1)[None] for side in (queries, keys, values))
    return scaled_dot_product_attention(queries, keys, values)[0].transpose(0, 1).flatten(1)


def best_pairs(assignment: Tensor, score_threshold: float) -> tuple[Tensor, Tensor]:
    """Return the pairs (K x 2) that are best for both, and their scores (K)."""
    if not assignment.numel():
        return assignment.new_empty(0, 2, dtype=torch.long), assignment.new_empty(0)
    best, partner = assignment.max(1)
    numbers = torch.arange(len(partner), device=partner.device)
    scores = best.exp()
    good = (assignment.argmax(0)[partner] == numbers) & (scores > score_threshold)
    return torch.stack([numbers, partner], 1)[good], scores[good]


def rearranged(published: Mapping[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """Return published weights under the names and in the order that LightGlue has here.

    The linear layer behind an attention is multiplied into the one that follows it.
    """
    weights = with_present_names(published)
    mine = {
        name: weights[name]
        for name in ('input_proj.weight', 'input_proj.bias')
        if architecture.input_width != architecture.width
    }
    mine['frequencies'] = weights['posenc.Wr.weight']
    last = f'log_assignment.{architecture.layers - 1}'
    for layer in ('final_proj', 'matchability'):
        for kind in ('weight', 'bias'):
            mine[f'{layer}.{kind}'] = weights[f'{last}.{layer}.{kind}']
    for number in range(architecture.layers - 1):
        for kind in ('weight', 'bias'):
            entry = weights[f'log_assignment.{number}.matchability.{kind}']
            mine[f'prospects.{number}.{kind}'] = entry
    for number in range(architecture.layers):
        within, across = (f'transformers.{number}.{kind}' for kind in ('self_attn', 'cross_attn'))
        for kind in ('weight', 'bias'):
            # Published as heads x numbers x (query, key, value).
            qkv = weights[f'{within}.Wqkv.{kind}'].unflatten(0, (-1, 3))
            mine[f'within.{number}.qkv.{kind}'] = qkv.transpose(0, 1).flatten(0, 1)
            parts = [weights[f'{across}.{part}.{kind}'] for part in ('to_qk', 'to_v')]
            mine[f'across.{number}.qv.{kind}'] = torch.cat(parts)
        for place, source, output in (
            (f'within.{number}', within, 'out_proj'),
            (f'across.{number}', across, 'to_out'),
        ):
            for layer in ('0', '1', '3'):
                for kind in ('weight', 'bias'):
                    entry = weights[f'{source}.ffn.{layer}.{kind}']
                    mine[f'{place}.update.layers.{layer}.{kind}'] = entry
            own, seen = weights[f'{source}.ffn.0.weight'].double().chunk(2, 1)
            behind = weights[f'{source}.{output}.weight'].double()
            offset = seen @ weights[f'{source}.{output}.bias'].double()
            first = f'{place}.update.layers.0'
            mine[f'{first}.weight'] = torch.cat([own, seen @ behind], 1).float()
            mine[f'{first}.bias'] = (mine[f'{first}.bias'] + offset).float()
    return mine


def with_present_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the entries of a LightGlue weight file to the names that its authors use now."""
    renamed = {}
    for name, value in weights.items():
        name = name.removeprefix('matcher.')
        kind, _, rest = name.partition('.')
        if kind in ('self_attn', 'cross_attn'):
            layer, _, rest = rest.partition('.')
            name = f'transformers.{layer}.{kind}.{rest}'
        renamed[name] = value
    return renamed
