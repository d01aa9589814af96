"""The interface of detectors, and the common part of those that predict on grids."""

from dataclasses import dataclass
import math
from threading import Lock
from typing import Protocol, runtime_checkable

import cv2
import numpy as np
import torch

from niom_ros.core.settings import Settings
from niom_ros.models.plugins import Plugin
from niom_ros.semantics.cam import CLOSED_FORM
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.objects import SeenObject


@dataclass(frozen=True)
class GridParameters:
    """Which boxes are reported, and how finely features are averaged over them."""

    max_objects: int = 20
    nms_iou: float = 0.45  # boxes of one class that overlap more than this are one object
    sample_step: int = 4  # samples in each direction of a box are a multiple
    max_sample_steps: int = 1000  # the size of a box is unbounded


DEFAULTS = GridParameters()


@runtime_checkable
class Detector(Protocol):
    """Finds objects in images."""

    name: str

    def detect(self, image: np.ndarray) -> tuple[SeenObject, ...]:
        """Return the objects of an RGB image (height x width x 3, uint8), best score first."""


@dataclass(frozen=True, kw_only=True)
class DetectorPlugin(Plugin[Detector | None]):
    """A detector. If it takes detector_path, that is required."""

    makes = Detector | None


@dataclass(frozen=True)
class DetectorOptions:
    """The options that every detector has."""

    threshold: float = 0.25  # objects that score lower are dropped
    cam: str = CLOSED_FORM  # how heat maps are made
    gated: bool = True  # whether a heat map ends at its object's box

    @classmethod
    def of(cls, settings: Settings) -> 'DetectorOptions':
        """Return the options from the settings."""
        return cls(settings.detector_threshold, settings.cam, settings.gate_heat)


@dataclass(frozen=True)
class Level:
    """The output of a detector on one of its grids, before any threshold."""

    boxes: torch.Tensor  # A x h x w x 4: left, top, right, bottom, in pixels of the input
    scores: torch.Tensor  # A x C x h x w, 0 to 1
    evidence: torch.Tensor  # A x C x h x w: of each cell for each class; may be negative


@dataclass(frozen=True)
class NetworkOutput:
    """The decoded output of a network for one image."""

    levels: tuple[Level, ...]
    features: torch.Tensor | None = None  # D x h x w, to compare how objects look


@dataclass(frozen=True)
class Candidate:
    """An object and its place in the network's output."""

    level: int
    anchor: int
    class_index: int
    score: float
    input_area: Area  # edges in pixels of the input, 0 at its left and upper edge


