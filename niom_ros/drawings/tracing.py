"""Finding a drawing in an image by its ink, and measuring how well it fits."""

from dataclasses import dataclass, field
import math

import cv2
import numpy as np
import torch

from niom_ros.core.homographies import resizing
from niom_ros.drawings.alignment import (
    AlignmentParameters,
    climb,
    corner_deviations,
    InkPoints,
    score,
    size_of,
    warp,
    warp_strokes,
)
from niom_ros.drawings.edges import Edges, MAX_STRENGTH
from niom_ros.drawings.search import likely_views, SearchParameters
from niom_ros.drawings.strokes import Strokes


@dataclass(frozen=True, kw_only=True)
class TracingParameters:
    """How many views are tried, and when ink lies on an edge."""

    starts: int = 100  # views that are refined on blurred edges
    finalists: int = 30  # the best of those, refined on sharp edges
    steps: int = 8  # on each level of edges
    rounds: int = 4  # of random variation: a better view is often close by
    parents: int = 2  # views that are varied in a round
    children: int = 12  # variations of each
    variation: float = 0.04  # relative to the size of the outline
    min_distance: float = 8.0  # pixels between corners; closer views count as the same

    coarse_levels: tuple[int, ...] = (0, 1)  # of edges
    # The same for views smaller than this share of the image: more blur would move them away.
    coarse_levels_of_small: tuple[int, ...] = (1, 2)
    small: float = 0.5
    fine_levels: tuple[int, ...] = (2, 3)
    finest_levels: tuple[int, ...] = (4,)  # on which only the best view is refined
    ranking_level: int = 3  # sharp enough to rank views that are almost the same

    min_strength: float = 1.0  # standard deviations from which ink lies on an edge
    max_sharpness: float = 1.2  # more only shows that the image has a fine, even texture
    turns: int = 12  # in which the ink is compared with itself,
    apart: float = 0.2  # of its size, from where views are different ones
    surroundings: float = 0.1  # how far ink is moved to see what it meets by chance, of its size
    reach: int = 3  # pixels to either side of a line, in which its edge is searched

    search: SearchParameters = field(default_factory=SearchParameters)
    alignment: AlignmentParameters = field(default_factory=AlignmentParameters)


DEFAULTS = TracingParameters()


@dataclass(frozen=True)
class InkMeasures:
    """How well the ink of a drawing fits the edges of an image in one view."""

    ink_on_edges: float  # standard deviations above the mean edge strength
    contrast: float  # the same, above what the ink meets if it is moved aside
    sharpness: float  # gain when blurred edges become sharp
    size: float  # of the outline, relative to the image
    corner_deviation: float  # image pixels, mean of the four corners


@dataclass(frozen=True)
class Traced:
    """A view of the drawing in which much of its ink lies on edges."""

    drawing_to_image: np.ndarray  # 3 x 3, pixels to pixels
    image_points: np.ndarray  # N x 2: the points of the strokes, snapped to the nearest edge
    strength: np.ndarray  # N: of the edge there, 0 to 1
    on_edge: np.ndarray  # N booleans
    measures: InkMeasures


def trace(
    strokes: Strokes,
    corners: np.ndarray,
    edges: Edges,
    parameters: TracingParameters = DEFAULTS,
) -> Traced:
    """Find the view of a drawing in which most of its ink lies on edges.

    The corners are those of the used part of the drawing.
    """
    search = ViewSearch(ink_of(strokes, corners, edges), edges, parameters)
    starts = likely_views(strokes, edges, parameters.starts, parameters.search)
    views = search.climb_coarsely(search.as_views(starts))
    scores = search.scores(views, parameters.coarse_levels[-1])
    views = views[scores.argsort(descending=True)[: parameters.finalists]]
    views = search.climb(views, parameters.fine_levels)
    for seed in range(parameters.rounds):
        parents = search.distinct_best(views)
        children = search.climb(search.varied(parents, seed), parameters.fine_levels)
        views = torch.cat([parents, children])
    return search.described(search.polished(views))


def trace_near(
    strokes: Strokes,
    corners: np.ndarray,
    edges: Edges,
    drawing_to_image: np.ndarray,
    parameters: TracingParameters = DEFAULTS,
) -> Traced:
    """Find such a view near an expected one: much cheaper than a full search."""
    search = ViewSearch(ink_of(strokes, corners, edges), edges, parameters)
    expected = search.as_views(np.linalg.inv(edges_to_image(edges)) @ drawing_to_image[None])
    views = torch.cat([expected, search.varied(expected, seed=0)])
    views = search.climb(views, (parameters.coarse_levels[-1], *parameters.fine_levels))
    return search.described(search.polished(views))


