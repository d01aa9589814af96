"""What `niom calibrate --subjects alike` does: learn when another object is of the same kind.

And how certain each point on it is. Both are fitted on one half of the pictures, and reported on
the other half.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Record, share
from niom_ros.benchmarks.evaluation.command import Evaluation, measure
from niom_ros.benchmarks.evaluation.halves import halves
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
MAX_FALSE = 0.01  # share of other kinds that may be called alike, of the half that is fitted on
MIN_RIGHT = 0.87  # share of the claimed points that must be right there


def calibrated_kinds(task: Evaluation) -> tuple[Calibration, dict[str, dict[str, float]], str]:
    """Return when an object is called alike, how well that works, and the key of the data."""
    done = measure(
        AbstainBenchmark(task.data, task.seed), task, [METHOD], judged=False, groups=GROUPS
    )
    seen, unseen = halves([record for record in done.records[METHOD] if record['alike']])
    same = np.array([is_same(record) for record in seen])
    if not len(same) or same.all() or not same.any():
        raise UserError('objects of the same and of other kinds are needed: use more pairs')
    signs = rows([record['alike'] for record in seen], KIND_SIGNS)
    # Both sorts weigh the same, however many pairs there are of each.
    importance = np.where(same, 0.5 / same.mean(), 0.5 / (1 - same.mean()))
    fitted = logistic(signs, same, KIND_SIGNS, importance)
    highest = np.quantile(scores(fitted, signs[~same]), 1 - MAX_FALSE)
    fitted = replace(fitted, bias=fitted.bias - max(0.0, float(highest)))
    results = {
        title: kind_performance(fitted, part)
        for title, part in (('fitted on', seen), ('held out', unseen))
    }
    return fitted, results, done.data_key


def calibrated_points(
    task: Evaluation, kinds: Calibration
) -> tuple[Calibration, dict[str, dict[str, float]], str]:
    """Return how certain points are, how well that works, and the key of the data."""
    done = measure(LandmarksBenchmark(task.data, task.seed), task, [METHOD], judged=False)
    seen, unseen = halves([record for record in done.records[METHOD] if record['points']])
    if not seen or not unseen:
        raise UserError('landmarks of more pairs are needed to calibrate: use more pictures')
    signs, right, importance = points_of(seen)
    if right.all() or not right.any():
        raise UserError('right and wrong points are both needed to calibrate: use more pairs')
    fitted = logistic(signs, right, POINT_SIGNS, importance)
    found = scores(fitted, signs)
    best_first = np.argsort(-found)
    rightly = np.cumsum(right[best_first]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(rightly >= MIN_RIGHT)
    lowest = found[best_first[enough[-1] if len(enough) else 0]]
    fitted = replace(fitted, bias=fitted.bias - max(0.0, float(lowest)))
    results = {
        title: point_performance(fitted, kinds, part)
        for title, part in (('fitted on', seen), ('held out', unseen))
    }
    return fitted, results, done.data_key


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


def kind_performance(calibration: Calibration, records: Sequence[Record]) -> dict[str, float]:
    """Return how many pairs of the same kind, and of others, are called alike."""
    claims = [(is_same(r), calibration.confidence(r['alike']) >= 0.5) for r in records]
    false = sum(claimed for same, claimed in claims if not same)
    others = sum(not same for same, _ in claims)
    return {
        'same_kind': len(claims) - others,
        'called_alike': share(claimed for same, claimed in claims if same),
        'other_kinds': others,
        'falsely_called_alike': false / max(1, others),
        'falsely_called_alike_upper': upper_bound(false, others),
    }


def point_performance(
    calibration: Calibration, kinds: Calibration, records: Sequence[Record]
) -> dict[str, float]:
    """Return how many points are claimed on objects that are called alike, and how rightly."""
    claims = [
        (kinds.confidence(record['alike_signs']) >= 0.5, calibration.confidence(signs) >= 0.5, hit)
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
