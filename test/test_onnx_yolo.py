"""Detectors from a file: ONNX, and the checks before ultralytics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
import hashlib
from pathlib import Path
import sys
from types import SimpleNamespace
from typing import Any
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper
import onnxruntime
import pytest
import torch

from niom_ros.core.settings import CAM_METHODS, SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.darknet import load_yolov4_tiny
from niom_ros.semantics.detectors.grid_detector import DetectorOptions, NetworkOutput
from niom_ros.semantics.detectors.onnx_yolo import load_onnx_yolo, open_session
from niom_ros.semantics.detectors.ultralytics_yolo import load_ultralytics
from niom_ros.semantics.detectors.yolo import YoloDetector

CPU = torch.device('cpu')
WIDTH, HEIGHT = 96, 64
STRIDES = (8, 16, 32)
CELLS = 126
CLASSES = 3
EMPTY = hashlib.sha256(b'').hexdigest()  # of an empty file
IMAGE = np.zeros((HEIGHT, WIDTH, 3), np.uint8)  # fits the input as it is

SaveModel = Callable[..., Path]


@pytest.fixture
def save_model(tmp_path: Path) -> SaveModel:
    """Return a function that writes models with the same output for every image."""

    def save(
        *outputs: np.ndarray,
        shape: tuple[int | str, ...] = (1, 3, HEIGHT, WIDTH),
        inputs: int = 1,
        kind: int = onnx.TensorProto.FLOAT,
        **metadata: str,
    ) -> Path:
        infos = [
            helper.make_tensor_value_info(f'images{n}' if n else 'images', kind, shape)
            for n in range(inputs)
        ]
        nodes, results = [], []
        for number, output in enumerate(outputs):
            tensor = numpy_helper.from_array(output)
            name = f'output{number}'
            nodes.append(helper.make_node('Constant', [], [name], value=tensor))
            results.append(helper.make_tensor_value_info(name, tensor.data_type, output.shape))
        graph = helper.make_graph(nodes, 'model', infos, results)
        model = helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid('', 17)]
        )
        helper.set_model_props(model, metadata)
        path = tmp_path / 'model.onnx'
        onnx.save(model, path)
        return path

    return save


def grids(anchors: int, numbers: int) -> list[np.ndarray]:
    """Return boxes on all cells that score nothing, one array (A x h x w x K) for each stride."""
    levels = []
    for stride in STRIDES:
        level = np.zeros((anchors, HEIGHT // stride, WIDTH // stride, numbers), np.float32)
        y, x = np.mgrid[: level.shape[1], : level.shape[2]]
        level[..., 0] = (x + 0.5) * stride
        level[..., 1] = (y + 0.5) * stride
        level[..., 2:4] = stride * np.arange(1, anchors + 1)[:, None, None, None]
        levels.append(level)
    return levels


def flat(levels: list[np.ndarray]) -> np.ndarray:
    """Return the rows of grids (1 x N x K) in the order of YOLOv5."""
    return np.concatenate([level.reshape(-1, level.shape[-1]) for level in levels])[None]


def with_object(anchors: int, objectness: bool, masks: int = 0) -> list[np.ndarray]:
    """Return grids on which one box, of stride 16 in row 1 and column 4, scores 0.72."""
    first = 5 if objectness else 4
    levels = grids(anchors, first + CLASSES + masks)
    levels[1][-1, 1, 4, first + 2] = 0.9 if objectness else 0.72
    levels[1][-1, 1, 5, first + 2] = 0.1
    levels[1][-1, 1, 4, :4] = (70, 25, 24, 12)
    if objectness:
        levels[1][-1, ..., 4] = 0.8
    if masks:
        levels[1][..., -masks:] = 7.0
    return levels


def load(path: Path, labels: Path | str = '', **options: Any) -> Any:
    return load_onnx_yolo(path, labels, DetectorOptions(**options), CPU)


def assert_object_found(detector: Any, label: str = 'class 2') -> None:
    (seen,) = detector.detect(IMAGE)
    assert (seen.label, seen.score) == (label, pytest.approx(0.72))
    area = seen.area
    edges = (area.left, area.top, area.right, area.bottom)
    assert edges == pytest.approx((57.5, 18.5, 81.5, 30.5))
    assert seen.feature is None
    heat = seen.heat.picture(WIDTH, HEIGHT)
    # The cell covers pixels 64 to 79 and 16 to 31; its neighbour to the right says little.
    assert heat[24, 72] == pytest.approx(float(heat.max()))
    assert heat.max() > 0.9
    assert heat[24, 60] < heat[24, 66] < heat[24, 72]
    assert heat[:18].max() == 0
    assert heat[:, 82:].max() == 0


# Layouts of outputs


def test_decoded_boxes_with_objectness_become_grids(save_model: SaveModel) -> None:
    """YOLOv5 and YOLOv7: 1 x N x (5 + C), level by level, anchor by anchor."""
    detector = load(save_model(flat(with_object(3, True))))
    assert detector.name == 'onnx:model.onnx'
    assert detector.labels == ('class 0', 'class 1', 'class 2')
    output = detector.run_network(torch.zeros(1, 3, HEIGHT, WIDTH))
    assert [tuple(level.scores.shape) for level in output.levels] == [
        (3, 3, 8, 12),
        (3, 3, 4, 6),
        (3, 3, 2, 3),
    ]
    assert output.levels[1].scores[2, 2, 1, 4] == pytest.approx(0.72)
    assert output.levels[1].evidence[2, 2, 1, 5] == pytest.approx(0.1)
    assert output.levels[2].boxes[1, 0, 2].tolist() == [48, -16, 112, 48]
    assert_object_found(detector)


def test_boxes_last_without_objectness(save_model: SaveModel) -> None:
    """YOLOv8 and later: 1 x (4 + C) x N."""
    rows = flat(with_object(1, False))
    assert rows.shape == (1, CELLS, 4 + CLASSES)
    assert_object_found(load(save_model(rows.transpose(0, 2, 1))))


@pytest.mark.parametrize('objectness', [False, True])
def test_one_box_per_cell_needs_labels_to_tell_objectness(
    save_model: SaveModel, tmp_path: Path, objectness: bool
) -> None:
    """1 x N x K with one box a cell is YOLOv8 turned around, or YOLOv6."""
    path = save_model(flat(with_object(1, objectness)))
    with pytest.raises(SettingsError, match=r'classes, or \d and objectness'):
        load(path)
    labels = tmp_path / 'labels.txt'
    labels.write_text('a\nb\nc\n')
    assert_object_found(load(path, labels), 'c')


def test_coefficients_of_masks_are_ignored(save_model: SaveModel) -> None:
    """Models for segmentation have 32 more numbers for each box, and a second output."""
    rows = flat(with_object(1, False, masks=32)).transpose(0, 2, 1)
    prototypes = np.zeros((1, 32, HEIGHT // 4, WIDTH // 4), np.float32)
    detector = load(save_model(rows, prototypes, task='segment'))
    assert len(detector.labels) == CLASSES
    assert_object_found(detector)


def test_the_order_of_rows_shows_in_where_the_boxes_lie(save_model: SaveModel) -> None:
    """Some begin with the coarsest grid, some keep the boxes of a cell together."""
    levels = with_object(3, True)
    turned = [level.transpose(1, 2, 0, 3) for level in levels]
    for order in (levels[::-1], turned, turned[::-1]):
        assert_object_found(load(save_model(flat(order))))


def test_corners_instead_of_centre_and_size(save_model: SaveModel) -> None:
    """Some exports give left, top, right and bottom."""
    rows = flat(with_object(3, True))
    half = rows[..., 2:4] / 2
    rows[..., :4] = np.concatenate((rows[..., :2] - half, rows[..., :2] + half), -1)
    assert_object_found(load(save_model(rows)))


def test_half_precision(save_model: SaveModel) -> None:
    """Input and output are float16."""
    rows = flat(with_object(3, True)).astype(np.float16)
    (seen,) = load(save_model(rows, kind=onnx.TensorProto.FLOAT16)).detect(IMAGE)
    assert seen.label == 'class 2'
    assert seen.score == pytest.approx(0.72, abs=1e-3)


@pytest.mark.parametrize('gated', [True, False])
def test_finished_boxes_have_filled_heat_maps(save_model: SaveModel, gated: bool) -> None:
    """Without a grid, the heat map is the box: 1 x 300 x 6, padded with zeros."""
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, :2] = ((58, 19, 82, 31, 0.72, 17), (10, 10, 20, 20, 0.1, 3))
    (seen,) = load(save_model(rows), gated=gated).detect(IMAGE)
    assert (seen.label, seen.score) == ('class 17', pytest.approx(0.72))
    heat = seen.heat.picture(WIDTH, HEIGHT)
    assert heat[19:31, 58:82].min() == 1
    assert heat.sum() == 12 * 24


def test_finished_boxes_of_yolov7(save_model: SaveModel) -> None:
    """N x 7: number of the image, box, class, score. There may be none at all."""
    row = np.array([[0, 58, 19, 82, 31, 2, 0.72]], np.float32)
    (seen,) = load(save_model(row)).detect(IMAGE)
    assert (seen.label, seen.score) == ('class 2', pytest.approx(0.72))
    assert load(save_model(row[:0])).detect(IMAGE) == ()


def test_a_class_beyond_the_labels_is_reported(save_model: SaveModel) -> None:
    """Finished boxes show only in use how many classes there are."""
    rows = np.array([[[58, 19, 82, 31, 0.72, 2]]], np.float32)
    detector = load(save_model(rows, names="{0: 'a', 1: 'b'}"))
    with pytest.raises(SettingsError, match='reports class 2, but there are 2 labels'):
        detector.detect(IMAGE)


def raw_heads() -> list[np.ndarray]:
    """Return heads (1 x A x h x w x K) that find nothing but one box."""
    heads = [np.full_like(level, -9.0)[None] for level in grids(2, 5 + CLASSES)]
    heads[1][0, 1, 1, 4] = (0, 0, 0, 0, 9, -9, -9, 9)
    return heads


def test_raw_heads_with_anchors(save_model: SaveModel) -> None:
    """Zeros are a box of the anchor's size on the centre of the cell, in either formula."""
    anchors = '[[8, 8, 9, 9], [16, 16, 24, 12], [32, 32, 33, 33]]'
    heads = raw_heads()
    flat_heads = [head.transpose(0, 1, 4, 2, 3).reshape(1, -1, *head.shape[2:4]) for head in heads]
    for formula in ('yolov5', 'darknet'):
        for outputs in (heads, flat_heads):
            path = save_model(*outputs, anchors=anchors, box_formula=formula)
            (seen,) = load(path).detect(IMAGE)
            area = seen.area
            edges = (area.left, area.top, area.right, area.bottom)
            assert edges == pytest.approx((59.5, 17.5, 83.5, 29.5))
            assert seen.label == 'class 2'
            assert seen.score == pytest.approx(0.9998, abs=1e-4)


