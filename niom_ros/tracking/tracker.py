"""Tracks a reference at camera rate while full matches, which take longer, correct it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from niom_ros.core.settings import Limits
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.tracking.alike_track import AlikeMatch, AlikeTrack
from niom_ros.tracking.frames import grey_frame, GreyFrame, History, HistoryParameters
from niom_ros.tracking.track import FullMatch, Track, Tracked, TrackingParameters


@dataclass(frozen=True, kw_only=True)
class TrackerParameters:
    """When full matches confirm or end a track, and the parameters of each track."""

    max_misses: int = 3  # consecutive full matches without the tracked reference
    max_miss_time: float = 5.0  # seconds from the first of these to the last one
    max_remembered: int = 512  # tracked frames whose view is kept, to check full matches
    max_disagreement: float = 0.05  # relative corner error between a full match and the track
    max_alike_disagreement: float = 0.4  # the same for boxes of objects that are only alike
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
        # Stamps and views of tracked frames.
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=parameters.max_remembered)
        self._track: Track | AlikeTrack | None = None
        self._why_not = NOT_FOUND_YET
        self._misses: list[float] = []  # stamps of consecutive full matches that found nothing
        self._resets = 0  # how often everything was forgotten

    @property
    def number(self) -> int | None:
        """Return the number of what is tracked, or was until it was lost; None: nothing."""
        with self._lock:
            return None if self._track is None else self._track.newest.number

    def follow(self, image: np.ndarray, stamp: float) -> Tracked:
        """Return where the reference is in the next RGB frame, taken at `stamp` in seconds."""
        return self.follow_frame(grey_frame(image, stamp, self._parameters.tracking.frames))

    def follow_frame(self, frame: GreyFrame) -> Tracked:
        """Return where the reference is in the next frame, which other trackers may share."""
        stamp = frame.stamp
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

    def matched(self, match: FullMatch | AlikeMatch) -> Tracked:
        """Track the reference from where a full match found it, up to the newest frame.

        Returns the result for the newest frame. While the object itself is tracked, a match that
        found one that is only alike did not find it.
        """
        with self._lock:
            if not match.replaces(self._track):
                self._missed(match.stamp)
            if not match.replaces(self._track):  # unless that was one miss too many
                self._history.forget_until(match.stamp)
                return self._answer(match.stamp)
            resets, former = self._resets, self._track
            if former is not None and match.stamp <= former.matched_stamp:
                return self._answer(match.stamp)
            expected = self._expected(match)
        track = match.track(self.limits, self._parameters.tracking)
        while True:
            with self._lock:
                if resets != self._resets:
                    return self._answer(match.stamp)
                frames = self._history.after(track.newest.stamp)
                if len(frames) <= self._parameters.max_frames_locked or track.lost_for_good:
                    catch_up(track, frames, expected, leaping=not match.among_equals)
                    self._replace(track, match)
                    return self._answer(match.stamp)
            # Without the lock, so that the camera does not wait for this.
            catch_up(track, frames, expected, leaping=not match.among_equals)

    def not_found(self, stamp: float) -> None:
        """Note that a full match of a frame did not find the reference.

        A single miss may be chance; after repeated ones, the track is given up.
        """
        with self._lock:
            self._history.forget_until(stamp)
            self._missed(stamp)

    def not_sought(self, stamp: float) -> None:
        """Note that a full match of a frame says nothing about what is tracked."""
        with self._lock:
            self._history.forget_until(stamp)

    def give_up(self, reason: str) -> None:
        """End the track; the frames are kept, for a full match of one of them."""
        with self._lock:
            self._resets += 1
            self._give_up(reason)

    def forget(self, reason: str = NOT_FOUND_YET) -> None:
        """Forget everything, for example because another reference is looked for."""
        with self._lock:
            self._forget(reason)

    def _missed(self, stamp: float) -> None:
        track = self._track
        if track is None or track.lost_for_good or stamp <= track.matched_stamp:
            return
        self._misses.append(stamp)
        count, seconds = len(self._misses), stamp - self._misses[0]
        too_long = count > 1 and seconds >= self._parameters.max_miss_time
        if count >= self._parameters.max_misses or too_long:
            self._give_up(f'{count} full matches in a row did not find the reference')

    def _forget(self, reason: str) -> None:
        self._resets += 1
        self._history.clear()
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._track, self._why_not = None, reason
        self._past.clear()
        self._misses.clear()

    def _remember(self, tracked: Tracked) -> None:
        if tracked.view is not None:
            self._past.append((tracked.stamp, tracked.view))

    def _answer(self, stamp: float) -> Tracked:
        """Return the result for the newest frame, or for `stamp` if none is newer."""
        if self._track is not None:
            return self._track.newest
        newest = self._history.newest
        stamp = stamp if newest is None else max(stamp, newest.stamp)
        nothing = Verdict(Status.LOW_CONFIDENCE, self._why_not, np.zeros(0, bool))
        return Tracked(stamp, nothing)

    def _expected(self, match: FullMatch | AlikeMatch) -> np.ndarray | None:
        """Return where the track has the reference now, if the full match agrees with it."""
        then = self._confirmed_by(match)
        now = None if self._track is None else self._track.newest.view
        return None if then is None or now is None else match.seen_from(then, now)

    def _confirmed_by(self, match: FullMatch | AlikeMatch) -> np.ndarray | None:
        """Return the view that the track had in the frame of a full match that agrees with it."""
        then = next((view for stamp, view in self._past if stamp == match.stamp), None)
        if then is None or self._track is None:
            return None
        parameters = self._parameters
        most = parameters.max_disagreement
        if match.only_alike:
            most = parameters.max_alike_disagreement
        return then if match.error_of(self._track, then) <= most else None

    def _replace(self, track: Track | AlikeTrack, match: FullMatch | AlikeMatch) -> None:
        """Continue with the track of a new full match."""
        former, then = self._track, self._confirmed_by(match)
        confirmed = former is not None and former.newest.located and then is not None
        self._misses.clear()
        self._history.forget_until(match.stamp)
        if former is not None and confirmed and not track.newest.located:
            # Both agree, but the full match could not be tracked to the newest frame.
            former.confirm(match.stamp, match.verdict.confidence)
            return
        if self._history.newest is None:
            self._history.add(track.frame)
        past = list(self._past) if confirmed else []
        self._past.clear()
        if then is not None:
            self._past.extend((stamp, match.seen_from(then, view)) for stamp, view in past)
        self._track = track
        self._remember(track.newest)


def catch_up(
    track: Track | AlikeTrack,
    frames: Sequence[GreyFrame],
    expected: np.ndarray | None,
    leaping: bool = True,
) -> None:
    """Bring a track forward to the last of some frames, in leaps as long as possible.

    `expected` is where another track has the reference in the last frame. Among equal things, a
    leap may end at another one: then every frame is needed.
    """
    if frames and expected is not None and track.leap(frames[-1], expected):
        return
    position, stride = 0, len(frames) if leaping else 1
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
