"""The matcher as its own process, over real DDS, fed by a camera that the tests control."""

from array import array
import math
import os
import signal
import subprocess
import time

from blueprints import blueprint, frame, pdf_file, pdf_operators, plate, svg_elements, svg_file
import cv2
from matcher_bench import Bench, FAST, RELIABLE
from niom_ros.msg import DetectedObject, Homography, MatchResult
from niom_ros.srv import SetReference
import numpy as np
import pytest
from rcl_interfaces.srv import GetParameters
import rclpy
from ros_client import call, Inbox, ros_network, running, spin_until
from sensor_msgs.msg import Image, RegionOfInterest
from std_msgs.msg import Header

from niom_ros.core.boxes import Box
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        files = ('-p', f'reference_folders:=[{tmp_path_factory.getbasetemp()}]')
        with running('matcher_node', log, *files, *FAST) as process:
            bench = Bench(node, process)
            bench.wait_until_connected()
            yield bench


@pytest.fixture
def view(scene):
    return scene.view(8.0, 0)


@pytest.fixture
def with_reference(bench, coffee):
    answer = bench.set_reference(id='cup', label='cup', image=rgb_to_message(coffee, Header()))
    assert answer.success, answer.message
    return answer


def test_without_a_reference_every_frame_says_so(bench, view):
    # The first test of the module: no reference was set yet.
    result = bench.result_of(rgb_to_message(view.image, Header()))
    assert result.homography.status == Homography.NO_REFERENCE
    assert 'set_reference' in result.status_message
    assert list(result.homography.matrix) == []
    assert result.homography.source == Homography.NONE
    answer = bench.set_reference(path='/nowhere.png')
    assert not answer.success
    assert 'still looking' not in answer.message


def test_the_reference_is_found_in_the_camera_image(bench, with_reference, view, coffee):
    assert with_reference.id == 'cup'
    assert (with_reference.width, with_reference.height) == (600, 400)
    assert with_reference.keypoints == 512
    assert with_reference.matchability == 1
    assert "looking for 'cup'" in with_reference.message
    image = rgb_to_message(view.image, Header())
    result = bench.result_of(image)
    assert result.homography.status == Homography.OK, result.status_message
    # Header, reference and sizes
    assert result.header == image.header == result.homography.header
    assert result.homography.matched_stamp == image.header.stamp
    assert result.homography.source == Homography.MATCHED
    assert result.homography.reference_id == 'cup'
    assert result.reference_label == 'cup'
    assert result.homography.reference_revision == with_reference.revision
    assert (result.homography.reference_width, result.homography.reference_height) == (600, 400)
    assert (result.homography.image_width, result.homography.image_height) == (640, 480)
    # The place
    found = np.array(result.homography.matrix).reshape(3, 3)
    assert corner_error(found, view.picture_to_image, Box(0, 0, 600, 400)) < 3
    # The correspondences: parallel arrays
    count = len(result.score)
    for values in (result.reference_x, result.reference_y, result.image_x, result.image_y):
        assert len(values) == count
    assert len(result.inlier) == count
    assert sum(result.inlier) == result.inliers > 50
    assert result.reference_keypoints == 512  # of the network;
    assert 512 < result.image_keypoints < 3000  # of SIFT, which found it
    assert list(result.stage_names) == ['sift']
    assert all(seconds > 0 for seconds in result.stage_seconds)
    assert 'inlier_ratio' in result.check_names
    assert result.method == 'aliked+lightglue'
    # It was found as it is, so nothing was weighted.
    assert result.weighting == 'none'
    assert result.detector == 'yolov4-tiny'
    assert list(result.reference_weight) == list(result.image_weight) == []


def test_the_small_message_equals_the_one_inside_the_large(bench, with_reference, view):
    result = bench.result_of(rgb_to_message(view.image, Header()))
    stamp = result.header.stamp
    spin_until(
        bench.node,
        lambda: any(m.header.stamp == stamp for m in bench.homographies.messages),
        'the homography',
    )
    (small,) = [m for m in bench.homographies.messages if m.header.stamp == stamp]
    assert small == result.homography


