"""Finding a reference by SIFT keypoints, which know their own direction and scale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math
from typing import ClassVar

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits, Options, Sought, WeightingKind
from niom_ros.core.uncertainty import SUBPIXEL
from niom_ros.matching.confidence import calibration_of, CLASSICAL
from niom_ros.matching.copies import likely_places, Place
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, examine, judge, Status, Verdict
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match, Weights
from niom_ros.matching.partly_hidden import covers_any, hiding, outline_of, outlines_of
from niom_ros.matching.planes import on_one_plane
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.rectified import rectified
from niom_ros.matching.sift import (
    CLOSER,
    DENSE,
    mutual_matches,
    sift_features,
    SiftFeatures,
    SiftParameters,
    SPARSE,
)
from niom_ros.matching.strategies.ink_judgement import searches_by_ink
from niom_ros.matching.strategies.strategy import agrees_at_least_as_well, Search, StrategyPlugin


@dataclass(frozen=True)
class ClassicalParameters:
    """When a rough view is worth a closer look."""

    fewest: int = 6  # points that agree with it: the closer look sorts out the wrong ones
    looks: int = 2  # at most; the next one starts from the view that the last one found
    plenty: int = 100  # agreeing points that need no further look
    # Share of min_inliers that is enough. Of 900 unrelated pairs, none has more than 7 points
    # that agree, because each point matches only one other, and both are looked at again.
    enough: float = 0.6
    # Seen from the same side, most points of a flat thing agree; of others, about half.
    least_ratio: float = 0.5

    # Of further copies
    fewest_votes: int = 6  # that make a place worth a look
    most_failed: int = 3  # looks at places where nothing is, one after another
    few_keypoints: int = 300  # of a reference: below, weak ones are used as well


DEFAULTS = ClassicalParameters()


@dataclass(frozen=True)
class RoughView:
    """Points that correspond, and the view that most of them agree with."""

    correspondences: Correspondences
    evidence: Evidence

    @property
    def agreeing(self) -> int:
        """Return how many points agree with the view."""
        return int(self.evidence.inliers.sum())


class Classical:
    """Matches SIFT keypoints: in any direction, at any scale, within a fraction of a second.

    A rough view is enough: seen from the same side, reference and image are matched once more,
    which finds many more points if the view is right, and hardly any if it is not.
    """

    name: ClassVar[str] = 'classical'
    rank: ClassVar[int] = 50
    seeks: ClassVar[Sought] = 'same_object'
    by_keypoints: ClassVar[bool] = False

    def __init__(self, max_side: int) -> None:
        """Shrink larger images to this many pixels on their longer side."""
        self._calibration = calibration_of(CLASSICAL)
        self._max_side = max_side

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Apply unless weights are asked for, which it cannot use, or only networks or ink."""
        if options.weighting.kind not in ('auto', 'none') or options.keypoint_search == 'networks':
            return ()
        only_ink = searches_by_ink(reference, options) and options.drawing_search == 'ink'
        return () if only_ink else ('none',)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether the later match is at least as confident."""
        return agrees_at_least_as_well(earlier, later)

    def find(self, search: Search) -> Match | None:
        """Match SIFT keypoints, then look closer from the side that they show."""
        reference, image = search.reference, search.image
        with image.times.timed('sift'):
            limits = own_limits(search.options.limits)
            for parameters in (SPARSE, DENSE):
                of_image = image.sift(parameters)
                matches = mutual_matches(
                    self._features_of(reference, parameters), of_image, parameters
                )
                rough = look_closer(rough_view_of(matches, reference, image, limits), search)
                match = self._judged(rough, reference, image.whole, limits)
                if match.found:
                    break
        if not match.found and search.options.max_instances > 1:
            # Each of several copies has too small a share of the matches.
            match = next(iter(self.find_copies(search, 1)), match)
        return replace(match, image_keypoints=len(of_image))

    def find_copies(self, search: Search, most: int) -> list[Match]:
        """Look closer wherever matches vote for a place, until enough copies are found."""
        reference, image = search.reference, search.image
        found: list[Match] = []
        with image.times.timed('copies'):
            limits = own_limits(search.options.limits)
            failed = 0
            for place in self._places(search):
                if len(found) == most or failed == DEFAULTS.most_failed:
                    break
                free = replace(search, image=hiding(image, found))
                expected = warp_points(place.reference_to_image, reference.box.corners())
                outlines = outlines_of(found, reference.box)
                if covers_any(expected, outlines):
                    continue  # the rest of the votes for a copy that was found
                match = self._judged(look_at(place, free), reference, image.whole, limits)
                outline = outline_of(match, reference.box)
                if outline is None or covers_any(outline, outlines):
                    failed += 1
                    continue
                failed = 0
                found.append(replace(match, image_keypoints=len(image.sift(SPARSE))))
        return found

    def _places(self, search: Search) -> list[Place]:
        """Return where copies may be: where they were tracked to, then the most likely first."""
        reference = search.reference
        of_reference, parameters = self._features_of(reference, SPARSE), SPARSE
        if len(of_reference) < DEFAULTS.few_keypoints:
            of_reference, parameters = self._features_of(reference, DENSE), DENSE
        places = likely_places(of_reference, search.image.sift(parameters), reference.box)
        voted = [place for place in places if len(place.votes) >= DEFAULTS.fewest_votes]
        return [Place(view, np.empty(0, int)) for view in search.expected] + voted

    def _features_of(
        self, reference: PreparedReference, parameters: SiftParameters
    ) -> SiftFeatures:
        """Return the keypoints of the used part of a reference, computed once."""

        def find() -> SiftFeatures:
            box, mask = reference.box, reference.given.counting_mask()
            found = sift_features(box.part_of(reference.image), self._max_side, parameters)
            found = found.moved(box.left, box.top)
            return found if mask is None else found.inside(mask)

        return reference.sift.get(parameters, find)

    def _judged(
        self, rough: RoughView, reference: PreparedReference, image_box: Box, limits: Limits
    ) -> Match:
        """Decide whether to believe what was found."""
        count, agreeing = len(rough.correspondences), rough.agreeing
        if max(4, agreeing) < limits.min_inliers:
            message = f'only {agreeing} of {count} points agree, {limits.min_inliers} must'
            verdict = Verdict(Status.FEW_MATCHES, message, rough.evidence.inliers)
        else:
            verdict = judge(rough.evidence, reference.box, limits, self._calibration)
            verdict = on_one_plane(
                verdict, rough.correspondences, reference.box, image_box, limits, SUBPIXEL
            )
        return Match(
            verdict,
            rough.correspondences,
            evidence=rough.evidence,
            reference_weights=Weights.not_asked_for(),
            image_weights=Weights.not_asked_for(),
        )


def own_limits(limits: Limits) -> Limits:
    """Return the limits of SIFT matches, of which fewer agree by chance."""
    return replace(
        limits,
        min_inliers=math.ceil(DEFAULTS.enough * limits.min_inliers),
        min_inlier_ratio=max(DEFAULTS.least_ratio, limits.min_inlier_ratio),
    )


def rough_view_of(
    matches: Correspondences, reference: PreparedReference, image: ImageAnalysis, limits: Limits
) -> RoughView:
    """Return the view that most of the matches agree with."""
    if len(matches) < 4:
        return RoughView(matches, Evidence(np.zeros(len(matches), bool)))
    evidence = examine(
        matches, reference.box, reference.counting_area, image.whole, limits, SUBPIXEL
    )
    return RoughView(matches, evidence)


def look_at(place: Place, search: Search) -> RoughView:
    """Match at a likely place; look closer from the side that this shows unless much agrees."""
    reference, image = search.reference, search.image
    matches = matches_seen_from(place.reference_to_image, reference, image)
    if matches is None:
        return RoughView(Correspondences.none(), Evidence(np.zeros(0, bool)))
    rough = rough_view_of(matches, reference, image, search.options.limits)
    return rough if rough.agreeing >= DEFAULTS.plenty else look_closer(rough, search)


def look_closer(rough: RoughView, search: Search) -> RoughView:
    """Match again, with both pictures seen from the same side, as long as that finds more."""
    reference, image, limits = search.reference, search.image, search.options.limits
    for _ in range(DEFAULTS.looks):
        view = rough.evidence.reference_to_image
        if view is None or rough.agreeing < DEFAULTS.fewest:
            break
        matches = matches_seen_from(view, reference, image)
        if matches is None:
            break
        closer = rough_view_of(matches, reference, image, limits)
        if closer.agreeing <= rough.agreeing:
            break
        rough, earlier = closer, rough
        if earlier.agreeing >= DEFAULTS.plenty:
            break
    return rough


def matches_seen_from(
    view: np.ndarray, reference: PreparedReference, image: ImageAnalysis
) -> Correspondences | None:
    """Match reference and image as they look from the front; None: too little is visible."""
    pictures = rectified(reference.image, reference.box, image.image, view, image.free)
    if pictures is None:
        return None
    side = max(pictures.image.shape)

    def find() -> SiftFeatures:
        found = sift_features(pictures.reference, side, CLOSER)
        mask = reference.given.counting_mask()
        return found if mask is None else found.inside(pictures.seen_mask(mask))

    # A copy that is seen from farther away is compared with the reference as it is.
    of_reference = reference.closer.get((pictures.part, pictures.image.shape), find)
    of_image = sift_features(pictures.image, side, CLOSER).inside(pictures.mask)
    matches = mutual_matches(of_reference, of_image, CLOSER)
    return Correspondences(
        warp_points(pictures.to_reference, matches.reference_points).astype(np.float32),
        warp_points(pictures.to_image, matches.image_points).astype(np.float32),
        matches.scores,
    )


PLUGIN = StrategyPlugin(
    name=Classical.name,
    description='matches SIFT keypoints, in any direction and at any scale',
    licence='Apache-2.0',
    load=lambda perception, store: Classical(perception.settings.max_image_side),
)
