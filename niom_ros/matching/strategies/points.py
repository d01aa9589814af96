"""Finding a reference by its keypoints, weighted by the objects they are on, or unweighted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math
from typing import ClassVar

import numpy as np
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.plugins import FAILED, MATCHERS
from niom_ros.core.settings import (
    HeatSourceName,
    Options,
    Sought,
    Weighting,
    WeightingKind,
)
from niom_ros.core.uncertainty import KEYPOINTS
from niom_ros.matching.confidence import Calibration, calibration_of
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Features
from niom_ros.matching.geometry import in_front, locate, Status, Verdict
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.keypoint_matcher import PreparedFeatures
from niom_ros.matching.match import Match
from niom_ros.matching.perception import Perception
from niom_ros.matching.planes import on_one_plane
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.recently_used import RecentlyUsed
from niom_ros.matching.strategies.heat_sources import HeatSource, SOURCES
from niom_ros.matching.strategies.ink_judgement import searches_by_ink
from niom_ros.matching.strategies.strategy import agrees_at_least_as_well, Search, StrategyPlugin
from niom_ros.matching.weighting import NO_HEAT, weighted, WeightPair, weights_for


@dataclass(frozen=True)
class NearbyParameters:
    """Which part of the image to search when it is roughly known where the reference is."""

    margin: float = 0.1  # around the expected outline, share of its width and height
    least_margin: float = 16.0  # pixels
    smallest_part: int = 64  # pixels in each direction: a smaller part has too little to match
    largest_part: float = 0.8  # share of the image; above this, the whole image is searched
    keypoint_steps: tuple[float, ...] = (0.125, 0.25, 0.375, 0.5, 0.75, 1.0)  # share of the most
    fewest_keypoints: int = 256  # worth matching


DEFAULTS = NearbyParameters()


class Points:
    """Matches keypoints, and accepts the homography if enough of them agree with it.

    Weights cost matches where both images show the same object, and help where the objects are
    only similar: so 'auto' tries without weights first, and with weights if that fails.
    """

    name: ClassVar[str] = 'points'
    rank: ClassVar[int] = 100
    seeks: ClassVar[Sought] = 'same_object'
    by_keypoints: ClassVar[bool] = True

    def __init__(self, perception: Perception) -> None:
        """Use these networks."""
        self.calibration = calibration_of(perception.method)
        self._perception = perception
        self._matcher = perception.keypoint_matcher
        self._heat_sources: RecentlyUsed[HeatSource] = RecentlyUsed(len(SOURCES))

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Return the kinds to try; for a drawing, ink is tried instead of weights."""
        kind = options.weighting.kind
        if options.keypoint_search == 'classical':
            return ()
        if not searches_by_ink(reference, options):
            return ('none', 'sew') if kind == 'auto' else (kind,)
        if options.drawing_search == 'ink':
            return ()
        return ('none',) if kind == 'auto' else (kind,)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether the later match is at least as confident."""
        return agrees_at_least_as_well(earlier, later)

    def find(self, search: Search) -> Match | None:
        """Match keypoints; first where the reference was tracked to, if that is known."""
        return self._find_nearby(search) or self._find_in(search, search.image)

    def _find_nearby(self, search: Search) -> Match | None:
        """Find a reference around where it was tracked to; None: not found there.

        A smaller part of the image is searched, at a higher resolution. Now and then the whole
        image is searched anyway.
        """
        prior, image = search.own_prior, search.image
        if prior is None or not prior.tracked or not prior.is_fresh or not search.only_reference:
            return None
        part = part_around(prior.reference_to_image, search.reference.box, image.whole)
        if part is None:
            return None
        most = image.max_keypoints or self._perception.settings.max_keypoints
        share = math.sqrt(part.area / image.whole.area)
        match = self._find_in(search, image.of_part(part, keypoint_step(most, most * share)))
        found = match.reference_to_image
        if found is None or not prior.is_close_to(found):
            return None  # one of the two is wrong: search the whole image
        return replace(match, locked=prior.locked + 1)

    def _find_in(self, search: Search, image: ImageAnalysis) -> Match:
        """Find the reference by the keypoints of an image, or of a part of it."""
        reference, options = search.reference, search.options
        if image.max_keypoints:
            reference = reference.with_most(image.max_keypoints)
        weighting = replace(options.weighting, kind=search.approach.weighting)
        if weighting.range is None:
            weighting = replace(weighting, range=self._perception.extractor.weight_range)
        heat = NO_HEAT
        if weighting.kind != 'none':
            heat = self._heat_source(weighting.source).heat_of(search, reference, image)
        features = image.features
        if len(features) < 4:
            message = (
                f'the image has only {len(features)} distinct points: '
                'check light, focus, lens cap and image size'
            )
            nothing = Match.without_matches(Status.NO_KEYPOINTS, message)
            return replace(nothing, image_keypoints=len(features))
        keypoints = features.keypoints + features.keypoints.new_tensor(image.place)
        weights = weights_for(replace(heat, image=heat.image.at(keypoints)), weighting)
        tried_without = search.earlier.approach == replace(search.approach, weighting='none')
        if tried_without and weights.of_image.values is None:  # would give the same result
            return replace(
                search.earlier,
                scene=heat.objects,
                paired=heat.paired,
                image_weights=weights.of_image,
            )
        with image.times.timed('match'):
            correspondences = self._match_keypoints(
                reference, features, weights, weighting, options.limits.score_threshold
            ).moved_in_image(*image.place)
        verdict = verified(correspondences, search, image, self.calibration)
        return Match(
            verdict=verdict,
            correspondences=correspondences,
            image_keypoints=len(features),
            scene=heat.objects,
            paired=heat.paired,
            weighting=weighting.kind if weights.apply else 'none',
            reference_weights=weights.of_reference,
            image_weights=weights.of_image,
        )

    def _heat_source(self, name: HeatSourceName) -> HeatSource:
        """Return where heat comes from, loaded with the first weights that need it."""
        return self._heat_sources.get(name, lambda: SOURCES[name](self._perception))

    def _match_keypoints(
        self,
        reference: PreparedReference,
        image: Features,
        weights: WeightPair,
        weighting: Weighting,
        score_threshold: float,
    ) -> Correspondences:
        """Return the corresponding keypoints."""
        if not len(reference.features) or not len(image):
            return Correspondences.none()
        of_reference, of_image = weights.of_reference, weights.of_image
        with MATCHERS.blaming(self._perception.settings.matcher, FAILED):
            matches = self._matcher.match(
                self._prepare_reference(reference, weights, weighting),
                self._prepare(image, of_image.values, weighting.stage),
                score_threshold,
            )
        return Correspondences(
            reference_points=reference.features.keypoints[matches.reference_index].cpu().numpy(),
            image_points=image.keypoints[matches.image_index].cpu().numpy(),
            scores=matches.scores.cpu().numpy(),
            reference_weights=weights_at(of_reference.values, matches.reference_index),
            image_weights=weights_at(of_image.values, matches.image_index),
        )

    def _prepare_reference(
        self, reference: PreparedReference, weights: WeightPair, weighting: Weighting
    ) -> PreparedFeatures:
        """Prepare the features of a reference, once for all images with the same weights."""
        weights_of = weights.of_reference

        def prepare() -> PreparedFeatures:
            return self._prepare(reference.features, weights_of.values, weighting.stage)

        if not weights.fixed_reference:
            return prepare()
        # The weights depend only on the objects used and the kind of weighting.
        key = None if weights_of.values is None else (weights_of.objects, weighting)
        return reference.prepared_features.get(key, prepare)

    def _prepare(
        self, features: Features, weights: torch.Tensor | None, stage: str
    ) -> PreparedFeatures:
        """Prepare features for the keypoint matcher, weighted before or after its first layer."""
        if weights is not None and stage == 'before':
            features = with_weights(features, weights)
        projected = self._matcher.project(features)
        if weights is not None and stage == 'after':
            projected = with_weights(projected, weights)
        return self._matcher.prepare(projected)


def verified(
    correspondences: Correspondences,
    search: Search,
    image: ImageAnalysis,
    calibration: Calibration | None,
) -> Verdict:
    """Decide where matched keypoints put the reference of a search, and whether to believe it."""
    reference, limits = search.reference, search.options.limits
    with image.times.timed('verify'):
        verdict = locate(
            correspondences,
            reference.box,
            reference.counting_area,
            image.whole,
            limits,
            calibration,
        )
        return on_one_plane(
            verdict, correspondences, reference.box, image.whole, limits, KEYPOINTS
        )


def part_around(reference_to_image: np.ndarray, box: Box, whole: Box) -> Box | None:
    """Return the part of an image around a reference; None: it is too small, or almost all."""
    if not in_front(reference_to_image, box):
        return None
    corners = warp_points(reference_to_image, box.corners())
    least, most = corners.min(axis=0), corners.max(axis=0)
    margin = np.maximum(DEFAULTS.margin * (most - least), DEFAULTS.least_margin)
    edges = np.concatenate([np.floor(least - margin), np.ceil(most + margin)])
    left, top, right, bottom = edges.clip(0, [whole.width, whole.height] * 2).astype(int).tolist()
    part = Box(left, top, right - left, bottom - top)
    too_small = min(part.width, part.height) < DEFAULTS.smallest_part
    if too_small or part.area > DEFAULTS.largest_part * whole.area:
        return None
    return part


def keypoint_step(most: int, wanted: float) -> int:
    """Return the number of keypoints to use, rounded up to one of a few, which are cached."""
    steps = (round(most * step) for step in DEFAULTS.keypoint_steps)
    least = max(wanted, DEFAULTS.fewest_keypoints)
    return next((step for step in steps if step >= least), most)


def with_weights(features: Features, weights: torch.Tensor) -> Features:
    """Return features with their descriptors multiplied by the weights."""
    return replace(features, descriptors=weighted(features.descriptors, weights))


def weights_at(weights: torch.Tensor | None, index: torch.Tensor) -> np.ndarray | None:
    """Return the weights of the matched keypoints."""
    return None if weights is None else weights[index].float().cpu().numpy()


PLUGIN = StrategyPlugin(
    name=Points.name,
    description='matches keypoints, weighted or not',
    licence='Apache-2.0',
    load=lambda perception, store: Points(perception),
)
