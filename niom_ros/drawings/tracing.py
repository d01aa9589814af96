"""Finding a drawing in an image by its ink, and what speaks for having found it."""

from collections.abc import Sequence
from dataclasses import dataclass
import math

import cv2
import numpy as np
import torch

from niom_ros.core.homographies import resizing
from niom_ros.drawings.alignment import (
    climb,
    corner_deviations,
    Ink,
    size_of,
    warp,
    warp_strokes,
    worth,
)
from niom_ros.drawings.edges import Edges
from niom_ros.drawings.search import likely_views
from niom_ros.drawings.strokes import Strokes

TURNS: Sequence[float] = tuple(math.radians(degrees) for degrees in range(-180, 180, 15))
SCALES: Sequence[float] = tuple(0.35 * 1.25**step for step in range(8))
STARTS = 100  # that climb blurred edges
FINALISTS = 30  # of those, that climb sharp ones
STEPS = 8  # on each level
ROUNDS = 2  # in which the best views are varied: a better one is often close by
PARENTS = 2
CHILDREN = 12  # of each
VARIATION = 0.04  # of the size of the outline
SAME = 8.0  # pixels between the corners of views that are almost the same
COARSE, FINE = (0, 1), (2, 3, 4)  # levels of edges
RANKED_BY = 3  # the level whose sharpness tells right from almost right
STRONG = 3.0  # deviations: an edge that is stronger counts no more
EDGE = 1.0  # deviations: from here on ink lies on an edge
REACH = 3  # pixels across a line in which the edge that it belongs to is looked for


@dataclass(frozen=True)
class Traced:
    """A view of the drawing in which much of its ink lies on edges."""

    drawing_to_image: np.ndarray  # 3 x 3, pixels to pixels
    image_points: np.ndarray  # N x 2: where each point of the strokes is, to the nearest edge
    strength: np.ndarray  # N: of the edge there, 0 to 1
    on_edge: np.ndarray  # N booleans
    checks: dict[str, float]


def trace(strokes: Strokes, corners: np.ndarray, edges: Edges) -> Traced:
    """Find the view of a drawing in which most of its ink lies on edges.

    The corners are those of the part of the drawing that counts.
    """
    ink = ink_of(strokes, corners, edges)
    starts = likely_views(strokes, edges, TURNS, SCALES, STARTS)
    views = climb(as_views(starts, ink), ink, edges, COARSE, STEPS)
    views = views[worth(views, ink, edges, COARSE[-1]).argsort(descending=True)[:FINALISTS]]
    views = climb(views, ink, edges, FINE, STEPS)
    for seed in range(ROUNDS):
        parents = different_best(views, worth(views, ink, edges, RANKED_BY), ink)
        children = climb(varied(parents, ink, seed), ink, edges, FINE, STEPS)
        views = torch.cat([parents, children])
    return described(best_of(views, ink, edges), ink, edges)


def trace_near(
    strokes: Strokes, corners: np.ndarray, edges: Edges, drawing_to_image: np.ndarray
) -> Traced:
    """Find such a view close to an expected one: much cheaper than to look everywhere."""
    ink = ink_of(strokes, corners, edges)
    expected = as_views(np.linalg.inv(edges_to_image(edges)) @ drawing_to_image[None], ink)
    views = torch.cat([expected, varied(expected, ink, seed=0)])
    views = climb(views, ink, edges, (COARSE[-1], *FINE), STEPS)
    return described(best_of(views, ink, edges), ink, edges)


def ink_of(strokes: Strokes, corners: np.ndarray, edges: Edges) -> Ink:
    """Return the strokes on the device of the edges."""
    device = edges.levels[0].planes.device
    return Ink(
        torch.from_numpy(strokes.points).to(device),
        torch.from_numpy(strokes.normals).to(device),
        torch.from_numpy(corners).float().to(device),
    )


def as_views(homographies: np.ndarray, ink: Ink) -> torch.Tensor:
    """Return K homographies on the device of the ink."""
    return torch.from_numpy(homographies).to(ink.points)


def best_of(views: torch.Tensor, ink: Ink, edges: Edges) -> torch.Tensor:
    """Return the best of some views: 1 x 3 x 3."""
    return views[worth(views, ink, edges, RANKED_BY).argmax()][None]


def different_best(views: torch.Tensor, worths: torch.Tensor, ink: Ink) -> torch.Tensor:
    """Return the best views among those that are not almost the same."""
    outlines = warp(views, ink.corners)
    best: list[int] = []
    for index in worths.argsort(descending=True).tolist():
        apart = [float((outlines[index] - outlines[o]).norm(dim=1).mean()) for o in best]
        if min(apart, default=math.inf) > SAME:
            best.append(index)
        if len(best) == PARENTS:
            break
    return views[best]


def varied(views: torch.Tensor, ink: Ink, seed: int) -> torch.Tensor:
    """Return copies of views, the corners of each moved a little at random."""
    outlines = warp(views, ink.corners).repeat_interleave(CHILDREN, dim=0)
    random = torch.Generator().manual_seed(seed)
    moves = torch.randn(outlines.shape, generator=random).to(outlines)
    outlines = outlines + VARIATION * size_of(outlines)[:, None, None] * moves
    corners = ink.corners.cpu().numpy()
    moved = [cv2.getPerspectiveTransform(corners, outline) for outline in outlines.cpu().numpy()]
    return torch.from_numpy(np.stack(moved)).to(views)


def described(view: torch.Tensor, ink: Ink, edges: Edges) -> Traced:
    """Return what a single view (1 x 3 x 3) says, in pixels of the image."""
    points, normals = warp_strokes(view, ink)
    strengths = [level.at(points, normals, edges.size)[0, 0] for level in edges.levels]
    means = [float(strength.clamp(max=STRONG).mean()) for strength in strengths]
    area = float(size_of(warp(view, ink.corners))[0]) ** 2
    deviations = corner_deviations(view, ink, edges, RANKED_BY)
    checks = {
        'ink_on_edges': means[RANKED_BY],
        # Blurred edges are everywhere; only the right view gains when they become sharp.
        'sharpness': means[-1] / max(means[COARSE[-1]], 1e-3),
        'size': math.sqrt(area / (edges.width * edges.height)),
        'corner_deviation': float(deviations.mean()) / edges.scale,
    }
    snapped = nearest_edges(points, normals, edges)[0].cpu().numpy()
    strength = strengths[RANKED_BY].cpu().numpy()
    drawing_to_image = edges_to_image(edges) @ view[0].double().cpu().numpy()
    return Traced(
        drawing_to_image / drawing_to_image[2, 2],
        (snapped + 0.5) / edges.scale - 0.5,
        (strength / STRONG).clip(0, 1),
        strength > EDGE,
        checks,
    )


def edges_to_image(edges: Edges) -> np.ndarray:
    """Return the matrix from pixels of the edges to pixels of the image."""
    return resizing(1 / edges.scale, 1 / edges.scale)


def nearest_edges(points: torch.Tensor, normals: torch.Tensor, edges: Edges) -> torch.Tensor:
    """Move K x N points across their lines onto the edge, as far as one is in reach."""
    across = torch.stack([torch.cos(normals), torch.sin(normals)], dim=-1)
    steps = torch.linspace(-REACH, REACH, 4 * REACH + 1, device=points.device)
    sharpest = edges.levels[-1]
    along = torch.stack(
        [sharpest.at(points + step * across, normals, edges.size)[0] for step in steps]
    )
    # Where several are in reach, that between them: a soft maximum.
    shares = torch.softmax(2 * along, dim=0)
    return points + (shares * steps[:, None, None]).sum(dim=0)[..., None] * across
