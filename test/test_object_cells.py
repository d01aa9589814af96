"""Which parts of a reference show its object, and where a detector sees one of its label."""

from alike_pictures import picture
import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.alike_object import AlikeObject, GuidePoints
from niom_ros.matching.found_parts import marked_in, offers_of, placed_like
from niom_ros.matching.geometry import Status
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import Reference
from niom_ros.matching.strategies.alike import judged
from niom_ros.semantics.correspondence.field import KindSigns
from niom_ros.semantics.correspondence.object_cells import (
    best_threshold,
    distinctness,
    object_cells,
    plain_ground,
)
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import MarkedObject, Scene

NAMES = ('clock', 'other_clock', 'tiger', 'wolf')
NEAR = 16  # pixels: a cell of the field is about as wide


def ground_of(name):
    """Return where a picture shows its plain ground: height x width."""
    pixels = picture(name).astype(int)
    plain = (np.abs(pixels - pixels[2, 2]).max(axis=2) < 10).astype(np.uint8)
    _, pieces = cv2.connectedComponents(plain)
    return pieces == pieces[2, 2]


def well_within(where):
    """Return the pixels (N x 2) around which a map is true all over."""
    inner = cv2.erode(where.astype(np.uint8), np.ones((2 * NEAR + 1, 2 * NEAR + 1), np.uint8))
    return np.argwhere(inner)[:, ::-1].astype(float)


@pytest.fixture(scope='module')
def matcher():
    return Matcher(Settings(device='cpu', max_keypoints=128, detector='none'))


@pytest.fixture(scope='module')
def answers(matcher):
    """Return how each picture is found in the other one of its kind."""
    others = {'clock': 'other_clock', 'other_clock': 'clock', 'tiger': 'wolf', 'wolf': 'tiger'}
    options = Options(strategies=('alike',), wanted='same_kind')
    return {
        name: matcher.match(matcher.prepare(picture(name)), picture(other), options)
        for name, other in others.items()
    }


@pytest.mark.parametrize('name', NAMES)
def test_ground_is_not_reported_but_the_object_is(answers, name):
    match, ground = answers[name], ground_of(name)
    parts = match.alike.parts
    assert parts.on_object(well_within(~ground)).all()
    assert not parts.on_object(well_within(ground)).any()
    points = match.correspondences.reference_points
    assert 30 < len(points) < 144
    assert f' {match.inliers.sum()} of {len(points)} points are certain' in match.message


@pytest.mark.parametrize('name', NAMES)
def test_no_certain_point_is_on_plain_ground(answers, name):
    match = answers[name]
    certain = match.correspondences.reference_points[match.inliers].round().astype(int)
    ground = {tuple(point) for point in well_within(ground_of(name)).astype(int).tolist()}
    assert not ground & set(map(tuple, certain.tolist()))
    assert len(certain) or name == 'tiger'  # of which no point is certain on the wolf


def test_what_is_marked_decides():
    cells = [torch.rand(8, 6, 6, generator=torch.Generator().manual_seed(0))]
    image = np.zeros((60, 60, 3), np.uint8)
    marked = np.zeros((60, 60), np.uint8)
    marked[20:40, 10:30] = 255
    chosen = object_cells(cells, image, Area.of_box(Box.around(image)), marked)
    assert chosen.nonzero().tolist() == [[row, column] for row in (2, 3) for column in (1, 2)]


def test_marked_objects_count_without_their_margin_and_only_where_the_mask_allows():
    image, mask = picture('clock'), np.full(picture('clock').shape[:2], 255, np.uint8)
    mask[:100] = 0
    box = MarkedObject('clock', Area(49.5, 59.5, 149.5, 259.5))
    assert marked_in(Reference(image)) is None
    marked = marked_in(Reference(image, objects=(box,)))
    assert marked[60:260, 50:150].all() and marked.sum() == 255 * 200 * 100
    marked = marked_in(Reference(image, objects=(box,), mask=mask))
    assert marked[100:260, 50:150].all() and marked.sum() == 255 * 160 * 100


