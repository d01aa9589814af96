"""`niom replay` as a user types it, on bags that the virtual camera filled."""

import contextlib
from dataclasses import dataclass
import io
import json
import os
from pathlib import Path
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from types import SimpleNamespace

from alike_pictures import picture, wall
from bag_files import write_bag
import cv2
from geometry_msgs.msg import PoseWithCovarianceStamped
import lz4.frame
from niom_ros.msg import Homography, LandmarkArray, MatchResult
import numpy as np
import pytest
from rclpy.serialization import deserialize_message
from rosbags.interfaces import MessageDefinitionFormat
from rosbags.rosbag2 import (
    CompressionMode,
    Reader,
    ReaderError,
    StoragePlugin,
    Writer,
)

from niom_ros.cli.main import main
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Settings
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.matching.geometry import corner_error
from niom_ros.matching.matcher import Matcher
from niom_ros.messages.results import image_message
from niom_ros.nodes import ros_messages
from niom_ros.replay import command, decompression
from niom_ros.replay.bags import Bag, BagError, INFO_TYPE, open_bag
from niom_ros.replay.decompression import unpacked
from niom_ros.replay.messages import build, message_types, plain, serialised
from niom_ros.replay.outputs import HOMOGRAPHY, LANDMARKS, MATCH, POSE, TOPICS
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene
from niom_ros.stream import stream
from niom_ros.stream.answers import find_best

FRAMES = 4
PERIOD = 0.25  # seconds
SCENE_TIME = 7.5  # seconds, when the camera is close
START = 1_700_000_000  # seconds
PHOTO_WIDTH = 0.3  # metres
QUICK = ['--max-keypoints', '256', '--device', 'cpu']


@pytest.fixture(scope='module')
def small_photo(coffee):
    return cv2.resize(coffee, (300, 200), interpolation=cv2.INTER_AREA)


@pytest.fixture(scope='module')
def small_scene(small_photo):
    return VirtualScene(small_photo, example_photo('gravel'), width=320, height=240, noise=3.0)


@pytest.fixture(scope='module')
def views(small_scene):
    times = [SCENE_TIME + PERIOD * frame for frame in range(FRAMES)]
    return [small_scene.view(seconds, frame) for frame, seconds in enumerate(times)]


def header(frame):
    seconds, nanoseconds = divmod(int(1e9 * PERIOD * frame), 10**9)
    stamp = build('builtin_interfaces/Time', sec=START + seconds, nanosec=nanoseconds)
    return build('std_msgs/Header', stamp=stamp, frame_id='camera')


def raw_image(view, frame):
    return image_message(build, view.image, header(frame))


def compressed_image(view, frame):
    data = np.frombuffer(cv2.imencode('.jpg', view.image[..., ::-1])[1].tobytes(), np.uint8)
    return build('sensor_msgs/CompressedImage', header=header(frame), format='jpeg', data=data)


def calibration(scene, frame):
    camera = scene.camera_matrix()
    return build(
        'sensor_msgs/CameraInfo',
        header=header(frame),
        width=scene.width,
        height=scene.height,
        distortion_model='plumb_bob',
        d=np.zeros(5),
        k=camera.ravel(),
        r=np.eye(3).ravel(),
        p=np.column_stack([camera, np.zeros(3)]).ravel(),
    )


def log_time(frame):
    """Return when the recorder received an image: a little after it was taken."""
    return START * 10**9 + int(1e9 * PERIOD * frame) + 7_000_000


def camera_messages(scene, views, make_image=raw_image, image_topic='/camera/image'):
    for frame, view in enumerate(views):
        yield image_topic, log_time(frame), make_image(view, frame)
        # A little later, as a driver does that publishes the image first.
        yield '/camera/camera_info', log_time(frame) + 1000, calibration(scene, frame)


@pytest.fixture(scope='module')
def bag(small_scene, views, tmp_path_factory):
    folder = tmp_path_factory.mktemp('recorded') / 'run'
    return write_bag(folder, camera_messages(small_scene, views))


