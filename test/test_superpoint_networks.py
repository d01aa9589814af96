"""SuperPoint and SuperGlue with random weights: all that does not depend on the real ones."""

import math

import pytest
import torch
from torch._subclasses import FakeTensorMode

from niom_ros.networks.superglue import ImageSide, mutual_matches, optimal_transport, SuperGlue
from niom_ros.networks.superpoint import (
    as_grey,
    NMS_RADIUS,
    only_peaks,
    sample_descriptors,
    SuperPoint,
)

SIZE0, SIZE1 = (320, 240), (200, 300)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def superpoint(max_keypoints=10_000):
    torch.manual_seed(0)
    return SuperPoint(max_keypoints).eval()


@pytest.fixture(scope='module')
def superglue():
    torch.manual_seed(0)
    model = SuperGlue().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 2)
    return model


def noise(height, width, channels=1, seed=0):
    return torch.rand(1, channels, height, width, generator=torch.Generator().manual_seed(seed))


def features(count, size, seed):
    random = torch.Generator().manual_seed(seed)
    keypoints = torch.rand(count, 2, generator=random) * torch.tensor(size)
    scores = torch.rand(count, generator=random)
    descriptors = torch.randn(count, 256, generator=random)
    return keypoints, scores, torch.nn.functional.normalize(descriptors, dim=1)


def waves(shape, pitch):
    numbers = torch.arange(1, shape.numel() + 1, dtype=torch.float64)
    return torch.sin(pitch * numbers**1.5).reshape(shape)


def with_known_weights(model):
    """Fill all weights with reproducible pseudo-random numbers."""
    for pitch, (name, values) in enumerate(sorted(model.state_dict().items()), start=1):
        if values.is_floating_point():
            gain = (4 / values[0].numel()) ** 0.5 if values.ndim > 1 else 0.1
            values.copy_(gain * waves(values.shape, pitch) + name.endswith('running_var'))
    return model.eval()


def known_features(count, pitch):
    keypoints = 40 + 40 * waves(torch.Size([count, 2]), pitch)
    scores = waves(torch.Size([count]), pitch) ** 2
    descriptors = waves(torch.Size([count, 256]), pitch)
    return keypoints, scores, torch.nn.functional.normalize(descriptors, dim=1)


def spacing(keypoints):
    apart = torch.cdist(keypoints, keypoints, p=math.inf)
    return apart.fill_diagonal_(math.inf).min()


# SuperPoint


@pytest.mark.parametrize('channels', [1, 3])
def test_superpoint_returns_described_keypoints(channels):
    keypoints, scores, descriptors = superpoint()(noise(96, 128, channels))
    count = len(keypoints)
    assert count > 50
    assert keypoints.shape == (count, 2)
    assert scores.shape == (count,)
    assert descriptors.shape == (count, 256)
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(count))


def test_superpoint_keypoints_are_apart_and_not_at_the_border():
    keypoints, scores, _ = superpoint()(noise(96, 128))
    assert spacing(keypoints) > NMS_RADIUS
    assert keypoints.amin() >= 4
    assert keypoints.amax(dim=0).le(torch.tensor([128 - 5, 96 - 5])).all()
    assert scores.min() > 0.0005


def test_superpoint_returns_the_best_first_and_no_more_than_asked_for():
    all_keypoints, all_scores, all_descriptors = superpoint()(noise(96, 128))
    assert all_scores.equal(all_scores.sort(descending=True).values)
    keypoints, scores, descriptors = superpoint(max_keypoints=20)(noise(96, 128))
    assert keypoints.equal(all_keypoints[:20])
    assert scores.equal(all_scores[:20])
    torch.testing.assert_close(descriptors, all_descriptors[:20])


def test_superpoint_keypoints_lie_where_the_scores_are():
    model = superpoint()
    image = noise(64, 80)
    keypoints, scores, _ = model(image)
    columns, rows = keypoints.long().T
    dense_scores, _ = model.dense(image)
    assert dense_scores[rows, columns].equal(scores)


@pytest.mark.parametrize(
    'height, width', [(97, 131), (65, 79), (64, 71), (33, 8), (15, 9), (8, 8)]
)
def test_superpoint_takes_images_of_any_size(height, width):
    keypoints, scores, descriptors = superpoint()(noise(height, width))
    assert len(keypoints) == len(scores) == len(descriptors)
    assert bool(len(keypoints)) == (min(height, width) >= 16)
    assert keypoints.ge(4).all()
    assert keypoints.lt(torch.tensor([width - 4, height - 4])).all()


