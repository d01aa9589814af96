"""What a tracked frame costs, compared with a full match."""

from collections.abc import Callable
from dataclasses import asdict
import math

import cv2
import numpy as np

from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, seconds_of, Spread
from niom_ros.benchmarks.speed.views import demo_views, named, Size
from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, StreamOptions, Weighting
from niom_ros.matching.geometry import corner_error
from niom_ros.matching.matcher import Matcher
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo, View
from niom_ros.stream.stream import Stream

CAMERA_STEP = 1 / 30  # seconds
FRAMES = 5  # frames in a row, in each round
FULL, TRACKED = 'full match', 'tracked frames'
FAR, GUIDED = 'full match at twice the distance', 'the same guided by the track'
WEIGHTED = Options(weighting=Weighting(kind='sew'))


class TrackedPhoto:
    """A photo that a full match finds once, and that is tracked from then on."""

    def __init__(
        self,
        matcher: Matcher,
        views: list[View],
        picture: np.ndarray,
        matching: Options = WEIGHTED,
    ) -> None:
        """Find it in the first view."""
        self._views = views
        self._box = Box.around(picture)
        self._stream = Stream(
            matcher, [matcher.prepare(picture)], StreamOptions(matching, match_interval=math.inf)
        )
        self._answers: list[tuple[View, np.ndarray | None]] = []
        self.tracked = 0  # frames in which it was not lost
        self.found = self._stream.answer(views[0].image, 0.0).located

    def follow(self, number: int) -> None:
        """Track it through the frames of a round."""
        for frame in frames_of(number):
            view = self._views[frame]
            answer = self._stream.follow(self._stream.frame(view.image, CAMERA_STEP * frame))
            self.tracked += answer is not None and answer.located
            self._answers.append((view, None if answer is None else answer.reference_to_image))

    def errors(self) -> list[float]:
        """Return the corner error in pixels of each frame in which it was not lost."""
        return [
            corner_error(found, view.picture_to_image, self._box)
            for view, found in self._answers
            if found is not None
        ]

    def lost(self) -> int:
        """Return the number of frames in which it was lost."""
        return len(self._answers) - len(self.errors())


def frames_of(number: int) -> range:
    """Return the frames of a round; they start at 1, because the photo is found in frame 0."""
    return range(1 + FRAMES * number, 1 + FRAMES * (number + 1))


def farther(view: View) -> View:
    """Return a view at twice the distance: the same image at half the size."""
    height, width = view.image.shape[:2]
    halved = np.array([[0.5, 0, width / 4], [0, 0.5, height / 4], [0, 0, 1]])
    image = cv2.warpPerspective(
        view.image, halved, (width, height), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT
    )
    return View(image, halved @ view.picture_to_image)


def measure_tracking(setup: BenchSetup, size: Size) -> Findings:
    """Compare full matches with weights and tracked frames, on the same images."""
    matcher, rounds = setup.matcher, setup.rounds
    picture = example_photo(DEMO_PHOTO)
    views = demo_views(size, 1 + FRAMES * (rounds + 1), CAMERA_STEP)
    matches = FullMatches(matcher, matcher.prepare(picture), 'sew')
    photo = TrackedPhoto(matcher, views, picture)
    if not photo.found:
        return Findings(
            left_out={'full_over_tracked': 'the photo was not found in the first frame'}
        )
    tasks: dict[str, Callable[[int], object]] = {
        FULL: lambda number: matches.find(views[frames_of(number)[-1]]),
        TRACKED: photo.follow,
        FAR: lambda number: matches.find(farther(views[frames_of(number)[-1]])),
        GUIDED: lambda number: matches.find_near(farther(views[frames_of(number)[-1]])),
    }
    laps = interleaved(
        tasks, rounds, progress=lambda what: setup.progress(f'{named(size)}: {what}')
    )
    full, far, guided = (seconds_of(laps[name]) for name in (FULL, FAR, GUIDED))
    tracked = [seconds / FRAMES for seconds in seconds_of(laps[TRACKED])]
    errors = photo.errors()
    ratio, saved = Spread.of_ratios(full, tracked), Spread.of_ratios(far, guided)
    values = {
        'ratio': asdict(ratio),
        'full_over_guided': asdict(saved),
        'full_seconds': spread(full),
        'guided_seconds': spread(guided),
        'tracked_seconds': spread(tracked),
        'lost_frames': photo.lost(),
        'corner_error': spread(errors) if errors else None,
    }
    table = TextTable(
        f'Full match against tracked frames at {named(size)} (rounds: {rounds})',
        ('what', 'value'),
        [
            ('full / tracked', str(ratio)),
            ('full / guided by the track, at twice the distance', str(saved)),
            ('full match in ms', milliseconds(full)),
            ('full match at twice the distance in ms', milliseconds(far)),
            ('the same guided by the track in ms', milliseconds(guided)),
            ('tracked frame in ms', milliseconds(tracked)),
            ('frames in which it was lost', str(photo.lost())),
        ],
    )
    found = {'full_over_tracked': ratio.median, 'tracking': {named(size): values}}
    return Findings(found, (table,))
