"""Follows a reference at camera rate while full matches, which take longer, correct it."""

from collections import deque
from collections.abc import Sequence
from threading import Lock

import numpy as np

from niom_ros.core.settings import Limits
from niom_ros.matching.geometry import relative_corner_error, Status, Verdict
from niom_ros.tracking.frames import grey_frame, GreyFrame, History
from niom_ros.tracking.track import FullMatch, Track, Tracked

MOST_REFUSALS = 3  # full matches in a row that do not find what is tracked
LONGEST_REFUSAL = 5.0  # seconds from the first of them, if there was a second
MOST_REMEMBERED = 512  # tracked frames whose view is kept, to compare full matches with
AGREEMENT = 0.05  # of the outline's size: full match and track mean the same place
FEW_FRAMES = 2  # that may be caught up with while others wait


class Tracker:
    """Knows where a reference is in each camera frame, from full matches of a few of them.

    `follow` takes each frame, in the order of their stamps. `matched` and `not_found` take what a
    full match says about one of these frames, also when it was followed long ago; another thread
    may call them meanwhile. The answers of one tracker are about one reference at a time.
    """

    def __init__(self) -> None:
        """Start without knowing anything."""
        self.limits = Limits()  # as full matches have them, for tracks that begin from now on
        self._lock = Lock()
        self._history = History()
        self._views: deque[tuple[float, np.ndarray]] = deque(maxlen=MOST_REMEMBERED)
        self._track: Track | None = None
        self._why_not = 'no full match has found a reference yet'
        self._refusals: list[float] = []  # stamps of full matches in a row that found nothing
        self._beginnings = 0  # how often all was forgotten

    def follow(self, image: np.ndarray, stamp: float) -> Tracked:
        """Say where the reference is in the next RGB frame, taken at `stamp` in seconds."""
        frame = grey_frame(image, stamp)
        with self._lock:
            before = self._history.newest
            if before is not None and before.stamp >= stamp:
                self._forget('the frames began anew: their time went back')
            elif before is not None and before.image_size != frame.image_size:
                self._forget('the camera images have another size now')
            self._history.add(frame)
            if self._track is not None:
                self._remember(self._track.follow(frame))
            return self._answer(stamp)

    def matched(self, match: FullMatch) -> Tracked:
        """Take over where a full match found the reference, carried on to the newest frame.

        Returns the answer for that frame.
        """
        with self._lock:
            beginning, former = self._beginnings, self._track
            if former is not None and match.stamp <= former.matched_stamp:
                return self._answer(match.stamp)
            expected = self._expected(match)
        track = Track(match, self.limits)
        while True:
            with self._lock:
                if beginning != self._beginnings:
                    return self._answer(match.stamp)
                frames = self._history.after(track.newest.stamp)
                if len(frames) <= FEW_FRAMES or track.lost_for_good:
                    catch_up(track, frames, expected)
                    self._replace(track, match)
                    return self._answer(match.stamp)
            # Without the lock: the camera does not wait until this is done.
            catch_up(track, frames, expected)

    def not_found(self, stamp: float) -> None:
        """Note that a full match of a frame did not find the reference.

        Once may be chance; if it happens again and again, the track is not believed any more.
        """
        with self._lock:
            self._history.forget_until(stamp)
            track = self._track
            if track is None or track.lost_for_good or stamp <= track.matched_stamp:
                return
            self._refusals.append(stamp)
            count, seconds = len(self._refusals), stamp - self._refusals[0]
            if count >= MOST_REFUSALS or (count > 1 and seconds >= LONGEST_REFUSAL):
                self._give_up(f'{count} full matches in a row did not find the reference')

    def forget(self, reason: str = 'no full match has found a reference yet') -> None:
        """Start anew, for example with another reference."""
        with self._lock:
            self._forget(reason)

    def _forget(self, reason: str) -> None:
        self._beginnings += 1
        self._history.clear()
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._track, self._why_not = None, reason
        self._views.clear()
        self._refusals.clear()

    def _remember(self, tracked: Tracked) -> None:
        if tracked.verdict.reference_to_image is not None:
            self._views.append((tracked.stamp, tracked.verdict.reference_to_image))

    def _answer(self, stamp: float) -> Tracked:
        """Return what is known of the newest frame; this is its stamp unless there are newer."""
        if self._track is not None:
            return self._track.newest
        newest = self._history.newest
        stamp = stamp if newest is None else max(stamp, newest.stamp)
        nothing = Verdict(Status.LOW_CONFIDENCE, self._why_not, np.zeros(0, bool))
        return Tracked(stamp, nothing)

    def _expected(self, match: FullMatch) -> np.ndarray | None:
        """Return where the track has the reference now, if the full match agrees with it."""
        if self._track is None or not self._agrees(match):
            return None
        return self._track.newest.verdict.reference_to_image

    def _agrees(self, match: FullMatch) -> bool:
        """Tell whether the track had the reference where a full match of that frame has it."""
        found = match.verdict.reference_to_image
        view = next((view for stamp, view in self._views if stamp == match.stamp), None)
        track = self._track
        if found is None or view is None or track is None:
            return False
        if match.revision != track.revision or match.reference_box != track.reference_box:
            return False
        return relative_corner_error(view, found, match.reference_box) <= AGREEMENT

    def _replace(self, track: Track, match: FullMatch) -> None:
        """Go on with the track of a new full match."""
        former = self._track
        confirmed = former is not None and former.newest.found and self._agrees(match)
        self._refusals.clear()
        self._history.forget_until(match.stamp)
        if former is not None and confirmed and not track.newest.found:
            # Both say the same, only the way from the full match to now was not found.
            former.confirm(match.stamp, match.verdict.confidence)
            return
        if self._history.newest is None:
            self._history.add(track.frame)
        if not confirmed:
            self._views.clear()
        self._track = track
        self._remember(track.newest)


def catch_up(track: Track, frames: Sequence[GreyFrame], expected: np.ndarray | None) -> None:
    """Carry a track on to the last of some frames, in leaps that are as long as possible.

    `expected` is about where another track has the reference in the last frame.
    """
    if frames and expected is not None and track.leap(frames[-1], expected):
        return
    position, stride = 0, len(frames)
    while position < len(frames) and not track.lost_for_good:
        stride = min(stride, len(frames) - position)
        if stride == 1:
            track.follow(frames[position])
        elif not track.leap(frames[position + stride - 1]):
            stride //= 2
            continue
        position += stride
    if position < len(frames):
        track.follow(frames[-1])
