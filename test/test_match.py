"""What a match keeps of others that were tried before and after it."""

import numpy as np
import pytest
import torch

from niom_ros.matching.alike_object import AlikeObject, GuidePoints
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match, NOT_TRIED, Weights
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

UNWEIGHTED = Weights.not_asked_for()
CUPS = Weights(torch.ones(3), (0,), 'yolov4-tiny: cup')
BOWL = Weights(torch.ones(3), (0,), 'yolov4-tiny: bowl')
SEEN = Scene((), 'yolov4-tiny')
PAIRED = PairedObjects((), 'cup with bowl')


def refused(agreeing, **fields):
    """Return a match of 20 keypoints, of which some agree."""
    points = np.zeros((20, 2), np.float32)
    verdict = Verdict(Status.LOW_CONFIDENCE, 'too few agree', np.arange(20) < agreeing)
    fields = {'reference_weights': UNWEIGHTED, 'image_weights': UNWEIGHTED, **fields}
    return Match(verdict, Correspondences(points, points, np.ones(20, np.float32)), **fields)


def weighted(agreeing, **fields):
    """Return the same with weights."""
    return refused(
        agreeing,
        weighting='sew',
        reference_weights=CUPS,
        image_weights=BOWL,
        scene=SEEN,
        paired=PAIRED,
        **fields,
    )


def alike(status=Status.ALIKE):
    """Return what looks most like the reference, claimed or not."""
    there = AlikeObject(0.8, Area(0, 0, 9, 9), GuidePoints.none(), size=9.0)
    return Match(Verdict(status, 'of its kind or not', np.ones(90, bool)), alike=there)


def descriptions(match):
    return [side.description for side in (match.reference_weights, match.image_weights)]


def test_without_weights_more_points_agreed():
    kept = refused(7).with_findings_of(weighted(4))
    said = 'none: 4 points agree with sew weights, 7 without'
    assert descriptions(kept) == [said, said]
    assert (kept.weighting, kept.inliers.sum()) == ('none', 7)
    assert (kept.scene, kept.paired) == (SEEN, PAIRED)


def test_an_alike_object_that_is_refused_is_kept_with_its_reason():
    kept = refused(7).with_findings_of(alike(Status.LOW_CONFIDENCE))
    assert kept.alike is not None and kept.message == 'too few agree; of its kind or not'
    assert kept.inliers.sum() == 7 and descriptions(kept) == ['none: not weighted'] * 2


def test_an_alike_object_tells_what_was_tried_before_it():
    tried = refused(7).with_findings_of(weighted(4))
    match = alike().instead_of(tried)
    said = 'none: 4 points agree with sew weights, 7 without'
    assert descriptions(match) == [said, said]
    assert (match.scene, match.paired, match.weighting) == (SEEN, PAIRED, 'none')
    assert match.message == 'of its kind or not' and match.inliers.sum() == 90


def test_an_alike_object_has_no_weights_even_if_the_earlier_match_had():
    match = alike().instead_of(weighted(8, image_keypoints=500))
    assert descriptions(match) == [
        'none: not found with sew weights from yolov4-tiny: cup',
        'none: not found with sew weights from yolov4-tiny: bowl',
    ]
    assert match.weighting == 'none' and match.image_weights.values is None
    assert match.image_keypoints == 500


def test_a_side_that_had_no_weights_says_why():
    nothing = Weights(why_none='yolov4-tiny saw nothing')
    one_sided = refused(8, weighting='sew', reference_weights=CUPS, image_weights=nothing)
    match = alike().instead_of(one_sided)
    assert descriptions(match)[1] == 'none: yolov4-tiny saw nothing'


@pytest.mark.parametrize('others', [(refused(7), weighted(4)), (weighted(4),)])
def test_the_order_in_which_they_are_tried_does_not_matter_to_an_alike_object(others):
    match = alike()
    for other in others:
        match = match.with_findings_of(other)
    assert match.status is Status.ALIKE and (match.scene, match.paired) == (SEEN, PAIRED)
    assert descriptions(match) == [
        'none: not found with sew weights from yolov4-tiny: cup',
        'none: not found with sew weights from yolov4-tiny: bowl',
    ]


def test_a_match_with_an_explanation_of_its_own_keeps_it():
    match = weighted(9).instead_of(refused(7, image_keypoints=3))
    assert descriptions(match) == ['yolov4-tiny: cup', 'yolov4-tiny: bowl']
    assert (match.weighting, match.scene, match.image_keypoints) == ('sew', SEEN, 3)


def test_where_nothing_was_tried_there_is_nothing_to_tell():
    assert descriptions(alike().instead_of(NOT_TRIED)) == ['none', 'none']
