"""The parts of a reference in an image, found once and shared by all strategies."""

import numpy as np
import torch

from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.semantics.correspondence.features import PartFeatures
from niom_ros.semantics.correspondence.field import (
    find_parts,
    FoundParts,
    PartReference,
    prepare_parts,
)
from niom_ros.semantics.correspondence.region import Offer
from niom_ros.semantics.heat_maps import Area, overlap
from niom_ros.semantics.scene import masked, Scene

# Of an area of the reference, intersection over union: an object that fills less is not clear.
CLEAR = 0.15
SMALLEST = 8  # pixels of a side, of an object in which parts are looked for
EDGE = 0.02  # of the reference's longer side: an object that is nearer to its edge is cut off


def found_parts(
    features: PartFeatures, reference: PreparedReference, image: ImageAnalysis, area: Area
) -> FoundParts:
    """Return the parts of an area of a reference in an image."""
    prepared = prepared_parts(features, reference, area)
    offers = offers_of(reference.scene, image.scene, area, Area.of_box(reference.box))
    return image.parts.get(
        (reference, area), lambda: find_parts(features, prepared, image.image, offers)
    )


def prepared_parts(
    features: PartFeatures, reference: PreparedReference, area: Area
) -> PartReference:
    """Return what the networks make of an area of a reference, without what is masked."""

    def prepare() -> PartReference:
        used = masked(reference.image, reference.given.counting_mask())
        return prepare_parts(features, used, area, marked_in(reference.given))

    return reference.parts.get(area, prepare)


def offers_of(reference: Scene, image: Scene, area: Area, used: Area) -> list[Offer]:
    """Return where an image has objects of the label of the one in an area of a reference.

    If the part of the reference that is used cuts it off, the detector may see more of others.
    """
    labelled = [one for one in reference.objects if one.label]
    shown = max(labelled, key=lambda one: overlap(one.area, area), default=None)
    if shown is None or overlap(shown.area, area) < CLEAR:
        return []
    inner = used.enlarged(-EDGE * max(used.width, used.height))
    whole = bool(inner.contains(torch.from_numpy(shown.area.corners())).all())
    return [
        Offer(placed_like(area, shown.area, seen.area), seen.score, whole)
        for seen in image.objects
        if seen.label.casefold() == shown.label.casefold()
        and min(seen.area.width, seen.area.height) >= SMALLEST
    ]


def placed_like(area: Area, shown: Area, seen: Area) -> Area:
    """Return what is to one object as an area of the reference is to the object in it."""
    across, down = seen.width / shown.width, seen.height / shown.height
    return Area(
        seen.left + (area.left - shown.left) * across,
        seen.top + (area.top - shown.top) * down,
        seen.right + (area.right - shown.right) * across,
        seen.bottom + (area.bottom - shown.bottom) * down,
    )


def marked_in(given: Reference) -> np.ndarray | None:
    """Return where a user says that the object is, as a mask; None: nothing is said."""
    if not given.objects:
        return given.mask
    marked = np.zeros(given.image.shape[:2], np.uint8)
    for one in given.objects:
        area = one.area.within(*given.size)
        left, top, right, bottom = (
            round(side + 0.5) for side in (area.left, area.top, area.right, area.bottom)
        )
        marked[top:bottom, left:right] = 255
    return marked if given.mask is None else np.where(given.mask, marked, 0)
