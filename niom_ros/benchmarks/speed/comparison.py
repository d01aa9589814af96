"""The stream with weights, compared with the one without, the loop over pairs, and peers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from niom_ros.benchmarks.speed.counting import reference_work
from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.matcher_speedup import agreement, EagerMatcher
from niom_ros.benchmarks.speed.pair_loop import PairLoop
from niom_ros.benchmarks.speed.peers import load_peers, PEERS
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, Lap, seconds_of, Spread
from niom_ros.benchmarks.speed.views import Attempt, demo_views, named, Size, stage_names
from niom_ros.core.boxes import Box
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo, View

STREAM_SEW = 'stream with SEW'
STREAM = 'stream without SEW'
EAGER = 'published LightGlue on the same features'
PAIRS = 'loop over pairs'
COUNTED_FRAMES = 2
DUEL = 2  # times as many rounds for the two streams alone

Laps = Mapping[str, Sequence[Lap[Attempt]]]


class Comparison:
    """Everything that finds the demo photo, one way or another."""

    def __init__(self, setup: BenchSetup) -> None:
        """Load the networks that the matcher does not already have."""
        self._setup = setup
        matcher, settings, store = setup.matcher, setup.settings, setup.store
        picture = example_photo(DEMO_PHOTO)
        self._box = Box.around(picture)
        self._reference = matcher.prepare(picture)
        self._with_sew = FullMatches(matcher, self._reference, 'sew')
        self._without = FullMatches(matcher, self._reference, 'none')
        self._eager = EagerMatcher(settings, store, self._reference, self._without)
        self._pairs = PairLoop(settings, store, picture)
        self._peers, self.left_out = load_peers(settings, store, picture)

    def at(self, size: Size) -> Findings:
        """Time all of them on images of one size.

        The time that weights add is less than the variation over a few rounds of many tasks,
        because each task leaves the caches in a different state. So the streams with and without
        weights also run on their own, in more rounds: then each always follows the other.
        """
        rounds = self._setup.rounds
        views = demo_views(size, DUEL * rounds + 1)
        tasks: dict[str, Callable[[int], Attempt]] = {
            STREAM_SEW: on(views, self._with_sew.find),
            STREAM: on(views, self._without.find),
            EAGER: lambda _: self._eager.match_again(),
            PAIRS: on(views, self._pairs.find),
            **{name: on(views, peer.find) for name, peer in self._peers.items()},
        }
        duel = {name: tasks[name] for name in (STREAM_SEW, STREAM)}

        def say(what: str) -> None:
            self._setup.progress(f'{named(size)}: {what}')

        laps = interleaved(tasks, rounds, progress=say)
        alone = interleaved(duel, DUEL * rounds, progress=say)
        return summary(laps, alone, views[1 : rounds + 1], self._box, size)

    def reference_work(self, size: Size) -> Findings:
        """Count the work on the reference that is repeated in each frame."""
        return reference_work(self._with_sew, self._reference, demo_views(size, COUNTED_FRAMES))


def compare(setup: BenchSetup, sizes: Sequence[Size]) -> Findings:
    """Measure everything that finds the demo photo, at each image size.

    The keys hold the numbers of the first size, `by_size` those of all sizes.
    """
    comparison = Comparison(setup)
    findings = Findings(left_out=comparison.left_out)
    for size in sizes:
        findings += comparison.at(size)
    return findings + comparison.reference_work(sizes[0])


def on(views: Sequence[View], find: Callable[[View], Attempt]) -> Callable[[int], Attempt]:
    """Return a task that finds the photo in the view of its round."""
    return lambda number: find(views[number])


def summary(laps: Laps, duel: Laps, views: Sequence[View], box: Box, size: Size) -> Findings:
    """Return the keys and tables of one image size."""
    sew_overhead = Spread.of_ratios(seconds_of(duel[STREAM_SEW]), seconds_of(duel[STREAM]))
    pair_over_stream = Spread.of_ratios(seconds_of(laps[PAIRS]), seconds_of(laps[STREAM_SEW]))
    ours = [lap.result.stages['match'] for lap in laps[STREAM]]
    matcher_speedup = Spread.of_ratios(seconds_of(laps[EAGER]), ours)
    agreements = [
        agreement(first.result.match.correspondences, second.result.match.correspondences)
        for first, second in zip(laps[STREAM], laps[EAGER], strict=True)
    ]
    contestants = {
        STREAM_SEW: STREAM_SEW,
        STREAM: STREAM,
        PAIRS: PAIRS,
        **{name: title for name, title in PEERS.items() if name in laps},
    }
    judged = {name: judgement(laps[name], views, box) for name in contestants}
    breakdown = {name: stages(laps[name]) for name in (STREAM_SEW, STREAM, PAIRS)}
    weighted = [lap.result.match.weighting == 'sew' for lap in laps[STREAM_SEW]]
    ratios = {
        'sew_overhead': sew_overhead,
        'pair_over_stream': pair_over_stream,
        'matcher_speedup': matcher_speedup,
    }
    values: dict[str, Any] = {
        **{name: ratio.median for name, ratio in ratios.items()},
        'pair_over_stream_breakdown': breakdown,
        'matcher_agreement': Spread.of(agreements).median,
        'peers': {name: judged[name] for name in PEERS if name in judged},
        'by_size': {
            named(size): {
                **{name: asdict(ratio) for name, ratio in ratios.items()},
                'matcher_agreement': spread(agreements),
                'matcher_seconds': {
                    'published': spread(seconds_of(laps[EAGER])),
                    'ours': spread(ours),
                },
                'duel_seconds': {
                    name: spread(seconds_of(column)) for name, column in duel.items()
                },
                'weighted_frames': sum(weighted) / len(weighted),
                'contestants': judged,
                'stages': breakdown,
            }
        },
    }
    where = f'at {named(size)} (rounds: {len(views)})'
    tables = (
        TextTable(
            f'Ratios {where}: median [quartiles]',
            ('ratio', 'value'),
            [
                *((name, str(ratio)) for name, ratio in ratios.items()),
                ('matcher agreement', str(Spread.of(agreements))),
            ],
        ),
        peer_table(f'Everything that finds the photo, {where}', contestants, laps, judged),
        stage_table(f'Stages in ms {where}', {name: laps[name] for name in breakdown}),
    )
    return Findings(values, tables)


def frame_seconds(laps: Sequence[Lap[Attempt]]) -> list[float]:
    """Return the time of each lap without the work on the reference."""
    return [lap.seconds - lap.result.reference_seconds for lap in laps]


def judgement(laps: Sequence[Lap[Attempt]], views: Sequence[View], box: Box) -> dict[str, Any]:
    """Return the time that one contestant took, and how often it was right."""
    right = [lap.result.is_right(view, box) for lap, view in zip(laps, views, strict=True)]
    whole, frame = seconds_of(laps), frame_seconds(laps)
    return {
        'seconds_per_pair': spread(whole) if whole != frame else None,
        'seconds_per_frame': spread(frame),
        'inliers': spread([lap.result.inliers for lap in laps]),
        'right': sum(right) / len(right),
    }


def stages(laps: Sequence[Lap[Attempt]]) -> dict[str, Any]:
    """Return the time of each stage, of the rest, and of the whole."""
    names = stage_names([lap.result for lap in laps])
    found = {name: spread(stage_seconds(laps, name)) for name in names}
    rest = [lap.seconds - sum(lap.result.stages.values()) for lap in laps]
    return found | {'rest': spread(rest), 'whole': spread(seconds_of(laps))}


def stage_seconds(laps: Sequence[Lap[Attempt]], name: str) -> list[float]:
    """Return the time of a stage in each lap; 0 where it did not run."""
    return [lap.result.stages.get(name, 0.0) for lap in laps]


def stage_table(title: str, laps: Laps) -> TextTable:
    """Return a table with a row for each stage, and a column for each task."""
    attempts = [lap.result for column in laps.values() for lap in column]
    rows = []
    for name in stage_names(attempts):
        used = (any(name in lap.result.stages for lap in column) for column in laps.values())
        cells = (
            milliseconds(stage_seconds(column, name)) if there else '-'
            for column, there in zip(laps.values(), used, strict=True)
        )
        rows.append((name, *cells))
    rows.append(('whole', *(milliseconds(seconds_of(column)) for column in laps.values())))
    return TextTable(title, ('stage', *laps), rows)


def peer_table(
    title: str, contestants: Mapping[str, str], laps: Laps, judged: Mapping[str, Any]
) -> TextTable:
    """Return a table with a row for each contestant."""
    rows = [
        (
            shown,
            milliseconds(seconds_of(laps[name])) if judged[name]['seconds_per_pair'] else '-',
            milliseconds(frame_seconds(laps[name])),
            f'{judged[name]["inliers"]["median"]:.0f}',
            f'{judged[name]["right"]:.0%}',
        )
        for name, shown in contestants.items()
    ]
    return TextTable(title, ('', 'ms per pair', 'ms per frame', 'inliers', 'right'), rows)
