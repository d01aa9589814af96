"""manual: drawings from assembly manuals, to be found on paper in front of a camera."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
import random

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.answers import error_or_infinity, wrong_share
from niom_ros.benchmarks.evaluation.benchmark import Case, of_group, Record, share
from niom_ros.benchmarks.evaluation.method_runner import Picture
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.suites.locating import LocatingBenchmark
from niom_ros.benchmarks.evaluation.suites.paper import (
    fitted,
    FRAME,
    on_white,
    photographed,
    placed,
    sheet_of,
    thickened,
    view_of_page,
    view_of_sheet,
)
from niom_ros.benchmarks.evaluation.suites.sketch import random_view, STANDARD
from niom_ros.images.decoding import read_image

IKEA = 'drawing/ikea'

WARPED = 'warped'
THICKER = 'thicker'
PHOTOGRAPHED = 'photographed'
PART_OF_A_PAGE = 'part_of_a_page'
OTHER_PRODUCT = 'other_product'
TO_FIND = (WARPED, THICKER, PHOTOGRAPHED, PART_OF_A_PAGE)

OTHERS_SHOWN = 2  # drawings of other products in which each drawing is looked for


@dataclass(frozen=True)
class Page:
    """How drawings are laid out on a page; lengths are shares of its width."""

    size: tuple[int, int] = (1800, 1272)  # pixels: two pages of an open manual, in the shape of A4
    side: tuple[float, float] = (0.35, 0.6)  # the longer side of the drawing to find
    other_side: tuple[float, float] = (0.2, 0.4)
    others: int = 6  # drawings around it, as far as there is room
    gap: float = 0.02  # between drawings
    tries: int = 200  # to find room for a drawing


PAGE = Page()

Rectangle = tuple[int, int, int, int]
"""Left, top, width and height in pixels."""


@dataclass(frozen=True)
class ManualCase(Case):
    """A drawing, and which drawings of other products the camera sees, if any."""

    drawing: Path
    others: tuple[Path, ...] = ()


class ManualBenchmark(LocatingBenchmark):
    """Measures how often a drawing is found on paper, and how often it is claimed wrongly.

    The masks of the data set are not used: they belong to whole pages, which it does not contain.
    """

    name = 'manual'
    title = 'Drawings of manuals found on paper: share within 10 and 20 px of mean corner error.'
    folders = (IKEA,)
    default_methods = ('default', 'ink', 'plain', 'sew', 'sift', 'orb')
    main_metric = 'success_10px_photographed'

    def find_cases(self) -> Iterator[ManualCase]:
        """Return the first and the last drawing of each product, in each setting."""
        products = drawings_by_product(self.data / IKEA)
        for product, steps in products.items():
            others = [step for name in products if name != product for step in products[name]]
            for step in dict.fromkeys((steps[0], steps[-1])):
                pair = pair_of(step)
                strangers = random.Random(f'{self.seed} {pair}').sample(others, len(others))
                for group in (WARPED, THICKER, PHOTOGRAPHED):
                    yield case_of(step, group)
                if not strangers:
                    continue
                yield case_of(step, PART_OF_A_PAGE, others=tuple(strangers[: 2 * PAGE.others]))
                for other in of_different_products(strangers)[:OTHERS_SHOWN]:
                    suffix = f'/{product_of(other)}/{other.parent.name}'
                    yield case_of(step, OTHER_PRODUCT, suffix, (other,))

    def pictures(self, case: ManualCase) -> tuple[Picture, Picture, np.ndarray | None]:
        """Return the drawing, the camera image, and the homography between them, if any."""
        drawing = read_image(case.drawing)
        chance = np.random.default_rng([self.seed, *case.name.encode()])
        truth: np.ndarray | None
        if case.group == PHOTOGRAPHED:
            image, truth = photo_of(drawing, chance)
        elif case.group == OTHER_PRODUCT:
            image, _ = photo_of(read_image(case.others[0]), chance)
            truth = None
        elif case.group == PART_OF_A_PAGE:
            page, to_page = page_with(drawing, map(read_image, case.others), chance)
            to_frame = view_of_page(*PAGE.size, chance)
            image, truth = on_white(page, to_frame), to_frame @ to_page
        else:
            truth = random_view(*FRAME, STANDARD, chance) @ fitted(*drawing.shape[1::-1])
            drawn = thickened(drawing, chance) if case.group == THICKER else drawing
            image = on_white(drawn, truth)
        return (
            Picture(str(case.drawing), drawing),
            Picture(f'{case.drawing} {case.name} {self.seed}', image),
            truth,
        )

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the shares of drawings that were found, for each setting.

        The guess is the best view that a method had, accepted or not.
        """
        metrics = {}
        for group in TO_FIND:
            chosen = of_group(records, group)
            errors = [error_or_infinity(record) for record in chosen]
            metrics[f'success_10px_{group}'] = share(error < 10 for error in errors)
            metrics[f'success_20px_{group}'] = share(error < 20 for error in errors)
            metrics[f'guess_10px_{group}'] = share(guess_error(record) < 10 for record in chosen)
            metrics[f'wrong_accepted_{group}'] = wrong_share(chosen)
        strangers = of_group(records, OTHER_PRODUCT)
        claims = [bool(record['accepted']) for record in strangers]
        metrics['false_accept'] = share(claims)
        metrics['false_accept_upper'] = upper_bound(sum(claims), len(claims))
        return metrics

    def quality(self, record: Record) -> float:
        """Rank smaller errors better; a correct refusal is not worth a picture."""
        if record['group'] == OTHER_PRODUCT and not record['accepted']:
            return float('nan')
        return super().quality(record)