def test_raw_heads_without_anchors_are_refused(save_model: SaveModel) -> None:
    """The message says what was found, and how to export."""
    with pytest.raises(
        SettingsError, match=r'output0 \(1 x 2 x 8 x 12 x 8\).* raw heads.* export it with decoded'
    ):
        load(save_model(*raw_heads()))
    with pytest.raises(SettingsError, match='do not match its anchors'):
        load(save_model(*raw_heads(), anchors='[[1, 2, 3, 4]]', box_formula='yolov5'))


# Labels


def test_labels_of_the_metadata(save_model: SaveModel) -> None:
    """Ultralytics writes a dict of Python into its files."""
    path = save_model(flat(with_object(3, True)), names="{0: 'cup', 1: 'мяч', 2: '猫 cat'}")
    assert_object_found(load(path), '猫 cat')


def test_labels_of_a_file_come_first(save_model: SaveModel, tmp_path: Path) -> None:
    """Any text in UTF-8, also with a byte order mark and the line ends of Windows."""
    labels = tmp_path / 'labels.txt'
    labels.write_bytes('\ufeffein Stück Brot\r\n\r\n桌子\r\n\r\n'.encode())
    path = save_model(flat(with_object(3, True)), names="{0: 'x', 1: 'y', 2: 'z'}")
    detector = load(path, labels)
    assert detector.labels == ('ein Stück Brot', '', '桌子')
    assert_object_found(detector, '桌子')


