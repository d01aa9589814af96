"""A reference as the matcher keeps it."""

from dataclasses import dataclass

from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference


@dataclass(frozen=True)
class KnownReference:
    """A prepared reference that can be distinguished from all others, even of the same name."""

    prepared: PreparedReference
    revision: int  # increases with every reference that is set
    file: str = ''  # where it is on disk; '': nowhere

    @property
    def given(self) -> Reference:
        """Return the picture and its description, as the user gave them."""
        return self.prepared.given

    @property
    def id(self) -> str:
        """Return the name that the user chose."""
        return self.prepared.given.id
