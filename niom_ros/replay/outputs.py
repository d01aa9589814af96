"""What `niom replay` writes: a bag or JSON with the results, pictures, and a video."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rosbags.rosbag2 import WriterError

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason
from niom_ros.images.writing import write_picture
from niom_ros.replay.bags import BagImage, BagWriter, partial_folder
from niom_ros.replay.messages import plain
from niom_ros.stream.answers import Answer

# As the matcher node publishes them.
MATCH, HOMOGRAPHY, LANDMARKS, INSTANCES, POSE = (
    f'/matcher/{name}' for name in ('match', 'homography', 'landmarks', 'instances', 'pose')
)
TOPICS = {
    MATCH: 'niom_ros/msg/MatchResult',
    HOMOGRAPHY: 'niom_ros/msg/Homography',
    LANDMARKS: 'niom_ros/msg/LandmarkArray',
    INSTANCES: 'niom_ros/msg/InstanceArray',
    POSE: 'geometry_msgs/msg/PoseWithCovarianceStamped',
}

RESULT_SUFFIXES = ('', '.mcap', '.json', '.jsonl')


@dataclass(frozen=True)
class FrameResult:
    """Everything that is known about an image of a recording."""

    image: BagImage
    answer: Answer
    messages: Mapping[str, Any]  # by topic; there is not always a pose
    picture: np.ndarray | None  # None: not requested, or the image cannot be read


@dataclass(frozen=True)
class OutputFiles:
    """Where to write; None: nowhere."""

    results: Path | None = None  # the suffix selects the format
    pictures: Path | None = None  # a folder
    video: Path | None = None

    def check(self) -> None:
        """Refuse names that cannot be written to, before the long work."""
        if self.results is not None:
            if self.results.suffix not in RESULT_SUFFIXES:
                raise UserError(
                    f'cannot write results to {self.results}: use the ending .mcap, .json or '
                    '.jsonl, or none for a bag folder'
                )
            check_new(self.results)
            check_new(partial_folder(self.results))
        if self.video is not None:
            if self.video.suffix != '.mp4':
                raise UserError(f'cannot write a video to {self.video}: use the ending .mp4')
            check_new(self.video)
        # Old pictures among new ones would look like results of this run.
        if self.pictures is not None and not is_empty_folder(self.pictures):
            check_new(self.pictures)

    @property
    def need_pictures(self) -> bool:
        """Return whether pictures must be drawn."""
        return self.pictures is not None or self.video is not None

    def listed(self) -> str:
        """Return the names in one line."""
        return ', '.join(str(file) for file in (self.results, self.pictures, self.video) if file)


def check_new(path: Path) -> None:
    """Refuse a path that exists already, or whose folder does not exist."""
    if path.exists():
        raise UserError(f'{path} exists already: remove it, or choose another name')
    if not path.absolute().parent.is_dir():
        raise UserError(f'cannot write {path}: there is no folder {path.parent}')


def is_empty_folder(path: Path) -> bool:
    """Return whether this is a folder without anything in it."""
    return path.is_dir() and not any(path.iterdir())


def outputs_for(files: OutputFiles, about: Mapping[str, Any], rate: float) -> list['Output']:
    """Return the writers of these files; `about` is the head of a JSON file, `rate` for videos."""
    outputs: list[Output] = []
    if files.results is not None:
        if files.results.suffix == '.json':
            head = json.dumps(about)[:-1] + ', "frames": [\n'
            outputs.append(JsonOutput(files.results, head, ',\n', '\n]}\n'))
        elif files.results.suffix == '.jsonl':
            outputs.append(JsonOutput(files.results, '', '\n', '\n'))
        else:
            outputs.append(BagOutput(files.results))
    if files.pictures is not None:
        outputs.append(PictureOutput(files.pictures))
    if files.video is not None:
        outputs.append(VideoOutput(files.video, rate))
    return outputs


class Output:
    """A file or folder for results, created with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = False

    def write(self, result: FrameResult) -> None:
        """Write what is known about an image."""
        with explaining_failure(self.path):
            if not self._opened:
                self._open()
                self._opened = True
            self._write(result)

    def close(self) -> None:
        """Finish what was written, so that others can read it."""
        if self._opened:
            self._opened = False
            with explaining_failure(self.path):
                self._close()

    def _open(self) -> None:
        """Create it."""

    def _write(self, result: FrameResult) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Finish it."""


@contextmanager
def explaining_failure(path: Path) -> Iterator[None]:
    """Turn an error while writing into a message for users."""
    try:
        yield
    except (OSError, WriterError) as error:
        raise UserError(f'cannot write {path}: {reason(error)}') from None


class BagOutput(Output):
    """A bag with the messages that the node would have published."""

    def _open(self) -> None:
        self._bag = BagWriter(self.path, TOPICS)

    def _write(self, result: FrameResult) -> None:
        for topic, message in result.messages.items():
            self._bag.write(topic, result.image.time, message)

    def _close(self) -> None:
        self._bag.close()


class JsonOutput(Output):
    """A JSON object for each image, with a head, a separator between them, and a tail."""

    def __init__(self, path: Path, head: str, separator: str, tail: str) -> None:
        super().__init__(path)
        self._separator = separator
        self._next = head
        self._tail = tail

    def _open(self) -> None:
        self._file = self.path.open('x')

    def _write(self, result: FrameResult) -> None:
        messages = {topic: plain(message) for topic, message in result.messages.items()}
        frame = {
            'frame': result.image.number,
            'time': result.image.time,
            'match': messages[MATCH],  # which has the homography in it
            'landmarks': messages[LANDMARKS],
            'instances': messages[INSTANCES],
            'pose': messages.get(POSE),
        }
        self._file.write(self._next + json.dumps(frame, allow_nan=False))
        self._next = self._separator

    def _close(self) -> None:
        self._file.write(self._tail)
        self._file.close()


class PictureOutput(Output):
    """A folder with a picture of each image."""

    def _open(self) -> None:
        self.path.mkdir(exist_ok=True)

    def _write(self, result: FrameResult) -> None:
        if result.picture is not None:
            stamp = result.image.header.stamp
            name = f'{result.image.number:06d}_{stamp.sec}.{stamp.nanosec:09d}.png'
            write_picture(self.path / name, result.picture)


class VideoOutput(Output):
    """A video of the pictures, in the size of the first one."""

    def __init__(self, path: Path, rate: float) -> None:
        super().__init__(path)
        self._rate = rate
        self._size = 0, 0
        self._video: cv2.VideoWriter | None = None

    def _write(self, result: FrameResult) -> None:
        picture = result.picture
        if self._video is None:
            if picture is None:
                return
            self._video = self._started(picture)
        if picture is None:  # show black instead
            picture = np.zeros((1, 1, 3), np.uint8)
        self._video.write(cv2.cvtColor(fitted(picture, *self._size), cv2.COLOR_RGB2BGR))

    def _started(self, picture: np.ndarray) -> cv2.VideoWriter:
        height, width = picture.shape[:2]
        self._size = width + width % 2, height + height % 2  # the codec needs even sizes
        codec = cv2.VideoWriter.fourcc(*'mp4v')
        video = cv2.VideoWriter(str(self.path), codec, self._rate, self._size)
        if not video.isOpened():
            raise UserError(f'cannot write {self.path}: OpenCV cannot write .mp4 files here')
        return video

    def _close(self) -> None:
        if self._video is not None:
            self._video.release()


def fitted(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """Return a picture centred on a black one of this size, shrunk if it is larger."""
    scale = min(1.0, width / picture.shape[1], height / picture.shape[0])
    if scale < 1:
        inner = max(1, int(picture.shape[1] * scale)), max(1, int(picture.shape[0] * scale))
        picture = cv2.resize(picture, inner, interpolation=cv2.INTER_AREA)
    canvas = np.zeros((height, width, 3), np.uint8)
    top, left = (height - picture.shape[0]) // 2, (width - picture.shape[1]) // 2
    canvas[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return canvas
