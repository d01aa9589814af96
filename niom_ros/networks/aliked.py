"""ALIKED: keypoints and descriptors from one network.

After the paper (Zhao, Wu, Chen, Chen, Xu, Li: ALIKED: A Lighter Keypoint and Descriptor Extraction
Network via Deformable Transformation, 2023) and the code of its authors (Shiaoming/ALIKED), whose
licence is below. Theirs computes 128 features for every pixel. Here only the scores are
computed for every pixel, and the 128 features where a descriptor samples them: the results are the
same except for rounding. Maps are 1 x channels x H x W, channels last in memory.
"""

# The parts that follow the authors' code:
#
# BSD 3-Clause License
#
# Copyright (c) 2022, Zhao Xiaoming
# All rights reserved.
#
# Redistribution and use in source and binary forms, with or without
# modification, are permitted provided that the following conditions are met:
#
# 1. Redistributions of source code must retain the above copyright notice, this
#    list of conditions and the following disclaimer.
#
# 2. Redistributions in binary form must reproduce the above copyright notice,
#    this list of conditions and the following disclaimer in the documentation
#    and/or other materials provided with the distribution.
#
# 3. Neither the name of the copyright holder nor the names of its
#    contributors may be used to endorse or promote products derived from
#    this software without specific prior written permission.
#
# THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
# AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
# IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
# DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
# FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
# DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
# SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
# CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
# OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
# OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn, Tensor
from torch.nn import functional

from niom_ros.networks.superpoint import at_least_single, convolution

CHANNELS = 16, 32, 64, 128  # of the four blocks, each coarser than the one before
WIDTH = 128  # of a descriptor; a quarter comes from each block
SAMPLES = 16  # positions that a descriptor is computed from
ROWS_AT_A_TIME = 32  # of the finest map
COARSEST_STRIDE = 32  # of the maps, in pixels of the image
NMS_RADIUS = 2  # pixels
SOFT_ARGMAX_TEMPERATURE = 0.1  # of the refinement of keypoints to sub-pixels


@dataclass(frozen=True)
class Maps:
    """The dense outputs of the network for an image."""

    finest: Tensor  # 1 x 16 x H x W, of the padded image
    coarse: tuple[Tensor, ...]  # the others, 1 x 32 x h x w each
    scores: Tensor  # H x W, 0 to 1
    left: int  # padding, in pixels
    top: int


