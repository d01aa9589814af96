"""Frames and title blocks of drawing sheets.

All lengths are fractions of the longer side of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.images.pages.line_work import empty_raster, Kind, on_raster, Piece


@dataclass(frozen=True, kw_only=True)
class SheetParameters:
    """What counts as a frame, a mark on it, and a title block."""

    touch: float = 0.004  # lines closer than this touch
    corner_touch: float = 0.008  # sides whose ends are closer than this meet in a corner
    max_thickness: float = 0.001  # of a line parallel to a side of the page
    max_polyline_points: int = 11  # of an open line that may be sides of a frame
    same_line: float = 0.002  # gap up to which pieces are one line, along it and sideways

    # Frame
    max_margin: float = 0.16  # share of the width or height within which frame sides lie
    min_span: float = 0.78  # share of the width or height that a frame side covers
    min_margin: float = 0.012  # around a frame without title block; below, it may be the object
    min_margin_texts: int = 3  # between the outer and the inner frame
    min_filing_margin: float = 1.5  # relative to the widest of the other margins
    max_margin_difference: float = 0.1  # between those, relative to the widest
    max_mark: float = 0.08  # length of a fold or centring mark at the frame

    # Title block
    max_table_line: float = 0.7  # share of the page that a line or box of a table covers
    max_block: float = 0.4  # area of a title block, share of the page
    min_block_sides: int = 2  # lines that it consists of
    min_block_texts: int = 2
    raster: int = 2048  # pixels along the longer side of the page, to find what touches
    raster_line: int = 3  # pixels; width of the lines there

    # Title block on a page without a frame
    max_bare_margin: float = 0.1  # from the block to the corner of the page
    min_bare_sides: int = 4
    min_bare_texts: int = 3
    min_bare_text_area: float = 0.05  # share of the block


DEFAULTS = SheetParameters()


@dataclass(frozen=True)
class SheetRule:
    """A line parallel to a side of the page, of one or more pieces."""

    at: float
    start: float
    stop: float
    pieces: frozenset[int]


@dataclass(frozen=True)
class SheetLayout:
    """Which pieces are the frame and title blocks."""

    frame: frozenset[int] = frozenset()
    blocks: tuple[frozenset[int], ...] = ()
    doubtful: bool = False  # whether there is a rectangle that may be a frame


def find_sheet(
    pieces: Sequence[Piece],
    text_boxes: np.ndarray,
    dimensions: Sequence[tuple[frozenset[int], np.ndarray]],
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> SheetLayout:
    """Return the frame and title blocks of a page of this width and height.

    A rectangle around everything may be the object itself. It is a frame if a title block is
    attached to it, if there are texts in its margin, if it leaves room for punched holes on the
    left, or if there are dimension lines (pieces and tips) and none measures it.
    """
    known = frozenset(index for own, _ in dimensions for index in own)
    vertical, horizontal = (rules(pieces, known, axis, parameters) for axis in (0, 1))
    rectangles = frames(vertical, horizontal, page, parameters)
    framing = frozenset(index for _, own in rectangles for index in own)
    box = np.array([0.0, 0.0, *page]) if not rectangles else rectangles[-1][0]
    blocks = title_blocks(
        pieces,
        text_boxes,
        known=known | framing,
        box=box,
        framed=bool(rectangles),
        page=page,
        parameters=parameters,
    )
    if not rectangles:
        return SheetLayout(blocks=blocks)
    if not (
        blocks
        or texts_in_margin(rectangles, text_boxes, parameters)
        or has_filing_margin(box, page, parameters)
        or dimensions_inside(pieces, dimensions, box, page, parameters)
    ):
        return SheetLayout(doubtful=bool(len(text_boxes) or dimensions))
    return SheetLayout(framing | marks_at(pieces, box, known, parameters), blocks)


# Frame


def rules(
    pieces: Sequence[Piece],
    known: frozenset[int],
    axis: int,
    parameters: SheetParameters = DEFAULTS,
) -> list[SheetRule]:
    """Return the lines along one axis (0: vertical, 1: horizontal), with their pieces joined."""
    found = []
    for index, piece in enumerate(pieces):
        if index in known or piece.kind is not Kind.LINES or not piece.line_width:
            continue
        box = piece.box
        if piece.is_rectangle:
            for at in (box[axis], box[2 + axis]):
                found.append((at, box[1 - axis], box[3 - axis], index))
        elif box[2 + axis] - box[axis] < parameters.max_thickness and not piece.filled:
            found.append((box[axis], box[1 - axis], box[3 - axis], index))
        elif not piece.filled and len(piece.points) <= parameters.max_polyline_points:
            # An open polyline, for example three sides of a frame.
            for a, b in zip(piece.points[:-1], piece.points[1:], strict=True):
                if abs(a[axis] - b[axis]) < parameters.max_thickness:
                    low, high = sorted((a[1 - axis], b[1 - axis]))
                    found.append((a[axis], low, high, index))
    same = parameters.same_line
    return merged(sorted(found, key=lambda entry: (round(entry[0] / same), entry[1])), same)


def merged(lines: Sequence[tuple[float, float, float, int]], same_line: float) -> list[SheetRule]:
    """Join lines that overlap or follow each other without a gap."""
    found: list[SheetRule] = []
    for at, start, stop, index in lines:
        last = found[-1] if found else None
        if last is not None and abs(last.at - at) < same_line and start <= last.stop + same_line:
            own = last.pieces | {index}
            found[-1] = SheetRule(last.at, last.start, max(last.stop, stop), own)
        else:
            found.append(SheetRule(at, start, stop, frozenset([index])))
    return found


def frames(
    vertical: Sequence[SheetRule],
    horizontal: Sequence[SheetRule],
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
            abs(rule.start - low) < parameters.corner_touch
            and abs(rule.stop - high) < parameters.corner_touch
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
    rectangles: Sequence[tuple[np.ndarray, frozenset[int]]],
    text_boxes: np.ndarray,
    parameters: SheetParameters = DEFAULTS,
) -> bool:
    """Return whether there are several texts between the outermost and innermost rectangles."""
    if len(rectangles) < 2 or not len(text_boxes):
        return False
    centres = (text_boxes[:, :2] + text_boxes[:, 2:]) / 2
    between = within(centres, rectangles[0][0]) & ~within(centres, rectangles[-1][0])
    return int(between.sum()) >= parameters.min_margin_texts


def has_filing_margin(
    box: np.ndarray, page: tuple[float, float], parameters: SheetParameters = DEFAULTS
) -> bool:
    """Return whether the margin is wider on the left and otherwise even, as in ISO 5457."""
    left, top, right, bottom = box[0], box[1], page[0] - box[2], page[1] - box[3]
    others = np.array([top, right, bottom])
    widest = others.max()
    even = np.ptp(others) < parameters.max_margin_difference * widest
    wide_enough = others.min() > parameters.min_margin
    return bool(wide_enough and even and left > parameters.min_filing_margin * widest)


def within(places: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return which points (n x 2) lie in a box."""
    inside = (places >= box[:2]) & (places <= box[2:])
    return np.all(inside, axis=1)


