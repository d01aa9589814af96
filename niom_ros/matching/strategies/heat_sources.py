"""Where the heat that weights keypoints comes from: a class for each `heat_source`."""

from collections.abc import Callable, Mapping
from typing import Protocol

from niom_ros.core.settings import HeatSourceName
from niom_ros.matching.found_parts import found_parts
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.strategies.strategy import Search
from niom_ros.matching.weighting import HeatOfBoth
from niom_ros.semantics.classifier import Classifier
from niom_ros.semantics.correspondence.agreement import agreement
from niom_ros.semantics.heat_maps import Area, HeatMap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import masked, Scene


class HeatSource(Protocol):
    """Knows the heat of a reference and of an image. Loaded once; used from several threads."""

    def heat_of(
        self, search: Search, reference: PreparedReference, image: ImageAnalysis
    ) -> HeatOfBoth:
        """Return the heat of both.

        `reference` is that of the search, perhaps with fewer keypoints, and `image` its image,
        perhaps with those of a part only.
        """


class ObjectHeat:
    """The objects that a detector sees or a user marked, and which of them belong together."""

    def __init__(self, perception: Perception) -> None:
        """Load nothing: the detector is loaded already."""

    def heat_of(
        self, search: Search, reference: PreparedReference, image: ImageAnalysis
    ) -> HeatOfBoth:
        """Return the objects of both, paired."""
        _, scene = image.features_and_scene()
        paired = image.paired_with(reference.scene, search.options.pairing)
        return HeatOfBoth(reference.scene, scene, paired, of_objects=True)


class ClassHeat:
    """The classes that a classifier names, of each picture as a whole."""

    name = 'classifier'

    def __init__(self, perception: Perception) -> None:
        """Load the network."""
        self._classifier = Classifier(perception.load_part_features().mobilenet, perception.device)

    def heat_of(
        self, search: Search, reference: PreparedReference, image: ImageAnalysis
    ) -> HeatOfBoth:
        """Return what the classifier sees in both; in the reference, marked objects go first."""
        with image.times.timed('classify'):
            scene = scene_of(self._classifier.heat(image.image), self.name)
            of_reference = search.reference.heat.get(
                self.name, lambda: self._scene_of_reference(search.reference)
            )
        return HeatOfBoth(of_reference.at(reference.features.keypoints), scene)

    def _scene_of_reference(self, reference: PreparedReference) -> Scene:
        if reference.given.objects:
            return reference.scene
        box, mask = reference.box, reference.given.counting_mask()
        used = masked(reference.image, mask)
        heat = self._classifier.heat(box.part_of(used))
        return scene_of(heat.moved(box.left, box.top, *reference.size), self.name)


class AgreementHeat:
    """How well each place of one picture finds its counterpart in the other."""

    name = 'agreement'

    def __init__(self, perception: Perception) -> None:
        """Load the networks."""
        self._features = perception.load_part_features()
        self._device = perception.device

    def heat_of(
        self, search: Search, reference: PreparedReference, image: ImageAnalysis
    ) -> HeatOfBoth:
        """Return where both agree."""
        whole, size = search.reference, (image.whole.width, image.whole.height)
        with image.times.timed('agree'):
            found = found_parts(self._features, whole, image, Area.of_box(whole.box))
            of_reference, of_image = agreement(found.field, whole.size, size, self._device)
        scene = scene_of(of_reference, self.name).at(reference.features.keypoints)
        return HeatOfBoth(scene, scene_of(of_image, self.name), fixed_reference=False)


def scene_of(heat: HeatMap, source: str) -> Scene:
    """Return a picture as one object with this heat."""
    whole = SeenObject('', 1.0, heat.gate or heat.frame.area, heat)
    return Scene((whole,), source)


SOURCES: Mapping[HeatSourceName, Callable[[Perception], HeatSource]] = {
    'detector': ObjectHeat,
    'classifier': ClassHeat,
    'agreement': AgreementHeat,
}
