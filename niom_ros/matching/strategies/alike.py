"""Finding another object of the reference's kind, and where the reference's points are on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from niom_ros.core.settings import Options, Sought, WeightingKind
from niom_ros.matching.alike_confidence import alike_confidence, guide_points
from niom_ros.matching.alike_object import (
    AlikeObject,
    CERTAIN,
    fit_warp,
    GuidePoints,
    MIN_CERTAIN,
    MIN_CONFIDENCE,
)
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import MIN_SIDE
from niom_ros.matching.found_parts import found_parts, prepared_parts
from niom_ros.matching.geometry import Evidence, MAX_REFUSED_CONFIDENCE, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import Search, StrategyPlugin
from niom_ros.models.table import models_named
from niom_ros.semantics.correspondence.features import PartFeatures
from niom_ros.semantics.correspondence.field import PartField, parts_in
from niom_ros.semantics.heat_maps import Area

MODELS = ('mobilenet-v2', 'efficientnet-lite2')


@dataclass(frozen=True)
class AlikeParameters:
    """Which points are reported, and what is claimed."""

    columns: int = 12  # of a grid over the reference, and rows
    min_certain: int = MIN_CERTAIN  # points, unless a detector gives both the same label
    min_confidence: float = MIN_CONFIDENCE  # of the kind, for ALIKE
    # How much more certain parts may be if one picture is mirrored. Seen from its other side, a
    # duck reaches 0.28; two faces of one direction, rarely 0.1.
    most_mirrored: float = 0.12
    margin: float = 0.2  # around marked objects, of their longer side


DEFAULTS = AlikeParameters()


class Alike:
    """Finds the object that looks most like the reference, and says whether it is of its kind.

    It never returns a homography: points of different objects do not lie on one.
    """

    name: ClassVar[str] = 'alike'
    rank: ClassVar[int] = 400
    seeks: ClassVar[Sought] = 'same_kind'
    by_keypoints: ClassVar[bool] = False

    def __init__(self, perception: Perception) -> None:
        """Use the networks of a perception; they are loaded when they are needed."""
        self._perception = perception

    def load_networks(self) -> None:
        """Load the networks, unless they are loaded already."""
        self._perception.load_part_features()

    @property
    def _features(self) -> PartFeatures:
        return self._perception.load_part_features()

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Apply to everything, without weights."""
        return ('none',)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether one of the kind was found; also if nothing else was tried."""
        return later.located or earlier.approach is None

    def find(self, search: Search) -> Match | None:
        """Find the object that looks most like the reference."""
        image, reference = search.image, search.reference
        _ = image.scene  # detected here: its time is counted apart
        with image.times.timed('alike'):
            area = area_of(reference)
            found = found_parts(self._features, reference, image, area)
            grid = grid_over(reference, area)
            grid = grid[found.field.on_object(grid)]
            points = guide_points(found.field, grid)
            alike = AlikeObject(
                confidence=alike_confidence(found),
                box=found.area.within(image.whole.width, image.whole.height),
                landmarks=landmarks_on(found.field, reference),
                size=found.field.object_size,
                signs=found.signs,
                parts=found.field,
            )
        best_first = np.argsort(-points.confidences, kind='stable')
        confidences = points.confidences[best_first].astype(np.float32)
        correspondences = Correspondences(
            grid[best_first].astype(np.float32),
            points.places[best_first].astype(np.float32),
            confidences,
        )
        certain = confidences >= CERTAIN
        if certain.sum() >= DEFAULTS.min_certain:
            warp = fit_warp(correspondences, confidences, alike.size)
            alike = replace(alike, warp=warp)
        verdict = judged(alike, certain)
        return Match(verdict, correspondences, alike=alike, evidence=Evidence(verdict.inliers))

    def find_in(self, reference: PreparedReference, image: np.ndarray, area: Area) -> PartField:
        """Find the parts of the reference in an area of an image, for benchmarks."""
        prepared = prepared_parts(self._features, reference, area_of(reference))
        return parts_in(self._features, prepared, image, area)


def judged(alike: AlikeObject, certain: np.ndarray) -> Verdict:
    """Return whether an object is of the reference's kind, and how many points are certain."""
    confidence, count = alike.confidence, int(certain.sum())
    mirrored = 0.0 if alike.signs is None else alike.signs.mirrored
    if confidence < DEFAULTS.min_confidence:
        message = (
            f'no object of its kind is seen: confidence {confidence:.2f}, '
            f'{DEFAULTS.min_confidence:.2f} is needed'
        )
    elif mirrored > DEFAULTS.most_mirrored:
        message = (
            'an object of its kind may be seen, but mirrored or from its other side: set the '
            'mirrored picture as another reference'
        )
    elif count < DEFAULTS.min_certain and not is_labelled(alike):
        message = (
            f'no object of its kind is seen: only {count} of {len(certain)} points are certain, '
            f'{DEFAULTS.min_certain} are needed'
        )
    else:
        message = f'another object of its kind; {count} of {len(certain)} points are certain'
        return Verdict(Status.ALIKE, message, certain, confidence=confidence)
    confidence = min(confidence, MAX_REFUSED_CONFIDENCE)
    return Verdict(Status.LOW_CONFIDENCE, message, certain, confidence=confidence)


def is_labelled(alike: AlikeObject) -> bool:
    """Return whether a detector sees an object of the reference's label at the same place.

    Then its box is known, even if it is not certain where on it each part is.
    """
    return alike.signs is not None and alike.signs.label > 0


def landmarks_on(field: PartField, reference: PreparedReference) -> GuidePoints:
    """Return where the landmarks of a reference are; what is masked has no confidence."""
    landmarks, mask = reference.given.landmarks, reference.given.counting_mask()
    if not landmarks:
        return GuidePoints.none()
    points = np.array([[mark.x, mark.y] for mark in landmarks])
    guides = guide_points(field, points)
    return guides if mask is None else guides.only_where(is_used(mask, points), field.object_size)


def area_of(reference: PreparedReference) -> Area:
    """Return the part of a reference that shows the object: what is marked, with a margin."""
    used, marked = Area.of_box(reference.box), [one.area for one in reference.given.objects]
    if not marked:
        return used
    together = Area.around(np.concatenate([area.corners() for area in marked]))
    wanted = together.enlarged(DEFAULTS.margin * max(together.width, together.height))
    around = Area(
        max(used.left, wanted.left),
        max(used.top, wanted.top),
        min(used.right, wanted.right),
        min(used.bottom, wanted.bottom),
    )
    return around if min(around.width, around.height) >= MIN_SIDE else used


def grid_over(reference: PreparedReference, area: Area) -> np.ndarray:
    """Return points all over an area of a reference, where it is used: N x 2."""
    mask = reference.given.counting_mask()
    shares = (np.arange(DEFAULTS.columns) + 0.5) / DEFAULTS.columns
    columns, rows = np.meshgrid(area.left + shares * area.width, area.top + shares * area.height)
    points = np.column_stack([columns.ravel(), rows.ravel()])
    if mask is None:
        return points
    return points[is_used(mask, points)]


def is_used(mask: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return which points (N x 2) lie where a mask is not 0."""
    inside = np.clip(points.round().astype(int), 0, np.array(mask.shape[::-1]) - 1)
    return np.asarray(mask[inside[:, 1], inside[:, 0]] != 0)


PLUGIN = StrategyPlugin(
    name=Alike.name,
    description='finds another object of the kind, and the points of the reference on it',
    licence='BSD-3 and Apache-2.0',
    load=lambda perception, store: Alike(perception),
    models=models_named(*MODELS),
)
