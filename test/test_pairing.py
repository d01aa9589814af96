"""Pairs of objects with hand-made labels and features; CLIP's tables are real."""

import math

import numpy as np
import pytest
import torch

from niom_ros.core.settings import Pairing, Settings, SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.pairing import best_pairs, pair_objects

CPU = torch.device('cpu')


@pytest.fixture(scope='module')
def embedder():
    return LabelEmbedder(Settings(), ModelStore(), CPU)


def seen(label, look=None, score=0.9):
    area = Area(0, 0, 10, 10)
    heat = HeatMap.filled(area, GridFrame(20, 20), torch.empty(0))
    feature = None if look is None else torch.nn.functional.normalize(torch.tensor(look), dim=0)
    return SeenObject(label, score, area, heat, feature)


def labels_paired(result, reference, image):
    return [
        (reference[pair.reference_object].label, image[pair.image_object].label)
        for pair in result.pairs
    ]


def test_labels_that_mean_the_same_are_paired(embedder):
    reference = [seen('person'), seen('dog')]
    image = [seen('car'), seen('cat'), seen('bench')]
    result = pair_objects(reference, image, Pairing('text'), embedder)
    assert labels_paired(result, reference, image) == [('dog', 'cat')]
    (pair,) = result.pairs
    assert pair.similarity == pair.label_similarity > 0.2
    assert math.isnan(pair.visual_similarity)
    assert result.how == 'labels: clip table'
    assert result.decided


def test_a_plural_with_capitals_and_underscores_is_the_same_label(embedder):
    reference, image = [seen('Wine_Glasses')], [seen('cup'), seen('wine glass')]
    result = pair_objects(reference, image, Pairing('text'), embedder)
    assert labels_paired(result, reference, image) == [('Wine_Glasses', 'wine glass')]
    assert result.pairs[0].similarity == 1


def test_any_words_can_be_labels(embedder):
    reference = [seen('espresso machine'), seen('hex socket screw')]
    image = [seen('bolt with a hexagonal head'), seen('giraffe')]
    result = pair_objects(reference, image, Pairing('text'), embedder)
    assert labels_paired(result, reference, image) == [
        ('hex socket screw', 'bolt with a hexagonal head')
    ]
    assert result.how == 'labels: minilm'


def test_appearances_are_compared_by_their_direction(embedder):
    reference = [seen('a', [1.0, 0, 0]), seen('b', [0, 1.0, 0])]
    image = [seen('c', [0, 0.6, 0.8]), seen('d', [0, 0, 1.0])]
    result = pair_objects(reference, image, Pairing('visual'), embedder)
    assert labels_paired(result, reference, image) == [('b', 'c')]
    assert result.pairs[0].visual_similarity == pytest.approx(0.6)
    assert math.isnan(result.pairs[0].label_similarity)
    assert result.how == 'appearance: features of the detector'


def test_both_is_the_mean(embedder):
    reference = [seen('dog', [1.0, 0])]
    image = [seen('dog', [0, 1.0]), seen('cat', [1.0, 0])]
    text = pair_objects(reference, image, Pairing('text'), embedder)
    both = pair_objects(reference, image, Pairing('both'), embedder)
    assert text.pairs[0].image_object == 0
    assert both.pairs[0].image_object == 1
    pair = both.pairs[0]
    assert pair.similarity == pytest.approx((pair.label_similarity + 1) / 2)


def test_with_detectors_of_different_kinds_only_labels_can_be_compared(embedder):
    reference, image = [seen('dog', [1.0, 0])], [seen('dog', [1.0, 0, 0])]
    assert not pair_objects(reference, image, Pairing('visual'), embedder).decided
    both = pair_objects(reference, image, Pairing('both'), embedder)
    assert both.pairs[0].similarity == 1
    assert both.how.startswith('labels:')


def test_below_the_floor_objects_stay_alone(embedder):
    reference, image = [seen('cup')], [seen('airplane')]
    result = pair_objects(reference, image, Pairing('text'), embedder)
    assert result.pairs == ()
    assert 'no pair reaches pairing_floor (0.2)' in result.how
    assert result.decided
    paper = pair_objects(reference, image, Pairing('text', floor=-1), embedder)
    assert len(paper.pairs) == 1


def test_several_pairs_by_assignment(embedder):
    reference = [seen('dog'), seen('cup'), seen('train')]
    image = [seen('wine glass'), seen('cat'), seen('banana'), seen('dog')]
    result = pair_objects(reference, image, Pairing('text', most=5), embedder)
    assert labels_paired(result, reference, image) == [('dog', 'dog'), ('cup', 'wine glass')]
    one = pair_objects(reference, image, Pairing('text', most=1), embedder)
    assert labels_paired(one, reference, image) == [('dog', 'dog')]


def test_among_equally_similar_objects_higher_scores_win(embedder):
    reference = [seen('dog', score=0.5), seen('dog', score=0.9)]
    image = [seen('dog', score=0.8), seen('dog', score=0.3)]
    (pair,) = pair_objects(reference, image, Pairing('text'), embedder).pairs
    assert (pair.reference_object, pair.image_object) == (1, 0)


@pytest.mark.parametrize(
    ('reference', 'image', 'description'),
    [
        ([], [seen('dog')], 'none: no object in the reference'),
        ([seen('dog')], [], 'none: no object in the image'),
        ([seen('')], [seen('dog')], 'none: an object has no label'),
    ],
)
def test_what_cannot_be_paired_is_said_and_not_left_out(embedder, reference, image, description):
    result = pair_objects(reference, image, Pairing('text'), embedder)
    assert result.description.startswith(description)
    assert result.pairs == () and not result.decided


def test_no_pairing_is_a_choice(embedder):
    result = pair_objects([seen('dog')], [seen('dog')], Pairing('none'), embedder)
    assert (result.pairs, result.description, result.decided) == ((), 'none', False)


def test_a_bad_pair_never_displaces_a_good_one():
    # Taking both pairs above the floor is worth more than the diagonal with its one strong pair.
    similarity = np.array([[0.9, 0.6], [0.5, 0.1]])
    sure = np.ones((2, 2))
    assert best_pairs(similarity, sure, Pairing(most=2, floor=0.2)) == [(0, 1), (1, 0)]
    assert best_pairs(similarity, sure, Pairing(most=2, floor=0.55)) == [(0, 0)]
    assert best_pairs(similarity, sure, Pairing(most=1, floor=0.2)) == [(0, 0)]


@pytest.mark.parametrize(
    ('wrong', 'words'),
    [
        ({'by': 'smell'}, "unknown pairing 'smell'"),
        ({'most': 0}, 'max_pairs is 0'),
        ({'floor': 2.0}, 'pairing_floor is 2.0'),
    ],
)
def test_what_has_no_meaning_is_refused(wrong, words):
    with pytest.raises(SettingsError, match=words):
        Pairing(**wrong)
