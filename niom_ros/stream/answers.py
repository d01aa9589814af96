"""What is known about one camera image: which reference is where, its landmarks, its pose."""

from collections.abc import Sequence
from dataclasses import dataclass, KW_ONLY, replace
from functools import cached_property
import time
from typing import Any

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.settings import StreamOptions
from niom_ros.matching.geometry import Status, uncertainty_of
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prior import Prior
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.landmarks import named_places, place_landmarks, PlacedLandmark
from niom_ros.stream.pose import find_pose, Pose
from niom_ros.stream.rotation import Rotation

NO_CAMERA = 'no calibrated camera is given'


@dataclass(frozen=True, eq=False)
class Answer:
    """All that is known about one camera image.

    `match`, landmarks and pose are in pixels of the image as it was received; `upright` is the
    same match in the upright image, in which it was made.
    """

    upright: Match
    _: KW_ONLY
    image: np.ndarray | None = None  # upright; None: it could not be read
    rotation: Rotation | None = None
    analysis: ImageAnalysis | None = None  # what the networks saw; None: only tracked
    reference: KnownReference | None = None  # the best of those that were matched
    landmarks: tuple[PlacedLandmark, ...] = ()
    pose: Pose | None = None
    no_pose: str = ''  # why there is no pose although the reference was found
    tried: tuple[tuple[str, float], ...] = ()  # every reference, and the confidence it reached
    matched_tag: Any = None  # of the frame that was matched in full, if this one was tracked
    number: int = 0  # of what was found, the same from image to image; 0: it has none
    # This answer and those about equal objects, and why others that had a number are not seen
    instances: tuple['Answer', ...] = ()
    more: bool = False  # whether max_instances was reached, so that there may be more

    @cached_property
    def match(self) -> Match:
        """Return the match in pixels of the received image."""
        return self.upright if self.rotation is None else self.rotation.received(self.upright)

    @property
    def status(self) -> Status:
        """Return what happened to the image."""
        return self.upright.verdict.status

    @property
    def found(self) -> bool:
        """Return whether a reference was found in the image."""
        return self.status is Status.OK

    @property
    def located(self) -> bool:
        """Return whether a reference was found, or another object of its kind."""
        return self.upright.located

    @property
    def message(self) -> str:
        """Return the status in words, with what to do about it."""
        return self.upright.verdict.message

    @property
    def confidence(self) -> float:
        """Return the confidence of the match, 0 to 1."""
        return self.upright.verdict.confidence

    @property
    def reference_to_image(self) -> np.ndarray | None:
        """Return the homography to pixels of the received image; None: not found."""
        return self.match.verdict.reference_to_image

    @property
    def tracked(self) -> bool:
        """Return whether the reference was tracked from an earlier image, not matched in full."""
        return self.matched_tag is not None

    @property
    def prior(self) -> Prior | None:
        """Return where to start in the next image; None: the reference was not found."""
        return None if self.reference is None else Prior.of(self.reference.prepared, self.upright)

    def but(self, status: Status, message: str) -> 'Answer':
        """Return the answer to an image whose result must not be used, for this reason."""
        nothing = Match.without_matches(status, message)
        nothing = replace(nothing, stage_seconds=self.upright.stage_seconds)
        return replace(
            self, upright=nothing, landmarks=(), pose=None, tried=(), number=0, instances=()
        )


def no_answer(
    status: Status, message: str, image: np.ndarray | None = None, degrees: int = 0
) -> Answer:
    """Return the answer to an image that was not matched."""
    nothing = Match.without_matches(status, message)
    if image is None:
        return Answer(nothing)
    rotation = Rotation(degrees, image.shape[1], image.shape[0])
    return Answer(nothing, image=rotation.upright(image), rotation=rotation)


