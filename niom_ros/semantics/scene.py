"""The objects of an image, from the first source that knows any."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import cv2
import numpy as np
import torch

from niom_ros.core.settings import Pairing
from niom_ros.drawings.paper import ink_hull
from niom_ros.semantics.detectors.grid_detector import Detector
from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.saliency import saliency

MAX_MASK_CELLS = 512  # cells on a side of the heat map of a mask


@dataclass(frozen=True)
class MarkedObject:
    """An object that a user marked in a reference."""

    label: str
    area: Area


@dataclass(frozen=True)
class Hints:
    """What a user knows about a reference better than any detector."""

    label: str = ''
    objects: tuple[MarkedObject, ...] = ()
    drawing: bool | None = None  # None: find out

    def for_part(self, left: int, top: int) -> 'Hints':
        """Return the hints for a part of the picture with this top left corner."""
        objects = tuple(
            replace(marked, area=marked.area.moved(-left, -top)) for marked in self.objects
        )
        return replace(self, objects=objects)


@dataclass(frozen=True)
class Scene:
    """The objects of an image, and the source that knows them."""

    objects: tuple[SeenObject, ...] = ()
    known_from: str = ''
    heat: torch.Tensor | None = None  # K x N, of each object at each keypoint
    why_none: str = ''  # why there are no objects

    def moved(self, left: int, top: int, width: int, height: int) -> 'Scene':
        """Return the scene of a crop as that of the whole image, of this size."""
        objects = tuple(seen.moved(left, top, width, height) for seen in self.objects)
        return replace(self, objects=objects)

    def at(self, keypoints: torch.Tensor) -> 'Scene':
        """Return the scene with the heat of its objects at keypoints (N x 2)."""
        if not self.objects:
            return self
        return replace(self, heat=torch.stack([o.heat.at(keypoints) for o in self.objects]))

    def only_at(self, keypoints: torch.Tensor) -> 'Scene':
        """Return the scene with the heat at some of its keypoints, given by their indices."""
        return self if self.heat is None else replace(self, heat=self.heat[:, keypoints])

    def carried(self, motion: np.ndarray) -> 'Scene':
        """Return the scene in another image of the same camera.

        The motion (3 x 3) maps pixels of the image in which the objects were seen to those of the
        other one. Objects that leave the image are left out.
        """
        objects = [seen.carried(motion) for seen in self.objects]
        in_sight = tuple(seen for seen in objects if seen is not None)
        if self.why_none:
            return Scene(in_sight, why_none=f'{self.why_none}, carried by the motion')
        return Scene(in_sight, f'{self.known_from}, carried by the motion')

    @property
    def source_is_known(self) -> bool:
        """Return whether a source was asked for objects."""
        return bool(self.known_from or self.why_none)

    @property
    def source(self) -> str:
        """Say which source knows the objects, and what they are."""
        return self.source_of(range(len(self.objects)))

    def source_of(self, objects: Sequence[int]) -> str:
        """Say which source knows some of the objects, and what they are."""
        labels = [self.objects[index].label for index in objects]
        source = described_source(self.known_from, self.why_none)
        return f'{source}: {counted(labels)}' if any(labels) else source

    def choose(self, objects: Sequence[int]) -> torch.Tensor | None:
        """Return the heat of some of the objects at the keypoints, None if there are none."""
        return None if self.heat is None or not objects else self.heat[list(objects)]


class SceneReader:
    """Finds the objects of images and references."""

    def __init__(
        self,
        detector: Detector | None,
        embedder: LabelEmbedder,
        fallback: str,
        device: torch.device,
    ) -> None:
        """Use a detector, if there is one; the fallback is for images without objects."""
        self._detector = detector
        self._embedder = embedder
        self._fallback = fallback
        self._device = device

    def read_image(self, image: np.ndarray) -> Scene:
        """Return the objects of a camera image."""
        return self._detected(image) or self._last_resort(image)

    def read_reference(self, image: np.ndarray, hints: Hints, mask: np.ndarray | None) -> Scene:
        """Return the objects of a reference. Where the mask is 0, the picture is ignored.

        Marked objects take precedence, then those of a detector (with a label, only the most
        similar ones), then the ink of a drawing, and last the mask or label of the whole picture.
        """
        if hints.objects:
            marked = tuple(self._filled(o.label, o.area, image) for o in hints.objects)
            return Scene(marked, 'marked objects')
        detected = self._detected(masked(image, mask), hints.label)
        if detected:
            return detected
        if hints.drawing and (hull := ink_hull(image, mask)) is not None:
            return Scene((self._of_mask(hints.label, hull),), 'hull of the ink')
        if mask is not None:
            return Scene((self._of_mask(hints.label, mask),), 'given mask or region')
        if hints.label:
            whole = GridFrame(image.shape[1], image.shape[0]).area
            return Scene((self._filled(hints.label, whole, image),), 'given label')
        return self._last_resort(image)

    def _detected(self, image: np.ndarray, label: str = '') -> Scene | None:
        if self._detector is None:
            return None
        found = self._detector.detect(image)
        if label and found:
            labels = [seen.label for seen in found]
            alike = self._embedder.similarities(labels, [label]).cosine[:, 0]
            closest = max(float(alike.max()), Pairing.floor)
            found = tuple(compress(found, (alike >= closest).tolist()))
        return Scene(found, self._detector.name) if found else None

    def _last_resort(self, image: np.ndarray) -> Scene:
        why = 'no detector' if self._detector is None else f'{self._detector.name} saw nothing'
        if self._fallback == 'none':
            return Scene(why_none=why)
        grid = torch.from_numpy(saliency(image)).to(self._device)
        height, width = image.shape[:2]
        frame = GridFrame.spanning(width, height, *grid.shape)
        salient = SeenObject('', 1.0, frame.area, HeatMap.of_grid(grid, frame))
        return Scene((salient,), f'saliency: {why}')

    def _filled(self, label: str, area: Area, image: np.ndarray) -> SeenObject:
        frame = GridFrame(image.shape[1], image.shape[0])
        like = torch.empty(0, device=self._device)
        return SeenObject(label, 1.0, area, HeatMap.filled(area, frame, like))

    def _of_mask(self, label: str, mask: np.ndarray) -> SeenObject:
        left, top, width, height = cv2.boundingRect((mask != 0).astype(np.uint8))
        area = Area(left - 0.5, top - 0.5, left + width - 0.5, top + height - 0.5)
        if mask[top : top + height, left : left + width].all():
            return self._filled(label, area, mask)
        # Fine enough for keypoints, and still small for a scanned page.
        rows, columns = (min(side, MAX_MASK_CELLS) for side in mask.shape)
        shares = cv2.resize(
            (mask != 0).astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA
        )
        grid = torch.from_numpy(shares).to(self._device)
        frame = GridFrame.spanning(mask.shape[1], mask.shape[0], rows, columns)
        return SeenObject(label, 1.0, area, HeatMap.of_grid(grid, frame, area))


def described_source(source: str, why_none: str) -> str:
    """Say where something came from, or 'none: ' and why there is nothing."""
    return source or (f'none: {why_none}' if why_none else 'none')


def counted(labels: Sequence[str]) -> str:
    """Return labels as text, each once with its count."""
    names = [label or 'unnamed' for label in labels]
    counts = {name: names.count(name) for name in names}
    return ', '.join(name if n == 1 else f'{n} x {name}' for name, n in counts.items())


def masked(image: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Return the picture, with the mean colour of the rest where the mask is 0."""
    if mask is None or mask.all():
        return image
    outside = mask == 0
    result = image.copy()
    result[outside] = image[~outside].mean(axis=0)
    return result
