"""What a strategy is: the interface between the matcher and each way to find a reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from niom_ros.core.settings import Options, Sought, WeightingKind
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Approach, Match, NOT_TRIED
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.models.plugins import Plugin
from niom_ros.models.store import ModelStore


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a strategy gets: a reference to find in an image."""

    reference: PreparedReference
    image: ImageAnalysis
    options: Options
    approach: Approach  # this strategy, and the kind of weighting to try
    prior: Prior | None = None  # of this reference, however it was found
    earlier: Match = NOT_TRIED  # the best of the earlier approaches, all of which failed
    only_reference: bool = True  # whether no other reference is searched in this image
    expected: tuple[np.ndarray, ...] = ()  # views (3 x 3) of copies that were tracked here

    @property
    def own_prior(self) -> Prior | None:
        """Return the prior if this approach found it."""
        if self.prior is None or self.prior.approach != self.approach:
            return None
        return self.prior


@runtime_checkable
class Strategy(Protocol):
    """A way to find references. Loaded once, with the networks; used from several threads.

    Strategies are tried in the order of their ranks until one finds a reference. In a stream, the
    approach that succeeded in the last image goes first.
    """

    name: ClassVar[str]  # its registered name
    rank: ClassVar[int]  # classical 50, points 100, turned 150, ink 200, ...: lower go first
    seeks: ClassVar[Sought]  # the object of the reference, or also others of its kind
    # Whether its time depends on the number of keypoints: only then does max_latency count it.
    by_keypoints: ClassVar[bool]

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Return the kinds of weighting to try in turn; empty: the strategy does not apply.

        A strategy without weights returns ('none',).
        """

    def find(self, search: Search) -> Match | None:
        """Look for the reference; None: this strategy cannot tell for this image."""

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether its match is reported instead of that of an earlier approach.

        If not, only the objects that it detected, paired or found alike are added to that.
        """


@runtime_checkable
class LoadsLater(Protocol):
    """A strategy with networks that are loaded when something is looked for that needs them."""

    def load_networks(self) -> None:
        """Load the networks, unless they are loaded already."""


@runtime_checkable
class FindsCopies(Protocol):
    """A strategy that finds several copies of a reference at once.

    Any other one is asked again, with what was found before hidden.
    """

    def find_copies(self, search: Search, most: int) -> list[Match]:
        """Return at most this many matches, each at a place of its own, in what is free."""


@dataclass(frozen=True, kw_only=True)
class StrategyPlugin(Plugin[Strategy]):
    """Loads a strategy, from the networks and a model store with its models."""

    makes: ClassVar[Any] = Strategy

    load: Callable[[Perception, ModelStore], Strategy]


def agrees_at_least_as_well(earlier: Match, later: Match) -> bool:
    """Return whether a match has as much agreement as an earlier one: the usual rule."""
    return later.agreement >= earlier.agreement


class WithoutWeights:
    """The base of strategies that need no weights: they only say what they apply to."""

    by_keypoints: ClassVar[bool] = False

    def applies_to(self, reference: PreparedReference, options: Options) -> bool:
        """Return whether this strategy can find the reference."""
        raise NotImplementedError

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Return 'none' if the strategy applies."""
        return ('none',) if self.applies_to(reference, options) else ()
