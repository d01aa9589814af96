"""Timing several tasks in interleaved rounds, so that a disturbance affects all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import time
from typing import Generic, TypeVar

import numpy as np

Result = TypeVar('Result')


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of some numbers."""

    median: float
    first_quartile: float
    third_quartile: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> 'Spread':
        """Summarise numbers; there must be at least one."""
        first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(first), float(third), len(values))

    @classmethod
    def of_ratios(cls, above: Sequence[float], below: Sequence[float]) -> 'Spread':
        """Summarise how many times longer one task took than another, round by round."""
        return cls.of([longer / shorter for longer, shorter in zip(above, below, strict=True)])

    def __str__(self) -> str:
        """Write it as a table shows it: 1.234 [1.200 1.310]."""
        return f'{self.median:.3f} [{self.first_quartile:.3f} {self.third_quartile:.3f}]'


@dataclass(frozen=True)
class Lap(Generic[Result]):
    """One run of a task."""

    seconds: float
    result: Result


def interleaved(
    tasks: Mapping[str, Callable[[int], Result]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Lap[Result]]]:
    """Run every task once in each round, and return the laps of each task.

    A task receives the number of the round. Round 0 is for warming up and is not returned.
    """
    laps: dict[str, list[Lap[Result]]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            progress(f'{name}, round {number} of {rounds}' if number else f'{name}, warming up')
            start = clock()
            result = task(number)
            lap = Lap(clock() - start, result)
            if number:
                laps[name].append(lap)
    return laps


def seconds_of(laps: Sequence[Lap[Result]]) -> list[float]:
    """Return the time of each lap."""
    return [lap.seconds for lap in laps]
