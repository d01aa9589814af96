"""The networks on a GPU that is not there.

Under FakeTensorMode tensors have shape, type and device but no values: on fake CUDA tensors every
operation that mixes devices raises, also on a machine without a GPU. What picks single points by
their value cannot run without values; the tests go around exactly that step.
"""

from collections.abc import Iterator
from contextlib import contextmanager, ExitStack
from unittest.mock import patch

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from niom_ros.core.settings import Settings, Weighting, WEIGHTINGS
from niom_ros.matching.features import extractor_plugin, Features
from niom_ros.matching.keypoint_matcher import load_matcher
from niom_ros.matching.weighting import one_heat, weighted, weights_of
from niom_ros.models.store import ModelStore
from niom_ros.networks.aliked import Maps
from niom_ros.networks.superglue import ImageSide, SuperGlue
from niom_ros.networks.superpoint import SuperPoint
from niom_ros.semantics.detectors.darknet import load_yolov4_tiny
from niom_ros.semantics.detectors.grid_detector import DetectorOptions
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap

CPU = torch.device('cpu')
PRECISIONS = pytest.mark.parametrize('half', [False, True], ids=['single', 'half'])


@contextmanager
def fake_gpu(half: bool, *modules: torch.nn.Module) -> Iterator[None]:
    """Move modules to a GPU without one, and run what follows there."""
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(shape_env=ShapeEnv()))
        for module in modules:
            for part in module.modules():
                for tensors in (part._parameters, part._buffers):
                    for name, tensor in tensors.items():
                        if tensor is not None:
                            tensors[name] = moved(tensor)
        stack.enter_context(torch.no_grad())
        # Without a GPU autocast would switch itself off.
        there = patch('torch.cuda.amp.common.amp_definitely_not_available', return_value=False)
        stack.enter_context(there)
        stack.enter_context(torch.autocast('cuda', torch.float16, enabled=half))
        yield


def moved(tensor: torch.Tensor) -> torch.Tensor:
    fake = torch.empty(tensor.shape, dtype=tensor.dtype, device='cuda')
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=False)
    return fake


def fake_features(count: int, dimensions: int) -> Features:
    return Features(
        torch.rand(count, 2, device='cuda') * 300,
        torch.rand(count, device='cuda'),
        torch.rand(count, dimensions, device='cuda'),
        320,
        240,
    )


def aliked_maps(maps: Maps) -> tuple[torch.Tensor, ...]:
    return maps.scores, maps.finest, *maps.coarse


def test_mixing_devices_raises_here_too():
    with fake_gpu(False), pytest.raises(RuntimeError, match='device'):
        torch.rand(3, device='cuda') + torch.rand(3)


@PRECISIONS
@pytest.mark.parametrize(
    ('extractor', 'dense'),
    [
        ('aliked', lambda model, image: aliked_maps(model.dense(image))),
        ('disk', lambda model, image: model.model.heatmap_and_dense_descriptors(image)),
        ('xfeat', lambda model, image: model.model.net(image)),
    ],
)
def test_extractors(extractor, dense, half):
    model = extractor_plugin(extractor).load(Settings(max_keypoints=256), ModelStore(), CPU)
    with fake_gpu(half, model):
        outputs = dense(model, torch.rand(1, 3, 224, 320, device='cuda'))
        assert {output.device.type for output in outputs} == {'cuda'}
        assert any(output.dtype == torch.float16 for output in outputs) == half


@PRECISIONS
def test_descriptors_of_aliked(half):
    model = extractor_plugin('aliked').load(Settings(max_keypoints=256), ModelStore(), CPU)
    with fake_gpu(half, model):
        maps = model.dense(torch.rand(1, 3, 240, 320, device='cuda'))
        descriptors = model.describe(maps, torch.rand(50, 2, device='cuda') * 200)
        assert descriptors.shape == (50, 128)
        assert descriptors.device.type == 'cuda'


@PRECISIONS
def test_superpoint(half):
    model = SuperPoint(256).eval()
    with fake_gpu(half, model):
        for output in model.dense(torch.rand(1, 3, 240, 320, device='cuda')):
            assert output.device.type == 'cuda'


@PRECISIONS
def test_from_the_detector_to_weights(half):
    detector = load_yolov4_tiny(ModelStore(), DetectorOptions(), CPU)
    with fake_gpu(half, detector.network):
        letterbox = detector.letterbox(320, 240)
        size = letterbox.input_height, letterbox.input_width
        output = detector.run_network(torch.rand(1, 3, *size, device='cuda'))
        assert output.features is not None and output.features.device.type == 'cuda'
        keypoints = fake_features(200, 128).keypoints
        heat = []
        for level in output.levels:
            assert level.boxes.device.type == level.scores.device.type == 'cuda'
            grid = level.evidence[0, 0]
            for gate in (Area(10, 20, 90, 70), None):
                made = HeatMap.of_grid(grid, letterbox.frame(*grid.shape), gate)
                heat.append(made.at(keypoints))
                assert made.picture(320, 240).device.type == 'cuda'
        for kind in WEIGHTINGS:
            weights = weights_of(one_heat(torch.stack(heat), 'max'), Weighting(kind))
            assert weights.shape == (200,) and weights.device.type == 'cuda'


def test_filled_boxes_and_masks():
    with fake_gpu(False):
        like = torch.empty(0, device='cuda')
        filled = HeatMap.filled(Area(0, 0, 5, 5), GridFrame(20, 10), like)
        assert filled.picture(20, 10).device.type == 'cuda'


@PRECISIONS
@pytest.mark.parametrize(
    ('extractor', 'matcher', 'dimensions'),
    [
        ('aliked', 'lightglue', 128),
        ('disk', 'lightglue', 128),
        ('xfeat', 'lightglue', 64),
        ('aliked', 'nearest', 128),
    ],
)
def test_matchers(extractor, matcher, dimensions, half):
    settings = Settings(
        extractor=extractor, matcher=matcher, precision='half' if half else 'single'
    )
    loaded = load_matcher(settings, ModelStore(), CPU)
    modules = [part for part in vars(loaded).values() if isinstance(part, torch.nn.Module)]
    with fake_gpu(half, *modules):
        sides = []
        for count in (200, 150):
            features = fake_features(count, dimensions)
            weights = torch.rand(count, device='cuda')
            projected = loaded.project(features)
            assert weighted(projected.descriptors, weights).device.type == 'cuda'
            sides.append(loaded.prepare(projected))
        matches = loaded.match(*sides, 0.1)
        assert matches.scores.device.type == 'cuda'
        assert matches.reference_index.device.type == 'cuda'


@PRECISIONS
def test_superglue(half):
    model = SuperGlue(iterations=5).eval()
    with fake_gpu(half, model):
        assignment = model(
            *(
                ImageSide(side.keypoints, side.scores, side.descriptors, (320, 240))
                for side in (fake_features(50, 256), fake_features(40, 256))
            )
        )
        assert assignment.shape == (51, 41)
        assert assignment.device.type == 'cuda'
