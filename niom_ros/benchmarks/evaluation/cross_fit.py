"""Fitting on few pictures: each pair is judged by a fit on pairs that share no picture with it.

Halves would waste what there is little of.
"""

from collections.abc import Callable, Iterator, Sequence

from niom_ros.benchmarks.evaluation.benchmark import Record
from niom_ros.core.errors import UserError
from niom_ros.matching.confidence import Calibration


def cross_fitted(
    records: Sequence[Record], fit: Callable[[Sequence[Record]], Calibration]
) -> Iterator[tuple[Calibration, list[Record]]]:
    """Return the records of each two pictures, with a calibration that has not seen either.

    Records that leave nothing to fit on are left out.
    """
    between: dict[frozenset[str], list[Record]] = {}
    for record in records:
        between.setdefault(frozenset(record['places']), []).append(record)
    for pictures, own in between.items():
        others = [one for other, rest in between.items() if not other & pictures for one in rest]
        try:
            calibration = fit(others)
        except UserError:
            continue
        yield calibration, own
