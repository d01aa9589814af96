"""A real matcher process, whose camera shows another object of the reference's kind."""

from alike_pictures import CLOCK_MARKS, on_the_wall, picture, wall
from matcher_bench import Bench, RELIABLE
from niom_ros.msg import Homography, LandmarkArray, ReferenceInfo
from niom_ros.srv import ListReferences, SetReference
import numpy as np
import pytest
from ros_client import Inbox, ros_network, running, spin_until
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo

REQUEST, ANSWER = SetReference.Request, SetReference.Response
TRUTH = on_the_wall(np.array(list(CLOCK_MARKS.values())))


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    log = tmp_path_factory.mktemp('alike') / 'log.txt'
    with (
        ros_network() as node,
        running('matcher_node', log, '-p', 'max_keypoints:=512', *RELIABLE) as process,
    ):
        bench = Bench(node, process)
        bench.landmarks = Inbox(node, LandmarkArray, 'matcher/landmarks')
        bench.heat_maps = Inbox(node, Image, 'matcher/heatmap_image')
        bench.wait_until_connected()
        yield bench


@pytest.fixture
def clock(bench):
    """Set the clock as the reference."""
    x, y = zip(*CLOCK_MARKS.values(), strict=True)
    answer = bench.set_reference(
        id='clock',
        kind=REQUEST.KIND_PHOTO,
        image=rgb_to_message(picture('clock'), Header()),
        landmark_names=list(CLOCK_MARKS),
        landmark_x=x,
        landmark_y=y,
    )
    assert answer.success, answer.message


def shown(bench, image):
    """Show an image, and return its result, its landmarks and what a controller gets."""
    stamp = bench.publish(rgb_to_message(image, Header()))
    inboxes = bench.results, bench.landmarks, bench.homographies

    def answers():
        return [[m for m in inbox.messages if m.header.stamp == stamp] for inbox in inboxes]

    spin_until(bench.node, lambda: all(answers()), 'the result of an image')
    return (found for (found,) in answers())


def errors_of(landmarks, moved_by=(0, 0)):
    places = np.column_stack([landmarks.x, landmarks.y])
    return np.linalg.norm(places - (TRUTH + moved_by), axis=1)


def test_it_guides_without_a_homography(bench, clock):
    result, landmarks, homography = shown(bench, wall())
    assert homography.status == result.homography.status == Homography.ALIKE
    assert len(homography.matrix) == len(result.homography.matrix) == 0
    assert 0.5 <= result.alike.confidence <= 1
    assert 40 < len(result.image_x) == len(result.inlier) < 144  # none beside the clock
    assert 180 < result.alike.width < 400 and len(result.alike.warp) == 9
    assert 150 < result.alike.size < result.alike.width
    signs = {'names', 'description', 'similarity', 'certainty', 'label'}
    assert signs <= set(result.check_names)
    assert landmarks.status == Homography.ALIKE and landmarks.mode == LandmarkArray.SEMANTIC
    assert list(landmarks.names) == list(CLOCK_MARKS) and errors_of(landmarks).max() < 25
    assert all(landmarks.inside) and min(landmarks.confidence) > 0
    assert 0 < min(landmarks.deviation) <= max(landmarks.deviation) < 60


def test_it_is_tracked_between_full_matches(bench, clock):
    first, _, _ = shown(bench, wall())
    for shift in range(1, 30):
        moved = np.roll(wall(), -2 * shift, axis=1)
        _, landmarks, homography = shown(bench, moved)
        if homography.source == Homography.TRACKED:
            break
    assert homography.source == Homography.TRACKED
    assert homography.status == Homography.ALIKE and len(homography.matrix) == 0
    assert landmarks.mode == LandmarkArray.SEMANTIC
    assert errors_of(landmarks, moved_by=(-2 * shift, 0)).max() < 30
    assert homography.matched_stamp.sec >= first.header.stamp.sec


def test_a_scene_without_one_is_refused_with_the_reason(bench, clock):
    for _ in range(2):  # in the first frame, a track may only be lost
        result, landmarks, homography = shown(bench, example_photo('astronaut'))
    assert homography.status not in (Homography.OK, Homography.ALIKE)
    assert 'no object of its kind is seen' in result.status_message
    assert len(landmarks.names) == 0 and result.alike.confidence == 0


def test_the_very_object_alone_may_be_wanted(bench, clock):
    assert bench.set_parameter('wanted', 'same_object').successful
    try:
        _, landmarks, homography = shown(bench, wall())
        assert homography.status not in (Homography.OK, Homography.ALIKE)
        assert len(landmarks.names) == 0
    finally:
        assert bench.set_parameter('wanted', 'either').successful
    refused = bench.set_parameter('wanted', 'anything')
    assert not refused.successful and 'same_kind' in refused.reason


def test_a_reference_says_what_is_wanted(bench, clock):
    image = rgb_to_message(picture('clock'), Header())
    refused = bench.set_reference(id='clock', image=image, wanted=7)
    assert (refused.success, refused.error) == (False, ANSWER.BAD_REQUEST)
    assert 'wanted 7 is unknown' in refused.message
    (known,) = bench.call(ListReferences, 'list_references').references
    assert known.wanted == REQUEST.WANTED_DEFAULT and known.landmark_names
    answer = bench.set_reference(
        id='clock', kind=REQUEST.KIND_PHOTO, image=image, wanted=REQUEST.WANTED_SAME_KIND
    )
    assert answer.success, answer.message
    (known,) = bench.call(ListReferences, 'list_references').references
    assert known.wanted == ReferenceInfo.WANTED_SAME_KIND
    result, _, _ = shown(bench, wall())
    assert result.homography.status == Homography.ALIKE
    assert list(result.stage_names) == ['detect', 'alike'] or 'track' in result.stage_names


def test_the_heat_map_shows_where_a_landmark_may_be(bench, clock):
    pictures = []
    for name in ('12', '6'):
        assert bench.set_parameter('heatmap_landmark', name).successful
        shown(bench, np.full((480, 640, 3), 90, np.uint8))  # now nothing is tracked any more
        _, _, homography = shown(bench, wall())
        assert homography.source == Homography.MATCHED

        def drawn(stamp=homography.header.stamp):
            return [m for m in bench.heat_maps.messages if m.header.stamp == stamp]

        spin_until(bench.node, drawn, 'the heat map')
        (seen,) = drawn()
        pictures.append(np.array(seen.data).reshape(seen.height, seen.width, 3))
    assert pictures[0].shape == pictures[1].shape
    assert not np.array_equal(*pictures)
