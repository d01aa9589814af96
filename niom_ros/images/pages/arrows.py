"""Dimension lines, leaders and extension lines among the lines of a page.

A dimension line is recognised by its ends: arrow heads (filled, outlined or of two strokes) or
oblique ticks. All lengths are fractions of the longer side of the page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from niom_ros.images.pages.line_work import Kind, Piece


def cosine(degrees: float) -> float:
    """Return the cosine of an angle in degrees."""
    return float(np.cos(np.radians(degrees)))


@dataclass(frozen=True, kw_only=True)
class DimensionParameters:
    """What counts as an arrow head, a tick, an extension line or a leader."""

    touch: float = 0.0015  # ends closer than this touch
    max_samples: int = 2000  # points along a straight line, to find what touches it
    min_parallel: float = cosine(12)  # cosine between parallel lines
    max_halves: int = 500  # lines with one head that are compared with each other

    # Arrow heads; lengths relative to the length of the head, from its base to its tip.
    min_head: float = 0.002  # extent on the page
    max_head: float = 0.05
    min_head_length: float = 0.7  # relative to the smallest extent
    max_head_points: int = 20  # of its line in the file
    max_leg_difference: float = 0.15  # between its legs, relative to the longer one
    min_half_base: float = 0.05
    max_half_base: float = 1.0
    min_notch: float = 0.05  # depth of a notch in the base
    max_notch: float = 0.8
    max_notch_aside: float = 0.1  # distance of a notch from the axis
    max_stroke_gap: float = 1 / 3  # between the two strokes of a head, relative to `touch`

    # Heads on lines; lengths relative to the length of the head.
    max_head_on_line: float = 0.45  # share of the length of its line
    max_head_aside: float = 0.2  # distance of tip and base from the line
    curve_reach: float = 0.8  # from the end of a bent line to the middle of its head
    min_curve: float = 1.5  # size of a bent line
    curve_end: float = 1.2  # part of a bent line that shows its direction
    min_curve_cosine: float = cosine(25)  # between that direction and the head

    # Ticks are oblique, at 45 degrees on most drawings.
    max_tick_overrun: float = 0.006  # of a dimension line beyond its ticks
    min_tick_cosine: float = cosine(62)  # between a tick and its line
    max_tick_cosine: float = cosine(28)
    max_tick_aside: float = 0.05  # distance of its middle from the line, share of its length
    max_tick_on_line: float = 0.3  # share of the length of its line
    max_tick_difference: float = 0.1  # between the lengths of both, relative to the first

    # Extension lines and leaders
    max_extension_width: float = 1.5  # relative to that of the dimension line
    max_overrun: float = 0.02  # of an extension line beyond the dimension line
    max_overrun_share: float = 0.5  # of the length of the extension line
    max_extension_cosine: float = cosine(50)  # between it and its dimension line
    max_shelf: float = 0.12  # length of the line below the text of a leader
    text_reach: float = 3.0  # text heights from a text to its line


DEFAULTS = DimensionParameters()


@dataclass(frozen=True)
class Head:
    """An arrow head or a tick."""

    pieces: tuple[int, ...]
    tip: np.ndarray
    back: np.ndarray  # the middle of its base; for a tick, its tip

    @property
    def length(self) -> float:
        """Return the distance from base to tip."""
        return float(np.linalg.norm(self.tip - self.back))


@dataclass(frozen=True)
class Dimension:
    """A dimension line or a leader with all of its pieces."""

    line: int
    pieces: frozenset[int]
    tips: np.ndarray  # n x 2


def find_dimensions(
    pieces: Sequence[Piece], text_boxes: np.ndarray, parameters: DimensionParameters = DEFAULTS
) -> list[Dimension]:
    """Return the dimension lines and leaders of a page, with heads and extension lines.

    A line needs two heads, or one and a text (boxes: n x 4) at its other end, or one and a line
    continuing it that has the other.
    """
    lines = open_lines(pieces, parameters.min_head)
    if not lines:
        return []
    heads = arrow_heads(pieces, parameters)
    held = heads_of_lines(pieces, lines, heads, parameters)
    ticked = ticks_of_lines(pieces, lines, parameters)
    found = []
    single = []
    for line in lines:
        ends = held.get(line, []) + marked_ends(pieces[line])
        if len(distinct_tips(ends, parameters.touch)) >= 2:
            found.append((line, ends))
        elif line in ticked:
            found.append((line, ticked[line]))
        elif ends:
            single.append((line, ends))
    found += [
        (line, ends)
        for line, ends in single
        if near_text(other_end(pieces[line], ends[0].tip), text_boxes, parameters.text_reach)
        or any(
            other != line
            and continues(pieces[line], ends[0], pieces[other], others[0], parameters.touch)
            for other, others in single[: parameters.max_halves]
        )
    ]
    taken = {index for line, ends in found for index in (line, *members(ends))}
    free = FreeEnds(pieces, taken, parameters)
    others = [line for line in lines if line not in taken and pieces[line].is_straight]
    boxes = np.array([pieces[other].box for other in others]).reshape(-1, 4)
    dimensions = []
    for line, ends in found:
        own = {line, *members(ends)}
        tips = distinct_tips(ends, parameters.touch)
        for tip in tips:
            near = [others[which] for which in boxes_around(tip, boxes, parameters.touch)]
            own |= extension_lines(pieces, line, tip, near, free, parameters)
        if len(tips) == 1:
            end = other_end(pieces[line], tips[0])
            near = [others[which] for which in boxes_around(end, boxes, parameters.touch)]
            own |= shelf(pieces, end, near, free, text_boxes, parameters)
        dimensions.append(Dimension(line, frozenset(own), np.array(tips)))
    return dimensions


def members(heads: Iterable[Head]) -> list[int]:
    """Return the pieces that heads are made of."""
    return [index for head in heads for index in head.pieces]


def open_lines(pieces: Sequence[Piece], min_extent: float) -> list[int]:
    """Return which pieces are lines or curves with two ends."""
    return [
        index
        for index, piece in enumerate(pieces)
        if piece.kind is Kind.LINES
        and piece.line_width
        and not piece.filled
        and not piece.closed
        and not piece.dash_pattern
        and len(piece.points) > 1
        and piece.extent > min_extent
    ]


# Arrow heads


def arrow_heads(pieces: Sequence[Piece], parameters: DimensionParameters = DEFAULTS) -> list[Head]:
    """Return all candidates for arrow heads; their lines decide which of them are."""
    heads = []
    short = []
    for index, piece in enumerate(pieces):
        if piece.kind is not Kind.LINES or piece.dash_pattern:
            continue
        if not parameters.min_head <= piece.extent <= parameters.max_head:
            continue
        if len(piece.points) > parameters.max_head_points:
            continue
        corners = piece.corners
        if (piece.closed or piece.filled) and len(corners) in (3, 4):
            head = closed_head(index, corners, parameters)
        elif piece.line_width and len(corners) == 3:
            head = head_between(index, corners[1], corners[0], corners[2], parameters)
        else:
            head = None
            if piece.is_straight:
                short.append(index)
        if head is not None:
            heads.append(head)
    return heads + heads_of_two_strokes(pieces, short, parameters)


def closed_head(
    index: int, corners: np.ndarray, parameters: DimensionParameters = DEFAULTS
) -> Head | None:
    """Return a triangle, or one with a notch in its base, as an arrow head."""
    best = None
    for tip in range(len(corners)):
        left, right = corners[tip - 1], corners[(tip + 1) % len(corners)]
        head = head_between(index, corners[tip], left, right, parameters)
        if head is None:
            continue
        if len(corners) == 4:
            notch = corners[(tip + 2) % 4]
            inwards = (notch - head.back) @ (head.tip - head.back) / head.length**2
            aside = abs(cross(head.tip - head.back, notch - head.back)) / head.length
            deep_enough = parameters.min_notch < inwards < parameters.max_notch
            if not (deep_enough and aside < parameters.max_notch_aside * head.length):
                continue
        if best is None or head.length > best.length:
            best = head
    return best


def head_between(
    index: int,
    tip: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    parameters: DimensionParameters = DEFAULTS,
) -> Head | None:
    """Return the head of two legs of similar length, if these are not too far apart."""
    legs = np.linalg.norm([left - tip, right - tip], axis=1)
    back = (left + right) / 2
    length, half_base = np.linalg.norm(tip - back), np.linalg.norm(left - right) / 2
    alike = abs(legs[0] - legs[1]) < parameters.max_leg_difference * legs.max()
    narrowest, widest = parameters.min_half_base * length, parameters.max_half_base * length
    long_enough = length >= parameters.min_head_length * parameters.min_head
    if alike and narrowest < half_base < widest and long_enough:
        return Head((index,), tip, back)
    return None


def heads_of_two_strokes(
    pieces: Sequence[Piece], short: Sequence[int], parameters: DimensionParameters = DEFAULTS
) -> list[Head]:
    """Return the heads made of two short strokes with a common end."""
    if len(short) < 2:
        return []
    ends = np.concatenate([pieces[index].corners for index in short])
    heads = []
    for first, second in cKDTree(ends).query_pairs(parameters.max_stroke_gap * parameters.touch):
        a, b = short[first // 2], short[second // 2]
        if a != b:
            tips = ends[first], ends[first ^ 1], ends[second ^ 1]
            head = head_between(a, *tips, parameters)
            if head is not None:
                heads.append(Head((a, b), head.tip, head.back))
    return heads


def marked_ends(piece: Piece) -> list[Head]:
    """Return the heads that the file itself puts on the ends of a line."""
    ends = (piece.points[0], piece.points[-1])
    return [Head((), end, end) for end, marked in zip(ends, piece.pointed, strict=True) if marked]


def heads_of_lines(
    pieces: Sequence[Piece],
    lines: Sequence[int],
    heads: Sequence[Head],
    parameters: DimensionParameters = DEFAULTS,
) -> dict[int, list[Head]]:
    """Return the heads that lie along each line."""
    starts = np.array([pieces[line].points[0] for line in lines])
    stops = np.array([pieces[line].points[-1] for line in lines])
    lengths = np.maximum(np.linalg.norm(stops - starts, axis=1), 1e-9)
    directions = (stops - starts) / lengths[:, None]
    straight = np.array([pieces[line].is_straight for line in lines])
    tree = cKDTree(np.concatenate([starts, stops]))
    held: dict[int, list[Head]] = {}
    for head in heads:
        pointing = (head.tip - head.back) / head.length
        middle = (head.tip + head.back) / 2
        along = ((middle - starts) * directions).sum(axis=1)
        near = straight & (np.abs(directions @ pointing) > parameters.min_parallel)
        near &= (along > -head.length) & (along < lengths + head.length)
        near &= head.length < parameters.max_head_on_line * lengths
        for place in (head.tip, head.back):
            offsets = place - starts
            aside = directions[:, 0] * offsets[:, 1] - directions[:, 1] * offsets[:, 0]
            near &= np.abs(aside) < parameters.max_head_aside * head.length
        chosen = {lines[int(which)] for which in np.flatnonzero(near)}
        reach = parameters.curve_reach * head.length + parameters.touch
        for end in tree.query_ball_point(middle, reach):
            which, at_stop = end % len(lines), end >= len(lines)
            bent = not straight[which]
            if bent and curve_ends_along(pieces[lines[which]], at_stop, head, parameters):
                chosen.add(lines[which])
        for line in chosen - set(head.pieces):
            held.setdefault(line, []).append(head)
    return held


def curve_ends_along(
    piece: Piece, at_stop: bool, head: Head, parameters: DimensionParameters = DEFAULTS
) -> bool:
    """Return whether a bent line, such as that of an angle or a leader, ends in a head."""
    points = piece.points[::-1] if at_stop else piece.points
    away = np.linalg.norm(points - points[0], axis=1)
    if away.max() < parameters.min_curve * head.length:
        return False
    further = points[int(np.argmax(away > parameters.curve_end * head.length))]
    outwards = points[0] - further
    pointing = head.tip - head.back
    along = outwards @ pointing / np.linalg.norm(outwards) / head.length
    return bool(along > parameters.min_curve_cosine)


def distinct_tips(heads: Iterable[Head], touch: float) -> list[np.ndarray]:
    """Return the tips of heads, each once: a head may be drawn filled and as an outline."""
    tips: list[np.ndarray] = []
    for head in heads:
        if all(np.linalg.norm(head.tip - tip) > max(touch, head.length) for tip in tips):
            tips.append(head.tip)
    return tips


# Ticks


def ticks_of_lines(
    pieces: Sequence[Piece], lines: Sequence[int], parameters: DimensionParameters = DEFAULTS
) -> dict[int, list[Head]]:
    """Return the ticks of each line that has oblique ones at both ends."""
    straight = [line for line in lines if pieces[line].is_straight]
    ends = np.array([pieces[line].corners for line in straight]).reshape(-1, 2, 2)
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    directions = (ends[:, 1] - ends[:, 0]) / lengths[:, None]
    middles = ends.mean(axis=1)
    short = np.flatnonzero(lengths < parameters.max_head)
    if not len(short):
        return {}
    tree = cKDTree(middles[short])
    at_ends: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    for side in (0, 1):
        near = tree.query_ball_point(ends[:, side], parameters.max_tick_overrun)
        line = np.repeat(np.arange(len(straight)), [len(found) for found in near])
        tick = short[np.concatenate([np.array(found, int) for found in near])]
        slope = np.abs((directions[line] * directions[tick]).sum(axis=1))
        offset = middles[tick] - ends[line, side]
        aside = directions[line, 0] * offset[:, 1] - directions[line, 1] * offset[:, 0]
        fits = (parameters.min_tick_cosine < slope) & (slope < parameters.max_tick_cosine)
        fits &= np.abs(aside) < parameters.max_tick_aside * lengths[tick]
        fits &= lengths[tick] < parameters.max_tick_on_line * lengths[line]
        for one, its_tick in zip(line[fits].tolist(), tick[fits].tolist(), strict=True):
            at_ends[side].setdefault(one, []).append(its_tick)
    found = {}
    for one in at_ends[0].keys() & at_ends[1].keys():
        for first, second in product(at_ends[0][one], at_ends[1][one]):
            parallel = abs(directions[first] @ directions[second]) > parameters.min_parallel
            difference = abs(lengths[first] - lengths[second])
            alike = difference < parameters.max_tick_difference * lengths[first]
            if first != second and parallel and alike:
                found[straight[one]] = [
                    Head((straight[tick],), middles[tick], middles[tick])
                    for tick in (first, second)
                ]
    return found


# What belongs to a dimension line


def other_end(piece: Piece, tip: np.ndarray) -> np.ndarray:
    """Return the end of a line that is farther from a point."""
    return max(piece.points[0], piece.points[-1], key=lambda end: float(np.linalg.norm(end - tip)))


def near_text(place: np.ndarray, text_boxes: np.ndarray, reach: float) -> bool:
    """Return whether a text is close to a point."""
    if not len(text_boxes):
        return False
    sizes = text_boxes[:, 2:] - text_boxes[:, :2]
    heights = sizes.min(axis=1)
    away = np.maximum(text_boxes[:, :2] - place, place - text_boxes[:, 2:]).max(axis=1)
    return bool((away < reach * heights).any())


def continues(piece: Piece, head: Head, other: Piece, other_head: Head, touch: float) -> bool:
    """Return whether two lines are halves of one dimension line, with opposite heads."""
    if not (piece.is_straight and other.is_straight):
        return False
    between = other_head.tip - head.tip
    distance = float(np.linalg.norm(between))
    if distance < touch:
        return False
    axis = between / distance
    ends = np.concatenate([piece.corners, other.corners]) - head.tip
    aside = np.abs(axis[0] * ends[:, 1] - axis[1] * ends[:, 0])
    facing = (head.tip - head.back) @ axis * ((other_head.tip - other_head.back) @ axis)
    return bool(aside.max() < touch and facing < 0)


class FreeEnds:
    """Finds out which line ends do not touch another line."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        taken: set[int],
        parameters: DimensionParameters = DEFAULTS,
    ) -> None:
        """Use all lines except those taken, which are known to be annotations."""
        self._touch = parameters.touch
        spots, owners = [], []
        for index, piece in enumerate(pieces):
            if piece.kind is Kind.LINES and index not in taken and not piece.dash_pattern:
                dense = densified(piece, parameters)
                spots.append(dense)
                owners.append(np.full(len(dense), index))
        self._owners = np.concatenate(owners) if owners else np.zeros(0, int)
        self._tree = cKDTree(np.concatenate(spots)) if spots else None

    def is_free(self, end: np.ndarray, own: int) -> bool:
        """Return whether an end of a line touches nothing else."""
        if self._tree is None:
            return True
        near = self._tree.query_ball_point(end, self._touch)
        return bool((self._owners[near] == own).all())


