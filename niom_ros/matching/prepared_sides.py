"""What a matcher makes of a reference, kept from image to image."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from niom_ros.matching.matches import Side

KEPT = 4  # weightings of one reference: not weighted, and the pairings of late; 1 MB each


class PreparedSides:
    """The sides that were prepared of one reference, one for each of its late weightings."""

    def __init__(self) -> None:
        """Begin with none."""
        self._sides: OrderedDict[Hashable, Side] = OrderedDict()
        self._lock = Lock()

    def once(self, weighting: Hashable, prepare: Callable[[], Side]) -> Side:
        """Return the side for a weighting, prepared when somebody first asks for it."""
        with self._lock:
            if weighting not in self._sides:
                self._sides[weighting] = prepare()
                if len(self._sides) > KEPT:
                    self._sides.popitem(last=False)
            self._sides.move_to_end(weighting)
            return self._sides[weighting]
