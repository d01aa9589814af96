"""Aligning the strokes of a drawing with the edges of an image, from many starts at once.

Each start climbs to where most ink lies on edges of its orientation, first on blurred edges, then
on sharper ones. A camera rarely sees a sheet at a steep angle, so any distortion beyond a
similarity transform costs score: without this, a drawing of a small thing would be bent to fit
anything.
"""

from dataclasses import dataclass
import math

import torch

from niom_ros.drawings.edges import EdgeLevel, Edges, MAX_STRENGTH

HOMOGRAPHY_PARAMETERS = 8


@dataclass(frozen=True)
class AlignmentParameters:
    """How strokes are aligned with edges."""

    ink_weight: float = 50.0  # number of independent observations that all ink counts as
    distortion: float = 0.07  # typical distortion beyond a similarity, relative to the outline
    damping: float = 0.01  # of Levenberg-Marquardt steps
    min_hold: float = 0.2  # edge strength; on weaker edges, ink still resists moves
    # How many points of the strokes are used on levels with this blur, in pixels; else all.
    points: tuple[tuple[float, int], ...] = ((16.0, 300), (8.0, 400), (4.0, 600), (2.0, 800))


DEFAULTS = AlignmentParameters()


@dataclass(frozen=True)
class InkPoints:
    """The strokes of a drawing as tensors."""

    points: torch.Tensor  # N x 2
    normals: torch.Tensor  # N
    corners: torch.Tensor  # 4 x 2, of the used part of the drawing

    @property
    def extent(self) -> float:
        """Return the size of the ink relative to that of the used part."""
        width, height = (self.points.amax(dim=0) - self.points.amin(dim=0)).tolist()
        return math.sqrt(width * height) / float(size_of(self.corners[None])[0])

    def first(self, count: int) -> 'InkPoints':
        """Return a fair sample of the strokes."""
        return InkPoints(self.points[:count], self.normals[:count], self.corners)


