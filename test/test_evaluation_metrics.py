from itertools import pairwise
import math
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.intervals import (
    bootstrap,
    interval,
    paired_difference,
    resamples,
)
from niom_ros.benchmarks.evaluation.metrics import (
    acceptance_curve,
    best_motion,
    chance_pck,
    Consistency,
    consistency,
    error_auc,
    one_hop,
    paired_errors,
    pose_error,
    relative_pose,
    rotation_error,
    share_within,
    translation_error,
    upper_bound,
)
from niom_ros.core.homographies import warp_points

NO_POINTS = np.empty((0, 2))
SHARES = ('pck_01', 'pck_05', 'pck_10', 'recall_01', 'recall_05', 'recall_10')
WORST = Consistency(rmse=math.sqrt(2), **dict.fromkeys(SHARES, 0))


def test_needs_neither_torch_nor_ros():
    code = (
        'import sys, niom_ros.benchmarks.evaluation.metrics; '
        'import niom_ros.benchmarks.evaluation.intervals; '
        "assert not {'torch', 'rclpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, '-c', code], check=True)


# Area under the curve of errors


def superglue_auc(errors, threshold):
    """Sum the trapezoids one by one, as the published evaluation of SuperGlue does."""
    curve = [(0.0, 0.0)]
    for rank, error in enumerate(sorted(errors), start=1):
        if error < threshold:
            curve.append((error, rank / len(errors)))
    curve.append((threshold, curve[-1][1]))
    area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(curve))
    return area / threshold


def step_auc(errors, threshold):
    return sum(max(0.0, threshold - error) for error in errors) / len(errors) / threshold


def test_error_auc_by_hand():
    # Trapezoids of width 1 under recalls 0, 1/4, 1/2, 3/4, then 7 wide at 3/4:
    # 0.125 + 0.375 + 0.625 + 5.25 = 6.375.
    assert error_auc([1, 2, 3, 30], 10) == pytest.approx(0.6375)
    assert error_auc([30, 3, 1, 2], 10) == pytest.approx(0.6375)
    # One error of 4: a triangle 4 wide and 1 high, then 6 at full height.
    assert error_auc([4], 10) == pytest.approx(0.8)


def test_error_auc_at_its_ends():
    assert error_auc([0, 0, 0], 5) == 1
    assert error_auc([math.inf, math.inf], 5) == 0
    assert error_auc([0, math.inf], 5) == 0.5
    assert error_auc([math.nan, 0], 5) == 0.5  # what could not be measured is no success
    assert error_auc([5.0], 5) == 0  # as in SuperGlue, which looks left of the threshold
    assert math.isnan(error_auc([], 5))


@given(
    st.lists(st.floats(0, 50) | st.just(math.inf), min_size=1, max_size=60),
    st.sampled_from([3.0, 5.0, 10.0, 20.0]),
)
@settings(deadline=None)
def test_error_auc_is_that_of_superglue_and_near_the_step_integral(errors, threshold):
    area = error_auc(errors, threshold)
    assert area == pytest.approx(superglue_auc(errors, threshold), abs=1e-12)
    exact = step_auc(errors, threshold)
    assert exact - 1e-12 <= area <= exact + 1 / len(errors)


# Relative pose


