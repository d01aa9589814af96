"""The pictures of a frame: upright, as people and networks look at it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.matcher import Matcher
from niom_ros.pictures.matches import draw_edges, draw_matches, draw_overlay, draw_semantics
from niom_ros.stream.guide import Guidance
from niom_ros.stream.landmarks import PlacedLandmark


def debug_picture(guidance: Guidance, _: Matcher, width: int) -> np.ndarray | None:
    """Draw reference and frame side by side, joined by the matches; None without a frame."""
    return drawn(draw_matches, guidance, width)


def overlay_picture(guidance: Guidance, _: Matcher, width: int) -> np.ndarray | None:
    """Draw the frame with the reference laid over it where it was found."""
    return drawn(draw_overlay, guidance, width)


def drawn(draw: Callable[..., np.ndarray], guidance: Guidance, width: int) -> np.ndarray | None:
    """Draw the frame and what was found in it."""
    if guidance.image is None:
        return None
    named = guidance.reference
    return draw(
        named.reference if named else None,
        guidance.image,
        guidance.upright,
        width,
        upright_landmarks(guidance),
        named.id if named else '',
    )


def heatmap_picture(guidance: Guidance, _: Matcher, width: int) -> np.ndarray | None:
    """Draw objects, pairs and heat; for a frame that needed no weights, its objects alone.

    Of a drawing that was looked for by its ink, draw the edges instead.
    """
    if guidance.look is None or guidance.reference is None:
        return None
    outcome = guidance.upright
    if outcome.edges is not None:
        return draw_edges(guidance.reference.reference, guidance.look.image, outcome, width)
    if not outcome.scene.objects:
        # Somebody looks: then they shall see what the detector sees, needed or not.
        outcome = replace(outcome, scene=guidance.look.scene)
    return draw_semantics(guidance.reference.reference, guidance.look.image, outcome, width)


def upright_landmarks(guidance: Guidance) -> list[PlacedLandmark]:
    """Return the landmarks where they are in the upright image."""
    if guidance.rotation is None or not guidance.landmarks:
        return list(guidance.landmarks)
    to_upright = np.linalg.inv(guidance.rotation.upright_to_received)
    places = warp_points(to_upright, np.array([(mark.x, mark.y) for mark in guidance.landmarks]))
    return [
        replace(mark, x=float(x), y=float(y))
        for mark, (x, y) in zip(guidance.landmarks, places, strict=True)
    ]
