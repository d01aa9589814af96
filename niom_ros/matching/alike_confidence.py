"""How confident it is that an object is of the reference's kind, and each point on it."""

from dataclasses import asdict

import numpy as np

from niom_ros.matching.alike_object import GuidePoints, RIGHT, spread_of
from niom_ros.matching.confidence import Calibration, calibration_of, KIND, POINTS
from niom_ros.semantics.correspondence.field import CarriedPoints, FoundParts, PartField

LEAST = 0.02  # confidence for which a deviation is computed: otherwise it would be infinite


def alike_confidence(parts: FoundParts) -> float:
    """Return how probable it is that an object is of the reference's kind."""
    return required(KIND).confidence(asdict(parts.signs))


def guide_points(field: PartField, points: np.ndarray) -> GuidePoints:
    """Return where points of the reference are on the object: N x 2."""
    carried = field.carry(points)
    calibration = required(POINTS)
    signs = point_signs(field, carried)
    confidences = np.array([calibration.confidence(each) for each in signs])
    radius = RIGHT * field.object_size
    return GuidePoints(carried.places, radius * deviations(confidences), confidences)


def point_signs(field: PartField, carried: CarriedPoints) -> list[dict[str, float]]:
    """Return the evidence that each point is in the right place, by name."""
    return [{'peak': peak, 'certainty': field.certainty} for peak in carried.peaks.tolist()]


def deviations(confidences: np.ndarray) -> np.ndarray:
    """Return the standard deviation that each confidence stands for, relative to the radius."""
    return spread_of(np.clip(confidences, LEAST, 1 - LEAST))


def required(name: str) -> Calibration:
    """Return a calibration that the package contains."""
    calibration = calibration_of(name)
    if calibration is None:
        raise LookupError(f'calibration.json has no entry {name!r}: run niom calibrate')
    return calibration
