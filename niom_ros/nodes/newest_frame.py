"""Hand the newest frame from a subscription to a worker thread."""

import math
from threading import Condition
import time
from typing import Generic, TypeVar

Frame = TypeVar('Frame')


class NewestFrame(Generic[Frame]):
    """Holds one frame: a newer one replaces it, the worker takes it."""

    def __init__(self) -> None:
        self._frame: Frame | None = None  # waiting for the worker
        self._last: Frame | None = None  # whether taken or not
        self._arrived = -math.inf
        self._changed = Condition()
        self._closed = False
        self._received = 0
        self._dropped = 0

    def put(self, frame: Frame) -> None:
        """Offer a frame; one that is still waiting is dropped and counted."""
        with self._changed:
            self._received += 1
            self._dropped += self._frame is not None
            self._frame = self._last = frame
            self._arrived = time.monotonic()
            self._changed.notify()

    def take(self) -> Frame | None:
        """Wait for a frame and return it, or None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._frame is not None)
            if self._closed:
                return None
            frame, self._frame = self._frame, None
            return frame

    def newest(self, oldest: float) -> Frame | None:
        """Return the last frame, unless it arrived more than `oldest` seconds ago."""
        with self._changed:
            return self._last if time.monotonic() - self._arrived <= oldest else None

    def close(self) -> None:
        """Let the worker end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Return whether the worker should end."""
        return self._closed

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many frames were received, and how many of these were dropped."""
        with self._changed:
            return self._received, self._dropped
