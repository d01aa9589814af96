"""Tracking one reference from a full match on, as long as its position is certain."""

from dataclasses import dataclass, field, KW_ONLY, replace
import math
from typing import ClassVar

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import jacobians_at, warp_points
from niom_ros.core.settings import Limits
from niom_ros.core.uncertainty import SUBPIXEL, ViewUncertainty
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.checks import Checks
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import (
    Evidence,
    implausibility,
    in_front,
    measure,
    relative_corner_error,
    remark_on,
    Status,
    TOO_UNCERTAIN,
    uncertainty_of,
    Verdict,
    visible_deviation,
)
from niom_ros.matching.offset_field import flatness_of, flattened, offset_field
from niom_ros.matching.planes import is_flat
from niom_ros.tracking.appearance import Appearance, AppearanceParameters
from niom_ros.tracking.corners import (
    choose_corners,
    CornerParameters,
    fit_homography,
    FlowParameters,
    motion_between,
)
from niom_ros.tracking.frames import FrameParameters, grey_frame, GreyFrame
from niom_ros.tracking.patches import Patches, PatchParameters


@dataclass(frozen=True, kw_only=True)
class TrackingParameters:
    """When a track is accepted, when its keyframe is renewed, and its confidence."""

    min_points: int = 15  # patches that must agree with the homography
    min_agreeing: float = 0.25  # share of the patches that should be in view
    min_share_alike: float = 0.3  # share of the blocks in view that look as in the full match
    min_correlation: float = 0.7  # normalised cross-correlation of a patch that counts as found
    reprojection_error: float = 1.5  # pixels of the grey frame within which a patch agrees
    max_distortion: float = 0.25  # of the corners against each other, relative to the outline
    frame_time: float = 0.1  # seconds for which max_distortion holds; it grows with longer gaps
    max_growth: float = 2.0  # of the deviation of the full match
    max_refits: int = 2  # if only some of the patches were found
    max_search_time: float = 0.5  # seconds after the last good frame, before it takes a full match
    hull_scale: float = 1.15  # of the hull of the match's inliers, in which patches may lie

    # A new keyframe inherits the error of its frame. So it is taken only when the view has changed
    # too much, from a frame beyond doubt, and while errors are small.
    max_drift: float = 2.0  # pixels of the image, at the corners
    min_scale: float = 0.65  # of a patch relative to the keyframe
    max_scale: float = 1.5
    min_certain: float = 0.7  # share of patches and of blocks that agree in a frame beyond doubt
    min_in_view: int = 50  # patches; with fewer, a new keyframe may have more
    min_keyframe_age: float = 0.3  # seconds from one keyframe to the next

    half_life: float = 20.0  # seconds in which the confidence above 0.5 is halved
    plenty_of_points: int = 40  # agreeing patches; more do not raise the confidence
    plenty_agreeing: float = 0.6  # share of agreeing patches; a larger one does not raise it

    frames: FrameParameters = field(default_factory=FrameParameters)
    corners: CornerParameters = field(default_factory=CornerParameters)
    flow: FlowParameters = field(default_factory=FlowParameters)
    patches: PatchParameters = field(default_factory=PatchParameters)
    appearance: AppearanceParameters = field(default_factory=AppearanceParameters)


DEFAULTS = TrackingParameters()


@dataclass(frozen=True, kw_only=True)
class FullMatch:
    """An accepted full match of one frame."""

    only_alike: ClassVar[bool] = False  # whether it found another object of the kind

    stamp: float  # of the frame, in seconds
    image: np.ndarray  # RGB
    verdict: Verdict  # with status OK
    correspondences: Correspondences
    reference_box: Box
    counting_area: float  # pixels of the box that are not masked
    revision: int = 0  # of the reference; another revision is another reference
    number: int = 0  # of the thing that was found
    among_equals: bool = False  # whether others that look the same may be near

    def __post_init__(self) -> None:
        """Refuse a match without a valid homography."""
        if self.verdict.reference_to_image is None:
            raise ValueError('only a full match with status OK can be tracked')
        if not np.isfinite(self.verdict.reference_to_image).all():
            raise ValueError('the homography of a full match must be made of numbers')

    @property
    def uncertainty(self) -> ViewUncertainty:
        """Return how certain the view is."""
        return uncertainty_of(self.verdict, self.correspondences, self.reference_box)

    def track(
        self, limits: Limits | None = None, parameters: TrackingParameters = DEFAULTS
    ) -> 'Track':
        """Return a track that starts here."""
        return Track(self, limits, parameters)

    def replaces(self, former: object) -> bool:
        """Return whether this may end another track: always."""
        return True

    def error_of(self, former: object, view: np.ndarray) -> float:
        """Return the relative corner error of the view that a track had; infinite: of another."""
        found = self.verdict.reference_to_image
        if not isinstance(former, Track) or found is None or self.revision != former.revision:
            return math.inf
        if self.reference_box != former.reference_box:
            return math.inf
        return relative_corner_error(view, found, self.reference_box)

    def seen_from(self, then: np.ndarray, view: np.ndarray) -> np.ndarray:
        """Return a view of another track as one of this: both start at the reference."""
        return view


