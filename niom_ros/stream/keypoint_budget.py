"""How many keypoints a full match may have so that its answer comes in time."""

import math

FEWEST = 128  # keypoints: with fewer hardly anything is found
STEP = 64  # keypoints: each number of them has its own preparations of the reference
ROOM = 0.85  # of the time: above it the number stays as it is
LARGEST_CUT, LARGEST_RISE = 0.6, 1.2  # from one match to the next


class KeypointBudget:
    """Learns from each full match how many keypoints the next may have.

    A match takes a fixed time and one that grows with its keypoints, the more the more there are;
    both depend on the machine and on what else it does. So the number is not computed but
    corrected, quickly down and slowly up.
    """

    def __init__(self, most: int) -> None:
        """Begin with all keypoints."""
        self._most = most
        self._fewest = min(FEWEST, most)
        self._wanted = float(most)
        self.too_slow = ''  # why the time cannot be kept, if it cannot

    def keypoints(self, max_latency: float) -> int | None:
        """Return how many to take next; None: as many as there are. 0 seconds: no limit."""
        if not max_latency:
            self._wanted, self.too_slow = float(self._most), ''
        if self._wanted >= self._most:
            return None
        return max(self._fewest, int(self._wanted) // STEP * STEP)

    def took(self, seconds: float, max_latency: float) -> None:
        """Note how long the answer to a match took that had as many as `keypoints` said."""
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
            self._wanted = max(self._fewest, taken * max(LARGEST_CUT, max_latency / seconds))
        elif seconds < ROOM * max_latency:
            # As if all of the time grew with the square of the number: it grows less than that.
            rise = min(LARGEST_RISE, math.sqrt(max_latency / max(seconds, 1e-3)))
            self._wanted = min(float(self._most), self._wanted * rise)
