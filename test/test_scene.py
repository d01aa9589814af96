"""Where objects come from: each step of the chain, with a real detector."""

import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.darknet import load_yolov4_tiny
from niom_ros.semantics.detectors.grid_detector import DetectorOptions
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.scene import Hints, MarkedObject, SceneReader
from niom_ros.simulation.virtual_scene import example_photo

CPU = torch.device('cpu')


@pytest.fixture(scope='module')
def detector():
    return load_yolov4_tiny(ModelStore(), DetectorOptions(), CPU)


@pytest.fixture(scope='module')
def embedder():
    return LabelEmbedder(Settings(), ModelStore(), CPU)


@pytest.fixture(scope='module')
def reader(detector, embedder):
    return SceneReader(detector, embedder, 'none', CPU)


def drawing():
    page = np.full((300, 400, 3), 255, np.uint8)
    cv2.ellipse(page, (150, 160), (70, 90), 0, 0, 360, (0, 0, 0), 2)
    return page


def at(scene, *points):
    return [round(float(h), 3) for h in scene.objects[0].heat.at(torch.tensor(points))]


def test_marked_objects_count_most(reader, coffee):
    marks = (MarkedObject('espresso', Area(200, 50, 300, 150)), MarkedObject('', Area(0, 0, 9, 9)))
    scene = reader.read_reference(coffee, Hints('cup', marks), None)
    assert scene.source == 'marked objects: espresso, unnamed'
    assert at(scene, [250.0, 100.0], [310.0, 100.0]) == [1, 0]


def test_the_detector_knows_the_objects_of_a_photo(reader, coffee):
    scene = reader.read_reference(coffee, Hints(), None)
    assert scene.source.startswith('yolov4-tiny: cup')
    assert scene.objects[0].label == 'cup'
    assert reader.read_image(coffee).source == scene.source


def test_a_label_chooses_among_what_the_detector_sees(reader, coffee):
    scene = reader.read_reference(coffee, Hints('Cups'), None)
    assert {seen.label for seen in scene.objects} == {'cup'}
    closest = reader.read_reference(coffee, Hints('espresso cup'), None)
    assert {seen.label for seen in closest.objects} == {'cup'}
    unknown = reader.read_reference(coffee, Hints('locomotive'), None)
    assert unknown.source == 'given label: locomotive'
    assert unknown.objects[0].label == 'locomotive'
    assert at(unknown, [0.0, 0.0], [599.0, 399.0]) == [1, 1]


def test_the_ink_of_a_drawing_is_its_object(reader):
    scene = reader.read_reference(drawing(), Hints('wheel', drawing=True), None)
    assert scene.source == 'hull of the ink: wheel'
    assert at(scene, [150.0, 160.0], [100.0, 160.0], [20.0, 20.0], [300.0, 160.0]) == [1, 1, 0, 0]


def test_a_mask_is_used_when_nothing_else_is_known(reader):
    mask = np.zeros((200, 200), np.uint8)
    mask[50:100, 60:90] = 1
    grey = np.full((200, 200, 3), 120, np.uint8)
    scene = reader.read_reference(grey, Hints(), mask)
    assert scene.source == 'given mask or region'
    assert at(scene, [70.0, 70.0], [20.0, 20.0]) == [1, 0]


def test_the_heat_of_a_large_mask_is_a_small_grid(reader):
    mask = np.zeros((3000, 2000), np.uint8)
    cv2.circle(mask, (1000, 1500), 800, 1, -1)
    scene = reader.read_reference(np.full((3000, 2000, 3), 120, np.uint8), Hints(), mask)
    assert scene.objects[0].heat.grid.shape == (512, 512)
    assert at(scene, [1000.0, 1500.0], [1000.0, 720.0], [350.0, 2200.0]) == [1, 1, 0]


def test_what_is_masked_is_not_detected(reader, coffee):
    mask = np.ones((400, 600), np.uint8)
    mask[:340, 120:480] = 0
    scene = reader.read_reference(coffee, Hints(), mask)
    assert 'cup' not in scene.source


def test_that_nothing_was_seen_is_said(reader, embedder):
    grey = np.full((200, 200, 3), 120, np.uint8)
    scene = reader.read_image(grey)
    assert (scene.objects, scene.source) == ((), 'none: yolov4-tiny saw nothing')
    assert scene.at(torch.zeros(5, 2)).choose([0]) is None
    alone = SceneReader(None, embedder, 'none', CPU).read_image(example_photo('coffee'))
    assert (alone.objects, alone.source) == ((), 'none: no detector')


def test_saliency_is_the_last_resort_if_wanted(detector, embedder):
    grey = np.full((200, 200, 3), 120, np.uint8)
    cv2.circle(grey, (150, 60), 9, (255, 255, 255), -1)
    scene = SceneReader(detector, embedder, 'saliency', CPU).read_image(grey)
    assert scene.source == 'saliency: yolov4-tiny saw nothing'
    spot, corner = at(scene, [150.0, 60.0], [20.0, 180.0])
    assert spot > 0.5 > corner


def test_the_heat_of_chosen_objects_at_keypoints(reader, coffee):
    marks = (MarkedObject('a', Area(0, 0, 99, 99)), MarkedObject('b', Area(100, 0, 199, 99)))
    scene = reader.read_reference(coffee, Hints('', marks), None)
    heat = scene.at(torch.tensor([[50.0, 50.0], [150.0, 50.0]]))
    assert heat.choose([0, 1]).tolist() == [[1, 0], [0, 1]]
    assert heat.choose([1]).tolist() == [[0, 1]]
    assert heat.choose([]) is None
    assert heat.source == 'marked objects: a, b'
    assert heat.source_of([1]) == 'marked objects: b'


def test_objects_are_carried_by_a_motion_and_left_out_when_they_leave(reader, coffee):
    marks = (MarkedObject('cup', Area(200, 50, 300, 150)), MarkedObject('spoon', Area(5, 5, 9, 9)))
    scene = reader.read_reference(coffee, Hints(objects=marks), None)
    zoomed = np.array([[2.0, 0, -120], [0, 2, -40], [0, 0, 1]])
    carried = scene.carried(zoomed)
    assert [seen.label for seen in carried.objects] == ['cup']
    assert carried.objects[0].area == Area(280, 60, 480, 260)
    assert at(carried, [290.0, 70.0], [270.0, 70.0]) == [1, 0]
    assert carried.source == 'marked objects, carried by the motion: cup'
    assert not scene.carried(np.diag([1.0, 1, -1])).objects


def test_an_object_is_cut_where_the_image_ends(reader, coffee):
    marks = (MarkedObject('cup', Area(200, 50, 300, 150)),)
    scene = reader.read_reference(coffee, Hints(objects=marks), None)
    carried = scene.carried(np.array([[1.0, 0, 350], [0, 1, 0], [0, 0, 1]]))
    assert carried.objects[0].area == Area(550, 50, 599.5, 150)
