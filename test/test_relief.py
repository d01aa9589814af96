"""Objects that are not flat: noticed, and a homography only where it holds."""

import cv2
import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Limits, Options, Settings
from niom_ros.core.uncertainty import KEYPOINTS
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import corner_error, locate, Status
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.offset_field import flattened, OffsetField
from niom_ros.matching.planes import is_flat, on_one_plane
from niom_ros.matching.reference import Landmark
from niom_ros.simulation.relief_scene import Raised, random_relief, ReliefScene
from niom_ros.simulation.virtual_scene import example_photo
from niom_ros.stream.landmarks import place_landmarks
from niom_ros.tracking.frames import grey_frame
from niom_ros.tracking.track import FullMatch

PAGE = Box(0, 0, 400, 300)
IMAGE = Box(0, 0, 640, 480)
VIEW = np.array([[1.1, 0.1, 60], [-0.1, 1.0, 70], [1e-4, 2e-4, 1]])
RATE = 30
SIDEWAYS = 3.0  # seconds after which the camera looks from the side
RAISED = (
    Raised(left=0.06, top=0.1, right=0.4, bottom=0.45, height=0.15),
    Raised(left=0.6, top=0.55, right=0.95, bottom=0.92, height=0.15),
)
MARKS = {'on a raised part': (400.0, 290.0), 'on the rest': (330.0, 150.0)}


@pytest.fixture(scope='module')
def relief() -> ReliefScene:
    picture = example_photo('astronaut')[:400]
    return ReliefScene(picture, example_photo('gravel'), raised=RAISED)


@pytest.fixture(scope='module')
def seen(relief) -> Match:
    matcher = Matcher(Settings(device='cpu', max_keypoints=256, detector='none'))
    options = Options(keypoint_search='classical', wanted='same_object')
    image = relief.view(SIDEWAYS, 0).image
    return matcher.match(matcher.prepare(relief.picture), image, options)


def synthetic(offset_of, count=300, noise=0.3):
    """Return matches of a page whose points are beside its plane by some offsets."""
    random = np.random.default_rng(0)
    points = random.uniform((0, 0), (399, 299), (count, 2))
    places = warp_points(VIEW, points) + offset_of(points) + random.normal(0, noise, (count, 2))
    return Correspondences(
        points.astype(np.float32), places.astype(np.float32), np.ones(count, np.float32)
    )


def on_shelves(points):
    """Return the offsets of two parts that stand out differently."""
    x, y = points.T
    first = (x > 30) & (x < 190) & (y > 30) & (y < 160)
    second = (x > 210) & (x < 370) & (y > 140) & (y < 270)
    return np.outer(first, [9.0, 0]) + np.outer(second, [0, 12.0])


def judged(matches):
    verdict = locate(matches, PAGE, PAGE.area, IMAGE, Limits())
    return verdict, on_one_plane(verdict, matches, PAGE, IMAGE, Limits(), KEYPOINTS)


def test_from_straight_ahead_a_relief_looks_like_its_picture():
    class StraightAhead(ReliefScene):
        def pose(self, seconds):
            return np.eye(3), np.array([0.0, 0.0, 1.5])

    picture = cv2.GaussianBlur(example_photo('coffee'), (0, 0), 3)
    scene = StraightAhead(
        picture, np.zeros((9, 9, 3), np.uint8), noise=0, light_change=0, raised=RAISED
    )
    view = scene.view(0.0, 0)
    flat = cv2.warpPerspective(picture, view.picture_to_image, (640, 480))
    assert np.abs(view.image.astype(int) - flat).mean() < 1
    points = np.array(list(MARKS.values()))
    assert scene.places(points, 0.0) == pytest.approx(
        warp_points(view.picture_to_image, points), abs=1e-6
    )


def test_a_raised_point_is_displaced_by_hand():
    class FromTheLeft(ReliefScene):
        def pose(self, seconds):
            return np.eye(3), np.array([0.2, 0.0, 1.5])  # the picture lies to the right

    picture = np.zeros((400, 600, 3), np.uint8)
    scene = FromTheLeft(picture, picture, raised=(Raised(0, 0, 1, 1, 0.3),))
    # In widths: 0.2 sideways at a distance of 1.5, at the height of 0.3 at one of 1.2. The focal
    # length is 576 pixels.
    middle = np.array([[299.5, 199.5]])
    assert warp_points(scene.picture_to_image(0), middle)[0] == pytest.approx(
        (319.5 + 576 * 0.2 / 1.5, 239.5)
    )
    assert scene.places(middle, 0)[0] == pytest.approx((319.5 + 576 * 0.2 / 1.2, 239.5))


def test_raised_parts_do_not_overlap():
    for seed in range(20):
        parts = random_relief(np.random.default_rng(seed))
        taken = np.zeros((100, 100), int)
        for part in parts:
            (left, top), _, (right, bottom), _ = np.rint(part.corners(100, 100)).astype(int)
            taken[top:bottom, left:right] += 1
        assert taken.max() == 1
        assert 0.15 < taken.mean() < 0.5


def test_a_flat_thing_is_flat_and_its_verdict_stays():
    verdict, again = judged(synthetic(np.zeros_like))
    assert verdict.status is Status.OK
    assert verdict.checks.flatness > 0.98
    assert is_flat(verdict)
    assert again is verdict


