"""Confidence intervals of measured numbers, by bootstrapping over the tested pictures."""

from collections.abc import Callable, Mapping, Sequence
import math
from typing import TypeVar

import numpy as np

Record = TypeVar('Record')


def resamples(
    units: Sequence[str], seed: int, count: int = 1000, strata: Sequence[str] | None = None
) -> list[np.ndarray]:
    """Draw as many units as there are, with replacement, and return the records of each draw.

    `units` names the unit of each record. All records of a unit are drawn together, because they
    are not independent: one image pair in 31 conditions is one pair, not 31. The draws depend on
    the seed and on which units there are, not on the order of the records.

    With `strata`, which names the data set of each record, every draw has as many units of each
    data set as the original.
    """
    names = np.asarray(strata if strata is not None else [''] * len(units), str)
    random = np.random.default_rng(seed)
    parts = [
        draw_units(np.asarray(units, str), np.flatnonzero(names == name), random, count)
        for name in np.unique(names)
    ]
    nothing = np.empty(0, int)
    return [np.concatenate([nothing, *(part[draw] for part in parts)]) for draw in range(count)]


def draw_units(
    units: np.ndarray, chosen: np.ndarray, random: np.random.Generator, count: int
) -> list[np.ndarray]:
    """Draw from the units of the chosen records, and return the records of each draw."""
    distinct, owners = np.unique(units[chosen], return_inverse=True)
    members = [chosen[owners == unit] for unit in range(len(distinct))]
    draws = random.integers(len(distinct), size=(count, len(distinct)))
    return [np.concatenate([members[unit] for unit in draw]) for draw in draws]


def bootstrap(
    records: Sequence[Record],
    units: Sequence[str],
    summarise: Callable[[list[Record]], Mapping[str, float]],
    seed: int,
    count: int = 1000,
    strata: Sequence[str] | None = None,
) -> dict[str, np.ndarray]:
    """Return each number of a summary on many draws of the same units.

    If the summary of a draw lacks a number, it is NaN there.
    """
    summaries = [
        summarise([records[index] for index in drawn])
        for drawn in resamples(units, seed, count, strata)
    ]
    names = dict.fromkeys(name for summary in summaries for name in summary)
    return {
        name: np.array([summary.get(name, math.nan) for summary in summaries]) for name in names
    }


def interval(values: np.ndarray, level: float = 0.95) -> list[float]:
    """Return the lower and upper end of the interval that contains this share of the draws.

    Draws in which the number is NaN are left out; if there are no others, both ends are NaN.
    """
    defined = np.sort(values[~np.isnan(values)])
    if not len(defined):
        return [math.nan, math.nan]
    # Whole ranks, because a finite and an infinite error cannot be interpolated.
    cut = round((1 - level) / 2 * (len(defined) - 1))
    return [float(defined[cut]), float(defined[-1 - cut])]


def paired_difference(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> dict[str, list[float]]:
    """Return, for each number in both, the interval of ours minus theirs.

    Both must come from `bootstrap` with the same units, seed and count: then the same pictures
    are drawn for both, and what makes a draw easy or hard cancels.
    """
    return {name: interval(ours[name] - theirs[name]) for name in ours if name in theirs}
