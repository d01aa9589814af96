"""Tracking what is looked for now: a track of anything else is given up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits
from niom_ros.matching.alike_object import MIN_CERTAIN
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match, Weights
from niom_ros.matching.partly_hidden import MAX_OVERLAP, outline_of
from niom_ros.references.known_reference import KnownReference
from niom_ros.stream.answers import Answer, answer_about, no_answer
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.numbers import hidden_ones, Numbers
from niom_ros.stream.origin_tags import OriginTags
from niom_ros.tracking.alike_track import AlikeMatch
from niom_ros.tracking.frames import grey_frame
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


@dataclass(frozen=True)
class Sight:
    """Where something was tracked to in a frame, and which full match that is based on."""

    tracked: Tracked
    tag: Any  # of the frame of the full match; None: it is not known any more

    @property
    def number(self) -> int:
        """Return the number of what was tracked."""
        return self.tracked.number


class TargetTracker:
    """Tracks what the newest frame asks for, and knows which full match a track started from.

    Equal things are tracked at once, each under a number of its own; one of them leads: it stays
    the same as long as it is seen. One thread calls `aim` and `follow`, another one `identify` and
    `correct`.
    """

    def __init__(self, tracker: Tracker) -> None:
        """Start without any track; more trackers like this one are made when needed."""
        self._trackers = [tracker]
        self._tags = OriginTags()
        self._lock = Lock()  # guards all of these:
        self._target: Target | None = None
        self._numbers = Numbers()
        self._leader = 0  # number of what is shown where there is room for one thing only
        self._followed: frozenset[int] = frozenset()  # numbers that were seen in the last frame

    def aim(self, frame: Frame | RefusedFrame) -> None:
        """Give up tracks of anything but the target of this frame."""
        target = target_of(frame)
        with self._lock:
            before, self._target = self._target, target
            self._numbers.keep({known.revision for known in frame.references})
            turned = before is not None and before.rotation != frame.options.rotation
            if turned:
                self._numbers.forget()
        # In this order, so that a track that starts just now is forgotten here or by `correct`.
        if target != before:
            self.forget(OTHER_TARGET)

    def follow(self, frame: Frame | RefusedFrame) -> list[Sight]:
        """Return where everything was tracked to, the leader first; empty: there is no track.

        What was lost is left out, unless it is the leader and nothing else is seen.
        """
        if isinstance(frame, RefusedFrame) or self._aims_at(None):
            return []
        trackers = self._make_room(frame.options.matching.max_instances)
        if len(trackers) == 1:
            tracked = [trackers[0].follow(frame.upright, frame.stamp)]
        else:
            grey = grey_frame(frame.upright, frame.stamp)
            tracked = [tracker.follow_frame(grey) for tracker in trackers]
        revisions = {known.revision for known in frame.references}
        sights = [Sight(each, self._tags.of(each.matched_stamp)) for each in tracked]
        # Others are being forgotten just now.
        sights = [
            sight
            for sight in sights
            if sight.tracked.revision in revisions
            and not (sight.tracked.located and sight.tag is None)
        ]
        located = self._without_hidden(frame, [each for each in sights if each.tracked.located])
        with self._lock:
            for sight in located:
                outline = outline_in(frame, sight.tracked)
                if outline is not None:
                    self._numbers.see(sight.number, frame.stamp, outline)
            self._followed = frozenset(sight.number for sight in located)
            if located and self._leader not in self._followed:
                best = max(located, key=lambda sight: sight.tracked.verdict.confidence)
                self._leader = best.number
            shown = located or [each for each in sights if each.number == self._leader][:1]
            return sorted(shown, key=lambda sight: (sight.number != self._leader, sight.number))

    def expected(self, frame: Frame) -> list[tuple[int, np.ndarray]]:
        """Return the revisions of references and outlines that were tracked to a frame."""
        with self._lock:
            places = [(known.revision, known.at(frame.stamp)) for known in self._numbers.known]
        return [(revision, place.outline) for revision, place in places if place is not None]

    def identify(self, frame: Frame, answer: Answer) -> Answer:
        """Return the answer of a full match with the numbers of all that it found.

        What leads comes first, if it was found.
        """
        if not answer.found:
            return self.with_unseen(frame, answer)
        outlines = [outline_of(each.upright, box_of(each)) for each in answer.instances]
        with self._lock:
            # If more were found than there is room for, what is tracked goes first.
            tracked = self._followed if answer.more else frozenset()
            numbers = self._numbers.identify(
                frame.stamp,
                [
                    (each.reference.revision, outline)
                    for each, outline in zip(answer.instances, outlines, strict=True)
                    if each.reference is not None and outline is not None
                ],
                tracked,
                frame.options.matching.max_instances,
            )
            self._numbers.forget_old(frame.stamp)
            given = [number for number in numbers if number]
            if self._leader not in {*given, *self._followed}:
                self._leader = given[0]
        numbered = [
            replace(each, number=number)
            for each, number in zip(answer.instances, numbers, strict=True)
            if number
        ]
        leading = given.index(self._leader) if self._leader in given else 0
        first = numbered.pop(leading)
        upright = replace(
            first.upright,
            stage_seconds=answer.upright.stage_seconds,
            by_keypoints=answer.upright.by_keypoints,
            fixed_seconds=answer.upright.fixed_seconds,
        )
        first = replace(
            first,
            upright=upright,
            analysis=answer.analysis,
            tried=answer.tried,
            more=answer.more,
        )
        others = sorted(numbered, key=lambda each: each.number)
        return self.with_unseen(frame, replace(first, instances=(first, *others)))

    def with_unseen(self, frame: Frame, answer: Answer) -> Answer:
        """Add what still has a number, but is not seen in this frame, to the instances."""
        seen = {each.number for each in answer.instances}
        by_revision = {known.revision: known for known in frame.references}
        with self._lock:
            self._numbers.forget_old(frame.stamp)
            unseen = [
                known
                for known in self._numbers.known
                if known.number not in seen
                and known.last.stamp < frame.stamp
                and known.revision in by_revision
            ]
        if not unseen:
            return answer
        lost = []
        for known in unseen:
            seconds = frame.stamp - known.last.stamp
            nothing = no_answer(Status.FEW_MATCHES, f'not seen for {seconds:.1f} s')
            reference = by_revision[known.revision]
            lost.append(replace(nothing, reference=reference, number=known.number))
        return replace(answer, instances=(*answer.instances, *lost))

    def correct(self, frame: Frame, answer: Answer) -> None:
        """Tell the trackers where a full match found things, or that it did not."""
        target = target_of(frame)
        if target is None or not self._aims_at(target):
            return
        trackers = self._make_room(frame.options.matching.max_instances)
        matches = [
            full_match(frame, each.upright, each.reference, each.number)
            for each in answer.instances
            if each.reference is not None and can_be_tracked(each.upright)
        ]
        if matches:
            self._tags.note(frame.stamp, frame.stamp if frame.tag is None else frame.tag)
        for tracker, match in assigned(trackers, matches):
            if match is None and answer.more:  # it may be one of those that were not looked for
                tracker.not_sought(frame.stamp)
            elif match is None:
                tracker.not_found(frame.stamp)
            else:
                tracker.limits = frame.options.matching.limits
                tracker.matched(match)
        if not self._aims_at(target):  # it changed meanwhile
            self.forget(OTHER_TARGET)

    def start_over(self, why: str) -> None:
        """Give up the tracks, and forget what had which number."""
        with self._lock:
            self._numbers.forget()
        self.forget(why)

    def forget(self, why: str) -> None:
        """Give up the tracks; what is found again soon gets back its number."""
        with self._lock:
            self._followed = frozenset()
        for tracker in self._all_trackers():
            tracker.forget(why)
        self._tags.forget()

    def _aims_at(self, target: Target | None) -> bool:
        with self._lock:
            return target == self._target

    def _all_trackers(self) -> list[Tracker]:
        with self._lock:
            return list(self._trackers)

    def _make_room(self, most: int) -> list[Tracker]:
        """Return trackers for this many things; surplus ones are dropped, never the leader's."""
        with self._lock:
            while len(self._trackers) < most:
                self._trackers.append(Tracker())
            if len(self._trackers) > most:

                def rank(tracker: Tracker) -> tuple[bool, bool]:
                    return tracker.number != self._leader, tracker.number is None

                self._trackers = sorted(self._trackers, key=rank)[:most]
            return list(self._trackers)

    def _without_hidden(self, frame: Frame, sights: list[Sight]) -> list[Sight]:
        """Give up tracks that go on at the place of another one; return the rest."""
        if len(sights) < 2:
            return sights
        outlines = {sight.number: outline_in(frame, sight.tracked) for sight in sights}
        hidden = hidden_ones(
            {number: outline for number, outline in outlines.items() if outline is not None},
            {sight.number: float(sight.tracked.verdict.inliers.mean()) for sight in sights},
            self._followed,
            MAX_OVERLAP,
        )
        for tracker in self._all_trackers():
            front = hidden.get(tracker.number or 0)
            if front is not None:
                tracker.give_up(f'it is hidden behind number {front}')
        return [sight for sight in sights if sight.number not in hidden]


