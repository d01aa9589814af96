"""tracking: a reference is tracked through films, while delayed full matches correct the track.

Most films are of the virtual camera and need no data. The truth of real videos is not known:
there, the full match of the same frame is used instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
import math
from pathlib import Path

import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_of
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, of_group, Record, share
from niom_ros.benchmarks.evaluation.film_pictures import draw_film, Moment, thumbnail
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.suites.films import (
    camera_film,
    covered_film,
    cut_film,
    cut_out,
    picture_film,
    play,
    Shot,
    TrackedShot,
    video_film,
    Visibility,
)
from niom_ros.core.errors import UserError
from niom_ros.core.settings import StreamOptions
from niom_ros.references.known_reference import KnownReference
from niom_ros.simulation.relief_scene import random_relief, ReliefScene
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene
from niom_ros.stream.answers import Answer

BOX_FOLDER = 'video/box'
KITCHEN_FOLDER = 'video/kitchen7scenes'
FRAMES = {BOX_FOLDER: '*.mp4', KITCHEN_FOLDER: 'frame-*.color.jpg'}

CAMERA = 'camera'
OCCLUSION = 'occlusion'
CUT = 'cut'
BOX = 'box'
KITCHEN = 'kitchen'
RELIEF = 'relief'
VIRTUAL = (CAMERA, OCCLUSION, CUT, RELIEF)
VIDEOS = (BOX, KITCHEN)

# The references, and what they lie on or are covered by: all come with scikit-image.
PHOTOS = ('coffee', 'astronaut', 'chelsea', 'rocket', 'page')
GROUNDS = ('gravel', 'brick', 'grass')
SECONDS = {CAMERA: 10.0, OCCLUSION: 10.0, CUT: 7.0, RELIEF: 10.0}
SWAPPED = 'swapped'  # after the cut another picture is in the same place
ELSEWHERE = 'elsewhere'  # after the cut all differs: picture, ground and camera position

# Seconds between frames that are also matched in full, for comparison.
COMPARED_SECONDS = {
    CAMERA: 1.0,
    OCCLUSION: math.inf,
    CUT: math.inf,
    RELIEF: 1.0,
    BOX: 1.0,
    KITCHEN: 0.6,
}


@dataclass(frozen=True, kw_only=True)
class FilmParameters:
    """What happens in films, and which errors count."""

    kitchen_rate: float = 3.0  # Hz: every tenth frame of 30
    path_seconds: float = 60.0  # of the virtual camera's path, on which a film begins at random
    first_disturbance: float = 3.5  # seconds: by then the reference is tracked
    disturbance_range: float = 1.5  # seconds after that, within which it begins at random
    covered_seconds: float = 1.0
    wrong_pixels: float = 10.0  # mean corner error from which a tracked frame counts as wrong
    max_excess: float = 1.5  # pixels by which tracking may be less accurate than a full match
    max_cut_frames: int = 3  # within which a cut must be noticed
    grain: float = 4.0  # deviation of the noise added to a copy of a frame, in grey values


FILMS = FilmParameters()


@dataclass(frozen=True)
class FilmCase(Case):
    """A film of the virtual camera."""

    photo: str
    variant: str = ''  # of a cut


@dataclass(frozen=True)
class VideoCase(Case):
    """A film of a real camera, in which a part of its first frame is tracked."""

    frames: tuple[Path, ...]  # one video, or pictures
    corners: tuple[tuple[int, int], ...]  # of that part, clockwise from its top left
    size: tuple[int, int]  # width and height of the part when rectified


@dataclass(frozen=True)
class FlatPart:
    """A flat thing that the first frame of a video shows; its corners were read off by eye."""

    name: str
    first: int  # frame of the video in which the film begins
    corners: tuple[tuple[int, int], ...]
    size: tuple[int, int]


BOX_PARTS = (
    FlatPart('top', 0, ((351, 26), (592, 68), (562, 178), (302, 104)), (480, 320)),
    FlatPart('front', 0, ((306, 112), (556, 190), (544, 236), (304, 160)), (480, 140)),
)
# The wall has shelves and the table has things on it: they look flat only from a distance.
KITCHEN_PARTS = (
    FlatPart('table', 0, ((250, 190), (440, 215), (500, 330), (300, 290)), (300, 300)),
    FlatPart('wall', 19, ((100, 60), (480, 60), (480, 250), (100, 250)), (380, 190)),
)


class TrackingBenchmark(Benchmark):
    """Measures whether tracking is as accurate as full matches, and whether losses are noticed."""

    name = 'tracking'
    title = 'Films: error of tracked frames beside that of full matches; covers and cuts noticed.'
    folders = (BOX_FOLDER, KITCHEN_FOLDER)
    default_methods = ('default',)
    main_metric = 'tracked_minus_full'
    stratified = True
    needs_data = False

    def find_cases(self) -> Iterator[FilmCase | VideoCase]:
        """Return the films of each photo, and of each video that exists."""
        for photo in PHOTOS:
            for group in VIRTUAL:
                for variant in (SWAPPED, ELSEWHERE) if group == CUT else ('',):
                    name = '/'.join(filter(None, (group, photo, variant)))
                    yield FilmCase(
                        name=name,
                        pair=name,
                        unit=photo,
                        group=group,
                        photo=photo,
                        variant=variant,
                    )
        video, pictures = self._frames(BOX_FOLDER)[:1], self._frames(KITCHEN_FOLDER)
        for group, parts, frames in (
            (BOX, BOX_PARTS, video),
            (KITCHEN, KITCHEN_PARTS, pictures),
        ):
            for part in parts:
                if chosen := frames[part.first :]:
                    name = f'{group}/{part.name}'
                    yield VideoCase(
                        name=name,
                        pair=name,
                        unit=group,
                        group=group,
                        frames=chosen,
                        corners=part.corners,
                        size=part.size,
                    )

    def missing(self) -> list[str]:
        """Return the folders that have no film in them."""
        return [folder for folder in self.folders if not self._frames(folder)]

    def _frames(self, folder: str) -> tuple[Path, ...]:
        return tuple(sorted((self.data / folder).glob(FRAMES[folder])))

    def usable(self, method: Method) -> None:
        """Refuse classical methods: tracking needs a confidence to start from."""
        if method.classical:
            raise UserError(
                f'tracking cannot be measured for {method.name}: its confidence is not calibrated'
            )

    # What is filmed

    def reference(self, case: FilmCase | VideoCase) -> Picture:
        """Return what is tracked."""
        if isinstance(case, FilmCase):
            return Picture(f'tracking {case.photo}', example_photo(case.photo))
        first = next(film_of_video(case)).image
        return Picture(f'tracking {case.name}', cut_out(first, np.array(case.corners), case.size))

    def film(self, case: FilmCase | VideoCase) -> Iterator[Shot]:
        """Return the frames."""
        if isinstance(case, VideoCase):
            return film_of_video(case)
        random = np.random.default_rng([self.seed, *case.name.encode()])
        start = random.uniform(0, FILMS.path_seconds)
        disturbed = FILMS.first_disturbance + random.uniform(0, FILMS.disturbance_range)
        number, seconds = PHOTOS.index(case.photo), SECONDS[case.group]
        ground, other_ground = (example_photo(GROUNDS[(number + n) % 3]) for n in (0, 1))
        scene = VirtualScene(example_photo(case.photo), ground, seed=self.seed)
        if case.group == CAMERA:
            return camera_film(scene, start, seconds)
        if case.group == RELIEF:
            relief = ReliefScene(
                scene.picture, ground, seed=self.seed, raised=random_relief(random)
            )
            return camera_film(relief, start, seconds)
        if case.group == OCCLUSION:
            covered = disturbed, disturbed + FILMS.covered_seconds
            return covered_film(scene, other_ground, start, seconds, covered)
        elsewhere = case.variant == ELSEWHERE
        other = example_photo(PHOTOS[(number + 1) % len(PHOTOS)])
        cut_to = VirtualScene(other, other_ground if elsewhere else ground, seed=self.seed + 1)
        leap = random.uniform(0, FILMS.path_seconds) if elsewhere else 0.0
        return cut_film(scene, start, cut_to, seconds, cut=disturbed, leap=leap)

    # Measuring

    def measure(self, case: FilmCase | VideoCase, method: Method, runner: MethodRunner) -> Record:
        """Play a film; compare what was tracked with full matches and the truth."""
        reference = self.reference(case)
        player = FilmPlayer(reference, method, runner, case.name)
        notes = Notes(reference)
        comparison = Timer(COMPARED_SECONDS[case.group])
        for tracked in player.play(self.film(case)):
            shot, found = tracked.shot, tracked.found
            # In a video even without a track: only a full match shows whether it was lost.
            if not (found or case.group in VIDEOS) or not comparison.due(shot.stamp):
                notes.add(tracked, shot.truth)
                continue
            full = player.full_match(shot)
            truth, judged = shot.truth, full
            if case.group in VIDEOS:
                # It stands for the truth; that of a noisier copy shows how accurate it is.
                known = found and full is not None
                copy = player.full_match(grained(shot, self.seed), 'with noise') if known else None
                truth, judged = full, copy
            notes.add(tracked, truth)
            if found:
                notes.compare(tracked, full, judged, truth)
        return notes.record()

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return errors in pixels, and the rates of failures."""
        metrics: dict[str, float] = {}
        for group in (CAMERA, RELIEF, *VIDEOS):
            films = of_group(records, group)
            suffix = '' if group == CAMERA else f'_{group}'
            metrics |= {f'{name}{suffix}': value for name, value in errors_of(films).items()}
        covered, cuts = of_group(records, OCCLUSION), of_group(records, CUT)
        relocked = [number_or_infinity(film['relocked_seconds']) for film in covered]
        # If it was not tracked before the cut, there was nothing to lose.
        noticed = [number_or_infinity(film['cut_frames']) for film in cuts if film['was_followed']]
        return {
            **metrics,
            'relocked': share(map(math.isfinite, relocked)),
            'relocked_seconds': quantile(relocked, 0.5),
            'relocked_seconds_most': quantile(relocked, 1),
            'cut_in_3_frames': share(frames <= FILMS.max_cut_frames for frames in noticed),
            'cut_frames_most': quantile(noticed, 1),
            'wrong_claims': wrong_claims([film for film in records if film['group'] in VIRTUAL]),
            **{
                f'wrong_claims_{group}': wrong_claims(of_group(records, group))
                for group in (*VIRTUAL, *VIDEOS)
            },
        }

    def quality(self, record: Record) -> float:
        """Rank films with wrong claims worst, then those with large errors."""
        errors = record['tracked_errors']
        largest = float(np.quantile(errors, 0.95)) if errors else 1000.0
        return -(1e6 * record['wrong'] + largest)

    def picture(
        self, case: FilmCase | VideoCase, method: Method, runner: MethodRunner
    ) -> np.ndarray:
        """Draw frames of the film with true and tracked outline, and all errors over time."""
        reference = self.reference(case)
        player = FilmPlayer(reference, method, runner, case.name)
        moments: list[Moment] = []
        comparison = Timer(COMPARED_SECONDS[case.group])
        for tracked in player.play(self.film(case)):
            shot, truth = tracked.shot, tracked.shot.truth
            if case.group in VIDEOS and comparison.due(shot.stamp):
                truth = player.full_match(shot)
            moments.append(moment_of(tracked, truth, reference))
        full_errors = {
            number: error_of(view, moments[number].truth, reference)
            for number, view in player.views.items()
            if case.group not in VIDEOS
        }
        return draw_film(f'{case.name}, {method.name}', reference, moments, full_errors)