def turn(axis, angle):
    """Return the rotation about an axis by an angle in radians."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


@pytest.mark.parametrize('angle', [0, 1e-9, 1e-6, 0.01, 1, 2, math.pi - 1e-6, math.pi])
def test_rotation_error_of_known_angles(angle):
    start = turn([3, -1, 2], 0.7)
    error = rotation_error(start @ turn([1, 2, -2], angle), start)
    assert error == pytest.approx(math.degrees(angle), rel=1e-6, abs=1e-12)


def test_rotation_error_by_hand():
    quarter = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    assert rotation_error(quarter, np.eye(3)) == 90
    assert rotation_error(np.eye(3), quarter) == 90
    assert rotation_error(quarter @ quarter, np.eye(3)) == 180


@pytest.mark.parametrize(
    'angle, expected',
    [
        (0, 0),
        (1e-6, 1e-6),
        (0.5, 0.5),
        (math.pi / 2, math.pi / 2),
        (2.5, math.pi - 2.5),
        (math.pi - 1e-6, 1e-6),
        (math.pi, 0),
    ],
)
def test_translation_error_is_blind_to_sign_and_length(angle, expected):
    truth = np.array([1.0, 2, 2])
    found = turn([2, -1, 0], angle) @ truth * 7
    error = translation_error(found, truth)
    assert error == pytest.approx(math.degrees(expected), rel=1e-6, abs=1e-12)
    assert error == pytest.approx(translation_error(-found[:, None], truth), abs=1e-12)


def test_translation_error_without_a_direction():
    assert translation_error(np.array([0, 0, 1]), np.zeros(3)) == 0
    assert translation_error(np.zeros(3), np.array([0, 0, 1])) == 90
    assert translation_error(np.zeros(3), np.zeros(3)) == 0


def test_pose_error_is_the_larger_one():
    ahead = np.array([0, 0, 1.0])
    turned = turn([0, 1, 0], math.radians(10))
    assert pose_error(turned, ahead, np.eye(3), ahead) == pytest.approx(10)
    assert pose_error(np.eye(3), turned @ ahead, np.eye(3), ahead) == pytest.approx(10)
    assert pose_error(turned, turned @ turned @ ahead, np.eye(3), ahead) == pytest.approx(20)


CAMERA0 = np.array([[600.0, 0, 320], [0, 590, 240], [0, 0, 1]])
CAMERA1 = np.array([[820.0, 0, 400], [0, 820, 300], [0, 0, 1]])
ROTATION = turn([1, 3, -1], math.radians(12))
TRANSLATION = np.array([0.8, -0.1, 0.59])
TRANSLATION /= np.linalg.norm(TRANSLATION)


def seen_scene(seed, outliers, distance=1.0, count=200, noise=0.3):
    """Return matched pixels of scene points 3 to 9 baselines away, times a distance."""
    random = np.random.default_rng(seed)
    points0 = random.uniform((0, 0), (640, 480), (count, 2))
    rays = np.column_stack([points0, np.ones(count)]) @ np.linalg.inv(CAMERA0).T
    before0 = rays * random.uniform(3, 9, (count, 1)) * distance
    before1 = before0 @ ROTATION.T + TRANSLATION
    points1 = warp_points(CAMERA1, before1[:, :2] / before1[:, 2:])
    points0 += random.normal(0, noise, points0.shape)
    points1 += random.normal(0, noise, points1.shape)
    wrong = random.permutation(count)[: int(outliers * count)]
    points1[wrong] = random.uniform((0, 0), (800, 600), (len(wrong), 2))
    return points0, points1


@pytest.mark.parametrize('outliers', [0, 0.3, 0.5])
@pytest.mark.parametrize('seed', [0, 1])
def test_relative_pose_is_recovered(outliers, seed):
    points0, points1 = seen_scene(seed, outliers)
    rotation, translation = relative_pose(points0, points1, CAMERA0, CAMERA1)
    assert pose_error(rotation, translation, ROTATION, TRANSLATION) < 0.5
    # The error is blind to it, yet points lie before the camera only with the right sign.
    assert translation @ TRANSLATION > 0.99
    assert np.linalg.norm(translation) == pytest.approx(1)


def test_relative_pose_takes_float32_and_gives_the_same_twice():
    points0, points1 = (points.astype(np.float32) for points in seen_scene(2, 0.5))
    first = relative_pose(points0, points1, CAMERA0, CAMERA1)
    # Whatever others did with OpenCV's own dice in between.
    relative_pose(*seen_scene(3, 0.5), CAMERA0, CAMERA1)
    second = relative_pose(points0, points1, CAMERA0, CAMERA1)
    assert pose_error(*first, ROTATION, TRANSLATION) < 0.5
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def test_relative_pose_of_a_distant_scene():
    points0, points1 = seen_scene(0, 0, distance=30, noise=0)
    rotation, translation = relative_pose(points0, points1, CAMERA0, CAMERA1)
    assert pose_error(rotation, translation, ROTATION, TRANSLATION) < 0.5


def test_relative_pose_needs_five_points_that_differ():
    points0, points1 = seen_scene(0, 0)
    assert relative_pose(points0[:4], points1[:4], CAMERA0, CAMERA1) is None
    assert relative_pose(NO_POINTS, NO_POINTS, CAMERA0, CAMERA1) is None
    same = np.full((10, 2), 100.0)
    assert relative_pose(same, same, CAMERA0, CAMERA1) is None


@pytest.mark.parametrize('right_one', [0, 1, 2])
def test_best_motion_picks_among_stacked_solutions(right_one):
    points0, points1 = seen_scene(0, 0, noise=0)
    rays0 = warp_points(np.linalg.inv(CAMERA0), points0)
    rays1 = warp_points(np.linalg.inv(CAMERA1), points1)

    def essential(rotation, translation):
        x, y, z = translation
        return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ rotation

    stacked = [
        essential(turn([1, 0, 0], 2), np.array([0, 1.0, 0])),
        essential(turn([0, 1, 0], 1), np.array([0, 0, 1.0])),
    ]
    stacked.insert(right_one, essential(ROTATION, TRANSLATION))
    everybody = np.ones((len(rays0), 1), np.uint8)
    rotation, translation = best_motion(np.vstack(stacked), rays0, rays1, everybody)
    assert pose_error(rotation, translation, ROTATION, TRANSLATION) < 1e-3
    assert everybody.all()


# Triangular matching consistency


def chance(direct, tau, seed=0, count=10_000):
    return chance_pck(direct, tau, count, np.random.default_rng(seed))


def test_one_hop_is_optimal_where_greedy_is_not():
    # The closest pair is 0.3-0.2, but it leaves 0.0-0.9: 1.0 in total. Crosswise it is 0.8.
    from_a = np.array([[0.3, 0], [0.0, 0]])
    to_c = np.array([[0.2, 0], [0.9, 0]])
    rows, columns = one_hop(from_a, np.zeros((2, 1)), to_c, np.zeros((2, 1)))
    assert dict(zip(rows.tolist(), columns.tolist(), strict=True)) == {0: 1, 1: 0}


@pytest.mark.parametrize('apart, joined', [(0.32, [0, 1]), (0.35, [1, 0])])
def test_one_hop_heeds_descriptors_a_third_as_much(apart, joined):
    # By position alone straight costs 0.1 and crosswise 0.3; only crosswise the descriptors agree.
    # Straight, they add 0.3 * 2 * apart: 0.192 keeps it ahead, 0.21 does not.
    from_a, to_c = np.array([[0.4, 0], [0.6, 0]]), np.array([[0.45, 0], [0.55, 0]])
    from_descriptors, to_descriptors = np.array([[0], [apart]]), np.array([[apart], [0]])
    rows, columns = one_hop(from_a, from_descriptors, to_c, to_descriptors)
    assert rows.tolist() == [0, 1]
    assert columns.tolist() == joined
    _, by_position = one_hop(from_a, np.zeros((2, 1)), to_c, np.zeros((2, 1)))
    assert by_position.tolist() == [0, 1]
    _, by_descriptor = one_hop(from_a * 0, from_descriptors, to_c * 0, to_descriptors)
    assert by_descriptor.tolist() == [1, 0]


def test_one_hop_joins_as_many_as_the_smaller_set_has():
    from_a = np.array([[0.1, 0.1], [0.9, 0.9], [0.5, 0.5]])
    to_c = np.array([[0.5, 0.6], [0.1, 0.0]])
    rows, columns = one_hop(from_a, np.zeros((3, 4)), to_c, np.zeros((2, 4)))
    assert rows.tolist() == [0, 2]
    assert columns.tolist() == [1, 0]


def test_one_hop_of_nothing_is_empty():
    some, descriptors = np.array([[0.5, 0.6]]), np.zeros((1, 4))
    # Nobody knows how wide the descriptors of no points are.
    for joined in (
        one_hop(NO_POINTS, np.empty((0, 0)), some, descriptors),
        one_hop(some, descriptors, NO_POINTS, np.empty((0, 0))),
    ):
        for rows in joined:
            assert len(some[rows]) == 0


def test_consistency_by_hand():
    direct = np.array([[0.1, 0.1], [0.5, 0.5], [0.9, 0.1]])
    # The nearest direct points are 0.05, 0.01, 0.3 and 0.1 away, three of them on a limit.
    one_hops = np.array([[0.1, 0.15], [0.5, 0.51], [0.5, 0.2], [0.1, 0.2]])
    result = consistency(direct, one_hops)
    assert result.rmse == pytest.approx(math.sqrt((0.0025 + 0.0001 + 0.09 + 0.01) / 4))
    assert (result.pck_01, result.pck_05, result.pck_10) == (1 / 4, 2 / 4, 3 / 4)
    # From the direct points it is 0.05, 0.01 and more than 0.4.
    assert (result.recall_01, result.recall_05, result.recall_10) == (1 / 3, 2 / 3, 2 / 3)


def test_consistency_of_a_perfect_matcher():
    direct = np.random.default_rng(0).random((50, 2))
    assert consistency(direct, direct[::-1]) == Consistency(rmse=0, **dict.fromkeys(SHARES, 1))


def test_finding_nothing_is_worst():
    some = np.array([[0.5, 0.5]])
    assert consistency(some, NO_POINTS) == WORST
    assert consistency(NO_POINTS, some) == WORST
    assert consistency(NO_POINTS, NO_POINTS) == WORST
    # No other answer is as bad.
    assert consistency(np.array([[0, 0]]), np.array([[1, 1]])).rmse <= WORST.rmse
    assert share_within(paired_errors(NO_POINTS, NO_POINTS, np.eye(3)), 0.1) == 0
    assert chance(NO_POINTS, 0.1) == 0


def test_share_within_includes_the_limit():
    assert share_within(np.array([0.55 - 0.5, 0.0501, 0.0]), 0.05) == 2 / 3
    assert share_within(np.array([math.nan, math.inf, 0.1]), 0.1) == 1 / 3
    assert share_within(np.array([0.0, 0.1]), 0) == 0.5


def test_chance_pck_by_area():
    middle, corner = np.array([[0.5, 0.5]]), np.array([[0, 0]])
    assert chance(middle, 0.1) == pytest.approx(math.pi * 0.01, abs=0.001)
    assert chance(corner, 0.1) == pytest.approx(math.pi * 0.01 / 4, abs=0.001)
    assert chance(middle, 0.8) == 1
    assert chance(middle, 0.4, seed=1, count=100) == chance(middle, 0.4, seed=1, count=100)
    assert len({chance(middle, 0.4, seed, count=100) for seed in range(5)}) > 1


def test_chance_pck_does_not_lean_where_cells_are_large():
    # Nine cells; a disc of an area of 0.0314 around a point that is no special place in them.
    levels = [chance(np.array([[0.4, 0.3]]), 0.1, seed, count=9) for seed in range(2000)]
    assert np.mean(levels) == pytest.approx(math.pi * 0.01, abs=0.006)


@pytest.mark.parametrize('count, tau', [(20, 0.05), (100, 0.05), (100, 0.1), (500, 0.01)])
def test_chance_pck_is_the_area_near_direct_matches(count, tau):
    direct = np.random.default_rng(5).random((count, 2))
    ticks = (np.arange(150) + 0.5) / 150
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 1, 2)
    nearest_squares = np.full(len(grid), np.inf)
    for point in direct:
        nearest_squares = np.minimum(nearest_squares, ((grid[:, 0] - point) ** 2).sum(axis=1))
    covered = (nearest_squares <= tau**2).mean()
    assert chance(direct, tau) == pytest.approx(covered, abs=0.005)


def test_noise_saturates_the_nearest_point_but_not_the_paired_variant():
    random = np.random.default_rng(1)
    direct, noise = random.random((500, 2)), random.random((20_000, 2))
    scored = consistency(direct, noise).pck_05
    # Without a border 1 - exp(-500 pi tau^2) = 0.980; border points have fewer neighbours.
    assert scored == pytest.approx(0.973, abs=0.013)
    assert scored == pytest.approx(chance(direct, 0.05), abs=0.005)
    paired = share_within(paired_errors(random.random((20_000, 2)), noise, np.eye(3)), 0.05)
    # pi tau^2, less what is cut off at the border.
    assert paired == pytest.approx(math.pi * 0.05**2, abs=0.0015)


def test_paired_errors_by_hand():
    # A enlarged about its centre by 2: (0.5, 0.5) stays, (0.6, 0.5) goes to (0.7, 0.5).
    enlarged = np.array([[2, 0, -0.5], [0, 2, -0.5], [0, 0, 1]])
    a_points = np.array([[0.5, 0.5], [0.6, 0.5], [0.5, 0.4]])
    c_points = np.array([[0.5, 0.5], [0.7, 0.6], [0.2, 0.7]])
    errors = paired_errors(a_points, c_points, enlarged)
    assert errors.tolist() == pytest.approx([0, 0.1, 0.5])
    assert share_within(errors, 0.1) == 2 / 3


def test_paired_errors_know_which_point_is_which():
    points = np.array([[0.2, 0.2], [0.8, 0.8]])
    swapped = points[::-1]
    assert consistency(points, swapped).pck_01 == 1
    assert share_within(paired_errors(points, swapped, np.eye(3)), 0.1) == 0


# Landmarks


# Abstaining


def test_upper_bound_by_hand():
    assert upper_bound(0, 400) == pytest.approx(0.00746, abs=5e-6)
    assert upper_bound(0, 400) == pytest.approx(1 - 0.05 ** (1 / 400))
    assert upper_bound(0, 1, level=0.9) == pytest.approx(0.9)
    assert upper_bound(0, 0) == 1
    assert upper_bound(7, 7) == 1


@given(st.integers(0, 60), st.integers(1, 60), st.sampled_from([0.8, 0.95, 0.99]))
@settings(deadline=None)
def test_upper_bound_leaves_just_the_chance_it_says(successes, further, level):
    trials = successes + further
    bound = upper_bound(successes, trials, level)
    as_few = sum(
        math.comb(trials, k) * bound**k * (1 - bound) ** (trials - k) for k in range(successes + 1)
    )
    assert as_few == pytest.approx(1 - level, rel=1e-6)


def test_acceptance_curve_by_hand():
    confidences = np.array([0.2, 0.9, 0.5, 0.9, 0.5])
    right = np.array([False, True, False, True, True])
    curve = acceptance_curve(confidences, right)
    assert curve.accepted.tolist() == [2 / 5, 4 / 5, 1]
    assert curve.wrong.tolist() == [0, 1 / 4, 2 / 5]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
@settings(deadline=None)
def test_acceptance_curve_counts_what_each_threshold_accepts(answers):
    confidences = np.array([confidence for confidence, _ in answers], float)
    right = np.array([is_right for _, is_right in answers], bool)
    curve = acceptance_curve(confidences, right)
    thresholds = sorted(set(confidences.tolist()), reverse=True)
    for threshold, accepted, wrong in zip(thresholds, curve.accepted, curve.wrong, strict=True):
        taken = [is_right for confidence, is_right in answers if confidence >= threshold]
        assert accepted == len(taken) / len(answers)
        assert wrong == taken.count(False) / len(taken)


# Intervals


def mean(records):
    return {'mean': float(np.mean(records))}


def width(ends):
    return ends[1] - ends[0]


def test_resamples_keep_units_whole():
    units = ['a', 'b', 'a', 'c', 'c', 'c']
    drawn_units = set()
    for drawn in resamples(units, seed=0, count=200):
        counts = np.bincount(drawn, minlength=6)
        assert counts[0] == counts[2]
        assert counts[3] == counts[4] == counts[5]
        assert counts[[0, 1, 3]].sum() == 3
        drawn_units.add(tuple(counts[[0, 1, 3]].tolist()))
    # All ten ways to draw three out of three turn up.
    assert len(drawn_units) == 10


def test_resamples_depend_on_the_seed_and_not_on_the_order_of_records():
    units = [f'pair {index % 20}' for index in range(60)]

    def drawn_names(names, seed):
        return [sorted(names[index] for index in drawn) for drawn in resamples(names, seed, 10)]

    assert len(resamples(units, 3)) == 1000
    assert drawn_names(units, 3) == drawn_names(units, 3)
    assert drawn_names(units, 3) == drawn_names(units[::-1], 3)
    assert drawn_names(units, 3) != drawn_names(units, 4)


def test_resamples_of_nothing_are_empty():
    assert [len(drawn) for drawn in resamples([], 0, 2)] == [0, 0]


def test_interval_by_hand():
    values = np.arange(101.0)
    assert interval(np.random.default_rng(0).permutation(values), 0.9) == [5, 95]
    assert interval(np.append(values, [math.nan] * 50), 0.9) == [5, 95]
    assert interval(np.array([2.0])) == [2, 2]
    assert interval(np.array([1.0, *[math.inf] * 99])) == [math.inf, math.inf]
    assert interval(np.array([*[1.0] * 50, *[math.inf] * 50])) == [1, math.inf]
    assert all(math.isnan(end) for end in interval(np.array([math.nan, math.nan])))
    assert all(math.isnan(end) for end in interval(np.array([])))


def test_bootstrap_summarises_every_draw():
    records, units = [1.0, 2.0, 4.0], ['a', 'b', 'c']
    samples = bootstrap(records, units, lambda drawn: {'sum': sum(drawn)}, seed=1, count=50)
    expected = [sum(records[index] for index in drawn) for drawn in resamples(units, 1, 50)]
    assert list(samples) == ['sum']
    assert samples['sum'].tolist() == expected
    assert len(set(expected)) > 3


def test_bootstrap_marks_what_a_draw_does_not_define():
    def best_of_each_kind(drawn):
        return dict(sorted(drawn))

    records = [('fog', 1.0), ('snow', 2.0)]
    samples = bootstrap(records, ['a', 'b'], best_of_each_kind, seed=0, count=100)
    assert samples.keys() == {'fog', 'snow'}
    missing = np.isnan(samples['fog'])
    assert 5 < missing.sum() < 60  # a quarter of the draws are 'b' twice
    assert (samples['fog'][~missing] == 1).all()
    assert not (missing & np.isnan(samples['snow'])).any()
    assert interval(samples['fog']) == [1, 1]


def test_every_draw_has_each_data_set_in_full():
    units = ['a1', 'a1', 'a2', 'a3', 'b1', 'b1']
    strata = ['a', 'a', 'a', 'a', 'b', 'b']
    draws = resamples(units, 0, 200, strata)
    for drawn in draws:
        assert sum(index in (4, 5) for index in drawn) == 2  # the only unit of b
        assert 3 <= sum(index < 4 for index in drawn) <= 6
    assert len({tuple(drawn) for drawn in draws}) > 5
    # Without strata, most draws have another share of b.
    assert len({sum(index > 3 for index in drawn) for drawn in resamples(units, 0, 200)}) > 2


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    random = np.random.default_rng(0)
    units = [str(index) for index in range(100)]
    covered = 0
    for seed in range(100):
        hits = (random.random(100) < 0.7).astype(float)
        low, high = interval(bootstrap(hits, units, mean, seed, 200)['mean'])
        covered += low <= 0.7 <= high
    assert 85 <= covered <= 99


def test_many_views_of_a_pair_are_no_more_evidence_than_the_pair():
    hits = (np.random.default_rng(0).random(60) < 0.6).astype(float)
    units = [str(index) for index in range(60)]
    once = interval(bootstrap(hits, units, mean, 0, 300)['mean'])
    seen_often = bootstrap(np.repeat(hits, 31), np.repeat(units, 31).tolist(), mean, 0, 300)
    assert width(interval(seen_often['mean'])) == pytest.approx(width(once))
    assert width(once) == pytest.approx(2 * 1.96 * math.sqrt(0.6 * 0.4 / 60), rel=0.2)


def test_paired_difference_is_narrower_than_an_independent_one():
    random = np.random.default_rng(0)
    difficulty = random.normal(0, 1, 80)
    ours = difficulty + 0.2 + random.normal(0, 0.1, 80)
    units = [str(index) for index in range(80)]
    samples = bootstrap(ours, units, mean, seed=0, count=400)
    paired = paired_difference(samples, bootstrap(difficulty, units, mean, 0, 400))['mean']
    independent = paired_difference(samples, bootstrap(difficulty, units, mean, 1, 400))['mean']
    assert 0 < paired[0] < 0.2 < paired[1] + 0.05
    assert width(paired) < width(independent) / 3
    assert independent[0] < 0 < independent[1]


def test_paired_difference_by_hand():
    ours = {'auc': np.array([3.0, 5.0]), 'only ours': np.array([1.0, 1.0])}
    theirs = {'auc': np.array([1.0, 4.0]), 'only theirs': np.array([1.0, 1.0])}
    assert paired_difference(ours, theirs) == {'auc': [1, 2]}
    with pytest.raises(ValueError):
        paired_difference(ours, {'auc': np.zeros(3)})
