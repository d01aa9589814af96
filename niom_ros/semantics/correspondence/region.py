"""Where in an image something looks most like a reference: its features, slid as one filter.

No detector and no label is needed. Each part of the reference may have moved a little within the
region, because two objects of a kind differ in their proportions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from niom_ros.core.boxes import Box
from niom_ros.semantics.correspondence.features import Backbone, descriptors, rounded
from niom_ros.semantics.heat_maps import Area, overlap


@dataclass(frozen=True)
class RegionParameters:
    """At which sizes reference and image are compared, and what is preferred."""

    image_sides: tuple[int, ...] = (320, 640)  # pixels, the longer side
    reference_sides: tuple[int, ...] = (64, 96, 128, 192, 256, 320)
    fine_up_to: int = 128  # pixels of the reference: for these, cells are fine
    fine_cell: int = 8  # pixels
    coarse_cell: int = 16
    min_filter_side: int = 32  # pixels of the reference
    slack: int = 1  # cells by which a part may have moved
    size_bonus: float = 0.04  # for twice the size: small windows fit anything
    overhang: float = 1 / 3  # of the region, that may lie beyond the image
    max_filter: float = 1.15  # size of the reference relative to that of the image
    peaks: int = 6  # places that are compared, for each size
    max_overlap: float = 0.5  # of two regions, intersection over union


DEFAULTS = RegionParameters()


@dataclass(frozen=True)
class Filter:
    """The features of a reference at one size."""

    cells: Tensor  # D x rows x columns
    stride: int  # pixels of a cell
    width: float  # pixels of the reference at this size
    height: float


@dataclass(frozen=True)
class Region:
    """Where something looks like the reference."""

    area: Area
    score: float  # mean cosine of the parts, with the bonus for its size


def filters_of(backbone: Backbone, image: np.ndarray, area: Area) -> tuple[Filter, ...]:
    """Return the features of a reference at all sizes."""
    return tuple(filter_of(backbone, image, area, side) for side in DEFAULTS.reference_sides)


def filter_of(backbone: Backbone, image: np.ndarray, area: Area, side: int) -> Filter:
    """Return the features of a reference whose longer side is seen at this many pixels."""
    scale = side / max(area.width, area.height)
    width, height = area.width * scale, area.height * scale
    least = DEFAULTS.min_filter_side
    layers = backbone.see(image, area, (rounded(height, least), rounded(width, least)))
    stride = DEFAULTS.fine_cell if side <= DEFAULTS.fine_up_to else DEFAULTS.coarse_cell
    cells = max(2, round(height / stride)), max(2, round(width / stride))
    return Filter(descriptors(layers, cells), stride, width, height)


def find_regions(
    backbone: Backbone, filters: Sequence[Filter], image: np.ndarray, count: int
) -> list[Region]:
    """Return the places in an RGB image that look most like the reference, the best one first."""
    whole = Area.of_box(Box.around(image))
    found = [
        region
        for side in DEFAULTS.image_sides
        for maps in [maps_of(backbone, image, whole, side)]
        for each in filters
        if fits(each, maps[each.stride])
        for region in regions_of(each, maps[each.stride], whole)
    ]
    chosen: list[Region] = []
    for region in sorted(found, key=lambda region: -region.score):
        if len(chosen) == count:
            break
        if all(overlap(region.area, other.area) < DEFAULTS.max_overlap for other in chosen):
            chosen.append(region)
    return chosen or [Region(whole, 0.0)]


def maps_of(backbone: Backbone, image: np.ndarray, whole: Area, side: int) -> dict[int, Tensor]:
    """Return the features of an image, by the size of the cells."""
    scale = side / max(whole.width, whole.height)
    size = rounded(whole.height * scale), rounded(whole.width * scale)
    layers = backbone.see(image, whole, size)
    return {
        stride: descriptors(layers, (size[0] // stride, size[1] // stride))
        for stride in (DEFAULTS.fine_cell, DEFAULTS.coarse_cell)
    }


def fits(part: Filter, features: Tensor) -> bool:
    """Return whether the reference, at its size, is not much larger than the image."""
    rows, columns = (cells * part.stride for cells in features.shape[1:])
    return (
        part.height <= DEFAULTS.max_filter * rows and part.width <= DEFAULTS.max_filter * columns
    )


def regions_of(part: Filter, features: Tensor, whole: Area) -> list[Region]:
    """Return where a filter fits the features of an image best."""
    rows, columns = part.cells.shape[1:]
    beyond_y, beyond_x = int(rows * DEFAULTS.overhang), int(columns * DEFAULTS.overhang)
    scores = slid(part.cells, features, beyond_y, beyond_x)
    highest = functional.max_pool2d(scores[None], 3, stride=1, padding=1)[0]
    peaks = torch.where(scores == highest, scores, -torch.inf).flatten()
    best, places = peaks.topk(min(DEFAULTS.peaks, len(peaks)))
    across, down = whole.width / features.shape[2], whole.height / features.shape[1]
    regions = []
    for score, place in zip(best.tolist(), places.tolist(), strict=True):
        row, column = divmod(place, scores.shape[1])
        left, top = whole.left + (column - beyond_x) * across, whole.top + (row - beyond_y) * down
        area = Area(left, top, left + columns * across, top + rows * down)
        relative = max(area.width, area.height) / max(whole.width, whole.height)
        regions.append(Region(area, score + DEFAULTS.size_bonus * math.log2(relative)))
    return regions


def slid(cells: Tensor, features: Tensor, beyond_y: int, beyond_x: int) -> Tensor:
    """Return, for each place, the mean over a filter of the best cosine near each cell."""
    rows, columns = cells.shape[1:]
    cosine = (cells.flatten(1).T @ features.flatten(1)).view(-1, *features.shape[1:])
    slack = DEFAULTS.slack
    cosine = functional.max_pool2d(cosine, 2 * slack + 1, stride=1, padding=slack)
    cosine = functional.pad(cosine, (beyond_x, beyond_x, beyond_y, beyond_y))
    height, width = cosine.shape[1] - rows + 1, cosine.shape[2] - columns + 1
    total = torch.zeros(max(1, height), max(1, width), device=cosine.device)
    if height < 1 or width < 1:
        return total
    for row in range(rows):
        for column in range(columns):
            near = cosine[row * columns + column]
            total += near[row : row + height, column : column + width]
    return total / (rows * columns)


def grown(area: Area, factor: float) -> Area:
    """Return an area enlarged about its centre."""
    across, down = (factor - 1) / 2 * area.width, (factor - 1) / 2 * area.height
    return Area(area.left - across, area.top - down, area.right + across, area.bottom + down)