@pytest.fixture(scope='module')
def reference(small_photo, tmp_path_factory):
    file = tmp_path_factory.mktemp('reference') / 'coffee.png'
    cv2.imwrite(str(file), small_photo[..., ::-1])
    return file


@pytest.fixture(scope='module')
def matcher():
    return Matcher(Settings(device='cpu', max_keypoints=256))


@pytest.fixture
def loaded(matcher, monkeypatch):
    """Save the time to load the networks."""
    monkeypatch.setattr(command, 'Matcher', lambda _: matcher)


def run(*arguments):
    return main(['replay', *map(str, arguments), *QUICK])


def contents(bag):
    """Return type, time and bytes of all messages of a bag by topic."""
    found = {}
    with Reader(bag) as reader:
        for connection, time, data in reader.messages():
            found.setdefault(connection.topic, []).append((connection.msgtype, time, data))
    return found


def results_in(bag):
    """Return what a bag tells about each image, read by ROS itself."""
    return [deserialize_message(data, MatchResult) for _, _, data in contents(bag)[MATCH]]


def error_in_pixels(matrix, view, photo):
    found = np.array(matrix).reshape(3, 3)
    return corner_error(found, view.picture_to_image, Box.around(photo))


# One run with everything that can be written


@dataclass
class Finished:
    code: int
    said: str
    folder: Path