@dataclass(frozen=True)
class Tracked:
    """Where the reference is in one frame, if known."""

    stamp: float  # of the frame, in seconds
    verdict: Verdict
    _: KW_ONLY
    correspondences: Correspondences = field(default_factory=Correspondences.none)
    revision: int = 0  # of the reference; another revision is another reference
    matched_stamp: float = math.nan  # of the frame of the full match; NaN: there was none
    alike: AlikeObject | None = None  # with status ALIKE: it, and where its landmarks are
    motion: np.ndarray | None = None  # with status ALIKE: 3 x 3, from the image that was matched
    number: int = 0  # that the full match gave it

    @property
    def found(self) -> bool:
        """Return whether the reference was found."""
        return self.verdict.status is Status.OK

    @property
    def located(self) -> bool:
        """Return whether the reference was found, or another object of its kind."""
        return self.view is not None

    @property
    def view(self) -> np.ndarray | None:
        """Return the transform (3 x 3) from what is tracked to the image; None: it is lost."""
        return self.verdict.reference_to_image if self.motion is None else self.motion

    @property
    def age(self) -> float:
        """Return the seconds from the full match to this frame."""
        return self.stamp - self.matched_stamp


@dataclass(frozen=True, kw_only=True)
class TrackChecks(Checks):
    """Measurements of a tracked view."""

    share_alike: float  # share of the blocks in view that look as in the full match
    drift: float  # pixels of the image, since the full match


@dataclass(frozen=True)
class Keyframe:
    """The frame that the patches were cut from, and its own drift."""

    frame: GreyFrame
    reference_to_grey: np.ndarray  # 3 x 3
    patches: Patches
    reference_points: np.ndarray  # N x 2, of the patches if all of them were on one plane
    # Where they really are on the reference, and which ones are not on that plane
    true_points: np.ndarray
    beside: np.ndarray  # N booleans
    uncertainty: ViewUncertainty  # of where the patches are on the reference
    drift: float = 0.0  # pixels of the image, since the full match


@dataclass(frozen=True)
class Fit:
    """Where patches put the reference in a frame, and how many of them agree."""

    reference_to_grey: np.ndarray | None  # 3 x 3; None: they agree on no homography
    agreeing: np.ndarray  # booleans, of the patches in view
    correspondences: Correspondences  # of the patches in view, best correlation first
    expected: int  # patches in view that are on the plane of the reference
    patches: np.ndarray  # numbers of the patches in view, in the same order
    shifts: np.ndarray  # N x 2, of all patches: from where the plane of the reference puts them

    @property
    def count(self) -> int:
        """Return the number of patches that agree."""
        return int(self.agreeing.sum())

    @property
    def share(self) -> float:
        """Return the share of the patches in view that agree, of those that should."""
        return self.count / max(1, self.expected)


