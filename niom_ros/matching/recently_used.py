"""A cache that drops the values that were not used for longest."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

Value = TypeVar('Value')


class RecentlyUsed(Generic[Value]):
    """Some values by key, each computed on first use. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """Start empty; keep at most this many."""
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = RLock()  # computing a value may need another one

    def make_room(self, most: int) -> None:
        """Keep at least this many from now on."""
        with self._lock:
            self._most = max(self._most, most)

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, computed on first use."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = compute()
                if len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]
