"""Where in an image something looks most like a reference: its features, slid as one filter.

No detector and no label is needed. Each part of the reference may have moved a little within the
region, because two objects of a kind differ in their proportions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Offer:
    """Where a detector sees an object of the label of the reference."""

    area: Area  # with as much margin as in the reference
    score: float  # of the detector
    whole: bool = (
        True  # whether the reference shows all of its object: only then the area is right
    )


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
    backbone: Backbone,
    filters: Sequence[Filter],
    image: np.ndarray,
    count: int,
    offered: Sequence[Area] = (),
) -> list[Region]:
    """Return the places in an RGB image that look most like the reference, the best one first.

    If any are offered, only they are compared.
    """
    whole = Area.of_box(Box.around(image))
    maps = [
        ScoreMap(each, features[each.stride], whole)
        for side in DEFAULTS.image_sides
        for features in [maps_of(backbone, image, whole, side)]
        for each in filters
        if fits(each, features[each.stride])
    ]
    if offered and maps:
        found = [region_at(maps, area) for area in offered]
    else:
        found = [region for each in maps for region in each.best()]
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


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """How well a reference of one size fits each place of an image, by its top left cell."""

    part: Filter
    features: Tensor  # of the image: D x rows x columns
    whole: Area

    @cached_property
    def scores(self) -> Tensor:
        """Return the scores (rows x columns), computed on first use."""
        return slid(self.part.cells, self.features, *self._beyond)

    def best(self) -> list[Region]:
        """Return where the reference fits best."""
        highest = functional.max_pool2d(self.scores[None], 3, stride=1, padding=1)[0]
        peaks = torch.where(self.scores == highest, self.scores, -torch.inf).flatten()
        best, places = peaks.topk(min(DEFAULTS.peaks, len(peaks)))
        return [
            self._region(self.area_at(*divmod(place, self.scores.shape[1])), score)
            for score, place in zip(best.tolist(), places.tolist(), strict=True)
        ]

    def near(self, area: Area) -> Region:
        """Return an area with the best score of the places that are most like it."""
        row, column = self.nearest(area)
        around = self.scores[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        return self._region(area, float(around.max()))

    def area_at(self, row: int, column: int) -> Area:
        """Return what the reference covers at a place."""
        (across, down), (beyond_y, beyond_x) = self._step, self._beyond
        rows, columns = self.part.cells.shape[1:]
        left = self.whole.left + (column - beyond_x) * across
        top = self.whole.top + (row - beyond_y) * down
        return Area(left, top, left + columns * across, top + rows * down)

    def nearest(self, area: Area) -> tuple[int, int]:
        """Return the row and column of the place that is nearest to an area."""
        (across, down), first = self._step, self.area_at(0, 0)
        column = round((area.left + area.right - first.left - first.right) / 2 / across)
        row = round((area.top + area.bottom - first.top - first.bottom) / 2 / down)
        last_row, last_column = (
            max(0, there + 2 * beyond - here)
            for there, beyond, here in zip(
                self.features.shape[1:], self._beyond, self.part.cells.shape[1:], strict=True
            )
        )
        return min(max(row, 0), last_row), min(max(column, 0), last_column)

    def _region(self, area: Area, score: float) -> Region:
        size = max(area.width, area.height) / max(self.whole.width, self.whole.height)
        return Region(area, score + DEFAULTS.size_bonus * math.log2(size))

    @property
    def _beyond(self) -> tuple[int, int]:
        """Return how many rows and columns of the reference may lie beyond the image."""
        rows, columns = self.part.cells.shape[1:]
        return int(rows * DEFAULTS.overhang), int(columns * DEFAULTS.overhang)

    @property
    def _step(self) -> tuple[float, float]:
        """Return the width and height of a cell in pixels of the image."""
        return (
            self.whole.width / self.features.shape[2],
            self.whole.height / self.features.shape[1],
        )


def region_at(maps: Sequence[ScoreMap], area: Area) -> Region:
    """Return an area with the score of the place and size that are most like it."""
    closest = max(maps, key=lambda each: overlap(each.area_at(*each.nearest(area)), area))
    return closest.near(area)


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