@dataclass(frozen=True, kw_only=True)
class Letterbox:
    """How an image is fitted into a network's input: scaled, then padded on all sides."""

    image_width: int
    image_height: int
    width: int  # of the scaled image
    height: int
    left: int  # padding
    top: int
    input_width: int
    input_height: int

    @classmethod
    def fit(cls, width: int, height: int, side: int, multiple: int) -> 'Letterbox':
        """Scale so that the longer side is `side`, and pad both to multiples."""
        scale = side / max(width, height)
        new_width, new_height = (max(1, round(length * scale)) for length in (width, height))
        input_width, input_height = (
            -(-length // multiple) * multiple for length in (new_width, new_height)
        )
        return cls.centred((width, height), (new_width, new_height), (input_width, input_height))

    @classmethod
    def fit_exactly(
        cls, width: int, height: int, input_width: int, input_height: int
    ) -> 'Letterbox':
        """Scale and pad to an input whose size is fixed."""
        scale = min(input_width / width, input_height / height)
        new_width, new_height = (max(1, round(length * scale)) for length in (width, height))
        return cls.centred((width, height), (new_width, new_height), (input_width, input_height))

    @classmethod
    def centred(
        cls, image: tuple[int, int], scaled: tuple[int, int], network_input: tuple[int, int]
    ) -> 'Letterbox':
        """Put the scaled image in the middle of the input; sizes are widths and heights."""
        return cls(
            image_width=image[0],
            image_height=image[1],
            width=scaled[0],
            height=scaled[1],
            left=(network_input[0] - scaled[0]) // 2,
            top=(network_input[1] - scaled[1]) // 2,
            input_width=network_input[0],
            input_height=network_input[1],
        )

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return the image as the network's input (height x width x 3, uint8)."""
        method = cv2.INTER_AREA if self.width < self.image_width else cv2.INTER_LINEAR
        scaled = cv2.resize(image, (self.width, self.height), interpolation=method)
        fitted = np.full((self.input_height, self.input_width, 3), 114, np.uint8)
        fitted[self.top : self.top + self.height, self.left : self.left + self.width] = scaled
        return fitted

    def frame(self, rows: int, columns: int) -> GridFrame:
        """Return how a grid over the whole input lies on the image."""
        cells_x = columns / self.input_width
        cells_y = rows / self.input_height
        scale_x = self.width / self.image_width
        scale_y = self.height / self.image_height
        return GridFrame(
            width=self.image_width,
            height=self.image_height,
            scale_x=scale_x * cells_x,
            scale_y=scale_y * cells_y,
            shift_x=(scale_x / 2 + self.left) * cells_x - 0.5,
            shift_y=(scale_y / 2 + self.top) * cells_y - 0.5,
        )

    def to_image(self, area: Area) -> Area:
        """Return an area of the input in pixels of the image, clipped to it."""
        scale_x = self.width / self.image_width
        scale_y = self.height / self.image_height
        return Area(
            (area.left - self.left) / scale_x - 0.5,
            (area.top - self.top) / scale_y - 0.5,
            (area.right - self.left) / scale_x - 0.5,
            (area.bottom - self.top) / scale_y - 0.5,
        ).within(self.image_width, self.image_height)


class GridDetector:
    """A detector whose network predicts on grids of cells. Subclasses run the network."""

    name: str
    labels: tuple[str, ...]

    def __init__(self, options: DetectorOptions, device: torch.device) -> None:
        """Keep what is the same for every image."""
        self.options = options
        self.device = device
        self._lock = Lock()

    def letterbox(self, width: int, height: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        raise NotImplementedError

    def run_network(self, pixels: torch.Tensor) -> NetworkOutput:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        raise NotImplementedError

    def evidence(
        self, output: NetworkOutput, candidate: Candidate, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Return the evidence for an object in each cell of its grid (h x w)."""
        return output.levels[candidate.level].evidence[candidate.anchor, candidate.class_index]

    @torch.no_grad()
    def detect(self, image: np.ndarray) -> tuple[SeenObject, ...]:
        """Return the objects of an RGB image (height x width x 3, uint8), best score first."""
        # Some networks are read by hooks while they run, which must not see a second thread.
        with self._lock:
            return self._detect(image)

    def _detect(self, image: np.ndarray) -> tuple[SeenObject, ...]:
        height, width = image.shape[:2]
        letterbox = self.letterbox(width, height)
        fitted = torch.from_numpy(letterbox.apply(image)).to(self.device)
        pixels = fitted.permute(2, 0, 1)[None].float() / 255
        output = self.run_network(pixels)
        candidates = best_candidates(output.levels, self.options.threshold)
        features = object_features(output.features, candidates, letterbox)
        seen = []
        for candidate, feature in zip(candidates, features, strict=True):
            area = letterbox.to_image(candidate.input_area)
            if area.width <= 0 or area.height <= 0:
                continue  # it lies in the padding
            grid = self.evidence(output, candidate, pixels)
            gate = area if self.options.gated else None
            heat = HeatMap.of_grid(grid, letterbox.frame(*grid.shape), gate)
            label = self.labels[candidate.class_index]
            seen.append(
                SeenObject(
                    label=label, score=candidate.score, area=area, heat=heat, feature=feature
                )
            )
        return tuple(seen)


def corners_of(centres: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Turn centres and sizes (... x 2) into left, top, right and bottom (... x 4)."""
    return torch.cat((centres - sizes / 2, centres + sizes / 2), dim=-1)


def best_candidates(levels: tuple[Level, ...], threshold: float) -> list[Candidate]:
    """Return the objects that score above the threshold, each once, best first."""
    scores, classes, boxes, places = [], [], [], []
    for number, level in enumerate(levels):
        best, best_class = level.scores.max(dim=1)  # A x h x w
        sure = best > threshold
        anchors = torch.arange(len(best), device=best.device)[:, None, None].expand_as(best)
        scores.append(best[sure])
        classes.append(best_class[sure])
        boxes.append(level.boxes[sure])
        places.append(torch.stack((torch.full_like(anchors, number)[sure], anchors[sure]), -1))
    all_scores, all_boxes = torch.cat(scores).float().cpu(), torch.cat(boxes).float().cpu()
    all_classes, all_places = torch.cat(classes).cpu(), torch.cat(places).cpu()
    kept = distinct(all_boxes, all_scores, all_classes)
    return [
        Candidate(
            level=level,
            anchor=anchor,
            class_index=class_index,
            score=score,
            input_area=Area(*box),
        )
        for (level, anchor), class_index, score, box in zip(
            all_places[kept].tolist(),
            all_classes[kept].tolist(),
            all_scores[kept].tolist(),
            all_boxes[kept].tolist(),
            strict=True,
        )
    ]


def distinct(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> list[int]:
    """Return the indices of the best boxes (N x 4), best first, without duplicates in a class.

    Greedy non-maximum suppression, as in torchvision.ops.batched_nms, which takes seconds to
    import.
    """
    finite = torch.isfinite(boxes).all(dim=1) & torch.isfinite(scores)
    left = torch.where(finite, scores, -torch.inf)
    sizes = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    kept: list[int] = []
    while len(kept) < DEFAULTS.max_objects and len(left):
        best = int(left.argmax())
        if left[best] == -torch.inf:
            break
        kept.append(best)
        corners = torch.minimum(boxes[:, 2:], boxes[best, 2:])
        common = (corners - torch.maximum(boxes[:, :2], boxes[best, :2])).clamp(min=0).prod(dim=1)
        overlap = common / (sizes + sizes[best] - common)
        left[(overlap > DEFAULTS.nms_iou) & (classes == classes[best])] = -torch.inf
        left[best] = -torch.inf
    return kept


def object_features(
    features: torch.Tensor | None, candidates: list[Candidate], letterbox: Letterbox
) -> list[torch.Tensor | None]:
    """Return a unit vector for each object: the mean of the features in its box."""
    if features is None or not candidates:
        return [None] * len(candidates)
    scale = features.shape[-1] / letterbox.input_width
    areas = [candidate.input_area for candidate in candidates]
    _, height, width = features.shape
    rows = torch.stack([shares(scale * a.top, scale * a.bottom, height) for a in areas])
    columns = torch.stack([shares(scale * a.left, scale * a.right, width) for a in areas])
    means = torch.einsum('dhw,nh,nw->nd', features, rows.to(features), columns.to(features))
    # Channels that are strong everywhere in the image do not distinguish its objects.
    return list(torch.nn.functional.normalize(means - features.mean(dim=(1, 2)), dim=1))


def shares(start: float, end: float, length: int) -> torch.Tensor:
    """Return the weight of each cell in the mean over an interval.

    As in torchvision.ops.roi_align: samples are spread evenly, about one for each cell, and
    interpolate between cells; those outside count as zero.
    """
    steps = math.ceil((end - start) / DEFAULTS.sample_step)
    count = DEFAULTS.sample_step * min(DEFAULTS.max_sample_steps, max(1, steps))
    places = start - 0.5 + (torch.arange(count) + 0.5) * (end - start) / count
    inside = (places >= -1) & (places <= length)
    distances = places.clamp(0, length - 1)[:, None] - torch.arange(length)
    return ((1 - distances.abs()).clamp(min=0) * inside[:, None]).mean(dim=0)