def test_the_homography_of_a_relief_is_that_of_one_plane():
    compromise, verdict = judged(synthetic(on_shelves))
    assert compromise.checks.flatness == verdict.checks.flatness < 0.85
    assert verdict.status is Status.OK
    assert 'not flat' in verdict.message
    assert corner_error(verdict.reference_to_image, VIEW, PAGE) < 1.5
    # Only points of the plane agree, and the corners are as uncertain as they are wrong.
    points = synthetic(on_shelves).reference_points[verdict.inliers]
    assert (on_shelves(points) != 0).any(axis=1).mean() < 0.1
    assert verdict.uncertainty.at_corners.max() < 3


def test_a_plane_that_is_only_a_part_does_not_stand_for_the_whole():
    def leaning(points):
        x, _ = points.T
        return np.outer(x > 200, [0, 14.0])

    compromise, verdict = judged(synthetic(leaning))
    assert compromise.status is Status.OK
    assert compromise.checks.flatness < 0.85
    assert verdict.status is Status.LOW_CONFIDENCE
    assert verdict.reference_to_image is None
    assert 'does not tell where the others are' in verdict.message


def test_what_lies_on_no_plane_has_no_homography():
    def crumpled(points):
        x, y = points.T
        return 12 * np.column_stack([np.sin(y / 18 + x / 50), np.cos(x / 18)])

    matches = synthetic(crumpled)
    limits = Limits(min_inlier_ratio=0.05, min_coverage=0.0)
    verdict = locate(matches, PAGE, PAGE.area, IMAGE, limits)
    assert verdict.status is Status.OK, verdict.message
    refused = on_one_plane(verdict, matches, PAGE, IMAGE, limits, KEYPOINTS)
    assert refused.status is Status.LOW_CONFIDENCE
    assert refused.reference_to_image is None
    assert refused.confidence < 0.5
    assert 'not flat' in refused.message


def test_flattened_is_the_inverse_of_an_offset():
    # All matches are 10 pixels further right than a plane has them.
    grid = np.stack(np.meshgrid(np.arange(0, 200, 20.0), np.arange(0, 200, 20.0)), axis=-1)
    predicted = grid.reshape(-1, 2)
    field = OffsetField(predicted, np.tile([10.0, 0], (100, 1)), 0.09, 50.0, 100.0)
    flat, beside = flattened(np.array([[90.0, 90], [110, 50]]), field, 4.0)
    assert beside.all()
    assert flat == pytest.approx(np.array([[80.0, 90], [100, 50]]), abs=0.3)
    on_plane = OffsetField(predicted, np.zeros((100, 2)), 0.09, 1e-6, 100.0)
    flat, beside = flattened(np.array([[90.0, 90]]), on_plane, 4.0)
    assert not beside.any()
    assert flat == pytest.approx(np.array([[90.0, 90]]))


def test_a_relief_is_found_on_its_plane_and_its_landmarks_by_what_is_near(relief, seen):
    assert seen.found, seen.message
    assert seen.checks['flatness'] < 0.85
    truth = relief.picture_to_image(SIDEWAYS)
    box = Box.around(relief.picture)
    error = corner_error(seen.reference_to_image, truth, box)
    assert error < 2
    assert error < 3 * seen.verdict.uncertainty.at_corners.max()
    marks = tuple(Landmark(name, *place) for name, place in MARKS.items())
    places = relief.places(np.array(list(MARKS.values())), SIDEWAYS)
    errors = {}
    for mode in ('auto', 'global'):
        placed = place_landmarks(marks, seen.correspondences, seen.verdict, 640, 480, mode, 4.0)
        found = np.array([[mark.x, mark.y] for mark in placed])
        errors[mode] = np.linalg.norm(found - places, axis=1)
        # The homography does not rest on the raised part; what is near does.
        assert [mark.supported for mark in placed] == [mode == 'auto', True]
    assert errors['auto'].max() < 4
    assert errors['global'][0] > 10
    assert errors['global'][1] < 2


def test_a_relief_is_tracked_on_its_plane(relief, seen):
    box = Box.around(relief.picture)
    track = FullMatch(
        stamp=SIDEWAYS,
        image=relief.view(SIDEWAYS, 0).image,
        verdict=seen.verdict,
        correspondences=seen.correspondences,
        reference_box=box,
        counting_area=box.area,
    ).track()
    mark = (Landmark('mark', *MARKS['on a raised part']),)
    errors = {'auto': [], 'global': []}
    for frame in range(1, 2 * RATE):
        now = SIDEWAYS + frame / RATE
        tracked = track.follow(grey_frame(relief.view(now, frame).image, now))
        assert tracked.found, tracked.verdict.message
        truth = relief.picture_to_image(now)
        assert corner_error(tracked.verdict.reference_to_image, truth, box) < 5
        # Once it was seen that it is not flat, it stays so.
        assert tracked.verdict.checks.flatness < 0.85
        place = relief.places(np.array([[mark[0].x, mark[0].y]]), now)[0]
        for mode, of_mode in errors.items():
            (placed,) = place_landmarks(
                mark, tracked.correspondences, tracked.verdict, 640, 480, mode, 4.0
            )
            of_mode.append(np.hypot(placed.x - place[0], placed.y - place[1]))
    assert np.median(errors['auto']) < 5
    assert np.median(errors['global']) > 10
