"""The results of one part of `niom bench`: numbers for programs, tables for people."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from niom_ros.benchmarks.speed.timing import Spread

# The documented keys of the JSON file, and what each means.
KEYS = {
    'sew_overhead': 'how many times longer a frame takes with weights than without',
    'pair_over_stream': 'how many times longer the loop over pairs takes than the stream',
    'full_over_tracked': 'how many times longer a full match takes than a tracked frame',
    'upright_over_networks': 'how long an upright frame takes, by default over networks alone',
    'turned_over_networks': 'how long a turned frame takes, over an upright one of networks',
    'absent_over_networks': 'how long it takes to find nothing, over networks alone',
    'alike_over_full': 'how many times longer points of alike objects take than a full match',
    'node_overhead': 'how many times longer the node takes for a frame than the library',
    'lock_on_with_pictures': 'how many times longer it takes to track with all pictures seen',
    'matcher_speedup': 'how many times longer the published LightGlue takes than ours',
    'peers': 'how long other methods take per pair and per frame, and how often they are right',
    'reference_work_per_frame': 'how often work on the reference is repeated in each frame',
}


@dataclass(frozen=True)
class TextTable:
    """A table to print."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Write it with aligned columns."""
        lines = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = (
            '  '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        )
        return '\n'.join([self.title, *(f'  {line}'.rstrip() for line in shown)])


@dataclass(frozen=True)
class Findings:
    """What was measured in one part."""

    values: dict[str, Any] = field(default_factory=dict)  # ready for JSON
    tables: tuple[TextTable, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # what could not be measured, and why

    def __add__(self, other: 'Findings') -> 'Findings':
        """Return the findings of both."""
        return Findings(
            merged(self.values, other.values),
            self.tables + other.tables,
            self.left_out | other.left_out,
        )


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of both; where both have a number, the first one counts."""
    result = dict(first)
    for key, value in second.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result.setdefault(key, value)
    return result


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return median, quartiles and count of some numbers, ready for JSON."""
    return asdict(Spread.of(values))


def milliseconds(values: Sequence[float]) -> str:
    """Write seconds as a table shows them: 12.3 [11.9 13.0]."""
    found = Spread.of([1000 * value for value in values])
    return f'{found.median:.1f} [{found.first_quartile:.1f} {found.third_quartile:.1f}]'
