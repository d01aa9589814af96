"""What all benchmarks have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from niom_ros.benchmarks.evaluation.method_runner import Workbench
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.core.errors import UserError

Record = dict[str, Any]
"""What was measured on one case with one method: numbers and texts that fit into JSON."""


class NotMeasurable(UserError):
    """A benchmark that cannot be run here, while others can."""


class DataMissing(NotMeasurable):
    """A benchmark without data; the message says which folder it needs."""


@dataclass(frozen=True)
class Case:
    """One thing to try each method on."""

    name: str  # no other case of the benchmark has it, and it stays the same from run to run
    pair: str  # which pictures it is about; --limit counts these
    unit: str  # cases with the same unit are not independent: a bootstrap draws them together
    group: str  # of cases that are summed up together, such as one kind of damage


class Benchmark(ABC):
    """Cases from a data folder, what is measured on each, and what that amounts to.

    Sent to other processes, so it holds no pictures and no networks.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # one sentence for people
    # Of the data folder; each may be missing, but not all if the benchmark needs data.
    folders: ClassVar[tuple[str, ...]]
    needs_data: ClassVar[bool] = True
    default_methods: ClassVar[tuple[str, ...]]
    main_metric: ClassVar[str]  # the one to look at first
    # Whether groups are data sets of their own, of which each has its share in every draw.
    stratified: ClassVar[bool] = False
    # Whether it counts which answers a method believes in; if not, its calibration does not.
    beliefs_count: ClassVar[bool] = True

    def __init__(self, data: Path, seed: int) -> None:
        """Take the folder that has the folders of the benchmark in it."""
        self.data = data
        self.seed = seed

    def missing(self) -> list[str]:
        """Return the folders that are not there."""
        return [folder for folder in self.folders if not (self.data / folder).is_dir()]

    def cases(self) -> list[Case]:
        """Return all cases that the data folder allows, always in the same order."""
        if self.needs_data and len(self.missing()) == len(self.folders):
            needed = ' or '.join(self.folders)
            raise DataMissing(
                f'{self.name} needs {needed}: there is no such folder in {self.data}'
            )
        found = list(self.find_cases())
        if not found:
            raise DataMissing(
                f'{self.name} found no pair in {", ".join(self.folders)} of {self.data}: '
                'the README says what belongs there'
            )
        return found

    @abstractmethod
    def find_cases(self) -> Iterable[Case]:
        """Return the cases of those folders that are there."""

    @abstractmethod
    def measure(self, case: Any, method: Method, workbench: Workbench) -> Record:
        """Try a method on a case."""

    @abstractmethod
    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the metrics; each record has the group of its case. Called a thousand times."""

    @abstractmethod
    def quality(self, record: Record) -> float:
        """Return how well a case went; larger is better. To show the best and the worst."""

    @abstractmethod
    def picture(self, case: Any, method: Method, workbench: Workbench) -> np.ndarray:
        """Draw what a method makes of a case, for people to look at."""

    def variant(self) -> str:
        """Return what, beside the seed, changes the cases of the same name; most have nothing."""
        return ''

    def usable(self, method: Method) -> None:
        """Refuse a method that the benchmark has no meaning for, with UserError."""
        del method


def of_group(records: Sequence[Record], group: str) -> list[Record]:
    """Return the records of one group."""
    return [record for record in records if record['group'] == group]


def share(flags: Iterable[bool]) -> float:
    """Return the share that is true; NaN of nothing."""
    values = list(flags)
    return sum(values) / len(values) if values else float('nan')
