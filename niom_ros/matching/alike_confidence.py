"""How confident it is that an object is of the reference's kind, and each point on it."""

from dataclasses import asdict

import numpy as np

from niom_ros.matching.alike_object import GuidePoints, guides_at
from niom_ros.matching.confidence import Calibration, calibration_of, KIND, POINTS
from niom_ros.semantics.correspondence.field import CarriedPoints, FoundParts, PartField


def alike_confidence(parts: FoundParts) -> float:
    """Return how probable it is that an object is of the reference's kind."""
    return required(KIND).confidence(asdict(parts.signs))


def guide_points(field: PartField, points: np.ndarray) -> GuidePoints:
    """Return where points of the reference are on the object: N x 2."""
    carried = field.carry(points)
    calibration = required(POINTS)
    signs = point_signs(field, carried)
    confidences = np.array([calibration.confidence(each) for each in signs])
    return guides_at(carried.places, confidences, field.object_size)


def point_signs(field: PartField, carried: CarriedPoints) -> list[dict[str, float]]:
    """Return the evidence that each point is in the right place, by name."""
    return [{'peak': peak, 'certainty': field.certainty} for peak in carried.peaks.tolist()]


def required(name: str) -> Calibration:
    """Return a calibration that the package contains."""
    calibration = calibration_of(name)
    if calibration is None:
        raise LookupError(f'calibration.json has no entry {name!r}: run niom calibrate')
    return calibration
