"""Texts that the file stores as shapes: letters as outlines or strokes.

All lengths are fractions of the longer side of the page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from niom_ros.images.pages.line_work import empty_raster, Kind, on_raster, Piece


@dataclass(frozen=True, kw_only=True)
class DrawnTextParameters:
    """What counts as a letter, and which letters make a text."""

    max_letter: float = 0.035
    min_letter: float = 0.003
    touch: float = 0.0008  # pieces closer than this belong to one letter
    neighbours: int = 10  # checked for each piece, to join letters and words
    max_small_pieces: int = 60_000  # with more, letters are not searched
    raster: int = 2048  # pixels along the longer side of the page, to find what touches
    raster_line: int = 2  # pixels; width of the lines there
    accent_reach: float = 0.3  # of dots and accents around a text, relative to its height

    # Shapes that look like holes or bolts are convex and empty.
    outline_points: int = 24  # looked at
    min_depth: float = 0.08  # of a point inside of the hull, relative to the size of the shape
    max_deep_points: float = 0.1  # share of points deeper than that

    # Rows of letters
    max_gap: float = 0.8  # letter heights between two letters of a text
    min_overlap: float = 0.5  # of two letters across the row, relative to the lower one
    max_height_ratio: float = 2.0  # of two letters
    letters_per_angular: int = 3  # one in so many letters does not look like a hole
    max_equal_difference: float = 0.03  # between sizes of equal shapes, relative to the largest
    max_squareness_error: float = 0.1  # of the ratio of the sides of a square
    max_height_difference: float = 0.1  # between texts of the same height, relative to one


DEFAULTS = DrawnTextParameters()


@dataclass(frozen=True)
class Letter:
    """Small pieces that touch each other."""

    pieces: tuple[int, ...]
    box: np.ndarray
    is_round: bool  # convex and empty: it might be a hole

    @property
    def size(self) -> np.ndarray:
        """Return width and height."""
        return self.box[2:] - self.box[:2]


@dataclass(frozen=True)
class DrawnText:
    """A row of letters."""

    pieces: frozenset[int]
    box: np.ndarray


def find_drawn_texts(
    pieces: Sequence[Piece], without: set[int], parameters: DrawnTextParameters = DEFAULTS
) -> list[DrawnText]:
    """Return the rows of letters on a page, ignoring pieces known to be something else.

    A letter is small and touches nothing large. Two letters alone are a text only if one of them
    does not look like a hole or bolt, or if they are as tall as other texts on the page.
    """
    small = [
        index
        for index, piece in enumerate(pieces)
        if piece.kind is Kind.LINES
        and index not in without
        and piece.extent <= parameters.max_letter
        and not piece.dash_pattern
    ]
    if not 1 < len(small) <= parameters.max_small_pieces:
        return []
    alone = touching_nothing(pieces, small, without, parameters)
    letters = letters_of(pieces, alone, parameters)
    boxes = np.array([pieces[index].box for index in alone]).reshape(-1, 4)
    texts = []
    for upright in (True, False):
        rows = rows_of(letters, upright, parameters)
        across = 1 if upright else 0
        sure = [row for row in rows if is_surely_text(row, parameters)]
        heights = [tallest(row, across) for row in sure]
        for row in rows:
            height = tallest(row, across)
            as_tall = any(
                abs(height / other - 1) < parameters.max_height_difference for other in heights
            )
            if any(row is one for one in sure) or as_tall:
                texts.append(text_of(row, alone, boxes, parameters.accent_reach))
        used = {index for text in texts for index in text.pieces}
        letters = [letter for letter in letters if not used.intersection(letter.pieces)]
    return texts


def touching_nothing(
    pieces: Sequence[Piece],
    small: Sequence[int],
    without: set[int],
    parameters: DrawnTextParameters = DEFAULTS,
) -> list[int]:
    """Return the small pieces that touch no larger one, except those ignored."""
    side = parameters.raster
    raster = empty_raster(side)
    among = without.union(small)
    for index, piece in enumerate(pieces):
        if piece.kind is Kind.LINES and index not in among:
            corners = on_raster(piece.points, side)
            cv2.polylines(raster, [corners], piece.closed, 255, parameters.raster_line)
    return [
        index
        for index in small
        if not raster[tuple(on_raster(pieces[index].points, side).T[::-1])].any()
    ]


def letters_of(
    pieces: Sequence[Piece], small: Sequence[int], parameters: DrawnTextParameters = DEFAULTS
) -> list[Letter]:
    """Join small pieces whose boxes overlap; the result must be small, too."""
    if len(small) < 2:
        return []
    boxes = np.array([pieces[index].box for index in small])
    touch = parameters.touch
    labels = joined(
        boxes,
        lambda a, b: np.all(
            (boxes[a, :2] - touch <= boxes[b, 2:]) & (boxes[b, :2] - touch <= boxes[a, 2:]), axis=1
        ),
        parameters.neighbours,
    )
    letters = []
    for group in grouped(labels):
        own = [small[which] for which in group]
        corners = np.array([pieces[index].box for index in own])
        box = np.concatenate([corners[:, :2].min(axis=0), corners[:, 2:].max(axis=0)])
        if parameters.min_letter <= (box[2:] - box[:2]).max() <= parameters.max_letter:
            looks_round = is_round([pieces[index] for index in own], parameters)
            letters.append(Letter(tuple(own), box, looks_round))
    return letters


def joined(
    boxes: np.ndarray, belong: Callable[[np.ndarray, np.ndarray], np.ndarray], neighbours: int
) -> np.ndarray:
    """Return a label for each box, the same for boxes linked through neighbours."""
    count = len(boxes)
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    _, near = cKDTree(centres).query(centres, k=min(neighbours + 1, count))
    first = np.repeat(np.arange(count), near.shape[1])
    second = near.ravel()
    linked = belong(first, second)
    ones = np.ones(int(linked.sum()))
    graph = coo_matrix((ones, (first[linked], second[linked])), shape=(count, count))
    return connected_components(graph, directed=False)[1]


def grouped(labels: np.ndarray) -> list[list[int]]:
    """Return the indices of each label."""
    order = np.argsort(labels, kind='stable')
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return [group.tolist() for group in np.split(order, cuts)]


def is_round(members: Sequence[Piece], parameters: DrawnTextParameters = DEFAULTS) -> bool:
    """Return whether a shape is convex and has nothing inside."""
    if any(piece.has_holes for piece in members):
        return False
    count = parameters.outline_points
    points = np.concatenate([resampled(piece, count) for piece in members]).astype(np.float32)
    hull = cv2.convexHull(points)
    if len(hull) < 3:
        return True
    depth = [cv2.pointPolygonTest(hull, (float(x), float(y)), True) for x, y in points]
    size = float((points.max(axis=0) - points.min(axis=0)).max())
    deep = np.array(depth) > parameters.min_depth * size
    return float(np.mean(deep)) < parameters.max_deep_points


def resampled(piece: Piece, count: int) -> np.ndarray:
    """Return this many points at even distances along a piece."""
    points = np.vstack([piece.points, piece.points[:1]]) if piece.closed else piece.points
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    places = np.linspace(0, along[-1], count)
    return np.stack([np.interp(places, along, points[:, axis]) for axis in (0, 1)], axis=1)


def rows_of(
    letters: Sequence[Letter], upright: bool, parameters: DrawnTextParameters = DEFAULTS
) -> list[list[Letter]]:
    """Return letters side by side, two or more, in rows, or in columns if not upright."""
    if len(letters) < 2:
        return []
    boxes = np.array([letter.box for letter in letters])
    along, across = (0, 1) if upright else (1, 0)
    sizes = boxes[:, 2:] - boxes[:, :2]

    def belong(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        gap = np.maximum(
            boxes[a, along] - boxes[b, 2 + along], boxes[b, along] - boxes[a, 2 + along]
        )
        shared = np.minimum(boxes[a, 2 + across], boxes[b, 2 + across])
        shared = shared - np.maximum(boxes[a, across], boxes[b, across])
        lower = np.minimum(sizes[a, across], sizes[b, across])
        taller = np.maximum(sizes[a, across], sizes[b, across])
        return (
            (a != b)
            & (gap < parameters.max_gap * taller)
            & (shared >= parameters.min_overlap * lower)
            & (taller <= parameters.max_height_ratio * lower)
        )

    labels = joined(boxes, belong, parameters.neighbours)
    return [[letters[which] for which in row] for row in grouped(labels) if len(row) > 1]


def is_surely_text(row: Sequence[Letter], parameters: DrawnTextParameters = DEFAULTS) -> bool:
    """Return whether the shapes in a row are letters rather than holes or bolts."""
    if sum(not letter.is_round for letter in row) * parameters.letters_per_angular < len(row):
        return False
    sizes = np.array([letter.size for letter in row])
    alike = (np.ptp(sizes, axis=0) < parameters.max_equal_difference * sizes.max()).all()
    ratio = sizes[0, 0] / max(sizes[0, 1], 1e-9)
    square = abs(ratio - 1) < parameters.max_squareness_error
    return not (alike and square)


def tallest(row: Sequence[Letter], across: int) -> float:
    """Return the height of the tallest letter."""
    return float(max(letter.size[across] for letter in row))


def text_of(
    row: Sequence[Letter], small: Sequence[int], small_boxes: np.ndarray, accent_reach: float
) -> DrawnText:
    """Return a row of letters with the dots and accents between them."""
    boxes = np.array([letter.box for letter in row])
    box = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    own = {index for letter in row for index in letter.pieces}
    around = accent_reach * float((box[2:] - box[:2]).min())
    inside = (small_boxes[:, :2] >= box[:2] - around) & (small_boxes[:, 2:] <= box[2:] + around)
    own.update(small[int(which)] for which in np.flatnonzero(np.all(inside, axis=1)))
    return DrawnText(frozenset(own), box)