def test_where_nothing_stands_out_everything_is_the_object():
    image = np.full((48, 64, 3), 90, np.uint8)
    cells = [torch.ones(4, 6, 6) / 2]
    assert object_cells(cells, image, Area.of_box(Box.around(image)), None).all()
    outside = np.zeros((48, 64), np.uint8)
    assert object_cells(cells, image, Area.of_box(Box.around(image)), outside).all()


def test_what_looks_like_the_border_is_not_distinct():
    cells = torch.zeros(2, 8, 8)
    cells[0] = 1
    cells[:, 3:5, 3:5] = torch.tensor([0.6, 0.8])[:, None, None]
    distinct = distinctness([cells])
    assert distinct[3:5, 3:5].tolist() == [[pytest.approx(0.4)] * 2] * 2
    assert distinct.sum().item() == pytest.approx(4 * 0.4)


def test_the_best_threshold_parts_two_sorts():
    values = np.array([0.1, 0.2, 0.15, 0.9, 0.8, 0.12])
    assert best_threshold(values) == pytest.approx(0.8)
    assert best_threshold(np.ones(5)) == 1


def test_a_hole_in_an_object_is_not_ground_and_a_patterned_border_is_not_plain():
    image = np.full((80, 80, 3), 200, np.uint8)
    image[20:60, 20:60] = 50
    image[30:50, 30:50] = 200
    ground = plain_ground(image, Area.of_box(Box.around(image)), (8, 8))
    assert ground.sum() == 64 - 16 and not ground[2:6, 2:6].any()
    image[::2] = 0
    assert not plain_ground(image, Area.of_box(Box.around(image)), (8, 8)).any()


# Where a detector sees an object of the same label


def seen(label, area, score=0.8):
    heat = HeatMap.filled(area, GridFrame(640, 480), torch.empty(0))
    return SeenObject(label, score, area, heat)


def test_objects_of_the_label_are_offered_with_the_margin_of_the_reference():
    area = Area(0, 0, 140, 140)
    reference = Scene((seen('cat', Area(20, 20, 120, 120)), seen('cup', Area(0, 0, 20, 20))))
    others = seen('dog', Area(0, 0, 90, 90)), seen('cat', Area(9, 9, 9, 12))
    image = Scene((seen('Cat', Area(300, 100, 400, 150), 0.6), *others))
    (offer,) = offers_of(reference, image, area, area)
    assert offer.score == 0.6 and offer.whole
    assert offer.area == Area(280, 90, 420, 160)
    assert placed_like(area, Area(20, 20, 120, 120), Area(20, 20, 120, 120)) == area


def test_nothing_is_offered_if_it_is_not_clear_what_the_reference_shows():
    area = Area(0, 0, 140, 140)
    image = Scene((seen('cup', Area(0, 0, 90, 90)), seen('', Area(0, 0, 90, 90))))
    for shown in ([], [seen('cup', Area(0, 0, 20, 20))], [seen('', Area(0, 0, 100, 100))]):
        assert offers_of(Scene(tuple(shown)), image, area, area) == []


def test_an_object_that_the_reference_cuts_off_does_not_say_where_others_are():
    area = Area(0, 0, 140, 140)
    reference = Scene((seen('person', Area(20, 20, 120, 139)),))
    image = Scene((seen('person', Area(300, 100, 400, 150)),))
    (offer,) = offers_of(reference, image, area, area)
    assert not offer.whole


@pytest.mark.parametrize(
    ('confidence', 'label', 'count', 'status'),
    [
        (0.6, 0.0, 4, Status.ALIKE),
        (0.6, 0.0, 3, Status.LOW_CONFIDENCE),
        (0.6, 0.7, 0, Status.ALIKE),
        (0.4, 0.7, 9, Status.LOW_CONFIDENCE),
    ],
)
def test_the_same_label_or_certain_points_are_needed(confidence, label, count, status):
    signs = KindSigns(0.5, 0.5, 0.5, 0.5, label)
    alike = AlikeObject(confidence, Area(0, 0, 9, 9), GuidePoints.none(), size=9, signs=signs)
    verdict = judged(alike, np.arange(20) < count)
    assert verdict.status is status and verdict.reference_to_image is None
    assert verdict.inliers.sum() == count
    assert verdict.confidence <= confidence
