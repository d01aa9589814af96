"""The thread that draws pictures of frames while somebody subscribes to them."""

from collections.abc import Callable
from dataclasses import dataclass
import math
import os
import sys
from threading import Condition, get_native_id, Thread

from std_msgs.msg import Header

from niom_ros.core.faults import explained
from niom_ros.nodes.outputs import HEAT, Outputs, PICTURES
from niom_ros.pictures.answers import View
from niom_ros.stream.answers import Answer

NICENESS = 10  # of 0 to 19, the least urgent


@dataclass(frozen=True)
class PictureRequest:
    """An answer to draw a picture of."""

    answer: Answer
    stamp: float  # of its frame, in seconds
    header: Header  # of the camera image
    view: View


class PictureThread:
    """Draws the newest picture of each topic that has a subscriber.

    Nothing waits for a picture: one that is not drawn when the next comes is dropped. Where all
    cores are busy, matching and tracking go first.
    """

    def __init__(self, outputs: Outputs, report: Callable[[str], None]) -> None:
        """Start the thread; `report` gets faults."""
        self._outputs = outputs
        self._report = report
        self._waiting: dict[str, PictureRequest] = {}  # by topic, oldest first
        self._newest: dict[str, float] = {}  # by topic, the stamp of the last frame
        self._changed = Condition()
        self._closed = False
        self.thread = Thread(target=self._work, name='pictures', daemon=True)
        self.thread.start()

    def show(self, shown: PictureRequest, only_heat: bool = False) -> None:
        """Queue the pictures that have subscribers, unless a newer frame was shown."""
        for topic in (HEAT,) if only_heat else PICTURES:
            # A frame that was only tracked has no heat, and must not displace one that has.
            if topic == HEAT and shown.answer.analysis is None:
                continue
            if not self._outputs.is_watched(topic):
                continue
            with self._changed:
                if not self._closed and shown.stamp > self._newest.get(topic, -math.inf):
                    self._newest[topic] = shown.stamp
                    self._waiting[topic] = shown
                    self._changed.notify()

    def close(self) -> None:
        """Let the thread end after the current picture."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _work(self) -> None:
        yield_to_others()
        while (task := self._next()) is not None:
            topic, shown = task
            try:
                self._outputs.publish_picture(topic, shown.answer, shown.header, shown.view)
            except BaseException as error:  # answers do not depend on pictures
                self._report(f'a picture could not be drawn: {explained(error)}')
            del task, shown  # the networks' view of an image takes megabytes

    def _next(self) -> tuple[str, PictureRequest] | None:
        """Wait for the next picture to draw; None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            topic = next(iter(self._waiting))
            return topic, self._waiting.pop(topic)


def yield_to_others() -> None:
    """Let the scheduler prefer all other threads to the calling one."""
    if sys.platform == 'linux':  # elsewhere, a thread has the priority of its process
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)
