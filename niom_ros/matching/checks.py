"""The numbers that tell a right view of a reference from a wrong one."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Checks:
    """What was measured of a view; a strategy may add numbers of its own in a subclass.

    The names of the fields are those that are published and that calibrations refer to.
    """

    agreeing: float  # points that agree with the view
    inlier_ratio: float  # their share of all points
    coverage: float  # share of the reference that they span
    area_ratio: float  # of the outline in the image to the image
    corner_deviation: float  # pixels of the image, mean of the four corners
    stretch: float  # how much longer one direction becomes than another
    perspective: float  # how much larger one corner appears than another

    def implausibility(self) -> str:
        """Say why the numbers that a subclass adds cannot be those of a right view; '': they can.

        What holds for every view is in geometry.py.
        """
        return ''

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by their names, in a fixed order."""
        return asdict(self)


def as_dict(checks: Checks | None) -> dict[str, float]:
    """Return the numbers by their names; none if nothing was measured."""
    return {} if checks is None else checks.as_dict()
