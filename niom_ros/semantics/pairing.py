"""Which object of the reference belongs to which object of the image."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np
from scipy.optimize import linear_sum_assignment
import torch

from niom_ros.core.settings import Pairing
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import described_source


@dataclass(frozen=True)
class ObjectPair:
    """An object of the reference and the object of the image that it was paired with."""

    reference_object: int  # index
    image_object: int
    similarity: float  # what decided: 0: nothing in common, 1: the same
    label_similarity: float = math.nan  # cosine; NaN: not compared
    visual_similarity: float = math.nan


@dataclass(frozen=True)
class PairedObjects:
    """The pairs, and how they were found or why there are none."""

    pairs: tuple[ObjectPair, ...] = ()
    how: str = ''  # what was compared
    why_none: str = ''  # why nothing could be compared
    decided: bool = False  # whether objects without a partner should be left out

    @property
    def description(self) -> str:
        """Say how the pairs were found, or 'none: ' and why nothing could be compared."""
        return described_source(self.how, self.why_none)


def pair_objects(
    reference: Sequence[SeenObject],
    image: Sequence[SeenObject],
    options: Pairing,
    embedder: LabelEmbedder,
) -> PairedObjects:
    """Pair the objects of a reference with those of an image."""
    if options.by == 'none':
        return PairedObjects()
    if not reference or not image:
        lacking = 'reference' if not reference else 'image'
        return PairedObjects(why_none=f'no object in the {lacking}')
    labels = visual = None
    compared = []
    if options.by in ('text', 'both') and all_labelled(reference) and all_labelled(image):
        found = embedder.similarities([o.label for o in reference], [o.label for o in image])
        labels = found.cosine
        compared.append(f'labels: {found.source}')
    if options.by in ('visual', 'both'):
        visual = visual_similarities(reference, image)
        if visual is not None:
            compared.append('appearance: features of the detector')
    if labels is None and visual is None:
        return PairedObjects(
            why_none='an object has no label, or its appearance cannot be compared'
        )
    similarity = np.mean([s for s in (labels, visual) if s is not None], axis=0)
    chosen = [
        ObjectPair(
            reference_object=row,
            image_object=column,
            similarity=float(similarity[row, column]),
            label_similarity=math.nan if labels is None else float(labels[row, column]),
            visual_similarity=math.nan if visual is None else float(visual[row, column]),
        )
        for row, column in best_pairs(similarity, joint_scores(reference, image), options)
    ]
    how = ', '.join(compared)
    if not chosen:
        how += f'; no pair reaches pairing_floor ({options.floor:g})'
    return PairedObjects(tuple(chosen), how=how, decided=True)


def all_labelled(objects: Sequence[SeenObject]) -> bool:
    """Return whether every object has a label."""
    return all(seen.label.strip() for seen in objects)


def visual_similarities(
    reference: Sequence[SeenObject], image: Sequence[SeenObject]
) -> np.ndarray | None:
    """Return the cosines of the objects' features (R x I), or None if one is unknown."""
    features = []
    for objects in (reference, image):
        known = [seen.feature for seen in objects if seen.feature is not None]
        if len(known) < len(objects):
            return None
        features.append(torch.stack(known).float())
    left, right = features
    if left.shape[1] != right.shape[1]:
        return None
    cosine: np.ndarray = (left @ right.T).cpu().numpy()
    return cosine


def joint_scores(reference: Sequence[SeenObject], image: Sequence[SeenObject]) -> np.ndarray:
    """Return the product of the scores of both objects of each pair (R x I)."""
    return np.outer([seen.score for seen in reference], [seen.score for seen in image])


def best_pairs(
    similarity: np.ndarray, joint_scores: np.ndarray, options: Pairing
) -> list[tuple[int, int]]:
    """Return the pairs (row, column), the most similar first.

    Among equally similar pairs, such as two dogs and two dogs, those with higher scores win.
    """
    preference = similarity + 1e-4 * joint_scores
    if options.most == 1:
        row, column = divmod(int(preference.argmax()), similarity.shape[1])
        candidates = [(row, column)]
    else:
        # A pair below the floor is worth nothing, so that it never displaces a good one.
        worth = np.where(similarity >= options.floor, preference - options.floor + 1e-3, 0)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        candidates = sorted(
            zip(rows.tolist(), columns.tolist(), strict=True), key=lambda p: -preference[p]
        )
    return [pair for pair in candidates if similarity[pair] >= options.floor][: options.most]
