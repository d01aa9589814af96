"""Exhaustive search for a drawing in an image, over rotations, scales and positions."""

from dataclasses import dataclass
import math

import cv2
import numpy as np
import torch

from niom_ros.drawings.edges import Edges
from niom_ros.drawings.strokes import Strokes


@dataclass(frozen=True, kw_only=True)
class SearchParameters:
    """Which rotations, scales and positions are tried."""

    turns: tuple[float, ...] = tuple(math.radians(degrees) for degrees in range(-180, 180, 15))
    # Relative to the scale at which the ink just fits into the image.
    scales: tuple[float, ...] = tuple(0.35 * 1.25**step for step in range(8))
    side: int = 128  # pixels of the longer side of the search grid
    blur: float = 10.0  # pixels of the edges
    max_points: int = 600  # of the strokes
    places: int = 2  # kept for each rotation and scale
    min_distance: int = 6  # pixels of the search grid between two positions


DEFAULTS = SearchParameters()


def likely_views(
    strokes: Strokes, edges: Edges, count: int, parameters: SearchParameters = DEFAULTS
) -> np.ndarray:
    """Return up to `count` homographies from drawing to edges with much ink on edges, best first.

    Each rotation and scale is correlated with the edges at all positions at once, by FFT.
    """
    shrink = max(edges.size) / parameters.side
    shape = tuple(max(1, round(length / shrink)) for length in edges.size)
    smooth = np.stack(
        [
            cv2.GaussianBlur(
                cv2.resize(plane, shape, interpolation=cv2.INTER_AREA),
                (0, 0),
                parameters.blur / shrink,
                borderType=cv2.BORDER_REPLICATE,
            )
            for plane in edges.oriented
        ]
    )
    smooth = (smooth - smooth.mean()) / (smooth.std() + 1e-6)
    # Twice as large, so that nothing wraps around from one side to the other.
    room = 2 * parameters.side
    spectrum = torch.fft.rfft2(torch.from_numpy(smooth), s=(room, room))
    low, high = strokes.points.min(axis=0), strokes.points.max(axis=0)
    middle = (low + high) / 2.0
    points = (strokes.points[: parameters.max_points] - middle).astype(np.float64)
    normals = strokes.normals[: parameters.max_points]
    fitting = float(np.min(np.array(edges.size) / np.maximum(high - low, 1)))
    found = []
    for scale in parameters.scales:
        for turn in parameters.turns:
            turned = points @ turning(turn, scale * fitting).T
            drawn = draw(turned / shrink, normals + turn, room, len(edges.oriented))
            product = (spectrum * torch.fft.rfft2(drawn).conj()).sum(dim=0)
            ink = torch.fft.irfft2(product, s=(room, room))[: shape[1], : shape[0]].numpy()
            for row, column, strength in peaks(ink / len(points), parameters):
                place = np.array([column, row]) * shrink
                found.append((strength, turn, scale * fitting, place))
    found.sort(key=lambda view: -view[0])
    return np.array(
        [similarity(turn, scale, middle, place) for _, turn, scale, place in found[:count]]
    )


def draw(points: np.ndarray, normals: np.ndarray, room: int, orientations: int) -> torch.Tensor:
    """Draw points into one plane for each orientation; negative coordinates wrap around."""
    inside = (np.abs(points) < room / 2).all(axis=1)
    points, normals = points[inside], normals[inside]
    steps = (normals % math.pi) / math.pi * orientations
    lower = np.floor(steps).astype(int)
    share = steps - lower
    columns, rows = np.round(points).astype(int).T % room
    planes = np.zeros((orientations, room, room), np.float32)
    np.add.at(planes, (lower % orientations, rows, columns), 1 - share)
    np.add.at(planes, ((lower + 1) % orientations, rows, columns), share)
    return torch.from_numpy(planes)


def peaks(ink: np.ndarray, parameters: SearchParameters) -> list[tuple[int, int, float]]:
    """Return row, column and value of the highest peaks that are not close to each other."""
    apart = parameters.min_distance
    found = []
    for _ in range(parameters.places):
        row, column = np.unravel_index(ink.argmax(), ink.shape)
        found.append((int(row), int(column), float(ink[row, column])))
        rows = slice(max(0, row - apart), row + apart + 1)
        ink[rows, max(0, column - apart) : column + apart + 1] = -np.inf
    return found


def turning(angle: float, scale: float) -> np.ndarray:
    """Return the 2 x 2 matrix that rotates and scales."""
    cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def similarity(angle: float, scale: float, middle: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the 3 x 3 matrix that rotates and scales about the middle and moves it to a place."""
    view = np.eye(3)
    view[:2, :2] = turning(angle, scale)
    view[:2, 2] = place - view[:2, :2] @ middle
    return view
