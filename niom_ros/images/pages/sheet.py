"""Frames and title blocks of drawing sheets.

All lengths are fractions of the longer side of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from niom_ros.images.pages.line_work import Kind, Piece


@dataclass(frozen=True)
class SheetParameters:
    """What counts as a frame, a mark on it, and a title block."""

    touch: float = 0.004  # lines closer than this touch
    max_margin: float = 0.16  # share of the width or height within which frame sides lie
    min_span: float = 0.78  # share of the width or height that a frame side covers
    min_margin: float = 0.012  # around a frame without title block; below, it may be the object
    max_mark: float = 0.08  # length of a fold or centring mark at the frame
    max_block: float = 0.4  # area of a title block, share of the page
    raster: int = 2048  # pixels along the longer side of the page, to find what touches


DEFAULTS = SheetParameters()


@dataclass(frozen=True)
class Rule:
    """A line parallel to a side of the page, of one or more pieces."""

    at: float
    start: float
    stop: float
    pieces: frozenset[int]


@dataclass(frozen=True)
class Sheet:
    """Which pieces are the frame and title blocks."""

    frame: frozenset[int] = frozenset()
    blocks: tuple[frozenset[int], ...] = ()
    doubtful: bool = False  # whether there is a rectangle that may be a frame
    inside: np.ndarray | None = field(default=None)  # box inside the frame


def find_sheet(
    pieces: Sequence[Piece],
    text_boxes: np.ndarray,
    dimensions: Sequence[tuple[frozenset[int], np.ndarray]],
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> Sheet:
    """Return the frame and title blocks of a page of this width and height.

    A rectangle around everything may be the object itself. It is a frame if a title block is
    attached to it, if there are texts in its margin, if it leaves room for punched holes on the
    left, or if there are dimension lines (pieces and tips) and none measures it.
    """
    known = frozenset(index for own, _ in dimensions for index in own)
    vertical, horizontal = rules(pieces, known, 0), rules(pieces, known, 1)
    rectangles = frames(vertical, horizontal, page, parameters)
    framing = frozenset(index for _, own in rectangles for index in own)
    box = np.array([0.0, 0.0, *page]) if not rectangles else rectangles[-1][0]
    blocks = title_blocks(
        pieces, text_boxes, known | framing, box, bool(rectangles), page, parameters
    )
    if not rectangles:
        return Sheet(blocks=blocks)
    if not (
        blocks
        or texts_in_margin(rectangles, text_boxes)
        or has_filing_margin(box, page, parameters.min_margin)
        or dimensions_inside(pieces, dimensions, box, page, parameters)
    ):
        return Sheet(doubtful=bool(len(text_boxes) or dimensions))
    return Sheet(framing | marks_at(pieces, box, known, parameters), blocks, inside=box)


# Frame


def rules(pieces: Sequence[Piece], known: frozenset[int], axis: int) -> list[Rule]:
    """Return the lines along one axis (0: vertical, 1: horizontal), with their pieces joined."""
    found = []
    for index, piece in enumerate(pieces):
        if index in known or piece.kind is not Kind.LINES or not piece.line_width:
            continue
        box = piece.box
        if piece.is_rectangle:
            for at in (box[axis], box[2 + axis]):
                found.append((at, box[1 - axis], box[3 - axis], index))
        elif box[2 + axis] - box[axis] < 0.001 and not piece.filled:
            found.append((box[axis], box[1 - axis], box[3 - axis], index))
        elif not piece.filled and len(piece.points) < 12:
            # An open polyline, for example three sides of a frame.
            for a, b in zip(piece.points[:-1], piece.points[1:], strict=True):
                if abs(a[axis] - b[axis]) < 0.001:
                    low, high = sorted((a[1 - axis], b[1 - axis]))
                    found.append((a[axis], low, high, index))
    return merged(sorted(found, key=lambda entry: (round(entry[0] / 0.002), entry[1])))


def merged(lines: Sequence[tuple[float, float, float, int]]) -> list[Rule]:
    """Join lines that overlap or follow each other without a gap."""
    found: list[Rule] = []
    for at, start, stop, index in lines:
        last = found[-1] if found else None
        if last is not None and abs(last.at - at) < 0.002 and start <= last.stop + 0.002:
            own = last.pieces | {index}
            found[-1] = Rule(last.at, last.start, max(last.stop, stop), own)
        else:
            found.append(Rule(at, start, stop, frozenset([index])))
    return found


def frames(
    vertical: Sequence[Rule],
    horizontal: Sequence[Rule],
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> list[tuple[np.ndarray, frozenset[int]]]:
    """Return the rectangles close to the border of the page, from the outermost inwards."""
    width, height = page
    tall = [rule for rule in vertical if rule.stop - rule.start > parameters.min_span * height]
    wide = [rule for rule in horizontal if rule.stop - rule.start > parameters.min_span * width]
    left = sorted((r for r in tall if r.at < parameters.max_margin * width), key=lambda r: r.at)
    right = sorted(
        (r for r in tall if r.at > (1 - parameters.max_margin) * width), key=lambda r: -r.at
    )
    top = sorted((r for r in wide if r.at < parameters.max_margin * height), key=lambda r: r.at)
    bottom = sorted(
        (r for r in wide if r.at > (1 - parameters.max_margin) * height), key=lambda r: -r.at
    )
    found = []
    for sides in zip(left, right, top, bottom, strict=False):
        box = np.array([sides[0].at, sides[2].at, sides[1].at, sides[3].at])
        meet = all(
            abs(rule.start - low) < 2 * parameters.touch
            and abs(rule.stop - high) < 2 * parameters.touch
            for rule, low, high in (
                (sides[0], box[1], box[3]),
                (sides[1], box[1], box[3]),
                (sides[2], box[0], box[2]),
                (sides[3], box[0], box[2]),
            )
        )
        if meet:
            found.append((box, frozenset().union(*(rule.pieces for rule in sides))))
    return found


def texts_in_margin(
    rectangles: Sequence[tuple[np.ndarray, frozenset[int]]], text_boxes: np.ndarray
) -> bool:
    """Tell whether there are several texts between the outermost and innermost rectangles."""
    if len(rectangles) < 2 or not len(text_boxes):
        return False
    centres = (text_boxes[:, :2] + text_boxes[:, 2:]) / 2
    between = within(centres, rectangles[0][0]) & ~within(centres, rectangles[-1][0])
    return int(between.sum()) >= 3


def has_filing_margin(box: np.ndarray, page: tuple[float, float], min_margin: float) -> bool:
    """Tell whether the margin is wider on the left and otherwise even, as in ISO 5457."""
    left, top, right, bottom = box[0], box[1], page[0] - box[2], page[1] - box[3]
    others = np.array([top, right, bottom])
    even = np.ptp(others) < 0.1 * others.max()
    return bool(others.min() > min_margin and even and left > 1.5 * others.max())


def within(places: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Tell which points (n x 2) lie in a box."""
    inside = (places >= box[:2]) & (places <= box[2:])
    return np.all(inside, axis=1)


