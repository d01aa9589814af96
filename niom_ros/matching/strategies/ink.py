"""Finding a drawing by its ink: its strokes are aligned with the edges of the image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from niom_ros.core.settings import Options
from niom_ros.drawings.strokes import Strokes
from niom_ros.drawings.tracing import trace, trace_near, Traced
from niom_ros.matching.checks import Checks
from niom_ros.matching.confidence import Calibration, calibration_of, INK
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import SMALLEST_SIDE
from niom_ros.matching.geometry import Evidence, hull_area, in_front, judge, measure, Status
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import agrees_at_least_as_well, Search, StrategyPlugin


@dataclass(frozen=True)
class InkParameters:
    """When an alignment of ink is accepted, and how much of it is reported."""

    narrowest: int = 64  # pixels of the edge map: in a narrow strip, something always fits
    most_points: int = 400  # reported as correspondences: enough to show where it lies
    # In standard deviations above the mean edge strength. The lowest of the 131 drawings that
    # `niom eval sketch` finds has 0.89; on walls and noise, where the best view means nothing,
    # none exceeds 0.7.
    least_on_edges: float = 0.75
    most_uncertain: float = 0.018  # share of the longer side of the image, mean of the corners


DEFAULTS = InkParameters()
WHAT_AGREES = 'points of the drawing lie on edges'


@dataclass(frozen=True)
class InkChecks(Checks):
    """Measurements of a view of a drawing; see drawings/tracing.py."""

    ink_on_edges: float  # standard deviations above the mean edge strength
    sharpness: float  # gain when blurred edges become sharp
    size: float  # of the outline, relative to the image
    corner_uncertainty: float  # the deviation of the corners, relative to the image

    def implausibility(self) -> str:
        """Say why ink would not lie like this on the right place; '': it would."""
        if self.ink_on_edges < DEFAULTS.least_on_edges:
            return 'the ink lies on edges that hardly differ from the rest of the image'
        if self.corner_uncertainty > DEFAULTS.most_uncertain:
            return (
                f'the corners of the reference may be {self.corner_deviation:.0f} pixels off: '
                'set its region to what is drawn'
            )
        return ''


class Ink:
    """Aligns the strokes of a drawing with edges.

    Keypoints find a copy of the drawing; ink finds the object that it shows.
    """

    name: ClassVar[str] = 'ink'
    rank: ClassVar[int] = 200
    by_keypoints: ClassVar[bool] = False

    def __init__(self, perception: Perception) -> None:
        """Load the calibration; the edges come with the image."""
        self.calibration = calibration_of(INK)

    def weightings(self, reference: PreparedReference, options: Options) -> Sequence[str]:
        """Apply to drawings only, without weights."""
        return ('none',) if searches_by_ink(reference, options) else ()

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Tell whether the later match is at least as confident."""
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
        if min(height, width) < SMALLEST_SIDE or min(edges.size) < DEFAULTS.narrowest:
            reason = f'the image is too small or narrow to find a drawing in ({width} x {height})'
            return replace(Match.without_matches(Status.NO_KEYPOINTS, reason), edges=edges)
        if prior is not None and prior.is_fresh:
            with image.times.timed('trace'):
                traced = trace_near(strokes, corners, edges, prior.reference_to_image)
            match = judged(search, strokes, traced, self.calibration)
            found = match.reference_to_image
            # A view far from the last one may be a local optimum.
            if found is not None and prior.is_close_to(found):
                return replace(match, locked=prior.locked + 1)
        with image.times.timed('trace'):
            traced = trace(strokes, corners, edges)
        return judged(search, strokes, traced, self.calibration)


def searches_by_ink(reference: PreparedReference, options: Options) -> bool:
    """Tell whether a reference is a drawing with enough ink, and the options allow its use."""
    return reference.strokes is not None and options.drawing_search != 'matches'


def judged(
    search: Search, strokes: Strokes, traced: Traced, calibration: Calibration | None
) -> Match:
    """Decide whether to accept a view in which ink lies on edges."""
    image, box = search.image, search.reference.box
    # The stroke points are shuffled, so the first ones are a fair sample. Best first, as in
    # other correspondences.
    shown = np.argsort(-traced.strength[: DEFAULTS.most_points], kind='stable')
    correspondences = Correspondences(
        strokes.points[shown], traced.image_points[shown], traced.strength[shown]
    )
    with image.times.timed('verify'):
        evidence = Evidence(traced.on_edge[shown], traced.drawing_to_image)
        if in_front(traced.drawing_to_image, box):
            checks = measure(
                traced.drawing_to_image,
                correspondences,
                evidence.inliers,
                box,
                hull_area(strokes.points),
                image.whole,
            )
            evidence = replace(evidence, checks=with_ink(checks, traced, image))
        verdict = judge(evidence, box, search.options.limits, calibration, WHAT_AGREES)
    return Match(
        verdict=verdict, correspondences=correspondences, evidence=evidence, edges=image.edges
    )


def with_ink(checks: Checks, traced: Traced, image: ImageAnalysis) -> InkChecks:
    """Add the checks of the ink, whose deviation of the corners is the better estimate."""
    of_ink = traced.checks
    longer_side = max(image.image.shape[:2])
    numbers = checks.as_dict() | of_ink
    return InkChecks(**numbers, corner_uncertainty=numbers['corner_deviation'] / longer_side)


PLUGIN = StrategyPlugin(
    name=Ink.name,
    description='lays the ink of a drawing along edges',
    licence='Apache-2.0',
    load=lambda perception, store: Ink(perception),
)
