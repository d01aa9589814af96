"""How confident a match is: a calibration learnt from image pairs with known ground truth.

For each extractor and matcher, calibration.json holds what `niom calibrate` found, the data it
used and its results on held-out pairs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import functools
import json
import math
from pathlib import Path

FILE = Path(__file__).with_name('calibration.json')
SMALLEST = 1e-6  # lower bound of what logarithms are taken of

# The checks that tell right from wrong, and whether a larger value makes a match more likely (1)
# or less likely (-1). Stretch is left out: in benchmarks, oblique views are mostly wrong ones,
# but a robot may see a sheet from the side.
SIGNS = {
    'agreeing': 1,
    'inlier_ratio': 1,
    'coverage': 1,
    'corner_deviation': -1,
}
# The same for a drawing found by its ink; see drawings/tracing.py. Relative to the image size,
# because edges are found at one fixed size: in pixels, small images would get more confidence.
INK_SIGNS = {
    'ink_on_edges': 1,
    'sharpness': 1,
    'size': 1,
    'corner_uncertainty': -1,
    'contrast': 1,
}
# That an object is of the reference's kind: how similarly networks name and describe both as a
# whole, how similar their parts are, how certain it is which part corresponds to which, and how
# surely a detector gives both the same label.
KIND_SIGNS = {'names': 1, 'description': 1, 'similarity': 1, 'certainty': 1, 'label': 1}
# That a point of the reference is found on it: how much better the best place is than others.
POINT_SIGNS = {'peak': 1, 'certainty': 1}
# The logarithm is taken of all others.
LINEAR = (
    'inlier_ratio',
    'ink_on_edges',
    'contrast',
    'description',
    'similarity',
    'certainty',
    'label',
)
CLASSICAL = 'sift'  # the names of the calibrations for SIFT keypoints,
INK = 'ink'  # for drawings,
KIND = 'alike'  # for objects of a kind,
POINTS = 'alike points'  # and for the points on them


@dataclass(frozen=True)
class Calibration:
    """Maps the checks of a match to its confidence; from one half on, a match is accepted."""

    weights: Mapping[str, float]  # of each sign
    bias: float

    def confidence(self, checks: Mapping[str, float]) -> float:
        """Return the confidence of a match, 0 to 1; more in its favour never lowers it."""
        signs = signs_of(checks, self.weights)
        score = self.bias + sum(weight * signs[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-score)) if score > -700 else 0.0


def signs_of(checks: Mapping[str, float], names: Iterable[str] = SIGNS) -> dict[str, float]:
    """Return some checks of a match, transformed so that a weighted sum makes sense."""
    return {
        name: checks[name] if name in LINEAR else math.log(max(checks[name], SMALLEST))
        for name in names
    }


def uncalibrated(enough: int) -> Calibration:
    """Return a calibration for networks that have none: one half where `enough` points agree."""
    return Calibration({'agreeing': 1.0}, -math.log(enough))


@functools.cache
def calibration_of(method: str) -> Calibration | None:
    """Return the calibration of an extractor and a matcher, such as 'aliked+lightglue'."""
    entry = json.loads(FILE.read_text(encoding='utf-8')).get(method)
    return None if entry is None else Calibration(entry['weights'], entry['bias'])