@pytest.fixture(scope='module')
def finished(bag, reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp('written')
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run(
            *(bag, '--reference', reference, '--physical-width', PHOTO_WIDTH),
            *('-o', folder / 'results', '--pictures', folder / 'pictures'),
            *('--video', folder / 'video.mp4'),
        )
    return Finished(code, said.getvalue(), folder)


def test_it_says_what_it_found(finished):
    assert finished.code == 0
    rows = dict(line.strip().split(maxsplit=1) for line in finished.said.splitlines())
    assert rows['images'] == '4 of /camera/image'
    assert rows['found'] == '4 (100%)'
    assert rows['references'] == 'coffee 4'
    assert rows['statuses'] == 'OK 4'
    assert rows['camera_info'] == '/camera/camera_info'
    assert rows['poses'] == '4'
    assert re.fullmatch(r'seconds +sift \d.*', rows['median'])
    assert str(finished.folder / 'video.mp4') in rows['written']


def test_ros_reads_the_written_bag(finished, views, small_photo):
    found = contents(finished.folder / 'results')
    assert {topic: messages[0][0] for topic, messages in found.items()} == TOPICS
    for messages in found.values():
        assert [time for _, time, _ in messages] == [log_time(frame) for frame in range(FRAMES)]
    for frame, result in enumerate(results_in(finished.folder / 'results')):
        assert result.header.frame_id == 'camera'
        assert result.header.stamp.sec == START
        assert result.header.stamp.nanosec == int(1e9 * PERIOD * frame)
        homography = result.homography
        assert homography.status == Homography.OK
        # The first is matched in full, the others are tracked from there.
        assert homography.source == (Homography.TRACKED if frame else Homography.MATCHED)
        assert homography.matched_stamp.sec == START and homography.matched_stamp.nanosec == 0
        assert error_in_pixels(homography.matrix, views[frame], small_photo) < 3
        assert result.inliers == sum(result.inlier) >= 20
        assert len(result.score) == len(result.image_x) == len(result.reference_y)
        assert (homography.image_width, homography.image_height) == (320, 240)
        assert (result.frames_received, result.frames_dropped) == (frame + 1, 0)
        assert result.latency > 0.8 * sum(result.stage_seconds)
        small = deserialize_message(found[HOMOGRAPHY][frame][2], Homography)
        assert small == homography
        landmarks = deserialize_message(found[LANDMARKS][frame][2], LandmarkArray)
        assert (landmarks.reference_id, landmarks.mode) == ('coffee', LandmarkArray.GLOBAL)


def test_the_pose_is_in_metres(finished, small_scene):
    poses = contents(finished.folder / 'results')[POSE]
    for frame, (_, _, data) in enumerate(poses):
        place = deserialize_message(data, PoseWithCovarianceStamped).pose.pose.position
        _, shift = small_scene.pose(SCENE_TIME + PERIOD * frame)
        found, truth = np.array([place.x, place.y, place.z]), PHOTO_WIDTH * shift
        assert np.linalg.norm(found - truth) < 0.02 * np.linalg.norm(truth)


def test_a_written_bag_explains_its_types(finished):
    with Reader(finished.folder / 'results') as reader:
        for connection in reader.connections:
            assert connection.msgdef.format is MessageDefinitionFormat.MSG
            package, _, name = connection.msgtype.split('/')
            # What the ROS build system computed from the same definition.
            file = Path(sys.prefix) / 'share' / package / f'msg/{name}.json'
            described = json.loads(file.read_text())
            hashes = {row['type_name']: row['hash_string'] for row in described['type_hashes']}
            assert connection.digest == hashes[connection.msgtype]
            if connection.topic == MATCH:
                assert 'MSG: niom_ros/Homography' in connection.msgdef.data


def test_pictures_and_video_show_each_image(finished):
    names = sorted(path.name for path in (finished.folder / 'pictures').iterdir())
    assert names[0] == f'000001_{START}.000000000.png'
    assert names[3] == f'000004_{START}.750000000.png'
    assert len(names) == FRAMES
    picture = cv2.imread(str(finished.folder / 'pictures' / names[0]))
    video = cv2.VideoCapture(str(finished.folder / 'video.mp4'))
    assert video.get(cv2.CAP_PROP_FPS) == pytest.approx(1 / PERIOD)
    frames = []
    while (frame := video.read())[0]:
        frames.append(frame[1])
    assert len(frames) == FRAMES
    assert np.abs(np.subtract(frames[0].shape, picture.shape)).max() <= 1  # made even
    shown = frames[0][: picture.shape[0], : picture.shape[1]].astype(float)
    assert np.abs(shown - picture).mean() < 10


# Other kinds of bags and results


def test_compressed_images_in_sqlite_become_json(
    small_scene, views, reference, loaded, tmp_path, capsys
):
    messages = camera_messages(small_scene, views, compressed_image, '/camera/image/compressed')
    bag = write_bag(tmp_path / 'run', messages, StoragePlugin.SQLITE3)
    other = tmp_path / 'astronaut.png'
    cv2.imwrite(str(other), cv2.resize(example_photo('astronaut'), (256, 256))[..., ::-1])
    output = tmp_path / 'results.json'
    both = ['--reference', other, '--reference', reference]
    assert run(bag, *both, '--every', 2, '--no-tracking', '-o', output) == 0
    assert 'coffee 2' in capsys.readouterr().out
    document = json.loads(output.read_text())
    assert document['topic'] == '/camera/image/compressed'
    assert document['camera_info_topic'] == '/camera/camera_info'
    assert document['references'] == ['astronaut', 'coffee']
    assert [frame['frame'] for frame in document['frames']] == [1, 3]
    for frame in document['frames']:
        match = frame['match']
        assert match.keys() == MatchResult.get_fields_and_field_types().keys()
        assert frame['landmarks'].keys() == LandmarkArray.get_fields_and_field_types().keys()
        assert match['header']['frame_id'] == 'camera'
        assert frame['time'] == log_time(frame['frame'] - 1)
        assert match['homography']['reference_id'] == 'coffee'
        assert match['tried_reference_ids'] == ['astronaut', 'coffee']
        assert frame['pose'] is None  # nobody said how wide the references are
    assert document['frames'][1]['match']['frames_dropped'] == 1


def test_images_that_cannot_be_read_do_not_stop_it(
    small_scene, views, reference, loaded, tmp_path, capsys
):
    def image(view, frame):
        message = raw_image(view, frame)
        if frame == 1:
            message.encoding = '32FC1'
        return message

    bag = write_bag(tmp_path / 'run', camera_messages(small_scene, views, image))
    # A file as people send it around, without the folder that it was recorded into.
    file = shutil.copy(bag / 'run.mcap', tmp_path / 'sent.mcap')
    output = tmp_path / 'results.mcap'
    assert run(file, '--reference', reference, '--limit', 3, '-o', output) == 0
    results = results_in(output)
    statuses = [result.homography.status for result in results]
    assert statuses == [Homography.OK, Homography.BAD_IMAGE, Homography.OK]
    assert 'carries depth' in results[1].status_message
    assert results[1].header.stamp.nanosec == int(1e9 * PERIOD)
    said = capsys.readouterr().out
    assert 'OK 2, BAD_IMAGE 1' in said
    assert 'image 2: the camera image cannot be used' in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ['results.mcap', 'run', 'sent.mcap']


def test_a_failure_is_told_and_does_not_stop_it(
    bag, reference, loaded, tmp_path, monkeypatch, capsys
):
    def fail(*_, **__):
        raise RuntimeError('no memory')

    monkeypatch.setattr(stream, 'find_best', fail)
    output = tmp_path / 'results.jsonl'
    assert run(bag, '--reference', reference, '-o', output, '--video', tmp_path / 'a.mp4') == 3
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line['match']['homography']['status'] for line in lines] == [Homography.FAULT] * 4
    assert 'no memory' in lines[0]['match']['status_message']
    fault = "image 1: niom failed on this frame: RuntimeError('no memory')"
    assert fault in capsys.readouterr().out