def test_an_unrelated_image_has_no_homography(bench, with_reference):
    result = bench.result_of(rgb_to_message(example_photo('astronaut'), Header()))
    assert result.homography.status in (
        Homography.FEW_MATCHES,
        Homography.REJECTED_GEOMETRY,
        Homography.LOW_CONFIDENCE,
    )
    assert list(result.homography.matrix) == []
    assert result.homography.source == Homography.NONE
    assert result.status_message


def test_bad_camera_images_are_answered_and_the_next_good_one_is_matched(
    bench, with_reference, view
):
    good = rgb_to_message(view.image, Header())
    short = Image(width=64, height=64, step=192, encoding='rgb8', data=array('B', bytes(100)))
    odd = Image(width=64, height=64, step=192, encoding='jpg', data=array('B', bytes(12288)))
    tiny = Image(width=1, height=1, step=3, encoding='rgb8', data=array('B', bytes(3)))
    for image, status, words in (
        (Image(), Homography.BAD_IMAGE, 'the image is empty'),
        (short, Homography.BAD_IMAGE, 'data holds 100 bytes'),
        (odd, Homography.BAD_IMAGE, "unknown encoding 'jpg'"),
        (tiny, Homography.NO_KEYPOINTS, 'distinct points'),
    ):
        result = bench.result_of(image)
        assert result.homography.status == status
        assert words in result.status_message
        assert list(result.homography.matrix) == []
    assert bench.result_of(good).homography.status == Homography.OK


