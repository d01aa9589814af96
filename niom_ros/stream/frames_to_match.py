"""Which frames of a stream should be matched in full, and what is known about them by then."""

from dataclasses import dataclass
import math
from threading import Lock

from niom_ros.tracking.track import Tracked

MAX_WAITING = 1000  # frames, if nobody matches any


@dataclass(frozen=True)
class Waiting:
    """What is known about a frame that waits to be matched in full."""

    begun: float  # when work on it began, in seconds of the clock
    tracked: Tracked | None  # where its reference was tracked to
    start: int  # how often the stamps had gone back before it


class FramesToMatch:
    """Decides which frames to match in full, and keeps what is known about these.

    One thread passes every frame to `consider`; another one takes those that it matches.
    """

    def __init__(self) -> None:
        """Start without any frame."""
        self._lock = Lock()
        self._waiting: dict[float, Waiting] = {}  # by stamp, the newest last
        self._newest_is_due = False
        self._last_due = -math.inf  # stamp of the last frame that should be matched
        self._starts = 0  # how often the stamps went back

    @property
    def newest_is_due(self) -> bool:
        """Return whether the last frame should be matched."""
        with self._lock:
            return self._newest_is_due

    def pass_over(self) -> None:
        """Take the newest frame as one that need not be matched."""
        with self._lock:
            self._newest_is_due = False

    def consider(
        self, stamp: float, tracked: Tracked | None, *, begun: float, interval: float
    ) -> None:
        """Decide about the next frame: it is due if it was not tracked, or once in an interval."""
        with self._lock:
            located = tracked is not None and tracked.located
            self._newest_is_due = not located or stamp - self._last_due >= interval
            if not self._newest_is_due:
                return
            self._last_due = stamp
            self._waiting[stamp] = Waiting(begun, tracked, self._starts)
            for old in list(self._waiting)[:-MAX_WAITING]:
                del self._waiting[old]

    def take(self, stamp: float, now: float) -> Waiting:
        """Return what is known about a frame that is matched now; older ones never will be."""
        with self._lock:
            waiting = self._waiting.pop(stamp, None) or Waiting(now, None, self._starts)
            for older in [each for each in self._waiting if each < stamp]:
                del self._waiting[older]
            return waiting

    def start_over(self) -> None:
        """Forget all frames, because the stamps went back in time."""
        with self._lock:
            self._starts += 1  # a match under way belongs to the earlier frames
            self._last_due = -math.inf
            self._waiting.clear()

    def is_current(self, waiting: Waiting) -> bool:
        """Return whether the stamps have not gone back since a frame was considered."""
        with self._lock:
            return waiting.start == self._starts
