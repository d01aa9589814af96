"""Films through which a reference is tracked as in the node, but always at the same speed.

The time of a full match decides how long a track runs without correction. It would differ between
machines, so here it is fixed.
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
from niom_ros.stream.frame import Frame
from niom_ros.stream.stream import Stream

FRAME_RATE = 30.0  # Hz, of the virtual camera
MATCH_SECONDS = 1.5  # duration of a full match
SLIDE_SECONDS = 0.3  # that a cover takes to slide in, and to slide out


class Visibility(Enum):
    """How much of the reference a frame shows."""

    ALL = 'all'
    PART = 'part'  # both tracked and lost count as right, but not a wrong position
    NOTHING = 'nothing'


@dataclass(frozen=True)
class Shot:
    """One frame of a film."""

    number: int
    stamp: float  # seconds
    image: np.ndarray  # RGB
    truth: np.ndarray | None = None  # 3 x 3, from the reference to the image; None: not known
    visibility: Visibility = Visibility.ALL


@dataclass(frozen=True)
class TrackedShot:
    """What was answered about one frame of a film when it arrived."""

    shot: Shot
    answer: Answer | None  # None: none yet, because a full match is needed

    @property
    def found(self) -> bool:
        """Return whether the answer claims a position."""
        return self.answer is not None and self.answer.found

    @property
    def view(self) -> np.ndarray | None:
        """Return the claimed position: 3 x 3, from the reference to the image."""
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
    """Matches one frame after another in full; each takes MATCH_SECONDS of the film."""

    def __init__(self, stream: Stream, on_match: Callable[[Frame, Answer], object]) -> None:
        """Store the stream that matches, and the callback that receives the answers."""
        self._stream = stream
        self._on_match = on_match
        self._running: tuple[Frame, float] | None = None  # and when it is done
        self._waiting: Frame | None = None

    def put(self, frame: Frame) -> None:
        """Match a frame now, or after the running match unless a newer frame replaces it."""
        if self._running is None:
            self._running = frame, frame.stamp + MATCH_SECONDS
        else:
            self._waiting = frame

    def advance_to(self, now: float) -> None:
        """Finish the matches that end by this time."""
        while self._running is not None and self._running[1] <= now:
            frame, done = self._running
            self._on_match(frame, self._stream.match(frame))
            self._running = None
            if self._waiting is not None:
                self._running = self._waiting, done + MATCH_SECONDS
                self._waiting = None


def play(
    shots: Iterable[Shot],
    matcher: Matcher,
    reference: KnownReference,
    options: StreamOptions,
    on_match: Callable[[Shot, Answer], object] = lambda shot, answer: None,
) -> Iterator[TrackedShot]:
    """Play a film to a stream; `on_match` receives the answers of its full matches.

    The answer of a full match arrives MATCH_SECONDS later, when the camera has moved on.
    """
    clock = Clock()
    stream = Stream(matcher, clock=clock)
    matches = SlowMatches(stream, lambda frame, answer: on_match(frame.tag, answer))
    for shot in shots:
        clock.now = shot.stamp
        matches.advance_to(shot.stamp)
        frame = Frame(shot.image, shot.stamp, (reference,), options=options, tag=shot)
        yield TrackedShot(shot, stream.follow(frame))
        if stream.wants_match:
            matches.put(frame)


# The virtual camera


def stamps(seconds: float) -> Iterator[tuple[int, float]]:
    """Return number and time of each frame of a film of the virtual camera."""
    for number in range(round(seconds * FRAME_RATE)):
        yield number, number / FRAME_RATE


def camera_film(scene: VirtualScene, start: float, seconds: float) -> Iterator[Shot]:
    """Return a film of a scene, starting at some point of the camera's path."""
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
    """Return a film in which a cover slides over the picture, and off on the other side.

    Between the two times of `covered`, the picture is completely hidden.
    """
    cover = cv2.resize(cover, scene.picture.shape[1::-1], interpolation=cv2.INTER_AREA)
    for number, stamp in stamps(seconds):
        place = place_of_cover(stamp, covered)
        picture = laid_over(scene.picture, cover, place)
        view = replace(scene, picture=picture).view(start + stamp, number)
        # The frames in which it slides count as PART, however little is hidden or visible.
        visibility = (
            Visibility.ALL
            if abs(place) >= 1
            else Visibility.NOTHING
            if place == 0
            else Visibility.PART
        )
        yield Shot(
            number=number,
            stamp=stamp,
            image=view.image,
            truth=view.picture_to_image,
            visibility=visibility,
        )


def place_of_cover(stamp: float, covered: tuple[float, float]) -> float:
    """Return where a cover is: -1 beside the picture to its left, 0 on it, 1 to its right."""
    begin, end = covered
    if stamp < begin:
        return max(-1.0, (stamp - begin) / SLIDE_SECONDS)
    if stamp >= end:
        # In the frame after the last covered one it has already moved.
        return min(1.0, (stamp - end + 1 / FRAME_RATE) / SLIDE_SECONDS)
    return 0.0


def laid_over(picture: np.ndarray, cover: np.ndarray, place: float) -> np.ndarray:
    """Return a picture partly hidden by a cover of the same size."""
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
    """Return a film with a cut to another scene.

    The camera continues along its path, or jumps ahead by `leap` seconds.
    """
    for number, stamp in stamps(seconds):
        if stamp < cut:
            view = scene.view(start + stamp, number)
            yield Shot(number, stamp, view.image, view.picture_to_image)
        else:
            view = other.view(start + stamp + leap, number)
            yield Shot(number, stamp, view.image, visibility=Visibility.NOTHING)


# Real cameras


def video_film(path: Path) -> Iterator[Shot]:
    """Return the frames of a video; the truth is not known."""
    video = cv2.VideoCapture(str(path))
    try:
        rate = video.get(cv2.CAP_PROP_FPS)
        if not video.isOpened() or not rate > 0:
            raise UserError(f'{path} cannot be read as a video: fetch it again')
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
    """Return pictures as the frames of a film with this many per second."""
    for number, path in enumerate(paths):
        yield Shot(number, number / rate, read_image(path))


def cut_out(image: np.ndarray, corners: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return a rectified part of an image, given its 4 corners, clockwise from the top left."""
    straight = Box(0, 0, *size).corners()
    image_to_part = cv2.getPerspectiveTransform(
        corners.astype(np.float32), straight.astype(np.float32)
    )
    return cv2.warpPerspective(image, image_to_part, size)
