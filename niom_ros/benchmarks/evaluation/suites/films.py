"""Films in which a reference is followed the way the node does it, but always at the same speed.

How long a full match takes decides how long a track runs without being corrected. On each machine
it would be another time, so here it is a fixed one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.settings import StreamOptions
from niom_ros.images.decoding import read_image
from niom_ros.matching.matcher import Matcher
from niom_ros.references.known_reference import KnownReference
from niom_ros.simulation.virtual_scene import VirtualScene
from niom_ros.stream.answers import Answer
from niom_ros.stream.stream import Frame, Stream

FRAME_RATE = 30.0  # Hz, of the virtual camera
MATCH_SECONDS = 1.5  # that a full match takes
SLIDE_SECONDS = 0.3  # in which a cover comes, and in which it goes


class Sight(Enum):
    """How much of the reference a frame shows."""

    ALL = 'all'
    PART = 'part'  # it may be followed or not, only not wrongly
    NOTHING = 'nothing'


@dataclass(frozen=True)
class Shot:
    """One frame of a film."""

    number: int
    stamp: float  # seconds
    image: np.ndarray  # RGB
    truth: np.ndarray | None = None  # 3 x 3, from the reference to the image; None: not known
    sight: Sight = Sight.ALL


@dataclass(frozen=True)
class Followed:
    """What was said about one frame of a film at the time when it came."""

    shot: Shot
    answer: Answer | None  # None: nothing yet, a full match is to tell

    @property
    def found(self) -> bool:
        """Return whether the reference was claimed to be somewhere."""
        return self.answer is not None and self.answer.found

    @property
    def view(self) -> np.ndarray | None:
        """Return where it was claimed to be: 3 x 3, from the reference to the image."""
        return None if self.answer is None else self.answer.reference_to_image


# Playing


class Clock:
    """The time of a film, for the stream that answers its frames."""

    def __init__(self) -> None:
        """Begin at 0 seconds."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class SlowMatches:
    """Has frames matched one after the other, each in MATCH_SECONDS of the film."""

    def __init__(self, stream: Stream, tell: Callable[[Frame, Answer], object]) -> None:
        """Take what matches, and who wants to know the answers."""
        self._stream = stream
        self._tell = tell
        self._running: tuple[Frame, float] | None = None  # and when it is done
        self._waiting: Frame | None = None

    def put(self, frame: Frame) -> None:
        """Have a frame matched, now or after the running match; a newer one takes its place."""
        if self._running is None:
            self._running = frame, frame.stamp + MATCH_SECONDS
        else:
            self._waiting = frame

    def go_on_until(self, now: float) -> None:
        """End the matches that are done by then."""
        while self._running is not None and self._running[1] <= now:
            frame, done = self._running
            self._tell(frame, self._stream.match(frame))
            self._running = None
            if self._waiting is not None:
                self._running = self._waiting, done + MATCH_SECONDS
                self._waiting = None


def play(
    shots: Iterable[Shot],
    matcher: Matcher,
    reference: KnownReference,
    options: StreamOptions,
    tell: Callable[[Shot, Answer], object] = lambda shot, answer: None,
) -> Iterator[Followed]:
    """Show a film to a stream; `tell` gets the answers of its full matches.

    The answer of a full match comes MATCH_SECONDS later, when the camera has gone on.
    """
    clock = Clock()
    stream = Stream(matcher, clock=clock)
    matches = SlowMatches(stream, lambda frame, answer: tell(frame.tag, answer))
    for shot in shots:
        clock.now = shot.stamp
        matches.go_on_until(shot.stamp)
        frame = Frame(shot.image, shot.stamp, (reference,), options, tag=shot)
        yield Followed(shot, stream.follow(frame))
        if stream.wants_match:
            matches.put(frame)


# The virtual camera


def stamps(seconds: float) -> Iterator[tuple[int, float]]:
    """Return number and time of each frame of a film of the virtual camera."""
    for number in range(round(seconds * FRAME_RATE)):
        yield number, number / FRAME_RATE


