"""A drawing in a stream: the first frame, and the next, searched only near the last position."""

from niom_ros.benchmarks.speed.comparison import stage_table, stages
from niom_ros.benchmarks.speed.findings import Findings
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved
from niom_ros.benchmarks.speed.views import Attempt, demo_views, named, Size
from niom_ros.matching.geometry import Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prior import Prior
from niom_ros.simulation.demo_sketch import demo_sketch

CAMERA_STEP = 1 / 15  # seconds between the two frames of a round
FIRST, NEXT = 'first frame', 'next frame'


class Sketching:
    """Looks for the sketch of the demo in two frames of each round."""

    def __init__(self, matcher: Matcher, size: Size, rounds: int) -> None:
        """Prepare the sketch and the frames."""
        self._matcher = matcher
        self._reference = matcher.prepare(demo_sketch())
        self._views = demo_views(size, 2 * rounds + 2, CAMERA_STEP)
        self._prior: Prior | None = None

    def first(self, number: int) -> Attempt:
        """Look for it without prior knowledge."""
        attempt = self._look_at(2 * number, None)
        self._prior = Prior.of(self._reference, attempt.match)
        return attempt

    def next(self, number: int) -> Attempt:
        """Look for it near its last position."""
        return self._look_at(2 * number + 1, self._prior)

    def _look_at(self, number: int, prior: Prior | None) -> Attempt:
        analysis = self._matcher.analyse(self._views[number].image)
        (match,) = self._matcher.match_all([self._reference], analysis, prior=prior)
        return Attempt(match, analysis.times.seconds(), analysis)


def measure_drawing(setup: BenchSetup, size: Size) -> Findings:
    """Measure the first frame with a drawing, and the one after it."""
    rounds = setup.rounds
    sketching = Sketching(setup.matcher, size, rounds)
    laps = interleaved(
        {FIRST: sketching.first, NEXT: sketching.next},
        rounds,
        progress=lambda what: setup.progress(f'drawing: {what}'),
    )
    values = {
        name.replace(' ', '_'): {
            'stages': stages(column),
            'found': sum(lap.result.match.verdict.status is Status.OK for lap in column) / rounds,
        }
        for name, column in laps.items()
    }
    title = f'A drawing, stages in ms at {named(size)} (rounds: {rounds})'
    return Findings({'drawing': {named(size): values}}, (stage_table(title, laps),))