class Timer:
    """Says when an interval has passed."""

    def __init__(self, seconds: float) -> None:
        """Start the first interval."""
        self._seconds = seconds
        self._next = seconds

    def due(self, stamp: float) -> bool:
        """Return whether the interval has passed; if so, start the next."""
        if stamp < self._next - 1e-6:  # rounding errors add up
            return False
        self._next = stamp + self._seconds
        return True


class FilmPlayer:
    """Plays films, and matches single frames in full to compare with."""

    def __init__(
        self, reference: Picture, method: Method, runner: MethodRunner, film: str
    ) -> None:
        """Prepare the reference for a method; the film's name identifies its frames."""
        self._reference = reference
        self._method = method
        self._runner = runner
        self._film = film
        prepared = runner.reference(method, reference)
        self._named = KnownReference(prepared, revision=1)
        self.views: dict[int, np.ndarray | None] = {}  # of full matches in the stream, by frame

    def play(self, shots: Iterable[Shot]) -> Iterator[TrackedShot]:
        """Track the reference through a film as the node does."""

        def on_match(shot: Shot, answer: Answer) -> None:
            self.views[shot.number] = answer.reference_to_image

        matcher = self._runner.matcher(self._method)
        return play(shots, matcher, self._named, StreamOptions(self._method.options), on_match)

    def full_match(self, shot: Shot, copy: str = '') -> np.ndarray | None:
        """Match a frame, or a copy of it, in full without prior knowledge."""
        picture = Picture(f'{self._film}, frame {shot.number} {copy}', shot.image)
        answer = self._runner.match(self._method, self._reference, picture)
        return answer.match.verdict.reference_to_image


