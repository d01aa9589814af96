"""What a strategy is: the contract between the matcher and each way to find a reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from niom_ros.core.settings import Options
from niom_ros.matching.confidence import Calibration
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Approach, Match, NOT_TRIED
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.models.plugins import Plugin
from niom_ros.models.store import ModelStore


@dataclass(frozen=True)
class Search:
    """What a strategy is asked: to find a reference in an image."""

    reference: PreparedReference
    image: ImageAnalysis
    options: Options
    approach: Approach  # this strategy, and the kind of weighting that it shall try
    prior: Prior | None = None  # of this reference, however it was found
    earlier: Match = NOT_TRIED  # the best of the approaches before: none found it
    only_reference: bool = True  # whether no other one is sought in this image

    @property
    def own_prior(self) -> Prior | None:
        """Return the prior if it came of this very approach."""
        if self.prior is None or self.prior.approach != self.approach:
            return None
        return self.prior


@runtime_checkable
class Strategy(Protocol):
    """A way to find references. Made once, with the networks; used from several threads.

    Strategies are asked in the order of their ranks until one finds a reference. In a stream, the
    approach that found it in the last image has its turn first.
    """

    name: ClassVar[str]  # that it is registered under
    rank: ClassVar[int]  # points 100, ink 200, on_object 300: lower ones are asked earlier
    calibration: Calibration | None  # from checks to confidence; None: by `min_inliers` alone

    def weightings(self, reference: PreparedReference, options: Options) -> Sequence[str]:
        """Return the kinds of weighting to try, one after the other; none: it does not apply.

        A strategy that weights nothing returns ('none',).
        """

    def find(self, search: Search) -> Match | None:
        """Look for the reference; None: it has nothing to say about this image."""

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Tell whether its match is told instead of that of an earlier approach.

        If not, only the objects that it saw and paired are added to the earlier one.
        """


@dataclass(frozen=True, kw_only=True)
class StrategyPlugin(Plugin[Strategy]):
    """Loads a strategy, from the networks and a model store with its models."""

    makes: ClassVar[Any] = Strategy

    load: Callable[[Perception, ModelStore], Strategy]


def is_at_least_as_sure(earlier: Match, later: Match) -> bool:
    """Tell whether as much speaks for a match as for an earlier one: the usual rule."""
    return later.agreement >= earlier.agreement