def bad_requests(tmp_path):
    """Return what each bad request must be answered, with its error code and its fields."""
    (tmp_path / 'text.png').write_text('this is not an image')
    (tmp_path / 'large.pgm').write_bytes(b'P5 20000 20000 255\n')
    (tmp_path / 'page.pdf').write_bytes(pdf_file([pdf_operators(plate())]))
    page = str(tmp_path / 'page.pdf')
    plain = rgb_to_message(np.full((200, 200, 3), 255, np.uint8), Header())
    picture = rgb_to_message(example_photo('chelsea'), Header())
    height, width = picture.height, picture.width

    def changed(**fields):
        image = rgb_to_message(example_photo('chelsea'), Header())
        for name, value in fields.items():
            setattr(image, name, value)
        return image

    def mask(encoding, bytes_per_pixel=1, rows=height):
        step = width * bytes_per_pixel
        data = array('B', bytes([200]) * (step * rows))
        return Image(width=width, height=rows, step=step, encoding=encoding, data=data)

    def landmark(name, x, count=1):
        names, places = [name] * count, array('f', [x] * count)
        return {'landmark_names': names, 'landmark_x': places, 'landmark_y': places}

    def marked(**fields):
        return DetectedObject(**{'label': 'cat', 'width': 20.0, 'height': 20.0, **fields})

    tiny = Image(width=1, height=1, step=3, encoding='rgb8', data=array('B', bytes(3)))
    outside = RegionOfInterest(x_offset=400, width=200, height=100)
    overflow = RegionOfInterest(x_offset=2**32 - 1, width=2**32 - 1, height=1)
    answer = SetReference.Response
    return [
        ('give exactly one of image, path', answer.BAD_REQUEST, {}),
        ('exactly one of image', answer.BAD_REQUEST, {'image': picture, 'path': 'x.png'}),
        ('there is no file', answer.BAD_IMAGE, {'path': str(tmp_path / 'missing.png')}),
        ('lies outside', answer.BAD_REQUEST, {'path': '~no_such_user/a.png'}),
        ('is a folder', answer.BAD_IMAGE, {'path': str(tmp_path)}),
        ('not an image of', answer.BAD_IMAGE, {'path': str(tmp_path / 'text.png')}),
        ('more pixels than', answer.BAD_IMAGE, {'path': str(tmp_path / 'large.pgm')}),
        ('the image is empty', answer.BAD_IMAGE, {'image': changed(width=0)}),
        ("unknown encoding 'jpeg'", answer.BAD_IMAGE, {'image': changed(encoding='jpeg')}),
        ('carries depth', answer.BAD_IMAGE, {'image': changed(encoding='16UC1')}),
        ('step is 1,', answer.BAD_IMAGE, {'image': changed(step=1)}),
        (
            'more than the limit of 50 million',
            answer.BAD_IMAGE,
            {'image': changed(width=20_000, height=20_000)},
        ),
        ('only 1 x 1 pixels', answer.BAD_IMAGE, {'image': tiny}),
        ('only 0 distinct points', answer.TOO_PLAIN, {'image': plain}),
        ('does not lie inside', answer.BAD_REQUEST, {'image': picture, 'region': outside}),
        ('does not lie inside', answer.BAD_REQUEST, {'image': picture, 'region': overflow}),
        (
            'make them the same size',
            answer.BAD_IMAGE,
            {'image': picture, 'mask': mask('mono8', rows=height - 1)},
        ),
        ('send it as mono8', answer.BAD_REQUEST, {'image': picture, 'mask': mask('mono16', 2)}),
        ('page is only for files', answer.BAD_REQUEST, {'image': picture, 'page': 1}),
        ('line breaks', answer.BAD_REQUEST, {'image': picture, 'label': 'a\nb'}),
        ('use at most 256', answer.BAD_REQUEST, {'image': picture, 'label': 'x' * 1_000_000}),
        ('kind 7 is unknown', answer.BAD_REQUEST, {'image': picture, 'kind': 7}),
        ('has no box', answer.BAD_REQUEST, {'image': picture, 'objects': [marked(width=0.0)]}),
        ('has no box', answer.BAD_REQUEST, {'image': picture, 'objects': [marked(x=math.nan)]}),
        ('lies outside', answer.BAD_REQUEST, {'image': picture, 'objects': [marked(x=900.0)]}),
        ('line breaks', answer.BAD_REQUEST, {'image': picture, 'objects': [marked(label='\n')]}),
        ('at most 100', answer.BAD_REQUEST, {'image': picture, 'objects': [marked()] * 101}),
        (
            'give the same number of each',
            answer.BAD_REQUEST,
            {'image': picture, 'landmark_names': ['a']},
        ),
        ('lies outside of', answer.BAD_REQUEST, {'image': picture, **landmark('a', -5.0)}),
        ('lies outside of', answer.BAD_REQUEST, {'image': picture, **landmark('a', math.nan)}),
        ('has no name', answer.BAD_REQUEST, {'image': picture, **landmark('', 5.0)}),
        ('two landmarks', answer.BAD_REQUEST, {'image': picture, **landmark('a', 5.0, 2)}),
        ('at most 1000', answer.BAD_REQUEST, {'image': picture, **landmark('a', 5.0, 1001)}),
        ('physical_width is', answer.BAD_REQUEST, {'image': picture, 'physical_width': -0.3}),
        ('physical_width is', answer.BAD_REQUEST, {'image': picture, 'physical_width': math.inf}),
        ('page_dpi is only for files', answer.BAD_REQUEST, {'image': picture, 'page_dpi': 300.0}),
        ('page_dpi is nan', answer.BAD_REQUEST, {'path': page, 'page_dpi': math.nan}),
        ('page_dpi is -1', answer.BAD_REQUEST, {'path': page, 'page_dpi': -1.0}),
        ('use at most 719 dpi', answer.BAD_IMAGE, {'path': page, 'page_dpi': 1e6}),
        ('it has 1 page', answer.BAD_IMAGE, {'path': page, 'page': 1}),
    ]


def test_a_refused_reference_says_why_and_changes_nothing(bench, with_reference, view, tmp_path):
    for words, error, fields in bad_requests(tmp_path):
        answer = bench.set_reference(id='bad', **fields)
        assert not answer.success, words
        assert words in answer.message
        assert answer.error == error, answer.message
        assert "(still looking for 'cup')" in answer.message
    result = bench.result_of(rgb_to_message(view.image, Header()))
    assert result.homography.status == Homography.OK
    assert result.homography.reference_id == 'cup'
    assert result.homography.reference_revision == with_reference.revision


