"""Whether a picture is a drawing: lines on paper, also blue or shaded paper, pencil and marker."""

import math

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from niom_ros.drawings.paper import INK, ink_strength, paper_around
from niom_ros.drawings.strokes import middle_lines, smoothing_for, stroke_width

SIDE = 512  # pixels to which the longer side of a picture is brought before it is judged
FEWEST_POINTS = 10
PAPER = 0.25  # of the strongest ink
LEAST_PAPER = 0.5, 0.65  # share of the picture: below it is none, above it may be one
BESIDE = 2.5  # pixels from the border of a stroke to the paper beside it

# Fitted to 400 drawings, real ones and the same on blue, lined and shaded paper, and 360 photos.
ONE_SIDED, SAME_BESIDE, COLOURFUL, BIAS = 7.6, 7.4, -3.2, -6.5


def drawing_likeness(image: np.ndarray) -> float:
    """Return how sure it is that an RGB picture is lines on paper, 0 (a photo) to 1.

    What tells a drawing: its ink is all darker than the paper, or all lighter; on both sides of a
    stroke is the same paper, while an edge in a photo parts two things; the paper has one colour.
    """
    scale = SIDE / max(image.shape[:2])
    size = tuple(max(1, round(length * scale)) for length in image.shape[1::-1])
    smaller = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image, size, interpolation=smaller)
    # What is grain on a sheet is what a photo shows: here it counts.
    ink = ink_strength(small, noise=0)
    columns, rows, angles = middle_lines(ink, smoothing_for(ink))
    if len(columns) < FEWEST_POINTS:
        return 0.0
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    paper = paper_around(lab)
    one_sided = abs(float(np.sign((lab - paper)[..., 0][ink > INK]).mean()))
    colourful = float(np.log1p(np.std(paper[..., 1:], axis=(0, 1)).max()))
    beside = stroke_width(ink) / 2 + BESIDE
    step = np.stack([np.sin(angles), np.cos(angles)])
    left, middle, right = (
        colours_at(lab, rows + side * beside * step[0], columns + side * beside * step[1])
        for side in (-1, 0, 1)
    )
    depth = np.minimum(distance(middle, left), distance(middle, right))
    same_beside = float((depth > distance(left, right)).mean())
    score = ONE_SIDED * one_sided + SAME_BESIDE * same_beside + COLOURFUL * colourful + BIAS
    enough_paper = (float((ink < PAPER).mean()) - LEAST_PAPER[0]) / np.ptp(LEAST_PAPER)
    return float(np.clip(enough_paper, 0, 1)) / (1 + math.exp(-score))


def colours_at(lab: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the colours at places between pixels: 3 x N."""
    planes = np.moveaxis(lab, 2, 0)
    return np.stack(
        [map_coordinates(plane, [rows, columns], order=1, mode='nearest') for plane in planes]
    )


def distance(colours: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how different colours are."""
    apart: np.ndarray = np.linalg.norm(colours - others, axis=0)
    return apart