def assigned(
    trackers: Sequence[Tracker], matches: Sequence[FullMatch | AlikeMatch]
) -> list[tuple[Tracker, FullMatch | AlikeMatch | None]]:
    """Return every tracker with the match that it continues with; None: with none.

    It is that of the same number, if there is one.
    """
    by_number = {match.number: match for match in matches}
    numbers = [tracker.number for tracker in trackers]
    new = [match for match in matches if match.number not in numbers]
    # What is only alike competes with a track; anything else gets a free tracker, first that of
    # something that was only alike.
    alike = any(match.only_alike for match in matches)
    order = sorted(
        range(len(trackers)),
        key=lambda index: ((numbers[index] is not None) != alike, bool(numbers[index])),
    )
    if not alike:
        order.sort(key=lambda index: numbers[index] != 0)
    chosen: dict[int, FullMatch | AlikeMatch | None] = {}
    for index in order:
        own = numbers[index]
        if own is not None and own in by_number:
            chosen[index] = by_number.pop(own)
        else:
            chosen[index] = new.pop(0) if new else None
    return [(tracker, chosen[index]) for index, tracker in enumerate(trackers)]


def outline_in(frame: Frame, tracked: Tracked) -> np.ndarray | None:
    """Return where the corners of something that was tracked are; None: it has no such view."""
    view = tracked.verdict.reference_to_image
    if view is None:
        return None
    known = next(each for each in frame.references if each.revision == tracked.revision)
    return warp_points(view, known.prepared.box.corners())


