"""How long a full match may take, and whether the one under way is stuck."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import math
from threading import Lock


@dataclass(frozen=True)
class MatchDeadline:
    """How long a full match may take, on a slow machine, before it counts as stuck."""

    seconds: float = 120.0  # for each reference
    max_seconds: float = 600.0  # for all of them together

    def after(self, now: float, references: int) -> float:
        """Return the deadline of a full match that starts now."""
        return now + min(self.seconds * references, self.max_seconds)


class MatchTimer:
    """Tells how late the full match under way is. Safe to use from several threads."""

    def __init__(self, deadline: MatchDeadline, clock: Callable[[], float]) -> None:
        """Measure with this clock, in seconds."""
        self._deadline = deadline
        self._clock = clock
        self._due = math.inf  # no match is under way
        self._lock = Lock()

    @contextmanager
    def timed(self, references: int) -> Iterator[None]:
        """Take the block as a full match of this many references."""
        self._set(self._deadline.after(self._clock(), references))
        try:
            yield
        finally:
            self._set(math.inf)

    def seconds_late(self) -> float:
        """Return for how long the match under way should have ended; 0: it is in time."""
        with self._lock:
            return max(0.0, self._clock() - self._due)

    def _set(self, due: float) -> None:
        with self._lock:
            self._due = due
