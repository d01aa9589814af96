"""Full matches of upright, turned and absent references, beside networks alone."""

from collections.abc import Callable
from dataclasses import asdict

import cv2
import numpy as np

from niom_ros.benchmarks.speed.findings import Findings, milliseconds, spread, TextTable
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, seconds_of, Spread
from niom_ros.benchmarks.speed.views import demo_views, named, Size
from niom_ros.core.settings import KeypointSearch, Options
from niom_ros.matching.match import Match
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo

TURN = 107.0  # degrees: farther than networks recognise a picture
ABSENT_PHOTO = 'astronaut'
SEARCHES: tuple[KeypointSearch, ...] = ('both', 'networks')
UPRIGHT, TURNED, ABSENT = 'upright', 'turned', 'absent'


def measure_directions(setup: BenchSetup, size: Size) -> Findings:
    """Compare the default with networks alone, on frames in which every match is a full one."""
    matcher = setup.matcher
    reference = matcher.prepare(example_photo(DEMO_PHOTO))
    absent = matcher.prepare(example_photo(ABSENT_PHOTO))
    views = [view.image for view in demo_views(size, setup.rounds + 1)]
    turned = [turned_by(TURN, view) for view in views]

    def task(what: str, search: KeypointSearch) -> Callable[[int], Match]:
        options = Options(keypoint_search=search, wanted='same_object')
        images = turned if what == TURNED else views
        sought = absent if what == ABSENT else reference
        return lambda number: matcher.match(sought, images[number], options)

    laps = interleaved(
        {
            f'{what}, {search}': task(what, search)
            for what in (UPRIGHT, TURNED, ABSENT)
            for search in SEARCHES
        },
        setup.rounds,
        progress=lambda what: setup.progress(f'{named(size)}: {what}'),
    )
    seconds = {name: seconds_of(lap) for name, lap in laps.items()}
    found = {name: sum(lap.result.found for lap in each) for name, each in laps.items()}
    # A turned frame is compared with an upright one, because networks need all turns for it.
    before = seconds[f'{UPRIGHT}, networks']
    ratios = {
        'upright_over_networks': Spread.of_ratios(seconds[f'{UPRIGHT}, both'], before),
        'turned_over_networks': Spread.of_ratios(seconds[f'{TURNED}, both'], before),
        'absent_over_networks': Spread.of_ratios(
            seconds[f'{ABSENT}, both'], seconds[f'{ABSENT}, networks']
        ),
    }
    table = TextTable(
        f'SIFT and networks, and networks alone, at {named(size)} (rounds: {setup.rounds})',
        ('what', 'ms', 'found'),
        [
            (name, milliseconds(seconds[name]), f'{found[name]} of {setup.rounds}')
            for name in seconds
        ],
    )
    values = {
        **{name: asdict(ratio) for name, ratio in ratios.items()},
        'seconds': {name: spread(each) for name, each in seconds.items()},
        'found': found,
    }
    medians = {name: ratio.median for name, ratio in ratios.items()}
    return Findings({**medians, 'directions': {named(size): values}}, (table,))


def turned_by(degrees: float, image: np.ndarray) -> np.ndarray:
    """Return an image turned about its centre, as if the camera had been turned."""
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    turned: np.ndarray = cv2.warpAffine(
        image, turn, (width, height), borderMode=cv2.BORDER_REFLECT_101
    )
    return turned
