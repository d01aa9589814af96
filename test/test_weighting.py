"""Weights against numbers computed by hand."""

import pytest
import torch

from niom_ros.core.settings import SettingsError, Weighting
from niom_ros.matching.weighting import one_heat, weighted, weights_of

HEAT = torch.tensor([0.0, 0.5, 1.0, 0.25])
SEW = Weighting('sew')


def test_sew_is_the_formula_of_the_paper():
    # (1 + H) / max(1 + H) = 1/2, 1.5/2, 2/2, 1.25/2
    assert weights_of(HEAT, SEW).tolist() == pytest.approx([0.5, 0.75, 1.0, 0.625])


def test_the_largest_heat_at_a_keypoint_normalises_even_if_it_is_not_1():
    # 1/1.5, 1.5/1.5
    weights = weights_of(torch.tensor([0.0, 0.5]), SEW)
    assert weights.tolist() == pytest.approx([2 / 3, 1])


@pytest.mark.parametrize(
    ('spread', 'expected'),
    [
        (0.0, [1, 1, 1, 1]),
        (0.25, [0.75, 0.875, 1, 0.8125]),
        (0.5, [0.5, 0.75, 1, 0.625]),
        (0.8, [0.2, 0.6, 1, 0.4]),
    ],
)
def test_the_range_sets_the_smallest_weight(spread, expected):
    weights = weights_of(HEAT, Weighting('sew', range=spread))
    assert weights.tolist() == pytest.approx(expected)


@pytest.mark.parametrize('kind', ['sew', 'uniform', 'shuffled', 'none'])
def test_no_heat_leaves_descriptors_as_they_are(kind):
    descriptors = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    weights = weights_of(torch.zeros(4), Weighting(kind))
    assert torch.equal(weighted(descriptors, weights), descriptors)


def test_the_rejected_variants_of_the_paper():
    assert weights_of(HEAT, Weighting('heat')).tolist() == HEAT.tolist()
    assert weights_of(HEAT, Weighting('one_plus_heat')).tolist() == (1 + HEAT).tolist()


def test_uniform_has_the_mean_of_sew_everywhere():
    # (0.5 + 0.75 + 1 + 0.625) / 4
    assert weights_of(HEAT, Weighting('uniform')).tolist() == pytest.approx([0.71875] * 4)


def test_shuffled_has_the_weights_of_sew_in_another_order_the_same_for_a_seed():
    heat = torch.linspace(0, 1, 50)
    sew = weights_of(heat, SEW)
    shuffled = weights_of(heat, Weighting('shuffled', seed=3))
    assert torch.equal(shuffled.sort().values, sew.sort().values)
    assert not torch.equal(shuffled, sew)
    assert torch.equal(shuffled, weights_of(heat, Weighting('shuffled', seed=3)))
    assert not torch.equal(shuffled, weights_of(heat, Weighting('shuffled', seed=4)))


def test_several_objects_become_one_heat():
    heat = torch.tensor([[0.0, 0.2, 1.0], [0.0, 0.6, 1.0]])
    assert one_heat(heat, 'max').tolist() == pytest.approx([0, 0.6, 1])
    assert one_heat(heat, 'mean').tolist() == pytest.approx([0, 0.4, 1])
    # 2 / (1 + exp(-0.8)) - 1 and 2 / (1 + exp(-2)) - 1
    assert one_heat(heat, 'sigmoid').tolist() == pytest.approx([0, 0.379949, 0.761594], abs=1e-5)
    # exp(0.2) = 1.2214, exp(0.6) = 1.8221: (0.2 * 1.2214 + 0.6 * 1.8221) / 3.0435
    assert one_heat(heat, 'softmax').tolist() == pytest.approx([0, 0.439475, 1], abs=1e-5)


def test_a_descriptor_is_scaled_and_keeps_its_direction():
    descriptors = torch.tensor([[3.0, -4.0], [0.6, 0.8]])
    scaled = weighted(descriptors, torch.tensor([0.5, 1.0]))
    assert scaled.tolist() == [pytest.approx([1.5, -2.0]), pytest.approx([0.6, 0.8])]


def test_no_keypoints_no_weights():
    assert weights_of(torch.empty(0), SEW).shape == (0,)


@pytest.mark.parametrize(
    ('wrong', 'words'),
    [
        ({'kind': 'magic'}, "unknown weighting 'magic': use one of auto, sew"),
        ({'range': 1.0}, 'weight_range is 1.0'),
        ({'range': float('nan')}, 'weight_range is nan'),
        ({'aggregation': 'sum'}, "unknown heat_aggregation 'sum'"),
        ({'stage': 'during'}, "unknown weight_stage 'during'"),
    ],
)
def test_what_has_no_meaning_is_refused(wrong, words):
    with pytest.raises(SettingsError, match=words):
        Weighting(**wrong)