class Notes:
    """What is recorded while a film is played."""

    def __init__(self, reference: Picture) -> None:
        """Start before the first frame."""
        self._reference = reference
        self._errors: list[float] = []  # of tracked frames that show all of the reference
        self._compared: list[list[float]] = []  # errors of tracking and of a full match
        self._confirmed = self._unconfirmed = 0  # tracked frames, by a full match
        self._expected = self._lost = 0  # frames in which it should be tracked
        self._judged = self._wrong = 0  # claims
        self._locked_at: float | None = None
        self._was_followed = False  # in the frame before the first without the reference
        self._gone_frames = 0
        self._cut_frames: int | None = None
        self._back_at: float | None = None
        self._relocked: float | None = None

    def add(self, tracked: TrackedShot, truth: np.ndarray | None) -> None:
        """Record what tracking answered about a frame."""
        shot, found = tracked.shot, tracked.found
        error = error_of(tracked.view, truth, self._reference)
        right = error is not None and error < FILMS.wrong_pixels
        if found and (error is not None or shot.visibility is Visibility.NOTHING):
            self._judged += 1
            self._wrong += shot.visibility is Visibility.NOTHING or not right
        if shot.visibility is Visibility.NOTHING:
            self._gone_frames += 1
            if not found and self._cut_frames is None:
                self._cut_frames = self._gone_frames
            return
        if not self._gone_frames:
            self._was_followed = found
        if shot.visibility is Visibility.PART:
            return
        if found and self._locked_at is None:
            self._locked_at = shot.stamp
        if self._gone_frames:
            self._back_at = shot.stamp if self._back_at is None else self._back_at
            if right and self._relocked is None:
                self._relocked = shot.stamp - self._back_at
        if self._locked_at is not None and truth is not None:
            self._expected += 1
            self._lost += not found
        if error is not None:
            self._errors.append(error)

    def compare(
        self,
        tracked: TrackedShot,
        full: np.ndarray | None,
        judged: np.ndarray | None,
        truth: np.ndarray | None,
    ) -> None:
        """Record whether a full match finds it too, and the errors of both if they are known."""
        tracked_error = error_of(tracked.view, truth, self._reference)
        full_error = error_of(judged, truth, self._reference)
        self._unconfirmed += full is None
        self._confirmed += full is not None
        if tracked_error is not None and full_error is not None:
            self._compared.append([tracked_error, full_error])

    def record(self) -> Record:
        """Return everything, ready for JSON."""
        return {
            'tracked_errors': [round(error, 4) for error in self._errors],
            'compared': [[round(error, 4) for error in pair] for pair in self._compared],
            'confirmed': self._confirmed,
            'unconfirmed': self._unconfirmed,
            'expected': self._expected,
            'lost': self._lost,
            'claims': self._judged,
            'wrong': self._wrong,
            'locked_seconds': self._locked_at,
            'was_followed': self._was_followed,
            'cut_frames': self._cut_frames,
            'relocked_seconds': self._relocked,
        }


