"""Whether a drawing may be searched by its ink, and whether to believe where its ink lies."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options
from niom_ros.core.uncertainty import ViewUncertainty
from niom_ros.drawings.strokes import Strokes
from niom_ros.drawings.tracing import Traced
from niom_ros.matching.checks import Checks
from niom_ros.matching.confidence import calibration_of, INK
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, hull_area, in_front, judge, measure
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import Search


@dataclass(frozen=True)
class InkParameters:
    """When an alignment of ink is accepted, and how much of it is reported."""

    most_points: int = 400  # reported as correspondences: enough to show where it lies
    # In standard deviations above the mean edge strength. The lowest of the 131 drawings that
    # `niom eval sketch` finds has 0.89; on walls and noise, where the best view means nothing,
    # none exceeds 0.7.
    least_on_edges: float = 0.75
    most_uncertain: float = 0.018  # share of the longer side of the image, mean of the corners


DEFAULTS = InkParameters()
WHAT_AGREES = 'points of the drawing lie on edges'


@dataclass(frozen=True, kw_only=True)
class InkChecks(Checks):
    """Measurements of a view of a drawing; see drawings/tracing.py."""

    ink_on_edges: float  # standard deviations above the mean edge strength
    sharpness: float  # gain when blurred edges become sharp
    size: float  # of the outline, relative to the image
    corner_uncertainty: float  # the deviation of the corners, relative to the image
    contrast: float  # ink_on_edges, above what the ink meets if it is moved aside

    def implausibility(self) -> str:
        """Say why this cannot be the right place of the ink; '': it may be."""
        if self.ink_on_edges < DEFAULTS.least_on_edges:
            return 'the ink lies on edges that hardly differ from the rest of the image'
        if self.corner_uncertainty > DEFAULTS.most_uncertain:
            return (
                f'the corners of the reference may be {self.corner_deviation:.0f} pixels off: '
                'set its region to what is drawn'
            )
        return ''


def searches_by_ink(reference: PreparedReference, options: Options) -> bool:
    """Return whether a reference is a drawing with enough ink, and the options allow its use."""
    return reference.strokes is not None and options.drawing_search != 'matches'


def judged(search: Search, strokes: Strokes, traced: Traced) -> Match:
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
            evidence = replace(
                evidence,
                checks=with_ink(checks, traced, image),
                uncertainty=ink_uncertainty(strokes, traced, box),
            )
        verdict = judge(evidence, box, search.options.limits, calibration_of(INK), WHAT_AGREES)
    return Match(
        verdict=verdict, correspondences=correspondences, evidence=evidence, edges=image.edges
    )


def ink_uncertainty(strokes: Strokes, traced: Traced, box: Box) -> ViewUncertainty:
    """Return how certain a view is that rests on the ink that lies on edges."""
    on_edge = traced.on_edge
    return ViewUncertainty.of_lines(
        traced.drawing_to_image,
        box,
        strokes.points[on_edge],
        strokes.normals[on_edge],
        traced.image_points[on_edge],
    )


def with_ink(checks: Checks, traced: Traced, image: ImageAnalysis) -> InkChecks:
    """Add the measures of the ink, whose deviation of the corners is the better estimate."""
    numbers = checks.as_dict() | asdict(traced.measures)
    uncertainty = traced.measures.corner_deviation / max(image.image.shape[:2])
    return InkChecks(**numbers, corner_uncertainty=uncertainty)
