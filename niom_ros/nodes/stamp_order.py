"""Which frames are new, told by their time stamps."""

CLOCK_RESET = 1_000_000_000  # nanoseconds backwards, from which it is the clock and not the frame


class StampOrder:
    """Lets each frame pass once and none that is older than one before it.

    A jump far back is a bag that starts again or a clock that was set: frames count anew from
    there. Drivers that do not stamp their images send 0, which says nothing.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.duplicates = 0
        self.late = 0
        self.resets = 0
        self.unstamped = 0

    def accept(self, stamp: int) -> bool:
        """Tell whether a frame with this stamp, in nanoseconds, is new."""
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
