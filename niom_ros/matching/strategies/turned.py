"""Finding a reference by the keypoints of networks, turned by quarter turns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from niom_ros.core.homographies import warp_points
from niom_ros.core.plugins import FAILED, MATCHERS
from niom_ros.core.settings import Options, Sought, WeightingKind
from niom_ros.matching.confidence import calibration_of
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import (
    jacobian,
    MAX_REFUSED_CONFIDENCE,
    Status,
    Verdict,
)
from niom_ros.matching.keypoint_matcher import PreparedFeatures
from niom_ros.matching.match import Match
from niom_ros.matching.perception import Perception
from niom_ros.matching.preparation import features_of, used_part
from niom_ros.matching.prepared_reference import PreparedReference, TurnedSide
from niom_ros.matching.prior import Prior
from niom_ros.matching.strategies.ink_judgement import searches_by_ink
from niom_ros.matching.strategies.points import verified
from niom_ros.matching.strategies.strategy import agrees_at_least_as_well, Search, StrategyPlugin

QUARTERS = (2, 1, 3)  # quarter turns anticlockwise, in the order in which they are tried
UPRIGHT = ('classical', 'points')  # strategies whose matches, if refused, are rivals


@dataclass(frozen=True)
class TurnedParameters:
    """When one direction is believed."""

    clearly: float = 3.0  # times as many points must agree as in any other direction
    same_place: float = 3.0  # reprojection errors within which points are at the same place


DEFAULTS = TurnedParameters()


class Turned:
    """Matches keypoints with the reference turned by 90, 180 and 270 degrees.

    The networks recognise a picture that is turned by up to about 45 degrees. Each turn costs a
    match, so this comes after what is cheaper; the turned sides are prepared once.
    """

    name: ClassVar[str] = 'turned'
    rank: ClassVar[int] = 150
    seeks: ClassVar[Sought] = 'same_object'
    by_keypoints: ClassVar[bool] = True

    def __init__(self, perception: Perception) -> None:
        """Use these networks."""
        self._calibration = calibration_of(perception.method)
        self._perception = perception
        self._matcher = perception.keypoint_matcher

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Apply without weights only, and not to drawings: ink is found in any direction."""
        if options.weighting.kind not in ('auto', 'none'):
            return ()
        if options.keypoint_search == 'classical' or searches_by_ink(reference, options):
            return ()
        return ('none',)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether the later match is at least as confident."""
        return agrees_at_least_as_well(earlier, later)

    def find(self, search: Search) -> Match | None:
        """Match every turned side; only one of them may fit, and upright must not fit either.

        Round things fit in several directions: then none is believed. In a stream, the last turn
        is believed if it fits where it did before.
        """
        image = search.image
        if len(image.features) < 4 or not len(search.reference.features):
            return None
        of_image = self._matcher.prepare(self._matcher.project(image.features))
        matches: list[Match] = []
        for quarters in likely_turns(search):
            match = self._match_side(search, quarters, of_image)
            if is_where_it_was(match, search.own_prior):
                return match
            matches.append(match)
        best = max(matches, key=lambda match: match.agreement)
        others = [match for match in matches if match is not best]
        if search.earlier.strategy in UPRIGHT:
            others.append(search.earlier)
        view = best.reference_to_image
        if view is None:
            return best
        rivals = [match for match in others if not shows_it_there(match, view, search)]
        rival = max((int(match.inliers.sum()) for match in rivals), default=0)
        if int(best.inliers.sum()) >= DEFAULTS.clearly * rival:
            return best
        message = f'{best.message}, and {rival} in another direction'
        refused = Verdict(
            Status.LOW_CONFIDENCE,
            message,
            best.inliers,
            confidence=MAX_REFUSED_CONFIDENCE,
            checks=best.verdict.checks,
        )
        return replace(best, verdict=refused)

    def _match_side(self, search: Search, quarters: int, of_image: PreparedFeatures) -> Match:
        """Match the reference after some quarter turns."""
        reference, image, limits = search.reference, search.image, search.options.limits
        side = self._side(reference, quarters, image.max_keypoints)
        with (
            image.times.timed('match'),
            MATCHERS.blaming(self._perception.settings.matcher, FAILED),
        ):
            matches = self._matcher.match(side.prepared, of_image, limits.score_threshold)
        turned = side.features.keypoints[matches.reference_index].cpu().numpy()
        correspondences = Correspondences(
            reference_points=warp_points(side.to_reference, turned).astype(np.float32),
            image_points=image.features.keypoints[matches.image_index].cpu().numpy(),
            scores=matches.scores.cpu().numpy(),
        ).moved_in_image(*image.place)
        return Match(
            verified(correspondences, search, image, self._calibration),
            correspondences,
            image_keypoints=len(image.features),
        )

    def _side(
        self, reference: PreparedReference, quarters: int, max_keypoints: int | None
    ) -> TurnedSide:
        """Return a reference after some quarter turns, prepared once."""
        return reference.sides.get(
            (quarters, max_keypoints),
            lambda: self._prepare_side(reference, quarters, max_keypoints),
        )

    @torch.inference_mode()
    def _prepare_side(
        self, reference: PreparedReference, quarters: int, max_keypoints: int | None
    ) -> TurnedSide:
        width, height = reference.size
        mask = reference.given.counting_mask()
        picture = np.ascontiguousarray(np.rot90(reference.image, quarters))
        turned_mask = None if mask is None else np.ascontiguousarray(np.rot90(mask, quarters))
        used = used_part(picture, turned_mask)
        features = features_of(self._perception, picture, used)
        if max_keypoints:
            features = features.strongest(max_keypoints)
        return TurnedSide(
            features,
            self._matcher.prepare(self._matcher.project(features)),
            np.linalg.inv(quarter_turn(quarters, width, height)),
        )


def is_where_it_was(match: Match, prior: Prior | None) -> bool:
    """Return whether a match found the reference about where it was before."""
    view = match.reference_to_image
    return view is not None and prior is not None and prior.is_close_to(view)


def shows_it_there(match: Match, view: np.ndarray, search: Search) -> bool:
    """Return whether the points of a match agree with a view: networks tolerate some turns."""
    agreeing = match.correspondences.reference_points[match.inliers]
    if not len(agreeing):
        return True
    offsets = warp_points(view, agreeing) - match.correspondences.image_points[match.inliers]
    within = DEFAULTS.same_place * search.options.limits.reprojection_error
    return bool(np.median(np.linalg.norm(offsets, axis=1)) <= within)


def likely_turns(search: Search) -> Iterable[int]:
    """Return the quarter turns to try; first the one in which it was found last."""
    prior = search.own_prior
    if prior is None:
        return QUARTERS
    last = quarters_of(prior.reference_to_image, search.reference)
    return sorted(QUARTERS, key=lambda quarters: quarters != last)


def quarters_of(view: np.ndarray, reference: PreparedReference) -> int:
    """Return how many quarter turns anticlockwise a view turns a reference, rounded."""
    box = reference.box
    centre = np.array([box.left + box.width / 2, box.top + box.height / 2])
    across = jacobian(view, centre)[:, 0]
    return round(-np.arctan2(across[1], across[0]) / (np.pi / 2)) % 4


def quarter_turn(quarters: int, width: int, height: int) -> np.ndarray:
    """Return the homography from a picture of this size to np.rot90 of it."""
    turn = np.eye(3)
    for _ in range(quarters % 4):
        turn = np.array([[0, 1, 0], [-1, 0, width - 1], [0, 0, 1.0]]) @ turn
        width, height = height, width
    return turn


PLUGIN = StrategyPlugin(
    name=Turned.name,
    description='matches keypoints with the reference turned by quarter turns',
    licence='Apache-2.0',
    load=lambda perception, store: Turned(perception),
)
