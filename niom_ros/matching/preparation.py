"""From a picture to a reference: all that is computed of it once, before any image is seen."""

from dataclasses import dataclass, replace

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.drawings.likeness import drawing_likeness
from niom_ros.drawings.strokes import Strokes, strokes_of
from niom_ros.images.decoding import check_size, ImageError, TooPlain
from niom_ros.matching.features import Features, SMALLEST_SIDE
from niom_ros.matching.geometry import hull_area
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.semantics.scene import Hints


@dataclass(frozen=True)
class PreparationParameters:
    """How many keypoints and how much ink a reference needs."""

    plenty_of_keypoints: int = 500
    plenty_of_ink: int = 800  # points along the strokes of a drawing
    least_ink: int = 120  # of such points: fewer fit anything
    least_spread: float = 0.008  # of the part that counts, which the strokes must span


DEFAULTS = PreparationParameters()


@dataclass(frozen=True)
class Counting:
    """The part of a picture that counts."""

    box: Box
    area: int  # pixels of the box that are not masked
    mask: np.ndarray | None  # of the whole picture; None: all counts

    @property
    def mask_of_part(self) -> np.ndarray | None:
        """Return the mask of the part alone."""
        return None if self.mask is None else self.box.part_of(self.mask)


@dataclass(frozen=True)
class PictureKind:
    """Whether a picture is a drawing, and the strokes of one."""

    drawing: bool
    confidence: float  # how sure that is, 0 to 1
    ink_points: int = 0  # along its strokes
    strokes: Strokes | None = None  # if they are enough to find it by


def prepare(perception: Perception, given: Reference, fewest_keypoints: int) -> PreparedReference:
    """Let the networks see a reference; it must have so many keypoints, or enough ink."""
    image = given.image
    height, width = image.shape[:2]
    check_size(width, height)
    hints = Hints(given.label, given.objects, given.drawing)
    counting = what_counts(image, given.counting_mask())
    box = counting.box
    check_resolution(perception, box)
    features = features_of(perception, image, counting)
    kind = kind_of(image, counting, hints)
    if kind.strokes is not None:
        perception.load_edge_finder()
    if len(features) < fewest_keypoints and kind.strokes is None:
        raise TooPlain(
            f'the reference has only {len(features)} distinct points, and '
            f'{fewest_keypoints} must be found again'
            + (', and hardly any strokes' if kind.drawing else '')
            + ': use a picture with more detail, a sharper one, or a larger region'
        )
    hints = replace(hints, drawing=kind.drawing).for_part(box.left, box.top)
    scene = perception.read_reference(box.part_of(image), hints, counting.mask_of_part)
    scene = scene.moved(box.left, box.top, width, height)
    plenty = min(DEFAULTS.plenty_of_keypoints, perception.settings.max_keypoints)
    richness = max(len(features) / plenty, kind.ink_points / DEFAULTS.plenty_of_ink)
    return PreparedReference(
        given=given,
        features=features,
        scene=scene.at(features.keypoints),
        box=box,
        counting_area=counting.area,
        matchability=min(1.0, richness),
        drawing=kind.drawing,
        kind_confidence=kind.confidence,
        strokes=kind.strokes,
    )


def what_counts(image: np.ndarray, mask: np.ndarray | None) -> Counting:
    """Return the part of a picture that is not masked."""
    height, width = image.shape[:2]
    if mask is None:
        box = Box(0, 0, width, height)
        return Counting(box, box.area, None)
    box = Box(*cv2.boundingRect((mask != 0).astype(np.uint8)))
    return Counting(box, int(np.count_nonzero(mask)), mask)


def check_resolution(perception: Perception, box: Box) -> None:
    """Refuse a part that is too small for the extractor."""
    shrunk = perception.extractor.shrunk_size(box.width, box.height)
    if min(shrunk) < SMALLEST_SIDE:
        raise ImageError(
            f'of the reference only {box.width} x {box.height} pixels count, '
            f'{shrunk[0]} x {shrunk[1]} after shrinking it to max_image_side: '
            f'it needs at least {SMALLEST_SIDE} in each direction'
        )


def features_of(perception: Perception, image: np.ndarray, counting: Counting) -> Features:
    """Return the keypoints of the part that counts, in pixels of the whole picture."""
    box = counting.box
    # Only this part, so that its rest takes neither resolution nor keypoints from it.
    features = perception.extract(box.part_of(image)).moved(
        box.left, box.top, image.shape[1], image.shape[0]
    )
    return features if counting.mask is None else features.inside(counting.mask)


def kind_of(image: np.ndarray, counting: Counting, hints: Hints) -> PictureKind:
    """Find out whether a picture is a drawing, if nobody says so, and where its strokes are."""
    part, box = counting.box.part_of(image), counting.box
    likeness = drawing_likeness(part)
    drawing, confidence = likeness >= 0.5, max(likeness, 1 - likeness)
    if hints.drawing is not None:
        drawing, confidence = hints.drawing, 1.0
    if not drawing:
        return PictureKind(drawing, confidence)
    strokes = strokes_of(part, counting.mask_of_part).moved(box.left, box.top)
    # A single line fits any edge.
    spread = hull_area(strokes.points) > DEFAULTS.least_spread * box.area
    enough = len(strokes) >= DEFAULTS.least_ink and spread
    return PictureKind(drawing, confidence, len(strokes), strokes if enough else None)
