"""Which frames are new, judged by their time stamps."""

CLOCK_RESET = 1_000_000_000  # nanoseconds; a larger step back is a reset clock, not a late frame


class StampOrder:
    """Accepts each frame once, and none that is older than an earlier one.

    A jump far back means that a bag restarted or that the clock was set, so frames count as new
    from there on. Drivers that do not stamp their images send 0; those are all accepted.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.duplicates = 0
        self.late = 0
        self.resets = 0
        self.unstamped = 0

    def accept(self, stamp: int) -> bool:
        """Return whether a frame with this stamp, in nanoseconds, is new."""
        if stamp == 0:
            self.unstamped += 1
            return True
        if self._last is not None:
            if stamp == self._last:
                self.duplicates += 1
                return False
            if self._last - CLOCK_RESET < stamp < self._last:
                self.late += 1
                return False
            self.resets += stamp < self._last
        self._last = stamp
        return True