def turned_share(
    strokes: Strokes,
    corners: np.ndarray,
    edges: Edges,
    drawing_to_image: np.ndarray,
    parameters: TracingParameters = DEFAULTS,
) -> float:
    """Return how strong the edges below the ink are if it is turned, of those in this view.

    Every turn is refined like the view itself. The best one counts of those that stay apart from
    it: near 1, the ink does not tell the direction.
    """
    search = ViewSearch(ink_of(strokes, corners, edges), edges, parameters)
    view = np.linalg.inv(edges_to_image(edges)) @ drawing_to_image
    middle = (strokes.points.min(axis=0) + strokes.points.max(axis=0)) / 2
    turns = np.arange(1, parameters.turns) * (360 / parameters.turns)
    turned = [view @ turning(degrees, middle) for degrees in turns.tolist()]
    levels = (parameters.coarse_levels[-1], *parameters.fine_levels)
    rivals = search.climb(search.as_views(np.stack(turned)), levels)
    views = torch.cat([search.as_views(view[None]), rivals])
    outlines = warp(views, search.ink.corners)
    distances = (outlines - outlines[0]).norm(dim=2).mean(dim=1)
    apart = distances > parameters.apart * float(size_of(outlines[:1])[0])
    strengths = search.strengths(views)
    highest = float(strengths[apart].max()) if apart.any() else 0.0
    return highest / max(float(strengths[0]), 1e-9)


def turning(degrees: float, middle: np.ndarray) -> np.ndarray:
    """Return the turn about a point: 3 x 3."""
    turn = cv2.getRotationMatrix2D((float(middle[0]), float(middle[1])), degrees, 1.0)
    return np.vstack([turn, [0, 0, 1]])


def ink_of(strokes: Strokes, corners: np.ndarray, edges: Edges) -> InkPoints:
    """Return the strokes on the device of the edges."""
    device = edges.levels[0].planes.device
    return InkPoints(
        torch.from_numpy(strokes.points).to(device),
        torch.from_numpy(strokes.normals).to(device),
        torch.from_numpy(corners).float().to(device),
    )


