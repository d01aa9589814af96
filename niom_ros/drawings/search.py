"""Where a drawing could lie in an image: turned and scaled in all ways, moved everywhere."""

from collections.abc import Sequence
import math

import cv2
import numpy as np
import torch

from niom_ros.drawings.edges import DIRECTIONS, Edges
from niom_ros.drawings.strokes import Strokes

SIDE = 128  # pixels of the longer side in which is searched
BLUR = 10.0  # pixels of the edges
POINTS = 600
PLACES = 2  # that are kept for each turn and scale
APART = 6  # pixels of the search between two places


def likely_views(
    strokes: Strokes,
    edges: Edges,
    turns: Sequence[float],
    scales: Sequence[float],
    most: int,
) -> np.ndarray:
    """Return up to K homographies from drawing to edges where much ink lies on edges, best first.

    Scales are relative to a drawing whose ink just fits into the image.
    """
    shrink = max(edges.size) / SIDE
    shape = tuple(max(1, round(length / shrink)) for length in edges.size)
    smooth = np.stack(
        [
            cv2.GaussianBlur(
                cv2.resize(plane, shape, interpolation=cv2.INTER_AREA),
                (0, 0),
                BLUR / shrink,
                borderType=cv2.BORDER_REPLICATE,
            )
            for plane in edges.directed
        ]
    )
    smooth = (smooth - smooth.mean()) / (smooth.std() + 1e-6)
    # Twice as large: what leaves on one side must not come in on the other.
    room = 2 * SIDE
    spectrum = torch.fft.rfft2(torch.from_numpy(smooth), s=(room, room))
    low, high = strokes.points.min(axis=0), strokes.points.max(axis=0)
    middle = (low + high) / 2.0
    points = (strokes.points[:POINTS] - middle).astype(np.float64)
    normals = strokes.normals[:POINTS]
    fitting = float(np.min(np.array(edges.size) / np.maximum(high - low, 1)))
    found = []
    for scale in scales:
        for turn in turns:
            turned = points @ turning(turn, scale * fitting).T
            drawn = draw(turned / shrink, normals + turn, room)
            product = (spectrum * torch.fft.rfft2(drawn).conj()).sum(dim=0)
            ink = torch.fft.irfft2(product, s=(room, room))[: shape[1], : shape[0]].numpy()
            for row, column, strength in peaks(ink / len(points)):
                place = np.array([column, row]) * shrink
                found.append((strength, turn, scale * fitting, place))
    found.sort(key=lambda view: -view[0])
    return np.array(
        [similarity(turn, scale, middle, place) for _, turn, scale, place in found[:most]]
    )


def draw(points: np.ndarray, normals: np.ndarray, room: int) -> torch.Tensor:
    """Draw points into planes for each direction; what is left of or above 0 is at the far end."""
    inside = (np.abs(points) < room / 2).all(axis=1)
    points, normals = points[inside], normals[inside]
    steps = (normals % math.pi) / math.pi * DIRECTIONS
    lower = np.floor(steps).astype(int)
    share = steps - lower
    columns, rows = np.round(points).astype(int).T % room
    planes = np.zeros((DIRECTIONS, room, room), np.float32)
    np.add.at(planes, (lower % DIRECTIONS, rows, columns), 1 - share)
    np.add.at(planes, ((lower + 1) % DIRECTIONS, rows, columns), share)
    return torch.from_numpy(planes)


def peaks(ink: np.ndarray) -> list[tuple[int, int, float]]:
    """Return row, column and height of the highest places that are not close to each other."""
    found = []
    for _ in range(PLACES):
        row, column = np.unravel_index(ink.argmax(), ink.shape)
        found.append((int(row), int(column), float(ink[row, column])))
        rows = slice(max(0, row - APART), row + APART + 1)
        ink[rows, max(0, column - APART) : column + APART + 1] = -np.inf
    return found


def turning(angle: float, scale: float) -> np.ndarray:
    """Return the 2 x 2 matrix that turns and scales."""
    cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def similarity(angle: float, scale: float, middle: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the 3 x 3 matrix that turns and scales about the middle and moves it to a place."""
    view = np.eye(3)
    view[:2, :2] = turning(angle, scale)
    view[:2, 2] = place - view[:2, :2] @ middle
    return view
