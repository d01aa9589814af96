"""What is remembered from one full match to the next: where the reference and objects were."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.references.known_reference import KnownReference
from niom_ros.semantics.scene import Scene
from niom_ros.stream.answers import Answer
from niom_ros.tracking.track import Tracked


@dataclass(frozen=True)
class Sighting:
    """Objects that were detected in an image, and where the reference was in it."""

    scene: Scene
    reference: PreparedReference
    reference_to_image: np.ndarray  # 3 x 3
    stamp: float  # of the image, in seconds
    shape: tuple[int, ...]  # of the image


class Recollection:
    """Remembers where to start in the next image of a stream."""

    def __init__(self) -> None:
        """Start without any memory."""
        self._prior: Prior | None = None  # of the last image in which a reference was found
        self._sighting: Sighting | None = None  # of the last image whose objects were detected

    def forget(self) -> None:
        """Start without a memory again."""
        self._prior = self._sighting = None

    def prior(
        self,
        references: Sequence[KnownReference],
        tracked: Tracked | None,
        *,
        stamp: float,
        shape: tuple[int, ...],
        detection_interval: float,
    ) -> Prior | None:
        """Return where to start in an image: where the reference was, or was tracked to.

        If it was tracked, objects detected within the last `detection_interval` seconds move along
        with it.
        """
        prior = self._prior
        view = None if tracked is None else tracked.verdict.reference_to_image
        if prior is None or tracked is None or view is None:
            return prior
        known = [each.prepared for each in references if each.revision == tracked.revision]
        if not any(reference is prior.reference for reference in known):
            return prior
        scene, seen = None, self._sighting
        if (
            seen is not None
            and seen.reference is prior.reference
            and seen.shape == shape
            and 0 <= stamp - seen.stamp < detection_interval
        ):
            scene = seen.scene.carried(view @ np.linalg.inv(seen.reference_to_image))
        return replace(prior, reference_to_image=view, tracked=True, scene=scene)

    def note(self, answer: Answer, stamp: float) -> None:
        """Remember what was found in an image."""
        prior, analysis = answer.prior, answer.analysis
        if prior is None or analysis is None:
            self._sighting = None  # it may have been wrong
            return
        self._prior = prior
        if analysis.scene_was_detected:
            self._sighting = Sighting(
                scene=analysis.scene,
                reference=prior.reference,
                reference_to_image=prior.reference_to_image,
                stamp=stamp,
                shape=analysis.image.shape,
            )