@dataclass(frozen=True)
class PixelScale:
    """Normalised coordinates: pixels of an image, shifted and scaled to about -1 to 1."""

    width: int
    height: int

    @property
    def scale(self) -> float:
        """Return the number of pixels per unit."""
        return max(self.width, self.height) / 2

    def units(self, points: torch.Tensor) -> torch.Tensor:
        """Return points in units of this frame."""
        middle = points.new_tensor([self.width / 2, self.height / 2])
        return (points - middle) / self.scale

    def change(self, parameters: torch.Tensor) -> torch.Tensor:
        """Return K small changes of the eight parameters as homographies from pixels to pixels."""
        ones = torch.ones_like(parameters[:, :1])
        change = torch.cat([parameters, ones], dim=1).reshape(-1, 3, 3)
        change = change + torch.diag(change.new_tensor([1.0, 1.0, 0.0]))
        to_units = change.new_tensor(
            [
                [1 / self.scale, 0, -self.width / 2 / self.scale],
                [0, 1 / self.scale, -self.height / 2 / self.scale],
                [0, 0, 1],
            ]
        )
        return torch.linalg.inv(to_units) @ change @ to_units

    def jacobians(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the derivatives of x and y by the eight parameters: ... x 8 each."""
        x, y = self.units(points).unbind(dim=-1)
        one, none = torch.ones_like(x), torch.zeros_like(x)
        horizontal = torch.stack([x, y, one, none, none, none, -x * x, -x * y], dim=-1)
        vertical = torch.stack([none, none, none, x, y, one, -x * y, -y * y], dim=-1)
        return horizontal * self.scale, vertical * self.scale


@torch.no_grad()
def climb(
    views: torch.Tensor,
    ink: InkPoints,
    edges: Edges,
    levels: tuple[int, ...],
    steps: int,
    parameters: AlignmentParameters = DEFAULTS,
) -> torch.Tensor:
    """Move K homographies from drawing to edges so that more ink lies on edges."""
    frame = PixelScale(*edges.size)
    projection = non_similarity(ink.corners)
    points = dict(parameters.points)
    for level in (edges.levels[index] for index in levels):
        sample = ink.first(points.get(level.blur, len(ink.points)))
        for _ in range(steps):
            gradient, curvature = ink_gradient(views, sample, level, edges.size, parameters)
            back, stiffness = distortion_gradient(
                views, ink.corners, projection, frame, parameters
            )
            gradient, curvature = gradient + back, curvature + stiffness
            diagonal = torch.diagonal(curvature, dim1=1, dim2=2)
            damping = parameters.damping * (diagonal + 0.01 * diagonal.mean(dim=1, keepdim=True))
            change = torch.linalg.solve(curvature + torch.diag_embed(damping), gradient)
            # A level carries no information about moves larger than its blur.
            reach = change.abs().amax(dim=1, keepdim=True) * frame.scale
            change = change * (level.blur / reach.clamp(min=1e-6)).clamp(max=1)
            views = frame.change(change) @ views
            views = views / views[:, 2:, 2:]
    return views


def ink_gradient(
    views: torch.Tensor,
    ink: InkPoints,
    level: EdgeLevel,
    size: tuple[int, int],
    parameters: AlignmentParameters = DEFAULTS,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gradient (K x 8) and curvature (K x 8 x 8) of the score of ink on edges."""
    points, normals = warp_strokes(views, ink)
    strength, gradient_x, gradient_y = level.at(points, normals, size)
    horizontal, vertical = PixelScale(*size).jacobians(points)
    gradient = (gradient_x[..., None] * horizontal + gradient_y[..., None] * vertical).mean(dim=1)
    # Along a line, nothing constrains it; across, its edge is a ridge as wide as the blur.
    across = torch.cos(normals)[..., None] * horizontal + torch.sin(normals)[..., None] * vertical
    hold = (strength.clamp(min=parameters.min_hold) / level.blur**2)[..., None]
    curvature = torch.einsum('kni,knj->kij', hold * across, across) / points.shape[1]
    return parameters.ink_weight * gradient, parameters.ink_weight * curvature


def distortion_gradient(
    views: torch.Tensor,
    corners: torch.Tensor,
    projection: torch.Tensor,
    frame: PixelScale,
    parameters: AlignmentParameters = DEFAULTS,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gradient (K x 8) and curvature (K x 8 x 8) that pull back to a similarity."""
    count = HOMOGRAPHY_PARAMETERS
    outlines = warp(views, corners)
    jacobians = torch.stack(frame.jacobians(outlines), dim=2).reshape(-1, count, count)
    usual = (parameters.distortion * size_of(outlines))[:, None] ** 2
    distortion = outlines.reshape(-1, count) @ projection
    gradient = -torch.einsum('kij,ki->kj', jacobians, distortion) / usual
    curvature = torch.einsum('kia,ij,kjb->kab', jacobians, projection, jacobians)
    return gradient, curvature / usual[..., None]


@torch.no_grad()
def corner_deviations(
    view: torch.Tensor,
    ink: InkPoints,
    edges: Edges,
    level: int,
    parameters: AlignmentParameters = DEFAULTS,
) -> torch.Tensor:
    """Return the standard deviation of each corner in a view (1 x 3 x 3), in pixels: 4."""
    frame = PixelScale(*edges.size)
    _, curvature = ink_gradient(view, ink, edges.levels[level], edges.size, parameters)
    projection = non_similarity(ink.corners)
    _, stiffness = distortion_gradient(view, ink.corners, projection, frame, parameters)
    covariance = torch.linalg.pinv((curvature + stiffness)[0].double(), hermitian=True)
    jacobians = torch.stack(frame.jacobians(warp(view, ink.corners)[0]), dim=1).double()
    spread = jacobians @ covariance @ jacobians.transpose(1, 2)
    return torch.linalg.eigvalsh(spread)[:, 1].clamp(min=0).sqrt()


@torch.no_grad()
def score(
    views: torch.Tensor,
    ink: InkPoints,
    edges: Edges,
    level: int,
    parameters: AlignmentParameters = DEFAULTS,
) -> torch.Tensor:
    """Return the scores of K views: ink on edges, minus the cost of distortion.

    A large view is compared with more of the image than a small one, so its ink counts more: the
    mean of n random strengths deviates by 1 / sqrt(n).
    """
    strength = edges.levels[level].at(*warp_strokes(views, ink), edges.size)[0]
    strength = strength.clamp(max=MAX_STRENGTH)
    outlines = warp(views, ink.corners)
    size = ink.extent * size_of(outlines) / math.sqrt(math.prod(edges.size))
    weight = parameters.ink_weight * size.sqrt()
    distortion = outlines.reshape(-1, HOMOGRAPHY_PARAMETERS) @ non_similarity(ink.corners)
    usual = parameters.distortion * size_of(outlines)
    cost = 0.5 * (distortion**2).sum(dim=1) / usual**2
    # A degenerate view comes last.
    return (weight * strength.mean(dim=1) - cost).nan_to_num(nan=-math.inf)


def non_similarity(corners: torch.Tensor) -> torch.Tensor:
    """Return the 8 x 8 projection of outlines that removes similarity transforms."""
    x, y = (corners - corners.mean(dim=0)).double().unbind(dim=1)
    one, none = torch.ones_like(x), torch.zeros_like(x)
    moves = torch.stack(
        [
            torch.stack([one, none], dim=1).ravel(),
            torch.stack([none, one], dim=1).ravel(),
            torch.stack([x, y], dim=1).ravel(),
            torch.stack([-y, x], dim=1).ravel(),
        ],
        dim=1,
    )
    basis, _ = torch.linalg.qr(moves)
    return (torch.eye(HOMOGRAPHY_PARAMETERS).to(basis) - basis @ basis.T).to(corners.dtype)


def size_of(outlines: torch.Tensor) -> torch.Tensor:
    """Return the square root of the area of K outlines of four corners, in pixels."""
    x, y = outlines.unbind(dim=2)
    doubled = (x * y.roll(-1, dims=1) - y * x.roll(-1, dims=1)).sum(dim=1)
    return (doubled.abs() / 2).clamp(min=100).sqrt()


def warp(views: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Apply K homographies to N x 2 points: K x N x 2."""
    lifted = torch.cat([points, torch.ones_like(points[:, :1])], dim=1) @ views.transpose(1, 2)
    return lifted[..., :2] / lifted[..., 2:]


def warp_strokes(views: torch.Tensor, ink: InkPoints) -> tuple[torch.Tensor, torch.Tensor]:
    """Apply K homographies to strokes: points (K x N x 2) and angles across them (K x N)."""
    lifted = torch.cat([ink.points, torch.ones_like(ink.points[:, :1])], dim=1)
    lifted = lifted @ views.transpose(1, 2)
    depths = lifted[..., 2:]
    points = lifted[..., :2] / depths
    along = torch.stack([-torch.sin(ink.normals), torch.cos(ink.normals)], dim=1)
    moved = along @ views[:, :2, :2].transpose(1, 2)
    sideways = along @ views[:, 2:, :2].transpose(1, 2)
    tangents = (moved - points * sideways) / depths
    return points, torch.atan2(tangents[..., 1], tangents[..., 0]) - math.pi / 2
