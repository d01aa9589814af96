"""The result of a benchmark: metrics with intervals, and differences between methods."""

from collections.abc import Sequence
from itertools import combinations
import math
from typing import Any

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Record
from niom_ros.benchmarks.evaluation.intervals import bootstrap, interval, paired_difference

Metrics = dict[str, float | list[float] | None]
"""Each metric, and as NAME_ci its 95 % interval."""


def metrics_of(
    benchmark: Benchmark, records: dict[str, Sequence[Record]]
) -> tuple[dict[str, Metrics], dict[str, Metrics]]:
    """Return the metrics of each method, and by how much each method is better than another.

    The difference of A and B, named 'A - B', is taken within each resample, so that what makes
    pairs hard or easy for both does not blur it.
    """
    samples: dict[str, dict[str, np.ndarray]] = {}
    values: dict[str, dict[str, float]] = {}
    for method, of_method in records.items():
        units = [record['unit'] for record in of_method]
        values[method] = benchmark.summarise(of_method)
        strata = [record['group'] for record in of_method] if benchmark.stratified else None
        samples[method] = bootstrap(
            of_method, units, benchmark.summarise, benchmark.seed, strata=strata
        )
    metrics = {
        method: with_intervals(
            values[method], {name: interval(drawn) for name, drawn in samples[method].items()}
        )
        for method in records
    }
    differences = {
        f'{one} - {other}': with_intervals(
            {name: values[one][name] - values[other][name] for name in values[one]},
            paired_difference(samples[one], samples[other]),
        )
        for other, one in combinations(records, 2)
    }
    return metrics, differences


def with_intervals(values: dict[str, float], intervals: dict[str, list[float]]) -> Metrics:
    """Return metrics that JSON can hold, which has no NaN."""
    result: Metrics = {}
    for name, value in values.items():
        result[name] = finite(value)
        span = intervals[name]
        result[f'{name}_ci'] = span if all(map(math.isfinite, span)) else None
    return result


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for any other."""
    return float(value) if math.isfinite(value) else None


def as_json(
    benchmark: Benchmark,
    pairs: int,
    records: dict[str, Sequence[Record]],
    versions: dict[str, str],
    data: str,
) -> dict[str, Any]:
    """Return the result of a benchmark in a form that JSON can hold."""
    metrics, differences = metrics_of(benchmark, records)
    return {
        'benchmark': benchmark.name,
        'data': data,
        'seed': benchmark.seed,
        'versions': versions,
        'methods': metrics,
        'differences': differences,
        'pairs': pairs,
        'missing': benchmark.missing(),
    }
