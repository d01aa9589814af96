"""The parts of a reference in an image, found once and shared by all strategies."""

import numpy as np

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
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import masked


def found_parts(
    features: PartFeatures, reference: PreparedReference, image: ImageAnalysis, area: Area
) -> FoundParts:
    """Return the parts of an area of a reference in an image."""
    prepared = prepared_parts(features, reference, area)
    return image.parts.get((reference, area), lambda: find_parts(features, prepared, image.image))


def prepared_parts(
    features: PartFeatures, reference: PreparedReference, area: Area
) -> PartReference:
    """Return what the networks make of an area of a reference, without what is masked."""

    def prepare() -> PartReference:
        used = masked(reference.image, reference.given.counting_mask())
        return prepare_parts(features, used, area, marked_in(reference.given))

    return reference.parts.get(area, prepare)


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
