"""Tracks a reference at camera rate while full matches, which take longer, correct it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from niom_ros.core.settings import Limits
from niom_ros.matching.geometry import relative_corner_error, Status, Verdict
from niom_ros.tracking.frames import grey_frame, GreyFrame, History, HistoryParameters
from niom_ros.tracking.track import FullMatch, Track, Tracked, TrackingParameters


@dataclass(frozen=True)
class TrackerParameters:
    """When full matches confirm or end a track, and the parameters of each track."""

    max_misses: int = 3  # consecutive full matches without the tracked reference
    max_miss_time: float = 5.0  # seconds from the first of these to the last one
    max_remembered: int = 512  # tracked frames whose homography is kept, to check full matches
    max_disagreement: float = 0.05  # relative corner error between a full match and the track
    max_frames_locked: int = 2  # processed while the camera waits for the lock

    history: HistoryParameters = field(default_factory=HistoryParameters)
    tracking: TrackingParameters = field(default_factory=TrackingParameters)


DEFAULTS = TrackerParameters()
NOT_FOUND_YET = 'no full match has found a reference yet'


class Tracker:
    """Tracks a reference through all camera frames, from full matches of a few of them.

    `follow` takes every frame, in the order of their stamps. `matched` and `not_found` take the
    result of a full match of one of these frames, even a much older one; another thread may call
    them at any time. A tracker tracks one reference at a time.
    """

    def __init__(self, parameters: TrackerParameters = DEFAULTS) -> None:
        """Start without a track."""
        self.limits = Limits()  # of full matches, for tracks that start from now on
        self._parameters = parameters
        self._lock = Lock()
        self._history = History(parameters.history)
        # Stamps and reference_to_image of tracked frames.
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=parameters.max_remembered)
        self._track: Track | None = None
        self._why_not = NOT_FOUND_YET
        self._misses: list[float] = []  # stamps of consecutive full matches that found nothing
        self._resets = 0  # how often everything was forgotten

    def follow(self, image: np.ndarray, stamp: float) -> Tracked:
        """Return where the reference is in the next RGB frame, taken at `stamp` in seconds."""
        frame = grey_frame(image, stamp, self._parameters.tracking.frames)
        with self._lock:
            before = self._history.newest
            if before is not None and before.stamp >= stamp:
                self._forget('the stamps went back in time: tracking starts over')
            elif before is not None and before.image_size != frame.image_size:
                self._forget('the camera image size changed')
            self._history.add(frame)
            if self._track is not None:
                self._remember(self._track.follow(frame))
            return self._answer(stamp)

    def matched(self, match: FullMatch) -> Tracked:
        """Track the reference from where a full match found it, up to the newest frame.

        Returns the result for the newest frame.
        """
        with self._lock:
            resets, former = self._resets, self._track
            if former is not None and match.stamp <= former.matched_stamp:
                return self._answer(match.stamp)
            expected = self._expected(match)
        track = Track(match, self.limits, self._parameters.tracking)
        while True:
            with self._lock:
                if resets != self._resets:
                    return self._answer(match.stamp)
                frames = self._history.after(track.newest.stamp)
                if len(frames) <= self._parameters.max_frames_locked or track.lost_for_good:
                    catch_up(track, frames, expected)
                    self._replace(track, match)
                    return self._answer(match.stamp)
            # Without the lock, so that the camera does not wait for this.
            catch_up(track, frames, expected)

    def not_found(self, stamp: float) -> None:
        """Note that a full match of a frame did not find the reference.

        A single miss may be chance; after repeated ones, the track is given up.
        """
        with self._lock:
            self._history.forget_until(stamp)
            track = self._track
            if track is None or track.lost_for_good or stamp <= track.matched_stamp:
                return
            self._misses.append(stamp)
            count, seconds = len(self._misses), stamp - self._misses[0]
            too_long = count > 1 and seconds >= self._parameters.max_miss_time
            if count >= self._parameters.max_misses or too_long:
                self._give_up(f'{count} full matches in a row did not find the reference')

    def forget(self, reason: str = NOT_FOUND_YET) -> None:
        """Forget everything, for example because another reference is looked for."""
        with self._lock:
            self._forget(reason)

    def _forget(self, reason: str) -> None:
        self._resets += 1
        self._history.clear()
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._track, self._why_not = None, reason
        self._past.clear()
        self._misses.clear()

    def _remember(self, tracked: Tracked) -> None:
        if tracked.verdict.reference_to_image is not None:
            self._past.append((tracked.stamp, tracked.verdict.reference_to_image))

    def _answer(self, stamp: float) -> Tracked:
        """Return the result for the newest frame, or for `stamp` if none is newer."""
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
        """Return whether the track had the reference where a full match of that frame found it."""
        found = match.verdict.reference_to_image
        tracked = next((past for stamp, past in self._past if stamp == match.stamp), None)
        track = self._track
        if found is None or tracked is None or track is None:
            return False
        if match.revision != track.revision or match.reference_box != track.reference_box:
            return False
        error = relative_corner_error(tracked, found, match.reference_box)
        return error <= self._parameters.max_disagreement

    def _replace(self, track: Track, match: FullMatch) -> None:
        """Continue with the track of a new full match."""
        former = self._track
        confirmed = former is not None and former.newest.found and self._agrees(match)
        self._misses.clear()
        self._history.forget_until(match.stamp)
        if former is not None and confirmed and not track.newest.found:
            # Both agree, but the full match could not be tracked to the newest frame.
            former.confirm(match.stamp, match.verdict.confidence)
            return
        if self._history.newest is None:
            self._history.add(track.frame)
        if not confirmed:
            self._past.clear()
        self._track = track
        self._remember(track.newest)


def catch_up(track: Track, frames: Sequence[GreyFrame], expected: np.ndarray | None) -> None:
    """Bring a track forward to the last of some frames, in leaps as long as possible.

    `expected` is where another track has the reference in the last frame.
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
