"""Points of a frame that are worth following, and where they went in the next one."""

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.tracking.frames import GreyFrame

MOST_CORNERS = 120  # more cost time and say hardly more
POOREST_CORNER = 0.003  # of the best one: noise has corners too
MOST_FOLLOWED = 80  # to the next frame: the best of each part come first
CELLS = 12  # in each direction, over which corners are spread
BORDER = 4  # pixels from the edge of a frame: beyond, a square is not whole
WINDOW = (13, 13)  # in pixels of the halved frame
WHEN_TO_STOP = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 10, 0.05)
FLOW_LEVELS = 3  # below the halved frame: shifts up to about 100 pixels are followed
FARTHEST_RETURN = 1.0  # pixels of the halved frame between a point and where its way back ends
SEED_FREE = cv2.USAC_MAGSAC  # OpenCV's USAC starts from the same state each time
FEWEST_FOR_A_VIEW = 8


def choose_corners(frame: GreyFrame, area: np.ndarray) -> np.ndarray:
    """Return corners of a frame inside a convex area, spread over it: N x 2.

    Not the points of the match itself: those of drawings lie along lines, on which a point slips
    without looking any different (the aperture problem), and those of networks are not always
    where a small shift shows. The smaller curvature of a corner is large: no direction is free.
    """
    mask = np.zeros(frame.levels[0].shape, np.uint8)
    cv2.fillConvexPoly(mask, np.rint(area.clip(-1e4, 1e4)).astype(np.int32), 255)
    mask[:BORDER] = mask[-BORDER:] = 0
    mask[:, :BORDER] = mask[:, -BORDER:] = 0
    left, top, width, height = cv2.boundingRect(mask)
    if not width:
        return np.empty((0, 2))
    part = np.s_[top : top + height, left : left + width]
    strength = cv2.cornerMinEigenVal(frame.levels[0][part], 5)
    peaks = (strength == cv2.dilate(strength, np.ones((5, 5)))) & (mask[part] != 0)
    peaks &= strength > POOREST_CORNER * np.quantile(strength, 0.999)
    rows, columns = np.nonzero(peaks)
    strengths = strength[rows, columns]
    # Turn by turn the best of each cell, then the second best of each, and so on.
    order = np.argsort(-strengths, kind='stable')
    rows, columns = rows[order], columns[order]
    cells = rows * CELLS // height * CELLS + columns * CELLS // width
    by_cell = np.argsort(cells, kind='stable')
    starts = np.searchsorted(cells[by_cell], cells[by_cell])
    turns = np.empty(len(cells), int)
    turns[by_cell] = np.arange(len(cells)) - starts
    chosen = np.argsort(turns, kind='stable')[:MOST_CORNERS]
    return np.column_stack([columns[chosen] + left, rows[chosen] + top]).astype(np.float64)


def motion_between(before: GreyFrame, after: GreyFrame, points: np.ndarray) -> np.ndarray | None:
    """Return the homography that moves points of one frame to the next; None: no common one.

    On halved frames, because it need not be exact: patches are aligned afterwards.
    """
    start = (points[:MOST_FOLLOWED] / 2).astype(np.float32)[:, None]
    if len(points) < FEWEST_FOR_A_VIEW:
        return None
    moved, found = follow(before, after, start)
    returned, found_back = follow(after, before, moved)
    back = np.linalg.norm(returned - start, axis=2).ravel() < FARTHEST_RETURN
    kept = found & found_back & back
    return fit_view(2 * start[kept, 0], 2 * moved[kept, 0], 2.0)[0]


def follow(
    before: GreyFrame, after: GreyFrame, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Follow N x 1 x 2 points of the halved frame to the next; tell where to, and which."""
    # OpenCV's Python takes no pyramids here, so it halves the halved frames again itself.
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before.levels[1],
        after.levels[1],
        start,
        np.empty_like(start),
        winSize=WINDOW,
        maxLevel=FLOW_LEVELS,
        criteria=WHEN_TO_STOP,
    )
    return moved, found.ravel().astype(bool)


def fit_view(
    from_points: np.ndarray, to_points: np.ndarray, farthest: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the homography that most points agree with, and which ones do."""
    nobody = np.zeros(len(from_points), bool)
    if len(from_points) < FEWEST_FOR_A_VIEW:
        return None, nobody
    homography, _ = cv2.findHomography(
        from_points, to_points, SEED_FREE, farthest, maxIters=500, confidence=0.999
    )
    if homography is None or not np.isfinite(homography).all() or abs(homography[2, 2]) < 1e-9:
        return None, nobody
    homography = homography / homography[2, 2]
    offsets = warp_points(homography, from_points) - to_points
    return homography, np.linalg.norm(offsets, axis=1) < farthest