@pytest.mark.parametrize(
    'names', ["__import__('os').getcwd()", '{1: 2', '[]', "{5: 'a'}", '(' * 999]
)
def test_unusable_names_become_numbers(save_model: SaveModel, names: str) -> None:
    """Nothing in a file is executed."""
    assert load(save_model(flat(with_object(3, True)), names=names)).labels[1] == 'class 1'


@pytest.mark.parametrize('boxes_last', [True, False])
def test_another_count_of_labels_is_refused(
    save_model: SaveModel, tmp_path: Path, boxes_last: bool
) -> None:
    """The message gives both counts; a missing label must not turn a class into objectness."""
    labels = tmp_path / 'labels.txt'
    labels.write_text('a\nb\n')
    rows = (
        flat(with_object(1, False)).transpose(0, 2, 1)
        if boxes_last
        else flat(with_object(3, True))
    )
    with pytest.raises(SettingsError, match=r'3 classes, but .*labels\.txt has 2 labels'):
        load(save_model(rows), labels)
    with pytest.raises(SettingsError, match='3 classes, but its own metadata has 1 labels'):
        load(save_model(rows, names="{0: 'a'}"))


def test_files_that_are_not_labels(save_model: SaveModel, tmp_path: Path) -> None:
    """Missing, or not text."""
    path = save_model(flat(with_object(3, True)))
    with pytest.raises(SettingsError, match='set detector_labels to a file that exists'):
        load(path, tmp_path / 'missing.txt')
    binary = tmp_path / 'binary.txt'
    binary.write_bytes(b'\xff\xfe\x80')
    with pytest.raises(SettingsError, match='text file in UTF-8 with one label per line'):
        load(path, binary)


