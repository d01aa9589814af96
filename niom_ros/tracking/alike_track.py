"""Tracking another object of the reference's kind between the full matches that find its parts."""

from dataclasses import dataclass, replace
import math
from typing import ClassVar

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.matching.alike_object import AlikeObject, CERTAIN, MIN_CERTAIN, MIN_CONFIDENCE
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.semantics.heat_maps import Area
from niom_ros.tracking.alike_motion import affine_at, AlikeMotion
from niom_ros.tracking.frames import GreyFrame
from niom_ros.tracking.local_motion import LocalMotion
from niom_ros.tracking.track import DEFAULTS as TRACKING
from niom_ros.tracking.track import FullMatch, Track, TrackChecks, Tracked, TrackingParameters


@dataclass(frozen=True)
class AlikeTrackParameters:
    """How flat an object must be, and how its points become uncertain."""

    depth: float = 0.03  # of the object's size, by which corners may differ from a flat object
    # Of the object's size, by which points become less certain in a second: without a full match
    # that agrees, none is certain after 17 s.
    slip: float = 0.005
    min_points: int = 12  # certain ones, to look for corners only among them
    hull_scale: float = 0.9  # of their hull: what is beside an object moves differently


DEFAULTS = AlikeTrackParameters()
SURE = 1.0  # confidence that the image which was matched shows what it shows


@dataclass(frozen=True, kw_only=True)
class AlikeMatch:
    """A full match of one frame that found another object of the reference's kind."""

    only_alike: ClassVar[bool] = True
    number: ClassVar[int] = 0  # nothing tells two such objects apart
    among_equals: ClassVar[bool] = False

    stamp: float  # of the frame, in seconds
    image: np.ndarray  # RGB
    verdict: Verdict  # with status ALIKE
    correspondences: Correspondences  # the scores are confidences
    alike: AlikeObject
    revision: int = 0  # of the reference; another revision is another reference

    def __post_init__(self) -> None:
        """Refuse a match that found something else."""
        if self.verdict.status is not Status.ALIKE:
            raise ValueError('only a full match with status ALIKE can be tracked without a view')

    @property
    def size(self) -> float:
        """Return the size of the object in pixels of the image."""
        return max(1.0, self.alike.size)

    def track(
        self, limits: Limits | None = None, parameters: TrackingParameters = TRACKING
    ) -> 'AlikeTrack':
        """Return a track that starts here."""
        return AlikeTrack(self, limits, parameters)

    def replaces(self, former: object) -> bool:
        """Return whether this may end another track: not one of the object itself."""
        return not isinstance(former, Track) or former.lost_for_good

    def error_of(self, former: object, view: np.ndarray) -> float:
        """Return the relative corner error of the box that a track had; infinite: of another."""
        if not isinstance(former, AlikeTrack) or self.revision != former.revision:
            return math.inf
        found = self.alike.box.corners()
        tracked = Area.around(warp_points(view, former.start.alike.box.corners()))
        offsets = tracked.corners() - found
        size = np.linalg.norm(found - found.mean(axis=0), axis=1).mean()
        return float(np.linalg.norm(offsets, axis=1).mean() / max(size, 1e-9))

    def seen_from(self, then: np.ndarray, view: np.ndarray) -> np.ndarray:
        """Return a view of another track as one of this, which starts at its view of `then`."""
        return np.asarray(view @ np.linalg.inv(then))

    def as_picture(self) -> FullMatch:
        """Return the object as a flat picture that is where the image shows it."""
        box, certain = pixels_in(self.alike.box), self.verdict.inliers
        if certain.sum() < DEFAULTS.min_points:
            certain = np.ones(len(certain), bool)
        points = self.correspondences.image_points
        verdict = self.verdict
        return FullMatch(
            stamp=self.stamp,
            image=self.image,
            verdict=Verdict(Status.OK, verdict.message, certain, np.eye(3), SURE, verdict.checks),
            correspondences=Correspondences(points, points, self.correspondences.scores),
            reference_box=box,
            counting_area=box.area,
            revision=self.revision,
        )


