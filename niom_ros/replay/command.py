"""What `niom replay` does: process a recording as the matcher node processes a camera."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
import math
from pathlib import Path
import signal
import sys
import time
from typing import Any

import numpy as np

from niom_ros.core.errors import UserError
from niom_ros.core.faults import explained
from niom_ros.core.progress_line import ProgressLine
from niom_ros.core.settings import default_threads, Settings, StreamOptions
from niom_ros.core.threads import use_threads
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.matching.geometry import Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import BadReference, Reference
from niom_ros.messages.results import (
    FrameInfo,
    homography_message,
    instances_message,
    landmarks_message,
    match_message,
    pose_message,
    stamp_of,
)
from niom_ros.pictures.answers import debug_picture, View
from niom_ros.references.folder import read_reference
from niom_ros.references.known_reference import KnownReference
from niom_ros.replay.bags import Bag, BagError, BagImage, open_bag
from niom_ros.replay.messages import build
from niom_ros.replay.outputs import (
    FrameResult,
    HOMOGRAPHY,
    INSTANCES,
    LANDMARKS,
    MATCH,
    OutputFiles,
    outputs_for,
    POSE,
)
from niom_ros.stream.answers import Answer, no_answer
from niom_ros.stream.camera import CameraCalibration
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.stream import Stream

MAX_IMAGES = 10**12
SAMPLED_FRAMES = 30  # whose stamps give the frame rate of the camera
FRAME_RATES = 0.1, 120.0  # limits for videos
SAME_MOMENT = 1e-6  # seconds added between images that were recorded at the same time


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What to look for, in what recording, and what to write."""

    bag: Path
    references: tuple[Path, ...]
    files: OutputFiles
    settings: Settings
    options: StreamOptions
    rectified_image: bool = False
    picture_width: int = 1280
    topic: str = ''  # of the images; '': the only one
    camera_info_topic: str = ''  # '': the one beside the images
    every: int = 1  # take every Nth image
    limit: int = 0  # most images to take; 0: all
    physical_width: float = 0.0  # metres, of the only reference; 0: what its YAML file says

    def __post_init__(self) -> None:
        """Refuse values that have no meaning."""
        if self.every < 1:
            raise UserError(f'every is {self.every}: use 1 for all images, 2 for every second one')
        if not 0 <= self.limit <= MAX_IMAGES:
            raise UserError(f'limit is {self.limit}: use the number of images, or 0 for all')


def replay(job: Replay) -> 'ReplaySummary':
    """Look for the references in a recording; return in how many images they were found."""
    use_threads(default_threads())
    job.files.check()
    given = given_references(job)
    with open_bag(job.bag) as bag:
        topic = bag.image_topic(job.topic)
        info_topic = bag.camera_info_topic(job.camera_info_topic, topic)
        matcher = Matcher(job.settings)
        matcher.load_for(job.options.matching)
        replayer = Replayer(job, matcher, prepared(given, matcher, job.options))
        summary = ReplaySummary()
        frames = results(job, bag, topic, info_topic, replayer)
        with stopping_gently() as stopped, closing(frames):
            for result in frames:
                summary.add(result)
                if stopped():
                    break
        if not summary.frames:
            raise BagError(f'no image of {topic} could be read: {bag.damage or "there is none"}')
        summary.print(job, topic, replayer.camera_problem or info_topic)
        if bag.damage:
            print(f'niom: {bag.damage}', file=sys.stderr)
        if stopped():
            raise KeyboardInterrupt
    return summary


def given_references(job: Replay) -> list[Reference]:
    """Read the references from their files."""
    given = [read_reference(file) for file in job.references]
    for reference in given:
        for note in reference.notes:
            print(f'{reference.id}: {note}')
    for name, count in Counter(reference.id for reference in given).items():
        if count > 1:
            raise BadReference(f"{count} references are named '{name}': rename all but one")
    if job.physical_width:
        if len(given) != 1 or job.references[0].suffix == '.yaml':
            raise BadReference(
                '--physical-width is for a single image: '
                'write physical_width into a YAML file for each reference instead'
            )
        given = [replace(given[0], physical_width=job.physical_width)]
    return given


