"""A reference that was prepared once, matched in full with one frame after the other."""

from niom_ros.benchmarks.speed.views import Attempt
from niom_ros.core.settings import Options, Weighting
from niom_ros.matching.looks import Clue, Look
from niom_ros.matching.pipeline import Pipeline
from niom_ros.matching.reference import Reference
from niom_ros.simulation.virtual_scene import View


class FullMatches:
    """Finds a reference in frames by full matches alone: nothing is tracked."""

    def __init__(self, pipeline: Pipeline, reference: Reference, weighting: str) -> None:
        """Take the reference and a kind of weighting."""
        self._pipeline = pipeline
        self._reference = reference
        self._options = Options(weighting=Weighting(kind=weighting))
        self.last: Attempt | None = None

    def find(self, view: View) -> Attempt:
        """Find the reference in a frame."""
        return self._find(view, None)

    def find_near(self, view: View) -> Attempt:
        """Find it in a frame in which it was followed to where it truly is."""
        way = self._options.weighting.kind
        return self._find(view, Clue(self._reference, way, view.picture_to_image, followed=True))

    def _find(self, view: View, clue: Clue | None) -> Attempt:
        look = Look(view.image)
        (outcome,) = self._pipeline.match_all([self._reference], look, self._options, clue)
        self.last = Attempt(outcome, look.seconds, look)
        return self.last