class AlikeTrack:
    """Tracks an object of the reference's kind.

    No homography leads to it from the reference. But from one camera image to the next it moves as
    any object does: it is tracked like a picture that the matched image shows, whose corners may
    have some depth. The points on it go where the corners near them go.
    """

    def __init__(
        self,
        match: AlikeMatch,
        limits: Limits | None = None,
        parameters: TrackingParameters = TRACKING,
    ) -> None:
        """Start in the frame of a full match."""
        # min_confidence is a limit for homographies; ALIKE has its own.
        limits = replace(limits or Limits(), min_confidence=0.0)
        self.start = match
        self._confidence = match.verdict.confidence
        self._picture = match.as_picture().track(limits, loosened(parameters, match))
        self.newest = Tracked(
            stamp=match.stamp,
            verdict=match.verdict,
            correspondences=match.correspondences,
            revision=match.revision,
            matched_stamp=match.stamp,
            alike=match.alike,
            motion=np.eye(3),
        )

    @property
    def revision(self) -> int:
        """Return the revision of the reference."""
        return self.start.revision

    @property
    def matched_stamp(self) -> float:
        """Return the stamp of the last full match that agreed."""
        return self._picture.matched_stamp

    @property
    def frame(self) -> GreyFrame:
        """Return the last frame in which the object was found."""
        return self._picture.frame

    @property
    def lost_for_good(self) -> bool:
        """Return whether the object was lost too long ago to be searched."""
        return self._picture.lost_for_good

    def follow(self, frame: GreyFrame) -> Tracked:
        """Find the object in the next frame."""
        self.newest = self._answer(self._picture.follow(frame))
        return self.newest

    def leap(self, frame: GreyFrame, guess: np.ndarray | None = None) -> bool:
        """Skip to a later frame if the object is found in it; tell whether it is.

        A guess is an approximate homography from the image that was matched.
        """
        found = self._picture.leap(frame, guess)
        if found:
            self.newest = self._answer(self._picture.newest)
        return found

    def confirm(self, stamp: float, confidence: float) -> None:
        """Note that a later full match agrees; age and confidence count from it."""
        self._picture.confirm(stamp, SURE)
        self._confidence = confidence

    def _answer(self, picture: Tracked) -> Tracked:
        """Return where the object is if its picture was found, or why it is lost.

        It needs as much as a full match: to be of the kind, and some certain points.
        """
        verdict, view = picture.verdict, picture.view
        if view is None:
            return lost(picture, verdict.status, verdict.message)
        # It must be of the kind, and still the same object.
        confidence = self._confidence * verdict.confidence
        if confidence < MIN_CONFIDENCE:
            reason = f'confidence {confidence:.2f}, {MIN_CONFIDENCE:.2f} is needed'
            return lost(picture, Status.LOW_CONFIDENCE, reason)
        motion = self._motion(picture, view)
        points, inliers = visible(
            motion.move_points(self.start.correspondences),
            self.start.verdict.inliers,
            self.frame.image_size,
        )
        if inliers.sum() < MIN_CERTAIN:
            reason = (
                f'only {inliers.sum()} of {len(inliers)} points are still certain, '
                f'{MIN_CERTAIN} are needed'
            )
            return lost(picture, Status.LOW_CONFIDENCE, reason)
        return replace(
            picture,
            verdict=Verdict(
                Status.ALIKE,
                f'another object of its kind; {verdict.message}',
                inliers,
                confidence=confidence,
                checks=verdict.checks,
            ),
            correspondences=points,
            alike=motion.move(self.start.alike, confidence, self.frame.image_size),
            motion=view,
        )

    def _motion(self, picture: Tracked, view: np.ndarray) -> AlikeMotion:
        """Return how the object moved since the full match, by its picture."""
        agreeing, corners = picture.verdict.inliers, picture.correspondences
        size, checks = self.start.size, picture.verdict.checks
        assert isinstance(checks, TrackChecks)  # or it would have been lost
        return AlikeMotion(
            whole=affine_at(view, self.start.alike.box.corners().mean(axis=0)),
            local=LocalMotion(
                view, corners.reference_points[agreeing], corners.image_points[agreeing], size
            ),
            size=size,
            drift=checks.drift,
            slip=DEFAULTS.slip * picture.age + DEFAULTS.depth * (1 - agreeing.mean()),
        )


def loosened(parameters: TrackingParameters, match: AlikeMatch) -> TrackingParameters:
    """Return the parameters of a track whose corners may have some depth."""
    depth = DEFAULTS.depth * match.size
    shrink = min(1.0, parameters.frames.max_side / max(match.image.shape[:2]))
    return replace(
        parameters,
        reprojection_error=max(parameters.reprojection_error, depth * shrink),
        max_drift=max(parameters.max_drift, depth),
        hull_scale=DEFAULTS.hull_scale,
    )


def pixels_in(area: Area) -> Box:
    """Return the whole pixels of an area, at least one."""
    left, top = round(area.left + 0.5), round(area.top + 0.5)
    return Box(left, top, max(1, round(area.width)), max(1, round(area.height)))


def visible(
    points: Correspondences, inliers: np.ndarray, size: tuple[int, int]
) -> tuple[Correspondences, np.ndarray]:
    """Return the points inside an image, best first, and which are inliers."""
    inside = ((points.image_points >= -0.5) & (points.image_points < np.array(size) - 0.5)).all(1)
    chosen = np.nonzero(inside)[0]
    chosen = chosen[np.argsort(-points.scores[chosen], kind='stable')]
    points = Correspondences(
        points.reference_points[chosen], points.image_points[chosen], points.scores[chosen]
    )
    return points, inliers[chosen] & (points.scores >= CERTAIN)


def lost(tracked: Tracked, status: Status, reason: str) -> Tracked:
    """Return the answer that the object was not found, and why."""
    verdict = Verdict(status, reason, np.zeros(0, bool))
    return replace(tracked, verdict=verdict, correspondences=Correspondences.none())
