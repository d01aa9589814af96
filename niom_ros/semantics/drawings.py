"""What is a drawing, and where on the paper is it drawn."""

import cv2
import numpy as np

SIDE = 512  # pixels to which pictures are shrunk before they are judged
PAPER_TOLERANCE = 24  # grey values around the most common one
SALIENCY_SIDE = 64


def drawing_likeness(image: np.ndarray) -> float:
    """Return how much an RGB picture looks like lines on paper, 0 (a photo) to 1.

    A drawing is mostly paper of one colour, and what is on it is dark and no wider than a stroke.
    """
    small = shrunk(image)
    paper = paper_mask(small)
    if paper.all() or not paper.any():
        return 0.0
    distance = cv2.distanceTransform((~paper).astype(np.uint8), cv2.DIST_L2, 3)
    width = 2 * float(np.percentile(distance[~paper], 90)) / max(small.shape[:2])
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    contrast = float(np.percentile(np.abs(grey[~paper] - np.median(grey[paper])), 80))
    enough_paper = smooth_step(float(paper.mean()), 0.45, 0.7)
    thin = 1 - smooth_step(width, 0.02, 0.05)
    dark = smooth_step(contrast, 50, 80)
    return enough_paper * thin * dark


def smooth_step(value: float, low: float, high: float) -> float:
    """Return 0 below low, 1 above high, and what lies between in between."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def shrunk(image: np.ndarray) -> np.ndarray:
    """Return a picture whose longer side is at most SIDE pixels."""
    scale = SIDE / max(image.shape[:2])
    if scale >= 1:
        return image
    width, height = (max(1, round(length * scale)) for length in image.shape[1::-1])
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def paper_mask(image: np.ndarray) -> np.ndarray:
    """Return where an RGB picture has the colour that most of it has."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    counts = cv2.calcHist([grey], [0], None, [256], [0, 256]).ravel()
    around = np.convolve(counts, np.ones(9), mode='same')
    paper = int(around.argmax())
    close = np.abs(grey.astype(np.int16) - paper) <= PAPER_TOLERANCE
    colourful = np.ptp(image.astype(np.int16), axis=2) > 2 * PAPER_TOLERANCE
    return close & ~colourful


def ink_hull(image: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray | None:
    """Return a mask (height x width, 0 or 1) of the convex hull of the ink, if there is any.

    Ink where the given mask is 0 does not count.
    """
    ink = (~paper_mask(image)).astype(np.uint8)
    if mask is not None:
        ink[mask == 0] = 0
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


def saliency(image: np.ndarray) -> np.ndarray:
    """Return what stands out of an RGB picture (spectral residual), SALIENCY_SIDE a side."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (SALIENCY_SIDE, SALIENCY_SIDE), interpolation=cv2.INTER_AREA)
    spectrum = np.fft.fft2(small.astype(np.float32))
    amplitude = np.log(np.abs(spectrum) + 1e-6).astype(np.float32)
    residual = amplitude - cv2.blur(amplitude, (3, 3), borderType=cv2.BORDER_REPLICATE)
    unusual = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    return cv2.GaussianBlur(unusual.astype(np.float32), (0, 0), 2.5)