def test_what_a_cut_file_still_holds_is_used(
    small_scene, views, reference, loaded, tmp_path, capsys
):
    bag = write_bag(tmp_path / 'run', camera_messages(small_scene, views * 2))
    content = (bag / 'run.mcap').read_bytes()
    file = tmp_path / 'cut.mcap'
    file.write_bytes(content[: int(0.8 * len(content))])  # in the second chunk
    output = tmp_path / 'results.jsonl'
    assert run(file, '--reference', reference, '--every', 4, '-o', output) == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line['frame'] for line in lines] == [1, 5]
    error = capsys.readouterr().err
    assert error.startswith(f'niom: {file} is damaged') and len(error.splitlines()) == 1


def test_a_reference_that_is_in_no_image_is_exit_code_3(bag, loaded, tmp_path, capsys):
    other = tmp_path / 'astronaut.png'
    cv2.imwrite(str(other), cv2.resize(example_photo('astronaut'), (256, 256))[..., ::-1])
    assert run(bag, '--reference', other, '--limit', 1) == 3
    said = capsys.readouterr().out
    assert 'found                    0 (0%)' in said
    assert 'OK' not in said


def test_objects_that_are_only_alike_are_counted_apart_and_exit_code_4(
    small_scene, loaded, tmp_path, capsys
):
    clock, brick = tmp_path / 'clock.png', example_photo('brick')
    cv2.imwrite(str(clock), picture('clock')[..., ::-1])
    views = [SimpleNamespace(image=image) for image in (wall(), cv2.resize(brick, (640, 480)))]
    bag = write_bag(tmp_path / 'run', camera_messages(small_scene, views))
    assert run(bag, '--reference', clock, '--no-tracking') == 4
    rows = dict(line.strip().split('  ', 1) for line in capsys.readouterr().out.splitlines())
    rows = {name: text.strip() for name, text in rows.items()}
    assert (rows['found'], rows['alike']) == ('0 (0%)', '1 (50%)')
    assert rows['references of these'] == 'clock 1' and 'references' not in rows


