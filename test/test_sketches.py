"""A sketch as the reference: from paper to the thing that it shows, through the whole pipeline."""

import cv2
import numpy as np
import pytest

from niom_ros.demo_sketch import demo_sketch
from niom_ros.guidance.guide import guide
from niom_ros.guidance.references import GivenReference
from niom_ros.guidance.references import NamedReference
from niom_ros.matching.geometry import Box
from niom_ros.matching.geometry import corner_error
from niom_ros.matching.geometry import Status
from niom_ros.matching.homographies import warp_points
from niom_ros.matching.images import TooPlain
from niom_ros.matching.pictures import draw_edges
from niom_ros.matching.pictures import draw_report
from niom_ros.matching.pipeline import Look
from niom_ros.matching.pipeline import Pipeline
from niom_ros.matching.pipeline import Reference
from niom_ros.matching.pipeline import ways_to_find
from niom_ros.semantics.scene import Hints
from niom_ros.settings import GuideOptions
from niom_ros.settings import Options
from niom_ros.settings import SettingsError
from niom_ros.settings import Weighting
from niom_ros.virtual_scene import example_photo
from niom_ros.virtual_scene import View
from niom_ros.virtual_scene import VirtualScene

INK = Options(drawing_search='ink')


@pytest.fixture(scope='module')
def reference(pipeline: Pipeline) -> Reference:
    return pipeline.prepare(demo_sketch())


@pytest.fixture(scope='module')
def view(scene: VirtualScene) -> View:
    return scene.view(8.0, frame=0)


def test_a_sketch_finds_what_it_shows(
    pipeline: Pipeline, reference: Reference, view: View
) -> None:
    assert reference.drawing and reference.kind_confidence > 0.9
    look = Look(view.image)
    (outcome,) = pipeline.match_all([reference], look)
    verdict = outcome.verdict
    assert verdict.status is Status.OK, verdict.message
    assert outcome.way == 'ink'
    assert corner_error(verdict.reference_to_image, view.picture_to_image, reference.box) < 12
    # Nothing had to be detected for it.
    assert look.scene is None
    assert set(outcome.stage_seconds) == {'extract', 'match', 'verify', 'edges', 'trace'}


def test_its_points_lie_where_it_was_found_best_first(
    pipeline: Pipeline, reference: Reference, view: View
) -> None:
    outcome = pipeline.match(reference, view.image, INK)
    matches, agrees = outcome.correspondences, outcome.verdict.inliers
    assert 200 < len(matches) <= 400
    assert (np.diff(matches.scores) <= 0).all()
    assert agrees.mean() > 0.7
    truly = warp_points(view.picture_to_image, matches.reference_points[agrees])
    off = np.linalg.norm(truly - matches.image_points[agrees], axis=1)
    assert np.median(off) < 6


@pytest.mark.parametrize('name', ['astronaut', 'chelsea', 'rocket', 'gravel'])
def test_a_sketch_is_not_found_where_it_is_not(
    pipeline: Pipeline, reference: Reference, name: str
) -> None:
    outcome = pipeline.match(reference, example_photo(name), INK)
    assert outcome.verdict.status is not Status.OK
    assert outcome.verdict.reference_to_image is None


@pytest.mark.parametrize('level', [0, 128, 255])
def test_an_even_image_holds_no_drawing(
    pipeline: Pipeline, reference: Reference, level: int
) -> None:
    image = np.full((480, 640, 3), level, np.uint8)
    for options in (INK, Options()):
        assert pipeline.match(reference, image, options).verdict.status is not Status.OK


def test_a_copy_of_a_sketch_is_found_by_matches(pipeline: Pipeline, reference: Reference) -> None:
    bent = np.array([[0.8, 0.1, 60], [-0.08, 0.85, 70], [0.0002, -0.0001, 1]])
    image = cv2.warpPerspective(demo_sketch(), bent, (640, 480), borderValue=(255, 255, 255))
    look = Look(image)
    (outcome,) = pipeline.match_all([reference], look)
    assert outcome.verdict.status is Status.OK, outcome.verdict.message
    assert outcome.way == 'none'
    assert look.edges is None
    assert corner_error(outcome.verdict.reference_to_image, bent, reference.box) < 3


