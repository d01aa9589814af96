"""A camera that tests lead frame by frame, with all that the matcher says about it recorded."""

from contextlib import contextmanager
import time

from niom_ros.msg import Homography
from ros_client import spin_until
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message

PERIOD = 0.1  # seconds between frames, of the camera and of the scene
START = 2_000_000  # seconds: the stamp of the first frame, later than those of the bench
PATIENCE = 60.0  # seconds
FRAME_ID = 'camera_optical_frame'


@contextmanager
def recorded(bench, scene):
    """Show a film to the matcher of a bench; all that is said during it is checked."""
    bench.recorder.begin()
    film = Film(bench, scene)
    yield film
    bench.last_stamp = film.seconds
    bench.recorder.check()


class Film:
    """Shows the scene frame by frame, with stamps a period apart, and notes what it shows."""

    def __init__(self, bench, scene):
        self.bench = bench
        self.scene = scene
        self.recorder = bench.recorder
        self.shown = 0
        self.stamps = []  # of all that was shown
        self.seconds = getattr(bench, 'last_stamp', START)  # of the next stamp

    @property
    def answers(self):
        """Return all results since the film began."""
        return self.recorder.results.messages

    def show(self, image=None, truth=None, camera=None, stamp=None):
        """Show the next frame of the scene, or something else, and listen for a moment.

        `image` is an RGB picture or a message. Returns the stamp.
        """
        if image is None:
            view = self.scene.view(self.shown * PERIOD, self.shown)
            image, truth = view.image, view.picture_to_image
        self.shown += 1
        message = image if isinstance(image, Image) else rgb_to_message(image, Header())
        if stamp is None:
            self.seconds += PERIOD
            stamp = self.seconds
        message.header = stamped(stamp)
        self.stamps.append(message.header.stamp)
        self.recorder.note(message.header.stamp, truth)
        (camera or self.bench.camera).publish(message)
        self.recorder.listen(PERIOD)
        return message.header.stamp

    def show_until(self, condition, **what):
        """Show frames until a result from now on fulfils the condition; return it."""
        seen = len(self.answers)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.show(**what)
            for result in self.answers[seen:]:
                if condition(result):
                    return result
            seen = len(self.answers)
        raise AssertionError(f'no such result in time; the last one: {self.answers[-1:]}')

    def show_until_tracked(self):
        return self.show_until(is_tracked)

    def answer_to(self, image, truth=None):
        """Show something once and return what is said about it."""
        return self.answer_of(self.show(image, truth))

    def answer_of(self, stamp):
        """Return what is said about the frame with this stamp."""

        def answers():
            return [answer for answer in self.answers if answer.header.stamp == stamp]

        spin_until(self.bench.node, answers, 'an answer')
        return answers()[0]

    def wait_for_the_last_answer(self):
        """Wait until all is said about the frames shown: the last one is always answered."""
        last = stamped(self.seconds).stamp
        for inbox in (self.recorder.homographies, self.recorder.results):
            spin_until(
                self.bench.node,
                lambda heard=inbox.messages: heard and heard[-1].header.stamp == last,
                'the last answer',
            )


def stamped(seconds):
    header = Header(frame_id=FRAME_ID)
    nanoseconds = round(seconds * 1e9)
    header.stamp.sec, header.stamp.nanosec = divmod(nanoseconds, 10**9)
    return header


def is_matched(result):
    return result.homography.source == Homography.MATCHED


def is_tracked(result):
    return result.homography.source == Homography.TRACKED


def status_is(status):
    return lambda result: result.homography.status == status
