"""Several equal parts in one image: each is found, judged, tracked, and keeps its number."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
from part_film import CROSSING, FARTHEST, laid, PartFilm, PERIOD, place, SIZE
import pytest
from std_msgs.msg import Header

from niom_ros.core.settings import Options, Settings, SettingsError, StreamOptions
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.partly_hidden import covers_any, hiding, overlap
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Landmark, Reference
from niom_ros.messages.results import FrameInfo, instances_message
from niom_ros.nodes.markers import marker_array
from niom_ros.replay.messages import build
from niom_ros.simulation.demo_sketch import demo_sketch
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.answers import Answer
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.frame import Frame
from niom_ros.stream.stream import Stream

SIFT = Options(keypoint_search='classical', wanted='same_object', max_instances=5)
FRAMES = 46


@pytest.fixture(scope='module')
def matcher() -> Matcher:
    return Matcher(Settings(device='cpu', max_keypoints=512, detector='none'))


@pytest.fixture(scope='module')
def cup(matcher: Matcher, coffee: np.ndarray) -> PreparedReference:
    return matcher.prepare(Reference(coffee, 'cup', landmarks=(Landmark('rim', 290, 20),)))


@pytest.fixture(scope='module')
def film(coffee: np.ndarray) -> PartFilm:
    return PartFilm(coffee)


def truths_of(
    matches: Sequence[Match], views: Sequence[np.ndarray], cup: PreparedReference
) -> list[int]:
    """Return which of the true views each match is at; fails if it is at none."""
    found = []
    for match in matches:
        assert match.found and match.reference_to_image is not None, match.message
        errors = [corner_error(match.reference_to_image, view, cup.box) for view in views]
        assert min(errors) < FARTHEST
        found.append(int(np.argmin(errors)))
    return found


# One image


@pytest.mark.parametrize('count', [1, 2, 5])
def test_every_copy_is_found_once_and_judged_like_the_first(
    matcher: Matcher, cup: PreparedReference, film: PartFilm, count: int
) -> None:
    views = list(film.views(0).values())[:count]
    matches = matcher.match_several(cup, laid(film.picture, views), SIFT)
    assert sorted(truths_of(matches, views, cup)) == list(range(count))
    for match in matches:
        assert match.strategy == 'classical' and match.confidence > 0.5
        assert match.inliers.sum() >= 12
        assert match.stage_seconds == matches[0].stage_seconds


def test_no_more_are_found_than_wanted(
    matcher: Matcher, cup: PreparedReference, film: PartFilm
) -> None:
    views = list(film.views(0).values())
    image = laid(film.picture, views)
    for most in (1, 3):
        found = matcher.match_several(cup, image, replace(SIFT, max_instances=most))
        assert len(set(truths_of(found, views, cup))) == len(found) == min(most, 5)


def test_a_copy_behind_another_one_is_found_by_what_is_seen_of_it(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    views = [place(coffee, (300, 300), 0.3, 0.5), place(coffee, (460, 330), -0.2, 0.5)]
    found = matcher.match_several(cup, laid(coffee, views), SIFT)
    assert sorted(truths_of(found, views, cup)) == [0, 1]


def test_where_nothing_is_nothing_is_found(matcher: Matcher, cup: PreparedReference) -> None:
    gravel = cv2.resize(example_photo('gravel'), SIZE)
    (nothing,) = matcher.match_several(cup, gravel, SIFT)
    assert not nothing.found and nothing.message


def test_networks_find_one_after_another(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    views = [place(coffee, middle, 0.1, 0.65) for middle in ((220, 160), (560, 430))]
    options = replace(SIFT, keypoint_search='networks')
    found = matcher.match_several(cup, laid(coffee, views), options)
    assert sorted(truths_of(found, views, cup)) == [0, 1]
    assert {match.strategy for match in found} == {'points'}


def test_ink_is_found_one_after_another(matcher: Matcher, coffee: np.ndarray) -> None:
    sketch = matcher.prepare(Reference(demo_sketch()))
    views = [place(coffee, middle, 0.1, 0.55) for middle in ((210, 150), (560, 430))]
    options = Options(drawing_search='ink', wanted='same_object', max_instances=3)
    found = matcher.match_several(sketch, laid(coffee, views), options)
    assert {match.strategy for match in found} == {'ink'}
    errors = [
        min(corner_error(match.reference_to_image, view, sketch.box) for view in views)
        for match in found
    ]
    assert len(found) == 2 and max(errors) < 12


def test_different_references_share_the_places(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    cat = matcher.prepare(example_photo('chelsea'))
    image = laid(
        coffee, [place(coffee, (200, 150), 0.1, 0.4), place(coffee, (600, 450), 1.0, 0.4)]
    )
    cat_view = place(cat.image, (560, 150), -0.3, 0.5)
    cv2.warpPerspective(cat.image, cat_view, SIZE, dst=image, borderMode=cv2.BORDER_TRANSPARENT)
    analysis = matcher.analyse(image)
    matches = matcher.match_all([cup, cat], analysis, SIFT)
    assert all(match.found for match in matches)
    best = max((0, 1), key=lambda index: matches[index].agreement)
    further = matcher.find_further([cup, cat], matches, analysis, SIFT)
    assert sorted([best, *(index for index, _ in further)]) == [0, 0, 1]


@pytest.mark.parametrize('count', [0, -1, 21, 1000])
def test_senseless_numbers_are_refused(count: int) -> None:
    with pytest.raises(SettingsError, match=f'max_instances is {count}: it must be 1 to 20'):
        Options(max_instances=count)


def test_what_was_found_is_hidden(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    views = [place(coffee, (200, 150), 0.1, 0.5), place(coffee, (560, 420), 0.1, 0.5)]
    analysis = matcher.analyse(laid(coffee, views))
    (match,) = matcher.match_all([cup], analysis, SIFT)
    hidden = hiding(analysis, [match])
    assert hidden.free is not None
    places = match.correspondences.image_points[match.inliers].round().astype(int)
    assert (hidden.free[places[:, 1], places[:, 0]] == 0).all()
    middle = match.reference_to_image @ [300, 200, 1]
    x, y = (middle[:2] / middle[2]).astype(int)
    assert abs(hidden.edges.levels[-1].planes[..., y * 480 // 800, x * 480 // 800]).max() == 0
    kept, all_of_them = hidden.features.keypoints, analysis.features.keypoints
    assert 0 < len(kept) < len(all_of_them)
    columns, rows = kept.round().long().T.tolist()
    assert all(hidden.free[row, column] for row, column in zip(rows, columns, strict=True))


def test_overlap_by_hand() -> None:
    square = np.array([[0, 0], [10, 0], [10, 10], [0, 10]], float)
    near, half, far = (square + np.array([shift, 0]) for shift in (1, 5, 20))
    assert overlap(square, square) == pytest.approx(1)
    assert overlap(square, half) == pytest.approx(1 / 3)
    assert overlap(square, far) == 0
    assert covers_any(square, [far, near])
    assert not covers_any(square, [half])


# A film


@pytest.fixture(scope='module')
def answers(matcher: Matcher, cup: PreparedReference, film: PartFilm) -> list[Answer]:
    """Return the answers to the film of five parts."""
    stream = Stream(matcher, cup, StreamOptions(SIFT, match_interval=0.8))
    return [stream.answer(film.image(frame), frame * PERIOD) for frame in range(FRAMES)]


def seen_in(answer: Answer, film: PartFilm, frame: int) -> dict[int, int]:
    """Return the part that each number is at, of those that are seen."""
    return {
        each.number: film.part_at(frame, each.reference_to_image)
        for each in answer.instances
        if each.found
    }


def test_every_part_keeps_its_number_through_cover_and_crossing(
    answers: list[Answer], film: PartFilm
) -> None:
    first = seen_in(answers[0], film, 0)
    assert sorted(first) == [1, 2, 3, 4, 5] and sorted(first.values()) == [0, 1, 2, 3, 4]
    for frame, answer in enumerate(answers):
        for number, part in seen_in(answer, film, frame).items():
            assert first[number] == part, f'number {number} is part {part} in frame {frame}'
    last = seen_in(answers[-1], film, FRAMES - 1)
    assert sorted(last.values()) == [0, 1, 3, 4]  # part 2 has left


def test_what_is_not_seen_is_not_claimed_but_keeps_its_number(
    answers: list[Answer], film: PartFilm
) -> None:
    by_part = {part: number for number, part in seen_in(answers[0], film, 0).items()}
    for frame, answer in enumerate(answers):
        hidden = film.hidden(frame)
        assert not hidden & set(seen_in(answer, film, frame).values()), frame
        for part in hidden:
            (lost,) = (each for each in answer.instances if each.number == by_part[part])
            assert lost.status is Status.FEW_MATCHES and lost.reference_to_image is None
            assert 'not seen for' in lost.message and not lost.landmarks
    # The one that lies still and the one in front are never lost.
    for frame, answer in enumerate(answers):
        assert {0, 3} <= set(seen_in(answer, film, frame).values()), frame
    assert any(4 not in seen_in(answers[frame], film, frame).values() for frame in CROSSING)


def test_one_of_them_is_the_answer_as_long_as_it_is_seen(
    answers: list[Answer], film: PartFilm
) -> None:
    for before, after in pairwise(answers):
        assert after.number == after.instances[0].number
        still_seen = {each.number for each in after.instances if each.found}
        assert after.number == before.number or before.number not in still_seen
    for answer in answers:
        (first, *_) = answer.instances
        assert (first.reference_to_image == answer.reference_to_image).all()
        assert first.landmarks == answer.landmarks and first.landmarks[0].name == 'rim'
        numbers = [each.number for each in answer.instances]
        assert len(set(numbers)) == len(numbers)


def test_matches_that_come_late_change_no_number(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    """A part that was seen when a match began is behind another one when it ends."""
    film = PartFilm(coffee, parts=(3, 4))
    stream = Stream(matcher, cup, StreamOptions(SIFT, match_interval=0.8))
    frame = stream.frame(film.image(0), 0.0)
    stream.follow(frame)
    first = stream.match(frame)
    parts = seen_in(first, film, 0)
    assert sorted(parts.values()) == [3, 4]
    waiting: list[Frame] = []
    for number in range(1, FRAMES):
        frame = stream.frame(film.image(number), number * PERIOD)
        answer = stream.follow(frame)
        assert answer is not None
        for each, part in seen_in(answer, film, number).items():
            assert parts[each] == part, f'number {each} is part {part} in frame {number}'
        if stream.wants_match and not waiting and number >= min(CROSSING) - 4:
            waiting.append(frame)
        if waiting and number * PERIOD - waiting[0].stamp > 0.55:
            begun = round(waiting[0].stamp / PERIOD)
            late = seen_in(stream.match(waiting.pop()), film, begun)
            assert all(parts[each] == part for each, part in late.items())
    assert seen_in(answer, film, FRAMES - 1) == parts


def test_two_parts_are_told_apart_without_tracking(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    film = PartFilm(coffee, parts=(0, 3))
    options = StreamOptions(replace(SIFT, max_instances=2), tracking=False)
    stream = Stream(matcher, cup, options)
    seen = []
    for frame in range(0, 8, 2):
        answer = stream.answer(film.image(frame), frame * PERIOD)
        assert not answer.tracked
        seen.append(seen_in(answer, film, frame))
    assert len(seen[0]) == 2 and all(each == seen[0] for each in seen)


def test_in_the_images_of_a_turned_camera_places_are_those_of_the_received_ones(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    film = PartFilm(coffee, parts=(0, 1))
    stream = Stream(matcher, cup, StreamOptions(SIFT, rotation=90))
    for frame in range(2):
        received = np.rot90(film.image(frame)).copy()  # anticlockwise, so that 90 turns it back
        answer = stream.answer(received, frame * PERIOD)
        turned = np.array([[0, 1, 0], [-1, 0, SIZE[0] - 1], [0, 0, 1.0]])
        back = [np.linalg.inv(turned) @ each.reference_to_image for each in answer.instances]
        assert sorted(film.part_at(frame, view) for view in back) == [0, 1]
        assert answer.tracked == bool(frame)


def test_messages_say_where_each_of_them_is_in_space(matcher: Matcher, coffee: np.ndarray) -> None:
    cup = matcher.prepare(Reference(coffee, 'cup', physical_width=0.3))
    matrix = np.array([[700, 0, 399.5], [0, 700, 299.5], [0, 0, 1.0]])
    camera = CameraModel(SIZE, matrix, np.zeros(0))
    stream = Stream(matcher, cup, StreamOptions(SIFT), camera=camera)
    image = laid(coffee, [place(coffee, (200, 150)), place(coffee, (600, 450))])
    answer = stream.answer(image, 0.0)
    info = FrameInfo(
        header=build('std_msgs/Header'),
        width=SIZE[0],
        height=SIZE[1],
        method='',
        detector='',
        landmark_mode='global',
    )
    message = instances_message(build, answer, info)
    assert message.best == message.instances[0].number == answer.number
    found = []
    for each in message.instances:
        (pose,) = each.pose
        found.append([pose.pose.position.x, pose.pose.position.y, pose.pose.position.z])
        assert each.homography.confidence == pytest.approx(answer.confidence, abs=0.1)
    # 180 pixels wide, so 0.3 m are 700 / 180 * 0.3 = 1.17 m away; 200 pixels are 0.33 m there.
    assert sorted(found)[0] == pytest.approx([-0.333, -0.25, 1.167], abs=0.02)
    assert sorted(found)[1] == pytest.approx([0.333, 0.25, 1.167], abs=0.02)
    markers = marker_array(answer, camera, Header()).markers
    outlines = {marker.ns: marker for marker in markers if marker.ns.startswith('outline')}
    assert sorted(outlines) == ['outline', f'outline {answer.instances[1].number}']
    middles = sorted(np.mean([p.x for p in each.points[:4]]) for each in outlines.values())
    assert middles == pytest.approx([-0.333, 0.333], abs=0.02)


def test_with_one_instance_another_copy_gets_another_number(
    matcher: Matcher, cup: PreparedReference, coffee: np.ndarray
) -> None:
    stream = Stream(matcher, cup, StreamOptions(replace(SIFT, max_instances=1)))
    first, second = PartFilm(coffee, parts=(0,)), PartFilm(coffee, parts=(1,))
    for frame, (film, number) in enumerate(((first, 1), (first, 1), (second, 2), (first, 1))):
        answer = stream.answer(film.image(0), frame * PERIOD)
        assert answer.found and answer.number == number
        assert [each.number for each in answer.instances if each.found] == [number]


def test_with_more_copies_than_wanted_the_same_ones_stay(
    matcher: Matcher, cup: PreparedReference, film: PartFilm
) -> None:
    """Each full match finds two of five, and not always the same."""
    options = StreamOptions(replace(SIFT, max_instances=2), match_interval=0.2)
    stream = Stream(matcher, cup, options)
    seen = []
    for frame in range(9):
        answer = stream.answer(film.image(frame), frame * PERIOD)
        seen.append(seen_in(answer, film, frame))
        assert len(answer.instances) == 2
    assert len(seen[0]) == 2 and all(each == seen[0] for each in seen)


def test_numbers_outlive_a_change_of_the_limits_but_not_time_that_goes_back(
    matcher: Matcher, cup: PreparedReference, film: PartFilm
) -> None:
    stream, image = Stream(matcher, cup, StreamOptions(SIFT)), film.image(0)
    frame = stream.frame(image, 1.0)
    before = stream.answer_frame(frame)
    assert [each.number for each in before.instances] == [1, 2, 3, 4, 5]
    strict = replace(frame, stamp=1.1, options=StreamOptions(replace(SIFT, max_instances=2)))
    answer = stream.answer_frame(strict)
    assert answer.tracked and answer.number == before.number
    assert len([each for each in answer.instances if each.found]) == 2
    limits = replace(SIFT.limits, min_confidence=0.6)
    strict = replace(frame, stamp=1.2, options=StreamOptions(replace(SIFT, limits=limits)))
    numbers = [each.number for each in stream.answer_frame(strict).instances if each.found]
    assert sorted(numbers) == [1, 2, 3, 4, 5]
    again = stream.answer(image, 0.5)
    assert sorted(each.number for each in again.instances if each.found) == [6, 7, 8, 9, 10]
