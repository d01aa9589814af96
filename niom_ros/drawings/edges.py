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

from niom_ros.models.store import ModelStore
from niom_ros.networks.darknet import yolov4_tiny_network

SIDE = 480  # pixels to which the longer side of an image is brought before it is read
DIRECTIONS = 8  # in which edges are told apart, over half a turn
COLOUR_SPREADS = (1.0, 2.0, 4.0)  # pixels over which colours are compared
FAINTEST_COLOUR = 25.0  # slope over one pixel; noise of a camera has less, shades 4 % apart more
COLOUR_NEIGHBOURHOOD = 12.0  # pixels: an edge counts if it is stronger than others around it
LOOK_LAYERS = (7, 15)  # of the network: the ends of its first two blocks
LOOK_SCALE = 2.0  # pixels of the network's input for one of the image
LOOK_SPREAD = 1.0  # places of a layer over which looks are compared
LOOK_NEIGHBOURHOOD = 24.0  # pixels
STRIDE = 32  # the network's input is a multiple of it
MARGIN = 64  # pixels of the network's input around the image, so that its border is no edge
FAINT = 0.1  # of the strong edges of the image: those that never count, however alone they are
USUAL = 0.6  # times the strength around: so strong are edges of a texture
DIRECTION_SPREAD = 1.5  # steps of direction over which an edge still counts
LEAST_SPREAD = 0.03  # of edges; where they differ less, there are hardly any
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


class EdgeFinder:
    """Finds the edges of images: where colours change, and where a network sees another thing.

    The first layers of a detector look at both sides of an edge with eyes that have seen many
    things, so that the border of a tiger counts more than its stripes.
    """

    def __init__(self, store: ModelStore, device: torch.device) -> None:
        """Load the network from the model store."""
        self._network = yolov4_tiny_network(store).eval().to(device)
        self._device = device

    def find(self, image: np.ndarray) -> Edges:
        """Find the edges of an RGB image."""
        scale = SIDE / max(image.shape[:2])
        width, height = (max(2, round(length * scale)) for length in image.shape[1::-1])
        smaller = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        small = cv2.resize(image, (width, height), interpolation=smaller)
        lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
        found = [
            directed(slope(lab, spread), COLOUR_NEIGHBOURHOOD, FAINTEST_COLOUR / spread)
            for spread in COLOUR_SPREADS
        ]
        for looks in self._looks(small):
            tensor = cv2.resize(slope(looks, LOOK_SPREAD), (width, height))
            found.append(directed(tensor, LOOK_NEIGHBOURHOOD))
        edges: np.ndarray = np.mean(found, axis=0)
        levels = tuple(level_of(edges, blur, self._device) for blur in BLURS)
        return Edges(width, height, scale, edges, levels)

    @torch.no_grad()
    def _looks(self, image: np.ndarray) -> list[np.ndarray]:
        """Return how places of an RGB image look to layers of the network: h x w x D each."""
        size = tuple(
            max(STRIDE, round(length * LOOK_SCALE / STRIDE) * STRIDE)
            for length in image.shape[1::-1]
        )
        framed = cv2.copyMakeBorder(
            cv2.resize(image, size), MARGIN, MARGIN, MARGIN, MARGIN, cv2.BORDER_REFLECT_101
        )
        pixels = torch.from_numpy(framed).to(self._device)
        pixels = pixels.permute(2, 0, 1)[None].float() / 255
        looks = []
        for layer in self._network.features(pixels, LOOK_LAYERS):
            margin = MARGIN * layer.shape[3] // framed.shape[1]
            features = layer[0, :, margin:-margin, margin:-margin].float()
            spread, mean = torch.std_mean(features, dim=(1, 2), keepdim=True)
            normal = (features - mean) / (spread + 1e-3)
            looks.append(normal.permute(1, 2, 0).contiguous().cpu().numpy())
        return looks


def slope(planes: np.ndarray, spread: float) -> np.ndarray:
    """Return how fast planes (h x w x D) change over so many pixels, and which way.

    As the structure tensor: h x w x 3, its parts xx, yy and xy.
    """
    smooth = cv2.GaussianBlur(planes, (0, 0), spread, borderType=cv2.BORDER_REFLECT_101)
    dx, dy = (cv2.Scharr(smooth, -1, *order) for order in ((1, 0), (0, 1)))
    products = ((dx, dx), (dy, dy), (dx, dy))
    return np.stack([np.einsum('ijk,ijk->ij', *pair) for pair in products], axis=2)


def directed(tensor: np.ndarray, neighbourhood: float, faintest: float = 1e-6) -> np.ndarray:
    """Return how strong the edges of each direction are (DIRECTIONS x h x w), about 0 to 1.

    Slopes that are not much steeper than the faintest are none.
    """
    xx, yy, xy = np.moveaxis(tensor, 2, 0)
    strength = np.sqrt((xx + yy + np.sqrt((xx - yy) ** 2 + 4 * xy * xy)) / 2)
    steps = 0.5 * np.arctan2(2 * xy, xx - yy) % math.pi / math.pi * DIRECTIONS
    around = cv2.GaussianBlur(strength, (0, 0), neighbourhood)
    strong = float(np.percentile(strength, 90))
    usual = np.maximum(around + FAINT * strong, faintest)
    unusual = np.maximum(strength / usual - USUAL, 0)
    unusual /= unusual + 1
    apart = np.abs(steps - np.arange(DIRECTIONS, dtype=np.float32)[:, None, None])
    apart = np.minimum(apart, DIRECTIONS - apart)
    edges: np.ndarray = unusual * np.maximum(1 - apart / DIRECTION_SPREAD, 0)
    return edges.astype(np.float32)


def level_of(directed: np.ndarray, blur: float, device: torch.device) -> EdgeLevel:
    """Blur edges, and note how they change from pixel to pixel."""
    shrink = max(1, int(blur / 2))
    planes = []
    for plane in directed:
        if shrink > 1:
            size = tuple(max(2, round(length / shrink)) for length in plane.shape[::-1])
            plane = cv2.resize(plane, size, interpolation=cv2.INTER_AREA)
        planes.append(
            cv2.GaussianBlur(plane, (0, 0), blur / shrink, borderType=cv2.BORDER_REPLICATE)
        )
    strength = np.stack(planes)
    strength = (strength - strength.mean()) / max(float(strength.std()), LEAST_SPREAD)
    slopes = [np.gradient(strength, axis=axis) / shrink for axis in (2, 1)]
    level = np.stack([strength, *slopes])
    # The direction after the last is the first again.
    level = np.concatenate([level, level[:, :1]], axis=1).astype(np.float32)
    return EdgeLevel(blur, torch.from_numpy(level)[None].to(device))
