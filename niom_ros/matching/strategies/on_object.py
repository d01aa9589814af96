"""Placing a labelled drawing on the object of the image that it is paired with."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Sought
from niom_ros.drawings.tracing import trace_near
from niom_ros.matching.alike_object import AlikeObject, fit_warp, GuidePoints, guides_at
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.ink_judgement import judged, searches_by_ink
from niom_ros.matching.strategies.strategy import Search, StrategyPlugin, WithoutWeights
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.objects import SeenObject


@dataclass(frozen=True)
class OnObjectParameters:
    """When a drawing laid onto an object guides, and how far its points can be trusted."""

    same_label: float = 0.999  # cosine: the labels differ in spelling only
    # Of detections with this score or more, more than half are right (README, "Sketches and
    # blueprints"), so the score itself serves as confidence of the kind.
    min_score: float = 0.5
    # If the true box of one object is stretched onto the other, a third of the points are right
    # to a tenth of its size (`box_pck_10` of niom eval landmarks). A detector's box is worse.
    point_confidence: float = 0.3
    # A box that is too small or of another shape is that of something else, or of a part. Of 50
    # boxes of the label of a sketch, the narrowest ninth are of faces, for sketches of persons.
    most_stretched: float = 2.5  # times as much in one direction as in the other
    least_side: float = 0.08  # longer side of the box, of that of the image


DEFAULTS = OnObjectParameters()


class OnObject(WithoutWeights):
    """Lays a drawing onto an object of its label; it never claims that the drawing was found.

    Another object of the same kind has different lines. A search of the whole image would put most
    of the ink on edges of something small and full of texture, which is useless. Placed on the
    paired object, the ink does give corresponding points, but how certain they are is only known
    on the average. If the detector gives the object the very label of the drawing, it is ALIKE.
    """

    name: ClassVar[str] = 'on_object'
    rank: ClassVar[int] = 300
    seeks: ClassVar[Sought] = 'same_kind'

    def applies_to(self, reference: PreparedReference, options: Options) -> bool:
        """Return whether it is a labelled drawing."""
        labelled = any(seen.label for seen in reference.scene.objects)
        return labelled and searches_by_ink(reference, options)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether there is such an object: its points say more than a failed search."""
        return len(later.correspondences) > 0

    def find(self, search: Search) -> Match | None:
        """Place the drawing on the object that it is paired with."""
        reference, image = search.reference, search.image
        if reference.strokes is None:
            return None
        scene = image.scene
        paired = image.paired_with(reference.scene, search.options.pairing)
        if not paired.pairs:
            nothing = Match.without_matches(Status.LOW_CONFIDENCE, 'no objects were paired')
            return replace(nothing, scene=scene, paired=paired)
        pair = paired.pairs[0]
        seen = scene.objects[pair.image_object]
        onto = fitting(reference.scene.objects[pair.reference_object].area, seen.area)
        across, down = onto.diagonal()[:2]
        if not is_plausible(seen.area, across / down, image.image):
            message = f'the {seen.label} in the image is too small, or of another shape'
            nothing = Match.without_matches(Status.LOW_CONFIDENCE, message)
            return replace(nothing, scene=scene, paired=paired)
        # As if it had been drawn with the proportions of the object in the image.
        stretched, corners = np.diag([across, down, 1]), reference.box.corners()
        with image.times.timed('trace'):
            traced = trace_near(
                reference.strokes.stretched(across, down),
                warp_points(stretched, corners),
                image.edges,
                onto @ np.linalg.inv(stretched),
            )
        traced = replace(traced, drawing_to_image=traced.drawing_to_image @ stretched)
        laid = replace(judged(search, reference.strokes, traced), scene=scene, paired=paired)
        if pair.label_similarity < DEFAULTS.same_label:
            remedy = f"; if that is what you look for, give the reference the label '{seen.label}'"
            return refused(laid, seen, remedy)
        if seen.score < DEFAULTS.min_score:
            remedy = f', which the detector is not sure of: {seen.score:.2f}, '
            return refused(laid, seen, f'{remedy}{DEFAULTS.min_score:.2f} is needed')
        return claimed(laid, seen, traced.drawing_to_image, reference)


def is_plausible(area: Area, stretch: float, image: np.ndarray) -> bool:
    """Return whether a box may be that of what is drawn, which it stretches across."""
    side = max(area.width, area.height) / max(image.shape[:2])
    return side >= DEFAULTS.least_side and max(stretch, 1 / stretch) <= DEFAULTS.most_stretched


def refused(laid: Match, seen: SeenObject, why: str) -> Match:
    """Return the points of a drawing laid onto an object that may be of another kind."""
    message = f'not found; the points are those of the drawing laid onto the {seen.label}'
    verdict = Verdict(
        Status.LOW_CONFIDENCE,
        f'{message} in the image{why}',
        laid.inliers,
        checks=laid.verdict.checks,
    )
    return replace(laid, verdict=verdict)


def claimed(
    laid: Match, seen: SeenObject, drawing_to_image: np.ndarray, reference: PreparedReference
) -> Match:
    """Return a drawing laid onto an object of its kind, which is known by its label alone."""
    confidences = np.full(len(laid.correspondences), DEFAULTS.point_confidence, np.float32)
    points = replace(laid.correspondences, scores=confidences)
    size = max(seen.area.width, seen.area.height)
    landmarks = np.array([[mark.x, mark.y] for mark in reference.given.landmarks]).reshape(-1, 2)
    warp = fit_warp(points, confidences, size)
    if warp is not None:
        # How far it is from these points says nothing: they all come from one view.
        warp = replace(warp, deviation=guides_on(points.image_points[:1], size).deviations.item())
    alike = AlikeObject(
        confidence=seen.score,
        box=seen.area,
        landmarks=guides_on(warp_points(drawing_to_image, landmarks), size),
        size=size,
        warp=warp,
    )
    verdict = Verdict(
        Status.ALIKE,
        f'another {seen.label}, by its label alone; the drawing is laid onto it, but no point is '
        'certain',
        np.zeros(len(points), bool),
        confidence=seen.score,
        checks=laid.verdict.checks,
    )
    return replace(laid, verdict=verdict, correspondences=points, alike=alike)


def guides_on(places: np.ndarray, size: float) -> GuidePoints:
    """Return points (N x 2) on an object of this size that a drawing is laid onto."""
    return guides_at(places, np.full(len(places), DEFAULTS.point_confidence), size)


def fitting(area: Area, other: Area) -> np.ndarray:
    """Return the 3 x 3 matrix that moves and scales one rectangle onto another."""
    across, down = other.width / area.width, other.height / area.height
    return np.array(
        [
            [across, 0, other.left - across * area.left],
            [0, down, other.top - down * area.top],
            [0, 0, 1],
        ]
    )


PLUGIN = StrategyPlugin(
    name=OnObject.name,
    description='places a labelled drawing on an object of its kind',
    licence='Apache-2.0',
    load=lambda perception, store: OnObject(),
)