def box_of(answer: Answer) -> Box:
    """Return the used part of the reference of an answer."""
    assert answer.reference is not None
    return answer.reference.prepared.box


def can_be_tracked(match: Match) -> bool:
    """Return whether a match gives a track enough to start from.

    An object may be called alike by its label alone, without a part that is certain.
    """
    if match.status is Status.ALIKE:
        return int(match.inliers.sum()) >= MIN_CERTAIN
    return match.located


def tracked_answer(frame: Frame | RefusedFrame, sights: Sequence[Sight], seconds: float) -> Answer:
    """Return the answer to a frame by tracking, which took this long; no sights: all is lost."""
    if isinstance(frame, RefusedFrame):
        return frame.answer
    if not sights:
        return no_answer(Status.FEW_MATCHES, 'the track was lost: searching again')
    answers = [answer_to_sight(frame, sight, seconds) for sight in sights]
    return replace(answers[0], instances=tuple(each for each in answers if each.located))


def answer_to_sight(frame: Frame, sight: Sight, seconds: float) -> Answer:
    """Return what is known about one of the things that were tracked."""
    tracked = sight.tracked
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
    return replace(answer, matched_tag=sight.tag, number=tracked.number if answer.located else 0)


def full_match(
    frame: Frame, match: Match, known: KnownReference, number: int
) -> FullMatch | AlikeMatch:
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
        number=number,
        among_equals=frame.options.matching.max_instances > 1,
    )
