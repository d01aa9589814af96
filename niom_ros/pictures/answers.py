"""Pictures of the answer to a frame, always upright."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.match import Match
from niom_ros.matching.reference import Landmark
from niom_ros.pictures.likelihood import draw_likelihood
from niom_ros.pictures.matches import (
    draw_edges,
    draw_matches,
    draw_overlay,
    draw_semantics,
    NumberedPlace,
    PictureOptions,
)
from niom_ros.stream.answers import Answer
from niom_ros.stream.landmarks import PlacedLandmark


@dataclass(frozen=True)
class View:
    """What a picture of an answer shows."""

    width: int = 1280  # of the picture, at most, in pixels
    landmark: str = ''  # whose likelihood the heat map shows; '': the first that is known


def debug_picture(answer: Answer, view: View) -> np.ndarray | None:
    """Draw reference and frame side by side, joined by the matches; None without a frame."""
    return drawn(draw_matches, answer, view.width)


def overlay_picture(answer: Answer, view: View) -> np.ndarray | None:
    """Draw the frame, overlaid with the reference where it was found."""
    return drawn(draw_overlay, answer, view.width)


def drawn(draw: Callable[..., np.ndarray], answer: Answer, width: int) -> np.ndarray | None:
    """Draw the frame and what was found in it."""
    if answer.image is None:
        return None
    known = answer.reference
    options = PictureOptions(
        max_width=width,
        landmarks=upright_landmarks(answer),
        title=known.id if known else '',
        number=answer.number if len(answer.instances) > 1 else 0,
        others=[
            NumberedPlace(
                each.number, each.reference.prepared, each.upright, upright_landmarks(each)
            )
            for each in answer.instances
            if each.found and each.number != answer.number and each.reference is not None
        ],
    )
    return draw(known.prepared if known else None, answer.image, answer.upright, options)


def heatmap_picture(answer: Answer, view: View) -> np.ndarray | None:
    """Draw objects, pairs and heat; for a frame that needed no weights, only its objects.

    For a drawing that was searched by its ink, draw the edges instead; for an object that is only
    alike, where each place of it is likely to be.
    """
    if answer.analysis is None or answer.reference is None:
        return None
    reference, image = answer.reference.prepared, answer.analysis.image
    match, width = answer.upright, view.width
    if match.shows_parts and len(match.correspondences):
        point = chosen_point(reference.given.landmarks, match, view.landmark)
        return draw_likelihood(reference, image, match, point, width)
    if match.edges is not None:
        return draw_edges(reference, image, match, width)
    if not match.scene.objects:
        # Somebody is watching: show what the detector sees, even if it was not needed.
        match = replace(match, scene=answer.analysis.scene)
    return draw_semantics(reference, image, match, width)


def chosen_point(landmarks: Sequence[Landmark], match: Match, name: str) -> Landmark:
    """Return the landmark of this name, or the first; if there is none, the most certain point."""
    for landmark in landmarks:
        if not name or landmark.name == name:
            return landmark
    x, y = match.correspondences.reference_points[0].tolist()
    return Landmark('the most certain point', x, y)


def upright_landmarks(answer: Answer) -> list[PlacedLandmark]:
    """Return the landmarks where they are in the upright image."""
    if answer.rotation is None or not answer.landmarks:
        return list(answer.landmarks)
    to_upright = np.linalg.inv(answer.rotation.upright_to_received)
    places = warp_points(to_upright, np.array([(mark.x, mark.y) for mark in answer.landmarks]))
    return [
        replace(mark, x=float(x), y=float(y))
        for mark, (x, y) in zip(answer.landmarks, places, strict=True)
    ]
