"""Points of objects that are alike, beside a full match of keypoints in the same frames."""

from collections.abc import Callable
from dataclasses import asdict, replace

from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, seconds_of, Spread
from niom_ros.benchmarks.speed.views import demo_views, named, Size
from niom_ros.core.settings import Options
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo

STRATEGIES = ('points', 'alike')


def measure_alike(setup: BenchSetup, size: Size) -> Findings:
    """Compare how long both strategies take for a frame; the reference is prepared before."""
    matcher = Matcher(replace(setup.settings, extra_strategies=('alike',)), setup.store)
    reference = matcher.prepare(example_photo(DEMO_PHOTO))
    views = demo_views(size, setup.rounds + 1)

    def task(strategy: str) -> Callable[[int], Match]:
        options = Options(strategies=(strategy,))
        return lambda number: matcher.match(reference, views[number].image, options)

    laps = interleaved(
        {strategy: task(strategy) for strategy in STRATEGIES},
        setup.rounds,
        progress=lambda what: setup.progress(f'{named(size)}: strategy {what}'),
    )
    points, alike = (seconds_of(laps[strategy]) for strategy in STRATEGIES)
    ratio = Spread.of_ratios(alike, points)
    table = TextTable(
        f'Objects that are alike, at {named(size)} (rounds: {setup.rounds})',
        ('what', 'value'),
        [
            ('alike / full match', str(ratio)),
            ('full match in ms', milliseconds(points)),
            ('alike in ms', milliseconds(alike)),
        ],
    )
    values = {
        'alike_over_full': asdict(ratio),
        'full_seconds': spread(points),
        'alike_seconds': spread(alike),
    }
    return Findings({'alike_over_full': ratio.median, 'alike': {named(size): values}}, (table,))