def film_of_video(case: VideoCase) -> Iterator[Shot]:
    """Return the frames of a real camera."""
    if case.group == BOX:
        return video_film(case.frames[0])
    return picture_film(case.frames, FILMS.kitchen_rate)


def grained(shot: Shot, seed: int) -> Shot:
    """Return a frame with slightly more sensor noise."""
    noise = np.random.default_rng((seed, shot.number)).normal(0, FILMS.grain, shot.image.shape)
    return replace(shot, image=(shot.image + noise).clip(0, 255).astype(np.uint8))


def moment_of(tracked: TrackedShot, truth: np.ndarray | None, reference: Picture) -> Moment:
    """Return what a picture of the film needs to know about a frame."""
    shot, view = tracked.shot, tracked.view
    error = error_of(view, truth, reference)
    nothing = shot.visibility is Visibility.NOTHING
    wrong = view is not None and (nothing or (error is not None and error >= FILMS.wrong_pixels))
    return Moment(
        stamp=shot.stamp,
        frame=thumbnail(shot.image),
        view=view,
        truth=None if nothing else truth,
        error=error,
        hidden=nothing,
        wrong=wrong,
    )


def errors_of(films: Sequence[Record]) -> dict[str, float]:
    """Return how accurately a reference was tracked through films of one kind."""
    errors = [error for film in films for error in film['tracked_errors']]
    compared = [pair for film in films for pair in film['compared']]
    above = [tracked - full for tracked, full in compared]
    confirmed, unconfirmed, lost, expected = (
        sum(film[key] for film in films)
        for key in ('confirmed', 'unconfirmed', 'lost', 'expected')
    )
    return {
        'full_error': quantile([full for _, full in compared], 0.5),
        'tracked_error': quantile(errors, 0.5),
        'tracked_error_95': quantile(errors, 0.95),
        'tracked_minus_full': quantile(above, 0.5),
        'tracked_minus_full_95': quantile(above, 0.95),
        'tracked_near_full': share(difference <= FILMS.max_excess for difference in above),
        'unconfirmed': ratio(unconfirmed, unconfirmed + confirmed),
        'lost': ratio(lost, expected),
    }


def wrong_claims(films: Sequence[Record]) -> float:
    """Return the share of tracked frames with a wrong answer, of those that can be judged."""
    return ratio(sum(film['wrong'] for film in films), sum(film['claims'] for film in films))


def quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile of the values; NaN if there are none."""
    # One of the values, because a number and infinity cannot be interpolated.
    return float(np.quantile(values, part, method='higher')) if values else math.nan


def ratio(count: int, total: int) -> float:
    """Return the share of a total; NaN if the total is 0."""
    return count / total if total else math.nan


def number_or_infinity(value: float | None) -> float:
    """Return how long something took; infinity if it did not happen."""
    return math.inf if value is None else float(value)
