"""All references that the matcher knows, and which one is selected."""

from collections.abc import Iterator
from contextlib import contextmanager
import math
from threading import Lock, RLock

from niom_ros.core.errors import UserError
from niom_ros.core.listing import listed
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import BadReference, Reference
from niom_ros.references.folder import FolderError, ReferenceFolder
from niom_ros.references.known_reference import KnownReference

# Each holds its picture and its features in memory.
MAX_REFERENCES = 200
MAX_TOTAL_PIXELS = 500_000_000  # in total


class UnknownReference(UserError):
    """There is no reference of this name; the message says which there are."""


class ReferenceLibrary:
    """The references by name. Safe to use from several threads.

    A change is written to disk first; if that fails, nothing changes.
    """

    def __init__(self, folder: ReferenceFolder | None = None, revision: int = 0) -> None:
        """Start empty; with a folder, every change is written to it as well."""
        self._folder = folder
        self._known: dict[str, KnownReference] = {}
        self._selected = ''
        self._revision = revision  # of the last reference
        self._changing = Lock()  # held while writing to disk
        self._lock = RLock()  # held only briefly: every camera frame needs it

    def add(self, reference: PreparedReference, file: str = '') -> KnownReference:
        """Add a reference that is already on disk, or is not to be kept there."""
        with self._changing:
            self._check_room(reference.given)
            return self._add(reference, file)

    def put(self, reference: PreparedReference, select: bool = True) -> tuple[KnownReference, str]:
        """Keep a reference, replacing an earlier one of the same name.

        Returns it, and a problem that did not prevent this, or ''.
        """
        given = reference.given
        with self._changing:
            self._check_room(given)
            file, problem = '', ''
            if self._folder is not None:
                file = str(self._folder.write(given))
                if select:
                    try:
                        self._folder.write_selected(given.id)
                    except FolderError as error:
                        problem = f'after a restart it will not be selected: {error}'
            return self._add(reference, file, select), problem

    def choose(self, name: str) -> None:
        """Select this reference without writing that to disk."""
        with self._lock:
            self._selected = self._known_as(name).id

    def select(self, name: str) -> KnownReference:
        """Select this reference."""
        with self._changing:
            known = self._known_as(name)
            if self._folder is not None:
                self._folder.write_selected(name)
            with self._lock:
                self._selected = name
            return known

    def remove(self, name: str) -> KnownReference:
        """Forget a reference; if it was selected, none is afterwards."""
        with self._changing:
            known = self._known_as(name)
            if self._folder is not None:
                self._folder.remove(name)
            with self._lock:
                del self._known[name]
                if self._selected == name:
                    self._selected = ''
            return known

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Block additions, selections and removals until the end of the block."""
        with self._lock:
            yield

    @property
    def selected(self) -> KnownReference | None:
        """Return the reference that is looked for."""
        with self._lock:
            return self._known.get(self._selected)

    def all(self) -> tuple[KnownReference, ...]:
        """Return all references, sorted by name."""
        with self._lock:
            return tuple(self._known[name] for name in sorted(self._known))

    @property
    def revision(self) -> int:
        """Return the revision of the last reference that was set."""
        return self._revision

    def why_no_target(self) -> str:
        """Say why there is nothing to look for, and what to do about it."""
        names = [known.id for known in self.all()]
        if not names:
            return 'nothing to look for: call ~/set_reference'
        return f'none is selected of {in_quotes(names)}: call ~/select_reference'

    def _check_room(self, given: Reference) -> None:
        others = [known.given for known in self.all() if known.id != given.id]
        if len(others) >= MAX_REFERENCES:
            raise BadReference(f'{MAX_REFERENCES} references are known already: remove one first')
        pixels = sum(math.prod(each.size) for each in (given, *others))
        if pixels > MAX_TOTAL_PIXELS:
            raise BadReference(
                f'all references together would have {pixels / 1e6:.0f} million pixels, more than '
                f'the limit of {MAX_TOTAL_PIXELS // 10**6} million: '
                'scale it down, or remove another'
            )

    def _add(
        self, reference: PreparedReference, file: str, select: bool = False
    ) -> KnownReference:
        with self._lock:
            self._revision += 1
            known = KnownReference(reference, self._revision, file)
            self._known[known.id] = known
            if select:
                self._selected = known.id
            return known

    def _known_as(self, name: str) -> KnownReference:
        if name not in self._known:
            names = in_quotes(sorted(self._known)) or 'none yet, call ~/set_reference'
            raise UnknownReference(f"there is no reference '{name[:80]}'; known: {names}")
        return self._known[name]


def in_quotes(names: list[str]) -> str:
    """Return the first names in one line."""
    return listed([f"'{name}'" for name in names])