def camera_film(scene: VirtualScene, start: float, seconds: float) -> Iterator[Shot]:
    """Return a film of a scene, from some point of the camera's way on."""
    for number, stamp in stamps(seconds):
        view = scene.view(start + stamp, number)
        yield Shot(number, stamp, view.image, view.picture_to_image)


def covered_film(
    scene: VirtualScene,
    cover: np.ndarray,
    start: float,
    seconds: float,
    covered: tuple[float, float],
) -> Iterator[Shot]:
    """Return a film in which a cover slides over the picture, and off again on the other side.

    Between the two times of `covered`, nothing of the picture is seen.
    """
    cover = cv2.resize(cover, scene.picture.shape[1::-1], interpolation=cv2.INTER_AREA)
    for number, stamp in stamps(seconds):
        place = place_of_cover(stamp, covered)
        picture = laid_over(scene.picture, cover, place)
        view = replace(scene, picture=picture).view(start + stamp, number)
        # A pixel less is no cover any more, but nobody could find the picture by it.
        sight = Sight.ALL if abs(place) >= 1 else Sight.NOTHING if place == 0 else Sight.PART
        yield Shot(number, stamp, view.image, view.picture_to_image, sight)


def place_of_cover(stamp: float, covered: tuple[float, float]) -> float:
    """Return where a cover is: -1 beside the picture to its left, 0 on it, 1 to its right."""
    begin, end = covered
    if stamp < begin:
        return max(-1.0, (stamp - begin) / SLIDE_SECONDS)
    if stamp >= end:
        # In the frame after the last covered one it has begun to go.
        return min(1.0, (stamp - end + 1 / FRAME_RATE) / SLIDE_SECONDS)
    return 0.0


def laid_over(picture: np.ndarray, cover: np.ndarray, place: float) -> np.ndarray:
    """Return a picture with a cover of the same size on a part of it."""
    width = picture.shape[1]
    shift = round(place * width)
    result = picture.copy()
    result[:, max(0, shift) : width + min(0, shift)] = cover[
        :, max(0, -shift) : width - max(0, shift)
    ]
    return result


def cut_film(
    scene: VirtualScene, start: float, other: VirtualScene, seconds: float, cut: float, leap: float
) -> Iterator[Shot]:
    """Return a film that goes over to another scene all at once.

    The camera goes on along its way, or from a point that is a leap away.
    """
    for number, stamp in stamps(seconds):
        if stamp < cut:
            view = scene.view(start + stamp, number)
            yield Shot(number, stamp, view.image, view.picture_to_image)
        else:
            view = other.view(start + stamp + leap, number)
            yield Shot(number, stamp, view.image, sight=Sight.NOTHING)


# Real cameras


def video_film(path: Path) -> Iterator[Shot]:
    """Return the frames of a video; where a reference is in them is not known."""
    video = cv2.VideoCapture(str(path))
    try:
        rate = video.get(cv2.CAP_PROP_FPS)
        if not video.isOpened() or not rate > 0:
            raise UserError(f'{path} is no video that OpenCV can read: fetch it again')
        number = 0
        while True:
            done, image = video.read()
            if not done:
                return
            yield Shot(number, number / rate, cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
            number += 1
    finally:
        video.release()


def picture_film(paths: Iterable[Path], rate: float) -> Iterator[Shot]:
    """Return pictures as the frames of a film, so many in a second."""
    for number, path in enumerate(paths):
        yield Shot(number, number / rate, read_image(path))


def cut_out(image: np.ndarray, corners: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return a part of an image set straight: its 4 corners, clockwise from the top left."""
    straight = Box(0, 0, *size).corners()
    image_to_part = cv2.getPerspectiveTransform(
        corners.astype(np.float32), straight.astype(np.float32)
    )
    return cv2.warpPerspective(image, image_to_part, size)
