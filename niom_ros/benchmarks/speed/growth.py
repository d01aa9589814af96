"""How the cost of a frame grows with keypoints, references and objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import cv2
import numpy as np

from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, Lap, seconds_of
from niom_ros.benchmarks.speed.views import Attempt, demo_views, Size
from niom_ros.core.settings import Options, Weighting
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo

KEYPOINTS = (256, 512, 1024, 2048)
REFERENCES = (1, 2, 4, 8)
CUPS = {1: (1, 1), 2: (2, 1), 4: (2, 2), 9: (3, 3)}  # columns and rows
SEW = Options(weighting=Weighting(kind='sew'))


def measure_growth(setup: BenchSetup, size: Size) -> Findings:
    """Measure how the cost of a frame with weights grows."""
    return by_keypoints(setup, size) + by_references(setup, size) + by_objects(setup, size)


def by_keypoints(setup: BenchSetup, size: Size, counts: Sequence[int] = KEYPOINTS) -> Findings:
    """Find the demo photo with fewer and with more keypoints."""
    views, photo = demo_views(size, setup.rounds + 1), example_photo(DEMO_PHOTO)

    def find_with(count: int) -> Callable[[int], Attempt]:
        matcher = Matcher(replace(setup.settings, max_keypoints=count), setup.store)
        matches = FullMatches(matcher, matcher.prepare(photo), 'sew')
        return lambda number: matches.find(views[number])

    tasks = {f'{count} keypoints': find_with(count) for count in counts}
    laps = interleaved(tasks, setup.rounds, progress=setup.progress)
    values, rows = {}, []
    for count, column in zip(counts, laps.values(), strict=True):
        used = [lap.result.match.image_keypoints for lap in column]
        match = [lap.result.stages['match'] for lap in column]
        values[str(count)] = {
            'keypoints_of_image': spread(used),
            'seconds': spread(seconds_of(column)),
            'match_seconds': spread(match),
        }
        row = str(count), f'{np.median(used):.0f}', milliseconds(seconds_of(column))
        rows.append((*row, milliseconds(match)))
    head = ('most keypoints', 'in the image', 'frame in ms', 'of it, match')
    table = TextTable(f'Growth with keypoints (rounds: {setup.rounds})', head, rows)
    return Findings({'growth': {'keypoints': values}}, (table,))


def by_references(setup: BenchSetup, size: Size, counts: Sequence[int] = REFERENCES) -> Findings:
    """Look for several references in each frame, as with match_all."""
    matcher, rounds = setup.matcher, setup.rounds
    views = demo_views(size, rounds + 1)
    references = [matcher.prepare(photo) for photo in eight_photos()[: max(counts)]]

    def all_of(chosen: Sequence[PreparedReference]) -> Callable[[int], None]:
        return lambda number: ignore(
            matcher.match_all(chosen, matcher.analyse(views[number].image), SEW)
        )

    tasks = {f'{count} references': all_of(references[:count]) for count in counts}
    laps = interleaved(tasks, rounds, progress=setup.progress)
    return grown('references', counts, laps, rounds)


def by_objects(
    setup: BenchSetup, size: Size, grids: Mapping[int, tuple[int, int]] = CUPS
) -> Findings:
    """Detect several cups and their heat maps: in closed form, as ours, and by autograd."""
    matcher = setup.matcher
    gradients = Matcher(replace(setup.settings, cam='gradcam'), setup.store)
    images = {count: cups(size, *grid) for count, grid in grids.items()}
    seen = [len(matcher.analyse(image).scene.objects) for image in images.values()]

    def detect(by: Matcher, image: np.ndarray) -> Callable[[int], None]:
        return lambda _: ignore(by.analyse(image).scene)

    ways = {'objects': matcher, 'objects_by_gradients': gradients}
    tasks = {
        f'{count} cups, {name}': detect(by, image)
        for count, image in images.items()
        for name, by in ways.items()
    }
    laps = interleaved(tasks, setup.rounds, progress=setup.progress)
    findings = Findings()
    for name in ways:
        of_way = {f'{count} cups': laps[f'{count} cups, {name}'] for count in images}
        findings += grown(name, seen, of_way, setup.rounds)
    return findings


def grown(
    name: str, counts: Sequence[int], laps: Mapping[str, Sequence[Lap[None]]], rounds: int
) -> Findings:
    """Return the time per frame for a growing number of something."""
    together = list(zip(laps.items(), counts, strict=True))
    values = {
        task: {'count': count, 'seconds': spread(seconds_of(column))}
        for (task, column), count in together
    }
    what = name.replace('_', ' ')
    rows = [
        (task, str(count), milliseconds(seconds_of(column))) for (task, column), count in together
    ]
    table = TextTable(f'Growth with {what} (rounds: {rounds})', ('', what, 'ms'), rows)
    return Findings({'growth': {name: values}}, (table,))


def eight_photos() -> list[np.ndarray]:
    """Return the demo photo and its seven mirrored and rotated versions."""
    photo = example_photo(DEMO_PHOTO)
    sides = photo, np.fliplr(photo)
    return [np.ascontiguousarray(np.rot90(side, turn)) for turn in range(4) for side in sides]


def cups(size: Size, columns: int, rows: int) -> np.ndarray:
    """Return an image of several cups, arranged in a grid."""
    width, height = size
    part = cv2.resize(
        example_photo(DEMO_PHOTO),
        (width // columns, height // rows),
        interpolation=cv2.INTER_AREA,
    )
    return np.ascontiguousarray(np.tile(part, (rows, columns, 1)))


def ignore(_: object) -> None:
    """Drop a result, so that its memory is free for the next one."""
