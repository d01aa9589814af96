"""The field from the parts of a reference to those of an image, and points carried by it.

Every pair of cells is as likely as its features are similar, if it is among the best for both of
its cells, if its neighbours move alike, and if many others move like it (Hough votes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
import math
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from niom_ros.semantics.correspondence.features import (
    Backbone,
    descriptors,
    Impression,
    PartFeatures,
    rounded,
)
from niom_ros.semantics.correspondence.object_cells import object_cells
from niom_ros.semantics.correspondence.region import (
    Filter,
    filters_of,
    find_regions,
    grown,
    Offer,
    Region,
)
from niom_ros.semantics.heat_maps import Area, overlap


@dataclass(frozen=True)
class FieldParameters:
    """How fine the field is, and how it is regularised."""

    cells: int = 24  # of the field, on each side
    object_side: int = 320  # pixels at which the networks see the object,
    glance_side: int = 160  # and at which one of them compares the regions
    margin: float = 1.4  # side of a reference relative to that of the object in it
    growth: float = 1.15  # of the region, so that no part is cut off
    temperature: float = 0.04  # of the likelihoods, in cosines
    agreement: float = 1.0  # cells, how far neighbours count that move alike
    vote_blur: float = 1.0  # cells
    prior: float = 0.25  # of the window, how far parts may be from the same place
    peak: int = 2  # cells around the best one, over which places are averaged
    near: float = 0.1  # of the window: a part is certain if all likelihood is this near to it
    regions: int = 3  # in which parts are looked for
    same_place: float = 0.3  # of regions, intersection over union


DEFAULTS = FieldParameters()


@dataclass(frozen=True)
class PartReference:
    """A reference, as the networks see its parts; computed once."""

    area: Area  # in its picture
    filters: tuple[Filter, ...]
    cells: tuple[Tensor, ...]  # descriptors, of each network
    shown: Tensor  # rows x columns: which cells show the object
    mirrored: tuple[Tensor, ...]  # the same for the mirrored picture
    glance: tuple[Tensor, ...]  # of the coarse network, for a smaller image
    impressions: tuple[Impression, ...]  # of each network


@dataclass(frozen=True)
class CarriedPoints:
    """Where points of a reference are in an image."""

    places: np.ndarray  # N x 2, pixels
    peaks: np.ndarray  # N, share of the likelihood in the best cell


@dataclass(frozen=True, eq=False)
class PartField:
    """How likely each part of a reference is at each place of an image."""

    reference_area: Area
    image_area: Area  # in which the parts were looked for
    likelihood: Tensor  # rows x columns of the reference x rows x columns of the region
    shown: Tensor  # rows x columns: which cells of the reference show the object
    certainty: float  # mean over these, of the share of likelihood near their place
    mirrored: float  # the same for the mirrored reference

    def likelihood_of(self, points: np.ndarray) -> Tensor:
        """Return how likely each cell of the region is for points of the reference: N maps."""
        return sampled(self.likelihood, relative(points, self.reference_area))

    def carry(self, points: np.ndarray) -> CarriedPoints:
        """Return where points of the reference (N x 2, pixels) are in the image.

        Those outside of its area are as far from its edge as in the reference, and have no peak.
        """
        known = relative(points, self.reference_area)
        nearest = known.clamp(0, 1)
        maps = sampled(self.likelihood, nearest)
        found = peaks(maps)
        area = self.image_area
        places = (found + known - nearest).numpy() * (area.width, area.height)
        places += (area.left, area.top)
        inside = (known == nearest).all(1)
        return CarriedPoints(
            places,
            peaks=(inside * maps.amax((1, 2)) / total(maps)).numpy(),
        )

    def on_object(self, points: np.ndarray) -> np.ndarray:
        """Return which points of the reference (N x 2, pixels) are on its object."""
        rows, columns = self.shown.shape
        x, y = relative(points, self.reference_area).unbind(1)
        column, row = (x * columns).floor().long(), (y * rows).floor().long()
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        at = self.shown[row.clamp(0, rows - 1), column.clamp(0, columns - 1)]
        return (inside & at).numpy()

    @property
    def object_size(self) -> float:
        """Return the longer side of the object, in pixels of the image, without its margin."""
        return max(self.image_area.width, self.image_area.height) / DEFAULTS.margin


@dataclass(frozen=True)
class KindSigns:
    """Evidence that two objects are of one kind, each from about 0 to 1."""

    names: float  # how similarly the networks name both as a whole,
    description: float  # and describe them
    similarity: float  # of their parts
    certainty: float  # which part corresponds to which
    label: float = 0.0  # how surely a detector sees an object of the same label there
    mirrored: float = 0.0  # how much more certain parts would be if one of both were mirrored


@dataclass(frozen=True, eq=False)
class FoundParts:
    """The parts of a reference in an image, and the evidence that both are of one kind."""

    area: Area  # of the object in the image, with as much margin as in the reference
    field: PartField
    signs: KindSigns


def prepare_parts(
    features: PartFeatures, image: np.ndarray, area: Area, marked: np.ndarray | None = None
) -> PartReference:
    """Run the networks on a reference: the area of an RGB image that shows an object.

    Where `marked` (height x width) is not 0, a user says that the object is.
    """
    cells = cells_of(features.both, image, area)
    flipped, there = mirrored(image, area)
    return PartReference(
        area,
        filters_of(features.coarse, image, area),
        cells=cells,
        shown=object_cells(cells, image, area, marked),
        mirrored=cells_of(features.both, flipped, there),
        glance=cells_of((features.coarse,), image, area, DEFAULTS.glance_side),
        impressions=tuple(each.impression(image, area) for each in features.both),
    )


def find_parts(
    features: PartFeatures,
    reference: PartReference,
    image: np.ndarray,
    offers: Sequence[Offer] = (),
) -> FoundParts:
    """Find the parts of a reference in an RGB image, in the region where they are most certain.

    Where a detector sees objects of its label, only these regions are compared.
    """
    offered = [offer.area for offer in offers if offer.whole]
    regions = find_regions(features.coarse, reference.filters, image, DEFAULTS.regions, offered)
    best = max(
        regions, key=lambda region: region.score + glance(features, reference, image, region)
    )
    field = parts_in(features, reference, image, grown(best.area, DEFAULTS.growth))
    seen = [each.impression(image, best.area) for each in features.both]
    names, description = likeness(reference.impressions, seen)
    return FoundParts(
        best.area,
        field,
        KindSigns(
            names=names,
            description=description,
            similarity=best.score,
            certainty=field.certainty,
            label=label_at(best.area, offers),
            mirrored=field.mirrored - field.certainty,
        ),
    )


def mirrored(image: np.ndarray, area: Area) -> tuple[np.ndarray, Area]:
    """Return an image with left and right swapped, and where an area of it is then."""
    last = image.shape[1] - 1
    flipped = np.ascontiguousarray(image[:, ::-1])
    return flipped, Area(last - area.right, area.top, last - area.left, area.bottom)


def label_at(area: Area, offers: Sequence[Offer]) -> float:
    """Return how surely a detector sees an object of the reference's label in an area."""
    near = [one.score for one in offers if overlap(one.area, area) >= DEFAULTS.same_place]
    return max(near, default=0.0)


