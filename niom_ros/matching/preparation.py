"""From a picture to a prepared reference: everything that is computed only once."""

from dataclasses import dataclass, replace

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.drawings.likeness import drawing_likeness
from niom_ros.drawings.strokes import Strokes, strokes_of
from niom_ros.images.decoding import check_size, ImageError, TooPlain
from niom_ros.matching.features import Features, MIN_SIDE
from niom_ros.matching.geometry import hull_area
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.matching.symmetry import symmetric_turns
from niom_ros.semantics.scene import Hints


@dataclass(frozen=True)
class PreparationParameters:
    """How many keypoints and how much ink a reference needs."""

    plenty_of_keypoints: int = 500
    plenty_of_ink: int = 800  # points along the strokes of a drawing
    least_ink: int = 120  # of such points; fewer fit anything
    least_spread: float = 0.008  # share of the used part that the strokes must span


DEFAULTS = PreparationParameters()


@dataclass(frozen=True)
class UsedPart:
    """The part of a picture that is used: its region without what is masked."""

    box: Box
    area: int  # pixels of the box that are not masked
    mask: np.ndarray | None  # of the whole picture; None: all of it is used

    @property
    def cropped_mask(self) -> np.ndarray | None:
        """Return the mask inside the box."""
        return None if self.mask is None else self.box.part_of(self.mask)


@dataclass(frozen=True)
class PictureKind:
    """Whether a picture is a drawing, and its strokes."""

    drawing: bool
    confidence: float  # how sure that is, 0 to 1
    ink_points: int = 0  # along its strokes
    strokes: Strokes | None = None  # if there are enough to find it by


def prepare(perception: Perception, given: Reference, fewest_keypoints: int) -> PreparedReference:
    """Run the networks on a reference; it must have enough keypoints, or enough ink.

    Unless any object of its kind will do: that one is not found by keypoints.
    """
    image = given.image
    height, width = image.shape[:2]
    check_size(width, height)
    hints = Hints(given.label, given.objects, given.drawing)
    used = used_part(image, given.counting_mask())
    box = used.box
    check_resolution(perception, box)
    features = features_of(perception, image, used)
    kind = kind_of(image, used, hints)
    by_points = given.wanted != 'same_kind'
    if len(features) < fewest_keypoints and kind.strokes is None and by_points:
        raise TooPlain(
            f'the reference has only {len(features)} distinct points, and '
            f'{fewest_keypoints} must be found again'
            + (', and hardly any strokes' if kind.drawing else '')
            + ': use a picture with more detail, a sharper one, or a larger region; '
            'or set wanted to same_kind, if any object of its kind will do'
        )
    hints = replace(hints, drawing=kind.drawing).for_part(box.left, box.top)
    scene = perception.read_reference(box.part_of(image), hints, used.cropped_mask)
    scene = scene.moved(box.left, box.top, width, height)
    plenty = min(DEFAULTS.plenty_of_keypoints, perception.settings.max_keypoints)
    richness = max(len(features) / plenty, kind.ink_points / DEFAULTS.plenty_of_ink)
    return PreparedReference(
        given=given,
        features=features,
        scene=scene.at(features.keypoints),
        box=box,
        counting_area=used.area,
        matchability=min(1.0, richness),
        drawing=kind.drawing,
        kind_confidence=kind.confidence,
        strokes=kind.strokes,
        symmetric_turns=symmetric_turns(box.part_of(image), used.cropped_mask),
    )


def used_part(image: np.ndarray, mask: np.ndarray | None) -> UsedPart:
    """Return the part of a picture that is not masked."""
    height, width = image.shape[:2]
    if mask is None:
        box = Box(0, 0, width, height)
        return UsedPart(box, box.area, None)
    box = Box(*cv2.boundingRect((mask != 0).astype(np.uint8)))
    return UsedPart(box, int(np.count_nonzero(mask)), mask)


def check_resolution(perception: Perception, box: Box) -> None:
    """Refuse a part that is too small for the extractor."""
    shrunk = perception.extractor.shrunk_size(box.width, box.height)
    if min(shrunk) < MIN_SIDE:
        raise ImageError(
            f'only {box.width} x {box.height} pixels of the reference are used, '
            f'{shrunk[0]} x {shrunk[1]} after shrinking it to max_image_side: '
            f'it needs at least {MIN_SIDE} in each direction'
        )


def features_of(perception: Perception, image: np.ndarray, used: UsedPart) -> Features:
    """Return the keypoints of the used part, in pixels of the whole picture."""
    box = used.box
    # Crop first, so that the rest of the picture costs neither resolution nor keypoints.
    features = perception.extract(box.part_of(image)).moved(
        box.left, box.top, image.shape[1], image.shape[0]
    )
    return features if used.mask is None else features.inside(used.mask)


def kind_of(image: np.ndarray, used: UsedPart, hints: Hints) -> PictureKind:
    """Find out whether a picture is a drawing, unless the hints say so, and find its strokes."""
    part, box = used.box.part_of(image), used.box
    likeness = drawing_likeness(part)
    drawing, confidence = likeness >= 0.5, max(likeness, 1 - likeness)
    if hints.drawing is not None:
        drawing, confidence = hints.drawing, 1.0
    if not drawing:
        return PictureKind(drawing, confidence)
    strokes = strokes_of(part, used.cropped_mask).moved(box.left, box.top)
    # A single line fits any edge.
    spread = hull_area(strokes.points) > DEFAULTS.least_spread * box.area
    enough = len(strokes) >= DEFAULTS.least_ink and spread
    return PictureKind(drawing, confidence, len(strokes), strokes if enough else None)
