"""Centre lines among the lines of a page: alternating dashes and dots, never part of an object.

All lengths are fractions of the longer side of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from niom_ros.images.pages.line_work import Kind, Piece


@dataclass(frozen=True, kw_only=True)
class CentreLineParameters:
    """What counts as a centre line."""

    dash_dot: int = 4  # lengths in the pattern; that of a hidden edge has 2
    max_dash: float = 0.12
    max_dash_points: int = 4  # of a dash in the file
    min_gap: float = 0.0004
    max_gap: float = 0.02
    max_gap_ratio: float = 2.0  # of the widest gap to the narrowest
    min_dashes: int = 5  # dash, dot, dash, dot, dash
    min_ratio: float = 2.0  # of a dash to a dot
    same_line: float = 0.0008  # sideways distance up to which dashes lie on one line
    same_direction: float = float(np.radians(0.5))


DEFAULTS = CentreLineParameters()


def find_centre_lines(
    pieces: Sequence[Piece], without: set[int], parameters: CentreLineParameters = DEFAULTS
) -> list[frozenset[int]]:
    """Return the pieces of each centre line, ignoring those known to be something else."""
    dashed = [
        frozenset([index])
        for index, piece in enumerate(pieces)
        if index not in without
        and piece.kind is Kind.LINES
        and not piece.filled
        and piece.dash_pattern >= parameters.dash_dot
    ]
    return dashed + of_single_dashes(pieces, without, parameters)


def of_single_dashes(
    pieces: Sequence[Piece], without: set[int], parameters: CentreLineParameters = DEFAULTS
) -> list[frozenset[int]]:
    """Return the centre lines whose dashes are separate lines in the file."""
    dashes = [
        index
        for index, piece in enumerate(pieces)
        if index not in without
        and piece.extent < parameters.max_dash
        and len(piece.points) <= parameters.max_dash_points
        and not piece.dash_pattern
        and piece.is_straight
    ]
    if len(dashes) < parameters.min_dashes:
        return []
    starts, stops = np.array([pieces[index].corners for index in dashes]).swapaxes(0, 1)
    turned = (stops[:, 0] < starts[:, 0]) | (
        (stops[:, 0] == starts[:, 0]) & (stops[:, 1] < starts[:, 1])
    )
    starts, stops = (
        np.where(turned[:, None], stops, starts),
        np.where(turned[:, None], starts, stops),
    )
    step = parameters.same_direction
    angles = np.rint(np.arctan2(*(stops - starts).T[::-1]) / step)
    # Only vertical lines have two possible angles.
    angles[angles == np.rint(-np.pi / 2 / step)] *= -1
    found = []
    for angle in np.unique(angles):
        alike = np.flatnonzero(angles == angle)
        axis = np.array([np.cos(angle * step), np.sin(angle * step)])
        middles = (starts[alike] + stops[alike]) / 2
        aside = middles @ np.array([-axis[1], axis[0]])
        order = np.argsort(aside, kind='stable')
        cuts = np.flatnonzero(np.diff(aside[order]) > parameters.same_line) + 1
        for row in np.split(alike[order], cuts):
            ends = np.sort(np.stack([starts[row] @ axis, stops[row] @ axis], axis=1), axis=1)
            along = np.argsort(ends[:, 0], kind='stable')
            found += [
                frozenset(dashes[int(which)] for which in row[along][run])
                for run in dash_dot_runs(ends[along], parameters)
            ]
    return found


def dash_dot_runs(ends: np.ndarray, parameters: CentreLineParameters = DEFAULTS) -> list[slice]:
    """Return where dashes and dots alternate; their ends (n x 2) are positions along one line."""
    lengths = ends[:, 1] - ends[:, 0]
    gaps = ends[1:, 0] - ends[:-1, 1]
    follows = (gaps > parameters.min_gap) & (gaps < parameters.max_gap)
    breaks = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(ends)]
    found = []
    for begin, end in pairwise(breaks):
        if end - begin < parameters.min_dashes:
            continue
        even, odd = lengths[begin:end:2], lengths[begin + 1 : end : 2]
        # The first and the last may be shortened, so compare medians.
        ratio = float(np.median(even) / max(float(np.median(odd)), 1e-9))
        own_gaps = gaps[begin : end - 1]
        regular = own_gaps.max() < parameters.max_gap_ratio * own_gaps.min()
        if regular and (ratio > parameters.min_ratio or ratio < 1 / parameters.min_ratio):
            found.append(slice(begin, end))
    return found
