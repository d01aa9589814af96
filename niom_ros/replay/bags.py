"""ROS 2 bags, read and written without ROS: rosbag2 folders, MCAP and SQLite files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
import re
import shutil
from typing import Any, cast, Final

from rosbags.rosbag2 import Reader, StoragePlugin, Writer

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason
from niom_ros.core.listing import listed
from niom_ros.replay.cut_mcap import CutMcap
from niom_ros.replay.decompression import bound_rosbags
from niom_ros.replay.messages import build, deserialised, message_types, serialised

IMAGE_TYPES = ('sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage')
INFO_TYPE = 'sensor_msgs/msg/CameraInfo'
STORAGE_SUFFIXES = ('.mcap', '.db3')
METADATA = 'metadata.yaml'
UNREADABLE = '%#?'  # in paths of SQLite files, which rosbags turns into URIs
WHAT_TO_NAME = 'give a rosbag2 folder, an .mcap file or a .db3 file'

# Version of metadata.yaml: the newest that ROS 2 Humble reads; Jazzy reads it too.
WRITTEN_VERSION: Final = 8


class BagError(UserError):
    """A recording that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class BagImage:
    """An image of a recording."""

    number: int  # among the images of its topic, from 1
    time: int  # nanoseconds, when it was recorded
    message: Any  # Image or CompressedImage; None: it is damaged
    camera_info: Any  # the last one before it, or the first of all; None: there is none
    problem: str = ''  # why there is no message

    @property
    def header(self) -> Any:
        """Return the header of the image; an empty one if it is damaged."""
        return build('std_msgs/Header') if self.message is None else self.message.header


