"""Models of ultralytics, where the user has that package; with random weights, untrained."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from niom_ros.core.settings import CAM_METHODS, SettingsError
from niom_ros.semantics.detectors.grid_detector import Candidate, DetectorOptions, NetworkOutput
from niom_ros.semantics.detectors.ultralytics_yolo import (
    load_ultralytics,
    QUIET,
    UltralyticsDetector,
)
from niom_ros.semantics.heat_maps import Area

pytestmark = [
    pytest.mark.optional,
    pytest.mark.skipif(find_spec('ultralytics') is None, reason='ultralytics is not installed'),
]

CPU = torch.device('cpu')
ORDINARY = ('yolov5n', 'yolov8n', 'yolov8n-p6', 'yolov9t', 'yolo11n', 'yolo12n')
SEGMENTING = ('yolov8n-seg', 'yolo11n-seg', 'yolo26n-seg')
END_TO_END = ('yolov10n', 'yolo26n')


@pytest.fixture(scope='module')
def ultralytics(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the package, which neither writes to the home folder nor looks at the network."""
    os.environ.setdefault('YOLO_CONFIG_DIR', str(tmp_path_factory.mktemp('config')))
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ultralytics

    return ultralytics


def build(ultralytics: Any, kind: str) -> Any:
    """Return a model of a kind with random weights."""
    torch.manual_seed(0)
    maker = ultralytics.RTDETR if kind.startswith('rtdetr') else ultralytics.YOLO
    return maker(f'{kind}.yaml')


def make(ultralytics: Any, kind: str, path: Path) -> Path:
    """Save a network of a kind whose output differs at every place."""
    model = build(ultralytics, kind)
    network = model.model.train()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # of all that it sees, which is the next line
    with torch.no_grad():
        network(noise().repeat(2, 1, 1, 1))
    if kind in END_TO_END:
        network.model[-1].end2end = True
    model.save(path)
    return path


def load(path: Path, **options: Any) -> UltralyticsDetector:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return load_ultralytics(path, sha256, DetectorOptions(**options), CPU)


def noise(width: int = 128, height: int = 64) -> torch.Tensor:
    return torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def own_answer(ultralytics: Any, path: Path, pixels: torch.Tensor) -> torch.Tensor:
    """Return the decoded output of ultralytics itself (4 + C or more x N)."""
    model = ultralytics.YOLO(path).model.eval()
    if getattr(model.model[-1], 'end2end', False):
        model.model[-1].end2end = False
    output = model(pixels)
    while not isinstance(output, torch.Tensor):
        output = output[0]
    return output[0]


@pytest.mark.parametrize('kind', [*ORDINARY, *SEGMENTING, *END_TO_END])
def test_levels_are_what_ultralytics_decodes(ultralytics: Any, tmp_path: Path, kind: str) -> None:
    """Boxes and scores of all cells, in the same order; also of end-to-end models."""
    path = make(ultralytics, kind, tmp_path / f'{kind}.pt')
    detector = load(path)
    assert detector.name == f'ultralytics:{kind}.pt'
    assert len(detector.labels) == 80
    pixels = noise()
    with torch.no_grad():
        output = detector.run_network(pixels)
    expected = own_answer(ultralytics, path, pixels)
    boxes = torch.cat([level.boxes.reshape(-1, 4) for level in output.levels])
    scores = torch.cat([level.scores[0].flatten(1) for level in output.levels], dim=1)
    centres, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    assert torch.allclose(torch.cat((centres, sizes), dim=1).T, expected[:4], atol=1e-2)
    assert torch.allclose(scores, expected[4:84], atol=1e-6)
    assert scores.std() > 0
    finest = output.levels[0]
    assert finest.scores.shape == finest.evidence.shape == (1, 80, 8, 16)
    assert output.features is not None
    assert output.features.ndim == 3


def strongest(output: NetworkOutput) -> Candidate:
    """Return an object of the class with the strongest evidence on the middle level."""
    evidence = output.levels[1].evidence[0]
    return Candidate(1, 0, int(evidence.amax(dim=(1, 2)).argmax()), 1.0, Area(0, 0, 128, 64))


