"""An image in which something was found: what explains that is hidden from the next search."""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.drawings.edges import EdgeLevel, Edges
from niom_ros.matching.features import Features
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Match
from niom_ros.matching.sift import SiftFeatures, SiftParameters

MAX_OVERLAP = 0.5  # of two outlines by their union: two things that cover more are one


class PartlyHidden(ImageAnalysis):
    """An image without the keypoints and edges where something was found."""

    def __init__(self, image: ImageAnalysis, free: np.ndarray) -> None:
        """Hide where `free` (height x width) is 0."""
        super().__init__(
            image.image, image._perception, image.max_keypoints, part=image.part, times=image.times
        )
        self.free = free
        self._seen = image

    def sift(self, parameters: SiftParameters) -> SiftFeatures:
        """Return the SIFT keypoints that are free."""
        assert self.free is not None
        return self._seen.sift(parameters).inside(self.free)

    def _extract(self) -> Features:
        assert self.free is not None
        free = self.free if self.part is None else self.part.part_of(self.free)
        return self._seen.features.inside(free)

    def _find_edges(self) -> Edges:
        assert self.free is not None
        return free_edges(self._seen.edges, self.free)


def hiding(image: ImageAnalysis, found: Sequence[Match]) -> ImageAnalysis:
    """Return an image without the points of what was found in it."""
    height, width = image.image.shape[:2]
    free = np.full((height, width), 255, np.uint8) if image.free is None else image.free.copy()
    for match in found:
        points = match.correspondences.image_points[match.inliers]
        if len(points) >= 3:
            # Only the part that was seen: something else may lie on the rest of it.
            hull = cv2.convexHull(np.rint(points.clip(-1e4, 1e4)).astype(np.int32))
            cv2.fillConvexPoly(free, hull, 0)
            cv2.polylines(free, [hull], True, 0, 3)
    return PartlyHidden(image, free)


def free_edges(edges: Edges, free: np.ndarray) -> Edges:
    """Return edges of which those that are not free are as weak as beyond the border."""
    small = cv2.resize(free, edges.size, interpolation=cv2.INTER_NEAREST) != 0
    return replace(
        edges,
        oriented=edges.oriented * small,
        levels=tuple(free_level(level, free) for level in edges.levels),
    )


def free_level(level: EdgeLevel, free: np.ndarray) -> EdgeLevel:
    """Return one level of edges of which those that are not free are weak."""
    height, width = level.planes.shape[-2:]
    small = cv2.resize(free, (width, height), interpolation=cv2.INTER_NEAREST) != 0
    return replace(level, planes=level.planes * torch.from_numpy(small).to(level.planes))


def overlap(outline: np.ndarray, other: np.ndarray) -> float:
    """Return the area that two convex outlines share, by that of their union."""
    shared, _ = cv2.intersectConvexConvex(outline.astype(np.float32), other.astype(np.float32))
    both = cv2.contourArea(outline.astype(np.float32)) + cv2.contourArea(other.astype(np.float32))
    return float(shared / max(both - shared, 1e-9))


def outline_of(match: Match, box: Box) -> np.ndarray | None:
    """Return where the corners of a reference are (4 x 2), if it was found."""
    view = match.reference_to_image
    return None if view is None else warp_points(view, box.corners())


def outlines_of(matches: Sequence[Match], box: Box) -> list[np.ndarray]:
    """Return the outlines of those that were found."""
    outlines = (outline_of(match, box) for match in matches)
    return [outline for outline in outlines if outline is not None]


def covers_any(outline: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Return whether an outline covers the place of another one."""
    return any(overlap(outline, other) > MAX_OVERLAP for other in others)
