from dataclasses import replace

import cv2
import numpy as np
import pytest

from niom_ros.matching.geometry import Status
from niom_ros.matching.geometry import Verdict
from niom_ros.matching.pictures import AMBER
from niom_ros.matching.pictures import BANNER_HEIGHT
from niom_ros.matching.pictures import CYAN
from niom_ros.matching.pictures import draw_matches
from niom_ros.matching.pictures import draw_overlay
from niom_ros.matching.pictures import draw_report
from niom_ros.matching.pictures import draw_semantics
from niom_ros.matching.pictures import GREEN
from niom_ros.matching.pictures import GREY
from niom_ros.matching.pictures import placement
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Weights
from niom_ros.settings import Options
from niom_ros.settings import Weighting


@pytest.fixture(scope='module')
def matched(pipeline, coffee, scene):
    reference = pipeline.prepare(coffee)
    image = scene.view(8.0, 0).image
    return reference, image, pipeline.match(reference, image)


def share_of(colour, picture):
    return (np.abs(picture.astype(int) - colour).max(axis=2) < 25).mean()


def test_matches_are_drawn_side_by_side(matched):
    picture = draw_matches(*matched, max_width=1000)
    assert picture.shape[1] == 1000
    assert picture.dtype == np.uint8
    assert share_of(GREEN, picture[BANNER_HEIGHT:]) > 0.001
    assert share_of(CYAN, picture[:, 500:]) > 0.0005
    assert share_of(GREEN, picture[:BANNER_HEIGHT, :100]) > 0.02  # the word OK


def test_nothing_but_the_image_is_drawn_without_a_reference(matched):
    _, image, _ = matched
    outcome = MatchOutcome.without_matches(Status.NO_REFERENCE, 'nothing to look for')
    picture = draw_matches(None, image, outcome)
    assert (picture[BANNER_HEIGHT:] == image).all()


def test_the_overlay_lays_the_reference_over_its_place(matched):
    reference, image, outcome = matched
    overlay = draw_overlay(reference, image, outcome.verdict.reference_to_image)
    height, width = image.shape[:2]
    covered = cv2.warpPerspective(
        np.ones(reference.image.shape[:2], np.uint8),
        outcome.verdict.reference_to_image,
        (width, height),
    )
    away = cv2.dilate(covered, np.ones((9, 9))) == 0
    assert (overlay[away] == image[away]).all()
    # A right homography blends two images that look alike.
    changed = np.abs(overlay.astype(int) - image)[covered > 0]
    assert 1 < changed.mean() < 40


def test_a_failed_match_shows_its_reason_and_no_outline(matched):
    reference, image, outcome = matched
    verdict = Verdict(Status.LOW_CONFIDENCE, 'a reason ' * 10_000, outcome.verdict.inliers)
    failed = MatchOutcome(verdict, outcome.correspondences)
    picture = draw_report(reference, image, failed)
    assert (picture == draw_matches(reference, image, failed)).all()
    assert share_of(CYAN, picture[:, -image.shape[1] // 2 :]) < 0.0001


def test_the_report_holds_both(matched):
    matches = draw_matches(*matched)
    report = draw_report(*matched)
    assert report.shape[1] == matches.shape[1]
    assert report.shape[0] > matches.shape[0] + 300
    assert (report[: matches.shape[0]] == matches).all()


@pytest.fixture(scope='module')
def weighted(pipeline, coffee, scene):
    reference = pipeline.prepare(coffee)
    image = scene.view(8.0, 0).image
    options = Options(weighting=Weighting('sew'))
    return reference, image, pipeline.match(reference, image, options)


def test_the_semantics_show_heat_boxes_and_the_pair(weighted):
    reference, image, outcome = weighted
    picture = draw_semantics(*weighted, max_width=1000)
    panels = picture[3 * BANNER_HEIGHT :]
    assert picture.shape[1] == 1000
    assert share_of(CYAN, panels) > 0.001  # boxes that weigh
    assert share_of(AMBER, panels) > 0.0005  # the line that joins the pair
    # Where the heat is, the picture is brighter than where there is none.
    plain = draw_semantics(reference, image, MatchOutcome(outcome.verdict), max_width=1000)
    hottest = int(reference.scene.objects[0].heat.picture(600, 400).argmax())
    row, column = np.unravel_index(hottest, (400, 600))
    scale = panels.shape[0] / 400
    place = 3 * BANNER_HEIGHT + int(row * scale), int(column * scale)
    assert np.abs(picture[place].astype(int) - plain[place]).max() > 20


def test_the_report_of_a_weighted_match_begins_with_the_semantics(weighted):
    semantics = draw_semantics(*weighted)
    report = draw_report(*weighted)
    assert (report[: semantics.shape[0]] == semantics).all()
    assert report.shape[0] > semantics.shape[0] + draw_matches(*weighted).shape[0]


def test_objects_that_do_not_weigh_are_grey(weighted):
    reference, image, outcome = weighted
    unpaired = replace(outcome, reference_weights=Weights(None, (), 'none: no object'))
    picture = draw_semantics(reference, image, unpaired, max_width=1000)
    left = picture[3 * BANNER_HEIGHT :, :480]
    assert share_of(CYAN, left) < 0.0001
    assert share_of(GREY, left) > 0.0005


def test_only_what_counts_is_laid_over(pipeline, coffee, matched):
    _, image, outcome = matched
    mask = np.zeros(coffee.shape[:2], np.uint8)
    mask[100:300, 150:450] = 1
    part = pipeline.prepare(coffee, mask)
    overlay = draw_overlay(part, image, outcome.verdict.reference_to_image)
    covered = cv2.warpPerspective(
        mask, outcome.verdict.reference_to_image, (image.shape[1], image.shape[0])
    )
    away = cv2.dilate(covered, np.ones((9, 9))) == 0
    assert (overlay[away] == image[away]).all()
    assert (overlay[covered > 0] != image[covered > 0]).any()


def test_placement_keeps_pixel_centres():
    image, panel = np.zeros((10, 20, 3)), np.zeros((5, 10, 3))
    # The centre of pixel 0 of the panel is the border between pixels 0 and 1 of the image.
    assert placement(image, panel, 7) @ [0.5, 0.5, 1] == pytest.approx([7, 0, 1])
