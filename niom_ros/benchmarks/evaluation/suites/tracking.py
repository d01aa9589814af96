"""tracking: what was found is followed through films, while full matches correct it late.

Most films are of the virtual camera and need no data. Real videos have no known truth: there the
full match of the same frame stands for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
import math
from pathlib import Path

import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_of
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, of_group, Record, share
from niom_ros.benchmarks.evaluation.film_pictures import draw_film, Moment, thumbnail
from niom_ros.benchmarks.evaluation.method_runner import Picture, Workbench
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.suites.films import (
    camera_film,
    covered_film,
    cut_film,
    cut_out,
    Followed,
    picture_film,
    play,
    Shot,
    Sight,
    video_film,
)
from niom_ros.core.errors import UserError
from niom_ros.core.settings import StreamOptions
from niom_ros.references.known_reference import KnownReference
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene
from niom_ros.stream.answers import Answer

BOX_FOLDER = 'video/box'
KITCHEN_FOLDER = 'video/kitchen7scenes'
FRAMES = {BOX_FOLDER: '*.mp4', KITCHEN_FOLDER: 'frame-*.color.jpg'}
KITCHEN_RATE = 3.0  # Hz: every tenth frame of 30

CAMERA = 'camera'
OCCLUSION = 'occlusion'
CUT = 'cut'
BOX = 'box'
KITCHEN = 'kitchen'
VIRTUAL = (CAMERA, OCCLUSION, CUT)
VIDEOS = (BOX, KITCHEN)

# What is looked for, and what it lies on or is covered by: all of scikit-image.
PHOTOS = ('coffee', 'astronaut', 'chelsea', 'rocket', 'page')
GROUNDS = ('gravel', 'brick', 'grass')
SECONDS = {CAMERA: 10.0, OCCLUSION: 10.0, CUT: 7.0}
FIRST_DISTURBANCE = 3.5  # seconds: by then it was found, and is followed
DISTURBANCES = 1.5  # seconds in which one begins, at random
COVERED_SECONDS = 1.0
SWAPPED = 'swapped'  # after a cut another picture lies in the same place
ELSEWHERE = 'elsewhere'  # or all is another one: picture, ground and where the camera is
LONGEST_WAY = 60.0  # seconds of the virtual camera's way, on which a film begins at random

# Seconds from one frame that is also matched in full, to compare, to the next.
COMPARED_SECONDS = {CAMERA: 1.0, OCCLUSION: math.inf, CUT: math.inf, BOX: 1.0, KITCHEN: 0.6}
WRONG_PIXELS = 10.0  # mean corner error from which a tracked frame misleads
MOST_ABOVE = 1.5  # pixels by which tracking may be less exact than a full match
SOON = 3  # frames within which a cut is to be noticed
GRAIN = 4.0  # standard deviation of the noise, in grey values, in a second copy of a frame


@dataclass(frozen=True)
class FilmCase(Case):
    """A film of the virtual camera."""

    photo: str
    variant: str = ''  # of a cut


@dataclass(frozen=True)
class VideoCase(Case):
    """A film of a real camera, in which a part of its first frame is followed."""

    frames: tuple[Path, ...]  # one video, or pictures
    corners: tuple[tuple[int, int], ...]  # of that part, clockwise from its top left
    size: tuple[int, int]  # width and height of the part when it is set straight


@dataclass(frozen=True)
class Part:
    """A flat thing that the first frame of a video shows; its corners were read off by eye."""

    name: str
    first: int  # frame of the video in which the film begins
    corners: tuple[tuple[int, int], ...]
    size: tuple[int, int]


BOX_PARTS = (
    Part('top', 0, ((351, 26), (592, 68), (562, 178), (302, 104)), (480, 320)),
    Part('front', 0, ((306, 112), (556, 190), (544, 236), (304, 160)), (480, 140)),
)
# The wall has shelves and the table has things on it: flat from afar only.
KITCHEN_PARTS = (
    Part('table', 0, ((250, 190), (440, 215), (500, 330), (300, 290)), (300, 300)),
    Part('wall', 19, ((100, 60), (480, 60), (480, 250), (100, 250)), (380, 190)),
)


class TrackingBenchmark(Benchmark):
    """Asks whether tracked frames are as good as full matches, and whether a loss is noticed."""

    name = 'tracking'
    title = 'Films: error of tracked frames beside that of full matches; covers and cuts noticed.'
    folders = (BOX_FOLDER, KITCHEN_FOLDER)
    default_methods = ('default',)
    main_metric = 'tracked_minus_full'
    stratified = True
    needs_data = False

    def find_cases(self) -> Iterator[FilmCase | VideoCase]:
        """Return the films of each photo, and of each video that is there."""
        for photo in PHOTOS:
            for group in VIRTUAL:
                for variant in (SWAPPED, ELSEWHERE) if group == CUT else ('',):
                    name = '/'.join(filter(None, (group, photo, variant)))
                    yield FilmCase(name, name, photo, group, photo, variant)
        video, pictures = self._frames(BOX_FOLDER)[:1], self._frames(KITCHEN_FOLDER)
        for group, parts, frames in (
            (BOX, BOX_PARTS, video),
            (KITCHEN, KITCHEN_PARTS, pictures),
        ):
            for part in parts:
                if chosen := frames[part.first :]:
                    name = f'{group}/{part.name}'
                    yield VideoCase(name, name, group, group, chosen, part.corners, part.size)

    def missing(self) -> list[str]:
        """Return the folders that have no film in them."""
        return [folder for folder in self.folders if not self._frames(folder)]

    def _frames(self, folder: str) -> tuple[Path, ...]:
        return tuple(sorted((self.data / folder).glob(FRAMES[folder])))

    def usable(self, method: Method) -> None:
        """Refuse what no node matches with: its claims are no start for a track."""
        if method.classical:
            raise UserError(
                f'tracking has no meaning for {method.name}, which says nothing of its confidence'
            )

    # What is filmed

    def reference(self, case: FilmCase | VideoCase) -> Picture:
        """Return what is looked for."""
        if isinstance(case, FilmCase):
            return Picture(f'tracking {case.photo}', example_photo(case.photo))
        first = next(film_of_video(case)).image
        return Picture(f'tracking {case.name}', cut_out(first, np.array(case.corners), case.size))

    def film(self, case: FilmCase | VideoCase) -> Iterator[Shot]:
        """Return the frames."""
        if isinstance(case, VideoCase):
            return film_of_video(case)
        random = np.random.default_rng([self.seed, *case.name.encode()])
        start = random.uniform(0, LONGEST_WAY)
        disturbed = FIRST_DISTURBANCE + random.uniform(0, DISTURBANCES)
        number, seconds = PHOTOS.index(case.photo), SECONDS[case.group]
        ground, other_ground = (example_photo(GROUNDS[(number + n) % 3]) for n in (0, 1))
        scene = VirtualScene(example_photo(case.photo), ground, seed=self.seed)
        if case.group == CAMERA:
            return camera_film(scene, start, seconds)
        if case.group == OCCLUSION:
            covered = disturbed, disturbed + COVERED_SECONDS
            return covered_film(scene, other_ground, start, seconds, covered)
        elsewhere = case.variant == ELSEWHERE
        other = example_photo(PHOTOS[(number + 1) % len(PHOTOS)])
        cut_to = VirtualScene(other, other_ground if elsewhere else ground, seed=self.seed + 1)
        leap = random.uniform(0, LONGEST_WAY) if elsewhere else 0.0
        return cut_film(scene, start, cut_to, seconds, disturbed, leap)

    # Measuring

    def measure(self, case: FilmCase | VideoCase, method: Method, workbench: Workbench) -> Record:
        """Play a film; compare what was tracked with full matches and the truth."""
        reference = self.reference(case)
        match = FullMatches(reference, method, workbench, case.name)
        notes = Notes(reference)
        comparison = Clock(COMPARED_SECONDS[case.group])
        for followed in match.play(self.film(case)):
            shot, found = followed.shot, followed.found
            # In a video also without a track: only a full match tells whether it was lost.
            if not (found or case.group in VIDEOS) or not comparison.due(shot.stamp):
                notes.add(followed, shot.truth)
                continue
            full = match.whole(shot)
            truth, judged = shot.truth, full
            if case.group in VIDEOS:
                # It is the truth there; a copy of the frame with more noise tells how sure it is.
                known = found and full is not None
                copy = match.whole(grained(shot, self.seed), 'with noise') if known else None
                truth, judged = full, copy
            notes.add(followed, truth)
            if found:
                notes.compare(followed, full, judged, truth)
        return notes.record()

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return errors in pixels, and how often what went wrong."""
        metrics: dict[str, float] = {}
        for group in (CAMERA, *VIDEOS):
            films = of_group(records, group)
            suffix = '' if group == CAMERA else f'_{group}'
            metrics |= {f'{name}{suffix}': value for name, value in errors_of(films).items()}
        covered, cuts = of_group(records, OCCLUSION), of_group(records, CUT)
        relocked = [number_or_infinity(film['relocked_seconds']) for film in covered]
        # Where it was not followed before the cut, there was nothing to lose.
        noticed = [number_or_infinity(film['cut_frames']) for film in cuts if film['was_followed']]
        return {
            **metrics,
            'relocked': share(map(math.isfinite, relocked)),
            'relocked_seconds': quantile(relocked, 0.5),
            'relocked_seconds_most': quantile(relocked, 1),
            'cut_in_3_frames': share(frames <= SOON for frames in noticed),
            'cut_frames_most': quantile(noticed, 1),
            'wrong_claims': wrong_claims([film for film in records if film['group'] in VIRTUAL]),
            **{
                f'wrong_claims_{group}': wrong_claims(of_group(records, group))
                for group in (*VIRTUAL, *VIDEOS)
            },
        }

    def quality(self, record: Record) -> float:
        """Return films with wrong claims as worst, then those with large errors."""
        errors = record['tracked_errors']
        largest = float(np.quantile(errors, 0.95)) if errors else 1000.0
        return -(1e6 * record['wrong'] + largest)

    def picture(
        self, case: FilmCase | VideoCase, method: Method, workbench: Workbench
    ) -> np.ndarray:
        """Draw frames of the film with true and tracked outline, and all errors over time."""
        reference = self.reference(case)
        match = FullMatches(reference, method, workbench, case.name)
        moments: list[Moment] = []
        comparison = Clock(COMPARED_SECONDS[case.group])
        for followed in match.play(self.film(case)):
            shot, truth = followed.shot, followed.shot.truth
            if case.group in VIDEOS and comparison.due(shot.stamp):
                truth = match.whole(shot)
            moments.append(moment_of(followed, truth, reference))
        full_errors = {
            number: error_of(view, moments[number].truth, reference)
            for number, view in match.views.items()
            if case.group not in VIDEOS
        }
        return draw_film(f'{case.name}, {method.name}', reference, moments, full_errors)