class ALIKED(nn.Module):
    """Finds keypoints, best first, and their descriptors (128)."""

    def __init__(self, max_keypoints: int, score_threshold: float) -> None:
        """Create the network with random weights."""
        super().__init__()
        self.max_keypoints = max_keypoints
        self.score_threshold = score_threshold
        one, two, three, four = CHANNELS
        self.block1 = nn.Sequential(
            convolution(3, one),
            nn.SELU(inplace=True),
            convolution(one, one),
            nn.SELU(inplace=True),
        )
        self.block2 = Block(convolution, one, two)
        self.block3 = Block(DeformableConvolution, two, three)
        self.block4 = Block(DeformableConvolution, three, four)
        self.readings = nn.ModuleList(
            nn.Sequential(PixelLayer(channels, WIDTH // 4, bias=False), nn.SELU(inplace=True))
            for channels in CHANNELS
        )
        self.first_scores = nn.ModuleList(PixelLayer(WIDTH // 4, 8, bias=False) for _ in CHANNELS)
        self.last_scores = nn.Sequential(
            nn.SELU(inplace=True),
            nn.Conv2d(8, 4, 3, padding=1, bias=False),
            nn.SELU(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1, bias=False),
            nn.SELU(inplace=True),
            nn.Conv2d(4, 1, 3, padding=1, bias=False),
        )
        self.choose = nn.Sequential(
            nn.Linear(9 * WIDTH, 2 * SAMPLES),
            nn.SELU(inplace=True),
            nn.Linear(2 * SAMPLES, 2 * SAMPLES),
        )
        self.read = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.SELU(inplace=True))
        self.mix = nn.Linear(SAMPLES * WIDTH, WIDTH, bias=False)
        self.to(memory_format=torch.channels_last)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keypoints (N x 2, x and y), scores (N) and unit descriptors (N x 128).

        The image is 1 x 3 x H x W (RGB) in [0, 1].
        """
        maps = self.dense(image)
        keypoints, scores = self.select(maps.scores)
        return keypoints, scores, self.describe(maps, keypoints)

    def dense(self, image: Tensor) -> Maps:
        """Return the dense maps."""
        height, width = image.shape[2:]
        across, down = -width % COARSEST_STRIDE, -height % COARSEST_STRIDE
        left, top = across // 2, down // 2
        padded = functional.pad(image, (left, across - left, top, down - top), mode='replicate')
        map1 = self.block1(padded.contiguous(memory_format=torch.channels_last))
        map2 = self.block2(functional.avg_pool2d(map1, 2))
        map3 = self.block3(functional.avg_pool2d(map2, 4))
        map4 = self.block4(functional.avg_pool2d(map3, 4))
        coarse = tuple(
            reading(level)
            for reading, level in zip(self.readings[1:], (map2, map3, map4), strict=True)
        )
        # The finest level is large; a few rows at a time stay in the CPU cache.
        summed = torch.cat(
            [
                self.first_scores[0](self.readings[0](rows))
                for rows in map1.split(ROWS_AT_A_TIME, 2)
            ],
            2,
        )
        # Upsampling after the first layer of the score head gives the same as before it, with 8
        # channels instead of 32.
        for layer, level in zip(self.first_scores[1:], coarse, strict=True):
            summed += functional.interpolate(
                layer(level), padded.shape[2:], mode='bilinear', align_corners=True
            )
        scores = self.last_scores(summed)[0, 0, top : top + height, left : left + width]
        return Maps(
            finest=map1,
            coarse=coarse,
            scores=at_least_single(scores).sigmoid(),
            left=left,
            top=top,
        )

    def select(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best keypoints (N x 2) and their scores (N), given those of all pixels."""
        width = scores.shape[1]
        inner = slice(NMS_RADIUS, -NMS_RADIUS)
        peaks = torch.zeros_like(scores)
        peaks[inner, inner] = only_peaks(scores)[inner, inner]
        places = (peaks.flatten() > self.score_threshold).nonzero()[:, 0]
        best_first = peaks.flatten()[places].argsort(descending=True, stable=True)
        places = places[best_first[: self.max_keypoints]]
        pixels = torch.stack([places % width, places // width], 1)
        # Sub-pixel position: the mean of the pixels around, weighted by their scores.
        around = square(-NMS_RADIUS, NMS_RADIUS, scores)
        near = scores.flatten()[places[:, None] + around[:, 0] + width * around[:, 1]]
        weights = (near / SOFT_ARGMAX_TEMPERATURE).softmax(1)
        keypoints = pixels + (weights[:, :, None] * around).sum(1)
        keypoint_scores = sample(scores[None, None], keypoints)[:, 0]
        good = keypoint_scores > self.score_threshold
        return keypoints[good], keypoint_scores[good]

    def describe(self, maps: Maps, keypoints: Tensor) -> Tensor:
        """Return the unit descriptors (N x 128) of keypoints."""
        height, width = maps.scores.shape
        # The 3 x 3 pixels around each, shifted inwards at the right and lower edge.
        last = torch.tensor([width - 4, height - 4], device=keypoints.device)
        corners = (keypoints.long() - 1).clamp(min=0).minimum(last)
        patches = self.features_at(maps, (corners[:, None] + square(0, 2, keypoints)).view(-1, 2))
        farthest = max(height, width) / 4
        chosen = at_least_single(self.choose(patches.view(-1, 9 * WIDTH)))
        offsets = chosen.clamp(-farthest, farthest).view(-1, 2, SAMPLES).transpose(1, 2)
        places = (keypoints[:, None] + offsets).reshape(-1, 2)
        indices, shares = four_pixels(places, height, width)
        # Many positions share pixels, so the features of each pixel are computed once.
        is_seen = torch.zeros(height * width, dtype=torch.bool, device=indices.device)
        is_seen[indices] = True
        pixels = is_seen.nonzero()[:, 0]
        features = self.features_at(maps, torch.stack([pixels % width, pixels // width], 1))
        seen = weighted_rows(features, (is_seen.cumsum(0) - 1)[indices], shares)
        descriptors = self.mix(self.read(seen).view(-1, SAMPLES * WIDTH))
        return functional.normalize(at_least_single(descriptors), dim=1)

    def features_at(self, maps: Maps, pixels: Tensor) -> Tensor:
        """Return the unit feature vectors (N x 128) of pixels of the image (N x 2)."""
        pixels = pixels + pixels.new_tensor([maps.left, maps.top])
        height, width = maps.finest.shape[2:]
        finest = rows_of(maps.finest)[pixels[:, 1] * width + pixels[:, 0]]
        features = [self.readings[0](finest.T[None, :, :, None])[0, :, :, 0].T]
        for level in maps.coarse:
            level_height, level_width = level.shape[2:]
            scale = maps.scores.new_tensor(
                [(level_width - 1) / (width - 1), (level_height - 1) / (height - 1)]
            )
            features.append(sample(level, pixels * scale))
        return functional.normalize(torch.cat(features, 1), dim=1)


class PixelLayer(nn.Linear):
    """The same linear layer for each pixel of a map: a 1 x 1 convolution, but faster."""

    def forward(self, level: Tensor) -> Tensor:
        """Return the next map."""
        return super().forward(level.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """Two convolutions with a shortcut around them."""

    def __init__(self, kind: Callable[[int, int], nn.Module], inputs: int, outputs: int) -> None:
        """Create the layers."""
        super().__init__()
        self.first, self.second = kind(inputs, outputs), kind(outputs, outputs)
        self.shortcut = PixelLayer(inputs, outputs)

    def forward(self, level: Tensor) -> Tensor:
        """Return the next map."""
        beside = self.second(functional.selu(self.first(level), inplace=True))
        return functional.selu(beside + self.shortcut(level), inplace=True)


class DeformableConvolution(nn.Module):
    """A 3 x 3 convolution that learns for every pixel where to sample its nine inputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Create the layers."""
        super().__init__()
        self.offsets = convolution(inputs, 2 * 9)
        self.mix = nn.Linear(9 * inputs, outputs)

    def forward(self, level: Tensor) -> Tensor:
        """Return the next map."""
        _, _, height, width = level.shape
        farthest = max(height, width) / 4
        offsets = at_least_single(self.offsets(level)).clamp(-farthest, farthest)
        # Published as y and x for each of the nine.
        offsets = offsets[0].permute(1, 2, 0).reshape(height, width, 9, 2).flip(3)
        rows, columns = (torch.arange(size, device=level.device) for size in (height, width))
        centres = torch.cartesian_prod(rows, columns).flip(1).view(height, width, 1, 2)
        found = sample(level, (centres + square(-1, 1, level) + offsets).view(-1, 2))
        mixed = self.mix(found.view(height * width, -1))
        return mixed.view(1, height, width, -1).permute(0, 3, 1, 2)


def sample(level: Tensor, places: Tensor) -> Tensor:
    """Interpolate a map (1 x C x H x W) at sub-pixel positions (N x 2), as N x C.

    Beyond its edge it is zero.
    """
    return weighted_rows(rows_of(level), *four_pixels(places, *level.shape[2:]))


def weighted_rows(rows: Tensor, indices: Tensor, shares: Tensor) -> Tensor:
    """Return sums of rows (R x C) with the given indices (N x K), weighted by their shares."""
    shares = shares.to(rows.dtype)
    return functional.embedding_bag(indices, rows, per_sample_weights=shares, mode='sum')


def rows_of(level: Tensor) -> Tensor:
    """Return a map (1 x C x H x W) as rows (H * W x C)."""
    return level[0].permute(1, 2, 0).reshape(-1, level.shape[1])


def four_pixels(places: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the indices of the pixels around each position, and their shares: N x 4 each.

    Indices go row by row. Pixels beyond the edge have no share.
    """
    # Positions last: long rows are fastest.
    places = places.T.contiguous()
    pixels = places.floor().long() + square(0, 1, places)[:, :, None]
    last = torch.tensor([[width - 1], [height - 1]], device=places.device)
    inside = pixels.clamp(min=0).minimum(last)
    shares = (1 - (places - pixels).abs()) * (inside == pixels)
    indices = inside[:, 1] * width + inside[:, 0]
    return indices.T.contiguous(), shares.prod(1).T.contiguous()


def square(first: int, last: int, like: Tensor) -> Tensor:
    """Return the offsets (x and y) of all pixels of a square, row by row."""
    steps = torch.arange(first, last + 1, device=like.device)
    return torch.cartesian_prod(steps, steps).flip(1)


def only_peaks(scores: Tensor) -> Tensor:
    """Return the scores (H x W) with zeros where there is a better one nearby."""
    peaks = scores == best_nearby(scores)
    # A pixel may be worse than one that is not a peak itself: it gets a chance once that one is
    # suppressed.
    for _ in range(2):
        near_peak = best_nearby(peaks.to(scores.dtype)) > 0
        rest = scores.masked_fill(near_peak, 0)
        peaks = peaks | ((rest == best_nearby(rest)) & ~near_peak)
    return scores * peaks


def best_nearby(values: Tensor) -> Tensor:
    """Return for each pixel (H x W, not negative) the largest value within the radius."""
    for dimension in (0, 1):
        size = values.shape[dimension]
        ends = (0, 0, NMS_RADIUS, NMS_RADIUS) if dimension == 0 else (NMS_RADIUS, NMS_RADIUS)
        # Windows of two, four and then five pixels: max pooling would read each pixel five times.
        wide = functional.pad(values, ends)
        two = wide.narrow(dimension, 0, size + 3).maximum(wide.narrow(dimension, 1, size + 3))
        four = two.narrow(dimension, 0, size).maximum(two.narrow(dimension, 2, size))
        values = four.maximum(wide.narrow(dimension, 4, size))
    return values


def rearranged(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return published weights with the names and layouts of this ALIKED.

    Batch normalisation is folded into the convolution before it.
    """
    state = {}
    for number in range(1, 5):
        block = f'block{number}'
        for turn, place in ((1, 'first'), (2, 'second')):
            kernel = 'weight' if number < 3 else 'regular_conv.weight'
            weight = published[f'{block}.conv{turn}.{kernel}']
            norm = {
                part: published[f'{block}.bn{turn}.{part}']
                for part in ('weight', 'bias', 'running_mean', 'running_var')
            }
            gain = norm['weight'] / (norm['running_var'] + 1e-5).sqrt()
            weight = weight * gain[:, None, None, None]
            bias = norm['bias'] - norm['running_mean'] * gain
            if number == 1:
                place = '0' if turn == 1 else '2'
            if number >= 3:
                for kind in ('weight', 'bias'):
                    entry = published[f'{block}.conv{turn}.offset_conv.{kind}']
                    state[f'{block}.{place}.offsets.{kind}'] = entry
                place = f'{place}.mix'
                weight = weight.permute(0, 2, 3, 1).flatten(1)
            state[f'{block}.{place}.weight'], state[f'{block}.{place}.bias'] = weight, bias
        if number > 1:
            for kind in ('weight', 'bias'):
                entry = published[f'{block}.downsample.{kind}']
                state[f'{block}.shortcut.{kind}'] = entry.view(entry.shape[:2])
        state[f'readings.{number - 1}.0.weight'] = published[f'conv{number}.weight'].flatten(1)
    for number, part in enumerate(published['score_head.0.weight'].chunk(4, 1)):
        state[f'first_scores.{number}.weight'] = part.flatten(1)
    for number in (2, 4, 6):
        state[f'last_scores.{number - 1}.weight'] = published[f'score_head.{number}.weight']
    head = 'desc_head'
    patch = published[f'{head}.offset_conv.0.weight']
    state['choose.0.weight'] = patch.permute(0, 2, 3, 1).flatten(1)
    state['choose.0.bias'] = published[f'{head}.offset_conv.0.bias']
    state['choose.2.weight'] = published[f'{head}.offset_conv.2.weight'].flatten(1)
    state['choose.2.bias'] = published[f'{head}.offset_conv.2.bias']
    state['read.0.weight'] = published[f'{head}.sf_conv.weight'].flatten(1)
    state['mix.weight'] = published[f'{head}.agg_weights'].flatten(0, 1).T
    return state
