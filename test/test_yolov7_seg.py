"""YOLOv7 by hand: files of foreign objects, the formula of its boxes, networks from plans."""

import importlib
import os
import pickle
import sys
from zipfile import ZipFile

import pytest
import torch

from niom_ros.models.foreign_pickle import (
    ForeignPickleError,
    load_foreign_pickle,
    Placeholder,
    tensors_of,
)
from niom_ros.semantics.detectors.yolo import squared_growth, YoloHead
from niom_ros.semantics.detectors.yolov7_seg import YoloV7

FOREIGN_CODE = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.bn = nn.BatchNorm2d(3)
        self.detect = Block.forward

    def forward(self, x):
        raise AssertionError('foreign code ran')

    def __setstate__(self, state):
        raise AssertionError('foreign code ran')
"""

SMALL_PLAN = {
    'nc': 2,
    'ch': 3,
    'anchors': [[8, 10, 20, 16], [40, 50, 90, 60]],
    'backbone': [
        [-1, 1, 'Conv', [4, 3, 2]],
        [-1, 1, 'Conv', [4, 1, 1]],
        [-2, 1, 'Conv', [4, 1, 1]],
        [[-1, -2], 1, 'Concat', [1]],
        [-1, 1, 'MP', []],
    ],
    'head': [
        [-1, 1, 'SPPCSPC', [6]],
        [-1, 1, 'nn.Upsample', ['None', 2, 'nearest']],
        [[-1, 3], 1, 'Concat', [1]],
        [[7, 5], 1, 'ISegment', ['nc', 'anchors', 1, 16]],
    ],
}


class Calls:
    """Something that is pickled as a function call."""

    def __init__(self, function, *arguments):
        self._call = (function, arguments)

    def __reduce__(self):
        return self._call


HARMFUL = {
    'os.system': lambda touched: Calls(os.system, f'touch {touched}'),
    'eval': lambda touched: Calls(eval, f'open({touched!r}, "w")'),
    'open': lambda touched: Calls(open, touched, 'w'),
    'import': lambda touched: Calls(getattr, Calls(importlib.import_module, 'this'), 's'),
    'pickle': lambda touched: Calls(
        pickle.loads, pickle.dumps(Calls(os.system, f'touch {touched}'))
    ),
}


@pytest.mark.parametrize('protocol', [2, 4])
@pytest.mark.parametrize('call', HARMFUL)
def test_nothing_that_a_file_names_is_called(call, protocol, tmp_path):
    sys.modules.pop('this', None)
    touched, path = tmp_path / 'touched', tmp_path / 'harmful.pt'
    content = {'harm': HARMFUL[call](str(touched)), 'weights': torch.arange(3)}
    torch.save(content, path, pickle_protocol=protocol)
    loaded = load_foreign_pickle(path)
    assert type(loaded['harm']) is Placeholder
    assert vars(loaded['harm']) == {}
    assert loaded['weights'].tolist() == [0, 1, 2]
    assert not touched.exists()
    assert 'this' not in sys.modules


def test_the_same_file_does_harm_when_it_is_trusted(tmp_path):
    touched, path = tmp_path / 'touched', tmp_path / 'harmful.pt'
    torch.save(HARMFUL['os.system'](str(touched)), path)
    torch.load(path, weights_only=False)
    assert touched.exists()


def test_the_tensors_of_foreign_objects_come_without_their_code(tmp_path, monkeypatch):
    (tmp_path / 'foreign_code.py').write_text(FOREIGN_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    block = importlib.import_module('foreign_code').Block().half()
    torch.save({'model': torch.nn.Sequential(block)}, tmp_path / 'model.pt')
    del sys.modules['foreign_code']
    saved = load_foreign_pickle(tmp_path / 'model.pt')['model']
    assert 'foreign_code' not in sys.modules
    tensors, expected = tensors_of(saved), torch.nn.Sequential(block).state_dict()
    assert list(tensors) == list(expected)
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)


def test_programs_of_torch_are_refused(tmp_path):
    path = tmp_path / 'program.pt'
    torch.save({}, path)
    with ZipFile(path, 'a') as archive:
        archive.writestr('program/constants.pkl', pickle.dumps(()))
    with pytest.raises(ForeignPickleError, match='does not hold one pickle'):
        load_foreign_pickle(path)


def test_a_bare_pickle_is_refused(tmp_path):
    path = tmp_path / 'bare.pt'
    path.write_bytes(pickle.dumps(Calls(os.system, f'touch {tmp_path}/touched')))
    with pytest.raises(ForeignPickleError, match='not an archive'):
        load_foreign_pickle(path)
    assert not (tmp_path / 'touched').exists()


def head(anchors, classes, masks):
    channels = len(anchors) * (5 + classes + masks)
    convolution = torch.nn.Conv2d(1, channels, 1)
    torch.nn.init.zeros_(convolution.bias)
    return YoloHead(torch.nn.Identity(), convolution, anchors, classes, 2.0, squared_growth)


def logit(share):
    return torch.tensor(share).logit().item()


def test_boxes_by_hand():
    output = torch.zeros(2, 8, 2, 3)  # 2 anchors of x, y, w, h, object, 2 classes, 1 for masks
    output[1, :, 1, 2] = torch.tensor(
        [logit(0.75), logit(0.25), logit(0.5), logit(0.9), logit(0.8), logit(0.5), -2.0, 99.0]
    )
    level = head([[10, 20], [30, 40]], 2, 1).decode(output.view(16, 2, 3), input_width=48)
    # All zero: in the middle of its cell of 16 pixels, as large as its anchor.
    assert level.boxes[0, 0, 1].tolist() == [24 - 5, 8 - 10, 24 + 5, 8 + 10]
    assert level.scores[0, :, 0, 1].tolist() == [0.25, 0.25]
    x, y = (2 * 0.75 - 0.5 + 2) * 16, (2 * 0.25 - 0.5 + 1) * 16
    width, height = 30, (2 * 0.9) ** 2 * 40
    expected = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    assert level.boxes[1, 1, 2].tolist() == pytest.approx(expected, rel=1e-5)
    assert level.scores[1, 0, 1, 2].item() == pytest.approx(0.8 * 0.5)
    assert level.evidence.shape == (2, 2, 2, 3)
    assert level.evidence[1, :, 1, 2].tolist() == [0.0, -2.0]


def test_evidence_has_no_bias():
    yolo = head([[10, 20], [30, 40]], 2, 1)
    torch.nn.init.normal_(yolo.convolution.bias)
    features = torch.rand(1, 1, 2, 3)
    with torch.no_grad():
        evidence = yolo.decode(yolo.convolution(features)[0], 48).evidence
    for anchor in range(2):
        for class_index in range(2):
            weight = yolo.convolution.weight[yolo.channel(anchor, class_index), 0, 0, 0]
            assert torch.allclose(evidence[anchor, class_index], weight * features, atol=1e-6)


def weights_for(network):
    """Return what a file would hold: halves, a shift for each level, and parts without use."""
    weights = {n: torch.randn(t.shape).abs().half() for n, t in network.state_dict().items()}
    for level, convolution in enumerate(network.model[-1].m):
        weights[f'model.8.ia.{level}.implicit'] = torch.randn(
            1, convolution.in_channels, 1, 1
        ).half()
    return {**weights, 'model.8.proto.cv1.conv.weight': torch.zeros(1)}


def test_a_network_is_made_of_its_plan():
    network = YoloV7(SMALL_PLAN).eval()
    network.load_weights(weights_for(network))
    assert {tensor.dtype for tensor in network.parameters()} == {torch.float32}
    (fine, coarse), features = network.outputs(torch.rand(1, 3, 64, 96))
    assert fine.shape == (1, 2 * (5 + 2 + 1), 32, 48)
    assert coarse.shape == (1, 2 * (5 + 2 + 1), 16, 24)
    assert features.shape == (1, 8, 16, 24)
    assert [yolo.anchors for yolo in network.heads] == [
        [(8, 10), (20, 16)],
        [(40, 50), (90, 60)],
    ]


def test_the_learnt_shift_is_a_part_of_the_bias():
    network = YoloV7(SMALL_PLAN).eval()
    weights = weights_for(network)
    network.load_weights(weights)
    for level, yolo in enumerate(network.heads):
        features = torch.rand(1, yolo.convolution.in_channels, 2, 2)
        shifted = features + weights[f'model.8.ia.{level}.implicit'].float()
        kernel, bias = (weights[f'model.8.m.{level}.{n}'].float() for n in ('weight', 'bias'))
        expected = torch.nn.functional.conv2d(shifted, kernel, bias)
        assert torch.allclose(yolo.convolution(features), expected, atol=1e-4)


def test_what_enters_the_last_convolutions_is_known():
    network = YoloV7(SMALL_PLAN).eval()
    entered = []
    for yolo in network.heads:
        yolo.entering.register_forward_hook(lambda _, __, output: entered.append(output))
    outputs = network(torch.rand(1, 3, 64, 64))
    for x, yolo, output in zip(reversed(entered), network.heads, outputs, strict=True):
        assert torch.equal(yolo.convolution(x), output)


def test_weights_that_are_missing_are_noticed():
    network = YoloV7(SMALL_PLAN)
    weights = weights_for(network)
    del weights['model.5.cv3.conv.weight']
    with pytest.raises(KeyError, match=r'model\.5\.cv3\.conv\.weight'):
        network.load_weights(weights)


def test_a_layer_of_unknown_kind_is_refused():
    plan = {**SMALL_PLAN, 'backbone': [[-1, 1, 'RepConv', [4, 3, 1]]]}
    with pytest.raises(ValueError, match='unknown layer type RepConv'):
        YoloV7(plan)
