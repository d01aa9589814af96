"""Which frame a track started from, by the name that the user of the stream gave to the frame."""

from threading import Lock
from typing import Any

MAX_TAGS = 8  # frames that were matched in full; a track starts from one of the last


class OriginTags:
    """The tags of the last frames in which a track may have started. Safe to use from threads."""

    def __init__(self) -> None:
        """Start without any."""
        self._tags: dict[float, Any] = {}  # by stamp, the newest last
        self._lock = Lock()

    def note(self, stamp: float, tag: Any) -> None:
        """Keep the tag of a frame, and drop the oldest if there are too many."""
        with self._lock:
            self._tags[stamp] = tag
            for old in list(self._tags)[:-MAX_TAGS]:
                del self._tags[old]

    def of(self, stamp: float) -> Any:
        """Return the tag of the frame with this stamp; None: it is not known any more."""
        with self._lock:
            return self._tags.get(stamp)

    def forget(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._tags.clear()