def test_ctrl_c_leaves_whole_files(bag, reference, loaded, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return find_best(*arguments, **named)

    monkeypatch.setattr(stream, 'find_best', interrupted)
    handler = signal.getsignal(signal.SIGINT)  # whatever the tests were started with
    output, video = tmp_path / 'results.mcap', tmp_path / 'video.mp4'
    assert run(bag, '--reference', reference, '-o', output, '--video', video) == 130
    (result,) = results_in(output)
    assert result.homography.status == Homography.OK
    assert cv2.VideoCapture(str(video)).read()[0]
    said = capsys.readouterr()
    assert 'images                   1 of /camera/image' in said.out
    assert said.err == 'niom: interrupted\n'
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_camera_without_calibration_gives_no_pose(
    small_scene, views, reference, loaded, tmp_path, capsys
):
    def messages():
        yield '/image', log_time(0), raw_image(views[0], 0)
        info = calibration(small_scene, 0)
        info.k[:] = 0
        yield '/other/camera_info', log_time(0), info

    bag = write_bag(tmp_path / 'run', messages())
    assert run(bag, '--reference', reference, '--physical-width', 0.3) == 0
    said = capsys.readouterr().out
    assert (
        said.count('carries no calibration') == 2
    )  # of the camera, and as the reason for no pose
    assert 'poses                    0 (' in said


# Reading bags


def frames_of(path):
    with open_bag(path) as opened:
        topic = opened.image_topic()
        images = list(opened.images(topic, opened.camera_info_topic('', topic)))
        return images, opened.damage


@pytest.mark.parametrize('compression', [CompressionMode.FILE, CompressionMode.MESSAGE])
def test_compressed_bags_are_read(compression, small_scene, views, tmp_path):
    messages = camera_messages(small_scene, views[:2])
    images, damage = frames_of(
        write_bag(tmp_path / 'run', messages, StoragePlugin.SQLITE3, compression)
    )
    assert damage == ''
    assert [image.number for image in images] == [1, 2]
    for image, view in zip(images, views, strict=False):
        assert (message_to_rgb(image.message) == view.image).all()
        assert image.camera_info.width == 320  # also for the first, recorded before it


@pytest.mark.parametrize(
    ('compress', 'decompressor'),
    [
        (decompression.zstd.compress, decompression.zstd.ZstdDecompressor),
        (lz4.frame.compress, lz4.frame.LZ4FrameDecompressor),
    ],
)
def test_unpacking_is_bounded(compress, decompressor):
    content = bytes(range(250)) * 4
    packed = compress(content[:700]) + compress(content[700:])
    assert unpacked(packed, decompressor, 1000) == content
    assert unpacked(b'', decompressor, 0) == b''
    with pytest.raises(ReaderError, match='more than the 999 bytes'):
        unpacked(packed, decompressor, 999)
    with pytest.raises(ReaderError, match='cut off'):
        unpacked(packed[:-8], decompressor, 1000)
    assert unpacked(compress(b'a') * 1000, decompressor, 1000) == b'a' * 1000
    with pytest.raises(ReaderError, match='more than 1000 compressed frames'):
        unpacked(compress(b'') * 1001, decompressor, 1000)


@pytest.mark.parametrize('piece', [1, 7, 1000])
@pytest.mark.parametrize(
    ('compress', 'decompressor'),
    [
        (decompression.zstd.compress, decompression.zstd.ZstdDecompressor),
        (lz4.frame.compress, lz4.frame.LZ4FrameDecompressor),
    ],
)
def test_unpacking_goes_on_across_pieces(compress, decompressor, piece, monkeypatch):
    """Also across the end of a frame; each piece is copied once, not all that is left."""
    content = np.random.default_rng(1).integers(0, 99, 5000).astype(np.uint8).tobytes()
    packed = compress(content[:3000]) + compress(b'') + compress(content[3000:])
    given = []

    class Watched:
        def __init__(self):
            self._frame = decompressor()

        def __getattr__(self, name):
            return getattr(self._frame, name)

        def decompress(self, data, most):
            given.append(len(data))
            return self._frame.decompress(data, most)

    monkeypatch.setattr(decompression, 'PIECE', piece)
    assert unpacked(packed, Watched, 5000) == content
    assert max(given) == piece
    with pytest.raises(ReaderError, match='more than the 4999 bytes'):
        unpacked(packed, decompressor, 4999)
    with pytest.raises(ReaderError, match='cut off'):
        unpacked(packed[:-8], decompressor, 5000)


@pytest.mark.parametrize(
    ('storage', 'compression'),
    [
        (StoragePlugin.SQLITE3, CompressionMode.MESSAGE),
        (StoragePlugin.MCAP, CompressionMode.STORAGE),
    ],
)
def test_a_bag_that_unpacks_to_too_much_is_damaged(
    storage, compression, small_scene, views, tmp_path, monkeypatch
):
    messages = camera_messages(small_scene, views[:2])
    bag = write_bag(tmp_path / 'run', messages, storage, compression)
    monkeypatch.setattr(decompression, 'MAX_UNPACKED', 320 * 240 * 3 - 1)
    with open_bag(bag) as opened:
        assert list(opened.images('/camera/image')) == []
        assert 'is damaged (it unpacks to more than the 230399 bytes' in opened.damage


def test_a_bag_that_does_not_fit_on_the_disk_is_refused_and_leaves_nothing_there(
    small_scene, views, tmp_path, monkeypatch
):
    messages = camera_messages(small_scene, views[:2])
    bag = write_bag(tmp_path / 'run', messages, StoragePlugin.SQLITE3, CompressionMode.FILE)
    unpacking = tmp_path / 'unpacking'
    unpacking.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(unpacking))
    monkeypatch.setattr(decompression, 'MAX_DISK_SHARE', 1e-9)
    with pytest.raises(UserError, match=r'MB that are free in .*unpacking: set TMPDIR'):
        frames_of(bag)
    assert not list(unpacking.iterdir())
    monkeypatch.undo()
    assert len(frames_of(bag)[0]) == 2


