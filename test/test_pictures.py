from dataclasses import dataclass, replace
import math

import cv2
from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, Weighting
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match, Weights
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.pictures.lettering import (
    cleaned,
    legend,
    lettered,
    line_height,
    shortened,
    SKY,
    text_size,
    text_width,
    WHITE,
    wrapped,
)
from niom_ros.pictures.marks import (
    BLUE,
    GREY,
    HEAT_COLOURS,
    PURPLE,
    SCORE_COLOURS,
    score_colours,
    SLATE,
    VERMILLION,
)
from niom_ros.pictures.matches import (
    arrange,
    draw_landmarks,
    draw_matches,
    draw_overlay,
    draw_report,
    draw_semantics,
    GAP,
    match_entries,
    NumberedPlace,
    overlap,
    PictureOptions,
    scaling,
    status_banner,
    weights_banner,
    weights_line,
)
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

# Of two grey panels of 320 x 240 pixels, drawn as they are.
WIDTH, HEIGHT = 320, 240
CAMERA = WIDTH + GAP  # where the right one begins
BANNER = status_banner(2 * WIDTH + GAP, Match.without_matches(Status.STALE, ''), '').shape[0]


@dataclass(frozen=True)
class Mark:
    name: str
    x: float
    y: float
    confidence: float = 0.9
    inside: bool = True
    deviation: float = 0.5


def grey_image(width=WIDTH, height=HEIGHT):
    return np.full((height, width, 3), 100, np.uint8)


def plain_reference(width=WIDTH, height=HEIGHT):
    box = Box(0, 0, width, height)
    return PreparedReference(
        given=Reference(grey_image(width, height)),
        features=None,
        scene=Scene(),
        box=box,
        counting_area=box.area,
        matchability=1.0,
        drawing=False,
        kind_confidence=1.0,
    )


def matched_points(reference_points, image_points, scores, agrees, homography=None):
    points = Correspondences(
        np.array(reference_points, np.float32),
        np.array(image_points, np.float32),
        np.array(scores, np.float32),
    )
    status = Status.LOW_CONFIDENCE if homography is None else Status.OK
    return Match(Verdict(status, 'so it is', np.array(agrees), homography, 0.4), points)


def found_at(homography):
    nothing = np.empty((0, 2))
    return matched_points(nothing, nothing, [], np.zeros(0, bool), np.array(homography, float))


def nothing_found():
    return Match.without_matches(Status.FEW_MATCHES, 'too few')


def drawn(match, landmarks=()):
    """Return the two panels in their row, without banner and legend."""
    picture = draw_matches(
        plain_reference(), grey_image(), match, PictureOptions(landmarks=landmarks)
    )
    assert picture.shape[1] == 2 * WIDTH + GAP
    return picture[BANNER : BANNER + HEIGHT]


def has(colour, picture):
    return bool((picture == colour).all(axis=2).any())


def share_of(colour, picture):
    return (np.abs(picture.astype(int) - colour).max(axis=2) < 25).mean()


# Matches