def dimensions_inside(
    pieces: Sequence[Piece],
    dimensions: Sequence[tuple[frozenset[int], np.ndarray]],
    box: np.ndarray,
    page: tuple[float, float],
    parameters: SheetParameters = DEFAULTS,
) -> bool:
    """Return whether dimension lines lie inside a rectangle, and none measures or leaves it."""
    margins = np.array([*box[:2], page[0] - box[2], page[1] - box[3]])
    if not dimensions or margins.min() < parameters.min_margin:
        return False
    inner = box + parameters.corner_touch * np.array([1, 1, -1, -1])
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
    *,
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
        if index not in known and piece.line_width and is_ruled(piece, page, parameters)
    ]
    if not ruled or not len(text_boxes):
        return ()
    centres = (text_boxes[:, :2] + text_boxes[:, 2:]) / 2
    found = []
    for own in touching(pieces, ruled, parameters):
        boxes = np.array([pieces[index].box for index in own])
        around = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
        sides = sum(4 if pieces[index].is_rectangle else 1 for index in own)
        texts = within(centres, around)
        size = around[2:] - around[:2]
        if (
            size.min() < parameters.corner_touch
            or size.prod() > parameters.max_block * page[0] * page[1]
        ):
            continue
        at_left_top = np.abs(around[:2] - box[:2]) < parameters.corner_touch
        at_right_bottom = np.abs(around[2:] - box[2:]) < parameters.corner_touch
        if framed:
            in_corner = (at_left_top | at_right_bottom).all()
            enough = (
                in_corner
                and sides >= parameters.min_block_sides
                and int(texts.sum()) >= parameters.min_block_texts
            )
        else:
            in_corner = (page - around[2:] < parameters.max_bare_margin).all()
            areas = (text_boxes[texts, 2:] - text_boxes[texts, :2]).prod(axis=1)
            filled = areas.sum() > parameters.min_bare_text_area * size.prod()
            enough = (
                in_corner
                and filled
                and sides >= parameters.min_bare_sides
                and int(texts.sum()) >= parameters.min_bare_texts
            )
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


def is_ruled(
    piece: Piece, page: tuple[float, float], parameters: SheetParameters = DEFAULTS
) -> bool:
    """Return whether a piece may be a line of a table."""
    if piece.kind is not Kind.LINES or piece.dash_pattern:
        return False
    if piece.is_rectangle:
        largest = parameters.max_table_line * np.array(page)
        return bool((piece.box[2:] - piece.box[:2] < largest).all())
    if not piece.is_straight or piece.extent >= parameters.max_table_line * max(page):
        return False
    return bool((piece.box[2:] - piece.box[:2]).min() < parameters.max_thickness)


def touching(
    pieces: Sequence[Piece], ruled: Sequence[int], parameters: SheetParameters = DEFAULTS
) -> list[list[int]]:
    """Return groups of lines that touch each other."""
    raster = empty_raster(parameters.raster)
    corners = {index: on_raster(pieces[index].points, parameters.raster) for index in ruled}
    for index in ruled:
        cv2.polylines(raster, [corners[index]], pieces[index].closed, 255, parameters.raster_line)
    _, labels = cv2.connectedComponents(raster)
    groups: dict[int, list[int]] = {}
    for index in ruled:
        x, y = corners[index][0]
        groups.setdefault(int(labels[y, x]), []).append(index)
    return list(groups.values())
