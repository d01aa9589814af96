"""How many keypoints a full match may use to stay within max_latency."""

from dataclasses import dataclass
import math


@dataclass(frozen=True)
class BudgetParameters:
    """How the number of keypoints is adapted."""

    min_keypoints: int = 128  # with fewer, hardly anything is found
    step: int = 64  # keypoints; the reference is prepared separately for each number of them
    target: float = 0.85  # share of max_latency; between this and 1, the number stays as it is
    max_cut: float = 0.6  # factor from one match to the next
    max_rise: float = 1.2


DEFAULTS = BudgetParameters()


class KeypointBudget:
    """Learns from each full match how many keypoints the next may use.

    A match takes a fixed time plus one that grows faster than linearly with the keypoints; both
    depend on the machine and its load. So the number is adapted, quickly down and slowly up.
    """

    def __init__(self, most: int, parameters: BudgetParameters = DEFAULTS) -> None:
        """Start with all keypoints."""
        self._parameters = parameters
        self._most = most
        self._fewest = min(parameters.min_keypoints, most)
        self._wanted = float(most)
        self.too_slow = ''  # why max_latency cannot be kept, '' if it can

    def keypoints(self, max_latency: float) -> int | None:
        """Return how many to use next; None: all. A latency of 0 means no limit."""
        if not max_latency or self._wanted >= self._most:
            return None
        step = self._parameters.step
        return max(self._fewest, int(self._wanted) // step * step)

    def took(self, seconds: float, max_latency: float) -> None:
        """Adapt to how long a match with as many keypoints as `keypoints` returned took."""
        if not max_latency:
            self._wanted, self.too_slow = float(self._most), ''
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
            # A cautious estimate: the time grows more slowly than with the square of the number.
            rise = min(self._parameters.max_rise, math.sqrt(max_latency / max(seconds, 1e-3)))
            self._wanted = min(float(self._most), self._wanted * rise)