# What cannot be used


def test_files_that_are_not_models(tmp_path: Path) -> None:
    """A path that does not exist, a folder, and a text."""
    with pytest.raises(SettingsError, match='set detector_path to a file that exists'):
        load(tmp_path / 'missing.onnx')
    with pytest.raises(SettingsError, match='is a folder: set detector_path to a file'):
        load(tmp_path)
    text = tmp_path / 'text.onnx'
    text.write_text('no model')
    with pytest.raises(SettingsError, match=r'cannot load it .* use a file in the ONNX format'):
        load(text)


@pytest.mark.parametrize(
    'shape',
    [
        (1, 1000),  # a classifier
        (1, 21, HEIGHT, WIDTH),  # segments everything
        (1, 300, 84),  # a DETR
        (1, CELLS + 1, 8),
        (2, CELLS, 8),
    ],
)
def test_models_that_are_not_a_yolo(save_model: SaveModel, shape: tuple[int, ...]) -> None:
    """The message says what the model gives, and what can be read."""
    with pytest.raises(SettingsError, match=r'output0 \(\d+ x .*supported are YOLO models'):
        load(save_model(np.zeros(shape, np.float32)))


@pytest.mark.parametrize(
    'wrong',
    [
        {'shape': (1, HEIGHT, WIDTH, 3)},
        {'shape': (8, 3, HEIGHT, WIDTH)},
        {'shape': (1, 1, HEIGHT, WIDTH)},
        {'shape': (1, 3, WIDTH)},
        {'kind': onnx.TensorProto.UINT8},
        {'inputs': 2},
    ],
)
def test_inputs_that_are_not_an_image(save_model: SaveModel, wrong: dict[str, Any]) -> None:
    """The message says what the model takes, and what it should."""
    with pytest.raises(SettingsError, match=r'its input is images .* 1 x 3 x height x width'):
        load(save_model(flat(with_object(3, True)), **wrong))


def test_boxes_that_are_not_decoded(save_model: SaveModel) -> None:
    """Offsets in cells (YOLOX) or shares of the image lie nowhere near their cells."""
    rows = flat(with_object(3, True))
    rows[..., :4] /= (WIDTH, HEIGHT, WIDTH, HEIGHT)
    with pytest.raises(SettingsError, match='export it with boxes decoded to pixels'):
        load(save_model(rows))


def test_rows_of_six_numbers_that_are_not_finished_boxes(save_model: SaveModel) -> None:
    """Two classes of a DETR: the last number is not one of a class."""
    rows = np.full((1, 300, 6), 0.4, np.float32)
    with pytest.raises(SettingsError, match='neither boxes on grids nor finished boxes'):
        load(save_model(rows))


def test_other_tasks(save_model: SaveModel) -> None:
    """Boxes of a model for poses have numbers that are no classes."""
    with pytest.raises(SettingsError, match="its task is 'pose': use a model for 'detect'"):
        load(save_model(flat(with_object(3, True)), task='pose'))


def test_a_size_that_is_not_as_free_as_it_claims(save_model: SaveModel) -> None:
    """An input of any size, but always the same boxes: they fit no grids."""
    path = save_model(flat(with_object(3, True)), shape=(1, 3, 'height', 'width'))
    with pytest.raises(SettingsError, match='which fits no grids of boxes'):
        load(path)


