"""How sure a match is: learnt from pairs of pictures for which the truth is known.

calibration.json holds, for each extractor and matcher, what `niom calibrate` found, on which data
and how well it did on pairs that it had not seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import functools
import json
import math
from pathlib import Path

FILE = Path(__file__).with_name('calibration.json')
SMALLEST = 1e-6  # where logarithms end

# What tells right from wrong, and whether more of it speaks for a match (1) or against it (-1).
# Not how the outline is stretched: in benchmarks odd views are mostly wrong ones, but a robot may
# look at a sheet from the side.
SIGNS = {
    'agreeing': 1,
    'inlier_ratio': 1,
    'coverage': 1,
    'corner_deviation': -1,
}
# The same for a drawing that was found by its ink; see drawings/tracing.py. Relative to the image,
# because edges are sought in images of one size: in pixels, small images would be believed more.
INK_SIGNS = {
    'ink_on_edges': 1,
    'sharpness': 1,
    'size': 1,
    'corner_uncertainty': -1,
}
LINEAR = ('inlier_ratio', 'ink_on_edges')  # all others count by their logarithm
INK = 'ink'  # the name of the calibration for drawings


@dataclass(frozen=True)
class Calibration:
    """From the checks of a match to its confidence: one half is where believing begins."""

    weights: Mapping[str, float]  # of each sign
    bias: float

    def confidence(self, checks: Mapping[str, float]) -> float:
        """Return how sure a match is, 0 to 1; never less for one that has more in its favour."""
        signs = signs_of(checks, self.weights)
        score = self.bias + sum(weight * signs[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-score)) if score > -700 else 0.0


def signs_of(checks: Mapping[str, float], names: Iterable[str] = SIGNS) -> dict[str, float]:
    """Return some of the checks of a match on scales on which they add up."""
    return {
        name: checks[name] if name in LINEAR else math.log(max(checks[name], SMALLEST))
        for name in names
    }


def uncalibrated(enough: int) -> Calibration:
    """Return a calibration for networks that have none: one half where so many points agree."""
    return Calibration({'agreeing': 1.0}, -math.log(enough))


@functools.cache
def calibration_of(method: str) -> Calibration | None:
    """Return the calibration of an extractor and a matcher, such as 'aliked+lightglue'."""
    entry = json.loads(FILE.read_text(encoding='utf-8')).get(method)
    return None if entry is None else Calibration(entry['weights'], entry['bias'])
