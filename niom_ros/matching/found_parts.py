"""The parts of a reference in an image, found once and shared by all strategies."""

from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.prepared_reference import PreparedReference
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
        return prepare_parts(features, used, area)

    return reference.parts.get(area, prepare)
