"""Photos that a camera sees from known viewpoints, alone or among clutter."""

from dataclasses import dataclass
import math
from pathlib import Path

import cv2
import numpy as np

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import resizing, warp_points

IMAGENET = 'scenes/imagenet'


@dataclass(frozen=True)
class CameraParameters:
    """What the camera is like."""

    width: int = 640  # pixels of its images
    height: int = 480
    corner_shift: float = 0.08  # of the photo's width and height, either way: mild perspective
    brightness: tuple[float, float] = (0.6, 1.2)
    noise: float = 6.0  # grey values
    table: tuple[int, int] = (60, 200)  # grey values of a table without any clutter


CAMERA = CameraParameters()


def find_photos(data: Path) -> list[Path]:
    """Return the photos."""
    return sorted((data / IMAGENET).glob('*.JPEG'))


def other_photos(data: Path) -> list[tuple[Path, Path]]:
    """Return each photo, and another one that lies behind it."""
    photos = find_photos(data)
    return [
        (photo, photos[(index + len(photos) // 2) % len(photos)])
        for index, photo in enumerate(photos)
    ]


def view_of(
    size: tuple[int, int],
    *,
    longer_side: float,
    degrees: float,
    centre: tuple[float, float] | np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the homography from a photo to a camera image, with mild perspective.

    The photo's longer side has this length in the image, and its centre is there.
    """
    corners = Box(0, 0, *size).corners()
    shift = random.uniform(-CAMERA.corner_shift, CAMERA.corner_shift, (4, 2))
    bent = corners + shift * np.array(size)
    perspective = cv2.getPerspectiveTransform(
        corners.astype(np.float32), bent.astype(np.float32)
    ).astype(float)
    middle = tuple(((np.array(size) - 1) / 2).tolist())
    turned = np.eye(3)
    turned[:2] = cv2.getRotationMatrix2D(middle, degrees, longer_side / max(size))
    turned[:2, 2] += np.array(centre) - middle
    view: np.ndarray = turned @ perspective
    return view / view[2, 2]


def seen_by_camera(
    photo: np.ndarray,
    view: np.ndarray,
    behind: np.ndarray | None,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the camera image of a photo that lies on another one, or on an empty table."""
    image = table_or(behind, random)
    put_onto(image, photo, view)
    return photographed(image, random)


def table_or(behind: np.ndarray | None, random: np.random.Generator) -> np.ndarray:
    """Return what a photo lies on: another photo, or an empty table."""
    size = CAMERA.width, CAMERA.height
    if behind is None:
        return np.full((size[1], size[0], 3), random.integers(*CAMERA.table), np.uint8)
    return np.asarray(cv2.resize(behind, size, interpolation=cv2.INTER_AREA))


def put_onto(image: np.ndarray, photo: np.ndarray, view: np.ndarray) -> None:
    """Draw a photo onto a camera image."""
    # Shrunk first, because warping alone skips pixels.
    corners = warp_points(view, Box.around(photo).corners())
    sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    shrink = min(1.0, float(sides.max()) / max(photo.shape[:2]))
    # By its size, because OpenCV would take a factor for exact that makes it whole pixels only
    # after rounding: the truth would be up to half a pixel off.
    small_size = tuple(max(1, round(shrink * side)) for side in photo.shape[1::-1])
    small = cv2.resize(photo, small_size, interpolation=cv2.INTER_AREA)
    to_small = resizing(small.shape[1] / photo.shape[1], small.shape[0] / photo.shape[0])
    cv2.warpPerspective(
        small,
        view @ np.linalg.inv(to_small),
        (CAMERA.width, CAMERA.height),
        dst=image,
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_TRANSPARENT,
    )


def photographed(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return an image in some light, with noise."""
    lit = image * random.uniform(*CAMERA.brightness)
    return (lit + random.normal(0, CAMERA.noise, image.shape)).clip(0, 255).astype(np.uint8)


def visible_error(found: np.ndarray, truth: np.ndarray, size: tuple[int, int]) -> float:
    """Return how far a view is off on average, over the part of a photo in the camera image."""
    columns, rows = np.meshgrid(
        np.linspace(0, CAMERA.width - 1, 17), np.linspace(0, CAMERA.height - 1, 13)
    )
    image_points = np.column_stack([columns.ravel(), rows.ravel()])
    points = warp_points(np.linalg.inv(truth), image_points)
    on_photo = ((points >= 0) & (points <= np.array(size) - 1)).all(axis=1)
    if not on_photo.any():
        return math.inf
    offsets = warp_points(found, points[on_photo]) - image_points[on_photo]
    return float(np.linalg.norm(offsets, axis=1).mean())
