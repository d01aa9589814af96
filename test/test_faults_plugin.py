"""A detector of one's own that breaks in a real matcher, which is told its file at the start."""

from niom_ros.msg import Homography
import numpy as np
import onnx
from onnx import helper, numpy_helper
import pytest
from recorded_film import Film, status_is
from test_faults import faulty_bench, set_cup

from niom_ros.models.store import default_folder


@pytest.fixture(scope='module')
def moody_bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp('matcher')
    save_moody_yolo(folder / 'moody.onnx')
    settings = ('detector:=onnx', f'detector_path:={folder / "moody.onnx"}', 'weighting:=sew')
    arguments = [word for setting in settings for word in ('-p', setting)]
    with faulty_bench(folder, default_folder(), *arguments, '-p', 'tracking:=false') as bench:
        yield bench


def save_moody_yolo(path):
    """Write a YOLO that sees nothing, and breaks on images with a pixel that is all white.

    The brightest value chooses the row of a table that has only one.
    """
    rows = np.zeros((1, 1, 6), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node('Constant', [], ['table'], value=numpy_helper.from_array(rows)),
            helper.make_node('ReduceMax', ['images'], ['brightest'], keepdims=0),
            helper.make_node('Floor', ['brightest'], ['whole']),
            helper.make_node('Cast', ['whole'], ['row'], to=onnx.TensorProto.INT64),
            helper.make_node('Gather', ['table', 'row'], ['chosen'], axis=0),
            helper.make_node('Unsqueeze', ['chosen', 'first'], ['boxes']),
        ],
        'moody',
        [helper.make_tensor_value_info('images', onnx.TensorProto.FLOAT, (1, 3, 64, 96))],
        [helper.make_tensor_value_info('boxes', onnx.TensorProto.FLOAT, (1, 1, 6))],
        [numpy_helper.from_array(np.array([0], np.int64), 'first')],
    )
    opset = [helper.make_opsetid('', 17)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opset), path)


def test_a_detector_of_your_own_that_breaks_is_told_and_the_next_frame_is_matched(
    moody_bench, coffee, scene
):
    moody_bench.recorder.begin()
    film = Film(moody_bench, scene)
    view = scene.view(8.0, 0)
    good = np.minimum(view.image, 200)
    set_cup(moody_bench, np.minimum(coffee, 240))
    film.show_until(status_is(Homography.OK), image=good, truth=view.picture_to_image)
    half_white = good.copy()
    half_white[:200, :100] = 255
    fault = film.show_until(
        status_is(Homography.FAULT), image=half_white, truth=view.picture_to_image
    )
    assert 'moody.onnx' in fault.status_message or 'Gather' in fault.status_message
    film.show_until(status_is(Homography.OK), image=good, truth=view.picture_to_image)
    moody_bench.recorder.check()
