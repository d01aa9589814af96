"""The confidence of matches, what `niom calibrate` learns, and the shipped calibrations."""

from dataclasses import replace
import json
import math

from hypothesis import given, settings, strategies
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.calibrate import fit, performance, write_entry
from niom_ros.benchmarks.evaluation.calibrate_alike import kind_performance, point_performance
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Limits
from niom_ros.matching.alike_object import guides_at
from niom_ros.matching.confidence import (
    Calibration,
    calibration_of,
    FILE,
    INK,
    INK_SIGNS,
    KIND,
    KIND_SIGNS,
    POINT_SIGNS,
    POINTS,
    SIGNS,
    uncalibrated,
)
from niom_ros.matching.geometry import confidence_in

CHECKS = {
    'agreeing': 40.0,
    'inlier_ratio': 0.5,
    'coverage': 0.3,
    'corner_deviation': 4.0,
    'stretch': 1.5,
    'perspective': 2.0,
}
SHIPPED = json.loads(FILE.read_text())


def record(group='true/sketch', right=True, plausible=True, **checks):
    """Return the record of a pair in a benchmark."""
    error = None if group.startswith('unrelated') else 3.0 if right else 60.0
    return {
        'group': group,
        'best_error': error,
        'plausible': plausible,
        'checks': CHECKS | checks if plausible else {},
    }


def test_confidence_by_hand():
    weights = {'agreeing': 2.0, 'inlier_ratio': 3.0, 'corner_deviation': -1.0}
    calibration = Calibration(weights, -8.0)
    score = 2 * math.log(40) + 3 * 0.5 - math.log(4) - 8
    assert calibration.confidence(CHECKS) == pytest.approx(1 / (1 + math.exp(-score)))
    assert Calibration({'agreeing': 1.0}, -2000.0).confidence(CHECKS) == 0


def test_without_a_calibration_one_half_is_where_enough_points_agree():
    assert uncalibrated(20).confidence(CHECKS | {'agreeing': 20}) == pytest.approx(0.5)
    assert uncalibrated(20).confidence(CHECKS | {'agreeing': 80}) == pytest.approx(0.8)
    assert calibration_of('no+such') is None
    assert confidence_in(CHECKS | {'agreeing': 8}, Limits(min_inliers=8), None) == (0.5, '')


def test_each_limit_has_its_own_words():
    sure = Calibration({}, 9.0)
    assert confidence_in(CHECKS, Limits(), sure)[1] == ''
    assert confidence_in(CHECKS, Limits(min_inliers=50), sure)[1] == '50 are needed'
    few = confidence_in(CHECKS, Limits(min_inlier_ratio=0.6), sure)[1]
    assert few == '60% of them are needed'
    unsure = confidence_in(CHECKS, Limits(min_confidence=0.9), Calibration({}, 0.5))
    assert unsure[0] == pytest.approx(0.622, abs=1e-3)
    assert unsure[1].endswith('confidence 0.62, 0.90 is needed')


def noisy_records(count=300, seed=0):
    """Return pairs that are right more often the more points agree."""
    random = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        right = bool(random.random() < 0.4)
        agreeing = math.exp(random.normal(4.0 if right else 2.3, 0.5))
        group = 'true/sketch' if right or random.random() < 0.3 else 'unrelated/photo'
        records.append(
            record(
                group,
                right,
                agreeing=agreeing,
                inlier_ratio=float(
                    random.uniform(0.4, 0.9) if right else random.uniform(0.1, 0.6)
                ),
                coverage=float(random.uniform(0.1, 0.6)),
            )
        )
    return records


def alone(records):
    """Return pairs for which there is one attempt each."""
    return [(record,) for record in records]


def test_a_fit_believes_no_wrong_pair_of_its_own_and_most_right_ones():
    records = noisy_records()
    calibration = fit(records, Limits())
    found = performance(calibration, alone(records), Limits())
    assert (found.wrong_accepted, found.false_accept) == (0, 0)
    assert found.true_accept > 0.6 * 120 / found.true_pairs
    held_out = performance(calibration, alone(noisy_records(seed=1)), Limits())
    assert held_out.wrong_accepted <= 0.02
    assert held_out.false_accept <= 0.01


