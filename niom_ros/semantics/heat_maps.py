"""Heat maps: how strongly each place of an image shows an object, from 0 to 1."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn.functional import grid_sample

from niom_ros.core.boxes import Box

MIN_VARIATION = 1e-6  # relative to its maximum; a map that varies less carries no information


@dataclass(frozen=True)
class Area:
    """An axis-aligned rectangle; pixel centres are integers, so an image starts at -0.5."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of_box(cls, box: Box) -> 'Area':
        """Return the rectangle that the pixels of a box cover."""
        left, top = box.left - 0.5, box.top - 0.5
        return cls(left, top, left + box.width, top + box.height)

    @classmethod
    def around(cls, points: np.ndarray) -> 'Area':
        """Return the smallest rectangle that contains points (N x 2)."""
        return cls(*points.min(axis=0).tolist(), *points.max(axis=0).tolist())

    @property
    def width(self) -> float:
        """Return the extent in x."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Return the extent in y."""
        return self.bottom - self.top

    def within(self, width: int, height: int) -> 'Area':
        """Return the part inside an image of this size, at least one point."""
        left, right = (min(max(x, -0.5), width - 0.5) for x in (self.left, self.right))
        top, bottom = (min(max(y, -0.5), height - 0.5) for y in (self.top, self.bottom))
        return Area(left, top, max(left, right), max(top, bottom))

    def corners(self) -> np.ndarray:
        """Return the four corners, clockwise from the top left: 4 x 2."""
        left, top, right, bottom = self.left, self.top, self.right, self.bottom
        return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])

    def enlarged(self, margin: float) -> 'Area':
        """Return the rectangle with a margin on each side."""
        return Area(
            self.left - margin, self.top - margin, self.right + margin, self.bottom + margin
        )

    def moved(self, right: float, down: float) -> 'Area':
        """Return the rectangle shifted."""
        return Area(self.left + right, self.top + down, self.right + right, self.bottom + down)

    def contains(self, points: torch.Tensor) -> torch.Tensor:
        """Return for each point (N x 2) whether it lies in the rectangle."""
        x, y = points.unbind(-1)
        return (x >= self.left) & (x <= self.right) & (y >= self.top) & (y <= self.bottom)


