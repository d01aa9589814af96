"""One reference followed from a full match on, as long as there is no doubt."""

from dataclasses import dataclass, field, replace
import math

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.matching.checks import Checks
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, implausibility, in_front, measure, Status, Verdict
from niom_ros.tracking.appearance import Appearance
from niom_ros.tracking.corners import choose_corners, fit_view, motion_between
from niom_ros.tracking.frames import grey_frame, GreyFrame
from niom_ros.tracking.patches import COARSEST, jacobians_at, Patches

FEWEST_POINTS = 15  # that must agree
LEAST_AGREEING = 0.25  # of the points that should be in view
LEAST_ALIKE = 0.3  # of the blocks of the picture that should be in view
LIKE = 0.7  # normalised cross-correlation from which a patch is the same
FARTHEST = 1.5  # pixels of the grey frame within which a point agrees
MOST_WARPED = 0.25  # of the outline's size that its corners move against each other in a frame
FRAME_TIME = 0.1  # seconds; what is longer allows for more
MOST_SECOND_LOOKS = 2  # at a frame in which only a part of the points was found
LONGEST_SEARCH = 0.5  # seconds after the last good frame: then only a full match helps
WIDER_HULL = 1.15  # points are followed a little beyond those of the full match

# A new start from a tracked frame carries its error on, so it is made only for a view that has
# become too different, from a frame without doubt, and as long as the errors stay this small.
MOST_DRIFT = 2.0  # pixels of the image, at the corners
SCALES = (0.65, 1.5)  # of a patch, between which it can be compared
LEAST_CERTAIN = 0.7  # share of points and of blocks that agree
TOO_FEW_IN_VIEW = 50  # points; others may have come into view
SHORTEST_START = 0.3  # seconds from one start to the next

HALF_LIFE = 20.0  # seconds, in which what a full match was surer of than not is halved
PLENTY_OF_POINTS = 40  # agreeing ones: more make nothing surer
PLENTY_AGREEING = 0.6


@dataclass(frozen=True)
class FullMatch:
    """A full match of one frame that was believed."""

    stamp: float  # of the frame, in seconds
    image: np.ndarray  # RGB
    verdict: Verdict  # with status OK
    correspondences: Correspondences
    reference_box: Box
    counting_area: float  # pixels of the box that are not masked
    revision: int = 0  # of the reference; another one is another reference

    def __post_init__(self) -> None:
        """Refuse a match that does not say where the reference is."""
        if self.verdict.reference_to_image is None:
            raise ValueError('only a full match with status OK can be followed')
        if not np.isfinite(self.verdict.reference_to_image).all():
            raise ValueError('the homography of a full match must be made of numbers')


@dataclass(frozen=True)
class Tracked:
    """Where the reference is in one frame, if that is known."""

    stamp: float  # of the frame, in seconds
    verdict: Verdict
    correspondences: Correspondences = field(default_factory=Correspondences.none)
    revision: int = 0  # of the reference; another one is another reference
    matched_stamp: float = math.nan  # of the frame of the full match; NaN: there was none

    @property
    def found(self) -> bool:
        """Tell whether the reference is known to be somewhere."""
        return self.verdict.status is Status.OK

    @property
    def age(self) -> float:
        """Return how many seconds the frame is newer than the full match."""
        return self.stamp - self.matched_stamp


@dataclass(frozen=True)
class TrackChecks(Checks):
    """What was measured of a view that was followed."""

    share_alike: float  # of the blocks of the picture that should be in view
    drift: float  # pixels of the image, since the full match


@dataclass(frozen=True)
class Start:
    """The frame that patches are compared with, and its own possible error."""

    frame: GreyFrame
    reference_to_grey: np.ndarray  # 3 x 3
    patches: Patches
    reference_points: np.ndarray  # N x 2, of the patches
    drift: float = 0.0  # pixels of the image, since the full match


