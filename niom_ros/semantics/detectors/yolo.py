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
    NetworkOutput,
)

COARSEST_STRIDE = 32  # pixels of the input; divides its sides
FIRST_CLASS = 5  # channel of an anchor; those before are x, y, width, height and objectness


Anchors = Sequence[tuple[float, float]]
"""Widths and heights in pixels of the input."""

Growth = Callable[[torch.Tensor], torch.Tensor]
"""From raw sizes to multiples of the anchor."""


def squared_growth(raw: torch.Tensor) -> torch.Tensor:
    """Return the size of an object as a multiple of its anchor, at most 4; since YOLOv5."""
    return (2 * raw.sigmoid()) ** 2


def anchored_boxes(
    raw: torch.Tensor, anchors: Anchors, stretch: float, growth: Growth, input_width: int
) -> torch.Tensor:
    """Return the boxes (A x h x w x 4) of raw outputs (A x numbers x h x w), x and y first.

    `stretch` says how far beyond its cell the centre of an object may lie.
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
    """The end of one level: a 1x1 convolution, and how to decode its output."""

    entering: nn.Module  # the layer whose output enters the convolution
    convolution: nn.Conv2d
    anchors: Anchors
    classes: int
    stretch: float  # how far beyond its cell the centre of an object may lie
    growth: Growth

    @property
    def numbers(self) -> int:
        """Return the number of channels per anchor; some networks have extra ones at the end."""
        return self.convolution.out_channels // len(self.anchors)

    @property
    def classes_of_anchor(self) -> slice:
        """Return the channels of an anchor that score classes."""
        return slice(FIRST_CLASS, FIRST_CLASS + self.classes)

    def channel(self, anchor: int, class_index: int) -> int:
        """Return the channel of the convolution that scores a class."""
        return anchor * self.numbers + FIRST_CLASS + class_index

    def decode(self, output: torch.Tensor, input_width: int) -> Level:
        """Decode the raw output of the convolution (channels x h x w)."""
        raw = output.view(len(self.anchors), self.numbers, *output.shape[-2:]).float()
        boxes = anchored_boxes(raw, self.anchors, self.stretch, self.growth, input_width)
        class_scores = raw[:, self.classes_of_anchor]
        scores = raw[:, 4:5].sigmoid() * class_scores.sigmoid()
        return Level(boxes, scores, class_scores - self.class_bias)

    @property
    def class_bias(self) -> torch.Tensor:
        """Return the bias of the class scores (A x C x 1 x 1)."""
        bias = self.convolution.bias
        assert bias is not None
        bias = bias.view(len(self.anchors), self.numbers, 1, 1)
        return bias[:, self.classes_of_anchor]


class TorchDetector(GridDetector):
    """A detector whose network runs in torch, so that every heat map method works."""

    def __init__(
        self,
        *,
        name: str,
        network: nn.Module,
        labels: tuple[str, ...],
        side: int,
        multiple: int,
        options: DetectorOptions,
        device: torch.device,
    ) -> None:
        """Use a network; `side` is the longer side of its input, `multiple` divides both sides.

        The network returns one tensor for each level (1 x channels x h x w).
        """
        super().__init__(options, device)
        if options.cam != CLOSED_FORM:
            load_library(options.cam)  # so that a missing library shows now, not at every image
        self.name = name
        self.labels = labels
        self.network = network.eval().requires_grad_(False).to(device)
        self._side = side
        self._multiple = multiple

    def letterbox(self, width: int, height: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        return Letterbox.fit(width, height, self._side, self._multiple)

    def score_of(self, candidate: Candidate) -> tuple[nn.Module, int]:
        """Return the layer before an object's last convolution, and the channel of its class."""
        raise NotImplementedError

    def evidence(
        self, output: NetworkOutput, candidate: Candidate, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Return the evidence for an object in each cell of its grid (h x w)."""
        if self.options.cam == CLOSED_FORM:
            return super().evidence(output, candidate, pixels)
        layer, channel = self.score_of(candidate)
        rows, columns = output.levels[candidate.level].scores.shape[-2:]
        return library_cam(
            method=self.options.cam,
            network=self.network,
            layer=layer,
            level=candidate.level,
            channel=channel,
            pixels=pixels,
            cells=cells_of(candidate.input_area, rows, columns, pixels.shape[-2:]),
        )


class YoloNetwork(nn.Module):
    """A network that ends in one or more heads."""

    heads: list[YoloHead]

    def outputs(self, pixels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the raw output of every head, and a feature map (all 1 x D x h x w)."""
        raise NotImplementedError

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the raw output of every head."""
        return self.outputs(pixels)[0]


class YoloDetector(TorchDetector):
    """A YOLO with anchors."""

    network: YoloNetwork

    def __init__(
        self,
        name: str,
        network: YoloNetwork,
        labels: tuple[str, ...],
        side: int,
        options: DetectorOptions,
        device: torch.device,
    ) -> None:
        """Use a network; `side` is the longer side of its input."""
        super().__init__(
            name=name,
            network=network,
            labels=labels,
            side=side,
            multiple=COARSEST_STRIDE,
            options=options,
            device=device,
        )

    def run_network(self, pixels: torch.Tensor) -> NetworkOutput:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        outputs, features = self.network.outputs(pixels)
        levels = tuple(
            head.decode(output[0], pixels.shape[-1])
            for head, output in zip(self.network.heads, outputs, strict=True)
        )
        return NetworkOutput(levels, features[0])

    def score_of(self, candidate: Candidate) -> tuple[nn.Module, int]:
        """Return the layer before an object's last convolution, and the channel of its class."""
        head = self.network.heads[candidate.level]
        return head.entering, head.channel(candidate.anchor, candidate.class_index)
