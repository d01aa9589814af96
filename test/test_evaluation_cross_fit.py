"""Fits that have not seen the pictures that they are judged on."""

from collections.abc import Sequence

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Record
from niom_ros.benchmarks.evaluation.calibrate_alike import FEW_POINTS, least_score
from niom_ros.benchmarks.evaluation.cross_fit import cross_fitted
from niom_ros.core.errors import UserError
from niom_ros.matching.confidence import Calibration


def record(first: str, second: str) -> Record:
    return {'places': [first, second]}


def pictures_of(records: Sequence[Record]) -> set[str]:
    return {place for one in records for place in one['places']}


def test_no_pair_is_judged_by_a_fit_on_one_of_its_pictures() -> None:
    names = 'abcde'
    records = [record(one, other) for one in names for other in names if one < other]
    seen: list[set[str]] = []

    def fit(others: Sequence[Record]) -> Calibration:
        seen.append(pictures_of(others))
        return Calibration({}, float(len(others)))

    judged = list(cross_fitted(records, fit))
    assert sum(len(own) for _, own in judged) == len(records)
    for (calibration, own), pictures in zip(judged, seen, strict=True):
        assert not pictures & pictures_of(own)
        assert calibration.bias == 3  # of the three pictures that are left


def test_both_directions_of_a_pair_are_judged_together() -> None:
    records = [record('a', 'b'), record('b', 'a'), record('c', 'd')]
    parts = [own for _, own in cross_fitted(records, lambda _: Calibration({}, 0.0))]
    assert sorted(map(len, parts)) == [1, 2]


def test_what_leaves_nothing_to_fit_on_is_left_out() -> None:
    def fit(others: Sequence[Record]) -> Calibration:
        if not others:
            raise UserError('nothing to fit on')
        return Calibration({}, 0.0)

    assert list(cross_fitted([record('a', 'b'), record('b', 'c')], fit)) == []


def test_a_score_from_which_on_enough_points_are_right() -> None:
    scores = np.arange(100.0)
    right = scores >= 40
    assert least_score(scores, right, 1.0) == 40
    assert least_score(scores, right, 0.75) == 20
    assert least_score(scores, np.zeros(100, bool), 0.5) == 99
    few = np.zeros(100, bool)
    few[-FEW_POINTS + 2 :] = True
    assert least_score(scores, few, 1.0) == 99
