"""Laying the strokes of a drawing along the edges of an image, from many starts at once.

Each start climbs to where most ink lies on edges of its direction, first on blurred edges, then on
sharper ones. A camera rarely sees a sheet much askew, so a view that is not just turned and scaled
has to earn that: without this, a drawing of a small thing would be bent to fit anything.
"""

from dataclasses import dataclass
import math

import torch

from niom_ros.drawings.edges import EdgeLevel, Edges

INK_WORTH = 30.0  # how many independent observations all ink is worth together
BEND = 0.05  # usual bend of the outline, in parts of its size: what no turning and scaling does
DAMPING = 0.01
WEAKEST_PULL = 0.2  # strength of an edge, below which ink still resists being moved
POINTS = {16.0: 300, 8.0: 400, 4.0: 600, 2.0: 800}  # for levels with this blur; else all
NUMBERS = 8  # of a homography


@dataclass(frozen=True)
class Ink:
    """The strokes of a drawing on the device that computes."""

    points: torch.Tensor  # N x 2
    normals: torch.Tensor  # N
    corners: torch.Tensor  # 4 x 2, of the part of the drawing that counts

    def first(self, count: int) -> 'Ink':
        """Return a fair sample of the strokes."""
        return Ink(self.points[:count], self.normals[:count], self.corners)


