"""What is paper and what is ink: dark lines or light ones, in even light or under a shadow."""

import cv2
import numpy as np

INK = 0.4  # of the strongest ink: what is fainter is paper, a shadow or the lines of grid paper
PAPER_WINDOW = 0.12  # of the longer side: wider than any stroke, smaller than shadows
PAPER_SIDE = 160  # pixels that are enough to see the paper
NOISE = 16.0  # times the median difference of paper from paper: no grain is so strong
FAINTEST = 12.0  # distance in Lab between ink and paper


def ink_strength(
    picture: np.ndarray, mask: np.ndarray | None = None, noise: float = NOISE
) -> np.ndarray:
    """Return how much each pixel of an RGB picture differs from the paper around it, 0 to 1.

    So it does not matter whether lines are dark on light or light on dark, nor whether a shadow
    lies over the paper. Where the mask is 0 there is no ink. Noise is how many times as much as
    most of the paper a pixel must at least differ to be the strongest ink.
    """
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    difference = np.linalg.norm(lab - paper_around(lab), axis=2)
    counting = difference if mask is None else difference[mask != 0]
    if not counting.size:
        return np.zeros(difference.shape, np.float32)
    grain = noise * float(np.median(counting))
    strongest = max(FAINTEST, grain, float(np.percentile(counting, 99)))
    ink = np.minimum(difference / strongest, 1).astype(np.float32)
    if mask is not None:
        ink[mask == 0] = 0
    return ink


def paper_around(lab: np.ndarray) -> np.ndarray:
    """Return the colour of the paper at each pixel: the median of a wide neighbourhood."""
    height, width = lab.shape[:2]
    shrink = max(1.0, max(height, width) / PAPER_SIDE)
    size = max(1, int(width / shrink)), max(1, int(height / shrink))
    small = cv2.resize(lab, size, interpolation=cv2.INTER_AREA)
    # OpenCV takes wide medians of bytes only.
    window = 2 * round(PAPER_WINDOW * max(small.shape[:2]) / 2) + 1
    lowest = np.array([0, -128, -128], np.float32)
    span = np.array([100, 255, 255], np.float32)
    coded = np.round((small - lowest) / span * 255).clip(0, 255).astype(np.uint8)
    paper = cv2.medianBlur(coded, window).astype(np.float32) / 255 * span + lowest
    return cv2.resize(paper, (width, height), interpolation=cv2.INTER_LINEAR)


def ink_hull(image: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray | None:
    """Return a mask (height x width, 0 or 1) of the convex hull of the ink, if there is any.

    Ink where the given mask is 0 does not count.
    """
    ink = (ink_strength(image, mask) > INK).astype(np.uint8)
    # Dust and compression artefacts are smaller than a stroke is long.
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    smallest = max(4, round(0.01 * max(image.shape[:2])))
    extent = statistics[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1)
    strokes = np.flatnonzero(extent >= smallest)
    strokes = strokes[strokes != 0]
    if not len(strokes):
        return None
    points = cv2.findNonZero(np.isin(labels, strokes).astype(np.uint8))
    hull = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
    return hull
