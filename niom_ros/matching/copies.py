"""Where copies of a reference may be in an image: places for which SIFT matches vote together.

Every SIFT keypoint knows its own size and direction, so a single match says where the whole
reference would be, how large and how turned (Lowe, 2004). Matches of one copy say about the same;
wrong ones say anything.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.matching.sift import nearest_matches, SiftFeatures, SiftParameters, SPARSE


@dataclass(frozen=True)
class VotingParameters:
    """When two matches vote for the same place."""

    matching: SiftParameters = SPARSE
    most: int = 1500  # matches that vote, the best ones
    scale: float = 0.6  # difference of the logarithms, to base 2
    turn: float = 25.0  # degrees
    place: float = 0.25  # share of the size of the reference there, between the two middles
    fewest: int = 4  # votes for a place
    reach: float = 0.05  # share of that size within which points agree with a rough view


DEFAULTS = VotingParameters()


@dataclass(frozen=True)
class Place:
    """A rough view of a copy, and the matches that voted for it."""

    reference_to_image: np.ndarray  # 3 x 3, a turn, a scale and a shift
    votes: np.ndarray  # indices of the matches


def likely_places(
    reference: SiftFeatures,
    image: SiftFeatures,
    box: Box,
    parameters: VotingParameters = DEFAULTS,
) -> list[Place]:
    """Return the places for which matches vote, most votes first; a match votes once.

    `box` is the used part of the reference.
    """
    in_reference, in_image = nearest_matches(reference, image, parameters.matching)
    in_reference, in_image = in_reference[: parameters.most], in_image[: parameters.most]
    reference_points = as_complex(reference.points[in_reference])
    image_points = as_complex(image.points[in_image])
    # Multiplication by a complex number turns and scales.
    change = (image.sides[in_image] / reference.sides[in_reference]).astype(complex)
    middle = complex(box.left + (box.width - 1) / 2, box.top + (box.height - 1) / 2)
    middles = image_points + change * (middle - reference_points)
    together = agreeing_votes(change, middles, max(box.width, box.height), parameters)
    places, free = [], np.ones(len(change), bool)
    while free.any():
        votes = together[:, free].sum(axis=1) * free
        best = int(votes.argmax())
        if votes[best] < parameters.fewest:
            break
        members = np.flatnonzero(together[best] & free)
        free[members] = False
        reach = parameters.reach * max(box.width, box.height) * abs(change[best])
        view = similarity(reference_points[members], image_points[members], reach)
        if view is not None:
            places.append(Place(view, members))
    return places


def agreeing_votes(
    change: np.ndarray,
    middles: np.ndarray,
    size: float,
    parameters: VotingParameters = DEFAULTS,
) -> np.ndarray:
    """Return which of N votes agree: N x N booleans.

    A vote is how the reference is turned and scaled (a complex number), and where its middle is.
    """
    scales, turns = np.log2(np.abs(change)), np.angle(change)
    alike: np.ndarray = np.abs(scales[:, None] - scales) <= parameters.scale
    apart = np.abs((turns[:, None] - turns + np.pi) % (2 * np.pi) - np.pi)
    alike &= apart <= np.radians(parameters.turn)
    sizes = size * np.abs(change)
    reach = parameters.place * np.minimum(sizes[:, None], sizes)
    alike &= np.abs(middles[:, None] - middles) <= reach
    return alike


def similarity(
    reference_points: np.ndarray, image_points: np.ndarray, reach: float
) -> np.ndarray | None:
    """Return the turn, scale and shift (3 x 3) that most points agree with within a reach."""
    view, _ = cv2.estimateAffinePartial2D(
        as_pairs(reference_points), as_pairs(image_points), ransacReprojThreshold=reach
    )
    return None if view is None else np.vstack([view, [0, 0, 1]])


def as_complex(points: np.ndarray) -> np.ndarray:
    """Return N x 2 points as complex numbers."""
    return points[:, 0] + 1j * points[:, 1].astype(float)


def as_pairs(points: np.ndarray) -> np.ndarray:
    """Return complex numbers as N x 2 points."""
    return np.column_stack([points.real, points.imag])
