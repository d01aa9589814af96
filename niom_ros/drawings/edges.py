"""The edges of a camera image: how strong they are where, and which way they run.

Coarse levels are blurred so much that a drawing which lies far beside its object still feels
which way to go; the finest is as sharp as the image.
"""

from dataclasses import dataclass
import math

import cv2
import numpy as np
import torch
from torch.nn import functional

SIDE = 480  # pixels to which the longer side of an image is brought before it is read
DIRECTIONS = 8  # in which edges are told apart, over half a turn
SCALES = (1.0, 2.0, 4.0)  # pixels over which colours are compared
NEIGHBOURHOOD = 12.0  # pixels: an edge counts if it is stronger than others around it
FAINT = 0.1  # of the strong edges of the image: those that never count, however alone they are
USUAL = 0.6  # times the strength around: so strong are edges of a texture
DIRECTION_SPREAD = 1.5  # steps of direction over which an edge still counts
BLURS = (16.0, 8.0, 4.0, 2.0, 1.0)  # pixels, of the levels from coarse to fine


@dataclass(frozen=True)
class EdgeLevel:
    """The edges of an image at one sharpness, in units of their deviation from the mean."""

    blur: float  # pixels
    planes: torch.Tensor  # 1 x 3 x (DIRECTIONS + 1) x height x width: strength, its two slopes

    def at(
        self, points: torch.Tensor, normals: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor:
        """Return strength and slopes of edges across the normals at points: 3 x K x N.

        Points are pixels of an image of this size; beyond its border there are no edges.
        """
        width, height = size
        steps = (normals % math.pi) / math.pi * DIRECTIONS
        place = torch.stack(
            [
                (points[..., 0] + 0.5) / width * 2 - 1,
                (points[..., 1] + 0.5) / height * 2 - 1,
                (steps + 0.5) / (DIRECTIONS + 1) * 2 - 1,
            ],
            dim=-1,
        )
        found: torch.Tensor = functional.grid_sample(
            self.planes, place[None, None], align_corners=False, padding_mode='zeros'
        )
        return found[0, :, 0]


@dataclass(frozen=True)
class Edges:
    """The edges of an image whose longer side has SIDE pixels, from coarse to fine."""

    width: int
    height: int
    scale: float  # pixels of these edges for one of the image
    directed: np.ndarray  # DIRECTIONS x height x width, not blurred
    levels: tuple[EdgeLevel, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height in pixels."""
        return self.width, self.height

    def picture(self) -> np.ndarray:
        """Return the edges of all directions as people see them: RGB, light on dark."""
        strongest = self.directed.max(axis=0)
        grey = 255 * np.minimum(strongest / max(float(np.percentile(strongest, 99)), 1e-6), 1)
        return np.repeat(grey.astype(np.uint8)[:, :, None], 3, axis=2)


def edges_of(image: np.ndarray, device: torch.device) -> Edges:
    """Find the edges of an RGB image."""
    scale = SIDE / max(image.shape[:2])
    width, height = (max(1, round(length * scale)) for length in image.shape[1::-1])
    smaller = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    directed = directed_edges(cv2.resize(image, (width, height), interpolation=smaller))
    levels = tuple(level_of(directed, blur, device) for blur in BLURS)
    return Edges(width, height, scale, directed, levels)


def directed_edges(image: np.ndarray) -> np.ndarray:
    """Return how strong the edges of each direction are in an RGB image, about 0 to 1."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    found = np.zeros((DIRECTIONS, *image.shape[:2]), np.float32)
    for scale in SCALES:
        strength, angles = colour_slope(lab, scale)
        around = cv2.GaussianBlur(strength, (0, 0), NEIGHBOURHOOD)
        strong = float(np.percentile(strength, 90))
        unusual = np.maximum(strength / (around + FAINT * strong + 1e-6) - USUAL, 0)
        unusual /= unusual + 1
        steps = angles / math.pi * DIRECTIONS
        for direction in range(DIRECTIONS):
            apart = np.abs(steps - direction)
            apart = np.minimum(apart, DIRECTIONS - apart)
            found[direction] += unusual * np.maximum(1 - apart / DIRECTION_SPREAD, 0)
    return found / len(SCALES)


def colour_slope(lab: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how fast colours change over so many pixels, and in which direction, 0 to pi."""
    smooth = cv2.GaussianBlur(lab, (0, 0), scale, borderType=cv2.BORDER_REFLECT_101)
    dx, dy = (cv2.Scharr(smooth, -1, *order) / 32 * scale for order in ((1, 0), (0, 1)))
    xx, yy, xy = ((first * second).sum(axis=2) for first, second in ((dx, dx), (dy, dy), (dx, dy)))
    strength = np.sqrt((xx + yy + np.sqrt((xx - yy) ** 2 + 4 * xy * xy)) / 2)
    return strength, 0.5 * np.arctan2(2 * xy, xx - yy) % math.pi


def level_of(directed: np.ndarray, blur: float, device: torch.device) -> EdgeLevel:
    """Blur edges, and note how they change from pixel to pixel."""
    shrink = max(1, int(blur / 2))
    planes = []
    for plane in directed:
        if shrink > 1:
            size = tuple(max(1, round(length / shrink)) for length in plane.shape[::-1])
            plane = cv2.resize(plane, size, interpolation=cv2.INTER_AREA)
        planes.append(
            cv2.GaussianBlur(plane, (0, 0), blur / shrink, borderType=cv2.BORDER_REPLICATE)
        )
    strength = np.stack(planes)
    strength = (strength - strength.mean()) / (strength.std() + 1e-6)
    slopes = [np.gradient(strength, axis=axis) / shrink for axis in (2, 1)]
    level = np.stack([strength, *slopes])
    # The direction after the last is the first again.
    level = np.concatenate([level, level[:, :1]], axis=1).astype(np.float32)
    return EdgeLevel(blur, torch.from_numpy(level)[None].to(device))
