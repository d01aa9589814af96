"""From a camera image to guidance: which reference is where, its landmarks, and its pose."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from niom_ros.core.settings import GuideOptions
from niom_ros.matching.geometry import Status
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prior import Prior
from niom_ros.references.given import NamedReference
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.landmarks import place_landmarks, PlacedLandmark
from niom_ros.stream.pose import find_pose, Pose
from niom_ros.stream.rotation import Rotation


@dataclass(frozen=True)
class Guidance:
    """All that is known about one frame, in pixels of the received image."""

    outcome: Match
    upright: Match  # the same in the upright image
    image: np.ndarray | None = None  # upright; None: it could not be read
    rotation: Rotation | None = None
    look: ImageAnalysis | None = None  # what the networks saw
    reference: NamedReference | None = None  # that the frame was compared with, or the best one
    landmarks: tuple[PlacedLandmark, ...] = ()
    pose: Pose | None = None
    no_pose: str = ''  # why there is no pose although the reference was found
    tried: tuple[tuple[str, float], ...] = ()  # every reference, and the confidence it reached
    matched_stamp: Any = None  # of the frame that was matched, if this one was only tracked

    @property
    def clue(self) -> Prior | None:
        """Return where to begin with the next image; None: the reference was not found."""
        return None if self.reference is None else Prior.of(self.reference.reference, self.upright)

    def but(self, status: Status, message: str) -> 'Guidance':
        """Return the guidance of a frame that must guide nobody, for this reason."""
        nothing = Match.without_matches(status, message)
        nothing = replace(nothing, stage_seconds=self.outcome.stage_seconds)
        return replace(self, outcome=nothing, upright=nothing, landmarks=(), pose=None, tried=())


def no_guidance(
    status: Status, message: str, image: np.ndarray | None = None, degrees: int = 0
) -> Guidance:
    """Return what is known about a frame that never came as far as matching."""
    nothing = Match.without_matches(status, message)
    if image is None:
        return Guidance(nothing, nothing)
    rotation = Rotation(degrees, image.shape[1], image.shape[0])
    return Guidance(nothing, nothing, rotation.upright(image), rotation)


def guide(
    pipeline: Matcher,
    references: Sequence[NamedReference],
    image: np.ndarray,
    camera: CameraModel | None,
    options: GuideOptions,
    no_camera: str = 'no camera_info has arrived',
    clue: Prior | None = None,
) -> Guidance:
    """Find the best of one or more references in a received RGB image.

    Without a camera there is no pose; `no_camera` says why. The clue is that of the last image in
    which one was found.
    """
    height, width = image.shape[:2]
    rotation = Rotation(options.rotation, width, height)
    look = pipeline.analyse(rotation.upright(image), options.most_keypoints)
    prepared = [named.reference for named in references]
    outcomes = pipeline.match_all(prepared, look, options.matching, clue)
    best = max(range(len(outcomes)), key=lambda index: outcomes[index].agreement)
    tried = tuple(
        (reference.id, tried.verdict.confidence)
        for reference, tried in zip(references, outcomes, strict=True)
    )
    guidance = guidance_on(
        references[best], outcomes[best], look.image, rotation, camera, options, no_camera
    )
    return replace(guidance, look=look, tried=tried)


def guidance_on(
    named: NamedReference,
    upright: Match,
    image: np.ndarray,
    rotation: Rotation,
    camera: CameraModel | None,
    options: GuideOptions,
    no_camera: str,
) -> Guidance:
    """Return what follows from what is known about a reference in an upright image."""
    outcome = rotation.received(upright)
    width, height = rotation.width, rotation.height
    landmarks = place_landmarks(
        named.given.landmarks,
        outcome.correspondences,
        outcome.verdict,
        width,
        height,
        options.landmark_mode,
        options.matching.limits.reprojection_error,
    )
    pose, no_pose = None, no_camera
    if camera is not None:
        pose, no_pose = pose_of(named, outcome, camera)
    return Guidance(
        outcome,
        upright,
        image,
        rotation,
        None,
        named,
        landmarks,
        pose,
        no_pose,
    )


def pose_of(named: NamedReference, outcome: Match, camera: CameraModel) -> tuple[Pose | None, str]:
    """Return where a reference that was found is in space, or why that is not known."""
    if outcome.verdict.status is not Status.OK:
        return None, ''
    if not named.given.physical_width:
        return None, f"the physical_width of '{named.id}' is not known"
    agreeing = outcome.verdict.inliers
    pose = find_pose(
        outcome.correspondences.reference_points[agreeing],
        outcome.correspondences.image_points[agreeing],
        named.given.size,
        named.given.physical_width,
        camera,
    )
    return pose, '' if pose is not None else 'no pose explains the agreeing points'
