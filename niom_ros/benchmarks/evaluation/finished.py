"""A finished benchmark, and how its numbers are written for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.glossary import main_metrics, Meaning, meaning
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.results import Metrics

MINUS = '\u2212'


@dataclass(frozen=True)
class Finished:
    """A benchmark whose cases were all measured."""

    benchmark: Benchmark
    cases: Sequence[Case]
    methods: Sequence[Method]
    records: Mapping[str, Sequence[Record]]  # of each method, in the order of the cases
    result: dict[str, Any]  # as results.as_json makes it

    @property
    def name(self) -> str:
        """Return the name of the benchmark."""
        return self.benchmark.name

    @property
    def metrics(self) -> dict[str, Metrics]:
        """Return the metrics of each method."""
        methods: dict[str, Metrics] = self.result['methods']
        return methods

    def metric_names(self) -> list[str]:
        """Return the metrics that any method has."""
        names = dict.fromkeys(name for metrics in self.metrics.values() for name in metrics)
        return [name for name in names if not name.endswith('_ci')]

    def main_metrics(self) -> list[str]:
        """Return the metrics to show first."""
        return main_metrics(self.name, self.metric_names(), self.benchmark.main_metric)

    def meaning(self, metric: str) -> Meaning:
        """Return what a metric means."""
        return meaning(self.name, metric)


def number(value: Any) -> float | None:
    """Return a value of a result as a number; None: not measured."""
    return float(value) if is_number(value) and math.isfinite(value) else None


def is_number(value: Any) -> bool:
    """Return whether a value is a number; bool does not count as one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def interval_of(metrics: Metrics, name: str) -> tuple[float, float] | None:
    """Return the interval of a metric, None if it has none."""
    span = metrics.get(f'{name}_ci')
    if not isinstance(span, Iterable) or any(end is None or math.isnan(end) for end in span):
        return None
    low, high = span
    return float(low), float(high)


def written(value: float, signed: bool = False) -> str:
    """Write a number with three digits after the point."""
    if math.isinf(value):
        return '∞' if value > 0 else f'{MINUS}∞'
    text = f'{value:+.3f}' if signed else f'{value:.3f}'
    if float(text) == 0:
        text = '0.000'
    return text.replace('-', MINUS)


def short(value: float, unit: str = '') -> str:
    """Write a number for use in a sentence."""
    if not math.isfinite(value):
        return 'infinite' if value == math.inf else 'not measured'
    if isinstance(value, int):
        return f'{value}{unit}'
    return f'{value:.3g}{unit}' if abs(value) < 1000 else f'{value:.0f}{unit}'