def find_best(
    matcher: Matcher,
    references: Sequence[KnownReference],
    image: np.ndarray,
    options: StreamOptions,
    *,
    camera: CameraModel | None = None,
    no_camera: str = NO_CAMERA,
    prior: Prior | None = None,
    max_keypoints: int | None = None,
    expected: Sequence[tuple[int, np.ndarray]] = (),
) -> Answer:
    """Find the best of one or more references in a received RGB image, by a full match.

    If it was found, `instances` of the answer are its place and up to `max_instances` in all;
    `expected` are revisions of references and outlines (4 x 2) of what was tracked to the image.
    Without a camera there is no pose; `no_camera` says why. `prior` comes from the last image in
    which one was found. At most `max_keypoints` are matched; None: as many as the extractor finds.
    """
    height, width = image.shape[:2]
    rotation = Rotation(options.rotation, width, height)
    analysis = matcher.analyse(rotation.upright(image), max_keypoints)
    prepared = [known.prepared for known in references]
    matches = matcher.match_all(prepared, analysis, options.matching, prior)
    best = max(range(len(matches)), key=lambda index: matches[index].agreement)
    tried = tuple(
        (known.id, match.confidence) for known, match in zip(references, matches, strict=True)
    )
    found = [(best, matches[best])]
    if matches[best].found and options.matching.max_instances > 1:
        begun = time.perf_counter()
        views = [
            (index, view_from(known.prepared.box, outline))
            for index, known in enumerate(references)
            for revision, outline in expected
            if revision == known.revision
        ]
        found += matcher.find_further(prepared, matches, analysis, options.matching, views)
        # Like the search by ink, this does not depend on how many keypoints were asked for.
        fixed = matches[best].fixed_seconds + time.perf_counter() - begun
        seconds = analysis.times.seconds()
        found[0] = best, replace(matches[best], stage_seconds=seconds, fixed_seconds=fixed)
    answers = [
        answer_about(
            references[index],
            match,
            analysis.image,
            rotation=rotation,
            options=options,
            camera=camera,
            no_camera=no_camera,
        )
        for index, match in found
    ]
    instances = tuple(answers) if answers[0].located else ()
    more = len(found) == options.matching.max_instances > 1
    return replace(answers[0], analysis=analysis, tried=tried, instances=instances, more=more)


def view_from(box: Box, outline: np.ndarray) -> np.ndarray:
    """Return the view that puts the corners of a reference there: 3 x 3."""
    corners = box.corners().astype(np.float32)
    return np.asarray(cv2.getPerspectiveTransform(corners, outline.astype(np.float32)))


def answer_about(
    known: KnownReference,
    upright: Match,
    image: np.ndarray,
    *,
    rotation: Rotation,
    options: StreamOptions,
    camera: CameraModel | None,
    no_camera: str,
) -> Answer:
    """Return what follows from the match of a reference with an upright image."""
    answer = Answer(upright, image=image, rotation=rotation, reference=known)
    landmarks = landmarks_in(answer.match, known, rotation, options)
    pose, no_pose = None, no_camera
    if camera is not None:
        pose, no_pose = pose_of(known, answer.match, camera)
    return replace(answer, landmarks=landmarks, pose=pose, no_pose=no_pose)


def landmarks_in(
    match: Match, known: KnownReference, rotation: Rotation, options: StreamOptions
) -> tuple[PlacedLandmark, ...]:
    """Return the landmarks of a reference that was found, or on another object of its kind."""
    landmarks, size = known.given.landmarks, (rotation.width, rotation.height)
    if match.status is Status.ALIKE and match.alike is not None:
        return named_places(landmarks, match.alike.landmarks, *size)
    return place_landmarks(
        landmarks,
        match.correspondences,
        match.verdict,
        *size,
        mode=options.landmark_mode,
        reprojection_error=options.matching.limits.reprojection_error,
    )


def pose_of(known: KnownReference, match: Match, camera: CameraModel) -> tuple[Pose | None, str]:
    """Return the pose of a reference that was found, or why it is unknown."""
    if match.verdict.status is not Status.OK:
        return None, ''
    if not known.given.physical_width:
        return None, f"the physical_width of '{known.id}' is not known"
    agreeing = match.verdict.inliers
    if not agreeing.any():
        return None, 'no points agree'
    pose = find_pose(
        match.correspondences.reference_points[agreeing],
        match.correspondences.image_points[agreeing],
        known.given.size,
        known.given.physical_width,
        camera,
        uncertainty_of(match.verdict, match.correspondences),
    )
    return pose, '' if pose is not None else 'no pose explains the agreeing points'