def test_an_image_from_before_1970_is_answered_like_any_other(bench, with_reference, view):
    image = rgb_to_message(view.image, Header())
    image.header.stamp.sec = -1
    bench.camera.publish(image)
    result = bench.results.wait_for(lambda m: m.header.stamp.sec == -1, 'the result')
    assert result.homography.status == Homography.OK
    assert bench.result_of(image).homography.status == Homography.OK


def test_a_reference_from_a_page_of_a_blueprint(bench, tmp_path):
    file = tmp_path / 'plate.pdf'
    file.write_bytes(pdf_file(['', pdf_operators(blueprint())]))
    answer = bench.set_reference(id='plate', path=str(file), page=1)
    assert answer.success, answer.message
    assert (answer.width, answer.height) == (1600, 1131)
    assert answer.kind == SetReference.Request.KIND_DRAWING
    assert answer.warnings[0] == (
        'left out of page 1: 11 texts, 6 dimension lines, 2 centre lines, frame, title block'
    )
    empty = bench.set_reference(id='plate', path=str(file), page=0)
    assert empty.error == empty.BAD_IMAGE
    assert 'page 0 is empty' in empty.message
    file = tmp_path / 'plate.svg'
    file.write_text(svg_file(svg_elements([*plate(), *frame()])))
    answer = bench.set_reference(id='plate', path=str(file), page_dpi=100.0)
    assert answer.success, answer.message
    assert (answer.width, answer.height) == (1169, 827)
    assert answer.warnings[0] == 'left out of page 0: frame'


def test_a_client_cannot_lead_the_node_out_of_its_folders(bench, with_reference, coffee_file):
    outside = bench.set_reference(path='/etc/hostname')
    climbing = bench.set_reference(path=f'{coffee_file.parent}/../../../../etc/hostname')
    endless = bench.set_reference(path='x' * 1_000_000)
    for refused in (outside, climbing, endless):
        assert refused.error == SetReference.Response.BAD_REQUEST
        assert "still looking for 'cup'" in refused.message
        assert len(refused.message) < 1000
    assert 'outside of reference_folders' in outside.message
    for name in ('reference_path', 'reference_folder', 'detector_path', 'clip_path'):
        answer = bench.set_parameter(name, str(coffee_file.parent))
        assert not answer.successful
        assert answer.reason == f'{name} is only read at startup: set it in the parameter file'
    assert not bench.set_parameter('keep_references', True).successful
    for value in (['/'], []):
        answer = bench.set_parameter('reference_folders', value)
        assert 'is only read at startup' in answer.reason


def test_a_reference_from_a_file_or_from_the_camera(bench, coffee_file, view):
    from_file = bench.set_reference(path=str(coffee_file))
    assert from_file.success, from_file.message
    assert from_file.id == 'default'
    image = rgb_to_message(view.image, Header())
    assert bench.result_of(image).homography.status == Homography.OK
    stamp = bench.publish(image)
    bench.results.wait_for(lambda result: result.header.stamp == stamp, 'the result')
    from_camera = bench.set_reference(id='seen', use_current_frame=True)
    assert from_camera.success, from_camera.message
    assert from_camera.header.stamp == stamp
    assert from_camera.revision == from_file.revision + 1
    assert (from_camera.width, from_camera.height) == (640, 480)
    result = bench.result_of(image)
    assert result.homography.reference_id == 'seen'
    # Seen again from the same place: the identity.
    assert np.allclose(np.array(result.homography.matrix).reshape(3, 3), np.eye(3), atol=0.01)


