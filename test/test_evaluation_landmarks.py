from dataclasses import replace
import json
import math

import cv2
import numpy as np
import pytest
from scipy.io import savemat

from niom_ros.benchmarks.evaluation.benchmark import DataMissing
from niom_ros.benchmarks.evaluation.method_runner import (
    evidence_of,
    MethodAnswer,
    MethodRunner,
    Picture,
)
from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.benchmarks.evaluation.suites import landmarks
from niom_ros.benchmarks.evaluation.suites.landmarks import Instance, LandmarksBenchmark
from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.confidence import KIND_SIGNS
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.reference import Landmark
from niom_ros.simulation.virtual_scene import example_photo

PLAIN = method_named('plain', Settings(device='cpu', max_keypoints=512), Options())
SIZE = 400, 300  # of both pictures
# Where the coffee cup is in the first picture, and where two of them are in the second.
FIRST = 40, 60, 160, 120  # left, top, width, height
SECOND = (20, 30, 160, 120), (220, 150, 160, 120)
SPOTS = {'nose': (0.3, 0.4), 'eye': (0.5, 0.2), 'tail': (0.9, 0.8), 'paw': (0.1, 0.9)}
ANSWER = ('pck_05', 'pck_10', 'local_pck_05', 'local_pck_10')


def places(box):
    """Return where the points of an object are that fills a box."""
    left, top, width, height = box
    return {name: (left + x * width, top + y * height) for name, (x, y) in SPOTS.items()}


def scenery(*boxes):
    """Return grey ground, on which nothing can be matched, with a cup of coffee in each box."""
    picture = np.full((SIZE[1], SIZE[0], 3), 128, np.uint8)
    for left, top, width, height in boxes:
        picture[top : top + height, left : left + width] = cv2.resize(
            example_photo('coffee'), (width, height), interpolation=cv2.INTER_AREA
        )
    return picture


