"""Finding a drawing by its ink: its strokes are aligned with the edges of the image."""

from dataclasses import dataclass, replace
from typing import ClassVar

from niom_ros.core.settings import Options, Sought
from niom_ros.drawings.strokes import Strokes
from niom_ros.drawings.tracing import trace, trace_near, turned_share
from niom_ros.matching.features import MIN_SIDE
from niom_ros.matching.geometry import MAX_REFUSED_CONFIDENCE, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.ink_judgement import judged, searches_by_ink
from niom_ros.matching.strategies.strategy import (
    agrees_at_least_as_well,
    Search,
    StrategyPlugin,
    WithoutWeights,
)


@dataclass(frozen=True)
class InkSearchParameters:
    """What the edges of an image must be like."""

    narrowest: int = 64  # pixels of the edge map: in a narrow strip, something always fits
    # Of 36 right views of contour drawings, none has more than 0.61; a clock on another clock has
    # 0.96, and the wrong views that other checks refuse up to 0.8.
    most_if_turned: float = (
        0.75  # strength of the edges below the ink, of those in the view itself
    )


DEFAULTS = InkSearchParameters()


class Ink(WithoutWeights):
    """Aligns the strokes of a drawing with edges.

    Keypoints find a copy of the drawing; ink finds the object that it shows.
    """

    name: ClassVar[str] = 'ink'
    rank: ClassVar[int] = 200
    seeks: ClassVar[Sought] = 'same_object'

    def applies_to(self, reference: PreparedReference, options: Options) -> bool:
        """Return whether it is a drawing."""
        return searches_by_ink(reference, options)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether the later match is at least as confident."""
        return agrees_at_least_as_well(earlier, later)

    def find(self, search: Search) -> Match | None:
        """Find a drawing by aligning its ink with the edges of an image.

        First near its last position; everywhere if it is not found there, and now and then
        anyway, so that a wrong view does not persist.
        """
        reference, image, prior = search.reference, search.image, search.own_prior
        strokes = reference.strokes
        if strokes is None:
            return None
        edges, corners = image.edges, reference.box.corners()
        height, width = image.image.shape[:2]
        if min(height, width) < MIN_SIDE or min(edges.size) < DEFAULTS.narrowest:
            reason = f'the image is too small or narrow to find a drawing in ({width} x {height})'
            return replace(Match.without_matches(Status.NO_KEYPOINTS, reason), edges=edges)
        if prior is not None and prior.is_fresh:
            with image.times.timed('trace'):
                traced = trace_near(strokes, corners, edges, prior.reference_to_image)
            match = judged(search, strokes, traced)
            found = match.reference_to_image
            # A view far from the last one may be a local optimum.
            if found is not None and prior.is_close_to(found):
                return replace(match, locked=prior.locked + 1)
        with image.times.timed('trace'):
            traced = trace(strokes, corners, edges)
        return unless_turned(judged(search, strokes, traced), search, strokes)


def unless_turned(match: Match, search: Search, strokes: Strokes) -> Match:
    """Return a match, refused if the drawing fits almost as well in another direction.

    That of a drawing which looks the same after a turn is not known; users are told when they set
    it.
    """
    reference, view = search.reference, match.reference_to_image
    if view is None or reference.symmetric_turns:
        return match
    with search.image.times.timed('trace'):
        share = turned_share(strokes, reference.box.corners(), search.image.edges, view)
    if share <= DEFAULTS.most_if_turned:
        return match
    verdict = Verdict(
        Status.LOW_CONFIDENCE,
        f'{match.message}; turned, the drawing fits almost as well: draw more of what tells its '
        'direction',
        match.inliers,
        confidence=min(match.confidence, MAX_REFUSED_CONFIDENCE),
        checks=match.verdict.checks,
    )
    return replace(match, verdict=verdict)


PLUGIN = StrategyPlugin(
    name=Ink.name,
    description='aligns the ink of a drawing with edges',
    licence='Apache-2.0',
    load=lambda perception, store: Ink(),
)
