"""Placing a labelled drawing on the object of the image that it is paired with."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Sought
from niom_ros.drawings.tracing import trace_near
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.ink_judgement import judged, searches_by_ink
from niom_ros.matching.strategies.strategy import Search, StrategyPlugin, WithoutWeights
from niom_ros.semantics.heat_maps import Area


class OnObject(WithoutWeights):
    """Returns corresponding points, but never claims that the drawing was found.

    Another object of the same kind has different lines. A search of the whole image would put most
    of the ink on edges of something small and full of texture, which is useless. Placed on the
    paired object, the ink does give corresponding points, but no confidence: that was calibrated
    on the best view of a whole image.
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
        return bool(later.paired.pairs)

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
        # As if it had been drawn with the proportions of the object in the image.
        across, down = onto.diagonal()[:2]
        stretched, corners = np.diag([across, down, 1]), reference.box.corners()
        with image.times.timed('trace'):
            traced = trace_near(
                reference.strokes.stretched(across, down),
                warp_points(stretched, corners),
                image.edges,
                onto @ np.linalg.inv(stretched),
            )
        traced = replace(traced, drawing_to_image=traced.drawing_to_image @ stretched)
        match = judged(search, reference.strokes, traced)
        verdict = Verdict(
            Status.LOW_CONFIDENCE,
            f'not found; the points are those of the drawing laid onto the {seen.label} in the '
            'image',
            match.inliers,
            checks=match.verdict.checks,
        )
        return replace(match, verdict=verdict, scene=scene, paired=paired)


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
