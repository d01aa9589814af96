"""How many keypoints a full match may use so that its answer comes in time."""

from dataclasses import dataclass
import math


@dataclass(frozen=True)
class BudgetParameters:
    """How the number of keypoints is adapted."""

    min_keypoints: int = 128  # with fewer, hardly anything is found
    step: int = 64  # keypoints; the reference is prepared separately for each number of them
    target: float = 0.85  # of the time; between this and all of it the number stays as it is
    max_cut: float = 0.6  # factor from one match to the next
    max_rise: float = 1.2


DEFAULTS = BudgetParameters()


class KeypointBudget:
    """Learns from each full match how many keypoints the next may use.

    A match takes a fixed time plus one that grows faster than its number of keypoints; both depend
    on the machine and on its other load. So the number is not computed but corrected, quickly
    down and slowly up.
    """

    def __init__(self, most: int, parameters: BudgetParameters = DEFAULTS) -> None:
        """Begin with all keypoints."""
        self._parameters = parameters
        self._most = most
        self._fewest = min(parameters.min_keypoints, most)
        self._wanted = float(most)
        self.too_slow = ''  # why the time cannot be kept, if it cannot

    def keypoints(self, max_latency: float) -> int | None:
        """Return how many to use next; None: all. A latency of 0 means no limit."""
        if not max_latency:
            self._wanted, self.too_slow = float(self._most), ''
        if self._wanted >= self._most:
            return None
        step = self._parameters.step
        return max(self._fewest, int(self._wanted) // step * step)

    def took(self, seconds: float, max_latency: float) -> None:
        """Note how long a match took that used as many keypoints as `keypoints` returned."""
        if not max_latency:
            return
        taken = self.keypoints(max_latency) or self._most
        self.too_slow = ''
        if seconds > max_latency:
            if taken <= self._fewest:
                self.too_slow = (
                    f'a full match takes {seconds:.2f} s even with {taken} keypoints, and '
                    f'max_latency is {max_latency:g} s: raise it, or shrink max_image_side'
                )
            cut = max(self._parameters.max_cut, max_latency / seconds)
            self._wanted = max(self._fewest, taken * cut)
        elif seconds < self._parameters.target * max_latency:
            # As if the time grew with the square of the number: in fact it grows more slowly.
            rise = min(self._parameters.max_rise, math.sqrt(max_latency / max(seconds, 1e-3)))
            self._wanted = min(float(self._most), self._wanted * rise)
