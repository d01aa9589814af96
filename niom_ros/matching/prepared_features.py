"""Features of a reference as the keypoint matcher prepared them, kept from image to image."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from niom_ros.matching.keypoint_matcher import PreparedFeatures

KEPT = 4  # weightings of one reference: none, and those of recent pairings; 1 MB each


class PreparedFeaturesCache:
    """The prepared features of one reference, for each recently used weighting."""

    def __init__(self) -> None:
        """Start empty."""
        self._kept: OrderedDict[Hashable, PreparedFeatures] = OrderedDict()
        self._lock = Lock()

    def get(
        self, weighting: Hashable, prepare: Callable[[], PreparedFeatures]
    ) -> PreparedFeatures:
        """Return the features for a weighting, prepared on first use."""
        with self._lock:
            if weighting not in self._kept:
                self._kept[weighting] = prepare()
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(weighting)
            return self._kept[weighting]
