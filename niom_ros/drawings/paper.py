"""Telling ink from paper: dark or light lines, in even light or shadow."""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True, kw_only=True)
class PaperParameters:
    """How ink is distinguished from paper."""

    min_ink: float = 0.4  # relative to the strongest ink; weaker is paper, shadow or grid lines
    window: float = 0.12  # share of the longer side: wider than strokes, smaller than shadows
    side: int = 160  # pixels of the longer side: enough for the colour of the paper
    noise: float = 16.0  # times the median difference from the paper: above any grain
    min_contrast: float = 12.0  # distance in Lab between the strongest ink and the paper
    min_stroke: float = 0.01  # share of the longer side; shorter ones are dust or JPEG artefacts
    min_stroke_pixels: int = 4


DEFAULTS = PaperParameters()


def ink_strength(
    picture: np.ndarray, mask: np.ndarray | None = None, parameters: PaperParameters = DEFAULTS
) -> np.ndarray:
    """Return how much each pixel of an RGB picture differs from the paper around it, 0 to 1.

    So lines may be dark on light or light on dark, and shadows do not matter. Where the mask is 0,
    there is no ink.
    """
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    difference = np.linalg.norm(lab - paper_around(lab, parameters), axis=2)
    used = difference if mask is None else difference[mask != 0]
    if not used.size:
        return np.zeros(difference.shape, np.float32)
    grain = parameters.noise * float(np.median(used))
    strongest = max(parameters.min_contrast, grain, float(np.percentile(used, 99)))
    ink = np.minimum(difference / strongest, 1).astype(np.float32)
    if mask is not None:
        ink[mask == 0] = 0
    return ink


def paper_around(lab: np.ndarray, parameters: PaperParameters = DEFAULTS) -> np.ndarray:
    """Return the colour of the paper at each pixel: the median of a wide neighbourhood."""
    height, width = lab.shape[:2]
    shrink = max(1.0, max(height, width) / parameters.side)
    size = max(1, int(width / shrink)), max(1, int(height / shrink))
    small = cv2.resize(lab, size, interpolation=cv2.INTER_AREA)
    # OpenCV computes wide medians of bytes only.
    window = 2 * round(parameters.window * max(small.shape[:2]) / 2) + 1
    lowest = np.array([0, -128, -128], np.float32)
    span = np.array([100, 255, 255], np.float32)
    coded = np.round((small - lowest) / span * 255).clip(0, 255).astype(np.uint8)
    paper = cv2.medianBlur(coded, window).astype(np.float32) / 255 * span + lowest
    return cv2.resize(paper, (width, height), interpolation=cv2.INTER_LINEAR)


def ink_hull(
    image: np.ndarray, mask: np.ndarray | None = None, parameters: PaperParameters = DEFAULTS
) -> np.ndarray | None:
    """Return a mask (height x width, 0 or 1) of the convex hull of the ink, None if there is none.

    Ink is ignored where the given mask is 0.
    """
    ink = (ink_strength(image, mask, parameters) > parameters.min_ink).astype(np.uint8)
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    shortest = max(
        parameters.min_stroke_pixels, round(parameters.min_stroke * max(image.shape[:2]))
    )
    extent = statistics[:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].max(axis=1)
    strokes = np.flatnonzero(extent >= shortest)
    strokes = strokes[strokes != 0]
    if not len(strokes):
        return None
    points = cv2.findNonZero(np.isin(labels, strokes).astype(np.uint8))
    hull = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
    return hull
