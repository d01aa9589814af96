"""Objects and views remembered from image to image, with real networks and a known motion."""

import cv2
import numpy as np
import pytest

from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, StreamOptions, Weighting
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.references.known_reference import KnownReference
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.answers import find_best
from niom_ros.stream.recollection import Recollection
from niom_ros.tracking.track import Tracked

OPTIONS = StreamOptions(Options(weighting=Weighting('sew')))
INTERVAL = 5.0  # seconds


@pytest.fixture(scope='module')
def cup(matcher, coffee):
    return KnownReference(matcher.prepare(coffee), 1)


class Stream:
    """Matches images of the virtual camera, whose motion is known."""

    def __init__(self, matcher, known, scene):
        self.matcher, self.known, self.scene = matcher, known, scene
        self.recollection = Recollection()

    def show(self, seconds, is_tracked=True, image=None, of=1):
        view = self.scene.view(seconds, frame=round(30 * seconds))
        image = view.image if image is None else image
        tracked = Tracked(seconds, found(view.picture_to_image), revision=of)
        prior = self.recollection.prior(
            [self.known],
            tracked if is_tracked else None,
            stamp=seconds,
            shape=image.shape,
            detection_interval=INTERVAL,
        )
        answer = find_best(self.matcher, [self.known], image, OPTIONS, prior=prior)
        self.recollection.note(answer, seconds)
        return answer

    def truth(self, seconds):
        return self.scene.picture_to_image(seconds)


def found(reference_to_image):
    return Verdict(Status.OK, '', np.ones(20, bool), reference_to_image, 0.9)


@pytest.fixture
def stream(matcher, cup, scene):
    return Stream(matcher, cup, scene)


def detected(answer):
    return 'detect' in answer.match.stage_seconds


def test_objects_are_carried_along_until_it_is_time_to_look_again(stream):
    first = stream.show(8.0, is_tracked=False)
    assert detected(first)
    second = stream.show(9.0)
    assert not detected(second)
    assert second.match.verdict.status is Status.OK
    assert second.match.weighting == 'sew'
    assert second.match.image_weights.description == 'yolov4-tiny, carried by the motion: cup'
    before, after = first.match.scene.objects[0], second.match.scene.objects[0]
    assert before.label == after.label == 'cup'
    middle = np.array([[before.area.left + before.area.width / 2, before.area.top + 20]])
    motion = stream.truth(9.0) @ np.linalg.inv(stream.truth(8.0))
    moved = warp_points(motion, middle)[0]
    assert after.area.left < moved[0] < after.area.right
    assert after.area.top - 5 < moved[1] < after.area.bottom
    # The one that was carried over does not count as detected.
    assert not detected(stream.show(12.5))
    assert detected(stream.show(13.5))
    assert not detected(stream.show(14.0))


def test_objects_are_looked_for_again_when_nothing_was_tracked(stream):
    stream.show(8.0, is_tracked=False)
    assert detected(stream.show(8.5, is_tracked=False))


def test_objects_are_looked_for_again_after_a_miss(stream):
    stream.show(8.0, is_tracked=False)
    miss = stream.show(8.5, image=cv2.resize(example_photo('astronaut'), (640, 480)))
    assert miss.match.verdict.status is not Status.OK
    assert not detected(miss)
    assert detected(stream.show(9.0))


def test_what_was_tracked_as_another_reference_is_no_clue(stream):
    stream.show(8.0, is_tracked=False)
    assert detected(stream.show(8.5, of=2))