def test_only_what_counts_of_the_reference_is_matched(bench, coffee, view):
    picture, image = rgb_to_message(coffee, Header()), rgb_to_message(view.image, Header())
    region = RegionOfInterest(x_offset=150, y_offset=50, width=350, height=330)
    left_half = np.zeros(coffee.shape[:2], np.uint8)
    left_half[:, :300] = 7
    mask = Image(
        width=600, height=400, step=600, encoding='mono8', data=array('B', left_half.tobytes())
    )
    for fields, bounds in (
        ({'region': region}, (150, 500, 50, 380)),
        ({'mask': mask}, (0, 300, 0, 400)),
        ({'region': region, 'mask': mask}, (150, 300, 50, 380)),
    ):
        answer = bench.set_reference(image=picture, kind=SetReference.Request.KIND_PHOTO, **fields)
        assert answer.success, answer.message
        assert (answer.width, answer.height) == (600, 400)
        assert answer.kind == SetReference.Request.KIND_PHOTO
        result = bench.result_of(image)
        assert result.homography.status == Homography.OK, result.status_message
        left, right, top, bottom = bounds
        assert left - 0.5 <= min(result.reference_x) and max(result.reference_x) <= right - 0.5
        assert top - 0.5 <= min(result.reference_y) and max(result.reference_y) <= bottom - 0.5


def test_the_semantics_behind_a_match_are_told(bench, with_reference, view):
    assert with_reference.objects[0].label == 'cup'
    assert with_reference.weights_from.startswith('yolov4-tiny: ')
    assert with_reference.kind == SetReference.Request.KIND_PHOTO
    assert with_reference.kind_confidence > 0.5
    assert list(with_reference.warnings) == []
    assert bench.set_parameter('weighting', 'sew').successful
    try:
        result = bench.result_of(rgb_to_message(view.image, Header()))
    finally:
        assert bench.set_parameter('weighting', 'auto').successful
    assert result.weighting == 'sew'
    assert result.homography.status == Homography.OK, result.status_message
    assert len(result.reference_weight) == len(result.image_weight) == len(result.score)
    assert 0.5 <= min(result.reference_weight) < max(result.reference_weight) <= 1
    assert 'cup' in result.reference_weights_from
    assert result.image_weights_from.startswith('yolov4-tiny: ')
    assert {'cup'} <= {seen.label for seen in result.image_objects}
    (pair,) = result.object_pairs
    assert result.reference_objects[pair.reference_object].label == 'cup'
    assert result.image_objects[pair.image_object].label == 'cup'
    assert pair.similarity == pair.label_similarity == 1
    assert math.isnan(pair.visual_similarity)
    assert result.pairing.startswith('labels: ')
    assert list(result.stage_names) == ['extract', 'detect', 'pair', 'match', 'verify']
    box = result.image_objects[pair.image_object]
    assert 0 <= box.x < box.x + box.width <= 640
    assert 0 <= box.y < box.y + box.height <= 480


def test_a_wrong_weighting_is_refused_and_the_old_one_stays(bench):
    answer = bench.set_parameter('weighting', 'magic')
    assert not answer.successful
    assert answer.reason.startswith("weighting is 'magic': use one of auto, sew")
    request = GetParameters.Request(names=['weighting'])
    present = call(bench.node, GetParameters, 'matcher/get_parameters', request)
    assert present.values[0].string_value == 'auto'


def test_marked_objects_come_back_as_they_were_given(bench, coffee):
    given = DetectedObject(label='Tasse', x=150.0, y=20.0, width=300.0, height=310.0)
    answer = bench.set_reference(image=rgb_to_message(coffee, Header()), objects=[given])
    assert answer.success, answer.message
    assert answer.weights_from == 'marked objects: Tasse'
    (seen,) = answer.objects
    assert (seen.label, seen.score) == ('Tasse', 1)
    assert (seen.x, seen.y, seen.width, seen.height) == (150, 20, 300, 310)


def test_a_drawing_is_taken_for_one_or_declared_to_be_one(bench, coffee):
    page = np.full((400, 600, 3), 255, np.uint8)
    corners = np.random.default_rng(0).integers((150, 100), (450, 300), (30, 2))
    cv2.polylines(page, [corners.astype(np.int32)], True, (0, 0, 0), 2, cv2.LINE_AA)
    drawn = bench.set_reference(image=rgb_to_message(page, Header()))
    assert drawn.success, drawn.message
    assert drawn.kind == SetReference.Request.KIND_DRAWING
    assert drawn.weights_from == 'hull of the ink'
    declared = bench.set_reference(
        image=rgb_to_message(coffee, Header()), kind=SetReference.Request.KIND_DRAWING
    )
    assert declared.kind == SetReference.Request.KIND_DRAWING
    assert declared.kind_confidence == 1