@dataclass(frozen=True)
class Frame:
    """The pixels of an image, moved and scaled to about -1 to 1."""

    width: int
    height: int

    @property
    def scale(self) -> float:
        """Return the pixels that one unit has."""
        return max(self.width, self.height) / 2

    def units(self, points: torch.Tensor) -> torch.Tensor:
        """Return points in units of this frame."""
        middle = points.new_tensor([self.width / 2, self.height / 2])
        return (points - middle) / self.scale

    def change(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return small changes of the eight numbers as K homographies from pixels to pixels."""
        ones = torch.ones_like(numbers[:, :1])
        change = torch.cat([numbers, ones], dim=1).reshape(-1, 3, 3)
        change = change + torch.diag(change.new_tensor([1.0, 1.0, 0.0]))
        to_units = change.new_tensor(
            [
                [1 / self.scale, 0, -self.width / 2 / self.scale],
                [0, 1 / self.scale, -self.height / 2 / self.scale],
                [0, 0, 1],
            ]
        )
        return torch.linalg.inv(to_units) @ change @ to_units

    def slopes(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how x and y of pixels move with the eight numbers: ... x 8 each."""
        x, y = self.units(points).unbind(dim=-1)
        one, none = torch.ones_like(x), torch.zeros_like(x)
        horizontal = torch.stack([x, y, one, none, none, none, -x * x, -x * y], dim=-1)
        vertical = torch.stack([none, none, none, x, y, one, -x * y, -y * y], dim=-1)
        return horizontal * self.scale, vertical * self.scale


@torch.no_grad()
def climb(
    views: torch.Tensor, ink: Ink, edges: Edges, levels: tuple[int, ...], steps: int
) -> torch.Tensor:
    """Move K homographies from drawing to edges so that more ink lies on edges."""
    frame = Frame(*edges.size)
    stiff = unlike_similarity(ink.corners)
    for level in (edges.levels[index] for index in levels):
        sample = ink.first(POINTS.get(level.blur, len(ink.points)))
        for _ in range(steps):
            slope, curvature = ink_pull(views, sample, level, frame, edges.size)
            back, stiffness = bend_pull(views, ink.corners, stiff, frame)
            slope, curvature = slope + back, curvature + stiffness
            diagonal = torch.diagonal(curvature, dim1=1, dim2=2)
            damping = DAMPING * (diagonal + 0.01 * diagonal.mean(dim=1, keepdim=True))
            change = torch.linalg.solve(curvature + torch.diag_embed(damping), slope)
            # Beyond its blur a level says nothing.
            reach = change.abs().amax(dim=1, keepdim=True) * frame.scale
            change = change * (level.blur / reach.clamp(min=1e-6)).clamp(max=1)
            views = frame.change(change) @ views
            views = views / views[:, 2:, 2:]
    return views


def ink_pull(
    views: torch.Tensor, ink: Ink, level: EdgeLevel, frame: Frame, size: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how edges pull at the ink: slope (K x 8) and curvature (K x 8 x 8) of its worth."""
    points, normals = warp_strokes(views, ink)
    strength, slope_x, slope_y = level.at(points, normals, size)
    horizontal, vertical = frame.slopes(points)
    slope = (slope_x[..., None] * horizontal + slope_y[..., None] * vertical).mean(dim=1)
    # Along a line nothing holds it; across, its edge is a ridge as wide as the blur.
    across = torch.cos(normals)[..., None] * horizontal + torch.sin(normals)[..., None] * vertical
    hold = (strength.clamp(min=WEAKEST_PULL) / level.blur**2)[..., None]
    curvature = torch.einsum('kni,knj->kij', hold * across, across) / points.shape[1]
    return INK_WORTH * slope, INK_WORTH * curvature


def bend_pull(
    views: torch.Tensor, corners: torch.Tensor, stiff: torch.Tensor, frame: Frame
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how outlines pull back to those that are only turned and scaled."""
    outlines = warp(views, corners)
    slopes = torch.stack(frame.slopes(outlines), dim=2).reshape(-1, NUMBERS, NUMBERS)
    usual = (BEND * size_of(outlines))[:, None] ** 2
    slope = -torch.einsum('kij,ki->kj', slopes, outlines.reshape(-1, NUMBERS) @ stiff) / usual
    curvature = torch.einsum('kia,ij,kjb->kab', slopes, stiff, slopes) / usual[..., None]
    return slope, curvature


@torch.no_grad()
def corner_deviations(view: torch.Tensor, ink: Ink, edges: Edges, level: int) -> torch.Tensor:
    """Return how uncertain each corner of a drawing is in a view (1 x 3 x 3), in pixels: 4."""
    frame = Frame(*edges.size)
    _, curvature = ink_pull(view, ink, edges.levels[level], frame, edges.size)
    _, stiffness = bend_pull(view, ink.corners, unlike_similarity(ink.corners), frame)
    covariance = torch.linalg.pinv((curvature + stiffness)[0].double(), hermitian=True)
    slopes = torch.stack(frame.slopes(warp(view, ink.corners)[0]), dim=1).double()
    spread = slopes @ covariance @ slopes.transpose(1, 2)
    return torch.linalg.eigvalsh(spread)[:, 1].clamp(min=0).sqrt()


@torch.no_grad()
def worth(views: torch.Tensor, ink: Ink, edges: Edges, level: int) -> torch.Tensor:
    """Return how good K views are: ink on edges, less what the bend of the outline costs."""
    strength = edges.levels[level].at(*warp_strokes(views, ink), edges.size)[0]
    outlines = warp(views, ink.corners)
    bend = outlines.reshape(-1, NUMBERS) @ unlike_similarity(ink.corners)
    cost = 0.5 * (bend**2).sum(dim=1) / (BEND * size_of(outlines)) ** 2
    # A view that fell apart is worth nothing.
    return (INK_WORTH * strength.mean(dim=1) - cost).nan_to_num(nan=-math.inf)


def unlike_similarity(corners: torch.Tensor) -> torch.Tensor:
    """Return the 8 x 8 projection of outlines onto what no turned and scaled one has."""
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
    return (torch.eye(NUMBERS).to(basis) - basis @ basis.T).to(corners.dtype)


def size_of(outlines: torch.Tensor) -> torch.Tensor:
    """Return the square root of the area of K outlines of four corners, in pixels."""
    x, y = outlines.unbind(dim=2)
    doubled = (x * y.roll(-1, dims=1) - y * x.roll(-1, dims=1)).sum(dim=1)
    return (doubled.abs() / 2).clamp(min=100).sqrt()


def warp(views: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Apply K homographies to N x 2 points: K x N x 2."""
    lifted = torch.cat([points, torch.ones_like(points[:, :1])], dim=1) @ views.transpose(1, 2)
    return lifted[..., :2] / lifted[..., 2:]


def warp_strokes(views: torch.Tensor, ink: Ink) -> tuple[torch.Tensor, torch.Tensor]:
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
