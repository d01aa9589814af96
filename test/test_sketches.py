"""A sketch as the reference: from paper to the object that it shows, with the whole matcher."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import alike_pictures
from blueprints import blueprint, pdf_file, pdf_operators, plate, svg_elements, svg_file
import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, SettingsError, StreamOptions, Weighting
from niom_ros.drawings import tracing
from niom_ros.drawings.strokes import Strokes
from niom_ros.drawings.tracing import Traced
from niom_ros.images.decoding import TooPlain
from niom_ros.images.pages.reading import read_reference_picture
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.matching.match import Approach, Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import DEFAULTS as PRIOR_DEFAULTS
from niom_ros.matching.prior import Prior
from niom_ros.matching.reference import Landmark, Reference
from niom_ros.matching.strategies import ink as ink_module
from niom_ros.matching.strategies.alike import Alike
from niom_ros.matching.strategies.ink import Ink
from niom_ros.matching.strategies.on_object import fitting, OnObject
from niom_ros.matching.strategies.points import Points
from niom_ros.matching.strategies.strategy import Search, Strategy
from niom_ros.pictures.matches import draw_edges, draw_report
from niom_ros.references.known_reference import KnownReference
from niom_ros.semantics.heat_maps import Area
from niom_ros.simulation.demo_sketch import demo_sketch
from niom_ros.simulation.virtual_scene import example_photo, View, VirtualScene
from niom_ros.stream.answers import find_best

INK = Options(drawing_search='ink')
BY_INK, BY_POINTS = Approach(Ink.name), Approach(Points.name)
BY_WEIGHTED_POINTS = Approach(Points.name, 'sew')
BY_SIFT, BY_TURNED = Approach('classical'), Approach('turned')
BY_KIND = Approach(Alike.name)
BENT = np.array([[0.8, 0.1, 60], [-0.08, 0.85, 70], [0.0002, -0.0001, 1]])


def bent_copy() -> np.ndarray:
    return cv2.warpPerspective(demo_sketch(), BENT, (640, 480), borderValue=(255, 255, 255))


@pytest.fixture(scope='module')
def reference(matcher: Matcher) -> PreparedReference:
    return matcher.prepare(demo_sketch())


@pytest.fixture(scope='module')
def view(scene: VirtualScene) -> View:
    return scene.view(8.0, frame=0)


def test_a_sketch_finds_what_it_shows(
    matcher: Matcher, reference: PreparedReference, view: View
) -> None:
    assert reference.drawing and reference.kind_confidence > 0.9
    analysis = matcher.analyse(view.image)
    (match,) = matcher.match_all([reference], analysis)
    verdict = match.verdict
    assert verdict.status is Status.OK, verdict.message
    assert match.approach == BY_INK
    assert corner_error(verdict.reference_to_image, view.picture_to_image, reference.box) < 12
    # Nothing had to be detected for it.
    assert not analysis.has_scene
    assert set(match.stage_seconds) == {'sift', 'extract', 'match', 'verify', 'edges', 'trace'}


def test_its_points_lie_where_it_was_found_best_first(
    matcher: Matcher, reference: PreparedReference, view: View
) -> None:
    match = matcher.match(reference, view.image, INK)
    matches, agrees = match.correspondences, match.verdict.inliers
    assert 200 < len(matches) <= 400
    assert (np.diff(matches.scores) <= 0).all()
    assert agrees.mean() > 0.7
    truly = warp_points(view.picture_to_image, matches.reference_points[agrees])
    off = np.linalg.norm(truly - matches.image_points[agrees], axis=1)
    assert np.median(off) < 6


@pytest.mark.parametrize('name', ['astronaut', 'chelsea', 'rocket', 'gravel'])
def test_a_sketch_is_not_found_where_it_is_not(
    matcher: Matcher, reference: PreparedReference, name: str
) -> None:
    match = matcher.match(reference, example_photo(name), INK)
    assert match.verdict.status is not Status.OK
    assert match.verdict.reference_to_image is None


@pytest.mark.parametrize('level', [0, 128, 255])
def test_an_even_image_holds_no_drawing(
    matcher: Matcher, reference: PreparedReference, level: int
) -> None:
    image = np.full((480, 640, 3), level, np.uint8)
    for options in (INK, Options()):
        assert matcher.match(reference, image, options).verdict.status is not Status.OK


@pytest.fixture(scope='module')
def holes() -> np.ndarray:
    """Return the drawing of a plate with four holes: its outline is that of any camera image."""
    page = np.full((300, 400, 3), 255, np.uint8)
    cv2.rectangle(page, (40, 40), (360, 260), (0, 0, 0), 2)
    for hole in ((80, 80), (320, 80), (80, 220), (320, 220)):
        cv2.circle(page, hole, 15, (0, 0, 0), 2)
    return page


def wall(table: bool = False, quality: int = 0) -> np.ndarray:
    """Return a wall with shade and grain, perhaps behind a table, perhaps as a JPEG picture."""
    y, x = np.mgrid[:480, :640]
    grey = 150 - 60 * np.hypot(x / 640 - 0.4, y / 480 - 0.5)
    grey[330:] *= 0.6 if table else 1
    image = (grey[..., None] + np.random.default_rng(1).normal(0, 2, (480, 640, 3))).astype(
        np.uint8
    )
    if not quality:
        return image
    return cv2.imdecode(cv2.imencode('.jpg', image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], 1)


def noise(mean: float, deviation: float, width: int = 640, height: int = 480) -> np.ndarray:
    image = np.random.default_rng(0).normal(mean, deviation, (height, width, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    'image',
    [
        np.full((480, 640, 3), 130, np.uint8),
        wall(),
        wall(quality=90),
        wall(table=True),
        noise(8, 3),
        noise(120, 5),
        noise(128, 70),
        noise(128, 70, 1000, 1),
        noise(128, 70, 480, 8),
        noise(128, 70, 40, 2000),
        noise(128, 70, 16, 16),
    ],
    ids=lambda image: f'{image.shape[1]}x{image.shape[0]}, {image.mean():.0f}, {image.std():.0f}',
)
def test_what_shows_nothing_holds_no_drawing(
    matcher: Matcher, holes: np.ndarray, image: np.ndarray
) -> None:
    """The border of an image is not an edge, nor is grain, however little else there is."""
    verdict = matcher.match(matcher.prepare(holes), image, INK).verdict
    assert verdict.status is not Status.OK
    assert verdict.confidence < 0.5


def test_a_plate_is_found_on_a_wall_that_shows_nothing_else(
    matcher: Matcher, holes: np.ndarray
) -> None:
    view = np.array([[0.9, 0.1, 110], [-0.08, 0.95, 120], [0.0001, 0, 1]])
    metal = np.full((300, 400, 3), 175, np.uint8)
    for hole in ((80, 80), (320, 80), (80, 220), (320, 220)):
        cv2.circle(metal, hole, 15, (90, 90, 90), -1)
    covered = np.zeros((300, 400), np.uint8)
    covered[40:260, 40:360] = 255
    image = wall()
    seen, where = (cv2.warpPerspective(each, view, (640, 480)) for each in (metal, covered))
    image[where > 127] = seen[where > 127]
    reference = matcher.prepare(holes)
    verdict = matcher.match(reference, image, INK).verdict
    assert verdict.status is Status.OK, verdict.message
    assert verdict.reference_to_image is not None
    assert corner_error(verdict.reference_to_image, view, reference.box) < 10


def test_a_copy_of_a_sketch_is_found_by_matches(
    matcher: Matcher, reference: PreparedReference
) -> None:
    analysis = matcher.analyse(bent_copy())
    (match,) = matcher.match_all([reference], analysis)
    assert match.verdict.status is Status.OK, match.verdict.message
    assert match.approach == BY_SIFT
    assert 'edges' not in match.stage_seconds
    assert corner_error(match.verdict.reference_to_image, BENT, reference.box) < 6
    match = matcher.match(reference, bent_copy(), Options(keypoint_search='networks'))
    assert match.found and match.approach == BY_POINTS
    assert corner_error(match.verdict.reference_to_image, BENT, reference.box) < 12


def test_what_worked_is_tried_first(
    matcher: Matcher, reference: PreparedReference, view: View
) -> None:
    analysis = matcher.analyse(view.image)
    (match,) = matcher.match_all([reference], analysis, prior=Prior(reference, BY_INK, np.eye(3)))
    assert match.verdict.status is Status.OK
    assert not analysis.has_features


@pytest.fixture(scope='module')
def known(reference: PreparedReference) -> KnownReference:
    return KnownReference(reference, 1)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record whether a drawing is searched everywhere or near a view."""
    made: list[str] = []

    def noting(name: str) -> None:
        whole = getattr(ink_module, name)

        def noted(*args: Any) -> Traced:
            made.append(name)
            traced: Traced = whole(*args)
            return traced

        monkeypatch.setattr(ink_module, name, noted)

    noting('trace')
    noting('trace_near')
    return made