def glance(
    features: PartFeatures, reference: PartReference, image: np.ndarray, region: Region
) -> float:
    """Return how certain the parts are in a region, as far as one network can tell."""
    area = grown(region.area, DEFAULTS.growth)
    there = cells_of((features.coarse,), image, area, DEFAULTS.glance_side)
    return mean_certainty(likelihood_between(reference.glance, there), reference.shown)


def parts_in(
    features: PartFeatures, reference: PartReference, image: np.ndarray, area: Area
) -> PartField:
    """Find the parts of a reference in an area of an RGB image."""
    there, shown = cells_of(features.both, image, area), reference.shown
    likelihood = likelihood_between(reference.cells, there)
    return PartField(
        reference.area,
        area,
        likelihood,
        shown,
        certainty=mean_certainty(likelihood, shown),
        mirrored=mean_certainty(likelihood_between(reference.mirrored, there), shown.flip(1)),
    )


def likelihood_between(here: Sequence[Tensor], there: Sequence[Tensor]) -> Tensor:
    """Return how likely each pair of cells is, from the descriptors of each network."""
    cosines = [one.flatten(1).T @ other.flatten(1) for one, other in zip(here, there, strict=True)]
    return regularised(torch.stack(cosines).mean(0).cpu())


def mean_certainty(likelihood: Tensor, shown: Tensor) -> float:
    """Return how certain the places of the parts are that show the object."""
    maps = likelihood[shown]
    return float(certainty_of(maps, peaks(maps)).mean())


def likeness(one: Sequence[Impression], other: Sequence[Impression]) -> tuple[float, float]:
    """Return how similarly two objects are named and described, as means over the networks."""
    pairs = list(zip(one, other, strict=True))
    names = [float((first.names * second.names).sqrt().sum()) for first, second in pairs]
    descriptions = [
        float(functional.cosine_similarity(first.description, second.description, dim=0))
        for first, second in pairs
    ]
    return fmean(names), fmean(descriptions)


def cells_of(
    backbones: Sequence[Backbone],
    image: np.ndarray,
    area: Area,
    object_side: int = DEFAULTS.object_side,
) -> tuple[Tensor, ...]:
    """Return the descriptors of the cells of an area that shows an object, of each network."""
    scale = object_side * DEFAULTS.margin / max(area.width, area.height)
    size = rounded(area.height * scale), rounded(area.width * scale)
    cells = DEFAULTS.cells, DEFAULTS.cells
    return tuple(descriptors(each.see(image, area, size), cells) for each in backbones)


# Regularisation