@pytest.mark.parametrize('score', [0.0, 0.3, 0.95])
def test_a_match_that_agrees_is_a_line_in_the_colour_of_its_score(score):
    row = drawn(matched_points([[50, 60]], [[70, 60]], [score], [True]))
    (colour,) = score_colours(np.array([score]))
    for x in (60, 200, WIDTH + GAP // 2, CAMERA + 50):
        assert row[60, x].tolist() == colour


def test_a_match_that_disagrees_is_two_crosses_and_a_thin_line():
    row = drawn(matched_points([[50, 60]], [[70, 60]], [0.95], [False]))
    between = row[:, WIDTH:CAMERA].any(axis=(1, 2))
    assert between[60] and between.sum() <= 3
    assert has(VERMILLION, row[57:64, 47:54])
    assert has(VERMILLION, row[57:64, CAMERA + 67 : CAMERA + 74])
    assert not has(score_colours(np.array([0.95]))[0], row)


def test_the_two_kinds_of_match_differ_also_without_colour():
    agrees, disagrees = (
        cv2.cvtColor(
            drawn(matched_points([[50, 60]], [[70, 60]], [0.9], [kind])), cv2.COLOR_RGB2GRAY
        )
        for kind in (True, False)
    )
    changed = (agrees.astype(int) - disagrees)[:, WIDTH:CAMERA]
    assert np.abs(changed).max() > 60


def test_every_agreeing_match_has_its_dots():
    points = np.array([[x, y] for y in range(40, 200, 10) for x in range(15, 310, 20)])
    scores = np.linspace(1, 0, len(points))
    row = drawn(matched_points(points, points, scores, np.ones(len(points), bool)))
    for left in (0, CAMERA):
        assert row[points[:, 1], left + points[:, 0]].tolist() == score_colours(scores)


def test_no_more_matches_are_joined_than_one_can_follow():
    points = np.array([[100, y] for y in range(12, 228, 6)])
    everyone = np.ones(len(points), bool)
    row = drawn(matched_points(points, points, np.full(len(points), 0.9), everyone))
    joined = (row[:, WIDTH + GAP // 2] == score_colours(np.array([0.9]))).all(axis=1)
    beginnings = np.count_nonzero(joined[1:] & ~joined[:-1])
    assert (len(points), beginnings) == (36, HEIGHT // 8 + 1)


def test_better_scores_are_lighter():
    luminance = SCORE_COLOURS[:, 0] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance[::8]) > 0).all()
    assert luminance[-1] - luminance[0] > 100


def test_scores_that_are_no_scores_have_a_colour():
    best, worst = SCORE_COLOURS[-1, 0].tolist(), SCORE_COLOURS[0, 0].tolist()
    assert score_colours(np.array([2.0, -1.0, math.nan])) == [best, worst, worst]


# Outline and overlay


def test_the_top_of_the_reference_is_white_and_its_other_edges_are_blue():
    row = drawn(found_at([[0.5, 0, 80], [0, 0.5, 60], [0, 0, 1]]))
    assert row[60, CAMERA + 100].tolist() == list(WHITE)
    assert row[120, CAMERA + 80].tolist() == list(SKY)
    assert row[179, CAMERA + 100].tolist() == list(SKY)
    # The arrow head at the middle of the top.
    assert row[65, CAMERA + 159].tolist() == list(WHITE)
    assert row[65, CAMERA + 120].tolist() == [100, 100, 100]


def test_an_outline_stays_in_its_panel_and_straight_however_far_it_reaches():
    # Its top goes down from left to right by a tenth, through the middle of the panel.
    across, down = 200_000 / (WIDTH - 1), 20_000 / (WIDTH - 1)
    far = drawn(found_at([[across, 0, 160 - 100_000], [down, 1000, 120 - 10_000], [0, 0, 1]]))
    nowhere = drawn(nothing_found())
    assert (far[:, :CAMERA] == nowhere[:, :CAMERA]).all()
    for x in (10, 60, 260, 310):
        assert has(WHITE, far[118 + x // 10 - 16 : 123 + x // 10 - 16, CAMERA + x :][:, :1])
    assert not has(SKY, far[:, CAMERA:])


@pytest.fixture(scope='module')
def matched(matcher, coffee, scene):
    reference = matcher.prepare(coffee)
    image = scene.view(8.0, 0).image
    return reference, image, matcher.match(reference, image)


def without_words(picture, image):
    """Return the part of an overlay that shows the image, which is 640 pixels wide."""
    assert picture.shape[1] == image.shape[1] == 640
    banner = status_banner(640, Match.without_matches(Status.STALE, ''), '').shape[0]
    return picture[banner : banner + image.shape[0]]


def test_equal_things_are_all_drawn_with_their_numbers_and_landmarks():
    size = (200, 150)
    reference = plain_reference(*size)
    reference.image[:] = 255
    here = found_at([[1, 0, 50], [0, 1, 60], [0, 0, 1]])
    there = found_at([[1, 0, 380], [0, 1, 260], [0, 0, 1]])
    image = np.zeros((480, 640, 3), np.uint8)

    def picture(number, *others):
        options = PictureOptions(640, number=number, others=others)
        return without_words(draw_overlay(reference, image, here, options), image)

    alone = picture(0)
    both = picture(7, NumberedPlace(8, reference, there, [Mark('hole', 480, 300)]))
    lit = (both == 140).all(axis=2)  # 0.55 * 255
    for left, top in ((50, 60), (380, 260)):
        inner = lit[top + 30 : top + 120, left + 30 : left + 170]
        assert 0.7 < inner.mean() < 1  # but for the number and the landmark
    assert not (alone == 140).all(axis=2)[260:410, 380:580].any()
    assert has(PURPLE, both[290:310, 470:490]) and not has(PURPLE, both[:240])
    # Only the number of the first one differs, and it is in its middle.
    other = picture(9, NumberedPlace(8, reference, there, [Mark('hole', 480, 300)]))
    rows, columns = np.nonzero((both != other).any(axis=2))
    assert abs(rows.mean() - 135) < 12 and abs(columns.mean() - 150) < 12
    assert np.ptp(rows) < 30 and np.ptp(columns) < 30


def test_the_overlay_lays_the_reference_over_its_place(matched):
    reference, image, match = matched
    overlay = without_words(draw_overlay(*matched), image)
    covered = cv2.warpPerspective(
        np.ones(reference.image.shape[:2], np.uint8),
        match.verdict.reference_to_image,
        (image.shape[1], image.shape[0]),
    )
    away = cv2.dilate(covered, np.ones((9, 9))) == 0
    assert (overlay[away] == image[away]).all()
    # A right homography blends two images that look alike.
    changed = np.abs(overlay.astype(int) - image)[covered > 0]
    assert 1 < changed.mean() < 40


def test_only_what_counts_is_laid_over(matcher, coffee, matched):
    _, image, match = matched
    mask = np.zeros(coffee.shape[:2], np.uint8)
    mask[100:300, 150:450] = 1
    overlay = without_words(
        draw_overlay(matcher.prepare(Reference(coffee, mask=mask)), image, match), image
    )
    covered = cv2.warpPerspective(
        mask, match.verdict.reference_to_image, (image.shape[1], image.shape[0])
    )
    away = cv2.dilate(covered, np.ones((9, 9))) == 0
    assert (overlay[away] == image[away]).all()
    assert (overlay[covered > 0] != image[covered > 0]).any()


@pytest.mark.parametrize('max_width', [640, 320])
@pytest.mark.parametrize('size', [(100, 100), (4000, 4000), (40_000, 50)])
def test_a_reference_of_any_size_is_laid_over_its_place(size, max_width):
    # It is white and covers 200 x 200 pixels of a black image, from (100, 50) on.
    reference = plain_reference(*size)
    reference.image[:] = 255
    x, y = 200 / size[0], 200 / size[1]
    match = found_at([[x, 0, 100 + (x - 1) / 2], [0, y, 50 + (y - 1) / 2], [0, 0, 1]])
    picture = draw_overlay(
        reference, np.zeros((480, 640, 3), np.uint8), match, PictureOptions(max_width)
    )
    shrink = 640 // max_width
    banner = status_banner(max_width, match, '').shape[0]
    shown = picture[banner : banner + 480 // shrink]
    lit = np.argwhere((shown == 140).all(axis=2))  # 0.55 * 255
    assert lit.min(axis=0) == pytest.approx([50 / shrink, 100 / shrink], abs=7)
    assert lit.max(axis=0) == pytest.approx([250 / shrink, 300 / shrink], abs=7)


def test_where_nothing_was_found_the_overlay_is_the_image(matched):
    reference, image, _ = matched
    for known in (reference, None):
        overlay = draw_overlay(known, image, nothing_found())
        assert (without_words(overlay, image) == image).all()


def test_nothing_but_the_image_is_drawn_without_a_reference(matched):
    _, image, _ = matched
    match = Match.without_matches(Status.NO_REFERENCE, 'nothing to look for')
    picture = draw_matches(None, image, match)
    assert (without_words(picture, image) == image).all()
    assert not picture[-20:].any()  # no marks, so nothing to explain


# Landmarks


def test_a_landmark_is_a_diamond_at_its_place_with_its_name():
    row = drawn(nothing_found(), [Mark('screw', 150, 120)])
    assert row[120, CAMERA + 150].tolist() == list(PURPLE)
    assert has(WHITE, row[113:128, CAMERA + 143 : CAMERA + 158])
    unnamed = drawn(nothing_found(), [Mark('', 150, 120)])
    changed = (row != unnamed).any(axis=2)
    assert changed[85:115, CAMERA + 130 : CAMERA + 220].sum() > 300
    assert not changed[:, :CAMERA].any()


def test_the_deviation_of_a_landmark_is_a_circle_unless_the_diamond_hides_it():
    sure, unsure = (
        drawn(nothing_found(), [Mark('', 150, 120, deviation=deviation)]) for deviation in (3, 40)
    )
    changed = (sure != unsure).any(axis=2)
    rows, columns = np.nonzero(changed)
    radii = np.hypot(rows - 120, columns - CAMERA - 150)
    assert len(radii) > 100
    assert radii.min() == pytest.approx(40, abs=4) and radii.max() == pytest.approx(40, abs=4)
    assert has(PURPLE, unsure[118:123, CAMERA + 188 : CAMERA + 193])


def test_a_landmark_of_which_nothing_is_known_is_not_drawn():
    lost = [Mark('lost', math.nan, 10, inside=False), Mark('', 10, math.inf, inside=False)]
    assert (drawn(nothing_found(), lost) == drawn(nothing_found())).all()


def test_a_landmark_outside_of_the_image_is_an_arrow_at_its_border():
    row = drawn(nothing_found(), [Mark('', 9000, 120, inside=False)])
    assert has(PURPLE, row[115:126, -14:])
    assert not has(PURPLE, row[:, :-14])


def test_names_of_neighbours_do_not_cover_each_other():
    _, (panel,) = arrange([grey_image(640, 480)], 640)
    draw_landmarks(panel, [Mark('neighbour', 300 + x, 200 + x) for x in (0, 30, 35, 60)])
    names = panel.labels[4:]  # after the places of the four diamonds
    assert len(names) == 4
    for index, name in enumerate(names):
        assert not any(overlap(name, other) for other in [*panel.labels[:4], *names[:index]])


def test_a_name_for_which_there_is_no_room_is_left_out():
    _, (panel,) = arrange([grey_image(640, 480)], 640)
    draw_landmarks(panel, [Mark('one of many', 300 + x, 200) for x in range(40)])
    assert 40 < len(panel.labels) < 60


# Banner and legend


def test_the_banner_says_how_it_went_in_colour_and_in_words():
    ok = found_at(np.eye(3))
    low, stale = (
        Match.without_matches(status, ok.verdict.message)
        for status in (Status.LOW_CONFIDENCE, Status.STALE)
    )
    strips = [status_banner(640, match, '') for match in (ok, low, stale)]
    assert [has(BLUE, strip) for strip in strips] == [True, False, False]
    assert [has(VERMILLION, strip) for strip in strips] == [False, True, True]
    assert (strips[1] != strips[2]).any()
    surer = replace(ok, verdict=replace(ok.verdict, confidence=0.9))
    assert (status_banner(640, surer, '') != strips[0]).any()
    assert (status_banner(640, ok, 'poster') != strips[0]).any()


@pytest.mark.parametrize('width', [64, 320, 640, 1280])
def test_a_banner_has_the_same_size_whatever_it_says(width):
    short = status_banner(width, Match.without_matches(Status.STALE, ''), '')
    long = Match.without_matches(Status.REJECTED_GEOMETRY, 'a reason ' * 10_000)
    assert (
        status_banner(width, long, 'x' * 256).shape == short.shape == (*short.shape[:1], width, 3)
    )


def test_a_long_sentence_goes_on_in_a_second_row():
    shown = [
        status_banner(640, Match.without_matches(Status.STALE, 'word ' * count), '')
        for count in (5, 20)
    ]
    rows = [np.flatnonzero((strip[:, 200:] == WHITE).all(axis=2).any(axis=1)) for strip in shown]
    assert np.ptp(rows[0]) < 14
    assert 20 < np.ptp(rows[1]) < 40


def test_the_legend_shows_the_colours_of_the_scores_and_every_mark():
    plain, marked = (
        draw_matches(
            plain_reference(), grey_image(), nothing_found(), PictureOptions(landmarks=landmarks)
        )
        for landmarks in ((), [Mark('', math.nan, 0)])
    )
    below = plain[BANNER + HEIGHT :]
    for colour in (SCORE_COLOURS[5, 0], SCORE_COLOURS[128, 0], SCORE_COLOURS[250, 0]):
        assert share_of(colour, below) > 0.001
    assert has(VERMILLION, below)
    assert has(SKY, below)
    assert not has(PURPLE, below)
    assert has(PURPLE, marked[BANNER + HEIGHT :])
    assert marked.shape == plain.shape


def test_a_narrow_legend_takes_more_rows():
    rows = {}
    for width in (140, 320):
        size = text_size(width)
        strip = legend(width, match_entries(size))
        assert strip.shape[1] == width
        rows[width] = strip.shape[0] // line_height(size)
    assert rows == {140: 2, 320: 1}


# Letters


def test_european_letters_are_drawn_as_themselves():
    unknown = lettered('\uffff', 20)
    shown = [lettered(letter, 20) for letter in 'aäåãoöøőuüůcçčsśšß']
    for index, one in enumerate(shown):
        assert one.any()
        for other in [*shown[:index], unknown]:
            assert one.shape != other.shape or (one != other).any()


def test_text_becomes_one_line_of_letters():
    assert cleaned('a\n\tb\x00c\ud800  d') == 'a b c d'
    assert cleaned('u\u0308') == 'ü'
    assert len(cleaned('x' * 10_000)) == 400


@given(st.text(max_size=300), st.integers(-20, 500))
def test_shortened_text_fits(text, room):
    shown = shortened(text, 13, room)
    assert not shown or text_width(shown, 13) <= room
    if shown != cleaned(text):
        assert not shown or shown.endswith('…')


def test_text_is_shortened_no_more_than_needed():
    words = 'the match would fold the reference'
    assert shortened(words, 13, text_width(words, 13)) == words
    shown = shortened(words, 13, text_width(words, 13) - 1)
    assert shown == 'the match would fold the referen…'


def test_a_paragraph_is_wrapped_between_words():
    text = 'only 12 of 132 recognised points agree'
    room = text_width('id  only 12 of 132 recogn', 13) + 10
    rows = wrapped('id', text, 13, room, 2)
    assert rows[0] == ('id  ', 'only 12 of 132')
    assert rows[1] == ('', 'recognised points agree')
    assert wrapped('', 'few words', 13, room, 2) == [('', 'few words')]
    assert wrapped('', 'few words ' * 99, 13, room, 2)[1][1].endswith('…')


# Sizes


SIDES = st.sampled_from([1, 2, 7, 40, 333, 640, 3000])


@settings(deadline=None, max_examples=60)
@example(1, 40_000, 3000, 1, 64, 1.0)  # a reference that is rounded up to one pixel
@given(SIDES, SIDES, SIDES, SIDES, st.integers(64, 1400), st.sampled_from([1e-3, 1.0, 1e7]))
def test_pictures_of_any_image_are_neither_too_wide_nor_too_high(
    reference_width, reference_height, width, height, max_width, scale
):
    reference = plain_reference(reference_width, reference_height)
    image = grey_image(width, height)
    match = found_at(np.diag([scale, scale, 1.0]))
    landmarks = [Mark('Schraube', 3, 3), Mark('x' * 256, 1e9, -1e9, inside=False)]
    full = PictureOptions(max_width, landmarks, 'ü' * 256)
    pictures = [
        draw_matches(reference, image, match, full),
        draw_matches(None, image, match, PictureOptions(max_width)),
        draw_overlay(reference, image, match, full),
        draw_semantics(reference, image, match, max_width),
    ]
    for picture in pictures:
        assert min(max_width, 640) <= picture.shape[1] <= max_width
        assert picture.shape[0] <= 0.75 * max_width + 300


def test_a_picture_keeps_its_size_whatever_is_found(matched):
    reference, image, match = matched
    lost = Match.without_matches(Status.FAULT, 'a very long reason ' * 20)
    for draw in (draw_matches, draw_overlay, draw_semantics):
        assert draw(reference, image, match).shape == draw(reference, image, lost).shape


def test_scaling_keeps_pixel_centres():
    image, part = np.zeros((10, 20, 3)), np.zeros((5, 10, 3))
    # The centre of pixel 0 of the smaller one is the border between pixels 0 and 1 of the image.
    assert scaling(image, part) @ [0.5, 0.5, 1] == pytest.approx([0, 0, 1])


# Semantics and report


@pytest.fixture(scope='module')
def weighted(matcher, coffee, scene):
    reference = matcher.prepare(coffee)
    image = scene.view(8.0, 0).image
    options = Options(weighting=Weighting('sew'))
    return reference, image, matcher.match(reference, image, options)


def panels_of(picture, match):
    """Return a picture of the semantics without its banner and without its legend."""
    banner = weights_banner(picture.shape[1], match).shape[0]
    return picture[banner : banner + round(picture.shape[1] * 0.3)]


def test_the_semantics_show_heat_boxes_and_the_pair(weighted):
    reference, image, match = weighted
    panels = panels_of(draw_semantics(*weighted, max_width=1000), match)
    assert share_of(SKY, panels) > 0.001  # boxes that give weights
    unpaired = replace(match, paired=PairedObjects())
    plain = panels_of(draw_semantics(reference, image, unpaired, max_width=1000), match)
    gap = ~plain.any(axis=(0, 2))
    assert np.count_nonzero(gap) == GAP
    assert has(WHITE, panels[:, gap])  # the line that joins the pair
    # The hottest place is coloured like the end of the colour bar, the rest of the image is grey.
    heat = reference.scene.objects[0].heat.picture(600, 400)
    row, column = np.unravel_index(int(heat.argmax()), (400, 600))
    scale = panels.shape[0] / 400
    hottest = panels[int(row * scale), int(column * scale)].astype(int)
    assert hottest[0] - hottest[2] > 50
    assert np.ptp(panels[10, 10].astype(int)) < 3


def test_the_semantics_have_a_banner_and_a_legend(weighted):
    reference, image, match = weighted
    picture = draw_semantics(*weighted, max_width=1000)
    assert has(BLUE, picture[:40])
    assert share_of(HEAT_COLOURS[250, 0], picture[-40:]) > 0.0005
    plain = draw_semantics(reference, image, Match(match.verdict), max_width=1000)
    assert has(SLATE, plain[:40])
    assert not has(BLUE, plain[:40])
    assert not has(SKY, panels_of(plain, match))


def test_weights_of_a_refused_match_are_not_shown_like_a_success(weighted):
    reference, image, match = weighted
    refused = Verdict(Status.LOW_CONFIDENCE, 'no', match.verdict.inliers)
    picture = draw_semantics(reference, image, replace(match, verdict=refused), max_width=1000)
    assert has(SLATE, picture[:40])
    assert not has(BLUE, picture[:40])


def test_weights_say_where_they_came_from_or_why_there_are_none():
    values = torch.tensor([0.5, 1.5])
    weights = Weights(values, (0,), 'yolov4-tiny: cup')
    assert weights_line(weights) == 'weights 0.50 to 1.50 from yolov4-tiny: cup'
    for nothing, line, description in (
        (Weights(), 'not weighted', 'none'),
        (Weights.not_asked_for(), 'not weighted', 'none: not weighted'),
        (Weights(why_none='no object'), 'not weighted: no object', 'none: no object'),
    ):
        assert (weights_line(nothing), nothing.description) == (line, description)


def test_objects_that_do_not_weigh_are_thin_and_grey(weighted):
    reference, image, match = weighted
    unpaired = replace(match, reference_weights=Weights(why_none='no object'))
    left = panels_of(draw_semantics(reference, image, unpaired, max_width=1000), match)[:, :480]
    assert share_of(SKY, left) < 0.0001
    assert share_of(GREY, left) > 0.0005


def test_a_failed_match_shows_its_reason_and_no_outline(matched):
    reference, image, match = matched
    verdict = Verdict(Status.LOW_CONFIDENCE, 'a reason ' * 10_000, match.verdict.inliers)
    failed = Match(verdict, match.correspondences)
    picture = draw_report(reference, image, failed)
    assert (picture == draw_matches(reference, image, failed)).all()
    right = draw_matches(*matched)[100:-60, 700:]
    assert share_of(SKY, right) > 0.002
    assert share_of(SKY, picture[100:-60, 700:]) < 0.0002


def test_the_report_holds_both(matched):
    matches = draw_matches(*matched)
    report = draw_report(*matched)
    assert report.shape[1] == matches.shape[1]
    assert (report[: matches.shape[0]] == matches).all()
    # The overlay, as large as the image and without a second banner.
    assert report.shape[0] == matches.shape[0] + GAP + 480


def test_the_report_of_a_weighted_match_begins_with_the_semantics(weighted):
    semantics = draw_semantics(*weighted)
    report = draw_report(*weighted)
    assert (report[: semantics.shape[0]] == semantics).all()
    assert report.shape[0] > semantics.shape[0] + draw_matches(*weighted).shape[0]