def test_a_drawing_that_was_found_is_looked_for_where_it_was(
    matcher: Matcher, scene: VirtualScene, known: KnownReference, searches: list[str]
) -> None:
    prior = None
    for frame, seconds in enumerate((8.0, 8.1, 8.2)):
        view = scene.view(seconds, frame)
        found = find_best(matcher, [known], view.image, StreamOptions(), prior=prior)
        prior = found.prior
        verdict = found.match.verdict
        assert verdict.status is Status.OK, verdict.message
        box = known.prepared.box
        assert corner_error(verdict.reference_to_image, view.picture_to_image, box) < 12
        assert found.match.locked == frame
    assert searches == ['trace', 'trace_near', 'trace_near']
    assert found.analysis is not None and not found.analysis.has_features


@pytest.mark.parametrize('degrees', [90, 180])
def test_where_it_was_is_known_in_the_upright_image(
    matcher: Matcher, view: View, known: KnownReference, searches: list[str], degrees: int
) -> None:
    turned = np.rot90(view.image, degrees // 90).copy()
    options = StreamOptions(rotation=degrees)
    first = find_best(matcher, [known], turned, options)
    again = find_best(matcher, [known], turned, options, prior=first.prior)
    assert first.match.verdict.status is again.match.verdict.status is Status.OK
    assert searches == ['trace', 'trace_near']


@pytest.mark.parametrize('reason', ['it left', 'long ago', 'another reference', 'by matches'])
def test_a_drawing_is_looked_for_everywhere(
    matcher: Matcher, reference: PreparedReference, view: View, searches: list[str], reason: str
) -> None:
    good = Prior(reference, BY_INK, view.picture_to_image)
    prior = {
        'it left': replace(good, reference_to_image=np.diag([0.1, 0.1, 1])),
        'long ago': replace(good, locked=PRIOR_DEFAULTS.longest_lock),
        'another reference': replace(good, reference=replace(reference)),
        'by matches': replace(good, approach=BY_POINTS),
    }[reason]
    (match,) = matcher.match_all([reference], matcher.analyse(view.image), INK, prior)
    assert match.verdict.status is Status.OK, match.verdict.message
    assert match.locked == 0
    assert searches == (['trace_near', 'trace'] if reason == 'it left' else ['trace'])


@pytest.mark.parametrize('seconds', [1.6, 2.0])
def test_what_lies_on_the_way_from_an_old_prior_is_not_believed(
    matcher: Matcher, scene: VirtualScene, reference: PreparedReference, seconds: float
) -> None:
    prior = Prior(reference, BY_INK, scene.picture_to_image(0.0))
    view = scene.view(seconds, frame=7)
    (match,) = matcher.match_all([reference], matcher.analyse(view.image), INK, prior)
    verdict = match.verdict
    assert verdict.status is Status.OK and verdict.reference_to_image is not None
    assert corner_error(verdict.reference_to_image, view.picture_to_image, reference.box) < 12


@pytest.mark.parametrize('name', ['astronaut', 'chelsea', 'rocket', 'gravel'])
def test_a_prior_does_not_make_a_drawing_be_found_where_it_is_not(
    matcher: Matcher, reference: PreparedReference, view: View, name: str
) -> None:
    prior = Prior(reference, BY_INK, view.picture_to_image)
    image = cv2.resize(example_photo(name), (640, 480))
    (match,) = matcher.match_all([reference], matcher.analyse(image), INK, prior)
    assert match.verdict.reference_to_image is None


def test_a_frame_without_it_gives_no_clue(matcher: Matcher, known: KnownReference) -> None:
    image = np.full((480, 640, 3), 128, np.uint8)
    assert find_best(matcher, [known], image, StreamOptions()).prior is None


@pytest.mark.parametrize('first', [BY_INK, BY_WEIGHTED_POINTS], ids=['ink', 'sew'])
def test_the_other_approach_is_tried_when_the_first_fails(
    matcher: Matcher,
    reference: PreparedReference,
    coffee: np.ndarray,
    view: View,
    monkeypatch: pytest.MonkeyPatch,
    first: Approach,
) -> None:
    wanted, image = matcher.prepare(coffee), view.image
    if first == BY_INK:
        wanted, image = reference, bent_copy()
    tried: list[Approach] = []

    def refusing_first(find: Callable[..., Match | None]) -> Callable[..., Match | None]:
        def refuse_first(strategy: Strategy, search: Search) -> Match | None:
            tried.append(search.approach)
            if search.approach == first:
                return Match.without_matches(Status.LOW_CONFIDENCE, 'as if')
            return find(strategy, search)

        return refuse_first

    for strategy in (Points, Ink):
        monkeypatch.setattr(strategy, 'find', refusing_first(strategy.find))
    prior = Prior(wanted, first, np.eye(3))
    networks = Options(keypoint_search='networks')
    (match,) = matcher.match_all([wanted], matcher.analyse(image), networks, prior)
    assert tried == [first, BY_POINTS]
    assert match.approach == BY_POINTS
    assert match.verdict.status is Status.OK, match.verdict.message


def test_weights_that_were_used_are_told_also_when_they_came_first(
    matcher: Matcher, coffee: np.ndarray, view: View
) -> None:
    reference = matcher.prepare(coffee)
    prior = Prior(reference, BY_WEIGHTED_POINTS, np.eye(3))
    (match,) = matcher.match_all([reference], matcher.analyse(view.image), prior=prior)
    assert match.approach == BY_WEIGHTED_POINTS
    assert match.weighting == 'sew'
    assert match.image_weights.description.startswith('yolov4-tiny')


def test_a_drawing_that_fits_in_any_direction_is_refused(matcher: Matcher) -> None:
    """The rim of one clock fits that of another one, however it is turned."""
    clock = matcher.prepare(
        Reference(alike_pictures.picture('clock'), drawing=True), fewest_keypoints=0
    )
    assert not clock.symmetric_turns  # its hands and figures do tell a direction
    analysis = matcher.analyse(alike_pictures.wall())
    (match,) = matcher.match_all([clock], analysis, Options(strategies=('ink',)))
    assert match.status is Status.LOW_CONFIDENCE and match.confidence < 0.5
    assert 'turned, the drawing fits almost as well' in match.message


def test_a_drawing_with_a_direction_does_not_fit_when_it_is_turned(
    matcher: Matcher, reference: PreparedReference, view: View
) -> None:
    edges, strokes = matcher.analyse(view.image).edges, reference.strokes
    assert strokes is not None
    truth, corners = view.picture_to_image, reference.box.corners()
    assert tracing.turned_share(strokes, corners, edges, truth) < 0.6
    # A circle does.
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    middle, radius = np.array([150.0, 150.0]), 100.0
    around = np.column_stack([np.cos(angles), np.sin(angles)])
    ring = Strokes((middle + radius * around).astype(np.float32), angles.astype(np.float32))
    page = np.full((300, 300, 3), 255, np.uint8)
    cv2.circle(page, (150, 150), 100, (0, 0, 0), 3, cv2.LINE_AA)
    box = Box(0, 0, 300, 300).corners()
    share = tracing.turned_share(ring, box, matcher.analyse(page).edges, np.eye(3))
    assert share == pytest.approx(1, abs=0.05)


def sketch_of_a_cat() -> np.ndarray:
    page = np.full((300, 400, 3), 255, np.uint8)
    outline = [(110, 250), (120, 120), (105, 40), (160, 80), (240, 80), (295, 40), (280, 120)]
    cv2.polylines(page, [np.array([*outline, (290, 250)])], True, (0, 0, 0), 3, cv2.LINE_AA)
    for x in (165, 235):
        cv2.ellipse(page, (x, 140), (18, 12), 0, 0, 360, (0, 0, 0), 3, cv2.LINE_AA)
    cv2.polylines(
        page, [np.array([(185, 180), (215, 180), (200, 200)])], True, (0, 0, 0), 3, cv2.LINE_AA
    )
    return page


def test_a_labelled_sketch_finds_another_object_of_its_kind(matcher: Matcher) -> None:
    photo = example_photo('chelsea')
    eye = Landmark('left eye', 235, 140)
    cat = matcher.prepare(
        Reference(sketch_of_a_cat(), label='cat', landmarks=(eye,)), fewest_keypoints=0
    )
    planned = matcher.approaches(cat, Options())
    assert planned == [BY_SIFT, BY_POINTS, BY_INK, Approach(OnObject.name), BY_KIND]
    match = matcher.match(cat, photo)
    # It is another cat: found as one of its kind, without a homography.
    assert match.status is Status.ALIKE and match.reference_to_image is None
    assert match.message.startswith('another cat, by its label alone')
    (pair,) = match.paired.pairs
    seen = match.scene.objects[pair.image_object]
    assert seen.label == 'cat'
    assert match.alike is not None and match.alike.box == seen.area
    assert match.confidence == match.alike.confidence == seen.score
    points = torch.from_numpy(match.correspondences.image_points)
    assert float(seen.area.contains(points).float().mean()) > 0.8
    # All over it, not on a whisker.
    spread = np.ptp(match.correspondences.image_points, axis=0)
    assert spread.prod() > 0.5 * seen.area.width * seen.area.height
    # None of them is certain, and the landmark says how far it may be off.
    assert not match.inliers.any() and (match.correspondences.scores < 0.5).all()
    landmarks = match.alike.landmarks
    assert bool(seen.area.contains(torch.from_numpy(landmarks.places)).all())
    assert landmarks.confidences[0] < 0.5
    assert 0.1 * match.alike.size < landmarks.deviations[0] < 0.3 * match.alike.size
    assert match.alike.warp is not None
    assert match.alike.warp.deviation == pytest.approx(landmarks.deviations[0])


def test_another_label_than_that_of_the_sketch_is_not_enough(matcher: Matcher) -> None:
    kitten = matcher.prepare(Reference(sketch_of_a_cat(), label='kitten'), fewest_keypoints=0)
    match = matcher.match(kitten, example_photo('chelsea'))
    assert match.status is Status.LOW_CONFIDENCE and match.confidence == 0
    assert 'laid onto the cat' in match.message
    assert "give the reference the label 'cat'" in match.message


def test_a_detection_that_is_not_sure_is_not_enough(matcher: Matcher) -> None:
    cat = matcher.prepare(Reference(sketch_of_a_cat(), label='cat'), fewest_keypoints=0)
    analysis = matcher.analyse(example_photo('chelsea'))
    unsure = tuple(replace(seen, score=0.4) for seen in analysis.scene.objects)
    (match,) = matcher.match_all(
        [cat], analysis.with_scene(replace(analysis.scene, objects=unsure))
    )
    assert match.status is Status.LOW_CONFIDENCE
    assert 'the detector is not sure of: 0.40, 0.50 is needed' in match.message


def test_without_a_label_or_an_object_nothing_is_laid_onto_anything(matcher: Matcher) -> None:
    photo, sketch = example_photo('chelsea'), sketch_of_a_cat()
    unlabelled = matcher.prepare(sketch, fewest_keypoints=0)
    analysis = matcher.analyse(photo)
    (match,) = matcher.match_all([unlabelled], analysis)
    assert not match.paired.pairs and match.approach in (BY_SIFT, BY_POINTS, BY_INK)
    labelled = matcher.prepare(Reference(sketch, label='cat'), fewest_keypoints=0)
    match = matcher.match(labelled, example_photo('brick'))
    assert match.approach in (BY_SIFT, BY_POINTS, BY_INK)
    assert match.paired.description.startswith('none: no object in the image')


@pytest.mark.parametrize(('width', 'height'), [(300, 20), (30, 30)])
def test_nothing_is_laid_onto_a_box_of_another_shape_or_a_tiny_one(
    matcher: Matcher, width: int, height: int
) -> None:
    cat = matcher.prepare(Reference(sketch_of_a_cat(), label='cat'), fewest_keypoints=0)
    analysis = matcher.analyse(example_photo('chelsea'))
    box = Area(100, 100, 100 + width, 100 + height)
    seen = tuple(replace(one, area=box, score=0.9) for one in analysis.scene.objects)
    scene = replace(analysis.scene, objects=seen)
    only_laid = Options(strategies=(OnObject.name,))
    (match,) = matcher.match_all([cat], analysis.with_scene(scene), only_laid)
    assert not match.located and not len(match.correspondences)
    (whole,) = matcher.match_all([cat], analysis, only_laid)
    assert whole.status is Status.ALIKE


def test_a_rectangle_is_moved_onto_another() -> None:
    view = fitting(Area(0, 10, 10, 40), Area(100, 50, 140, 60))
    corners = np.array([[0.0, 10.0], [10.0, 40.0], [5.0, 25.0]])
    np.testing.assert_allclose(warp_points(view, corners), [[100, 50], [140, 60], [120, 55]])


def test_a_single_line_is_not_looked_for_by_its_ink(matcher: Matcher) -> None:
    page = np.full((400, 600, 3), 255, np.uint8)
    cv2.line(page, (50, 60), (550, 340), (0, 0, 0), 3, cv2.LINE_AA)
    with pytest.raises(TooPlain, match='hardly any strokes'):
        matcher.prepare(Reference(page, drawing=True), fewest_keypoints=5000)


def test_approaches_depend_on_the_reference_and_the_options(
    matcher: Matcher, reference: PreparedReference, coffee: np.ndarray
) -> None:
    photo, approaches = matcher.prepare(coffee), matcher.approaches
    by_both = [BY_SIFT, BY_POINTS, BY_WEIGHTED_POINTS, BY_TURNED, BY_KIND]
    sew, matches = Options(weighting=Weighting('sew')), Options(drawing_search='matches')
    assert approaches(reference, Options()) == [BY_SIFT, BY_POINTS, BY_INK, BY_KIND]
    before = Prior(reference, BY_INK, np.eye(3))
    assert approaches(reference, Options(), before) == [BY_INK, BY_SIFT, BY_POINTS, BY_KIND]
    assert approaches(reference, INK) == [BY_INK, BY_KIND]
    assert approaches(reference, matches) == by_both
    assert approaches(reference, sew) == [BY_WEIGHTED_POINTS, BY_INK, BY_KIND]
    for options in (Options(), INK):
        assert approaches(photo, options) == by_both
    before = Prior(photo, BY_WEIGHTED_POINTS, np.eye(3))
    others = [approach for approach in by_both if approach != BY_WEIGHTED_POINTS]
    assert approaches(photo, Options(), before) == [BY_WEIGHTED_POINTS, *others]
    with pytest.raises(SettingsError, match='drawing_search'):
        Options(drawing_search='pencil')


def test_a_plain_outline_is_enough_for_a_drawing_but_not_for_a_photo(matcher: Matcher) -> None:
    page = np.full((400, 600, 3), 255, np.uint8)
    cv2.ellipse(page, (300, 200), (220, 130), 10, 0, 360, (0, 0, 0), 3, cv2.LINE_AA)
    plain = matcher.prepare(page, fewest_keypoints=5000)
    assert plain.drawing and plain.matchability > 0.5
    with pytest.raises(TooPlain):
        matcher.prepare(Reference(page, drawing=False), fewest_keypoints=5000)
    dot = np.full((400, 600, 3), 255, np.uint8)
    cv2.line(dot, (300, 200), (330, 200), (0, 0, 0), 3)
    with pytest.raises(TooPlain):
        matcher.prepare(Reference(dot, drawing=True), fewest_keypoints=5000)
    # A photo that somebody calls a drawing, with no ink in it, is still looked for by matches.
    forced = matcher.prepare(Reference(dot, drawing=True), fewest_keypoints=0)
    assert forced.drawing
    by_matches = [BY_SIFT, BY_POINTS, BY_WEIGHTED_POINTS, BY_TURNED, BY_KIND]
    assert matcher.approaches(forced, INK) == by_matches


def test_only_the_part_that_counts_is_laid_along_edges(matcher: Matcher, view: View) -> None:
    page = np.full((1500, 2200, 3), 255, np.uint8)
    page[1100:, 1600:] = demo_sketch()
    # Scribble beside it that is nowhere in the image.
    for x in range(20, 1500, 20):
        cv2.line(page, (x, 20), (1500 - x, 1480), (0, 0, 0), 3)
    mask = np.zeros((1500, 2200), np.uint8)
    mask[1100:, 1600:] = 255
    reference = matcher.prepare(Reference(page, mask=mask))
    match = matcher.match(reference, view.image, INK)
    assert match.verdict.status is Status.OK, match.verdict.message
    moved = np.array([[1, 0, -1600], [0, 1, -1100], [0, 0, 1.0]])
    truth = view.picture_to_image @ moved
    box = Box(1600, 1100, 600, 400)
    assert reference.box == box
    assert corner_error(match.verdict.reference_to_image, truth, box) < 12


def test_the_report_of_a_sketch_shows_the_edges(
    matcher: Matcher, reference: PreparedReference, view: View
) -> None:
    match = matcher.match(reference, view.image, INK)
    edges = draw_edges(reference, view.image, match, max_width=900)
    assert edges.shape[1] <= 900
    report = draw_report(reference, view.image, match)
    plain = draw_report(reference, view.image, matcher.match(reference, view.image))
    assert report.shape == plain.shape
    # Ink that lies on edges is marked in blue; a camera image in grey has no such pixel.
    assert (edges == (86, 180, 233)).all(axis=2).sum() > 500


def steel_plate_on_bricks(page: np.ndarray, to_image: np.ndarray) -> np.ndarray:
    """Return a camera image of what a page shows: steel inside its outline, bricks elsewhere."""
    height, width = page.shape[:2]
    paper = (cv2.cvtColor(page, cv2.COLOR_RGB2GRAY) > 128).astype(np.uint8)
    _, areas, statistics, _ = cv2.connectedComponentsWithStats(paper, connectivity=4)
    # The largest is the paper around the plate, the next the plate without its holes.
    plate = np.argsort(statistics[1:, cv2.CC_STAT_AREA])[-2] + 1
    bricks = cv2.resize(example_photo('brick'), (width, height)).astype(float) * 0.5 + 40
    shine = 170 + 25 * np.sin(np.arange(width) / 90)[None, :, None]
    seen = np.where((areas == plate)[..., None], shine, bricks).astype(np.uint8)
    image = cv2.warpPerspective(seen, to_image, (640, 480), borderMode=cv2.BORDER_REFLECT_101)
    noise = np.random.default_rng(0).normal(0, 5, image.shape)
    return np.clip(cv2.GaussianBlur(image, (0, 0), 0.8) + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize('kind', ['pdf', 'svg'])
def test_a_page_of_a_blueprint_finds_the_part(matcher: Matcher, tmp_path: Path, kind: str) -> None:
    file, alone = tmp_path / f'plate.{kind}', tmp_path / f'alone.{kind}'
    for path, parts in ((file, blueprint()), (alone, plate())):
        if kind == 'pdf':
            path.write_bytes(pdf_file([pdf_operators([]), pdf_operators(parts)]))
        else:
            path.write_text(svg_file(svg_elements(parts)))
    page = 1 if kind == 'pdf' else 0
    picture = read_reference_picture(file, page)
    assert 'dimension lines' in picture.notes[0] and 'title block' in picture.notes[0]
    reference = matcher.prepare(picture.image)
    assert reference.drawing
    truth = np.array([[0.34, 0.06, 60], [-0.05, 0.36, 70], [1e-5, 3e-5, 1]])
    image = steel_plate_on_bricks(read_reference_picture(alone, page).image, truth)
    match = matcher.match(reference, image)
    assert match.verdict.status is Status.OK, match.verdict.message
    assert corner_error(match.verdict.reference_to_image, truth, reference.box) < 4