def regularised(cosine: Tensor) -> Tensor:
    """Return likelihoods (rows x columns x rows x columns) from cosines (cells x cells)."""
    side = DEFAULTS.cells
    # A pair counts if it is among the best for the reference's cell and for the image's.
    weights = ((cosine.clamp(min=0) - cosine.max()) / DEFAULTS.temperature).exp()
    both = weights / weights.sum(1, keepdim=True) * weights / weights.sum(0, keepdim=True)
    likelihood = both.sqrt().view(side, side, side, side)
    for axis in (0, 1):
        likelihood = blurred_along_displacement(likelihood, axis, DEFAULTS.agreement)
    likelihood = likelihood * votes(likelihood)
    places = (torch.arange(side) + 0.5) / side
    near = torch.exp(-((places[:, None] - places) ** 2) / 2 / DEFAULTS.prior**2)
    return likelihood * near[:, None, :, None] * near[None, :, None, :]


def gaussian(sigma: float) -> Tensor:
    """Return the weights of a Gaussian blur, an odd number of them."""
    reach = max(1, math.ceil(2.5 * sigma))
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / 2 / sigma**2)
    return weights / weights.sum()


def blurred_along_displacement(likelihood: Tensor, axis: int, sigma: float) -> Tensor:
    """Average over neighbouring cells of the reference that have the same displacement."""
    weights = gaussian(sigma)
    reach, size = len(weights) // 2, likelihood.shape[axis]
    result = torch.zeros_like(likelihood)
    for step, weight in zip(range(-reach, reach + 1), weights.tolist(), strict=True):
        count = size - abs(step)
        shifted = likelihood.narrow(axis, max(step, 0), count)
        shifted = shifted.narrow(axis + 2, max(step, 0), count)
        target = result.narrow(axis, max(-step, 0), count)
        target.narrow(axis + 2, max(-step, 0), count).add_(shifted, alpha=weight)
    return result


def votes(likelihood: Tensor) -> Tensor:
    """Return for each pair how much likelihood moves like it."""
    side = likelihood.shape[0]
    histogram = torch.zeros(2 * side - 1, 2 * side - 1)
    # The displacements of a cell of the reference are a window of the histogram.
    windows = [
        (
            row,
            column,
            slice(side - 1 - row, 2 * side - 1 - row),
            slice(side - 1 - column, 2 * side - 1 - column),
        )
        for row in range(side)
        for column in range(side)
    ]
    for row, column, down, across in windows:
        histogram[down, across] += likelihood[row, column]
    weights = gaussian(DEFAULTS.vote_blur)
    reach = len(weights) // 2
    blurred = functional.conv2d(
        histogram[None, None], weights[None, None, :, None], padding=(reach, 0)
    )
    blurred = functional.conv2d(blurred, weights[None, None, None], padding=(0, reach))[0, 0]
    result = torch.empty_like(likelihood)
    for row, column, down, across in windows:
        result[row, column] = blurred[down, across]
    return result


# Points


def relative(points: np.ndarray, area: Area) -> Tensor:
    """Return pixels (N x 2) relative to an area: 0 to 1 inside."""
    start, size = np.array([area.left, area.top]), np.array([area.width, area.height])
    return torch.from_numpy(((np.asarray(points, np.float64) - start) / size).astype(np.float32))


def sampled(likelihood: Tensor, places: Tensor) -> Tensor:
    """Return the likelihoods (N x rows x columns) of relative places in the reference."""
    side = likelihood.shape[0]
    cells = (places * side - 0.5).clamp(0, side - 1.001)
    column, row = cells.floor().long().unbind(1)
    right, down = (cells - cells.floor()).unbind(1)
    right, down = right[:, None, None], down[:, None, None]
    above = (1 - right) * likelihood[row, column] + right * likelihood[row, column + 1]
    below = (1 - right) * likelihood[row + 1, column] + right * likelihood[row + 1, column + 1]
    return (1 - down) * above + down * below


def peaks(maps: Tensor) -> Tensor:
    """Return the places (N x 2, 0 to 1) of the maxima, between cells."""
    side = maps.shape[-1]
    best = maps.flatten(1).argmax(1)
    row, column = (best // side)[:, None], (best % side)[:, None]
    cells = torch.arange(side)
    rows, columns = (cells - row).abs() <= DEFAULTS.peak, (cells - column).abs() <= DEFAULTS.peak
    close = maps * rows[:, :, None] * columns[:, None, :]
    close = close / close.sum((1, 2), keepdim=True).clamp(min=1e-30)
    centres = (cells + 0.5) / side
    return torch.stack([(close.sum(1) * centres).sum(1), (close.sum(2) * centres).sum(1)], 1)


def certainty_of(maps: Tensor, places: Tensor) -> Tensor:
    """Return the share of the likelihood that is near each place."""
    centres = (torch.arange(maps.shape[-1]) + 0.5) / maps.shape[-1]
    x, y = places[:, 0, None, None], places[:, 1, None, None]
    squared = (centres[None, None] - x) ** 2 + (centres[None, :, None] - y) ** 2
    return (maps * (squared < DEFAULTS.near**2)).sum((1, 2)) / total(maps)


def total(maps: Tensor) -> Tensor:
    """Return the sum of each map, never 0."""
    return maps.sum((1, 2)).clamp(min=1e-30)