class Track:
    """Tracks what a full match found.

    Each frame takes two steps. Optical flow since the last good frame says roughly where the
    reference went. From there, patches of the keyframe, usually the frame of the full match, are
    aligned with the new frame. So errors do not add up from frame to frame, hidden points are used
    again once they reappear, and patches that no longer look the same are ignored.
    """

    def __init__(
        self,
        match: FullMatch,
        limits: Limits | None = None,
        parameters: TrackingParameters = DEFAULTS,
    ) -> None:
        """Start in the frame of a full match."""
        reference_to_image = match.verdict.reference_to_image
        assert reference_to_image is not None
        self._parameters = parameters
        limits = limits or Limits()
        # A part of what the full match saw may leave the image.
        self._limits = replace(limits, min_coverage=limits.min_coverage / 2)
        self.reference_box, self._counting_area = match.reference_box, match.counting_area
        self._area = tracked_area(match, parameters.hull_scale)
        self._confidence = match.verdict.confidence
        self.revision, self.matched_stamp = match.revision, match.stamp
        self.number = match.number
        # Then neighbours that move alike may be those of another one that is in front.
        self._among_equals = match.among_equals
        # Whether all of it moves like one plane, as far as is known
        self._flat = is_flat(match.verdict)
        self._flatness = (
            math.nan if match.verdict.checks is None else match.verdict.checks.flatness
        )
        # The last frame in which the reference was found, and the homography to its grey pixels.
        self._frame = grey_frame(match.image, match.stamp, parameters.frames)
        self._reference_to_grey = self._frame.image_to_grey @ reference_to_image
        self._keyframe = self._keyframe_from(match.verdict, match.correspondences, 0.0)
        # A track may become less certain than the full match that it began with, up to a limit.
        begun = visible_deviation(match.uncertainty, Box(0, 0, *self._frame.image_size))
        self._most_uncertain = max(
            TOO_UNCERTAIN * limits.reprojection_error, parameters.max_growth * begun
        )
        self._shifts: np.ndarray | None = None  # of the patches in the last good frame
        self._appearance = Appearance(
            self._frame, self._reference_to_grey, self.reference_box, parameters.appearance
        )
        self.newest = self._tracked(match.stamp, match.verdict, match.correspondences)

    @property
    def drift(self) -> float:
        """Return the error of the corners that keyframes have added up, in pixels of the image."""
        return self._keyframe.drift

    @property
    def frame(self) -> GreyFrame:
        """Return the last frame in which the reference was found."""
        return self._frame

    @property
    def lost_for_good(self) -> bool:
        """Return whether the reference was lost too long ago to be searched."""
        waited = self.newest.stamp - self._frame.stamp
        return not self.newest.found and waited > self._parameters.max_search_time

    def follow(self, frame: GreyFrame) -> Tracked:
        """Find the reference in the next frame."""
        if self.lost_for_good:
            verdict = self.newest.verdict
            self.newest = self._lost(frame, verdict.status, verdict.message)
        elif frame.image_size != self._frame.image_size:
            reason = 'the camera image size changed'
            self.newest = self._lost(frame, Status.LOW_CONFIDENCE, reason)
        else:
            self.newest = self._find(frame)
        return self.newest

    def leap(self, frame: GreyFrame, guess: np.ndarray | None = None) -> bool:
        """Skip to a later frame if the reference is found in it; tell whether it is.

        A guess is an approximate homography from the reference to the camera image.
        """
        if frame.image_size != self._frame.image_size:
            return False
        if guess is None:
            tracked = self._find(frame)
        else:
            tracked = self._align(frame, frame.image_to_grey @ guess, self._coarsest_level)
        if tracked.found:
            self.newest = tracked
        return tracked.found

    def confirm(self, stamp: float, confidence: float) -> None:
        """Note that a later full match agrees; age and confidence count from it."""
        self.matched_stamp, self._confidence = stamp, confidence

    @property
    def _coarsest_level(self) -> int:
        return self._parameters.patches.coarsest_level

    def _find(self, frame: GreyFrame) -> Tracked:
        """Search for the reference from where it was last seen."""
        motion = motion_between(self._frame, frame, self._points_in_view(), self._parameters.flow)
        guess = None if motion is None else motion @ self._reference_to_grey
        tracked = self._align(frame, guess, 0)
        if tracked.found:
            return tracked
        # Optical flow fails when the light changes suddenly; patches do not.
        unmoved = self._align(frame, self._reference_to_grey, self._coarsest_level)
        return unmoved if unmoved.found else tracked

    def _align(self, frame: GreyFrame, guess: np.ndarray | None, level: int) -> Tracked:
        """Align the patches with a frame from a guess, and judge the result."""
        min_points = self._parameters.min_points
        if guess is None or not in_front(guess, self.reference_box):
            return self._lost(frame, Status.FEW_MATCHES, 'hardly any point could be tracked')
        corners = len(self._keyframe.reference_points)
        if corners < min_points:
            reason = (
                f'the frame of the full match has only {corners} corners to track, '
                f'{min_points} are needed'
            )
            return self._lost(frame, Status.FEW_MATCHES, reason)
        fit = self._fit(frame, guess, level)
        # From a poor guess only some patches converge; from the homography of those, more do.
        for _ in range(self._parameters.max_refits):
            guess = fit.reference_to_grey
            certain = fit.share >= self._parameters.min_certain
            if certain or guess is None or not in_front(guess, self.reference_box):
                break
            again = self._fit(frame, guess, self._coarsest_level)
            if again.count <= fit.count:
                break
            fit = again
        if len(fit.agreeing) < min_points:
            reason = (
                f'only {len(fit.agreeing)} points of the reference are in view, '
                f'{min_points} are needed'
            )
            return self._lost(frame, Status.FEW_MATCHES, reason)
        return self._judge(frame, fit)

    def _fit(self, frame: GreyFrame, guess: np.ndarray, level: int) -> Fit:
        """Align the patches with a frame, and fit the homography that most of them agree with."""
        keyframe, parameters = self._keyframe, self._parameters
        keyframe_to_frame = guess @ np.linalg.inv(keyframe.reference_to_grey)
        aligned = keyframe.patches.align(frame, keyframe_to_frame, level, self._shifts)
        in_view = np.nonzero(aligned.inside)[0]
        in_view = in_view[np.argsort(-aligned.correlations[in_view], kind='stable')]
        correlations, points = aligned.correlations[in_view], aligned.points[in_view]
        reference_points = keyframe.reference_points[in_view]
        # Those on other planes could lead astray.
        on_plane = ~keyframe.beside[in_view]
        agreeing = on_plane & (correlations > parameters.min_correlation)
        reference_to_grey, inliers = fit_homography(
            reference_points[agreeing], points[agreeing], parameters.reprojection_error
        )
        agreeing[agreeing] = inliers
        correspondences = Correspondences(
            reference_points.astype(np.float32),
            warp_points(np.linalg.inv(frame.image_to_grey), points).astype(np.float32),
            correlations.clip(0, 1),
        )
        shifts = np.where(
            (aligned.correlations > parameters.min_correlation)[:, None], aligned.shifts, 0
        )
        return Fit(
            reference_to_grey, agreeing, correspondences, int(on_plane.sum()), in_view, shifts
        )

    def _judge(self, frame: GreyFrame, fit: Fit) -> Tracked:
        """Decide whether to accept where the patches put the reference."""
        parameters = self._parameters
        reference_to_grey, agreeing = fit.reference_to_grey, fit.agreeing
        correspondences = fit.correspondences
        message = f'{fit.count} of {len(agreeing)} tracked points agree'
        if reference_to_grey is None or fit.count < parameters.min_points:
            reason = f'{message}, {parameters.min_points} are needed'
            return self._lost(frame, Status.FEW_MATCHES, reason, correspondences)
        min_agreeing = max(parameters.min_agreeing, self._limits.min_inlier_ratio)
        if fit.count < min_agreeing * fit.expected:
            reason = f'{message}, {min_agreeing:.0%} of them are needed'
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        reference_to_image = np.linalg.inv(frame.image_to_grey) @ reference_to_grey
        reference_to_image /= reference_to_image[2, 2]
        checks: Checks | None = None
        if in_front(reference_to_image, self.reference_box):
            checks = measure(
                reference_to_image,
                correspondences,
                agreeing,
                self.reference_box,
                self._counting_area,
                Box(0, 0, *frame.image_size),
            )
            error = self._limits.reprojection_error
            flatness = flatness_of(reference_to_image, *self._on_object(fit), error)
            # From some sides, what is not flat looks flat.
            checks = replace(checks, flatness=float(np.fmin(flatness, self._flatness)))
        evidence = Evidence(agreeing, reference_to_image, checks)
        corners = self.reference_box.corners()
        reason = implausibility(evidence, self.reference_box, self._limits) or why_too_sudden(
            warp_points(self._reference_to_grey, corners),
            warp_points(reference_to_grey, corners),
            frame.stamp - self._frame.stamp,
            parameters,
        )
        if reason:
            return self._lost(frame, Status.REJECTED_GEOMETRY, reason, correspondences)
        share_alike = self._appearance.share_alike(frame, reference_to_grey)
        if share_alike < parameters.min_share_alike:
            reason = (
                f'only {share_alike:.0%} of the reference still looks as in the full match, '
                f'{parameters.min_share_alike:.0%} must'
            )
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        confidence = self._confidence_in(frame, fit)
        if confidence < self._limits.min_confidence:
            reason = f'confidence {confidence:.2f}, {self._limits.min_confidence:.2f} is needed'
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        assert checks is not None  # or the view would have been implausible
        track_checks = TrackChecks(
            **checks.as_dict(),
            share_alike=share_alike,
            drift=math.hypot(self._keyframe.drift, checks.corner_deviation),
        )
        uncertainty = ViewUncertainty.of_points(
            reference_to_image,
            self.reference_box,
            correspondences.reference_points[agreeing],
            correspondences.image_points[agreeing],
            SUBPIXEL,
        ).plus(self._keyframe.uncertainty)
        seen = visible_deviation(uncertainty, Box(0, 0, *frame.image_size))
        if seen > self._most_uncertain:
            reason = f'the track is uncertain by {seen:.0f} pixels'
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        track_checks = replace(track_checks, visible_deviation=seen)
        verdict = Verdict(
            status=Status.OK,
            message=message + remark_on(uncertainty, self._limits),
            inliers=agreeing,
            reference_to_image=reference_to_image,
            confidence=confidence,
            checks=track_checks,
            uncertainty=uncertainty,
        )
        self._frame, self._reference_to_grey = frame, reference_to_grey
        self._flat = self._flat and (self._among_equals or is_flat(verdict))
        if not self._flat:
            correspondences, inliers = self._on_object(fit)
            verdict = replace(verdict, inliers=inliers)
            self._shifts = fit.shifts
        self._renew_keyframe_if_needed(track_checks, fit, verdict, correspondences)
        return self._tracked(frame.stamp, verdict, correspondences)

    def _on_object(self, fit: Fit) -> tuple[Correspondences, np.ndarray]:
        """Return the patches that were found, at their true places, and which are on the plane."""
        keyframe = self._keyframe
        found = fit.correspondences.scores > self._parameters.min_correlation
        points = keyframe.true_points[fit.patches].astype(np.float32)
        correspondences = replace(fit.correspondences, reference_points=points)
        return correspondences.only(found), fit.agreeing[found]

    def _confidence_in(self, frame: GreyFrame, fit: Fit) -> float:
        """Return the confidence of a frame, never above that of the full match."""
        parameters = self._parameters
        fresh = 0.5 ** ((frame.stamp - self.matched_stamp) / parameters.half_life)
        support = min(1.0, fit.count / parameters.plenty_of_points) * min(
            1.0, fit.share / parameters.plenty_agreeing
        )
        certain = 1 - 0.5 * min(1.0, self._keyframe.drift / parameters.max_drift)
        floor = min(0.5, self._confidence)
        return floor + (self._confidence - floor) * fresh * support * certain

    def _lost(
        self,
        frame: GreyFrame,
        status: Status,
        reason: str,
        correspondences: Correspondences | None = None,
    ) -> Tracked:
        """Return the answer that the reference was not found, and why."""
        correspondences = correspondences or Correspondences.none()
        verdict = Verdict(status, reason, np.zeros(len(correspondences), bool))
        return self._tracked(frame.stamp, verdict, correspondences)

    def _tracked(
        self, stamp: float, verdict: Verdict, correspondences: Correspondences
    ) -> Tracked:
        return Tracked(
            stamp=stamp,
            verdict=verdict,
            correspondences=correspondences,
            revision=self.revision,
            matched_stamp=self.matched_stamp,
            number=self.number,
        )

    def _points_in_view(self) -> np.ndarray:
        """Return the positions of the patches that are inside the last good frame."""
        points = warp_points(self._reference_to_grey, self._keyframe.reference_points)
        width, height = self._frame.size
        return points[((points >= 0) & (points <= (width - 1, height - 1))).all(axis=1)]

    def _renew_keyframe_if_needed(
        self, checks: TrackChecks, fit: Fit, verdict: Verdict, correspondences: Correspondences
    ) -> None:
        """Take new patches from this frame if the keyframe has become too different."""
        keyframe, frame, parameters = self._keyframe, self._frame, self._parameters
        in_view = len(fit.agreeing)
        if (
            frame.stamp - keyframe.frame.stamp < parameters.min_keyframe_age
            or fit.share < parameters.min_certain
            or not checks.share_alike >= parameters.min_certain
            or checks.drift > parameters.max_drift
        ):
            return
        middle = keyframe.patches.centres.mean(axis=0, keepdims=True)
        keyframe_to_frame = self._reference_to_grey @ np.linalg.inv(keyframe.reference_to_grey)
        largest, smallest = np.linalg.svd(
            jacobians_at(keyframe_to_frame, middle)[0], compute_uv=False
        )
        alike = parameters.min_scale <= smallest and largest <= parameters.max_scale
        if in_view >= parameters.min_in_view and alike:
            return
        renewed = self._keyframe_from(verdict, correspondences, checks.drift)
        if len(renewed.reference_points) > in_view:
            self._keyframe, self._shifts = renewed, None

    def _keyframe_from(
        self, verdict: Verdict, correspondences: Correspondences, drift: float
    ) -> Keyframe:
        """Return the last good frame with patches to align with other frames."""
        frame, reference_to_grey = self._frame, self._reference_to_grey
        area = warp_points(reference_to_grey, self._area)
        corners = choose_corners(frame, area, self._parameters.corners)
        flat, beside = corners, np.zeros(len(corners), bool)
        if not self._flat and len(corners):
            flat, beside = self._as_if_flat(corners, verdict, correspondences)
        to_reference = np.linalg.inv(reference_to_grey)
        return Keyframe(
            frame=frame,
            reference_to_grey=reference_to_grey,
            patches=Patches(frame, corners, self._parameters.patches),
            reference_points=warp_points(to_reference, corners),
            true_points=warp_points(to_reference, flat),
            beside=beside,
            uncertainty=uncertainty_of(verdict, correspondences, self.reference_box),
            drift=drift,
        )

    def _as_if_flat(
        self, corners: np.ndarray, verdict: Verdict, correspondences: Correspondences
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where corners would be if all were on one plane, and which of them are not."""
        reference_to_image, error = verdict.reference_to_image, self._limits.reprojection_error
        assert reference_to_image is not None
        field = offset_field(reference_to_image, correspondences, verdict.inliers, error)
        image_to_grey = self._frame.image_to_grey
        places = warp_points(np.linalg.inv(image_to_grey), corners)
        flat, beside = flattened(places, field, error)
        return warp_points(image_to_grey, flat), beside


def why_too_sudden(
    before: np.ndarray,
    now: np.ndarray,
    seconds: float,
    parameters: TrackingParameters = DEFAULTS,
) -> str:
    """Say that an outline changes size or shape faster than a camera moves, '' if it does not.

    Its position does not matter: a shake moves all corners together.
    """
    moves = now - before
    moves = np.linalg.norm(moves - moves.mean(axis=0), axis=1)
    size = np.linalg.norm(before - before.mean(axis=0), axis=1).mean()
    allowed = parameters.max_distortion * size * max(1.0, seconds / parameters.frame_time)
    if moves.max() <= allowed:
        return ''
    return 'the outline of the reference changes size or shape too suddenly'


def tracked_area(match: FullMatch, hull_scale: float) -> np.ndarray:
    """Return the part of the reference in which points are tracked, as a convex polygon.

    Where the full match has no inliers, the reference may be hidden or not as flat as the rest.
    """
    outline = match.reference_box.corners().astype(np.float32)
    points = match.correspondences.reference_points[match.verdict.inliers]
    if len(points) < 3:
        return outline
    hull = cv2.convexHull(points.astype(np.float32))[:, 0]
    middle = hull.mean(axis=0)
    hull = middle + hull_scale * (hull - middle)
    area, common = cv2.intersectConvexConvex(hull, outline)
    return common[:, 0] if area > 0 else outline