@pytest.mark.parametrize('kind', ['yolov8n', 'yolo11n-seg', 'yolo26n'])
def test_the_closed_form_is_grad_cam(ultralytics: Any, tmp_path: Path, kind: str) -> None:
    """The evidence for a class is its score without bias, as gradients show."""
    path = make(ultralytics, kind, tmp_path / 'model.pt')
    pixels = noise()
    detector = load(path)
    with torch.no_grad():
        output = detector.run_network(pixels)
        candidate = strongest(output)
        expected = detector.evidence(output, candidate, pixels).clamp(min=0)
    expected = (expected - expected.min()) / (expected.max() - expected.min())
    for method in CAM_METHODS[1:]:
        other = load(path, cam=method)
        with torch.no_grad():
            found = other.evidence(output, candidate, pixels)
        assert found.shape == expected.shape
        assert found.isfinite().all()
        if method == 'gradcam':
            assert torch.allclose(found, expected, atol=1e-3)


def test_objects_of_a_photo(ultralytics: Any, tmp_path: Path, coffee: np.ndarray) -> None:
    """From file to heat map; what an untrained network detects does not matter."""
    model = build(ultralytics, 'yolov8n')
    for branch in model.model.model[-1].cv3:
        branch[-1].bias.data.zero_()
    model.save(tmp_path / 'model.pt')
    detector = load(tmp_path / 'model.pt')
    letterbox = detector.letterbox(coffee.shape[1], coffee.shape[0])
    assert (letterbox.input_width, letterbox.input_height) == (640, 448)
    seen = detector.detect(coffee)
    assert len(seen) > 0
    for one in seen:
        assert one.label in detector.labels
        assert one.feature is not None
        assert one.feature.norm() == pytest.approx(1.0, abs=1e-4)
        assert 0 <= one.area.left + 0.5 <= one.area.right + 0.5 <= 600


@pytest.mark.parametrize('name', ['yolov5n.pt', 'yolov3.pt', "it's mine.pt", ' spaces .pt'])
def test_the_file_itself_is_loaded_and_nothing_downloaded(
    ultralytics: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Ultralytics replaces some names by others, which it would download."""
    from ultralytics.utils import downloads

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError('a download was tried')

    monkeypatch.setattr(downloads, 'safe_download', refuse)
    build(ultralytics, 'yolov8n').save(tmp_path / 'plain.pt')
    path = (tmp_path / 'plain.pt').rename(tmp_path / name)
    assert load(path).name == f'ultralytics:{name}'
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ('kind', 'reason'),
    [
        ('yolov8n-pose', "is a model for 'pose'"),
        ('yolo11n-obb', "is a model for 'obb'"),
        ('yolov8n-cls', "is a model for 'classify'"),
        ('yolov8s-world', 'has an unsupported head, WorldDetect'),
        ('rtdetr-l', 'has an unsupported head, RTDETRDecoder'),
    ],
)
def test_models_without_class_scores_on_grids(
    ultralytics: Any, tmp_path: Path, kind: str, reason: str
) -> None:
    """The message says what the model is, and what to use."""
    path = tmp_path / 'model.pt'
    build(ultralytics, kind).save(path)
    with pytest.raises(SettingsError, match=f"{reason}: use one for 'detect' or 'segment'"):
        load(path)


def test_end_to_end_models_without_their_other_head(ultralytics: Any, tmp_path: Path) -> None:
    """Fusing takes the outputs on grids away."""
    model = build(ultralytics, 'yolo26n')
    model.model.model[-1].end2end = True
    model.model.fuse()
    model.save(tmp_path / 'model.pt')
    with pytest.raises(SettingsError, match=r'use the \.pt file that training wrote'):
        load(tmp_path / 'model.pt')


class Harmful:
    """Something that runs code when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._mark,)


def test_files_that_are_not_models(ultralytics: Any, tmp_path: Path) -> None:
    """Text, tensors without a network, and code."""
    path, mark = tmp_path / 'model.pt', tmp_path / 'mark'
    path.write_text('no model')
    with pytest.raises(SettingsError, match=r'ultralytics cannot load .*model\.pt'):
        load(path)
    torch.save({'model': {'weight': torch.zeros(3)}}, path)
    with pytest.raises(SettingsError, match=r'ultralytics cannot load .*model\.pt'):
        load(path)
    if not getattr(ultralytics.utils, 'SAFE_LOAD', False):
        pytest.skip('this version of ultralytics runs the code that is in a file')
    torch.save({'model': Harmful(mark)}, path)
    with pytest.raises(SettingsError, match='ULTRALYTICS_SAFE_LOAD=false'):
        load(path)
    assert not mark.exists()