@settings(deadline=None)
@given(
    strategies.sampled_from(list(SIGNS)),
    strategies.floats(0.01, 0.99),
    strategies.floats(1.01, 3.0),
)
def test_more_in_favour_never_makes_a_match_less_sure(sign, value, factor):
    calibration = fit(noisy_records(100), Limits())
    less, more = (calibration.confidence(CHECKS | {sign: v}) for v in (value, value * factor))
    assert (more - less) * SIGNS[sign] >= 0


def test_a_fit_needs_right_and_wrong_pairs():
    with pytest.raises(UserError, match='right and wrong matches are both needed'):
        fit([record(right=True)] * 5, Limits())
    with pytest.raises(UserError, match='right and wrong matches are both needed'):
        fit([], Limits())


def test_performance_by_hand():
    calibration = Calibration({'agreeing': 1.0}, -math.log(20))
    records = [
        record(right=True, agreeing=50),
        record(right=True, agreeing=10),  # refused
        record(right=False, agreeing=30),
        record(right=True, plausible=False),  # refused, regardless of its confidence
        record(right=True, agreeing=50, inlier_ratio=0.2),  # too small a share
        record('unrelated/photo', agreeing=25),
        record('unrelated/drawing', agreeing=5),
    ]
    found = performance(calibration, alone(records), Limits())
    assert (found.true_pairs, found.accepted, found.unrelated_pairs) == (5, 2, 2)
    assert (found.true_accept, found.wrong_accepted, found.false_accept) == (0.2, 0.5, 0.5)
    # One of two is wrong: with 95 % certainty, fewer than sqrt(0.95) are.
    assert found.wrong_accepted_upper == pytest.approx(math.sqrt(0.95))


def test_harder_drawings_decide_how_much_caution_is_needed_only_if_it_is_strict():
    records = noisy_records()
    surest_of_all = record('scaled', right=False, agreeing=999, inlier_ratio=0.95)
    believed = performance(fit([*records, surest_of_all], Limits()), alone(records), Limits())
    assert believed.true_accept > 0.3
    standard = {**surest_of_all, 'group': 'true/sketch'}
    for cautious in (
        fit([*records, standard], Limits()),
        fit([*records, surest_of_all], Limits(), strict=True),
    ):
        assert performance(cautious, alone(records), Limits()).true_accept < 0.1


def test_weights_are_the_second_attempt():
    calibration = Calibration({'agreeing': 1.0}, -math.log(20))
    good, bad, weak = (
        record(right=True, agreeing=50),
        record(right=False, agreeing=50),
        record(right=True, agreeing=10),
    )
    pairs = [(weak, good), (good, bad), (weak, weak), (bad, good)]
    found = performance(calibration, pairs, Limits())
    # For the last pair, the wrong first attempt is accepted.
    assert (found.accepted, found.true_accept, found.wrong_accepted) == (3, 0.5, 1 / 3)


def test_a_calibration_is_written_beside_others(tmp_path):
    file = tmp_path / 'calibration.json'
    write_entry(file, 'one', {'bias': 1})
    write_entry(file, 'two', {'bias': 2})
    write_entry(file, 'one', {'bias': 3})
    assert json.loads(file.read_text()) == {'one': {'bias': 3}, 'two': {'bias': 2}}
    for other in ('{', '[]'):
        file.write_text(other)
        with pytest.raises(UserError, match='does not contain calibrations'):
            write_entry(file, 'one', {})
        assert file.read_text() == other


def test_the_default_networks_are_calibrated():
    assert {'aliked+lightglue', 'ink'} <= set(SHIPPED)


@pytest.mark.parametrize('method', sorted(set(SHIPPED) - {KIND, POINTS}))
def test_what_is_shipped_did_well_on_pairs_that_it_was_not_fitted_on(method):
    calibration = calibration_of(method)
    signs = INK_SIGNS if method == INK else SIGNS
    assert set(calibration.weights) == set(signs)
    for name, weight in calibration.weights.items():
        assert weight * signs[name] >= 0
    provenance = SHIPPED[method]['provenance']
    assert provenance['command'].startswith('niom calibrate ')
    assert all(len(key) == 64 for key in provenance['data_sha256'])
    held_out = provenance['results']['held out, standard']
    assert held_out['wrong_accepted'] <= 0.02
    assert held_out['false_accept'] < 0.01
    # Only a third of the unrelated pairs have a drawing.
    assert held_out['false_accept_upper'] < (0.05 if method == INK else 0.01)
    # And pairs of two pictures from different halves are in neither.
    assert held_out['unrelated_pairs'] >= (90 if method == INK else 300)
    assert held_out['accepted'] >= 10


