"""What `niom calibrate --subjects alike alike-points` does.

It learns when another object is of the same kind, and how certain each point on it is. Both are
fitted on all pairs, because there are few, and reported for pairs that were judged by a fit on
other pictures.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Record, share
from niom_ros.benchmarks.evaluation.command import Evaluation, measure
from niom_ros.benchmarks.evaluation.cross_fit import cross_fitted
from niom_ros.benchmarks.evaluation.logistic import logistic, rows, scores
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.abstain import (
    AbstainBenchmark,
    SAME_KIND,
    UNRELATED_DRAWING,
    UNRELATED_OBJECT,
    UNRELATED_PHOTO,
)
from niom_ros.benchmarks.evaluation.suites.landmarks import LandmarksBenchmark
from niom_ros.core.errors import UserError
from niom_ros.matching.confidence import Calibration, KIND_SIGNS, POINT_SIGNS

METHOD = 'alike'
GROUPS = (SAME_KIND, UNRELATED_OBJECT, UNRELATED_PHOTO, UNRELATED_DRAWING)
MAX_FALSE = 0.01  # share of other kinds that may be called alike, of those that are fitted on
MIN_RIGHT = 0.87  # share of the claimed points that must be right, of all,
MIN_RIGHT_BETWEEN_TWO = 0.6  # and of those between any two pictures
MANY_POINTS = 100  # of two pictures: fewer are not looked at on their own
FEW_POINTS = 10


Learnt = tuple[Calibration, dict[str, dict[str, float]], str]
"""What was learnt, how well it works, and the key of the data."""

Fitter = Callable[[Evaluation], Learnt]


def calibrated_kinds(task: Evaluation) -> Learnt:
    """Return when an object is called alike."""
    done = measure(
        AbstainBenchmark(task.data, task.seed), task, [METHOD], judged=False, groups=GROUPS
    )
    records = [record for record in done.records[METHOD] if record['alike']]
    fitted = fit_kinds(records)
    results = {
        'fitted on': kind_performance([(fitted, records)]),
        'cross-fitted': kind_performance(cross_fitted(records, fit_kinds)),
    }
    return fitted, results, done.data_key


def fit_kinds(records: Sequence[Record]) -> Calibration:
    """Fit when an object is called alike."""
    same = np.array([is_same(record) for record in records])
    if not len(same) or same.all() or not same.any():
        raise UserError('objects of the same and of other kinds are needed: use more pairs')
    signs = rows([record['alike'] for record in records], KIND_SIGNS)
    # Both sorts weigh the same, however many pairs there are of each.
    importance = np.where(same, 0.5 / same.mean(), 0.5 / (1 - same.mean()))
    fitted = logistic(signs, same, KIND_SIGNS, importance)
    highest = np.quantile(scores(fitted, signs[~same]), 1 - MAX_FALSE)
    return replace(fitted, bias=fitted.bias - max(0.0, float(highest)))


def calibrated_points(task: Evaluation, kinds: Calibration) -> Learnt:
    """Return how certain points are, on objects that `kinds` calls alike."""
    done = measure(LandmarksBenchmark(task.data, task.seed), task, [METHOD], judged=False)
    records = [record for record in done.records[METHOD] if record['points']]
    fitted = fit_points(records)
    results = {
        'fitted on': point_performance([(fitted, records)], kinds),
        'cross-fitted': point_performance(cross_fitted(records, fit_points), kinds),
    }
    return fitted, results, done.data_key


def fit_points(records: Sequence[Record]) -> Calibration:
    """Fit how certain points are; of those claimed, MIN_RIGHT are right."""
    if not records:
        raise UserError('landmarks of more pairs are needed to calibrate: use more pictures')
    signs, right, importance = points_of(records)
    if right.all() or not right.any():
        raise UserError('right and wrong points are both needed to calibrate: use more pairs')
    fitted = logistic(signs, right, POINT_SIGNS, importance)
    found = scores(fitted, signs)
    between = np.concatenate(
        [[' '.join(record['places'])] * len(record['point_right']) for record in records]
    )
    lowest = [least_score(found, right, MIN_RIGHT)]
    # Two pictures of many faces must not outvote others.
    for pair in np.unique(between):
        own = between == pair
        if own.sum() >= MANY_POINTS:
            lowest.append(least_score(found[own], right[own], MIN_RIGHT_BETWEEN_TWO))
    return replace(fitted, bias=fitted.bias - max(0.0, *lowest))


def least_score(found: np.ndarray, right: np.ndarray, share_right: float) -> float:
    """Return the lowest score from which on this share of the points is right."""
    best_first = np.argsort(-found)
    rightly = np.cumsum(right[best_first]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(rightly >= share_right)
    if not len(enough) or enough[-1] < FEW_POINTS:  # a lucky few prove nothing
        return float(found.max())
    return float(found[best_first[enough[-1]]])


def is_same(record: Record) -> bool:
    """Return whether a pair shows two objects of a kind."""
    return bool(record['group'] == SAME_KIND)


def points_of(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the signs of all points, which are right, and how much each counts.

    Every pair counts the same, however many points it has.
    """
    signs = [rows(record['point_signs'], POINT_SIGNS) for record in records]
    right = [np.array(record['point_right'], bool) for record in records]
    importance = [np.full(len(one), 1 / len(one)) for one in right]
    together = np.concatenate(importance)
    return np.concatenate(signs), np.concatenate(right), together / together.mean()


Judged = Iterable[tuple[Calibration, Sequence[Record]]]
"""Pairs, and what they are judged by."""


def kind_performance(judged: Judged) -> dict[str, float]:
    """Return how many pairs of the same kind, and of others, are called alike."""
    claims = [
        (is_same(record), calibration.confidence(record['alike']) >= 0.5)
        for calibration, records in judged
        for record in records
    ]
    false = sum(claimed for same, claimed in claims if not same)
    others = sum(not same for same, _ in claims)
    return {
        'same_kind': len(claims) - others,
        'called_alike': share(claimed for same, claimed in claims if same),
        'other_kinds': others,
        'falsely_called_alike': false / max(1, others),
        'falsely_called_alike_upper': upper_bound(false, others),
    }


def point_performance(judged: Judged, kinds: Calibration) -> dict[str, float]:
    """Return how many points are claimed on objects that are called alike, and how rightly."""
    claims = [
        (kinds.confidence(record['alike_signs']) >= 0.5, calibration.confidence(signs) >= 0.5, hit)
        for calibration, records in judged
        for record in records
        for signs, hit in zip(record['point_signs'], record['point_right'], strict=True)
    ]
    return {
        'points': len(claims),
        'right': share(hit for _, _, hit in claims),
        'claimed': share(claimed for _, claimed, _ in claims),
        'claimed_right': share(hit for _, claimed, hit in claims if claimed),
        'claimed_if_alike': share(claimed for alike, claimed, _ in claims if alike),
        'claimed_right_if_alike': share(
            hit for alike, claimed, hit in claims if alike and claimed
        ),
    }