def test_superpoint_of_an_image_without_keypoints_is_empty():
    model = superpoint()
    model.convPb.bias[-1] = 100
    keypoints, scores, descriptors = model(noise(64, 80))
    assert keypoints.shape == (0, 2)
    assert scores.shape == (0,)
    assert descriptors.shape == (0, 256)


def test_scores_of_a_cell_are_laid_out_row_by_row():
    model = superpoint()
    model.convPb.weight.zero_()
    model.convPb.bias.zero_()
    model.convPb.bias[3 * 8 + 5] = 10
    scores, _ = model.dense(noise(32, 24))
    rows, columns = torch.where(scores > 0.5)
    assert sorted(set(rows.tolist())) == [3, 11, 19, 27]
    assert sorted(set(columns.tolist())) == [5, 13, 21]


def test_grey_is_what_the_eye_sees():
    image = torch.eye(3).reshape(1, 3, 1, 3)
    torch.testing.assert_close(as_grey(image)[0, 0, 0], torch.tensor([0.299, 0.587, 0.114]))


def test_a_pixel_is_a_peak_once_a_better_one_is_suppressed():
    scores = torch.zeros(1, 30)
    scores[0, 5], scores[0, 8], scores[0, 11] = 0.9, 0.8, 0.7
    peaks = only_peaks(scores)
    assert torch.where(peaks[0] > 0)[0].tolist() == [5, 11]
    assert peaks[0, [5, 11]].equal(scores[0, [5, 11]])


