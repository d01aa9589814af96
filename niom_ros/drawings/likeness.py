"""Whether a picture is a drawing: pencil or marker on white, coloured or shaded paper."""

from dataclasses import dataclass, field
import math

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

from niom_ros.drawings.paper import ink_strength, paper_around, PaperParameters
from niom_ros.drawings.strokes import middle_lines, stroke_width, StrokeParameters


@dataclass(frozen=True, kw_only=True)
class LikenessParameters:
    """How a drawing is distinguished from a photo."""

    side: int = 512  # pixels to which the longer side of a picture is resized first
    min_points: int = 10  # on strokes
    max_paper: float = 0.25  # relative to the strongest ink; weaker is paper
    min_paper: float = 0.5  # share of the picture; with less, it is not a drawing
    enough_paper: float = 0.65  # share of the picture; with more, only the score decides
    beside: float = 2.5  # pixels from the border of a stroke to the paper beside it

    # Logistic regression on 400 drawings, originals and copies on blue, lined and shaded paper,
    # and 360 photos.
    one_sided_weight: float = 7.6
    same_beside_weight: float = 7.4
    colourful_weight: float = -3.2
    bias: float = -6.5

    # What would be grain on a sheet is content in a photo, so it is not removed here.
    strokes: StrokeParameters = field(
        default_factory=lambda: StrokeParameters(paper=PaperParameters(noise=0))
    )


DEFAULTS = LikenessParameters()


def drawing_likeness(image: np.ndarray, parameters: LikenessParameters = DEFAULTS) -> float:
    """Return the probability that an RGB picture is a drawing, not a photo.

    A drawing has three signs. Its ink is all darker than the paper, or all lighter. The paper is
    the same on both sides of a stroke, while an edge in a photo separates two things. And the
    paper has one colour.
    """
    scale = parameters.side / max(image.shape[:2])
    size = tuple(max(1, round(length * scale)) for length in image.shape[1::-1])
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image, size, interpolation=interpolation)
    ink = ink_strength(small, parameters=parameters.strokes.paper)
    columns, rows, angles = middle_lines(ink, parameters.strokes)
    if len(columns) < parameters.min_points:
        return 0.0
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    paper = paper_around(lab, parameters.strokes.paper)
    inked = ink > parameters.strokes.paper.min_ink
    one_sided = abs(float(np.sign((lab - paper)[..., 0][inked]).mean()))
    colourful = float(np.log1p(np.std(paper[..., 1:], axis=(0, 1)).max()))
    beside = stroke_width(ink, parameters.strokes) / 2 + parameters.beside
    step = np.stack([np.sin(angles), np.cos(angles)])
    left, middle, right = (
        colours_at(lab, rows + side * beside * step[0], columns + side * beside * step[1])
        for side in (-1, 0, 1)
    )
    depth = np.minimum(distance(middle, left), distance(middle, right))
    same_beside = float((depth > distance(left, right)).mean())
    score = (
        parameters.one_sided_weight * one_sided
        + parameters.same_beside_weight * same_beside
        + parameters.colourful_weight * colourful
        + parameters.bias
    )
    paper_share = float((ink < parameters.max_paper).mean())
    enough = (paper_share - parameters.min_paper) / (
        parameters.enough_paper - parameters.min_paper
    )
    return float(np.clip(enough, 0, 1)) / (1 + math.exp(-score))


def colours_at(lab: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the colours at places between pixels: 3 x N."""
    planes = np.moveaxis(lab, 2, 0)
    return np.stack(
        [map_coordinates(plane, [rows, columns], order=1, mode='nearest') for plane in planes]
    )


def distance(colours: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the distances between colours."""
    apart: np.ndarray = np.linalg.norm(colours - others, axis=0)
    return apart
