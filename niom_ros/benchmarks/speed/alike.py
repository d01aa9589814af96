"""Points of objects that are alike, beside full matches and tracks of the object itself."""

from collections.abc import Callable
from dataclasses import asdict

from niom_ros.benchmarks.speed.counting import calls_of
from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, seconds_of, Spread
from niom_ros.benchmarks.speed.tracking import CAMERA_STEP, FRAMES, TrackedPhoto
from niom_ros.benchmarks.speed.views import demo_views, named, Size
from niom_ros.core.settings import Options
from niom_ros.matching import found_parts
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo

STRATEGIES = ('points', 'alike')


def measure_alike(setup: BenchSetup, size: Size) -> Findings:
    """Compare full matches of both strategies, and frames in which their finds are tracked."""
    return measure_matches(setup, size) + measure_tracks(setup, size)


def measure_tracks(setup: BenchSetup, size: Size) -> Findings:
    """Compare how long a tracked frame takes: of the object itself, and of one of its kind."""
    picture = example_photo(DEMO_PHOTO)
    views = demo_views(size, 1 + FRAMES * (setup.rounds + 1), CAMERA_STEP)
    matcher = Matcher(setup.settings, setup.store)
    very = TrackedPhoto(matcher, views, picture, Options(wanted='same_object'))
    alike = TrackedPhoto(matcher, views, picture, Options(wanted='same_kind'))
    laps = interleaved({'very': very.follow, 'alike': alike.follow}, setup.rounds)
    every = FRAMES * (setup.rounds + 1)
    if min(very.tracked, alike.tracked) < every:
        reason = f'of {every} frames, {very.tracked} and {alike.tracked} could be tracked'
        return Findings(left_out={'alike_tracked': reason})
    seconds = {name: [lap / FRAMES for lap in seconds_of(laps[name])] for name in laps}
    ratio = Spread.of_ratios(seconds['alike'], seconds['very'])
    table = TextTable(
        f'Tracked frames at {named(size)} (rounds: {setup.rounds})',
        ('what', 'value'),
        [
            ('of its kind / the object itself', str(ratio)),
            ('the object itself in ms', milliseconds(seconds['very'])),
            ('only alike in ms', milliseconds(seconds['alike'])),
        ],
    )
    values = {
        'tracked_over_very': asdict(ratio),
        'tracked_seconds': spread(seconds['alike']),
        'tracked_very_seconds': spread(seconds['very']),
    }
    return Findings({'alike': {named(size): values}}, (table,))


def measure_matches(setup: BenchSetup, size: Size) -> Findings:
    """Compare how long both strategies take for a frame; the reference is prepared before."""
    matcher = Matcher(setup.settings, setup.store)
    reference = matcher.prepare(example_photo(DEMO_PHOTO))
    views = demo_views(size, setup.rounds + 1)

    def task(strategy: str) -> Callable[[int], Match]:
        options = Options(strategies=(strategy,))
        return lambda number: matcher.match(reference, views[number].image, options)

    with calls_of(found_parts, 'prepare_parts') as preparations:
        laps = interleaved(
            {strategy: task(strategy) for strategy in STRATEGIES},
            setup.rounds,
            progress=lambda what: setup.progress(f'{named(size)}: strategy {what}'),
        )
    # Once is needed, in the round that warms up.
    repeated = (len(preparations) - 1) / setup.rounds
    points, alike = (seconds_of(laps[strategy]) for strategy in STRATEGIES)
    ratio = Spread.of_ratios(alike, points)
    table = TextTable(
        f'Objects that are alike, at {named(size)} (rounds: {setup.rounds})',
        ('what', 'value'),
        [
            ('alike / full match', str(ratio)),
            ('full match in ms', milliseconds(points)),
            ('alike in ms', milliseconds(alike)),
            ('parts of the reference, times per frame', f'{repeated:g}'),
        ],
    )
    values = {
        'alike_over_full': asdict(ratio),
        'full_seconds': spread(points),
        'alike_seconds': spread(alike),
    }
    found = {
        'alike_over_full': ratio.median,
        'reference_work_per_frame': {'parts': repeated},
        'alike': {named(size): values},
    }
    return Findings(found, (table,))