class Clock:
    """Tells when it is time again."""

    def __init__(self, seconds: float) -> None:
        """Take the time from once to the next; the first time is after it has passed once."""
        self._seconds = seconds
        self._next = seconds

    def due(self, stamp: float) -> bool:
        """Return whether it is time; if so, the next time comes later."""
        if stamp < self._next - 1e-6:  # sums of times are not exact
            return False
        self._next = stamp + self._seconds
        return True


class FullMatches:
    """Plays films, and matches single frames in full to compare with."""

    def __init__(
        self, reference: Picture, method: Method, workbench: Workbench, film: str
    ) -> None:
        """Take what is looked for, with what, and the name of the film."""
        self._reference = reference
        self._method = method
        self._workbench = workbench
        self._film = film
        prepared = workbench.reference(method, reference)
        self._named = KnownReference(prepared, revision=1)
        self.views: dict[int, np.ndarray | None] = {}  # of full matches in the stream, by frame

    def play(self, shots: Iterable[Shot]) -> Iterator[Followed]:
        """Follow the reference through a film as the node does."""

        def tell(shot: Shot, answer: Answer) -> None:
            self.views[shot.number] = answer.reference_to_image

        matcher = self._workbench.matcher(self._method)
        return play(shots, matcher, self._named, StreamOptions(self._method.options), tell)

    def whole(self, shot: Shot, copy: str = '') -> np.ndarray | None:
        """Return where it is in a frame, or in a copy of it, if nothing is known before."""
        picture = Picture(f'{self._film}, frame {shot.number} {copy}', shot.image)
        answer = self._workbench.match(self._method, self._reference, picture)
        return answer.outcome.verdict.reference_to_image


