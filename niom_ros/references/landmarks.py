"""Named points of a reference."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Landmark:
    """A point of the reference that has a name, in pixels of the reference."""

    name: str
    x: float
    y: float
