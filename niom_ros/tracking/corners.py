"""Corners of a frame to track, and where they moved in the next one."""

from dataclasses import dataclass

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.tracking.frames import GreyFrame


@dataclass(frozen=True)
class CornerParameters:
    """Which corners of a frame are chosen."""

    max_corners: int = 120  # more cost time and hardly add anything
    min_quality: float = 0.003  # relative to the strongest corner: noise has corners too
    cells: int = 12  # in each direction, over which corners are spread
    border: int = 4  # pixels from the edge of the frame, so that patches are complete


@dataclass(frozen=True, kw_only=True)
class FlowParameters:
    """How corners are tracked to the next frame, with pyramidal Lucas-Kanade."""

    max_points: int = 80  # the first ones; corners are ordered so that these are well spread
    window: int = 13  # pixels of the half-size frame
    levels: int = 3  # below the half-size frame: enough for shifts of about 100 pixels
    max_iterations: int = 10  # on each level
    min_step: float = 0.05  # pixels; a smaller step ends the iteration
    max_return_error: float = 1.0  # pixels of the half-size frame, of the forward-backward check
    reprojection_error: float = 2.0  # pixels of the frame, for the homography of the motion


CORNER_DEFAULTS = CornerParameters()
FLOW_DEFAULTS = FlowParameters()
MIN_FIT_POINTS = 8  # twice as many as define a homography


def choose_corners(
    frame: GreyFrame, area: np.ndarray, parameters: CornerParameters = CORNER_DEFAULTS
) -> np.ndarray:
    """Return corners of a frame inside a convex area, spread over it: N x 2.

    The points of the match itself are not used: those of drawings lie on lines, along which a
    point can slide unnoticed (the aperture problem), and those of networks are not always where a
    small shift is visible. At a corner the smaller eigenvalue is large, so it cannot slide.
    """
    border, cells = parameters.border, parameters.cells
    mask = np.zeros(frame.levels[0].shape, np.uint8)
    cv2.fillConvexPoly(mask, np.rint(area.clip(-1e4, 1e4)).astype(np.int32), 255)
    mask[:border] = mask[-border:] = 0
    mask[:, :border] = mask[:, -border:] = 0
    left, top, width, height = cv2.boundingRect(mask)
    if not width:
        return np.empty((0, 2))
    part = np.s_[top : top + height, left : left + width]
    strength = cv2.cornerMinEigenVal(frame.levels[0][part], 5)
    peaks = (strength == cv2.dilate(strength, np.ones((5, 5)))) & (mask[part] != 0)
    peaks &= strength > parameters.min_quality * np.quantile(strength, 0.999)
    rows, columns = np.nonzero(peaks)
    # The best of each cell in turn, then the second best of each, and so on.
    order = np.argsort(-strength[rows, columns], kind='stable')
    rows, columns = rows[order], columns[order]
    cell = rows * cells // height * cells + columns * cells // width
    by_cell = np.argsort(cell, kind='stable')
    starts = np.searchsorted(cell[by_cell], cell[by_cell])
    rank_in_cell = np.empty(len(cell), int)
    rank_in_cell[by_cell] = np.arange(len(cell)) - starts
    chosen = np.argsort(rank_in_cell, kind='stable')[: parameters.max_corners]
    return np.column_stack([columns[chosen] + left, rows[chosen] + top]).astype(np.float64)


def motion_between(
    before: GreyFrame,
    after: GreyFrame,
    points: np.ndarray,
    parameters: FlowParameters = FLOW_DEFAULTS,
) -> np.ndarray | None:
    """Return the homography of points from one frame to the next; None: there is none.

    Half-size frames are accurate enough for this: patches are aligned afterwards.
    """
    start = (points[: parameters.max_points] / 2).astype(np.float32)[:, None]
    if len(points) < MIN_FIT_POINTS:
        return None
    moved, found = optical_flow(before, after, start, parameters)
    returned, found_back = optical_flow(after, before, moved, parameters)
    return_error = np.linalg.norm(returned - start, axis=2).ravel()
    kept = found & found_back & (return_error < parameters.max_return_error)
    return fit_homography(2 * start[kept, 0], 2 * moved[kept, 0], parameters.reprojection_error)[0]


def optical_flow(
    before: GreyFrame, after: GreyFrame, start: np.ndarray, parameters: FlowParameters
) -> tuple[np.ndarray, np.ndarray]:
    """Track N x 1 x 2 points of the half-size frame; return where, and which were found."""
    # OpenCV's Python accepts no pyramids here, so it builds its own from the half-size frames.
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before.levels[1],
        after.levels[1],
        start,
        np.empty_like(start),
        winSize=(parameters.window, parameters.window),
        maxLevel=parameters.levels,
        criteria=(
            cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT,
            parameters.max_iterations,
            parameters.min_step,
        ),
    )
    return moved, found.ravel().astype(bool)


def fit_homography(
    from_points: np.ndarray, to_points: np.ndarray, reprojection_error: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the homography that most points agree with, and which ones do."""
    no_inliers = np.zeros(len(from_points), bool)
    if len(from_points) < MIN_FIT_POINTS:
        return None, no_inliers
    # OpenCV's USAC always starts from the same random state: equal frames give equal results.
    homography, _ = cv2.findHomography(
        from_points,
        to_points,
        cv2.USAC_MAGSAC,
        reprojection_error,
        maxIters=500,
        confidence=0.999,
    )
    if homography is None or not np.isfinite(homography).all() or abs(homography[2, 2]) < 1e-9:
        return None, no_inliers
    homography = homography / homography[2, 2]
    offsets = warp_points(homography, from_points) - to_points
    return homography, np.linalg.norm(offsets, axis=1) < reprojection_error
