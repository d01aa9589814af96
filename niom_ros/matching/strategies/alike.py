"""Carrying the parts of a reference to another object of its kind, which has no homography."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from niom_ros.core.settings import Options, WeightingKind
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import Search, StrategyPlugin
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.semantics.correspondence.features import PartFeatures
from niom_ros.semantics.correspondence.field import (
    find_parts,
    PartField,
    PartReference,
    prepare_parts,
)
from niom_ros.semantics.heat_maps import Area

MODELS = ('mobilenet-v2', 'efficientnet-lite2')


@dataclass(frozen=True)
class AlikeParameters:
    """Which points are reported."""

    columns: int = 12  # of a grid over the reference, and rows
    # Chosen on every other pair of `niom eval landmarks`, where .86 of the landmarks that are so
    # certain are right; on the others .83 are.
    min_certainty: float = 0.88


DEFAULTS = AlikeParameters()


class Alike:
    """Returns corresponding points of the object that looks most like the reference.

    It never claims that the reference was found: whether the two are of the same kind is not
    decided yet, and points of different objects do not lie on a homography.
    """

    name: ClassVar[str] = 'alike'
    rank: ClassVar[int] = 400
    by_keypoints: ClassVar[bool] = False

    def __init__(self, perception: Perception, store: ModelStore) -> None:
        """Load the networks."""
        self._features = PartFeatures(store, perception.device)

    def weightings(
        self, reference: PreparedReference, options: Options
    ) -> Sequence[WeightingKind]:
        """Apply to everything, without weights."""
        return ('none',)

    def replaces(self, earlier: Match, later: Match) -> bool:
        """Return whether any part is certain, which says more than a failed search."""
        return bool(later.inliers.any()) or not len(earlier.correspondences)

    def find(self, search: Search) -> Match | None:
        """Find the parts of the reference in the object that looks most like it."""
        image = search.image
        with image.times.timed('alike'):
            parts = find_parts(self._features, self._prepared(search.reference), image.image)
            correspondences = carried(parts, grid_over(search.reference))
        certain = correspondences.scores >= DEFAULTS.min_certainty
        message = (
            'not found; the points are those of the object that looks most like it, of which '
            f'{certain.sum()} are certain'
        )
        verdict = Verdict(Status.LOW_CONFIDENCE, message, certain)
        return Match(verdict, correspondences, parts=parts, evidence=Evidence(certain))

    def find_in(self, reference: PreparedReference, image: np.ndarray, area: Area) -> PartField:
        """Find the parts of the reference in an area of an image, for benchmarks."""
        return find_parts(self._features, self._prepared(reference), image, area)

    def _prepared(self, reference: PreparedReference) -> PartReference:
        area = Area.of_box(reference.box)
        prepared: PartReference = reference.of_strategies.get(
            self.name, lambda: prepare_parts(self._features, reference.image, area)
        )
        return prepared


def grid_over(reference: PreparedReference) -> np.ndarray:
    """Return points all over the part of a reference that is used: N x 2."""
    box, mask = reference.box, reference.given.counting_mask()
    shares = (np.arange(DEFAULTS.columns) + 0.5) / DEFAULTS.columns
    columns, rows = np.meshgrid(
        box.left - 0.5 + shares * box.width, box.top - 0.5 + shares * box.height
    )
    points = np.column_stack([columns.ravel(), rows.ravel()])
    if mask is None:
        return points
    inside = np.clip(points.round().astype(int), 0, np.array(mask.shape[::-1]) - 1)
    return points[mask[inside[:, 1], inside[:, 0]] != 0]


def carried(parts: PartField, points: np.ndarray) -> Correspondences:
    """Return points of the reference and where they are in the image, the most certain first."""
    found = parts.carry(points)
    best_first = np.argsort(-found.certainty, kind='stable')
    return Correspondences(
        points[best_first].astype(np.float32),
        found.places[best_first].astype(np.float32),
        found.certainty[best_first].astype(np.float32),
    )


PLUGIN = StrategyPlugin(
    name=Alike.name,
    description='carries points to the object that looks most like the reference',
    licence='BSD-3 and Apache-2.0',
    load=Alike,
    models=models_named(*MODELS),
)