@pytest.mark.parametrize('cam', CAM_METHODS[1:])
def test_heat_maps_that_need_gradients_are_refused(save_model: SaveModel, cam: str) -> None:
    """The message says what to use instead."""
    with pytest.raises(SettingsError, match=r"needs gradients.* use cam 'closed_form'"):
        load(save_model(flat(with_object(3, True))), cam=cam)


def test_the_gpu_is_used_where_onnxruntime_can(
    save_model: SaveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its provider for CUDA, the model runs on the CPU."""
    path = save_model(flat(with_object(3, True)))
    if 'CUDAExecutionProvider' not in onnxruntime.get_available_providers():
        session = open_session(path, torch.device('cuda'))
        assert session.get_providers() == ['CPUExecutionProvider']
    asked = []

    class Session:
        def __init__(self, path: str, settings: Any, providers: list[str]) -> None:
            asked.append(providers)

    both = ['CUDAExecutionProvider', 'CPUExecutionProvider']
    monkeypatch.setattr(onnxruntime, 'get_available_providers', lambda: both)
    monkeypatch.setattr(onnxruntime, 'InferenceSession', Session)
    open_session(path, torch.device('cuda'))
    open_session(path, CPU)
    assert asked == [both, both[1:]]


# A real network


@pytest.fixture(scope='module')
def yolov4_tiny() -> YoloDetector:
    """Return the network that the files are made from."""
    return load_yolov4_tiny(ModelStore(), DetectorOptions(), CPU)


class Decoded(torch.nn.Module):
    """YOLOv4-tiny with one output like that of YOLOv5."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rows = []
        for head, output in zip(self.network.heads, self.network(pixels), strict=True):
            boxes = head.decode(output[0], pixels.shape[-1]).boxes
            low, high = boxes[..., :2], boxes[..., 2:]
            numbers = output[0].unflatten(0, (len(head.anchors), 5 + head.classes))
            scores = numbers[:, 4:].sigmoid().permute(0, 2, 3, 1)
            level = torch.cat(((low + high) / 2, high - low, scores), dim=-1)
            rows.append(level.flatten(0, 2))
        return torch.cat(rows)[None]


def export(
    network: torch.nn.Module,
    path: Path,
    width: int,
    height: int,
    dynamic: Any = None,
    **metadata: str,
) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # a deprecation of the exporter
        torch.onnx.export(
            network.eval(),
            (torch.zeros(1, 3, height, width),),
            path,
            input_names=['images'],
            dynamic_axes=dynamic,
            dynamo=False,
        )
    model = onnx.load(path)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


class ByProbability:
    """A detector whose evidence is the probabilities, as for ONNX."""

    def __init__(self, detector: YoloDetector) -> None:
        self._run_network = detector.run_network
        self._heads = detector.network.heads

    def run_network(self, pixels: torch.Tensor) -> NetworkOutput:
        output = self._run_network(pixels)
        levels = tuple(
            replace(level, evidence=(level.evidence + head.class_bias).sigmoid())
            for level, head in zip(output.levels, self._heads, strict=True)
        )
        return replace(output, levels=levels)


def assert_same_objects(
    torch_detector: YoloDetector,
    path: Path,
    photo: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare labels, scores, boxes and heat maps."""
    closed_form = torch_detector.detect(photo)
    monkeypatch.setattr(torch_detector, 'run_network', ByProbability(torch_detector).run_network)
    expected = torch_detector.detect(photo)
    found = load(path).detect(photo)
    assert [seen.label for seen in found] == [seen.label for seen in expected]
    assert {'cup', 'dining table'} <= {seen.label for seen in found}
    height, width = photo.shape[:2]
    for one, same, other in zip(found, expected, closed_form, strict=True):
        assert one.score == pytest.approx(same.score, abs=1e-4)
        for edge in ('left', 'top', 'right', 'bottom'):
            assert getattr(one.area, edge) == pytest.approx(getattr(same.area, edge), abs=0.05)
        heat, same_heat, other_heat = (
            seen.heat.picture(width, height) for seen in (one, same, other)
        )
        assert torch.allclose(heat, same_heat, atol=1e-3)
        pair = torch.stack((heat.flatten(), other_heat.flatten()))
        assert torch.corrcoef(pair)[0, 1] > 0.8


def test_a_real_network_of_fixed_size(
    yolov4_tiny: YoloDetector,
    coffee: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same boxes, labels and scores as in torch; the grids hold the same scores."""
    names = str(dict(enumerate(yolov4_tiny.labels)))
    box = yolov4_tiny.letterbox(coffee.shape[1], coffee.shape[0])
    path = export(
        Decoded(yolov4_tiny.network),
        tmp_path / 'yolov4-tiny.onnx',
        box.input_width,
        box.input_height,
        names=names,
    )
    assert_same_objects(yolov4_tiny, path, coffee, monkeypatch)
    pixels = torch.from_numpy(box.apply(coffee)).permute(2, 0, 1)[None] / 255
    detector = load(path)
    with torch.no_grad():
        expected = yolov4_tiny.run_network(pixels).levels
    for level, other in zip(detector.run_network(pixels).levels, expected, strict=True):
        assert torch.allclose(level.scores, other.scores, atol=1e-4)
        assert torch.allclose(level.boxes, other.boxes, atol=0.1)


def test_a_real_network_of_any_size(
    yolov4_tiny: YoloDetector,
    coffee: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The metadata says for which size it was trained; images keep their shape."""
    path = export(
        Decoded(yolov4_tiny.network),
        tmp_path / 'yolov4-tiny.onnx',
        64,
        96,
        {'images': {2: 'height', 3: 'width'}},
        names=str(list(yolov4_tiny.labels)),
        imgsz='[416, 416]',
    )
    assert_same_objects(yolov4_tiny, path, coffee, monkeypatch)
    upright = np.ascontiguousarray(coffee.transpose(1, 0, 2))
    letterbox = load(path).letterbox(upright.shape[1], upright.shape[0])
    assert (letterbox.input_width, letterbox.input_height) == (288, 416)
    without = export(Decoded(yolov4_tiny.network), path, 64, 96, {'images': {2: 'h', 3: 'w'}})
    letterbox = load(without).letterbox(600, 400)
    assert (letterbox.input_width, letterbox.input_height) == (640, 448)


def test_a_real_network_with_raw_heads(
    yolov4_tiny: YoloDetector,
    coffee: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the anchors of its cfg file in the metadata."""
    network: Any = yolov4_tiny.network
    path = export(
        network,
        tmp_path / 'yolov4-tiny.onnx',
        416,
        288,
        names=str(list(yolov4_tiny.labels)),
        anchors=str([head.anchors for head in network.heads]),
        box_formula='darknet',
        scale_x_y=str(network.heads[0].stretch),
    )
    assert_same_objects(yolov4_tiny, path, coffee, monkeypatch)


# Ultralytics


def test_ultralytics_must_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how, and under which licence it is."""
    monkeypatch.setitem(sys.modules, 'ultralytics', None)
    path = tmp_path / 'model.pt'
    path.touch()
    with pytest.raises(SettingsError, match=r'pip install ultralytics .*AGPL-3\.0'):
        load_ultralytics(path, EMPTY, DetectorOptions(), CPU)


def test_a_file_of_ultralytics_is_read_only_if_the_user_names_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can hold code, so it is not unpickled before a user has vouched for it."""
    read: list[bytes] = []

    def load(file: str) -> SimpleNamespace:
        read.append(Path(file).read_bytes())
        return SimpleNamespace(model=None)

    monkeypatch.setitem(sys.modules, 'ultralytics', SimpleNamespace(YOLO=load))
    path = tmp_path / 'model.pt'
    path.write_bytes(b'mine')
    right = hashlib.sha256(b'mine').hexdigest()
    with pytest.raises(SettingsError, match=f'set detector_sha256 to {right}'):
        load_ultralytics(path, '', DetectorOptions(), CPU)
    with pytest.raises(SettingsError, match=f'names .{EMPTY}., it has {right}'):
        load_ultralytics(path, EMPTY, DetectorOptions(), CPU)
    assert read == []
    for written in (right, f' {right.upper()}\n'):
        with pytest.raises(SettingsError, match='finds no network'):
            load_ultralytics(path, written, DetectorOptions(), CPU)
    assert read == [b'mine', b'mine']


def test_ultralytics_gets_no_name_that_it_could_download(tmp_path: Path) -> None:
    """Only an existing .pt file is passed on to it."""
    with pytest.raises(SettingsError, match='set detector_path to a file that exists'):
        load_ultralytics(tmp_path / 'yolov8n.pt', EMPTY, DetectorOptions(), CPU)
    other = tmp_path / 'yolov8n.yaml'
    other.touch()
    for path in (tmp_path, other):
        with pytest.raises(SettingsError, match=r'is not a \.pt file: set detector_path to one'):
            load_ultralytics(path, EMPTY, DetectorOptions(), CPU)