def test_descriptors_between_cells_are_mixed():
    cells = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).reshape(2, 1, 2)
    first, between = sample_descriptors(cells, torch.tensor([[3.5, 3.5], [3.5 + 11.5 / 2, 3.5]]))
    torch.testing.assert_close(first, torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(between, torch.tensor([0.5, 0.5]).sqrt())


# SuperGlue


@pytest.mark.parametrize('count0, count1', [(40, 60), (60, 40), (1, 5), (1, 1)])
def test_assignment_has_the_sums_of_optimal_transport(superglue, count0, count1):
    assignment = superglue(
        ImageSide(*features(count0, SIZE0, 1), SIZE0),
        ImageSide(*features(count1, SIZE1, 2), SIZE1),
    ).exp()
    assert assignment.shape == (count0 + 1, count1 + 1)
    row_sums, column_sums = torch.ones(count0 + 1), torch.ones(count1 + 1)
    row_sums[-1], column_sums[-1] = count1, count0
    torch.testing.assert_close(assignment.sum(dim=1), row_sums, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(assignment.sum(dim=0), column_sums, atol=1e-3, rtol=1e-3)


def test_sinkhorn_leaves_scores_of_rank_one_as_they_are():
    # exp(scores) of three rows and two columns, all equal: the sums alone decide.
    assignment = optimal_transport(torch.ones(3, 2), torch.ones(()), iterations=1).exp()
    expected = torch.outer(torch.tensor([1.0, 1, 1, 2]), torch.tensor([1.0, 1, 3])) / 5
    torch.testing.assert_close(assignment, expected)


def test_more_iterations_come_closer_to_the_sums():
    scores = 5 * torch.randn(30, 20, generator=torch.Generator().manual_seed(0))

    def error(iterations):
        assignment = optimal_transport(scores, torch.ones(()), iterations).exp()
        return (assignment[:-1].sum(dim=1) - 1).abs().max()

    assert error(100) < error(10) < error(1)


def test_half_precision_is_left_for_sinkhorn():
    scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).half()
    assignment = optimal_transport(scores, torch.ones(()), iterations=100)
    assert assignment.equal(optimal_transport(scores.float(), torch.ones(()), iterations=100))


@pytest.mark.parametrize('count0, count1', [(0, 7), (7, 0), (0, 0)])
def test_nothing_matches_an_image_without_keypoints(superglue, count0, count1):
    assignment = superglue(
        ImageSide(*features(count0, SIZE0, 1), SIZE0),
        ImageSide(*features(count1, SIZE1, 2), SIZE1),
    )
    assert assignment.shape == (count0 + 1, count1 + 1)
    assert assignment.exp()[:-1].sum(dim=1).equal(torch.ones(count0))
    assert assignment.exp()[:, :-1].sum(dim=0).equal(torch.ones(count1))
    matches, scores = mutual_matches(assignment, 0.0)
    assert matches.shape == (0, 2)
    assert matches.dtype == torch.int64
    assert scores.shape == (0,)


def test_the_order_of_keypoints_does_not_matter(superglue):
    first, second = features(30, SIZE0, 1), features(20, SIZE1, 2)
    assignment = superglue(ImageSide(*first, SIZE0), ImageSide(*second, SIZE1))
    random = torch.Generator().manual_seed(3)
    order0 = torch.randperm(30, generator=random)
    order1 = torch.randperm(20, generator=random)
    shuffled = superglue(
        ImageSide(*(values[order0] for values in first), SIZE0),
        ImageSide(*(values[order1] for values in second), SIZE1),
    )
    with_bin0, with_bin1 = torch.cat([order0, order0.new_tensor([30])]), [*order1.tolist(), 20]
    expected = assignment[with_bin0][:, with_bin1]
    torch.testing.assert_close(shuffled, expected, atol=1e-4, rtol=1e-4)


def test_the_order_of_images_does_not_matter(superglue):
    first, second = features(30, SIZE0, 1), features(20, SIZE1, 2)
    there = superglue(ImageSide(*first, SIZE0), ImageSide(*second, SIZE1))
    back = superglue(ImageSide(*second, SIZE1), ImageSide(*first, SIZE0))
    torch.testing.assert_close(there.exp(), back.T.exp(), atol=1e-3, rtol=1e-3)


def test_positions_are_relative_to_the_longer_side(superglue):
    keypoints, scores, _ = features(10, SIZE0, 1)
    encoding = superglue.kenc(keypoints, scores, SIZE0)
    doubled = superglue.kenc(2 * keypoints, scores, (640, 480))
    torch.testing.assert_close(encoding, doubled)
    assert not torch.allclose(encoding, superglue.kenc(keypoints, scores, (240, 320)))


def test_weights_on_descriptors_have_an_effect(superglue):
    keypoints, scores, descriptors = features(30, SIZE0, 1)
    other = features(20, SIZE1, 2)
    plain = superglue(ImageSide(keypoints, scores, descriptors, SIZE0), ImageSide(*other, SIZE1))
    weighted = superglue(
        ImageSide(keypoints, scores, 0.3 * descriptors, SIZE0), ImageSide(*other, SIZE1)
    )
    assert not torch.allclose(plain, weighted, atol=1e-3)


def test_mutual_matches_by_hand():
    assignment = torch.tensor(
        [
            [0.1, 0.7, 0.0, 0.2],
            [0.6, 0.1, 0.0, 0.3],  # better for column 0 than row 2
            [0.5, 0.1, 0.1, 0.3],
            [0.0, 0.0, 0.3, 0.7],  # better off without a partner, but mutual all the same
            [0.0, 0.1, 0.6, 1.5],
        ]
    ).log()
    matches, scores = mutual_matches(assignment, 0.2)
    assert matches.tolist() == [[0, 1], [1, 0], [3, 2]]
    torch.testing.assert_close(scores, torch.tensor([0.7, 0.6, 0.3]))
    matches, scores = mutual_matches(assignment, 0.65)
    assert matches.tolist() == [[0, 1]]
    matches, scores = mutual_matches(assignment, 0.9)
    assert matches.shape == (0, 2)
    assert scores.shape == (0,)


def test_mutual_matches_use_no_keypoint_twice():
    matches, _ = mutual_matches(torch.zeros(4, 5), 0.0)
    assert matches.tolist() == [[0, 0]]


# Both


def test_weights_have_the_published_names():
    names = SuperPoint(1).state_dict()
    assert len(names) == 24
    assert names['conv4a.weight'].shape == (128, 128, 3, 3)
    assert names['convPb.weight'].shape == (65, 256, 1, 1)
    assert names['convDb.bias'].shape == (256,)
    names = SuperGlue().state_dict()
    assert len(names) == 339
    assert names['bin_score'].shape == ()
    assert names['kenc.encoder.0.weight'].shape == (32, 3, 1)
    assert names['kenc.encoder.12.weight'].shape == (256, 256, 1)
    assert names['gnn.layers.17.attn.proj.2.weight'].shape == (256, 256, 1)
    assert names['gnn.layers.17.attn.merge.weight'].shape == (256, 256, 1)
    assert names['gnn.layers.17.mlp.1.running_mean'].shape == (512,)
    assert names['gnn.layers.17.mlp.3.weight'].shape == (256, 512, 1)
    assert names['final_proj.weight'].shape == (256, 256, 1)


# The published code computes these numbers, with the same weights and inputs.


def test_superpoint_computes_what_the_published_one_does():
    model = with_known_weights(SuperPoint(6).double())
    image = (waves(torch.Size([1, 1, 45, 61]), 1) + 1) / 2
    keypoints, scores, descriptors = (values.float() for values in model(image))
    assert keypoints.tolist() == [[40, 13], [32, 21], [40, 21], [40, 29], [19, 30], [48, 13]]
    expected_scores = torch.tensor([0.30574, 0.21462, 0.21054, 0.15684, 0.15555, 0.15281])
    torch.testing.assert_close(scores, expected_scores, atol=1e-4, rtol=0)
    expected = torch.tensor([-0.01869, 0.00415, 0.00326, 0.03487, 0.05021, -0.02121])
    torch.testing.assert_close(descriptors[:, 0], expected, atol=1e-4, rtol=0)


def test_superglue_computes_what_the_published_one_does():
    model = with_known_weights(SuperGlue().double())
    assignment = model(
        ImageSide(*known_features(6, 1.3), (90, 80)), ImageSide(*known_features(5, 1.7), (80, 100))
    )
    expected = torch.tensor([-2.01496, -1.83553, -1.71584, -1.68870, -1.77617, -1.73175, 1.60870])
    torch.testing.assert_close(assignment[:, -1].float(), expected, atol=1e-4, rtol=0)
    expected = torch.tensor([-7.12852, -7.21869, -7.33965, -7.08642, -7.31540, 1.60870])
    torch.testing.assert_close(assignment[-1].float(), expected, atol=1e-4, rtol=0)


def test_networks_run_in_half_precision(superglue):
    with torch.autocast('cpu', torch.float16):
        keypoints, scores, descriptors = superpoint(30)(noise(32, 40))
        side = ImageSide(keypoints, scores, descriptors, (40, 32))
        assignment = superglue(side, side)
    assert keypoints.dtype == scores.dtype == descriptors.dtype == torch.float32
    assert spacing(keypoints) > NMS_RADIUS
    assert assignment.dtype == torch.float32
    assert assignment.isfinite().all()


def test_networks_run_in_double_precision():
    torch.manual_seed(0)
    found = superpoint(50).double()(noise(64, 80).double())
    assignment = (
        SuperGlue().eval().double()(ImageSide(*found, (80, 64)), ImageSide(*found, (80, 64)))
    )
    assert {values.dtype for values in (*found, assignment)} == {torch.float64}


def test_superpoint_stays_on_the_device_of_its_input():
    with FakeTensorMode():
        with torch.device('cuda'):
            model = SuperPoint(100).eval()
        scores, descriptors = model.dense(torch.rand(1, 3, 97, 131, device='cuda'))
        assert scores.shape == (96, 128)
        assert descriptors.shape == (256, 12, 16)
        assert only_peaks(scores).device.type == 'cuda'
        keypoints = torch.rand(50, 2, device='cuda')
        # cuDNN's sampling cannot be faked.
        with torch.backends.cudnn.flags(enabled=False):
            sampled = sample_descriptors(descriptors, keypoints)
        assert sampled.shape == (50, 256)
        assert sampled.device.type == 'cuda'


def test_superglue_stays_on_the_device_of_its_input():
    with FakeTensorMode():
        with torch.device('cuda'):
            model = SuperGlue().eval()
        first, second = (
            (
                torch.rand(count, 2, device='cuda'),
                torch.rand(count, device='cuda'),
                torch.rand(count, 256, device='cuda'),
            )
            for count in (30, 20)
        )
        assignment = model(ImageSide(*first, SIZE0), ImageSide(*second, SIZE1))
        assert assignment.shape == (31, 21)
        assert assignment.device.type == 'cuda'