def test_few_objects_of_other_kinds_are_called_alike():
    results = SHIPPED[KIND]['provenance']['results']
    for judged in (results['fitted on'], results['cross-fitted']):
        assert judged['other_kinds'] >= 1000 and judged['same_kind'] >= 200
        assert judged['falsely_called_alike_upper'] <= 0.03
        assert judged['called_alike'] > 0.5


def test_points_that_are_claimed_are_mostly_right():
    results = SHIPPED[POINTS]['provenance']['results']
    fitted, unseen = results['fitted on'], results['cross-fitted']
    assert fitted['points'] >= 4000 and fitted['claimed'] > 0.05
    assert fitted['claimed_right'] >= 0.85 > fitted['right'] + 0.25
    assert unseen['claimed_right'] >= 0.8 > unseen['right'] + 0.2


@pytest.mark.parametrize(('name', 'signs'), [(KIND, KIND_SIGNS), (POINTS, POINT_SIGNS)])
def test_nothing_that_speaks_for_a_kind_counts_against_it(name, signs):
    calibration = calibration_of(name)
    assert set(calibration.weights) == set(signs)
    assert all(weight >= 0 for weight in calibration.weights.values())
    assert SHIPPED[name]['provenance']['command'].startswith('niom calibrate ')


# Objects that are alike


def kind_record(same, sign, unit):
    group = 'kind/object' if same else 'unrelated/object'
    return {'group': group, 'unit': unit, 'alike': dict.fromkeys(KIND_SIGNS, sign)}


def test_the_share_of_other_kinds_that_are_called_alike_is_reported():
    calibration = Calibration(dict.fromkeys(KIND_SIGNS, 1.0), -3.9)
    records = [kind_record(True, 0.9, 'a'), kind_record(True, 0.5, 'b')]
    records += [kind_record(False, 0.9 if number < 1 else 0.3, str(number)) for number in range(4)]
    told = kind_performance([(calibration, records)])
    assert (told['same_kind'], told['other_kinds']) == (2, 4)
    assert (told['called_alike'], told['falsely_called_alike']) == (0.0, 0.0)
    bolder = kind_performance([(replace(calibration, bias=-3.4), records)])
    assert (bolder['called_alike'], bolder['falsely_called_alike']) == (0.5, 0.25)
    assert bolder['falsely_called_alike_upper'] > 0.5


def test_the_share_of_claimed_points_that_are_right_is_reported():
    points = Calibration({'peak': 1.0, 'certainty': 0.0}, math.log(2))
    kinds = Calibration(dict.fromkeys(KIND_SIGNS, 1.0), -3.0)
    sharp, blurred = {'peak': 0.6, 'certainty': 1.0}, {'peak': 0.4, 'certainty': 1.0}
    records = [
        {
            'alike_signs': dict.fromkeys(KIND_SIGNS, sign),
            'point_signs': [sharp, sharp, blurred],
            'point_right': [True, sign > 1, False],
        }
        for sign in (0.1, 2.0)
    ]
    told = point_performance([(points, records)], kinds)
    assert told['points'] == 6 and told['right'] == 0.5
    assert told['claimed'] == pytest.approx(2 / 3) and told['claimed_right'] == 0.75
    assert told['claimed_if_alike'] == pytest.approx(2 / 3)
    assert told['claimed_right_if_alike'] == 1


def test_a_deviation_is_what_the_confidence_means():
    # Half of all points of a Gaussian are within 1.177 standard deviations of its centre.
    places, confidences = np.zeros((4, 2)), np.array([0.5, 0.9, 0.0, 1.0])
    half, most, *extremes = guides_at(places, confidences, size=10.0).deviations
    # To a tenth of the object's size, which is 1.
    assert half == pytest.approx(1 / 1.1774, rel=1e-3)
    assert most == pytest.approx(1 / 2.1460, rel=1e-3)
    assert np.isfinite(extremes).all()