@dataclass(frozen=True)
class ViewSearch:
    """The steps of the search; views are homographies from drawing to edges, K x 3 x 3."""

    ink: InkPoints
    edges: Edges
    parameters: TracingParameters

    def as_views(self, homographies: np.ndarray) -> torch.Tensor:
        """Return K homographies on the device of the ink."""
        return torch.from_numpy(homographies).to(self.ink.points)

    def climb(self, views: torch.Tensor, levels: tuple[int, ...]) -> torch.Tensor:
        """Move views so that more ink lies on edges, level by level."""
        return climb(
            views,
            self.ink,
            self.edges,
            levels=levels,
            steps=self.parameters.steps,
            parameters=self.parameters.alignment,
        )

    def climb_coarsely(self, views: torch.Tensor) -> torch.Tensor:
        """Move views on blurred edges, small ones on less blurred edges."""
        parameters = self.parameters
        sizes = size_of(warp(views, self.ink.corners)) / math.sqrt(math.prod(self.edges.size))
        small = sizes < parameters.small
        return torch.cat(
            [
                self.climb(views[~small], parameters.coarse_levels),
                self.climb(views[small], parameters.coarse_levels_of_small),
            ]
        )

    def scores(self, views: torch.Tensor, level: int) -> torch.Tensor:
        """Return the scores of views on one level of edges: K."""
        return score(views, self.ink, self.edges, level, self.parameters.alignment)

    def strengths(self, views: torch.Tensor) -> torch.Tensor:
        """Return the mean strength of the edges below the ink in each view: K."""
        level = self.edges.levels[self.parameters.ranking_level]
        found = level.at(*warp_strokes(views, self.ink), self.edges.size)[0]
        return found.clamp(max=MAX_STRENGTH).mean(dim=1)

    def best_of(self, views: torch.Tensor) -> torch.Tensor:
        """Return the best of some views: 1 x 3 x 3."""
        return views[self.scores(views, self.parameters.ranking_level).argmax()][None]

    def polished(self, views: torch.Tensor) -> torch.Tensor:
        """Return the best of some views on the sharpest edges: 1 x 3 x 3."""
        return self.climb(self.best_of(views), self.parameters.finest_levels)

    def distinct_best(self, views: torch.Tensor) -> torch.Tensor:
        """Return the best views among those that are not almost the same."""
        scores = self.scores(views, self.parameters.ranking_level)
        outlines = warp(views, self.ink.corners)
        best: list[int] = []
        for index in scores.argsort(descending=True).tolist():
            apart = [float((outlines[index] - outlines[o]).norm(dim=1).mean()) for o in best]
            if min(apart, default=math.inf) > self.parameters.min_distance:
                best.append(index)
            if len(best) == self.parameters.parents:
                break
        return views[best]

    def varied(self, views: torch.Tensor, seed: int) -> torch.Tensor:
        """Return copies of views, the corners of each moved a little at random."""
        outlines = warp(views, self.ink.corners)
        outlines = outlines.repeat_interleave(self.parameters.children, dim=0)
        random = torch.Generator().manual_seed(seed)
        moves = torch.randn(outlines.shape, generator=random).to(outlines)
        outlines = outlines + self.parameters.variation * size_of(outlines)[:, None, None] * moves
        corners = self.ink.corners.cpu().numpy()
        moved = [
            cv2.getPerspectiveTransform(corners, outline) for outline in outlines.cpu().numpy()
        ]
        return torch.from_numpy(np.stack(moved)).to(views)

    def described(self, view: torch.Tensor) -> Traced:
        """Return a single view (1 x 3 x 3) with its measurements, in pixels of the image."""
        ink, edges, parameters = self.ink, self.edges, self.parameters
        points, normals = warp_strokes(view, ink)
        strengths = [level.at(points, normals, edges.size)[0, 0] for level in edges.levels]
        means = [float(strength.clamp(max=MAX_STRENGTH).mean()) for strength in strengths]
        area = float(size_of(warp(view, ink.corners))[0]) ** 2
        level = parameters.ranking_level
        deviations = corner_deviations(view, ink, edges, level, parameters.alignment)
        measures = InkMeasures(
            ink_on_edges=means[level],
            contrast=means[level]
            - self.mean_around(points, normals, math.sqrt(area) * ink.extent),
            # Blurred edges are everywhere; only the right view gains when they become sharp.
            sharpness=min(
                means[-1] / max(means[parameters.coarse_levels[-1]], 1e-3),
                parameters.max_sharpness,
            ),
            size=math.sqrt(area / (edges.width * edges.height)),
            corner_deviation=float(deviations.mean()) / edges.scale,
        )
        snapped = nearest_edges(points, normals, edges, parameters.reach)[0].cpu().numpy()
        strength = strengths[level].cpu().numpy()
        drawing_to_image = edges_to_image(edges) @ view[0].double().cpu().numpy()
        return Traced(
            drawing_to_image=drawing_to_image / drawing_to_image[2, 2],
            image_points=(snapped + 0.5) / edges.scale - 0.5,
            strength=(strength / MAX_STRENGTH).clip(0, 1),
            on_edge=strength > parameters.min_strength,
            measures=measures,
        )

    def mean_around(self, points: torch.Tensor, normals: torch.Tensor, size: float) -> float:
        """Return the mean strength of edges below ink of this size when it is moved aside."""
        edges, level = self.edges, self.edges.levels[self.parameters.ranking_level]
        directions = torch.arange(8, device=points.device) * (math.pi / 4)
        aside = torch.stack([directions.cos(), directions.sin()], dim=1)
        moved = points + self.parameters.surroundings * size * aside[:, None]
        found = level.at(moved, normals.expand(8, -1), edges.size)[0]
        return float(found.clamp(max=MAX_STRENGTH).mean())


def edges_to_image(edges: Edges) -> np.ndarray:
    """Return the matrix from pixels of the edges to pixels of the image."""
    return resizing(1 / edges.scale, 1 / edges.scale)


def nearest_edges(
    points: torch.Tensor, normals: torch.Tensor, edges: Edges, reach: int
) -> torch.Tensor:
    """Move K x N points across their lines onto the nearest edge within reach."""
    across = torch.stack([torch.cos(normals), torch.sin(normals)], dim=-1)
    steps = torch.linspace(-reach, reach, 4 * reach + 1, device=points.device)
    sharpest = edges.levels[-1]
    along = torch.stack(
        [sharpest.at(points + step * across, normals, edges.size)[0] for step in steps]
    )
    # A soft maximum: between edges if several are within reach.
    shares = torch.softmax(2 * along, dim=0)
    return points + (shares * steps[:, None, None]).sum(dim=0)[..., None] * across