def write_picture(path, *boxes):
    """Write a picture with cups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), scenery(*boxes)[..., ::-1])


def write_faces(data, **objects):
    """Write pictures and their points the way dlib does."""
    folder = data / 'keypoints/dlib_faces'
    images = []
    for name, boxes in objects.items():
        write_picture(folder / f'{name}.png', *boxes)
        faces = []
        for box in boxes:
            sides = zip(('left', 'top', 'width', 'height'), box, strict=True)
            outline = ' '.join(f"{side}='{value}'" for side, value in sides)
            parts = ''.join(
                f"<part name='{spot}' x='{x:.0f}' y='{y:.0f}'/>"
                for spot, (x, y) in places(box).items()
            )
            faces.append(f'<box {outline}>{parts}</box>')
        images.append(f"<image file='{name}.png'>{''.join(faces)}</image>")
    content = f'<dataset><images>{"".join(images)}</images></dataset>'
    (folder / 'landmarks.xml').write_text(content)


def write_coco(data, name, first, second, second_box=(30, 40, 60, 90.5)):
    """Write two pictures and the keypoints of an object in each, as x, y, visibility."""
    folder = data / 'keypoints/mmpose' / name
    for number in (0, 1):
        write_picture(folder / f'{number}.png')
    content = {
        'images': [{'id': 7 + number, 'file_name': f'{number}.png'} for number in (0, 1)],
        'categories': [
            {'id': 1, 'keypoints': ['nose', 'eye']},
            {'id': 2, 'keypoints': ['eye', 'hoof']},
        ],
        'annotations': [
            {'image_id': 7, 'category_id': 1, 'bbox': [10, 20, 100, 50], 'keypoints': first},
            {'image_id': 8, 'category_id': 2, 'bbox': second_box, 'keypoints': second},
        ],
    }
    (folder / 'test.json').write_text(json.dumps(content))


def shift(box, other):
    """Return the homography from the cut-out of an object to another one of the same size."""
    part = Instance(None, box, ()).cut_out(*SIZE)
    return np.array(
        [
            [1.0, 0, other[0] - box[0] + part.left],
            [0, 1, other[1] - box[1] + part.top],
            [0, 0, 1],
        ]
    )


class Matches:
    """A runner whose matches all follow a homography; with None there are none."""

    def __init__(self, reference_to_image, count=60, status=Status.LOW_CONFIDENCE):
        self.reference_to_image = reference_to_image
        self.count = count
        self.status = status
        self.shown = []

    def match(self, method, reference, image):
        self.shown.append((reference, image))
        correspondences = Correspondences.none()
        if self.reference_to_image is not None:
            points = np.random.default_rng(0).uniform(
                5, (reference.box.width - 5, reference.box.height - 5), (self.count, 2)
            )
            correspondences = Correspondences(
                points.astype(np.float32),
                warp_points(self.reference_to_image, points).astype(np.float32),
                np.ones(self.count, np.float32),
            )
        found = self.reference_to_image if self.status is Status.OK else None
        verdict = Verdict(self.status, '', np.ones(len(correspondences), bool), found)
        match = Match(verdict, correspondences)
        evidence = evidence_of(match, reference, image, method)
        return MethodAnswer(match, evidence, plausible=True)


@pytest.fixture
def cups(tmp_path):
    """Return a benchmark, and its case of one cup to be found in a picture with two."""
    write_faces(tmp_path, a=[FIRST], b=SECOND)
    benchmark = LandmarksBenchmark(tmp_path, 0)
    return benchmark, benchmark.cases()[0]


# Cases and files


def test_each_object_is_sought_in_each_other_picture(tmp_path):
    write_faces(tmp_path, a=[FIRST], b=SECOND, c=[FIRST])
    cases = LandmarksBenchmark(tmp_path, 0).cases()
    assert [(case.name, len(case.targets)) for case in cases] == [
        ('dlib_faces/a.png#0-b.png', 2),
        ('dlib_faces/a.png#0-c.png', 1),
        ('dlib_faces/b.png#0-a.png', 1),
        ('dlib_faces/b.png#1-a.png', 1),
        ('dlib_faces/b.png#0-c.png', 1),
        ('dlib_faces/b.png#1-c.png', 1),
        ('dlib_faces/c.png#0-a.png', 1),
        ('dlib_faces/c.png#0-b.png', 2),
    ]
    # There and back are the same two pictures.
    assert len({case.unit for case in cases}) == 3
    assert cases[0].unit == cases[0].pair == cases[2].unit
    assert {case.group for case in cases} == {'dlib_faces'}


def test_a_pair_tells_both_of_its_pictures_and_a_set_of_two_is_one_place(tmp_path):
    write_faces(tmp_path, a=[FIRST], b=SECOND)
    faces = 'keypoints/dlib_faces'
    assert {case.places for case in LandmarksBenchmark(tmp_path, 0).cases()} == {(faces, faces)}
    write_faces(tmp_path, a=[FIRST], b=SECOND, c=[FIRST])
    cases = LandmarksBenchmark(tmp_path, 0).cases()
    assert cases[0].places == (f'{faces}/a.png', f'{faces}/b.png')
    assert cases[-1].places == (f'{faces}/c.png', f'{faces}/b.png')


def test_points_of_faces_are_read(cups):
    _, case = cups
    assert case.reference.box == FIRST
    assert {(point.name, point.x, point.y) for point in case.reference.points} == {
        ('nose', 88, 108),
        ('eye', 120, 84),
        ('tail', 184, 156),
        ('paw', 56, 168),
    }
    assert [target.box for target in case.targets] == [*SECOND]
    # A fifth of the longer side around it, but no more than there is.
    assert case.part == Box(8, 28, 224, 184)
    assert case.targets[0].cut_out(*SIZE) == Box(0, 0, 212, 182)


def test_points_of_willow_are_read_and_count_from_0(tmp_path):
    folder = tmp_path / 'keypoints/willow'
    for name in ('duck_0001', 'duck_0002', 'car_0001'):
        write_picture(folder / f'willow_{name}.png')
        savemat(folder / f'willow_{name}.mat', {'pts_coord': [[101.0, 51, 201], [61, 91, 71]]})
    first, second = LandmarksBenchmark(tmp_path, 0).cases()  # ducks have no points of cars
    assert first.name == 'willow/willow_duck_0001.png#0-willow_duck_0002.png'
    assert second.name == 'willow/willow_duck_0002.png#0-willow_duck_0001.png'
    assert [(point.x, point.y) for point in first.reference.points] == [
        (100, 60),
        (50, 90),
        (200, 70),
    ]
    assert first.reference.box == (50, 60, 150, 30)
    assert first.reference.size == 150
    assert first.reference.path.name == 'willow_duck_0001.png'


def test_points_of_coco_are_the_same_if_their_names_are(tmp_path):
    write_coco(tmp_path, 'farm', first=[11, 21, 2, 12.5, 22, 2], second=[31, 41, 2, 32, 42, 2])
    first, _ = LandmarksBenchmark(tmp_path, 0).cases()
    assert first.group == 'farm'
    assert first.reference.points == (Landmark('nose', 11, 21), Landmark('eye', 12.5, 22))
    (target,) = first.targets
    assert target.points == (Landmark('eye', 31, 41), Landmark('hoof', 32, 42))
    assert target.size == 90.5
    index, found = landmarks.places_on(target, first.reference)
    assert index == [1]
    assert found.tolist() == [[31, 41]]


@pytest.mark.parametrize('visibility', [0, 1])
def test_points_that_are_hidden_do_not_count(tmp_path, visibility):
    write_coco(tmp_path, 'farm', [11, 21, 2, 12, 22, visibility], [31, 41, 2, 32, 42, 2])
    with pytest.raises(DataMissing, match='no pair'):
        LandmarksBenchmark(tmp_path, 0).cases()


def test_an_object_without_a_size_is_left_out(tmp_path):
    points = [11, 21, 2, 12, 22, 2], [31, 41, 2, 32, 42, 2]
    write_coco(tmp_path, 'farm', *points, second_box=(31, 41, 0, 0))
    with pytest.raises(DataMissing, match='no pair'):
        LandmarksBenchmark(tmp_path, 0).cases()


def test_what_is_too_small_to_be_cut_out_is_still_sought(tmp_path):
    write_faces(tmp_path, a=[FIRST], b=[(100, 100, 20, 20)])
    cases = LandmarksBenchmark(tmp_path, 0).cases()
    assert [case.name for case in cases] == ['dlib_faces/a.png#0-b.png']


@pytest.mark.parametrize(
    ('file', 'content'),
    [
        ('dlib_faces/a.xml', '<dataset><image'),
        ('dlib_faces/a.xml', '<dataset><image file="a.png"><box left="1"/></image></dataset>'),
        ('willow/a.mat', 'not of MATLAB'),
        ('mmpose/farm/a.json', '{"images": []'),
        ('mmpose/farm/a.json', '{"images": []}'),
        ('mmpose/farm/a.json', '[]'),
    ],
)
def test_a_broken_file_is_named(tmp_path, file, content):
    path = tmp_path / 'keypoints' / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UserError, match=path.name) as caught:
        LandmarksBenchmark(tmp_path, 0).cases()
    assert not isinstance(caught.value, DataMissing)


def test_a_missing_picture_is_named(cups):
    benchmark, case = cups
    case.targets[0].path.unlink()
    with pytest.raises(UserError, match=r'b\.png'):
        benchmark.cases()


# Measuring


@pytest.mark.parametrize('other', SECOND)
def test_points_may_arrive_on_any_object_of_the_picture(cups, other):
    benchmark, case = cups
    record = benchmark.measure(case, PLAIN, Matches(shift(FIRST, other)))
    assert [record[name] for name in ANSWER] == [1, 1, 1, 1]
    assert record['error'] < 0.001
    assert record['matches'] == record['agreeing'] == 60
    assert not record['accepted']


def test_the_size_of_the_object_in_the_image_decides_what_is_near(cups):
    benchmark, case = cups
    # 5 % of 160 pixels are 8, and 10 % are 16.
    for pixels, near, nearer in ((7, 1, 1), (9, 1, 0), (15, 1, 0), (17, 0, 0)):
        view = shift(FIRST, SECOND[0])
        view[0, 2] += pixels
        record = benchmark.measure(case, PLAIN, Matches(view))
        assert (record['pck_10'], record['pck_05']) == (near, nearer)
        assert record['error'] == pytest.approx(pixels / 160, abs=1e-3)


def test_the_share_of_points_that_arrive_is_told(cups):
    benchmark, case = cups
    # Upside down, turned about the eye: at 112, 56 of the cut-out and 100, 54 of the image.
    upside_down = np.array([[-1.0, 0, 100 + 112], [0, -1, 54 + 56], [0, 0, 1]])
    record = benchmark.measure(case, PLAIN, Matches(upside_down))
    assert [record[name] for name in ANSWER] == [0.25, 0.25, 0.25, 0.25]


def test_what_is_not_found_is_a_miss(cups):
    benchmark, case = cups
    record = benchmark.measure(case, PLAIN, Matches(None))
    assert [record[name] for name in ANSWER] == [0, 0, 0, 0]
    assert record['error'] == math.inf
    assert benchmark.quality(record) < benchmark.quality({'error': 100.0})


def test_a_view_that_no_camera_has_is_a_miss(cups):
    benchmark, case = cups
    # The horizon crosses the reference: what is right of column 215 would be behind the camera.
    view = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 215, 0, 1]])
    ends = warp_points(view, landmarks.marked(case)).tolist()
    points = tuple(
        Landmark(point.name, *end) for point, end in zip(case.reference.points, ends, strict=True)
    )
    case = replace(case, targets=(replace(case.targets[0], points=points),))
    record = benchmark.measure(case, PLAIN, Matches(view))
    assert record['agreeing'] > 30
    assert [record[name] for name in ANSWER] == [0, 0, 0, 0]
    assert record['error'] == math.inf


def test_a_view_that_hardly_anything_speaks_for_still_counts(cups):
    benchmark, case = cups
    record = benchmark.measure(case, PLAIN, Matches(shift(FIRST, SECOND[0]), count=5))
    assert record['pck_05'] == 1


def test_a_claim_is_told_apart_from_a_refusal(cups):
    benchmark, case = cups
    believed = Matches(shift(FIRST, SECOND[0]), status=Status.OK)
    assert benchmark.measure(case, PLAIN, believed)['accepted']


def test_chance_knows_nothing_of_the_image_but_its_size(cups):
    benchmark, case = cups
    image = Picture('any', np.zeros((100, 200, 3), np.uint8))
    found = landmarks.blind_places(case, image)
    # The nose is at 88, 108 of the picture: 80, 80 of what was cut out, 224 x 184 pixels.
    np.testing.assert_allclose(found[0], [80.5 / 224 * 200 - 0.5, 80.5 / 184 * 100 - 0.5])
    chances = {
        json.dumps({name: record[name] for name in record if name.startswith('chance')})
        for view in (None, shift(FIRST, SECOND[1]))
        for record in [benchmark.measure(case, PLAIN, Matches(view))]
    }
    assert len(chances) == 1


def test_the_reference_is_cut_out_and_the_image_is_whole(cups):
    benchmark, case = cups
    runner = Matches(None)
    benchmark.measure(case, PLAIN, runner)
    ((reference, image),) = runner.shown
    np.testing.assert_array_equal(reference.pixels, scenery(FIRST)[28:212, 8:232])
    np.testing.assert_array_equal(image.pixels, scenery(*SECOND))
    assert reference.name != image.name


def test_real_weights_carry_points(tmp_path):
    write_faces(tmp_path, a=[FIRST], b=SECOND[1:])
    benchmark, runner = LandmarksBenchmark(tmp_path, 0), MethodRunner()
    case = benchmark.cases()[0]
    record = benchmark.measure(case, PLAIN, runner)
    assert [record[name] for name in ANSWER] == [1, 1, 1, 1]
    assert record['accepted']
    assert record['chance_pck_10'] < 1


def test_the_picture_shows_where_points_came_and_where_they_belong(cups, monkeypatch):
    benchmark, case = cups
    monkeypatch.setattr(landmarks, 'draw_answer', lambda *_: np.zeros((20, 1280, 3), np.uint8))
    right, wrong, nothing = (
        benchmark.picture(case, PLAIN, Matches(view))
        for view in (shift(FIRST, SECOND[0]), shift(FIRST, (150, 130)), None)
    )
    assert right.shape == wrong.shape == nothing.shape
    assert right.dtype == np.uint8
    assert not np.array_equal(right, wrong)
    assert not np.array_equal(right, nothing)


# Summing up


def test_every_set_counts_the_same():
    def record(group, pck, chance, accepted=False, published=False):
        names = ('pck_05', 'local_pck_05', 'local_pck_10', 'chance_pck_05', 'box_pck_05')
        scores = {'pck_10': pck, 'chance_pck_10': chance, 'box_pck_10': 0.3, 'accepted': accepted}
        scores |= {'points': 10, 'claimed': 4, 'claimed_right': 3, 'places': [group]}
        scores['published'] = published
        return {'group': group, **dict.fromkeys(names, 0.5), **scores}

    records = [
        record('faces', 0.0, 0.1),
        record('faces', 0.2, 0.3, accepted=True, published=True),
        record('faces', 0.1, 0.2),
        record('faces', 0.1, 0.2),
        record('ducks', 0.9, 0.6, published=True),
    ]
    metrics = LandmarksBenchmark(None, 0).summarise(records)
    assert metrics == pytest.approx(
        {
            'pck_05': 0.5,
            'pck_10': 0.5,  # of 0.1 and 0.9
            'local_pck_05': 0.5,
            'local_pck_10': 0.5,
            'chance_pck_05': 0.5,
            'chance_pck_10': 0.4,
            'box_pck_05': 0.5,
            'box_pck_10': 0.3,
            'gain_over_box': 0.2,
            'claimed': 0.4,
            'claimed_right': 0.75,
            'published': 0.625,  # of 1/4 and 1
            'published_pck_10': 0.475,  # of 0.2 / 4 and 0.9
            'pck_10_if_published': 0.55,  # of 0.2 and 0.9
            'claimed_held_out': 0.4,
            'claimed_right_held_out': 0.75,
            'accepted': 0.125,
            'pck_10_faces': 0.1,
            'pck_10_ducks': 0.9,
            'chance_pck_10_faces': 0.2,
            'chance_pck_10_ducks': 0.6,
        }
    )


def test_what_is_refused_counts_for_pck_but_is_not_published(cups):
    benchmark, case = cups
    refused = benchmark.measure(case, PLAIN, Matches(shift(FIRST, SECOND[0])))
    assert refused['pck_10'] == 1 and not refused['published']
    claimed = benchmark.measure(case, PLAIN, Matches(shift(FIRST, SECOND[0]), status=Status.OK))
    assert claimed['pck_10'] == 1 and claimed['published']
    metrics = benchmark.summarise([{**refused, 'group': 'faces', 'places': ['a']}])
    assert metrics['pck_10'] == 1 and metrics['published'] == metrics['published_pck_10'] == 0
    assert math.isnan(metrics['pck_10_if_published'])


def test_the_true_boxes_alone_are_a_baseline(cups):
    _, case = cups
    places = landmarks.stretched_places(case)
    # Both cups have the size of the reference, so a shift between the boxes is all it takes.
    errors = landmarks.misses(places, case)
    assert errors == pytest.approx(0, abs=0.01)


def test_the_centres_of_the_true_boxes_are_a_weaker_baseline(cups):
    _, case = cups
    assert landmarks.misses(landmarks.centred_places(case), case) == pytest.approx(0, abs=0.01)
    (target,) = case.targets[:1]
    smaller = replace(target, box=(*target.box[:2], target.box[2] / 2, target.box[3] / 2))
    moved = landmarks.centred_places(replace(case, targets=(smaller,)))
    stretched = landmarks.stretched_places(replace(case, targets=(smaller,)))
    assert np.ptp(moved, axis=0) == pytest.approx(2 * np.ptp(stretched, axis=0))


def test_points_of_alike_objects_are_measured_with_and_without_their_area(cups):
    benchmark, case = cups
    method = method_named('alike', Settings(device='cpu', max_keypoints=64), Options())
    assert method.options.strategies == ('alike',)
    record = benchmark.measure(case, method, MethodRunner())
    assert record['pck_10'] >= 0.75 and record['known_area_pck_10'] >= 0.75
    assert record['box_pck_10'] == 1 and not record['accepted']
    assert record['points'] == 4 >= record['claimed'] >= record['claimed_right'] > 0
    assert len(record['point_signs']) == len(record['point_right']) == 4
    assert set(record['alike_signs']) == {*KIND_SIGNS, 'mirrored'}
    assert record['published']
    default = method_named('default', Settings(device='cpu', max_keypoints=64), Options())
    assert benchmark.measure(case, default, MethodRunner())['known_area_pck_10'] >= 0.75
    plain = benchmark.measure(case, PLAIN, MethodRunner())
    assert 'known_area_pck_10' not in plain and plain['claimed'] == 0
