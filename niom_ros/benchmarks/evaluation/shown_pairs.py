"""Which pairs the report shows as pictures, and what it says about each."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

from niom_ros.benchmarks.evaluation.benchmark import Record
from niom_ros.benchmarks.evaluation.finished import Finished, is_number, short
from niom_ros.benchmarks.evaluation.glossary import ERROR_NAMES, spaced

PAIRS_SHOWN = 2  # best pairs, and as many worst ones


@dataclass(frozen=True)
class ShownPair:
    """A case that the report shows as a picture."""

    method: str
    kind: str  # best or worst
    case: str
    words: str  # what was measured on it
    file: str
    size: tuple[int, int]  # width, height


def extremes(done: Finished, records: Sequence[Record]) -> tuple[list[int], list[int]]:
    """Return the best cases, best first, and the worst cases, worst first.

    They are of different pairs, if there are enough.
    """
    rated = [(done.benchmark.quality(record), index) for index, record in enumerate(records)]
    rated = [(quality, index) for quality, index in rated if not math.isnan(quality)]
    pairs = [case.pair for case in done.cases]
    upwards = [index for _, index in sorted(rated, key=lambda one: one[0])]
    downwards = [index for _, index in sorted(rated, key=lambda one: -one[0])]
    best = of_different_pairs(downwards, pairs, min(PAIRS_SHOWN, (len(rated) + 1) // 2))
    others = [index for index in upwards if index not in best]
    return best, of_different_pairs(others, pairs, min(PAIRS_SHOWN, len(others)))


def of_different_pairs(order: Sequence[int], pairs: Sequence[str], count: int) -> list[int]:
    """Return the first cases of an order, of different pairs if there are enough."""
    firsts: dict[str, int] = {}
    for index in order:
        firsts.setdefault(pairs[index], index)
    different = list(firsts.values())
    rest = [index for index in order if index not in different]
    chosen = set([*different, *rest][:count])
    return [index for index in order if index in chosen]


def record_words(record: Record, unit: str) -> str:
    """Say what was measured on a case."""
    words = []
    accepted = record.get('accepted')
    if accepted is not None:
        status = spaced(str(record.get('status', ''))).lower()
        words.append('accepted' if accepted else f'refused: {status}' if status else 'refused')
    if is_number(record.get('error')):
        words.append(f'{ERROR_NAMES.get(unit, "error")} {short(record["error"], unit)}')
    elif is_number(record.get('best_error')):
        words.append(f'error of the best guess {short(record["best_error"], unit)}')
    elif 'error' in record and not accepted:
        words.append('nothing found')
    if is_number(record.get('matches')) and is_number(record.get('agreeing')):
        words.append(f'{record["agreeing"]} of {record["matches"]} matches fit the best view')
    said = ('accepted', 'status', 'error', 'best_error', 'matches', 'agreeing', 'group', 'unit')
    for key, value in record.items():
        if key not in said and (is_number(value) or isinstance(value, (str, bool))):
            words.append(f'{spaced(key)} {short(value) if is_number(value) else value}')
    return ', '.join(words) or 'no numbers'