class Notes:
    """What is noted down while a film is played."""

    def __init__(self, reference: Picture) -> None:
        """Start with the first frame."""
        self._reference = reference
        self._errors: list[float] = []  # of tracked frames that show all of the reference
        self._compared: list[list[float]] = []  # errors of tracking and of a full match
        self._confirmed = self._unconfirmed = 0  # tracked frames, by a full match
        self._expected = self._lost = 0  # frames in which it was to be followed
        self._judged = self._wrong = 0  # claims
        self._locked_at: float | None = None
        self._was_followed = False  # in the frame before the first without the reference
        self._gone_frames = 0
        self._cut_frames: int | None = None
        self._back_at: float | None = None
        self._relocked: float | None = None

    def add(self, followed: Followed, truth: np.ndarray | None) -> None:
        """Note down what tracking said about a frame."""
        shot, found = followed.shot, followed.found
        error = error_of(followed.view, truth, self._reference)
        right = error is not None and error < WRONG_PIXELS
        if found and (error is not None or shot.sight is Sight.NOTHING):
            self._judged += 1
            self._wrong += shot.sight is Sight.NOTHING or not right
        if shot.sight is Sight.NOTHING:
            self._gone_frames += 1
            if not found and self._cut_frames is None:
                self._cut_frames = self._gone_frames
            return
        if not self._gone_frames:
            self._was_followed = found
        if shot.sight is Sight.PART:
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
        followed: Followed,
        full: np.ndarray | None,
        judged: np.ndarray | None,
        truth: np.ndarray | None,
    ) -> None:
        """Note down whether a full match finds it too, and the error of one that can be judged."""
        tracked_error = error_of(followed.view, truth, self._reference)
        full_error = error_of(judged, truth, self._reference)
        self._unconfirmed += full is None
        self._confirmed += full is not None
        if tracked_error is not None and full_error is not None:
            self._compared.append([tracked_error, full_error])

    def record(self) -> Record:
        """Return all of it in a form that fits into JSON."""
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
    return picture_film(case.frames, KITCHEN_RATE)