@pytest.fixture
def slow_matcher(bench, coffee_file, tmp_path):
    """Run a second matcher beside the first, so slow that a frame takes it many seconds."""
    log = tmp_path / 'slow.txt'
    slow = ('-p', 'max_keypoints:=4096', '-p', 'keypoint_search:=networks')
    slow = (*slow, '-p', f'reference_path:={coffee_file}', *RELIABLE)
    with running('matcher_node', log, '-r', '__node:=slow', *slow) as process:
        results = Inbox(bench.node, MatchResult, 'slow/match')
        spin_until(
            bench.node, lambda: bench.camera.get_subscription_count() == 2, 'the second matcher'
        )
        spin_until(bench.node, lambda: bench.node.count_publishers('slow/match'), 'its results')
        yield process, results, log
        results.close()


def test_services_answer_while_a_frame_is_being_matched(bench, slow_matcher, view, with_reference):
    _, slow_results, _ = slow_matcher
    # The quick matcher has answered it, so the slow one, fed by the same message, works on it.
    bench.result_of(rgb_to_message(view.image, Header()))
    request = SetReference.Request(path='/nowhere.png')
    refused = call(bench.node, SetReference, 'slow/set_reference', request)
    assert not refused.success
    assert "still looking for 'coffee'" in refused.message
    assert not slow_results.messages, 'the frame was already done'
    finished = slow_results.wait_for(lambda _: True, 'the result of the frame')
    assert finished.homography.status == Homography.OK
    assert finished.stage_seconds[1] > 1


