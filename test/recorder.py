"""Hears all that a matcher says, and checks that none of it could mislead anyone."""

from collections import Counter
import time

from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from niom_ros.msg import Homography, LandmarkArray, MatchResult
import numpy as np
import rclpy
from ros_client import Inbox
from visualization_msgs.msg import Marker, MarkerArray

from niom_ros.core.boxes import Box
from niom_ros.matching.geometry import corner_error

FARTHEST = (
    10.0  # pixels that the corners of what is found may be off, on average: wrong from there
)


def nanoseconds(stamp):
    return stamp.sec * 10**9 + stamp.nanosec


class Recorder:
    """All outputs of a matcher, and every frame that was sent to it.

    A frame is noted with the truth: the homography, or None where the reference is not in it.
    """

    def __init__(self, node, name='matcher', box=None):
        self._node = node
        self._box = box or Box(0, 0, 600, 400)
        self.truths = {}  # by stamp, in the order in which the frames were sent
        self.results = Inbox(node, MatchResult, f'{name}/match')
        self.homographies = Inbox(node, Homography, f'{name}/homography')
        self.landmarks = Inbox(node, LandmarkArray, f'{name}/landmarks')
        self.poses = Inbox(node, PoseWithCovarianceStamped, f'{name}/pose')
        self.transforms = Inbox(node, TransformStamped, '/tf_stand_in')
        self.markers = Inbox(node, MarkerArray, f'{name}/markers')

    def _inboxes(self):
        return (
            self.results,
            self.homographies,
            self.landmarks,
            self.poses,
            self.transforms,
            self.markers,
        )

    def note(self, stamp, truth):
        """Note a frame before it is sent."""
        self.truths[nanoseconds(stamp)] = truth

    def begin(self):
        """Forget what was said before; frames stay known, because answers to them may follow."""
        self.listen(0.3)
        for inbox in self._inboxes():
            inbox.messages.clear()

    def listen(self, seconds):
        """Take in what comes in the next seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rclpy.spin_once(self._node, timeout_sec=0.05)

    def error_of(self, homography):
        """Return how many pixels the corners are off, on average."""
        stamp = nanoseconds(homography.header.stamp)
        truth = self.truths[stamp]
        assert truth is not None, f'found in {stamp}, where it is not'
        return corner_error(np.array(homography.matrix).reshape(3, 3), truth, self._box)

    def check(self):
        """Fail if anything that was said is not so; return how many frames were answered OK."""
        self.listen(0.3)
        found = self._check_homographies()
        self._check_order()
        self._check_results()
        for marks in self.landmarks.messages:
            stamp = nanoseconds(marks.header.stamp)
            assert (marks.status == Homography.OK) == (stamp in found), 'landmarks differ'
            if marks.status == Homography.ALIKE:
                assert marks.mode == LandmarkArray.SEMANTIC, 'landmarks of another object'
            elif marks.status != Homography.OK:
                assert not marks.names and not len(marks.x), 'landmarks of what was not found'
        for inbox, what in ((self.poses, 'pose'), (self.transforms, 'transform')):
            for message in inbox.messages:
                assert nanoseconds(message.header.stamp) in found, f'a {what} of nothing found'
        for array in self.markers.messages:
            assert array.markers[0].action == Marker.DELETEALL
            if len(array.markers) > 1:
                stamp = nanoseconds(array.markers[0].header.stamp)
                assert stamp in found, 'markers of what was not found'
        return len(found)

    def _check_homographies(self):
        """Check what somebody sees who reads nothing else; return the stamps that are OK."""
        found = {}
        for message in self.homographies.messages:
            stamp = nanoseconds(message.header.stamp)
            assert stamp in self.truths, f'{stamp} is not the stamp of a frame that was sent'
            if message.status != Homography.OK:
                assert message.status != Homography.UNKNOWN, 'the status is UNKNOWN'
                assert list(message.matrix) == [], 'a homography without OK'
                alike = message.status == Homography.ALIKE
                assert (message.source != Homography.NONE) == alike, 'a source of nothing found'
                assert message.confidence < 0.5, 'confident without OK'
                continue
            error = self.error_of(message)
            assert error < FARTHEST, f'{stamp} is {error:.1f} px off: {message}'
            assert message.source != Homography.NONE, 'OK without a source'
            assert message.confidence >= 0.5, 'OK without confidence'
            assert nanoseconds(message.matched_stamp) in self.truths, 'rests on no frame'
            found[stamp] = message
        return found

    def _check_order(self):
        """Check that each frame was answered once at most, in the order of sending."""
        position = {stamp: number for number, stamp in enumerate(self.truths)}
        for inbox in (self.homographies, self.results):
            stamps = [nanoseconds(message.header.stamp) for message in inbox.messages]
            twice = [stamp for stamp, count in Counter(stamps).items() if count > 1]
            assert not twice, f'answered twice: {twice}'
            places = [position[stamp] for stamp in stamps]
            assert places == sorted(places), 'answers went back to an older frame'

    def _check_results(self):
        small = {nanoseconds(m.header.stamp): m for m in self.homographies.messages}
        for result in self.results.messages:
            stamp = nanoseconds(result.header.stamp)
            assert result.status_message, 'a status without words'
            assert result.homography == small.get(stamp), 'the small message says something else'
            if result.homography.status in (Homography.STALE, Homography.FAULT):
                assert not len(result.score), 'matches of a frame that guides nobody'
            assert result.frames_dropped <= result.frames_received, 'more dropped than came'

    def close(self):
        for inbox in self._inboxes():
            inbox.close()