def grained(shot: Shot, seed: int) -> Shot:
    """Return a frame as it would be with a little more noise of the sensor."""
    noise = np.random.default_rng((seed, shot.number)).normal(0, GRAIN, shot.image.shape)
    return replace(shot, image=(shot.image + noise).clip(0, 255).astype(np.uint8))


def moment_of(followed: Followed, truth: np.ndarray | None, reference: Picture) -> Moment:
    """Return what a picture of the film needs to know about a frame."""
    shot, view = followed.shot, followed.view
    error = error_of(view, truth, reference)
    nothing = shot.sight is Sight.NOTHING
    wrong = view is not None and (nothing or (error is not None and error >= WRONG_PIXELS))
    shown = None if nothing else truth
    return Moment(shot.stamp, thumbnail(shot.image), view, shown, error, nothing, wrong)


def errors_of(films: Sequence[Record]) -> dict[str, float]:
    """Return how exactly a reference was followed through films of one kind."""
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
        'tracked_near_full': share(difference <= MOST_ABOVE for difference in above),
        'unconfirmed': ratio(unconfirmed, unconfirmed + confirmed),
        'lost': ratio(lost, expected),
    }


def wrong_claims(films: Sequence[Record]) -> float:
    """Return the share of tracked frames with a wrong answer, of those that can be judged."""
    return ratio(sum(film['wrong'] for film in films), sum(film['claims'] for film in films))


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which a part of the values lies; NaN of none."""
    # A value that occurs, because between a number and infinity nothing can be interpolated.
    return float(np.quantile(values, part, method='higher')) if values else math.nan


def ratio(count: int, total: int) -> float:
    """Return which share of a total that is; NaN if there is none."""
    return count / total if total else math.nan


def number_or_infinity(value: float | None) -> float:
    """Return how long something took; for ever if it did not happen."""
    return math.inf if value is None else float(value)
