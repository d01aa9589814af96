"""Several places of references in one image: one after another, what was found being hidden."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from niom_ros.matching.match import Match
from niom_ros.matching.partly_hidden import covers_any, hiding, outline_of
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import FindsCopies, Search, Strategy


class Places:
    """The places that were found in an image; no two of them are the same."""

    def __init__(self, references: Sequence[PreparedReference], most: int) -> None:
        """Start empty; keep at most this many."""
        self.found: list[tuple[int, Match]] = []  # index of the reference, and where it is
        self._outlines: list[np.ndarray] = []
        self._references = references
        self._most = most

    @property
    def room(self) -> int:
        """Return how many more fit."""
        return self._most - len(self.found)

    @property
    def matches(self) -> list[Match]:
        """Return the matches without their references."""
        return [match for _, match in self.found]

    def add(self, index: int, match: Match) -> bool:
        """Add a place, unless it is taken; return whether it was added."""
        outline = outline_of(match, self._references[index].box)
        if outline is None or not self.room or covers_any(outline, self._outlines):
            return False
        self.found.append((index, match))
        self._outlines.append(outline)
        return True


def find_copies(strategy: Strategy, search: Search, index: int, places: Places) -> None:
    """Add further places of a reference, which is that of the search, until there are no more.

    This takes at most one search for each place that has room, the last of which fails.
    """
    while places.room:
        hidden = replace(search, image=hiding(search.image, places.matches))
        if isinstance(strategy, FindsCopies):
            copies, again = strategy.find_copies(hidden, places.room), False
        else:
            copy, again = strategy.find(hidden), True
            copies = [] if copy is None else [copy]
        added = [places.add(index, replace(each, approach=search.approach)) for each in copies]
        if not (again and any(added)):
            break