def prepared(
    given: Sequence[Reference], matcher: Matcher, options: StreamOptions
) -> list[KnownReference]:
    """Prepare the references for matching."""
    references = []
    for revision, reference in enumerate(given, start=1):
        try:
            ready = matcher.prepare(reference, options.matching.limits.min_inliers)
        except UserError as error:
            raise BadReference(f"reference '{reference.id}': {error}") from None
        references.append(KnownReference(ready, revision))
    return references


def results(
    job: Replay, bag: Bag, topic: str, info_topic: str, replayer: 'Replayer'
) -> Generator[FrameResult, None, None]:
    """Process the images of a recording one by one, and write each result."""
    images = islice(bag.images(topic, info_topic, job.every), job.limit or None)
    total = -(-bag.topics()[topic] // job.every)
    about = {
        'bag': str(job.bag),
        'topic': topic,
        'camera_info_topic': info_topic,
        'references': [named.id for named in replayer.references],
    }
    rate = frame_rate(bag, topic, job.every) if job.files.video else 1.0
    with ExitStack() as opened:
        outputs = outputs_for(job.files, about, rate)
        for output in outputs:
            opened.callback(output.close)
        progress = opened.enter_context(ReplayProgress(min(total, job.limit or total)))
        for image in images:
            result = replayer.result_of(image)
            for output in outputs:
                output.write(result)
            progress.step(result)
            yield result


def frame_rate(bag: Bag, topic: str, every: int) -> float:
    """Return the number of images per second, by the stamps of the first ones."""
    sample = [  # without the images, which may be large
        (int(image.header.stamp.sec) * 10**9 + int(image.header.stamp.nanosec), image.time)
        for image in islice(bag.images(topic, every=every), SAMPLED_FRAMES)
    ]
    # Recording times are for cameras that do not stamp their images.
    for times in zip(*sample, strict=True):
        steps = np.diff(times)
        if (steps > 0).any():
            return float(np.clip(1e9 / np.median(steps[steps > 0]), *FRAME_RATES))
    return 1.0


class Replayer:
    """Processes the images of a recording as the matcher node processes those of a camera.

    But here the recording waits for full matches, so that the answers do not depend on the speed
    of the machine.
    """

    def __init__(
        self, job: Replay, matcher: Matcher, references: Sequence[KnownReference]
    ) -> None:
        self.references = tuple(references)
        self.camera_problem = ''
        self._job = job
        self._matcher = matcher
        self._stream = Stream(matcher)
        self._taken = 0
        self._last_time, self._last_stamp = -1, -math.inf
        self._calibration = CameraCalibration()

    def result_of(self, image: BagImage) -> FrameResult:
        """Find the references in an image."""
        self._taken += 1
        start = time.perf_counter()
        frame, size = self._frame(image)
        answer = self._stream.answer_frame(frame)
        info = FrameInfo(
            header=image.header,
            width=size[0],
            height=size[1],
            method=self._matcher.method,
            detector=self._matcher.detector,
            landmark_mode=self._job.options.landmark_mode,
            latency=time.perf_counter() - start,  # as if it had arrived the moment it was taken
            received=image.number,
            dropped=image.number - self._taken,
        )
        picture = None
        if self._job.files.need_pictures:
            picture = debug_picture(answer, View(self._job.picture_width))
        return FrameResult(image, answer, messages_of(answer, info), picture)

    def _frame(self, image: BagImage) -> tuple[Frame | RefusedFrame, tuple[int, int]]:
        """Return an image of the recording as a frame, and its size."""
        message, options, stamp = image.message, self._job.options, self._stamp_of(image)
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        try:
            if message is None:
                raise ImageError(image.problem)
            rgb = message_to_rgb(message)
            size = rgb.shape[1], rgb.shape[0]
            camera, why = None, 'there is no camera_info'
            if image.camera_info is not None:
                camera, why = self._calibration.camera_for(
                    image.camera_info, self._job.rectified_image, *size, message.header.frame_id
                )
                self.camera_problem = why or self.camera_problem
        except ImageError as error:
            answer = no_answer(Status.BAD_IMAGE, f'the camera image cannot be used: {error}')
        except Exception as error:  # one bad image must not stop the work on the others
            answer = no_answer(Status.FAULT, f'niom failed on this frame: {explained(error)}')
        else:
            frame = Frame(
                image=rgb,
                stamp=stamp,
                references=self.references,
                options=options,
                camera=camera,
                no_camera=why,
                tag=stamp_of(image.header),
            )
            return frame, size
        return RefusedFrame(answer, stamp, self.references, options), size

    def _stamp_of(self, image: BagImage) -> float:
        """Return when an image was recorded, in seconds.

        Images that were recorded at the same time are a moment apart. If time goes back, as in a
        bag of several recordings, the stream starts over.
        """
        stamp = image.time / 1e9
        if image.time == self._last_time:
            stamp = self._last_stamp + SAME_MOMENT
        self._last_time, self._last_stamp = image.time, stamp
        return stamp


def messages_of(answer: Answer, frame: FrameInfo) -> dict[str, Any]:
    """Return what the node publishes about an image, by topic."""
    homography = homography_message(build, answer, frame)
    messages = {
        MATCH: match_message(build, answer, frame, homography),
        HOMOGRAPHY: homography,
        LANDMARKS: landmarks_message(build, answer, frame),
        INSTANCES: instances_message(build, answer, frame),
    }
    if answer.pose is not None:
        messages[POSE] = pose_message(build, answer.pose, frame)
    return messages


@contextmanager
def stopping_gently() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C interrupt nothing; yield a function that returns whether it came.

    So no file is left half written. Pressed a second time, it interrupts as usual.
    """
    pressed = False

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    former = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, former)


class ReplayProgress:
    """Shows progress on a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = time.monotonic()
        self._line = ProgressLine()

    def __enter__(self) -> 'ReplayProgress':
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()

    def step(self, result: FrameResult) -> None:
        """Count one more image."""
        self._done += 1
        each = (time.monotonic() - self._start) / self._done
        status = result.answer.match.verdict.status.name
        self._line.draw(f'image {self._done} of {self._total}, {each:.2f} s each: {status}')


def listed(counts: Counter[str]) -> str:
    """Return names with their counts, the most frequent first."""
    return ', '.join(f'{name} {count}' for name, count in counts.most_common())


@dataclass
class ReplaySummary:
    """The numbers of a run; it keeps none of its images."""

    statuses: Counter[Status] = field(default_factory=Counter)
    first: dict[Status, str] = field(default_factory=dict)  # first message of each status
    references: Counter[str] = field(default_factory=Counter)  # how often each was found,
    kinds: Counter[str] = field(default_factory=Counter)  # and another object of its kind
    stages: dict[str, list[float]] = field(default_factory=dict)
    poses: int = 0
    no_pose: str = ''

    @property
    def frames(self) -> int:
        """Return how many images were matched."""
        return self.statuses.total()

    @property
    def found(self) -> int:
        """Return in how many images a reference was found."""
        return self.statuses[Status.OK]

    @property
    def alike(self) -> int:
        """Return in how many images another object of the kind was found."""
        return self.statuses[Status.ALIKE]

    def add(self, result: FrameResult) -> None:
        """Count an image."""
        answer = result.answer
        verdict = answer.match.verdict
        self.statuses[verdict.status] += 1
        self.first.setdefault(verdict.status, f'image {result.image.number}: {verdict.message}')
        for stage, seconds in answer.match.stage_seconds.items():
            self.stages.setdefault(stage, []).append(seconds)
        if answer.located and answer.reference is not None:
            counted = self.references if answer.found else self.kinds
            counted[answer.reference.id] += 1
        if answer.found:
            self.poses += answer.pose is not None
            self.no_pose = self.no_pose or answer.no_pose

    def print(self, job: Replay, topic: str, camera: str) -> None:
        """Print the table."""
        stages = [f'{name} {np.median(values):.3f}' for name, values in self.stages.items()]
        rows = {
            'images': f'{self.frames} of {topic}',
            'found': f'{self.found} ({self.found / self.frames:.0%})',
            'references': listed(self.references),
            'alike': f'{self.alike} ({self.alike / self.frames:.0%})' if self.alike else '',
            'references of these': listed(self.kinds),
            'statuses': ', '.join(f'{s.name} {n}' for s, n in self.statuses.most_common()),
            'camera_info': camera or 'none',
            'poses': f'{self.poses}' + (f' ({self.no_pose})' if self.no_pose else ''),
            'median seconds': ', '.join(stages),
            'written': job.files.listed(),
        }
        for status, message in self.first.items():
            if status not in (Status.OK, Status.ALIKE):
                rows[f'first {status.name}'] = message
        for name, text in rows.items():
            if text:
                print(f'  {name:24} {text}')