def overlap(one: Area, other: Area) -> float:
    """Return the intersection over union of two areas."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    if width <= 0 or height <= 0:
        return 0.0
    common = width * height
    return common / (one.width * one.height + other.width * other.height - common)


@dataclass(frozen=True)
class GridFrame:
    """How the cells of a grid lie on an image: cell = scale * pixel + shift, on each axis."""

    width: int  # of the image
    height: int
    scale_x: float = 1.0
    scale_y: float = 1.0
    shift_x: float = 0.0
    shift_y: float = 0.0

    @classmethod
    def spanning(cls, width: int, height: int, rows: int, columns: int) -> 'GridFrame':
        """Return the frame of a grid that covers the whole image."""
        scale_x, scale_y = columns / width, rows / height
        return cls(
            width=width,
            height=height,
            scale_x=scale_x,
            scale_y=scale_y,
            shift_x=scale_x / 2 - 0.5,
            shift_y=scale_y / 2 - 0.5,
        )

    @classmethod
    def over(cls, width: int, height: int, area: Area, rows: int, columns: int) -> 'GridFrame':
        """Return the frame of a grid that covers an area of an image, or goes beyond it."""
        scale_x, scale_y = columns / area.width, rows / area.height
        return cls(
            width=width,
            height=height,
            scale_x=scale_x,
            scale_y=scale_y,
            shift_x=-scale_x * area.left - 0.5,
            shift_y=-scale_y * area.top - 0.5,
        )

    @property
    def area(self) -> Area:
        """Return the whole image."""
        return Area(-0.5, -0.5, self.width - 0.5, self.height - 0.5)


@dataclass(frozen=True)
class HeatMap:
    """A map over an image: a grid, interpolated, normalised and clipped to a box."""

    grid: torch.Tensor  # h x w, not negative
    frame: GridFrame
    gate: Area | None  # outside of it the map is 0
    low: torch.Tensor  # grid values that become 0 and 1; scalars
    high: torch.Tensor
    # 3 x 3, from pixels of the image to those of the one the map was made from; None: the same.
    to_origin: torch.Tensor | None = None

    @classmethod
    def of_grid(cls, grid: torch.Tensor, frame: GridFrame, gate: Area | None = None) -> 'HeatMap':
        """Make a map from the evidence on a grid; as in Grad-CAM, negative evidence becomes 0.

        The minimum over the image becomes 0, the maximum over the gate 1. Values outside of the
        image, where a network saw padding, have no influence.
        """
        grid = torch.nan_to_num(grid.float(), nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0)
        nothing = grid.new_zeros(())
        raw = cls(grid=grid, frame=frame, gate=None, low=nothing, high=nothing + 1)
        gate = None if gate is None else gate.within(frame.width, frame.height)
        low = raw._extremes(frame.area)[0]
        high = raw._extremes(gate or frame.area)[1]
        return replace(raw, gate=gate, low=low, high=high)

    @classmethod
    def filled(cls, area: Area, frame: GridFrame, like: torch.Tensor) -> 'HeatMap':
        """Make a map that is 1 in a rectangle and 0 elsewhere."""
        return cls.of_grid(like.new_zeros(1, 1), frame, area)

    def moved(self, left: int, top: int, width: int, height: int) -> 'HeatMap':
        """Return the map of a crop as that of the whole image, of this size."""
        assert self.to_origin is None, 'only references are cut, and they do not move'
        frame = self.frame
        gate = (self.gate or frame.area).moved(left, top)
        whole = replace(
            frame,
            width=width,
            height=height,
            shift_x=frame.shift_x - frame.scale_x * left,
            shift_y=frame.shift_y - frame.scale_y * top,
        )
        return replace(self, frame=whole, gate=gate)

    def carried(self, motion: np.ndarray) -> 'HeatMap':
        """Return the map on another image, given the motion (3 x 3) from this one to that."""
        to_here = torch.from_numpy(np.linalg.inv(motion)).to(self.grid)
        to_origin = to_here if self.to_origin is None else self.to_origin @ to_here
        return replace(self, to_origin=to_origin)

    def at(self, points: torch.Tensor) -> torch.Tensor:
        """Return the heat at points (N x 2, pixels of the image)."""
        if self.to_origin is None:
            return self._heat(points)
        points = points.to(self.grid.dtype) @ self.to_origin[:, :2].T + self.to_origin[:, 2]
        return self._heat(points[:, :2] / points[:, 2:]) * (points[:, 2] > 0)

    def _heat(self, points: torch.Tensor) -> torch.Tensor:
        """Return the heat at points of the image that the map was made from."""
        span = self.high - self.low
        flat = span <= MIN_VARIATION * self.high.clamp(min=MIN_VARIATION)
        heat = (self._values(points) - self.low) / torch.where(flat, 1.0, span)
        if self.gate is None:
            return torch.where(flat, 0.0, heat.clamp(0, 1))
        # Without any evidence inside the box, the box itself is the evidence.
        heat = torch.where(flat, 1.0, heat.clamp(0, 1))
        return heat * self.gate.contains(points)

    def picture(self, width: int, height: int) -> torch.Tensor:
        """Return the map as an image (height x width), which may be smaller than the original."""
        x = pixel_centres(width, self.frame.width / width, self.grid)
        y = pixel_centres(height, self.frame.height / height, self.grid)
        points = torch.stack(torch.meshgrid(x, y, indexing='xy'), -1)
        return self.at(points.reshape(-1, 2)).reshape(height, width)

    def _values(self, points: torch.Tensor) -> torch.Tensor:
        frame, (rows, columns) = self.frame, self.grid.shape
        x, y = points.to(self.grid.dtype).unbind(-1)
        # grid_sample goes from -1 at the outer edge of the first cell to 1 at that of the last.
        u = (2 * (frame.scale_x * x + frame.shift_x) + 1) / columns - 1
        v = (2 * (frame.scale_y * y + frame.shift_y) + 1) / rows - 1
        where = torch.stack((u, v), -1)[None, None]
        sampled = grid_sample(
            self.grid[None, None], where, padding_mode='border', align_corners=False
        )
        return sampled[0, 0, 0]

    def _extremes(self, area: Area) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the smallest and largest value in a rectangle.

        An interpolated grid has them at cell centres, or where rows or columns of centres meet the
        edges.
        """
        frame, (rows, columns) = self.frame, self.grid.shape
        x = (torch.arange(columns, device=self.grid.device) - frame.shift_x) / frame.scale_x
        y = (torch.arange(rows, device=self.grid.device) - frame.shift_y) / frame.scale_y
        x = torch.cat((x.new_tensor([area.left, area.right]), x.clamp(area.left, area.right)))
        y = torch.cat((y.new_tensor([area.top, area.bottom]), y.clamp(area.top, area.bottom)))
        points = torch.stack(torch.meshgrid(x, y, indexing='xy'), -1)
        values = self._values(points.reshape(-1, 2))
        return values.min(), values.max()


def pixel_centres(count: int, size: float, like: torch.Tensor) -> torch.Tensor:
    """Return the centres of pixels of this size, in pixels of size 1."""
    return (torch.arange(count, device=like.device, dtype=like.dtype) + 0.5) * size - 0.5