def test_what_worked_is_tried_first(pipeline: Pipeline, reference: Reference, view: View) -> None:
    look = Look(view.image)
    (outcome,) = pipeline.match_all([reference], look, try_first='ink')
    assert outcome.verdict.status is Status.OK
    assert look.features is None
    given = GivenReference(demo_sketch())
    named = NamedReference(given, reference, 1)
    found = guide(pipeline, [named], view.image, None, GuideOptions(), try_first='ink')
    assert found.look is not None and found.look.features is None
    assert found.outcome.way == 'ink'


def test_ways_depend_on_the_reference_and_the_options(
    pipeline: Pipeline, reference: Reference, coffee: np.ndarray
) -> None:
    photo = pipeline.prepare(coffee)
    assert ways_to_find(reference, Options()) == ['none', 'ink']
    assert ways_to_find(reference, Options(), 'ink') == ['ink', 'none']
    assert ways_to_find(reference, INK) == ['ink']
    assert ways_to_find(reference, Options(drawing_search='matches')) == ['none', 'sew']
    assert ways_to_find(reference, Options(weighting=Weighting('sew'))) == ['sew', 'ink']
    for options in (Options(), INK):
        assert ways_to_find(photo, options) == ['none', 'sew']
    assert ways_to_find(photo, Options(), 'sew') == ['sew', 'none']
    with pytest.raises(SettingsError, match='drawing_search'):
        Options(drawing_search='pencil')


def test_a_plain_outline_is_enough_for_a_drawing_but_not_for_a_photo(pipeline: Pipeline) -> None:
    page = np.full((400, 600, 3), 255, np.uint8)
    cv2.ellipse(page, (300, 200), (220, 130), 10, 0, 360, (0, 0, 0), 3, cv2.LINE_AA)
    plain = pipeline.prepare(page, fewest_keypoints=5000)
    assert plain.drawing and plain.matchability > 0.5
    with pytest.raises(TooPlain):
        pipeline.prepare(page, fewest_keypoints=5000, hints=Hints(drawing=False))
    dot = np.full((400, 600, 3), 255, np.uint8)
    cv2.line(dot, (300, 200), (330, 200), (0, 0, 0), 3)
    with pytest.raises(TooPlain):
        pipeline.prepare(dot, fewest_keypoints=5000, hints=Hints(drawing=True))
    # A photo that somebody calls a drawing, with no ink in it, is still looked for by matches.
    forced = pipeline.prepare(dot, fewest_keypoints=0, hints=Hints(drawing=True))
    assert forced.drawing and ways_to_find(forced, INK) == ['none', 'sew']


def test_only_the_part_that_counts_is_laid_along_edges(pipeline: Pipeline, view: View) -> None:
    page = np.full((600, 900, 3), 255, np.uint8)
    page[100:500, 200:800] = demo_sketch()
    # Scribble beside it that is nowhere in the image.
    for x in range(20, 180, 20):
        cv2.line(page, (x, 20), (200 - x, 580), (0, 0, 0), 3)
    mask = np.zeros((600, 900), np.uint8)
    mask[100:500, 200:800] = 255
    reference = pipeline.prepare(page, mask)
    outcome = pipeline.match(reference, view.image, INK)
    assert outcome.verdict.status is Status.OK, outcome.verdict.message
    moved = np.array([[1, 0, -200], [0, 1, -100], [0, 0, 1.0]])
    truth = view.picture_to_image @ moved
    box = Box(200, 100, 600, 400)
    assert reference.box == box
    assert corner_error(outcome.verdict.reference_to_image, truth, box) < 12


def test_the_report_of_a_sketch_shows_the_edges(
    pipeline: Pipeline, reference: Reference, view: View
) -> None:
    outcome = pipeline.match(reference, view.image, INK)
    edges = draw_edges(reference, view.image, outcome, max_width=900)
    assert edges.shape[1] <= 900
    report = draw_report(reference, view.image, outcome)
    plain = draw_report(reference, view.image, pipeline.match(reference, view.image))
    assert report.shape == plain.shape
    # Ink that lies on edges is marked in blue; a camera image in grey has no such pixel.
    assert (edges == (86, 180, 233)).all(axis=2).sum() > 500
