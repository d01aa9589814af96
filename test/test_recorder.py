"""The recorder of the fault tests notices every kind of misleading message."""

from types import SimpleNamespace

from geometry_msgs.msg import PoseWithCovarianceStamped
from niom_ros.msg import Homography, LandmarkArray, MatchResult
import numpy as np
import pytest
from recorder import Recorder
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from niom_ros.core.boxes import Box

TRUTH = np.array([[1.0, 0, 20], [0, 1, 10], [0, 0, 1]])


class DeafRecorder(Recorder):
    """A recorder that is told what was said."""

    def __init__(self):
        self._box = Box(0, 0, 600, 400)
        self.truths = {1 * 10**9: TRUTH, 2 * 10**9: TRUTH, 3 * 10**9: None}
        for name in ('results', 'homographies', 'landmarks', 'poses', 'transforms', 'markers'):
            setattr(self, name, SimpleNamespace(messages=[]))

    def listen(self, seconds):
        pass

    def say(self, homography):
        """Say something about a frame, in both messages."""
        result = MatchResult(header=homography.header, homography=homography, status_message='x')
        self.homographies.messages.append(homography)
        self.results.messages.append(result)


def header(second):
    stamped = Header()
    stamped.stamp.sec = second
    return stamped


def found(second, matrix=TRUTH, **fields):
    message = Homography(
        header=header(second),
        status=Homography.OK,
        source=Homography.MATCHED,
        confidence=0.9,
        matrix=np.asarray(matrix).ravel(),
    )
    message.matched_stamp.sec = 1
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def missed(second, status=Homography.STALE, **fields):
    return Homography(header=header(second), status=status, **fields)


def test_what_is_true_passes():
    recorder = DeafRecorder()
    recorder.say(found(1))
    recorder.say(missed(2))
    recorder.say(missed(3))
    assert recorder.check() == 1


@pytest.mark.parametrize(
    ('said', 'words'),
    [
        ([missed(1, matrix=TRUTH.ravel())], 'a homography without OK'),
        ([missed(1, Homography.UNKNOWN)], 'status is UNKNOWN'),
        ([found(3)], 'where it is not'),
        ([found(1, TRUTH + np.diag([0.1, 0, 0]))], 'px off'),
        ([found(7)], 'not the stamp of a frame that was sent'),
        ([found(1, source=Homography.NONE)], 'OK without a source'),
        ([found(1, confidence=0.4)], 'OK without confidence'),
        ([found(2), found(1)], 'went back to an older frame'),
        ([found(1), found(1)], 'answered twice'),
    ],
)
def test_what_misleads_is_noticed(said, words):
    recorder = DeafRecorder()
    for message in said:
        recorder.say(message)
    with pytest.raises(AssertionError, match=words):
        recorder.check()


def test_outputs_that_say_more_than_the_homography_are_noticed():
    for inbox, message in (
        ('poses', PoseWithCovarianceStamped(header=header(2))),
        ('landmarks', LandmarkArray(header=header(2), status=Homography.OK)),
        ('landmarks', LandmarkArray(header=header(2), status=Homography.STALE, names=['a'])),
        (
            'markers',
            MarkerArray(
                markers=[
                    Marker(header=header(2), action=Marker.DELETEALL),
                    Marker(header=header(2)),
                ]
            ),
        ),
    ):
        recorder = DeafRecorder()
        recorder.say(missed(2))
        getattr(recorder, inbox).messages.append(message)
        with pytest.raises(AssertionError):
            recorder.check()
    recorder = DeafRecorder()
    recorder.say(missed(2))
    recorder.results.messages[0].homography = found(2)
    with pytest.raises(AssertionError, match='says something else'):
        recorder.check()
