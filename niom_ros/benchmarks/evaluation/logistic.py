"""Logistic regression whose weights keep the signs that they must have."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import minimize

from niom_ros.matching.confidence import Calibration, signs_of

REGULARISATION = 0.1  # L2, of the weights: keeps the fit from following a few pairs too closely


def logistic(
    signs: np.ndarray,
    right: np.ndarray,
    names: Mapping[str, int],
    importance: np.ndarray | None = None,
) -> Calibration:
    """Fit the probability of being right to signs: N x the number of names."""
    centre, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    scaled = np.column_stack([np.ones(len(signs)), (signs - centre) / spread])
    share = np.ones(len(signs)) if importance is None else importance

    def cost(weights: np.ndarray) -> float:
        margins = np.where(right, 1, -1) * (scaled @ weights)
        penalty = REGULARISATION * (weights[1:] ** 2).sum()
        return float((share * np.logaddexp(0, -margins)).sum() + penalty)

    # More inliers must never make a match less certain, whatever these pairs suggest.
    bounds = [(None, None), *((0, None) if sign > 0 else (None, 0) for sign in names.values())]
    found = minimize(cost, np.zeros(scaled.shape[1]), bounds=bounds).x
    weights = found[1:] / spread
    bias = float(found[0] - weights @ centre)
    return Calibration(dict(zip(names, weights.tolist(), strict=True)), bias)


def rows(signs: Sequence[Mapping[str, float]], names: Mapping[str, int]) -> np.ndarray:
    """Return signs as a matrix with a row for each."""
    return np.array([list(signs_of(one, names).values()) for one in signs])


def scores(calibration: Calibration, signs: np.ndarray) -> np.ndarray:
    """Return the log odds of each row of signs."""
    weights = np.array(list(calibration.weights.values()))
    result: np.ndarray = signs @ weights + calibration.bias
    return result
