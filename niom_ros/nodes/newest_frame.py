"""Hand the newest frame from a subscription to a worker thread."""

from threading import Condition
from typing import Generic
from typing import TypeVar

Frame = TypeVar('Frame')


class NewestFrame(Generic[Frame]):
    """A place for one frame: a newer one replaces it, the worker takes it."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._changed = Condition()
        self._closed = False
        self._received = 0
        self._dropped = 0

    def put(self, frame: Frame) -> None:
        """Offer a frame; one that still waits is dropped and counted."""
        with self._changed:
            self._received += 1
            self._dropped += self._frame is not None
            self._frame = frame
            self._changed.notify()

    def take(self) -> Frame | None:
        """Wait for a frame and return it, or None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._frame is not None)
            if self._closed:
                return None
            frame, self._frame = self._frame, None
            return frame

    def close(self) -> None:
        """Let the worker end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many frames were received and how many of them dropped."""
        with self._changed:
            return self._received, self._dropped
