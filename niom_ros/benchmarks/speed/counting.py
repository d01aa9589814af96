"""Counts the work on a reference that is repeated while a stream runs: there should be none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, ExitStack
from types import ModuleType
from typing import Any

from niom_ros.benchmarks.speed.findings import Findings, TextTable
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.matching.features import Extractor
from niom_ros.matching.matchers.lightglue import LightGlueMatcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.semantics.detectors.grid_detector import GridDetector
from niom_ros.semantics.heat_maps import HeatMap
from niom_ros.simulation.virtual_scene import View

Call = tuple[Any, ...]


@contextmanager
def calls_of(owner: type | ModuleType, name: str) -> Iterator[list[Call]]:
    """Record the arguments of all calls of a method or function while the block runs."""
    original = owner.__dict__[name]
    of_class = isinstance(original, classmethod)
    method = original.__func__ if of_class else original
    calls: list[Call] = []

    def recording(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return method(*arguments, **options)

    setattr(owner, name, classmethod(recording) if of_class else recording)
    try:
        yield calls
    finally:
        setattr(owner, name, original)


def reference_work(
    matches: FullMatches, reference: PreparedReference, views: Sequence[View]
) -> Findings:
    """Count what is computed in each frame beyond what the frame itself needs."""
    matches.find(views[0])
    frames = {id(view.image) for view in views}
    with ExitStack() as stack:
        watched = [
            stack.enter_context(calls_of(owner, name))
            for owner, name in (
                (Extractor, 'extract'),
                (GridDetector, 'detect'),
                (HeatMap, 'of_grid'),
                (HeatMap, 'at'),
                (LightGlueMatcher, 'project'),
            )
        ]
        attempts = [matches.find(view) for view in views]
    extractions, detections, maps, gathers, projections = watched
    own_maps = {id(seen.heat) for seen in reference.scene.objects}
    seen_in_frames = sum(len(attempt.match.scene.objects) for attempt in attempts)
    counts = {
        'extraction': sum(id(image) not in frames for _, image in extractions),
        'detection': sum(id(image) not in frames for _, image in detections),
        'heat_map': len(maps) - seen_in_frames,
        'heat_at_keypoints': sum(id(heat) in own_maps for heat, *_ in gathers),
        'matcher_input': len(projections) - len(views),
    }
    per_frame = {name: count / len(views) for name, count in counts.items()}
    table = TextTable(
        f'Work on the reference repeated per frame, in {len(views)} frames',
        ('what', 'times'),
        [(name.replace('_', ' '), f'{count:g}') for name, count in per_frame.items()],
    )
    return Findings({'reference_work_per_frame': per_frame}, (table,))