class Bag:
    """A recording that is open for reading."""

    def __init__(self, readers: Sequence[Reader], damage: str = '') -> None:
        self._readers = readers
        self.damage = damage  # why some of it could not be read, as far as is known so far

    def topics(self, types: Sequence[str] = ()) -> dict[str, int]:
        """Return how many messages each topic has; of these types only, if any are given."""
        counts: dict[str, int] = {}
        for connection in self._connections():
            if not types or connection.msgtype in types:
                counts.setdefault(connection.topic, 0)
                counts[connection.topic] += connection.msgcount
        return counts

    def image_topic(self, wanted: str = '') -> str:
        """Return the topic with the images: the one that is wanted, or the only one."""
        topics = self.topics(IMAGE_TYPES)
        if not topics:
            raise BagError(
                'the bag has no sensor_msgs/Image or CompressedImage, only '
                f'{counted(self.topics())}' + (f'; {self.damage}' if self.damage else '')
            )
        if wanted:
            return one_of(topics, wanted, 'images')
        candidates = [topic for topic, count in topics.items() if count] or list(topics)
        if len(candidates) > 1:
            raise BagError(f'choose an image topic with --topic: there are {counted(topics)}')
        return candidates[0]

    def camera_info_topic(self, wanted: str, image_topic: str) -> str:
        """Return the topic with the calibration of the camera, '' if it is not known."""
        topics = self.topics([INFO_TYPE])
        if wanted:
            return one_of(topics, wanted, 'camera_info')
        # Images of `camera/image` may be on `camera/image/compressed`.
        for name in (image_topic, image_topic.removesuffix('/compressed')):
            beside = f'{name.rpartition("/")[0]}/camera_info'
            if beside in topics:
                return beside
        return next(iter(topics)) if len(topics) == 1 else ''

    def images(self, topic: str, info_topic: str = '', every: int = 1) -> Iterator[BagImage]:
        """Read the images of a topic one by one, or every Nth of them.

        Reading stops where the bag is damaged; `damage` then says how.
        """
        info = self._first(info_topic)
        number = 0
        for kind, time, data in self._messages([topic, info_topic]):
            if kind == INFO_TYPE:
                info = read_message(data, kind)[0] or info
                continue
            number += 1
            if (number - 1) % every == 0:
                message, problem = read_message(data, kind)
                yield BagImage(
                    number=number,
                    time=time,
                    message=message,
                    camera_info=info,
                    problem=problem,
                )

    def _first(self, info_topic: str) -> Any:
        """Return the first camera_info, because it may be recorded after the first image."""
        for kind, _, data in self._messages([info_topic]):
            return read_message(data, kind)[0]
        return None

    def _messages(self, topics: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
        """Read the messages of topics in the order of recording: type, time, content."""
        for reader in self._readers:
            wanted = [each for each in reader.connections if each.topic in topics]
            if not wanted:
                continue
            try:
                for connection, time, data in reader.messages(wanted):
                    if not isinstance(time, int) or not 0 <= time < 2**63:
                        raise BagError(f'a message was recorded at {str(time)[:40]!r}')
                    yield connection.msgtype, time, data
            except Exception as error:  # rosbags, SQLite and the decompressors raise many kinds
                self.damage = (
                    f'{reader.path} is damaged ({said_by(error)}): some of it was not read'
                )

    def _connections(self) -> Iterator[Any]:
        for reader in self._readers:
            yield from reader.connections


def read_message(data: bytes, kind: str) -> tuple[Any, str]:
    """Return a message, or None and why it cannot be read."""
    try:
        return deserialised(data, kind), ''
    except Exception as error:  # damage may raise anything, even a MemoryError
        return None, (
            f'the message is damaged ({reason(error)}); '
            'if it is part of a compressed bag, give the folder of the bag'
        )


def one_of(topics: Mapping[str, int], wanted: str, what: str) -> str:
    """Return the topic that is wanted, with or without its leading slash."""
    for topic in topics:
        if topic.lstrip('/') == wanted.lstrip('/'):
            return topic
    raise BagError(f"the bag has no {what} on '{wanted}': there are {counted(topics)}")


def counted(topics: Mapping[str, int]) -> str:
    """Return the first topics with their numbers of messages in one line."""
    return listed([f'{topic} ({count})' for topic, count in sorted(topics.items())]) or 'none'


# Opening


@contextmanager
def open_bag(path: Path) -> Iterator[Bag]:
    """Open a rosbag2 folder, or a file of one; a damaged one as far as it can be read."""
    bound_rosbags()
    with ExitStack() as opened:
        yield bag_at(path, opened)


def bag_at(path: Path, opened: ExitStack) -> Bag:
    """Open the bag at a path, to be closed by the stack."""
    if not path.exists():
        raise BagError(f'there is no {path}: {WHAT_TO_NAME}')
    if not path.is_dir():
        return bag_of_files([path], opened)
    why = f'it has no {METADATA}'
    if (path / METADATA).is_file():
        try:
            return Bag([opened_reader(path, opened)])
        except UserError:
            raise
        except Exception as error:
            why = said_by(error)
    # A recorder that crashed leaves files without metadata.
    files = [file for file in path.iterdir() if file.suffix in STORAGE_SUFFIXES]
    if not files:
        raise BagError(f'{path} is not a bag ({why}): {WHAT_TO_NAME}')
    bag = bag_of_files(sorted(files, key=natural_order), opened)
    bag.damage = bag.damage or f'{path} is incomplete ({why}): its files were read one by one'
    return bag


def natural_order(file: Path) -> list[tuple[str, int]]:
    """Return a key that sorts file 10 of a bag after file 9."""
    return [(text, int(number or 0)) for text, number in re.findall(r'(\D*)(\d*)', file.name)]


def bag_of_files(files: Sequence[Path], opened: ExitStack) -> Bag:
    """Open the files of a bag as far as they can be read, but at least one."""
    readers, damage = [], ''
    problem: BagError | None = None
    for file in files:
        try:
            reader, damaged = open_file(file, opened)
            readers.append(reader)
            damage = damage or damaged
        except BagError as error:
            problem = error
    if problem and not readers:
        raise problem
    return Bag(readers, damage or str(problem or ''))


def open_file(file: Path, opened: ExitStack) -> tuple[Reader, str]:
    """Open one file; if it is damaged, also return what is wrong with it."""
    if file.suffix == '.bag':
        raise BagError(
            f'{file} is a ROS 1 bag: convert it with '
            f'`rosbags-convert --src {file.name} --dst {file.stem}`'
        )
    if file.suffix not in STORAGE_SUFFIXES:
        raise BagError(f'{file} is not a bag: {WHAT_TO_NAME}')
    try:
        return opened_reader(file, opened), ''
    except UserError:
        raise
    except Exception as error:  # rosbags, SQLite and the decompressors raise many kinds
        why = said_by(error)
    if file.suffix == '.mcap':
        with suppress(Exception):
            reader = opened.enter_context(Reader(cast(Any, CutMcap(file))))
            return reader, f'{file} is damaged ({why}): only its intact part was read'
    raise BagError(f'{file} cannot be read as a bag ({why}): copy or record it again')


def opened_reader(path: Path, opened: ExitStack) -> Reader:
    """Open a bag, and check the types of its topics and counts, which rosbags does not."""
    is_sqlite = path.suffix == '.db3' or any(path.glob('*.db3*'))
    if is_sqlite and (odd := set(str(path)) & set(UNREADABLE)):
        raise BagError(f"rosbags cannot open paths with '{odd.pop()}': rename {path}")
    reader = opened.enter_context(Reader(path))
    for each in reader.connections:
        if not isinstance(each.topic, str) or not isinstance(each.msgtype, str):
            raise ValueError(f'the name or type of topic {str(each.topic)[:40]!r} is not a string')
        if not isinstance(each.msgcount, int) or each.msgcount < 0:
            raise ValueError(f'the topic {each.topic[:40]} has no message count')
    return reader


def said_by(error: Exception) -> str:
    """Return the message of an error, for use in a sentence."""
    return reason(error).rstrip('.')


# Writing


class BagWriter:
    """A new bag in MCAP format: a rosbag2 folder, or one file if the name ends in .mcap."""

    def __init__(self, path: Path, topics: Mapping[str, str]) -> None:
        """Open a bag with these topics and their types, such as 'niom_ros/msg/MatchResult'."""
        self._path = path
        # rosbags writes only folders, so the finished file is moved out of one.
        self._folder = partial_folder(path) / path.stem if path.suffix == '.mcap' else path
        self._writer = Writer(
            self._folder, version=WRITTEN_VERSION, storage_plugin=StoragePlugin.MCAP
        )
        self._writer.open()
        self._connections = {
            topic: self._writer.add_connection(topic, kind, typestore=message_types())
            for topic, kind in topics.items()
        }

    def write(self, topic: str, time: int, message: Any) -> None:
        """Write a message, recorded at a time in nanoseconds."""
        self._writer.write(self._connections[topic], time, serialised(message))

    def close(self) -> None:
        """Finish the bag, so that others can read it."""
        self._writer.close()
        if self._folder != self._path:
            (self._folder / f'{self._folder.name}.mcap').rename(self._path)
            shutil.rmtree(partial_folder(self._path))


def partial_folder(path: Path) -> Path:
    """Return the folder that holds a file while it is being written."""
    return path.with_name(f'{path.name}.partial')
