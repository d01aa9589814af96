"""What all benchmarks have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.core.errors import UserError

Record = dict[str, Any]
"""What was measured on one case with one method: numbers and strings, ready for JSON."""


class NotMeasurable(UserError):
    """A benchmark that cannot be run here, while others can."""


class DataMissing(NotMeasurable):
    """A benchmark without data; the message says which folder it needs."""


@dataclass(frozen=True)
class Case:
    """One thing on which each method is tried."""

    name: str  # unique within the benchmark, and the same from run to run
    pair: str  # which pictures it is about; --limit counts these
    unit: str  # cases with the same unit are not independent: the bootstrap draws them together
    group: str  # cases that are summarised together, such as one corruption

    @property
    def places(self) -> tuple[str, ...]:
        """Return which pictures it shows; those of one scene count as one."""
        return (self.unit,)


class Benchmark(ABC):
    """Cases from a data folder, what is measured on each, and the metrics of all.

    It is sent to other processes, so it holds no pictures and no networks.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # one sentence for people
    # In the data folder; any may be missing, but not all if the benchmark needs data.
    folders: ClassVar[tuple[str, ...]]
    needs_data: ClassVar[bool] = True
    default_methods: ClassVar[tuple[str, ...]]
    main_metric: ClassVar[str]  # the one to look at first
    # Whether groups are separate data sets, each of which keeps its share in every resample.
    stratified: ClassVar[bool] = False
    # Whether results depend on which answers a method accepts, and so on its calibration.
    depends_on_acceptance: ClassVar[bool] = True

    def __init__(self, data: Path, seed: int) -> None:
        """Store the folder that contains the folders of the benchmark, and the seed."""
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
        """Return the cases of the folders that exist."""

    @abstractmethod
    def measure(self, case: Any, method: Method, runner: MethodRunner) -> Record:
        """Try a method on a case."""

    @abstractmethod
    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the metrics; each record has the group of its case. Called a thousand times."""

    @abstractmethod
    def quality(self, record: Record) -> float:
        """Return how well a case went (larger is better), to choose the best and the worst."""

    @abstractmethod
    def picture(self, case: Any, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the result of a method on a case."""

    def variant(self) -> str:
        """Return what else, besides the seed, changes cases of the same name; usually nothing."""
        return ''

    def usable(self, method: Method) -> None:
        """Raise UserError for a method that the benchmark cannot measure."""
        del method


def of_group(records: Sequence[Record], group: str) -> list[Record]:
    """Return the records of one group."""
    return [record for record in records if record['group'] == group]


def share(flags: Iterable[bool]) -> float:
    """Return the share that is true; NaN if there are none."""
    values = list(flags)
    return sum(values) / len(values) if values else float('nan')


def mean(values: Sequence[float]) -> float:
    """Return the average; NaN if there are no values."""
    return sum(values) / len(values) if values else float('nan')