@pytest.mark.parametrize('time', [-1, 1.5e300])
def test_a_message_recorded_at_no_time_is_damage(time, small_scene, views, tmp_path):
    bag = write_bag(
        tmp_path / 'run', camera_messages(small_scene, views[:2]), StoragePlugin.SQLITE3
    )
    with contextlib.closing(sqlite3.connect(bag / 'run.db3')) as database, database:
        database.execute('UPDATE messages SET timestamp = ?', (time,))
    images, damage = frames_of(bag)
    assert images == []
    assert 'a message was recorded at' in damage


@pytest.mark.parametrize(
    ('field', 'value'), [('message_count', 'many'), ('name', '7'), ('name', '[a]'), ('type', '7')]
)
def test_metadata_that_say_something_odd_are_left_out(field, value, small_scene, views, tmp_path):
    bag = write_bag(
        tmp_path / 'run', camera_messages(small_scene, views[:2]), StoragePlugin.SQLITE3
    )
    metadata = bag / 'metadata.yaml'
    metadata.write_text(
        re.sub(rf'(?m)^([ -]+{field}: ).*$', rf'\g<1>{value}', metadata.read_text())
    )
    images, damage = frames_of(bag)
    assert len(images) == 2
    assert 'its files were read one by one' in damage


def test_a_name_that_sqlite_takes_for_another_is_refused(small_scene, views, tmp_path):
    messages = camera_messages(small_scene, views[:1])
    bag = write_bag(tmp_path / 'run', messages, StoragePlugin.SQLITE3)
    odd = tmp_path / 'r%75n'  # in an address, this is `run`
    shutil.copytree(bag, odd)
    for path in (odd, odd / 'run.db3'):
        with pytest.raises(BagError, match=f"cannot open paths with '%': rename {path}"):
            frames_of(path)


