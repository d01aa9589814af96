"""How long each stage of a match takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
import time


class StageTimes:
    """Sums up the seconds of each stage, in the order in which stages first began."""

    def __init__(self) -> None:
        """Start with no stages."""
        self._seconds: dict[str, float] = {}
        self._lock = Lock()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the duration of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            with self._lock:
                self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def expect(self, *stages: str) -> None:
        """Fix the order of stages that are about to run in parallel."""
        with self._lock:
            for stage in stages:
                self._seconds.setdefault(stage, 0.0)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage so far, summed over all attempts."""
        with self._lock:
            return dict(self._seconds)
