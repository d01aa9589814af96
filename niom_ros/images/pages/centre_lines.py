"""Centre lines among the lines of a page: dashes and dots in turn, which no object shows.

All lengths are fractions of the longer side of the page.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from niom_ros.images.pages.line_work import Kind, Piece

DASH_DOT = 4  # lengths after which the pattern repeats; that of a hidden edge has 2
LONGEST_DASH = 0.12
WIDEST_GAP, SMALLEST_GAP = 0.02, 0.0004
FEWEST_DASHES = 5  # dash, dot, dash, dot, dash
LEAST_RATIO = 2.0  # of a dash to a dot
SAME_LINE = 0.0008
SAME_DIRECTION = np.radians(0.5)


def find_centre_lines(pieces: Sequence[Piece], without: set[int]) -> list[frozenset[int]]:
    """Return the pieces of each centre line, leaving aside what is known to be something else."""
    dashed = [
        frozenset([index])
        for index, piece in enumerate(pieces)
        if index not in without
        and piece.kind is Kind.LINES
        and not piece.filled
        and piece.dash_pattern >= DASH_DOT
    ]
    return dashed + of_single_dashes(pieces, without)


def of_single_dashes(pieces: Sequence[Piece], without: set[int]) -> list[frozenset[int]]:
    """Return the centre lines whose dashes the file has as lines of their own."""
    dashes = [
        index
        for index, piece in enumerate(pieces)
        if index not in without
        and piece.extent < LONGEST_DASH
        and len(piece.points) < 5
        and not piece.dash_pattern
        and piece.is_straight
    ]
    if len(dashes) < FEWEST_DASHES:
        return []
    starts, stops = np.array([pieces[index].corners for index in dashes]).swapaxes(0, 1)
    turned = (stops[:, 0] < starts[:, 0]) | (
        (stops[:, 0] == starts[:, 0]) & (stops[:, 1] < starts[:, 1])
    )
    starts, stops = (
        np.where(turned[:, None], stops, starts),
        np.where(turned[:, None], starts, stops),
    )
    angles = np.rint(np.arctan2(*(stops - starts).T[::-1]) / SAME_DIRECTION)
    # The one direction that has two angles.
    angles[angles == np.rint(-np.pi / 2 / SAME_DIRECTION)] *= -1
    found = []
    for angle in np.unique(angles):
        alike = np.flatnonzero(angles == angle)
        axis = np.array([np.cos(angle * SAME_DIRECTION), np.sin(angle * SAME_DIRECTION)])
        middles = (starts[alike] + stops[alike]) / 2
        aside = middles @ np.array([-axis[1], axis[0]])
        order = np.argsort(aside, kind='stable')
        cuts = np.flatnonzero(np.diff(aside[order]) > SAME_LINE) + 1
        for row in np.split(alike[order], cuts):
            ends = np.sort(np.stack([starts[row] @ axis, stops[row] @ axis], axis=1), axis=1)
            along = np.argsort(ends[:, 0], kind='stable')
            found += [
                frozenset(dashes[int(which)] for which in row[along][run])
                for run in dash_dot_runs(ends[along])
            ]
    return found


def dash_dot_runs(ends: np.ndarray) -> list[slice]:
    """Return where dashes and dots follow each other in turn; ends (n x 2) are along one line."""
    lengths = ends[:, 1] - ends[:, 0]
    gaps = ends[1:, 0] - ends[:-1, 1]
    follows = (gaps > SMALLEST_GAP) & (gaps < WIDEST_GAP)
    breaks = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(ends)]
    found = []
    for begin, end in pairwise(breaks):
        if end - begin < FEWEST_DASHES:
            continue
        even, odd = lengths[begin:end:2], lengths[begin + 1 : end : 2]
        # The first and the last may be cut.
        ratio = float(np.median(even) / max(float(np.median(odd)), 1e-9))
        own_gaps = gaps[begin : end - 1]
        regular = own_gaps.max() < 2 * own_gaps.min()
        if regular and (ratio > LEAST_RATIO or ratio < 1 / LEAST_RATIO):
            found.append(slice(begin, end))
    return found
