"""The numbers that tell a right view of a reference from a wrong one."""

from dataclasses import asdict, dataclass
import math


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Measurements of a view; a strategy may add its own in a subclass.

    The field names are published, and calibrations refer to them.
    """

    agreeing: float  # points that agree with the view
    inlier_ratio: float  # their share of all points
    coverage: float  # share of the visible part of the reference that they span
    area_ratio: float  # area of the outline in the image by that of the image
    corner_deviation: float  # image pixels, mean of the four corners
    stretch: float  # how much more one direction is stretched than another
    perspective: float  # how much larger one corner appears than another
    # Share of the points on the object that lie on one plane; NaN: not measured
    flatness: float = math.nan
    # Pixels, mean over what is visible of the reference; NaN: not measured
    visible_deviation: float = math.nan

    def implausibility(self) -> str:
        """Say why the measurements of a subclass rule this view out; '': they do not.

        The checks for every view are in geometry.py.
        """
        return ''

    def as_dict(self) -> dict[str, float]:
        """Return the measurements by name, in a fixed order."""
        return asdict(self)


def as_dict(checks: Checks | None) -> dict[str, float]:
    """Return the measurements by name; empty if nothing was measured."""
    return {} if checks is None else checks.as_dict()
