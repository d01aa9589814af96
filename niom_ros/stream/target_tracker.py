"""Tracking what is looked for now: a track of anything else is given up."""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from niom_ros.core.settings import Limits
from niom_ros.matching.alike_object import MIN_CERTAIN
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match, Weights
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer, answer_about, no_answer
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.origin_tags import OriginTags
from niom_ros.tracking.alike_track import AlikeMatch
from niom_ros.tracking.track import FullMatch, Tracked
from niom_ros.tracking.tracker import Tracker

OTHER_TARGET = 'the target or the matching options changed'
NOT_WEIGHTED = Weights(why_none='tracked')


@dataclass(frozen=True)
class Target:
    """What is looked for, and how; a track of anything else is given up."""

    revisions: tuple[int, ...]  # of the references
    limits: Limits
    rotation: int  # degrees; after a rotation, the track would be at another place


def target_of(frame: Frame | RefusedFrame) -> Target | None:
    """Return what is to be tracked in a frame, and how; None: nothing."""
    if not frame.options.tracking:
        return None
    revisions = tuple(known.revision for known in frame.references)
    return Target(revisions, frame.options.matching.limits, frame.options.rotation)


class TargetTracker:
    """Tracks what the newest frame asks for, and knows which full match a track started from.

    One thread calls `aim` and `follow`, another one `correct`.
    """

    def __init__(self, tracker: Tracker) -> None:
        """Start without any track."""
        self._tracker = tracker
        self._tags = OriginTags()
        self._lock = Lock()
        self._target: Target | None = None

    def aim(self, target: Target | None) -> None:
        """Give up a track of anything but this target; None: nothing may be tracked."""
        with self._lock:
            before, self._target = self._target, target
        # In this order, so that a track that starts just now is forgotten here or by `correct`.
        if target != before:
            self.forget(OTHER_TARGET)

    def follow(self, frame: Frame | RefusedFrame) -> tuple[Tracked | None, Any]:
        """Return where the reference was tracked to, and the tag of the full match behind it."""
        if isinstance(frame, RefusedFrame) or self._aims_at(None):
            return None, None
        tracked = self._tracker.follow(frame.upright, frame.stamp)
        current = any(known.revision == tracked.revision for known in frame.references)
        tag = self._tags.of(tracked.matched_stamp)
        if not current or (tracked.located and tag is None):
            return None, None  # the track is being forgotten just now
        return tracked, tag

    def correct(self, frame: Frame, answer: Answer) -> None:
        """Tell the tracker where a full match found the reference, or that it did not."""
        target = target_of(frame)
        if target is None or not self._aims_at(target):
            return
        known = answer.reference
        if known is None or not can_be_tracked(answer.upright):
            self._tracker.not_found(frame.stamp)
            return
        self._tags.note(frame.stamp, frame.stamp if frame.tag is None else frame.tag)
        self._tracker.limits = frame.options.matching.limits
        self._tracker.matched(full_match(frame, answer.upright, known))
        if not self._aims_at(target):  # it changed meanwhile
            self.forget(OTHER_TARGET)

    def forget(self, why: str) -> None:
        """Give up the track."""
        self._tracker.forget(why)
        self._tags.forget()

    def _aims_at(self, target: Target | None) -> bool:
        with self._lock:
            return target == self._target


def can_be_tracked(match: Match) -> bool:
    """Return whether a match gives a track enough to start from.

    An object may be called alike by its label alone, without a part that is certain.
    """
    if match.status is Status.ALIKE:
        return int(match.inliers.sum()) >= MIN_CERTAIN
    return match.located


def tracked_answer(
    frame: Frame | RefusedFrame, tracked: Tracked | None, tag: Any, seconds: float
) -> Answer:
    """Return the answer to a frame by tracking, which took this long; None: the track was lost."""
    if isinstance(frame, RefusedFrame):
        return frame.answer
    if tracked is None:
        return no_answer(Status.FEW_MATCHES, 'the track was lost: searching again')
    known = next(known for known in frame.references if known.revision == tracked.revision)
    match = Match(
        tracked.verdict,
        tracked.correspondences,
        stage_seconds={'track': seconds},
        alike=tracked.alike,
        reference_weights=NOT_WEIGHTED,
        image_weights=NOT_WEIGHTED,
    )
    answer = answer_about(
        known,
        match,
        frame.upright,
        rotation=frame.rotation,
        options=frame.options,
        camera=frame.camera,
        no_camera=frame.no_camera,
    )
    return replace(answer, matched_tag=tag)


def full_match(frame: Frame, match: Match, known: KnownReference) -> FullMatch | AlikeMatch:
    """Return what a full match found in a frame, to be tracked."""
    if match.alike is not None and match.status is Status.ALIKE:
        return AlikeMatch(
            stamp=frame.stamp,
            image=frame.upright,
            verdict=match.verdict,
            correspondences=match.correspondences,
            alike=match.alike,
            revision=known.revision,
        )
    return FullMatch(
        stamp=frame.stamp,
        image=frame.upright,
        verdict=match.verdict,
        correspondences=match.correspondences,
        reference_box=known.prepared.box,
        counting_area=known.prepared.counting_area,
        revision=known.revision,
    )