def test_files_of_a_recorder_that_crashed_are_read_in_order(bag, tmp_path):
    for number in (10, 9):
        shutil.copy(bag / 'run.mcap', tmp_path / f'run_{number}.mcap')
    (tmp_path / 'run_11.mcap').write_bytes(b'nothing')
    with open_bag(tmp_path) as opened:
        paths = [Path(str(reader.path)).name for reader in opened._readers]
        assert paths == ['run_9.mcap', 'run_10.mcap']
        assert 'run_11.mcap' in opened.damage
        assert opened.topics() == {'/camera/image': 8, '/camera/camera_info': 8}


def test_a_damaged_message_is_one_bad_image(views, tmp_path):
    with Writer(tmp_path / 'run', version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        kind = 'sensor_msgs/msg/Image'
        connection = writer.add_connection('/image', kind, typestore=message_types())
        data = bytes(serialised(raw_image(views[0], 0)))
        writer.write(connection, 1, data[:1000])
        writer.write(connection, 2, data)
    (broken, whole), damage = frames_of(tmp_path / 'run')
    assert damage == ''
    assert broken.message is None and 'damaged' in broken.problem
    assert broken.header.frame_id == ''
    assert whole.problem == '' and whole.header.frame_id == 'camera'


def test_damage_in_the_middle_keeps_what_came_before(small_scene, views, tmp_path):
    bag = write_bag(
        tmp_path / 'run',
        camera_messages(small_scene, views * 2),
        compression=CompressionMode.STORAGE,
    )
    file = bag / 'run.mcap'
    content = bytearray(file.read_bytes())
    last_chunk = content.rindex(b'\x28\xb5\x2f\xfd')  # with this, zstd begins
    content[last_chunk : last_chunk + 4] = bytes(4)
    file.write_bytes(content)
    images, damage = frames_of(bag)
    assert 4 <= len(images) < 8
    assert 'is damaged' in damage and 'some of it was not read' in damage


def test_the_camera_info_beside_the_images_is_taken():
    def chosen(image_topic, *infos):
        connections = [SimpleNamespace(topic=t, msgtype=INFO_TYPE, msgcount=1) for t in infos]
        bag = Bag([SimpleNamespace(connections=connections)])
        return bag.camera_info_topic('', image_topic)

    left, right = '/left/camera_info', '/right/camera_info'
    assert chosen('/left/image_raw', right, left) == left
    assert chosen('/left/image_raw/compressed', right, left) == left
    assert chosen('/left/compressed', right, left) == left
    assert chosen('/image', '/camera_info', left) == '/camera_info'
    assert chosen('/image', right) == right
    assert chosen('/image', right, left) == ''
    assert chosen('/image') == ''


# Messages


def test_messages_are_those_of_ros():
    given = {
        'names': ['a', 'ö'],
        'x': np.array([1.5, np.nan], np.float32),
        'inside': np.array([True, False]),
        'status': 1,
    }
    message = build('niom_ros/LandmarkArray', header=header(2), **given)
    ours = deserialize_message(bytes(serialised(message)), LandmarkArray)
    theirs = ros_messages.build('niom_ros/LandmarkArray', **given)
    theirs.header.stamp.sec, theirs.header.stamp.nanosec = START, int(2e9 * PERIOD)
    theirs.header.frame_id = 'camera'
    assert repr(ours) == repr(theirs)
    assert plain(message)['x'] == [1.5, None]
    assert plain(message)['header'] == {
        'stamp': {'sec': START, 'nanosec': 500_000_000},
        'frame_id': 'camera',
    }


def test_a_field_that_no_message_has_is_refused():
    with pytest.raises(KeyError, match='colour'):
        build('niom_ros/Homography', colour=1)


# Mistakes


@pytest.fixture(scope='module')
def faulty(bag, reference, tmp_path_factory):
    """Return a folder with things that can be wrong."""
    folder = tmp_path_factory.mktemp('faulty')
    shutil.copy(reference, folder / 'coffee.png')
    shutil.copytree(bag, folder / 'good')
    text = build('std_msgs/String', data='hello')
    write_bag(folder / 'talk', [('/chatter', 1, text)])
    image = build('sensor_msgs/Image')
    write_bag(folder / 'two', [('/left', 1, image), ('/right', 1, image), ('/right', 2, image)])
    (folder / 'junk.mcap').write_bytes(bytes(range(256)) * 20)
    (folder / 'junk.db3').write_bytes(bytes(range(256)) * 20)
    (folder / 'notes.txt').write_text('no bag')
    (folder / 'old.bag').write_text('#ROSBAG V2.0')
    (folder / 'empty').mkdir()
    (folder / 'pictures').mkdir()
    (folder / 'pictures/old.png').write_text('')
    (folder / 'cup.yaml').write_text('image: coffee.png\n')
    (folder / 'dull.png').write_bytes(cv2.imencode('.png', np.zeros((99, 99, 3), np.uint8))[1])
    return folder


IMAGE = ['--reference', 'coffee.png']


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['missing', *IMAGE], 'there is no missing: give a rosbag2 folder'),
        (['notes.txt', *IMAGE], 'notes.txt is not a bag: give a rosbag2 folder, an .mcap file'),
        (['empty', *IMAGE], 'empty is not a bag (it has no metadata.yaml)'),
        (['old.bag', *IMAGE], 'rosbags-convert --src old.bag --dst old'),
        (['junk.mcap', *IMAGE], 'junk.mcap cannot be read as a bag (File magic is invalid)'),
        (['junk.db3', *IMAGE], 'junk.db3 cannot be read as a bag'),
        (['talk', *IMAGE], 'has no sensor_msgs/Image or CompressedImage, only /chatter (1)'),
        (['two', *IMAGE], 'choose an image topic with --topic: there are /left (1), /right (2)'),
        (['two', *IMAGE, '--topic', 'up'], "no images on 'up': there are /left (1), /right (2)"),
        (['good', *IMAGE, '--camera-info-topic', '/x'], "no camera_info on '/x': there are /cam"),
        (['good', *IMAGE, '-o', 'notes.txt'], 'use the ending .mcap, .json or .jsonl'),
        (['good', *IMAGE, '-o', 'talk'], 'talk exists already'),
        (['good', *IMAGE, '-o', 'junk.mcap'], 'junk.mcap exists already'),
        (['good', *IMAGE, '-o', 'no/such/a.json'], 'there is no folder no/such'),
        (['good', *IMAGE, '--video', 'a.avi'], 'use the ending .mp4'),
        (['good', *IMAGE, '--pictures', 'pictures'], 'pictures exists already'),
        (['good', *IMAGE, '--every', '0'], 'every is 0'),
        (['good', *IMAGE, '--limit', '-1'], 'limit is -1'),
        (['good', *IMAGE, '--image-rotation', '45'], 'image_rotation is'),
        (['good', '--reference', 'missing.png'], 'there is no file missing.png'),
        (['good', *IMAGE, *IMAGE], "2 references are named 'coffee'"),
        (['good', '--reference', 'cup.yaml', '--physical-width', '1'], 'for a single image'),
        (['good', *IMAGE, '--physical-width', '-1'], 'physical_width is -1'),
        (['good', '--reference', 'dull.png'], "reference 'dull': the reference has only"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, words, faulty, loaded, monkeypatch, capsys):
    monkeypatch.chdir(faulty)
    before = sorted(faulty.rglob('*'))
    assert run(*arguments) == 1
    said = capsys.readouterr()
    assert said.err.startswith('niom: ')
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ''
    assert sorted(faulty.rglob('*')) == before


def test_it_needs_no_ros():
    program = """
import sys
import tempfile

class NoRos:
    def find_spec(self, name, *_):
        ros = ('rclpy', 'rosidl', 'rpyutils', 'ament')
        if name.startswith(ros) or '_msgs' in name or name == 'niom_ros.msg':
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoRos())
import niom_ros.replay.command
from niom_ros.replay.messages import build, serialised
serialised(build('niom_ros/MatchResult'))
"""
    subprocess.run([sys.executable, '-c', program], check=True, timeout=120)