@dataclass(frozen=True)
class Fit:
    """Where patches put the reference in a frame, and how many of them."""

    view: np.ndarray | None  # 3 x 3, to pixels of the grey frame; None: nowhere
    agreeing: np.ndarray  # booleans: which ones of those in view
    correspondences: Correspondences  # of those in view, the most alike first

    @property
    def seen(self) -> int:
        """Return the number of patches that agree."""
        return int(self.agreeing.sum())

    @property
    def share(self) -> float:
        """Return which share of the patches in view agrees."""
        return self.seen / max(1, len(self.agreeing))


class Track:
    """Follows what a full match found.

    Two steps for each frame. The flow of points since the frame before says roughly where the
    picture went. From there, patches of the start, usually the frame of the full match, are
    aligned with the new frame: so errors do not add up from frame to frame, points that were
    hidden count again once they are back, and a patch that does not look the same does not count.
    """

    def __init__(self, match: FullMatch, limits: Limits | None = None) -> None:
        """Begin in the frame of a full match."""
        view = match.verdict.reference_to_image
        assert view is not None
        limits = limits or Limits()
        # A track may lose sight of a part of what the full match saw.
        self._limits = replace(limits, min_coverage=limits.min_coverage / 2)
        self.reference_box, self._counting_area = match.reference_box, match.counting_area
        self._area = followed_area(match)
        self._confidence = match.verdict.confidence
        self.revision, self.matched_stamp = match.revision, match.stamp
        self._frame = grey_frame(match.image, match.stamp)  # the last one without doubt
        self._view = self._frame.image_to_grey @ view  # from the reference to its grey pixels
        self._start = self._start_from(self._frame, self._view, 0.0)
        self._appearance = Appearance(self._frame, self._view, self.reference_box)
        self.newest = Tracked(
            match.stamp,
            match.verdict,
            match.correspondences,
            self.revision,
            self.matched_stamp,
        )

    @property
    def drift(self) -> float:
        """Return how far off new starts may have brought the corners, in pixels of the image."""
        return self._start.drift

    @property
    def frame(self) -> GreyFrame:
        """Return the last frame without doubt."""
        return self._frame

    @property
    def lost_for_good(self) -> bool:
        """Tell whether the reference was lost and is not looked for any more."""
        waited = self.newest.stamp - self._frame.stamp
        return not self.newest.found and waited > LONGEST_SEARCH

    def follow(self, frame: GreyFrame) -> Tracked:
        """Find the reference in the next frame."""
        if self.lost_for_good:
            verdict = self.newest.verdict
            self.newest = self._lost(frame, verdict.status, verdict.message)
        elif frame.image_size != self._frame.image_size:
            reason = 'the camera images have another size now'
            self.newest = self._lost(frame, Status.LOW_CONFIDENCE, reason)
        else:
            self.newest = self._find(frame)
        return self.newest

    def leap(self, frame: GreyFrame, guess: np.ndarray | None = None) -> bool:
        """Go on from a later frame, if the reference can be found in it; tell whether it can.

        A guess says where it may be, as a homography from the reference to the camera image.
        """
        if frame.image_size != self._frame.image_size:
            return False
        if guess is None:
            found = self._find(frame)
        else:
            found = self._look(frame, frame.image_to_grey @ guess, COARSEST)
        if found.found:
            self.newest = found
        return found.found

    def confirm(self, stamp: float, confidence: float) -> None:
        """Count from a later full match that says the same."""
        self.matched_stamp, self._confidence = stamp, confidence

    def _find(self, frame: GreyFrame) -> Tracked:
        """Look for the reference from where it was seen last."""
        flow = motion_between(self._frame, frame, self._points_in_view())
        tracked = self._look(frame, None if flow is None else flow @ self._view, 0)
        if tracked.found:
            return tracked
        # Flow fails where the light changes suddenly, patches do not.
        unmoved = self._look(frame, self._view, COARSEST)
        return unmoved if unmoved.found else tracked

    def _look(self, frame: GreyFrame, guess: np.ndarray | None, level: int) -> Tracked:
        """Align the patches with a frame, from a guess of where the reference is in it."""
        if guess is None or not in_front(guess, self.reference_box):
            return self._lost(frame, Status.FEW_MATCHES, 'hardly any point could be followed')
        start = self._start
        if len(start.reference_points) < FEWEST_POINTS:
            reason = (
                f'the frame of the full match has only {len(start.reference_points)} corners to '
                f'be followed, {FEWEST_POINTS} are needed'
            )
            return self._lost(frame, Status.FEW_MATCHES, reason)
        fit = self._fit(frame, guess, level)
        # From a poor guess only some patches arrive; where those put the picture, more do.
        for _ in range(MOST_SECOND_LOOKS):
            certain = fit.share >= LEAST_CERTAIN
            if certain or fit.view is None or not in_front(fit.view, self.reference_box):
                break
            again = self._fit(frame, fit.view, COARSEST)
            if again.seen <= fit.seen:
                break
            fit = again
        if len(fit.agreeing) < FEWEST_POINTS:
            reason = (
                f'only {len(fit.agreeing)} points of the reference are in view, '
                f'{FEWEST_POINTS} must be'
            )
            return self._lost(frame, Status.FEW_MATCHES, reason)
        return self._judge(frame, fit)

    def _fit(self, frame: GreyFrame, guess: np.ndarray, level: int) -> Fit:
        """Align the patches with a frame, and lay the reference where most of them agree."""
        start = self._start
        aligned = start.patches.align(frame, guess @ np.linalg.inv(start.reference_to_grey), level)
        in_view = np.nonzero(aligned.inside)[0]
        in_view = in_view[np.argsort(-aligned.likeness[in_view], kind='stable')]
        likeness, points = aligned.likeness[in_view], aligned.points[in_view]
        reference_points = start.reference_points[in_view]
        agreeing = likeness > LIKE
        view, near = fit_view(reference_points[agreeing], points[agreeing], FARTHEST)
        agreeing[agreeing] = near
        correspondences = Correspondences(
            reference_points.astype(np.float32),
            warp_points(np.linalg.inv(frame.image_to_grey), points).astype(np.float32),
            likeness.clip(0, 1),
        )
        return Fit(view, agreeing, correspondences)

    def _judge(self, frame: GreyFrame, fit: Fit) -> Tracked:
        """Decide whether to believe where the patches put the reference."""
        view, agreeing, correspondences = fit.view, fit.agreeing, fit.correspondences
        seen, count = fit.seen, len(agreeing)
        message = f'{seen} of {count} tracked points agree'
        if view is None or seen < FEWEST_POINTS:
            reason = f'{message}, {FEWEST_POINTS} are needed'
            return self._lost(frame, Status.FEW_MATCHES, reason, correspondences)
        least = max(LEAST_AGREEING, self._limits.min_inlier_ratio)
        if seen < least * count:
            reason = f'{message}, {least:.0%} of them are needed'
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        reference_to_image = np.linalg.inv(frame.image_to_grey) @ view
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
        evidence = Evidence(agreeing, reference_to_image, checks)
        corners = self.reference_box.corners()
        reason = implausibility(evidence, self.reference_box, self._limits) or why_too_sudden(
            warp_points(self._view, corners),
            warp_points(view, corners),
            frame.stamp - self._frame.stamp,
        )
        if reason:
            return self._lost(frame, Status.REJECTED_GEOMETRY, reason, correspondences)
        share_alike = self._appearance.share_alike(frame, view)
        if share_alike < LEAST_ALIKE:
            reason = (
                f'only {share_alike:.0%} of the reference still look as in the full match, '
                f'{LEAST_ALIKE:.0%} must'
            )
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        confidence = self._confidence_in(frame, seen, seen / count)
        if confidence < self._limits.min_confidence:
            reason = f'confidence {confidence:.2f}, {self._limits.min_confidence:.2f} is needed'
            return self._lost(frame, Status.LOW_CONFIDENCE, reason, correspondences)
        self._frame, self._view = frame, view
        assert checks is not None  # or the view had been implausible
        of_track = TrackChecks(
            **checks.as_dict(),
            share_alike=share_alike,
            drift=math.hypot(self._start.drift, checks.corner_deviation),
        )
        verdict = Verdict(Status.OK, message, agreeing, reference_to_image, confidence, of_track)
        self._start_anew_if_needed(of_track, seen, count)
        return Tracked(frame.stamp, verdict, correspondences, self.revision, self.matched_stamp)

    def _confidence_in(self, frame: GreyFrame, agreeing: int, share: float) -> float:
        """Return how sure it is that the reference is there: never surer than the full match."""
        fresh = 0.5 ** ((frame.stamp - self.matched_stamp) / HALF_LIFE)
        support = min(1.0, agreeing / PLENTY_OF_POINTS) * min(1.0, share / PLENTY_AGREEING)
        certain = 1 - 0.5 * min(1.0, self._start.drift / MOST_DRIFT)
        floor = min(0.5, self._confidence)
        return floor + (self._confidence - floor) * fresh * support * certain

    def _lost(
        self,
        frame: GreyFrame,
        status: Status,
        reason: str,
        correspondences: Correspondences | None = None,
    ) -> Tracked:
        """Return that it is not known where the reference is."""
        correspondences = correspondences or Correspondences.none()
        nobody = np.zeros(len(correspondences), bool)
        verdict = Verdict(status, reason, nobody)
        return Tracked(frame.stamp, verdict, correspondences, self.revision, self.matched_stamp)

    def _points_in_view(self) -> np.ndarray:
        """Return where the patches are in the last good frame, as far as they are inside."""
        points = warp_points(self._view, self._start.reference_points)
        width, height = self._frame.size
        return points[((points >= 0) & (points <= (width - 1, height - 1))).all(axis=1)]

    def _start_anew_if_needed(self, checks: TrackChecks, agreeing: int, count: int) -> None:
        """Compare with this frame from now on if the start looks too different."""
        start, frame = self._start, self._frame
        if (
            frame.stamp - start.frame.stamp < SHORTEST_START
            or agreeing < LEAST_CERTAIN * count
            or not checks.share_alike >= LEAST_CERTAIN
            or checks.drift > MOST_DRIFT
        ):
            return
        middle = start.patches.centres.mean(axis=0, keepdims=True)
        start_to_now = self._view @ np.linalg.inv(start.reference_to_grey)
        scales = np.linalg.svd(jacobians_at(start_to_now, middle)[0], compute_uv=False)
        if count >= TOO_FEW_IN_VIEW and SCALES[0] <= scales[1] and scales[0] <= SCALES[1]:
            return
        anew = self._start_from(frame, self._view, checks.drift)
        if len(anew.reference_points) > count:
            self._start = anew

    def _start_from(self, frame: GreyFrame, view: np.ndarray, drift: float) -> Start:
        """Return the patches of a frame to compare others with."""
        corners = choose_corners(frame, warp_points(view, self._area))
        reference_points = warp_points(np.linalg.inv(view), corners)
        return Start(frame, view, Patches(frame, corners), reference_points, drift)


def why_too_sudden(before: np.ndarray, now: np.ndarray, seconds: float) -> str:
    """Say that an outline changes size or shape faster than a camera moves, '' if it does not.

    Where it is does not matter: a shake moves all corners alike.
    """
    moves = now - before
    moves = np.linalg.norm(moves - moves.mean(axis=0), axis=1)
    size = np.linalg.norm(before - before.mean(axis=0), axis=1).mean()
    if moves.max() <= MOST_WARPED * size * max(1.0, seconds / FRAME_TIME):
        return ''
    return 'the outline of the reference would change its size or shape all at once'


def followed_area(match: FullMatch) -> np.ndarray:
    """Return the part of the reference in which points are followed, as a convex polygon.

    Where the full match saw none, the reference may be hidden, or not as flat as the rest.
    """
    outline = match.reference_box.corners().astype(np.float32)
    points = match.correspondences.reference_points[match.verdict.inliers]
    if len(points) < 3:
        return outline
    hull = cv2.convexHull(points.astype(np.float32))[:, 0]
    middle = hull.mean(axis=0)
    hull = middle + WIDER_HULL * (hull - middle)
    area, common = cv2.intersectConvexConvex(hull, outline)
    return common[:, 0] if area > 0 else outline
