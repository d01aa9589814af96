"""The result of looking for a reference in an image."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, KW_ONLY, replace

import numpy as np
import torch

from niom_ros.core.settings import WeightingKind
from niom_ros.drawings.edges import Edges
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.checks import as_dict
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.semantics.correspondence.field import PartField
from niom_ros.semantics.heat_maps import HeatMap
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import described_source, Scene

NO_NEED = 'found without weights'


@dataclass(frozen=True)
class Approach:
    """One way to look for a reference: a strategy, and how it weights keypoints."""

    strategy: str  # its registered name
    weighting: WeightingKind = 'none'  # other than auto


@dataclass(frozen=True)
class Weights:
    """The factors of the descriptors of one image, and where they came from."""

    values: torch.Tensor | None = None  # N; None: not weighted
    objects: tuple[int, ...] = ()  # the objects of the scene whose heat was used, if it is theirs
    source: str = ''  # where the weights came from
    why_none: str = ''  # why there are no weights
    heat: tuple[HeatMap, ...] = ()  # that the values came from
    asked_for: bool = True  # whether the image was to be weighted at all

    @classmethod
    def not_asked_for(cls) -> 'Weights':
        """Return the weights of an image that is not to be weighted."""
        return cls(why_none='not weighted', asked_for=False)

    @property
    def explained(self) -> bool:
        """Return whether it is known where weights came from, or why there are none."""
        return bool(self.source or self.why_none)

    @property
    def description(self) -> str:
        """Say where the weights came from, or 'none: ' and why there are none."""
        return described_source(self.source, self.why_none)


@dataclass(frozen=True, eq=False)
class Match:
    """The result of looking for a reference in an image.

    `reference_to_image` is set exactly when `found`; otherwise `status` and `message` say why
    not. If the status is ALIKE, `alike` is another object of the kind, with places but without a
    homography. All points are in pixels, pixel centres at integers.
    """

    verdict: Verdict
    correspondences: Correspondences = field(default_factory=Correspondences.none)
    _: KW_ONLY
    image_keypoints: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)
    by_keypoints: bool = True  # whether the time it took depends on the number of keypoints,
    fixed_seconds: float = 0.0  # except for this part of it
    scene: Scene = field(default_factory=Scene)  # objects of the image, if they were needed
    paired: PairedObjects = field(default_factory=PairedObjects)
    weighting: WeightingKind = 'none'  # applied; also 'none' if there was nothing to weight by
    reference_weights: Weights = Weights()
    image_weights: Weights = Weights()
    evidence: Evidence | None = None  # for the best view, even if it was rejected
    edges: Edges | None = None  # of the image, if a drawing was searched by its ink
    alike: AlikeObject | None = None  # what looks most like the reference, even if refused
    approach: Approach | None = None  # that led to this match
    locked: int = 0  # consecutive images in which it was found close to its last position

    @property
    def found(self) -> bool:
        """Return whether the reference was found."""
        return self.verdict.status is Status.OK

    @property
    def located(self) -> bool:
        """Return whether the reference was found, or another object of its kind."""
        return self.verdict.status in (Status.OK, Status.ALIKE)

    @property
    def status(self) -> Status:
        """Return OK, ALIKE, or why there is no match."""
        return self.verdict.status

    @property
    def message(self) -> str:
        """Say in one sentence how the match went."""
        return self.verdict.message

    @property
    def confidence(self) -> float:
        """Return the confidence of the match, 0 to 1."""
        return self.verdict.confidence

    @property
    def reference_to_image(self) -> np.ndarray | None:
        """Return the homography (3 x 3) from the reference to the image; None: not found."""
        return self.verdict.reference_to_image

    @property
    def inliers(self) -> np.ndarray:
        """Return which of the correspondences agree: M booleans."""
        return self.verdict.inliers

    @property
    def checks(self) -> dict[str, float]:
        """Return the numbers behind the answer, by name."""
        signs, uncertainty = self.alike.signs if self.alike else None, self.verdict.uncertainty
        return (
            as_dict(self.verdict.checks)
            | (uncertainty.as_checks() if uncertainty else {})
            | (asdict(signs) if signs else {})
        )

    @property
    def strategy(self) -> str:
        """Return the name of the strategy that led to this match, '' if none was tried."""
        return '' if self.approach is None else self.approach.strategy

    @property
    def parts(self) -> PartField | None:
        """Return the parts of the reference in the upright image, if they were looked for."""
        return None if self.alike is None else self.alike.parts

    @property
    def shows_parts(self) -> bool:
        """Return whether its points are those of parts, on an object that may be only alike."""
        return self.parts is not None and self.strategy == 'alike'

    @property
    def agreement(self) -> tuple[bool, float, int]:
        """Return a sort key: how well the correspondences agree."""
        return self.found, self.verdict.confidence, int(self.verdict.inliers.sum())

    def with_remark(self, remark: str) -> 'Match':
        """Return this match with something more to say, if anything."""
        if not remark:
            return self
        return replace(self, verdict=replace(self.verdict, message=f'{self.message}; {remark}'))

    def with_findings_of(self, other: 'Match') -> 'Match':
        """Return this match with what a worse one found besides, and whether it was weighted."""
        result = self
        alike = self.status is Status.ALIKE  # its points cannot be compared with keypoints
        if other.weighting != 'none' and self.weighting == 'none' and not alike:
            worse = Weights(
                why_none=f'{other.inliers.sum()} points agree with {other.weighting} weights, '
                f'{self.inliers.sum()} without'
            )
            result = replace(result, reference_weights=worse, image_weights=worse)
        elif alike and other.image_weights.explained:
            result = result._weighted_like(other)
        if other.scene.source_is_known:
            result = replace(result, scene=other.scene, paired=other.paired)
        if other.alike is not None and not alike:
            verdict = replace(self.verdict, message=f'{self.message}; {other.message}')
            result = replace(result, alike=other.alike, verdict=verdict)
        return result

    def instead_of(self, earlier: 'Match') -> 'Match':
        """Return this match with what is known from an earlier one that it replaces."""
        keypoints = max(earlier.image_keypoints, self.image_keypoints)
        result = replace(self, image_keypoints=keypoints)
        if not self.image_weights.explained:
            result = result._weighted_like(earlier)
        if not self.scene.source_is_known:
            result = replace(result, scene=earlier.scene, paired=earlier.paired)
        return result

    def _weighted_like(self, refused: 'Match') -> 'Match':
        """Return this match, which has no weights, with the reason that another one gives."""
        of_reference, of_image = sides = refused.reference_weights, refused.image_weights
        if refused.weighting != 'none':
            of_reference, of_image = (
                side
                if side.values is None
                else Weights(
                    why_none=f'not found with {refused.weighting} weights from {side.source}'
                )
                for side in sides
            )
        return replace(self, reference_weights=of_reference, image_weights=of_image)

    @classmethod
    def without_matches(cls, status: Status, message: str) -> 'Match':
        """Return the result for an image that was not matched."""
        return cls(Verdict(status, message, np.zeros(0, bool)))


NOT_TRIED = Match.without_matches(Status.FEW_MATCHES, 'no strategy could look for the reference')
"""The result before the first strategy has been tried."""


def mark_weights_unneeded(matches: Sequence[Match]) -> list[Match]:
    """Return the matches; those that were not weighted say that there was no need."""
    unneeded = Weights(why_none=NO_NEED)
    return [
        replace(match, reference_weights=unneeded, image_weights=unneeded)
        if match.weighting == 'none'
        else match
        for match in matches
    ]