def test_a_reference_set_during_a_frame_counts_from_the_next_one(bench, with_reference, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    for number in range(3):
        bench.publish(image)
        answer = bench.set_reference(id=f'cup {number}', image=image)
        assert answer.success, answer.message
        result = bench.result_of(image)
        assert result.homography.reference_id == f'cup {number}'
        assert result.homography.reference_revision == answer.revision


def test_only_the_newest_frame_counts(bench, with_reference, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    before = bench.result_of(image)
    for _ in range(20):
        last = bench.publish(image)
        rclpy.spin_once(bench.node, timeout_sec=0.1)
    newest = bench.results.wait_for(lambda m: m.header.stamp == last, 'the newest frame')
    assert newest.frames_received > before.frames_received
    assert newest.frames_dropped > before.frames_dropped


@pytest.mark.parametrize('topic', ['debug_image', 'overlay_image', 'heatmap_image'])
def test_pictures_reach_their_listeners(bench, with_reference, view, topic):
    image = rgb_to_message(view.image, Header())
    pictures = Inbox(bench.node, Image, f'matcher/{topic}')

    def arrived():
        bench.result_of(image)  # again, until the matcher knows of its listener
        return pictures.messages

    spin_until(bench.node, arrived, f'a {topic}')
    picture = pictures.messages[0]
    assert picture.header.frame_id == 'camera_optical_frame'
    assert 600 < message_to_rgb(picture).shape[1] <= 1280
    pictures.close()


def test_parameters_change_live_or_are_refused_with_a_reason(bench, with_reference, view):
    image = rgb_to_message(view.image, Header())
    assert bench.set_parameter('min_coverage', 1.0).successful
    strict = bench.result_of(image)
    assert strict.homography.status != Homography.OK
    assert strict.homography.reference_id == 'cup'
    assert bench.set_parameter('min_coverage', 0.08).successful
    assert bench.result_of(image).homography.status == Homography.OK
    for name, value in (
        ('min_inliers', 3),
        ('min_inliers', 'many'),
        ('score_threshold', 1.5),
        ('extractor', 'disk'),
        ('picture_width', 0),
    ):
        refused = bench.set_parameter(name, value)
        assert not refused.successful
        assert refused.reason
    assert bench.result_of(image).homography.status == Homography.OK


def test_status_numbers_are_those_of_the_message():
    for status in Status:
        assert getattr(Homography, status.name) == status


@pytest.mark.parametrize('ending', [signal.SIGINT, signal.SIGTERM])
def test_the_node_ends_in_the_middle_of_a_frame(bench, slow_matcher, ending, view):
    process, results, log = slow_matcher
    bench.result_of(rgb_to_message(view.image, Header()))
    process.send_signal(ending)
    process.send_signal(ending)  # a terminal and a launch file both send it
    started = time.monotonic()
    assert process.wait(timeout=15) == 0, log.read_text()
    assert time.monotonic() - started < 10
    assert not results.messages, 'the frame was done before the node was told to stop'
    assert 'Traceback' not in log.read_text()
    assert 'terminate' not in log.read_text()


@pytest.mark.parametrize('seconds', [1.0, 3.0])
@pytest.mark.parametrize('ending', [signal.SIGINT, signal.SIGTERM])
def test_the_node_ends_while_it_starts(bench, ending, seconds, tmp_path):
    # Wherever in its start this hits: an exit code that says it was not a fault, or the signal.
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, '-r', '__node:=brief') as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        process.send_signal(ending)
        assert process.wait(timeout=20) in (0, -ending), log.read_text()
    assert 'Traceback' not in log.read_text()


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (
            ('-p', 'extractor:=sift'),
            "extractor is 'sift': use one of aliked, disk, xfeat, superpoint",
        ),
        (('-p', 'detector:=onnx'), "detector 'onnx' needs a model file: set detector_path"),
        (('-p', 'reference_path:=/nowhere.png'), 'there is no file /nowhere.png'),
        (('-p', 'device:=tpu'), "device is 'tpu': use one of auto, cpu, cuda"),
        (('-p', 'max_keypoints:=1'), 'max_keypoints'),
        (('-p', 'max_keypoints:=many'), 'max_keypoints'),
        (
            ('-p', 'reference_path:=COFFEE', '-p', 'min_inliers:=1000', *FAST),
            'only 512 distinct points, and 1000 must be found again',
        ),
    ],
)
def test_a_node_that_cannot_start_says_why(bench, arguments, words, coffee_file, tmp_path):
    log = tmp_path / 'log.txt'
    arguments = [argument.replace('COFFEE', str(coffee_file)) for argument in arguments]
    with running('matcher_node', log, '-r', '__node:=broken', *arguments) as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    text = log.read_text()
    assert 'cannot start' in text
    assert words in text
    assert 'Traceback' not in text


def test_missing_models_are_named_with_the_command_that_brings_them(bench, tmp_path, monkeypatch):
    monkeypatch.setenv('NIOM_MODELS', str(tmp_path / 'empty'))
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, '-r', '__node:=broken') as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    assert 'niom models fetch aliked-n16' in log.read_text()


def test_a_parameter_file_that_does_not_exist_is_a_wrong_setting(bench, tmp_path):
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, '--params-file', '/nowhere.yaml') as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    assert 'cannot start' in log.read_text() and '/nowhere.yaml' in log.read_text()


def test_a_reference_can_be_given_at_the_start(bench, coffee_file, tmp_path):
    arguments = ('-r', '__node:=ready', '-p', f'reference_path:={coffee_file}', *FAST)
    results = Inbox(bench.node, MatchResult, 'ready/match')
    image = rgb_to_message(example_photo('coffee'), Header())
    with running('matcher_node', tmp_path / 'log.txt', *arguments):
        spin_until(bench.node, lambda: bench.node.count_publishers('ready/match'), 'the node')

        def matched():
            bench.publish(image)
            rclpy.spin_once(bench.node, timeout_sec=0.1)
            return results.messages

        spin_until(bench.node, matched, 'a result')
    assert results.messages[0].homography.status == Homography.OK
    results.close()
