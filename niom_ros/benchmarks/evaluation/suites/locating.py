"""What benchmarks share that look for a reference in an image and compare homographies."""

from abc import abstractmethod
from typing import Any

import numpy as np

from niom_ros.benchmarks.evaluation.answers import answer_record, error_or_infinity
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.pictures import draw_answer


class LocatingBenchmark(Benchmark):
    """Measures how exactly a reference is located in an image."""

    @abstractmethod
    def pictures(self, case: Any) -> tuple[Picture, Picture, np.ndarray | None]:
        """Return the reference, the image and the true homography, if there is one."""

    def measure(self, case: Any, method: Method, runner: MethodRunner) -> Record:
        """Compare the found homography with the true one, if there is one."""
        reference, image, truth = self.pictures(case)
        return answer_record(runner.match(method, reference, image), reference, truth)

    def quality(self, record: Record) -> float:
        """Rank smaller errors better."""
        return -error_or_infinity(record)

    def picture(self, case: Any, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the matches and both outlines."""
        return draw_answer(method, runner, *self.pictures(case))
