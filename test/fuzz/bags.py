"""Recordings that are damaged, or were made to do damage."""

from itertools import islice
from pathlib import Path
import shutil
import tempfile

import numpy as np
from pictures import damaged_pictures
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from niom_ros.core.errors import UserError
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.replay.bags import BagWriter, open_bag
from niom_ros.replay.messages import build, message_types, serialised

INPUTS = 20_000
_folder = Path(tempfile.mkdtemp(prefix='fuzz'))


def seeds() -> list[bytes]:
    file = _folder / 'seed.mcap'
    topics = {
        '/image': 'sensor_msgs/msg/Image',
        '/compressed': 'sensor_msgs/msg/CompressedImage',
        '/camera_info': 'sensor_msgs/msg/CameraInfo',
    }
    file.unlink(missing_ok=True)
    writer = BagWriter(file, topics)
    pixels = np.zeros(27, np.uint8)
    image = build('sensor_msgs/Image', width=3, height=3, step=9, encoding='rgb8', data=pixels)
    picture = np.frombuffer(damaged_pictures()[0], np.uint8)
    for time in range(2):
        writer.write('/image', time, image)
        writer.write('/compressed', time, build('sensor_msgs/CompressedImage', data=picture))
        writer.write('/camera_info', time, build('sensor_msgs/CameraInfo'))
    writer.close()
    whole = file.read_bytes()
    packed = compressed_bag(image)
    return [
        b'm' + whole,
        b'm' + whole[: len(whole) // 2],
        b'm' + packed,
        b'dSQLite format 3\0',
        b'm',
    ]


def compressed_bag(image) -> bytes:
    """Return an MCAP file whose chunks are compressed."""
    folder = _folder / 'compressed'
    shutil.rmtree(folder, ignore_errors=True)
    writer = Writer(folder, version=8, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        kind = 'sensor_msgs/msg/Image'
        connection = writer.add_connection('/image', kind, typestore=message_types())
        for time in range(2):
            writer.write(connection, time, serialised(image))
    return (folder / 'compressed.mcap').read_bytes()


def attempt(data: bytes) -> None:
    file = _folder / ('fuzzed.db3' if data[:1] == b'd' else 'fuzzed.mcap')
    file.write_bytes(data[1:])
    try:
        with open_bag(file) as bag:
            for wanted in ('', '/image', 'compressed'):
                read_images(bag, wanted)
    except UserError as error:
        assert str(error)


def read_images(bag, wanted: str) -> None:
    try:
        topic = bag.image_topic(wanted)
        info_topic = bag.camera_info_topic('', topic)
    except UserError:
        return
    for image in islice(bag.images(topic, info_topic), 5):
        if image.message is None:
            assert image.problem
            continue
        try:
            message_to_rgb(image.message)
        except ImageError:
            continue
