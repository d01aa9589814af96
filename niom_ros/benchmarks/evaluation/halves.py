"""Which pictures confidences are fitted on, and which only show how well they work.

A picture is always in the same half, in whatever pairs and groups it occurs. Pairs of two pictures
from different halves are in neither.
"""

from collections.abc import Iterable
from functools import cache
import hashlib

from niom_ros.benchmarks.evaluation.benchmark import Record

# Of a hash. With this byte both halves get pairs of every group; with others, almost all of the
# few flat scenes are in one half, or all of the faces.
SPLIT_BYTE = 2


@cache
def in_first_half(place: str) -> bool:
    """Return whether a picture is in the half that confidences are fitted on.

    It depends only on the picture, whatever the seed.
    """
    return hashlib.sha256(place.encode()).digest()[SPLIT_BYTE] < 128


def halves(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records of which all pictures are in the first half, and in the second."""
    first: list[Record] = []
    second: list[Record] = []
    for record in records:
        sides = {in_first_half(place) for place in record['places']}
        if len(sides) == 1:
            (first if True in sides else second).append(record)
    return first, second
