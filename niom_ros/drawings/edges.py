"""The edges of a camera image: how strong they are at each pixel, and their orientation.

Coarse levels are blurred enough to attract a drawing from far away; the finest is as sharp as the
image.
"""

from dataclasses import dataclass
import math

import cv2
import numpy as np
import torch
from torch.nn import functional

# In standard deviations; a stronger edge is no better for a view. Otherwise the best view is often
# a tiny one, in which all ink lies on the few strongest edges.
MAX_STRENGTH = 3.0


@dataclass(frozen=True, kw_only=True)
class EdgeParameters:
    """How edges are found."""

    side: int = 480  # pixels to which the longer side of an image is resized first
    orientations: int = 8  # bins over half a turn
    orientation_spread: float = 1.5  # bins over which an edge is spread
    blurs: tuple[float, ...] = (16.0, 8.0, 4.0, 2.0, 1.0)  # pixels, from coarse to fine

    spreads: tuple[float, ...] = (1.0, 2.0, 4.0)  # pixels over which colours are compared
    # Gradient over one pixel: camera noise is below, shades 4 % apart are above.
    min_gradient: float = 25.0
    neighbourhood: float = 12.0  # pixels around an edge that it must stand out from

    min_strength: float = 0.1  # relative to strong edges of the image; weaker ones never count
    texture_strength: float = 0.6  # relative to the mean strength around; weaker is texture
    min_deviation: float = 0.03  # of strengths; below, there are hardly any edges


DEFAULTS = EdgeParameters()


@dataclass(frozen=True)
class EdgeLevel:
    """The edges of an image at one blur, in standard deviations from their mean."""

    blur: float  # pixels
    # 1 x 3 x (orientations + 1) x height x width: strength and its two gradients; the first
    # orientation is repeated at the end.
    planes: torch.Tensor

    def at(
        self, points: torch.Tensor, normals: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor:
        """Return strength and gradients of edges across the normals at points: 3 x K x N.

        Points are pixels of an image of this size; beyond its border there are no edges.
        """
        width, height = size
        orientations = self.planes.shape[2] - 1
        steps = (normals % math.pi) / math.pi * orientations
        place = torch.stack(
            [
                (points[..., 0] + 0.5) / width * 2 - 1,
                (points[..., 1] + 0.5) / height * 2 - 1,
                (steps + 0.5) / (orientations + 1) * 2 - 1,
            ],
            dim=-1,
        )
        found: torch.Tensor = functional.grid_sample(
            self.planes, place[None, None], align_corners=False, padding_mode='zeros'
        )
        return found[0, :, 0]


@dataclass(frozen=True)
class Edges:
    """The edges of a resized image, from coarse to fine."""

    width: int
    height: int
    scale: float  # pixels of these edges per pixel of the image
    oriented: np.ndarray  # orientations x height x width, not blurred
    levels: tuple[EdgeLevel, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height in pixels."""
        return self.width, self.height

    def picture(self) -> np.ndarray:
        """Return the edges of all orientations as an RGB picture, light on dark."""
        strongest = self.oriented.max(axis=0)
        grey = 255 * np.minimum(strongest / max(float(np.percentile(strongest, 99)), 1e-6), 1)
        return np.repeat(grey.astype(np.uint8)[:, :, None], 3, axis=2)


def find_edges(
    image: np.ndarray, device: torch.device, parameters: EdgeParameters = DEFAULTS
) -> Edges:
    """Find where the colours of an RGB image change."""
    scale = parameters.side / max(image.shape[:2])
    width, height = (max(2, round(length * scale)) for length in image.shape[1::-1])
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(image, (width, height), interpolation=interpolation)
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    found = [
        oriented_edges(
            structure_tensor(lab, spread),
            parameters.neighbourhood,
            parameters.min_gradient / spread,
            parameters,
        )
        for spread in parameters.spreads
    ]
    edges: np.ndarray = np.mean(found, axis=0)
    levels = tuple(edge_level(edges, blur, device, parameters) for blur in parameters.blurs)
    return Edges(width=width, height=height, scale=scale, oriented=edges, levels=levels)


def structure_tensor(planes: np.ndarray, spread: float) -> np.ndarray:
    """Return the structure tensor of planes (h x w x D), smoothed over `spread` pixels.

    It is h x w x 3: its parts xx, yy and xy.
    """
    smooth = cv2.GaussianBlur(planes, (0, 0), spread, borderType=cv2.BORDER_REFLECT_101)
    dx, dy = (cv2.Scharr(smooth, -1, *order) for order in ((1, 0), (0, 1)))
    products = ((dx, dx), (dy, dy), (dx, dy))
    return np.stack([np.einsum('ijk,ijk->ij', *pair) for pair in products], axis=2)


def oriented_edges(
    tensor: np.ndarray,
    neighbourhood: float,
    min_gradient: float,
    parameters: EdgeParameters = DEFAULTS,
) -> np.ndarray:
    """Return how strong the edges of each orientation are (orientations x h x w), about 0 to 1.

    Gradients that are not much steeper than `min_gradient` do not count.
    """
    orientations = parameters.orientations
    xx, yy, xy = np.moveaxis(tensor, 2, 0)
    strength = np.sqrt((xx + yy + np.sqrt((xx - yy) ** 2 + 4 * xy * xy)) / 2)
    steps = 0.5 * np.arctan2(2 * xy, xx - yy) % math.pi / math.pi * orientations
    around = cv2.GaussianBlur(strength, (0, 0), neighbourhood)
    strong = float(np.percentile(strength, 90))
    usual = np.maximum(around + parameters.min_strength * strong, min_gradient)
    unusual = np.maximum(strength / usual - parameters.texture_strength, 0)
    unusual /= unusual + 1
    apart = np.abs(steps - np.arange(orientations, dtype=np.float32)[:, None, None])
    apart = np.minimum(apart, orientations - apart)
    edges: np.ndarray = unusual * np.maximum(1 - apart / parameters.orientation_spread, 0)
    return edges.astype(np.float32)


def edge_level(
    oriented: np.ndarray,
    blur: float,
    device: torch.device,
    parameters: EdgeParameters = DEFAULTS,
) -> EdgeLevel:
    """Blur edges and compute their gradients."""
    shrink = max(1, int(blur / 2))
    planes = []
    for plane in oriented:
        if shrink > 1:
            size = tuple(max(2, round(length / shrink)) for length in plane.shape[::-1])
            plane = cv2.resize(plane, size, interpolation=cv2.INTER_AREA)
        planes.append(
            cv2.GaussianBlur(plane, (0, 0), blur / shrink, borderType=cv2.BORDER_REPLICATE)
        )
    strength = np.stack(planes)
    deviation = max(float(strength.std()), parameters.min_deviation)
    strength = (strength - strength.mean()) / deviation
    gradients = [np.gradient(strength, axis=axis) / shrink for axis in (2, 1)]
    level = np.stack([strength, *gradients])
    # After the last orientation comes the first again.
    level = np.concatenate([level, level[:, :1]], axis=1).astype(np.float32)
    return EdgeLevel(blur, torch.from_numpy(level)[None].to(device))
