"""What the detectors of the YOLO family have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from niom_ros.semantics.cam import cells_of, CLOSED_FORM, library_cam, load_library
from niom_ros.semantics.detectors.grid_detector import (
    Candidate,
    corners_of,
    DetectorOptions,
    GridDetector,
    Letterbox,
    Level,
    Look,
)

FIRST_CLASS = 5  # of the numbers for an anchor: x, y, width, height, whether there is an object


Anchors = Sequence[tuple[float, float]]
"""Widths and heights in pixels of the input."""

Growth = Callable[[torch.Tensor], torch.Tensor]
"""From raw sizes to multiples of the anchor."""


def squared_growth(raw: torch.Tensor) -> torch.Tensor:
    """Return how many times as large as its anchor an object is, at most 4: since YOLOv5."""
    return (2 * raw.sigmoid()) ** 2


def anchored_boxes(
    raw: torch.Tensor, anchors: Anchors, stretch: float, growth: Growth, input_width: int
) -> torch.Tensor:
    """Return the boxes (A x h x w x 4) of raw outputs (A x numbers x h x w), x and y first.

    `stretch` tells how far beyond its cell an object's centre may lie.
    """
    rows, columns = raw.shape[-2:]
    cell_x = torch.arange(columns, device=raw.device)
    cell_y = torch.arange(rows, device=raw.device)[:, None]
    x, y = (raw[:, :2].sigmoid() * stretch - (stretch - 1) / 2).unbind(1)
    centres = torch.stack((x + cell_x, y + cell_y), dim=-1) * (input_width / columns)
    sizes = growth(raw[:, 2:4]) * raw.new_tensor(anchors)[:, :, None, None]
    return corners_of(centres, sizes.permute(0, 2, 3, 1))


@dataclass(frozen=True)
class YoloHead:
    """The end of one level: a 1x1 convolution, and how to read what it says."""

    entering: nn.Module  # the layer whose output enters the convolution
    convolution: nn.Conv2d
    anchors: Anchors
    classes: int
    stretch: float  # how far beyond its cell an object's centre may lie
    growth: Growth

    @property
    def numbers(self) -> int:
        """Return how many channels belong to each anchor; some networks end with more of them."""
        return self.convolution.out_channels // len(self.anchors)

    @property
    def classes_of_anchor(self) -> slice:
        """Return which channels of an anchor are the scores of the classes."""
        return slice(FIRST_CLASS, FIRST_CLASS + self.classes)

    def channel(self, anchor: int, class_index: int) -> int:
        """Return the channel of the convolution that scores a class."""
        return anchor * self.numbers + FIRST_CLASS + class_index

    def decode(self, output: torch.Tensor, input_width: int) -> Level:
        """Read the raw output of the convolution (channels x h x w)."""
        raw = output.view(len(self.anchors), self.numbers, *output.shape[-2:]).float()
        boxes = anchored_boxes(raw, self.anchors, self.stretch, self.growth, input_width)
        class_scores = raw[:, self.classes_of_anchor]
        scores = raw[:, 4:5].sigmoid() * class_scores.sigmoid()
        return Level(boxes, scores, class_scores - self.class_bias)

    @property
    def class_bias(self) -> torch.Tensor:
        """Return what the convolution adds to the scores of the classes (A x C x 1 x 1)."""
        bias = self.convolution.bias
        assert bias is not None
        bias = bias.view(len(self.anchors), self.numbers, 1, 1)
        return bias[:, self.classes_of_anchor]


class TorchDetector(GridDetector):
    """A detector whose network runs in torch, so that every method of heat maps works."""

    def __init__(
        self,
        name: str,
        network: nn.Module,
        labels: tuple[str, ...],
        side: int,
        multiple: int,
        options: DetectorOptions,
        device: torch.device,
    ) -> None:
        """Take a network, its classes, the longer side of its input and what divides both.

        The network gives one tensor for each level (1 x channels x h x w).
        """
        super().__init__(options, device)
        if options.cam != CLOSED_FORM:
            load_library(options.cam)  # if it is missing, that is said now, not at every image
        self.name = name
        self.labels = labels
        self.network = network.eval().requires_grad_(False).to(device)
        self._side = side
        self._multiple = multiple

    def letterbox(self, width: int, height: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        return Letterbox.fit(width, height, self._side, self._multiple)

    def score_of(self, candidate: Candidate) -> tuple[nn.Module, int]:
        """Return the layer that enters an object's last convolution, and its class's channel."""
        raise NotImplementedError

    def evidence(self, look: Look, candidate: Candidate, pixels: torch.Tensor) -> torch.Tensor:
        """Return the evidence for an object in each cell of its grid (h x w)."""
        if self.options.cam == CLOSED_FORM:
            return super().evidence(look, candidate, pixels)
        layer, channel = self.score_of(candidate)
        rows, columns = look.levels[candidate.level].scores.shape[-2:]
        return library_cam(
            self.options.cam,
            self.network,
            layer,
            candidate.level,
            channel,
            pixels,
            cells_of(candidate.input_area, rows, columns, pixels.shape[-2:]),
        )


class YoloNetwork(nn.Module):
    """A network that ends in one or more heads."""

    heads: list[YoloHead]

    def answer(self, pixels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the raw output of every head, and how each place looks (both 1 x D x h x w)."""
        raise NotImplementedError

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the raw output of every head."""
        return self.answer(pixels)[0]


class YoloDetector(TorchDetector):
    """Detects with a YOLO that has anchors."""

    network: YoloNetwork

    def look(self, pixels: torch.Tensor) -> Look:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        outputs, features = self.network.answer(pixels)
        levels = tuple(
            head.decode(output[0], pixels.shape[-1])
            for head, output in zip(self.network.heads, outputs, strict=True)
        )
        return Look(levels, features[0])

    def score_of(self, candidate: Candidate) -> tuple[nn.Module, int]:
        """Return the layer that enters an object's last convolution, and its class's channel."""
        head = self.network.heads[candidate.level]
        return head.entering, head.channel(candidate.anchor, candidate.class_index)