def case_of(step: Path, group: str, suffix: str = '', others: tuple[Path, ...] = ()) -> ManualCase:
    """Return a drawing in one setting; the suffix distinguishes its cases in that setting."""
    return ManualCase(
        name=f'{pair_of(step)}/{group}{suffix}',
        pair=pair_of(step),
        unit=product_of(step),
        group=group,
        drawing=step,
        others=others,
    )


def pair_of(step: Path) -> str:
    """Return the name that all cases of a drawing share: stig/step_1."""
    return f'{product_of(step)}/{step.parent.name}'


def guess_error(record: Record) -> float:
    """Return the error of the best view, accepted or not."""
    return float('inf') if record['best_error'] is None else record['best_error']


def drawings_by_product(folder: Path) -> dict[str, list[Path]]:
    """Return the drawings of each product in the order of its steps."""
    products: dict[str, list[Path]] = {}
    for path in sorted(folder.glob('*/*/step_*/*.png'), key=step_order):
        products.setdefault(product_of(path), []).append(path)
    return products


def product_of(drawing: Path) -> str:
    """Return the product that a drawing is of: Chair/stig/step_1/step_1.png."""
    return drawing.parts[-3]


def step_order(drawing: Path) -> tuple[str, int, str]:
    """Return the sort key of a drawing: step 10 comes after step 9."""
    number = drawing.parent.name.removeprefix('step_')
    return product_of(drawing), int(number) if number.isdigit() else -1, str(drawing)


def of_different_products(drawings: Iterable[Path]) -> list[Path]:
    """Return the first drawing of each product, in the order given."""
    firsts: dict[str, Path] = {}
    for drawing in drawings:
        firsts.setdefault(product_of(drawing), drawing)
    return list(firsts.values())


def photo_of(drawing: np.ndarray, chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a photo of a sheet with a drawing, and the homography from drawing to photo."""
    sheet, to_sheet = sheet_of(drawing)
    height, width = sheet.shape[:2]
    to_frame = view_of_sheet(width, height, chance)
    return photographed(sheet, to_frame, chance), to_frame @ to_sheet


# Pages with several drawings


def page_with(
    drawing: np.ndarray, others: Iterable[np.ndarray], chance: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a page with a drawing among others, and the homography from drawing to page."""
    page = np.full((*PAGE.size[::-1], 3), 255, np.uint8)
    place = free_place(drawing, PAGE.side, [], chance)
    assert place is not None  # on an empty page there is room
    taken = [place]
    print_onto(page, drawing, place)
    for other in others:
        if len(taken) <= PAGE.others and (
            free := free_place(other, PAGE.other_side, taken, chance)
        ):
            taken.append(free)
            print_onto(page, other, free)
    left, top, width, _ = place
    return page, placed(width / drawing.shape[1], left, top)


def free_place(
    drawing: np.ndarray,
    sizes: tuple[float, float],
    taken: Sequence[Rectangle],
    chance: np.random.Generator,
) -> Rectangle | None:
    """Return a place on the page where a drawing covers no other; None after many tries."""
    height, width = drawing.shape[:2]
    for _ in range(PAGE.tries):
        scale = chance.uniform(*sizes) * PAGE.size[0] / max(width, height)
        size = np.round(np.array([width, height]) * scale).astype(int)
        left, top = (int(chance.integers(0, room + 1)) for room in np.array(PAGE.size) - size)
        place = left, top, int(size[0]), int(size[1])
        if not any(touch(place, other) for other in taken):
            return place
    return None


def touch(one: Rectangle, other: Rectangle) -> bool:
    """Return whether there is less than a gap between two places."""
    gap = PAGE.gap * PAGE.size[0]
    return all(
        one[axis] < other[axis] + other[axis + 2] + gap
        and other[axis] < one[axis] + one[axis + 2] + gap
        for axis in (0, 1)
    )


def print_onto(page: np.ndarray, drawing: np.ndarray, place: Rectangle) -> None:
    """Draw a drawing onto a page, shrunk to its place."""
    left, top, width, height = place
    shrinks = width < drawing.shape[1]
    smaller = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    page[top : top + height, left : left + width] = cv2.resize(
        drawing, (width, height), interpolation=smaller
    )
