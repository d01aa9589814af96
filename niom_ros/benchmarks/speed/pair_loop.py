"""The naive loop over pairs of images, as in the paper: all work is repeated for each pair."""

from dataclasses import replace

import numpy as np

from niom_ros.benchmarks.speed.views import Attempt, OF_REFERENCE, Stopwatch
from niom_ros.core.boxes import Box
from niom_ros.core.settings import Options, Settings, Weighting
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.models.store import ModelStore
from niom_ros.semantics.heat_maps import GridFrame, HeatMap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import Scene
from niom_ros.simulation.virtual_scene import View


class PairLoop:
    """Detects, extracts and weights both images of each pair, with Grad-CAM by autograd."""

    def __init__(self, settings: Settings, store: ModelStore, picture: np.ndarray) -> None:
        """Load the networks; the picture is the first image of all pairs."""
        self._matcher = Matcher(replace(settings, cam='gradcam'), store)
        self._picture = picture
        self._options = Options(weighting=Weighting(kind='sew'))

    def find(self, view: View) -> Attempt:
        """Find the first image in the second."""
        watch = Stopwatch()
        sides = []
        for whose, picture in ((OF_REFERENCE, self._picture), ('', view.image)):
            side = self._matcher.analyse(picture)
            side.features  # noqa: B018, computes them
            watch.done(f'extract{whose}')
            seen = side.scene
            watch.done(f'detect{whose}')
            sides.append(side.with_scene(with_pictures(seen)))
            watch.done(f'heat pictures{whose}')
        first, second = sides
        box = Box.around(self._picture)
        reference = PreparedReference(
            given=Reference(self._picture),
            features=first.features,
            scene=first.scene.at(first.features.keypoints),
            box=box,
            counting_area=box.area,
            matchability=1.0,
            drawing=False,
            kind_confidence=1.0,
        )
        already = second.times.seconds()
        (match,) = self._matcher.match_all([reference], second, self._options)
        later = {name: s for name, s in second.times.seconds().items() if name not in already}
        return Attempt(match, watch.seconds | later, second)


def with_pictures(scene: Scene) -> Scene:
    """Return a scene whose heat maps are whole images, one for each object."""
    return replace(scene, objects=tuple(with_picture(seen) for seen in scene.objects))


def with_picture(seen: SeenObject) -> SeenObject:
    """Return an object whose heat map is an image as large as the one that it is in."""
    width, height = seen.heat.frame.width, seen.heat.frame.height
    picture = seen.heat.picture(width, height)
    zero = picture.new_zeros(())
    return replace(seen, heat=HeatMap(picture, GridFrame(width, height), None, zero, zero + 1))
