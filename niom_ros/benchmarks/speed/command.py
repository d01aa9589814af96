"""What `niom bench` does: measure, print and write how fast everything is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
import json
from pathlib import Path
import sys
from typing import Any

from niom_ros.benchmarks.speed.alike import measure_alike
from niom_ros.benchmarks.speed.comparison import compare
from niom_ros.benchmarks.speed.directions import measure_directions
from niom_ros.benchmarks.speed.drawing import measure_drawing
from niom_ros.benchmarks.speed.findings import Findings, KEYS
from niom_ros.benchmarks.speed.growth import measure_growth
from niom_ros.benchmarks.speed.machine import machine, why_not_idle
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.tracking import measure_tracking
from niom_ros.benchmarks.speed.views import named, Size
from niom_ros.core.errors import UserError
from niom_ros.core.progress_line import ProgressLine
from niom_ros.core.settings import default_threads, Settings
from niom_ros.core.threads import use_threads
from niom_ros.images.writing import write_bytes
from niom_ros.matching.matcher import Matcher
from niom_ros.models.store import ModelStore

SIZES: tuple[Size, ...] = ((640, 480), (1280, 720))


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    sizes: tuple[Size, ...] = SIZES
    rounds: int = 5  # of the comparison, of tracking and of the node
    fewer_rounds: int = 3  # of drawings and of growth
    camera_seconds: float = 20.0  # for which the node watches a camera
    parts: tuple[str, ...] = ()  # empty: all

    def has(self, part: str) -> bool:
        """Return whether a part is measured."""
        return not self.parts or part in self.parts


QUICK = Plan(
    sizes=SIZES[:1],
    rounds=3,
    fewer_rounds=1,
    camera_seconds=5.0,
    parts=('comparison', 'directions', 'tracking', 'drawing', 'alike', 'node'),
)


def bench(
    settings: Settings,
    plan: Plan,
    threads: int = 0,
    json_file: Path | None = None,
    arguments: Sequence[str] = (),
) -> Findings:
    """Measure each part of the plan and print it; after each part, write the results so far."""
    if json_file and not json_file.absolute().parent.is_dir():
        raise UserError(f'cannot write {json_file}: its folder does not exist')
    use_threads(threads or default_threads())
    about = machine(settings)
    print_head(about, settings, plan)
    store = ModelStore()
    findings = Findings()
    line = ProgressLine()
    setup = BenchSetup(Matcher(settings, store), settings, store, plan.rounds, line.draw)
    for measure in parts(setup, plan):
        try:
            part = measure()
        finally:
            line.clear()
        for table in part.tables:
            print(f'{table}\n', flush=True)
        findings += part
        if json_file:
            # After each part, so that a failure in a later one loses nothing.
            content = as_json(findings, about, settings, plan, arguments)
            write_bytes(json_file, (json.dumps(content, indent=1) + '\n').encode())
    for key, reason in findings.left_out.items():
        print(f'niom: {key} is left out: {reason}', file=sys.stderr)
    return findings


def parts(setup: BenchSetup, plan: Plan) -> list[Callable[[], Findings]]:
    """Return the measurements to make, in order."""
    size, fewer = plan.sizes[0], replace(setup, rounds=plan.fewer_rounds)
    chosen: list[Callable[[], Findings]] = []
    if plan.has('comparison'):
        chosen.append(partial(compare, setup, plan.sizes))
    if plan.has('directions'):
        chosen.append(partial(measure_directions, setup, size))
    if plan.has('tracking'):
        chosen.append(partial(measure_tracking, setup, size))
    if plan.has('drawing'):
        chosen.append(partial(measure_drawing, fewer, size))
    if plan.has('alike'):
        chosen.append(partial(measure_alike, setup, size))
    if plan.has('growth'):
        chosen.append(partial(measure_growth, fewer, size))
    if plan.has('node'):
        chosen += [partial(node_or_why_not, setup, each, plan) for each in plan.sizes]
    return chosen


def node_or_why_not(setup: BenchSetup, size: Size, plan: Plan) -> Findings:
    """Measure the node, or report why that is not possible."""
    try:
        from niom_ros.benchmarks.speed.node import measure_node
    except ImportError:
        reason = 'it needs ROS 2: run `make setup`, or source your ROS 2 installation'
        return Findings(left_out={'node_overhead': reason})
    try:
        return measure_node(setup, size, plan.camera_seconds)
    except UserError as error:
        return Findings(left_out={f'node at {named(size)}': str(error)})


def print_head(about: dict[str, Any], settings: Settings, plan: Plan) -> None:
    """Print on what and how everything is measured."""
    versions = about['versions']
    print(
        f'{about["cpu"]}, {about["cores"]} cores, {about["threads"]} threads of torch, '
        f'{about["device"]}\n'
        f'niom_ros {versions["niom_ros"]}, Python {versions["python"]}, '
        f'torch {versions["torch"]}, kornia {versions["kornia"]}\n'
        f'{settings.extractor}+{settings.matcher}, {settings.max_keypoints} keypoints, '
        f'{settings.detector}, images of {", ".join(map(named, plan.sizes))}, '
        f'{plan.rounds} interleaved rounds after one to warm up\n',
        flush=True,
    )
    if busy := why_not_idle(about):
        print(f'niom: {busy}', file=sys.stderr)


def as_json(
    findings: Findings,
    about: dict[str, Any],
    settings: Settings,
    plan: Plan,
    arguments: Sequence[str],
) -> dict[str, Any]:
    """Return all results for the JSON file, the documented keys first."""
    values = findings.values
    return {
        **{key: values[key] for key in KEYS if key in values},
        'left_out': findings.left_out,
        'how': {
            'arguments': list(arguments),
            'machine': about,
            'extractor': settings.extractor,
            'matcher': settings.matcher,
            'detector': settings.detector,
            'max_keypoints': settings.max_keypoints,
            'adaptivity': False,
            'tracking': False,
            'image_sizes': [named(size) for size in plan.sizes],
            'rounds': plan.rounds,
            'rounds_of_drawing_and_growth': plan.fewer_rounds,
            'camera_seconds': plan.camera_seconds,
        },
        **{key: value for key, value in values.items() if key not in KEYS},
    }
