"""Writes recordings for tests."""

from rosbags.rosbag2 import CompressionFormat, StoragePlugin, Writer

from niom_ros.replay.messages import message_types, serialised


def write_bag(folder, messages, storage=StoragePlugin.MCAP, compression=None):
    """Write (topic, time, message) into a rosbag2 folder."""
    writer = Writer(folder, version=9, storage_plugin=storage)
    if compression is not None:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, time, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=message_types())
            writer.write(connections[topic], time, serialised(message))
    return folder