def densified(piece: Piece, parameters: DimensionParameters = DEFAULTS) -> np.ndarray:
    """Return points along a line, close enough to each other to find what touches it."""
    points = piece.points
    if piece.closed:
        points = np.vstack([points, points[:1]])
    steps = np.diff(points, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    counts = np.minimum(parameters.max_samples, (lengths / parameters.touch).astype(int) + 1)
    which = np.repeat(np.arange(len(steps)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    dense = points[which] + steps[which] * (within / counts[which])[:, None]
    return np.concatenate([dense, points[-1:]])


def boxes_around(place: np.ndarray, boxes: np.ndarray, touch: float) -> np.ndarray:
    """Return which boxes (n x 4) a point is in, or touches."""
    inside = (boxes[:, :2] - touch < place) & (place < boxes[:, 2:] + touch)
    return np.flatnonzero(inside.all(axis=1))


def extension_lines(
    pieces: Sequence[Piece],
    line: int,
    tip: np.ndarray,
    near: Sequence[int],
    free: FreeEnds,
    parameters: DimensionParameters = DEFAULTS,
) -> set[int]:
    """Return the lines that lead from the object to a tip of a dimension line.

    They cross it close to their free end; an edge of the object ends at another edge.
    """
    found = set()
    direction = direction_at(pieces[line], tip)
    for index in near:
        piece = pieces[index]
        start, stop = piece.corners
        length = float(np.linalg.norm(stop - start))
        axis = (stop - start) / length
        along = float((tip - start) @ axis)
        overrun, end = min((along, 0), (length - along, 1))
        farthest = min(parameters.max_overrun, parameters.max_overrun_share * length)
        if (
            piece.line_width < parameters.max_extension_width * pieces[line].line_width
            and abs(cross(axis, tip - start)) < parameters.touch
            and -parameters.touch < overrun < farthest
            and abs(axis @ direction) < parameters.max_extension_cosine
            and free.is_free((start, stop)[end], index)
        ):
            found.add(index)
    return found


def direction_at(piece: Piece, place: np.ndarray) -> np.ndarray:
    """Return the direction of a line where it is closest to a point."""
    points = piece.points
    nearest = int(np.argmin(np.linalg.norm(points - place, axis=1)))
    step = points[min(nearest + 1, len(points) - 1)] - points[max(nearest - 1, 0)]
    return step / max(float(np.linalg.norm(step)), 1e-9)


def shelf(
    pieces: Sequence[Piece],
    end: np.ndarray,
    near: Sequence[int],
    free: FreeEnds,
    text_boxes: np.ndarray,
    parameters: DimensionParameters = DEFAULTS,
) -> set[int]:
    """Return the line below the text of a leader, if it is a separate line."""
    found = set()
    for index in near:
        ends = pieces[index].corners
        away = np.linalg.norm(ends - end, axis=1)
        far = ends[int(away.argmax())]
        if (
            away.min() < parameters.touch
            and away.max() < parameters.max_shelf
            and free.is_free(far, index)
            and near_text((end + far) / 2, text_boxes, parameters.text_reach)
        ):
            found.add(index)
    return found


def cross(first: np.ndarray, second: np.ndarray) -> float:
    """Return the cross product of two vectors in the plane."""
    return float(first[0] * second[1] - first[1] * second[0])
