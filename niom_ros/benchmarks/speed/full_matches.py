"""A reference that is prepared once, and matched in full with one frame after another."""

from niom_ros.benchmarks.speed.views import Attempt
from niom_ros.core.settings import Options, Weighting, WeightingKind
from niom_ros.matching.match import Approach
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.matching.strategies.points import Points
from niom_ros.simulation.virtual_scene import View


class FullMatches:
    """Finds a reference in frames by full matches alone: nothing is tracked."""

    def __init__(
        self, matcher: Matcher, reference: PreparedReference, weighting: WeightingKind
    ) -> None:
        """Store the reference and the kind of weighting."""
        self._matcher = matcher
        self._reference = reference
        self._options = Options(weighting=Weighting(kind=weighting), keypoint_search='networks')
        self.last: Attempt | None = None

    def find(self, view: View) -> Attempt:
        """Find the reference in a frame."""
        return self._find(view, None)

    def find_near(self, view: View) -> Attempt:
        """Find it in a frame as if it had been tracked to its true position."""
        approach = Approach(Points.name, self._options.weighting.kind)
        prior = Prior(self._reference, approach, view.picture_to_image, tracked=True)
        return self._find(view, prior)

    def _find(self, view: View, prior: Prior | None) -> Attempt:
        analysis = self._matcher.analyse(view.image)
        (match,) = self._matcher.match_all([self._reference], analysis, self._options, prior)
        self.last = Attempt(match, analysis.times.seconds(), analysis)
        return self.last
