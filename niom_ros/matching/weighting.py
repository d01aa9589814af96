"""Semantic Enhancement Weighting: descriptors on relevant objects count more.

The descriptor of each keypoint is multiplied by its weight. Matchers compare descriptors by dot
products, so points with small weights get less attention and match less often.
"""

from dataclasses import dataclass, field, replace

import torch

from niom_ros.core.settings import Weighting
from niom_ros.matching.match import Weights
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene

PAPERS_RANGE = 0.5


@dataclass(frozen=True)
class HeatOfBoth:
    """The heat of a reference and of an image, as scenes whose objects have it."""

    reference: Scene
    image: Scene
    paired: PairedObjects = field(default_factory=PairedObjects)
    of_objects: bool = False  # whether it is theirs; otherwise of the pictures as wholes
    fixed_reference: bool = True  # whether that of the reference is the same for every image

    @property
    def objects(self) -> Scene:
        """Return the objects of the image, if the heat is theirs."""
        return self.image if self.of_objects else Scene()


NO_HEAT = HeatOfBoth(Scene(), Scene())


@dataclass(frozen=True)
class WeightPair:
    """The weights of the keypoints of a reference and of an image."""

    of_reference: Weights
    of_image: Weights
    fixed_reference: bool = True  # whether those of the reference are the same for every image

    @property
    def apply(self) -> bool:
        """Return whether anything is weighted."""
        return self.of_reference.values is not None or self.of_image.values is not None


def weights_for(heat: HeatOfBoth, weighting: Weighting) -> WeightPair:
    """Return the weights of the keypoints of both, and where they came from."""
    if weighting.kind == 'none':
        nothing = Weights.not_asked_for()
        return WeightPair(nothing, nothing)
    paired = heat.paired
    partners = (
        tuple(pair.reference_object for pair in paired.pairs),
        tuple(pair.image_object for pair in paired.pairs),
    )
    of_reference, of_image = (
        weights_by(
            scene, partner if paired.decided else tuple(range(len(scene.objects))), weighting
        )
        for scene, partner in zip((heat.reference, heat.image), partners, strict=True)
    )
    if heat.of_objects:
        return WeightPair(of_reference, of_image)
    of_reference, of_image = (replace(one, objects=()) for one in (of_reference, of_image))
    return WeightPair(of_reference, of_image, heat.fixed_reference)


def weights_by(scene: Scene, objects: tuple[int, ...], weighting: Weighting) -> Weights:
    """Return the weights of the keypoints of an image from the heat of some of its objects."""
    heat = scene.choose(objects)
    if heat is not None:
        values = weights_of(one_heat(heat, weighting.aggregation), weighting)
        maps = tuple(scene.objects[index].heat for index in objects)
        return Weights(values, objects, scene.source_of(objects), heat=maps)
    if scene.objects:
        return Weights(why_none='no objects were paired')
    return Weights(source=scene.known_from, why_none=scene.why_none)


def one_heat(heat: torch.Tensor, aggregation: str) -> torch.Tensor:
    """Combine the heat of several objects (K x N, 0 to 1) into one (N, 0 to 1)."""
    if aggregation == 'max':
        return heat.amax(dim=0)
    if aggregation == 'mean':
        return heat.mean(dim=0)
    if aggregation == 'sigmoid':  # of the sum, rescaled so that 0 stays 0
        return 2 * heat.sum(dim=0).sigmoid() - 1
    return (heat.softmax(dim=0) * heat).sum(dim=0)


def weights_of(heat: torch.Tensor, weighting: Weighting) -> torch.Tensor:
    """Return the weight of each keypoint from its heat (N, 0 to 1)."""
    if weighting.kind == 'none' or not len(heat):
        return torch.ones_like(heat)
    if weighting.kind == 'heat':
        return heat
    if weighting.kind == 'one_plus_heat':
        return 1 + heat
    # With the paper's range, heat is multiplied by 1, which gives the paper's formula.
    spread = PAPERS_RANGE if weighting.range is None else weighting.range
    raised = 1 + heat * spread / (1 - spread)
    weights = raised / raised.max()
    if weighting.kind == 'uniform':
        return weights.mean().expand_as(weights)
    if weighting.kind == 'shuffled':
        # On the CPU, so that every device shuffles in the same way.
        order = torch.randperm(len(weights), generator=seeded(weighting.seed))
        return weights[order.to(weights.device)]
    return weights


def seeded(seed: int) -> torch.Generator:
    """Return a random generator in a reproducible state."""
    return torch.Generator().manual_seed(seed)


def weighted(descriptors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Multiply descriptors (N x D) by their weights (N)."""
    return descriptors * weights[:, None].to(descriptors.dtype)
