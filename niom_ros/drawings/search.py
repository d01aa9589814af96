"""Exhaustive search for a drawing in an image, over rotations, scales and positions."""

from dataclasses import dataclass
import math

import cv2
import numpy as np
import torch

from niom_ros.drawings.edges import Edges, MAX_STRENGTH
from niom_ros.drawings.strokes import Strokes


@dataclass(frozen=True, kw_only=True)
class SearchParameters:
    """Which rotations, scales and positions are tried."""

    # Each is tried upside down as well, which shares most of the work.
    turns: tuple[float, ...] = tuple(math.radians(degrees) for degrees in range(0, 180, 15))
    # Relative to the scale at which the ink just fits into the image.
    scales: tuple[float, ...] = tuple(0.28 * 1.25**step for step in range(9))
    side: int = 128  # pixels of the longer side of the search grid
    # Pixels of the edges, for ink that just fits into the image; at other scales in proportion, as
    # far as that is between these limits.
    blur: float = 12.5
    blurs: tuple[float, float] = (4.0, 10.0)
    max_points: int = 600  # of the strokes
    places: int = 2  # kept for each rotation and scale
    min_distance: int = 6  # pixels of the search grid between two positions
    # How far ink is moved to see how much of it lies on edges by chance, relative to its size.
    surroundings: float = 0.12
    min_surroundings: float = 20.0  # pixels of the edges


DEFAULTS = SearchParameters()


def likely_views(
    strokes: Strokes, edges: Edges, count: int, parameters: SearchParameters = DEFAULTS
) -> np.ndarray:
    """Return up to `count` homographies from drawing to edges with much ink on edges, best first.

    Each rotation and scale is correlated with the edges at all positions at once, by FFT. What
    counts is how much more ink lies on edges than around that position, compared with what other
    positions and rotations reach at the same scale: among clutter, some of it always does.
    """
    shrink = max(edges.size) / parameters.side
    width, height = (max(1, round(length / shrink)) for length in edges.size)
    # Twice as large, so that nothing wraps around from one side to the other.
    room = 2 * parameters.side
    low, high = strokes.points.min(axis=0), strokes.points.max(axis=0)
    middle, extent = (low + high) / 2.0, np.maximum(high - low, 1)
    points = (strokes.points[: parameters.max_points] - middle).astype(np.float64)
    normals = strokes.normals[: parameters.max_points]
    fitting = float(np.min(np.array(edges.size) / extent))
    spectra: dict[float, torch.Tensor] = {}
    found = []
    for scale in parameters.scales:
        blur = float(np.clip(parameters.blur * scale, *parameters.blurs))
        if blur not in spectra:
            smooth = blurred(edges, (width, height), blur / shrink)
            spectra[blur] = torch.fft.rfft2(torch.from_numpy(smooth), s=(room, room))
        reach = parameters.surroundings * scale * fitting * math.sqrt(math.prod(extent))
        contrast = high_pass(room, max(reach, parameters.min_surroundings) / shrink)
        spectrum = spectra[blur] * contrast
        turns, maps = [], []
        for turn in parameters.turns:
            turned = points @ turning(turn, scale * fitting / shrink).T
            drawn = draw(turned, normals + turn, room, len(edges.oriented))
            drawing = torch.fft.rfft2(drawn)
            # Half a turn mirrors the ink in a point, which conjugates its spectrum.
            for half_turn, factor in ((0.0, drawing.conj()), (math.pi, drawing)):
                product = (spectrum * factor).sum(dim=0)
                turns.append(turn + half_turn)
                maps.append(torch.fft.irfft2(product, s=(room, room))[:height, :width].numpy())
        usual = float(np.std(maps)) + 1e-9
        for turn, ink in zip(turns, maps, strict=True):
            for row, column, strength in peaks(ink / usual, parameters):
                place = np.array([column, row]) * shrink
                found.append((strength, turn, scale * fitting, place))
    found.sort(key=lambda view: -view[0])
    return np.array(
        [similarity(turn, scale, middle, place) for _, turn, scale, place in found[:count]]
    )


def blurred(edges: Edges, shape: tuple[int, int], blur: float) -> np.ndarray:
    """Return the edges of each orientation, resized, blurred, in standard deviations."""
    smooth = np.stack(
        [
            cv2.GaussianBlur(
                cv2.resize(plane, shape, interpolation=cv2.INTER_AREA),
                (0, 0),
                blur,
                borderType=cv2.BORDER_REPLICATE,
            )
            for plane in edges.oriented
        ]
    )
    return np.minimum((smooth - smooth.mean()) / (smooth.std() + 1e-6), MAX_STRENGTH)


def high_pass(room: int, reach: float) -> torch.Tensor:
    """Return the spectrum that subtracts from each pixel the mean around it."""
    down, across = torch.fft.fftfreq(room)[:, None], torch.fft.rfftfreq(room)
    return 1 - torch.exp(-2 * (math.pi * reach) ** 2 * (down**2 + across**2))


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