def dimensions_inside(
    pieces: Sequence[Piece],
    dimensions: Sequence[tuple[frozenset[int], np.ndarray]],
    box: np.ndarray,
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> bool:
    """Tell whether dimension lines lie inside a rectangle, and none measures or leaves it."""
    margins = np.array([*box[:2], page[0] - box[2], page[1] - box[3]])
    if not dimensions or margins.min() < parameters.min_margin:
        return False
    inner = box + 2 * parameters.touch * np.array([1, 1, -1, -1])
    places = [pieces[index].points for own, _ in dimensions for index in own]
    places += [tips for _, tips in dimensions]
    return bool(within(np.concatenate(places), inner).all())


def marks_at(
    pieces: Sequence[Piece],
    box: np.ndarray,
    known: frozenset[int],
    parameters: SheetParameters = DEFAULTS,
) -> frozenset[int]:
    """Return what lies outside of a frame, and short lines across it."""
    found = set()
    for index, piece in enumerate(pieces):
        if index in known or piece.kind is Kind.IMAGE:
            continue
        own = piece.box
        outside = (own[2:] < box[:2] + parameters.touch).any() or (
            own[:2] > box[2:] - parameters.touch
        ).any()
        ends = within(piece.points, box)
        across = piece.extent < parameters.max_mark and piece.is_straight and not ends.all()
        if outside or across:
            found.add(index)
    return frozenset(found)


# Title block


def title_blocks(
    pieces: Sequence[Piece],
    text_boxes: np.ndarray,
    known: frozenset[int],
    box: np.ndarray,
    framed: bool,
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> tuple[frozenset[int], ...]:
    """Return the tables in a corner of the frame; without one, in the lower right corner."""
    ruled = [
        index
        for index, piece in enumerate(pieces)
        if index not in known and piece.line_width and is_ruled(piece, page)
    ]
    if not ruled or not len(text_boxes):
        return ()
    centres = (text_boxes[:, :2] + text_boxes[:, 2:]) / 2
    found = []
    for own in touching(pieces, ruled, parameters.raster):
        boxes = np.array([pieces[index].box for index in own])
        around = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
        sides = sum(4 if pieces[index].is_rectangle else 1 for index in own)
        texts = within(centres, around)
        size = around[2:] - around[:2]
        if (
            size.min() < 2 * parameters.touch
            or size.prod() > parameters.max_block * page[0] * page[1]
        ):
            continue
        at_left_top = np.abs(around[:2] - box[:2]) < 2 * parameters.touch
        at_right_bottom = np.abs(around[2:] - box[2:]) < 2 * parameters.touch
        if framed:
            in_corner = (at_left_top | at_right_bottom).all() and int(texts.sum()) >= 2
            enough = in_corner and sides >= 2
        else:
            in_corner = (page - around[2:] < 0.1).all()
            areas = (text_boxes[texts, 2:] - text_boxes[texts, :2]).prod(axis=1)
            filled = areas.sum() > 0.05 * size.prod()
            enough = in_corner and sides >= 4 and filled and int(texts.sum()) >= 3
        if enough:
            inside = around + parameters.touch * np.array([-1, -1, 1, 1])
            found.append(
                frozenset(
                    index
                    for index, piece in enumerate(pieces)
                    if index not in known and within(piece.box.reshape(2, 2), inside).all()
                )
            )
    return tuple(found)


def is_ruled(piece: Piece, page: tuple[float, float]) -> bool:
    """Tell whether a piece may be a line of a table."""
    if piece.kind is not Kind.LINES or piece.dash_pattern:
        return False
    if piece.is_rectangle:
        return bool((piece.box[2:] - piece.box[:2] < 0.7 * np.array(page)).all())
    thickness = float((piece.box[2:] - piece.box[:2]).min())
    if piece.is_straight:
        return thickness < 0.001 and piece.extent < 0.7 * max(page)
    return False


def touching(pieces: Sequence[Piece], ruled: Sequence[int], side: int) -> list[list[int]]:
    """Return groups of lines that touch each other."""
    raster = np.zeros((side + 8, side + 8), np.uint8)
    corners = {
        index: np.clip(np.rint(pieces[index].points * side) + 4, 0, side + 7).astype(np.int32)
        for index in ruled
    }
    for index in ruled:
        cv2.polylines(raster, [corners[index]], pieces[index].closed, 255, 3)
    _, labels = cv2.connectedComponents(raster)
    groups: dict[int, list[int]] = {}
    for index in ruled:
        x, y = corners[index][0]
        groups.setdefault(int(labels[y, x]), []).append(index)
    return list(groups.values())
