"""The camera model: from pixels to rays, and from points in space to pixels."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from niom_ros.core.errors import UserError
from niom_ros.core.field_types import check_fields

# The numbers of coefficients that OpenCV accepts for each distortion model of CameraInfo. 12
# include four for a thin prism, 14 also two for a tilted sensor.
COEFFICIENTS = {
    'plumb_bob': (0, 4, 5),
    'rational_polynomial': (8, 12, 14),
    'equidistant': (4,),
    '': (0,),  # sent by drivers of cameras without distortion
}
MAX_RAY_ERROR = 0.01  # pixels; if no ray comes this close, the pixel shows nothing


class CameraError(UserError):
    """A camera_info cannot be used; the message says what to do."""


@dataclass(frozen=True, eq=False)
class CameraModel:
    """A calibrated camera, in pixels of its images as received.

    Rays and points are in the camera's optical frame: x to the right, y down, z forward. As
    in image_geometry, this is the frame of the rectified camera, even for images that are not
    rectified, so that the pose of an object is the same from both.
    """

    expected_size: tuple[int, int]  # width, height
    matrix: np.ndarray  # 3 x 3, from normalised coordinates to pixels
    distortion: np.ndarray  # the coefficients, as OpenCV orders them
    fisheye: bool = False  # whether these belong to the equidistant model
    # 3 x 3, from the frame of the lens to the optical frame
    rectification: np.ndarray = field(default_factory=lambda: np.eye(3))
    frame_id: str = ''  # of its images; empty: unknown

    def __post_init__(self) -> None:
        """Refuse what is not a camera; lists become arrays."""
        for name, shape in (('matrix', (3, 3)), ('distortion', (-1,)), ('rectification', (3, 3))):
            object.__setattr__(self, name, as_numbers(name, getattr(self, name), shape))
        check_fields(self, CameraError)
        if not (self.matrix[0, 0] > 0 and self.matrix[1, 1] > 0):
            raise CameraError(
                'the focal lengths in the camera matrix are not positive: calibrate the camera'
            )

    @classmethod
    def of_message(cls, info: Any, rectified: bool) -> 'CameraModel':
        """Read a sensor_msgs/CameraInfo, or anything with the same fields.

        If the images are rectified already, they have no distortion left.
        """
        name, columns = ('p', 4) if rectified else ('k', 3)
        matrix = as_matrix(info, name, columns)[:, :3]
        if matrix[0, 0] <= 0 or matrix[1, 1] <= 0:
            raise CameraError(
                f'camera_info carries no calibration (the focal length in {name} is not '
                'positive): calibrate the camera, for instance with the ROS package '
                'camera_calibration, and let its driver load the result'
            )
        if not info.width or not info.height:
            raise CameraError(
                f'camera_info describes {info.width} x {info.height} images: '
                'let the driver fill in the width and height of its calibration'
            )
        binning = np.array([max(1, info.binning_x), max(1, info.binning_y)])
        offset = np.array([info.roi.x_offset, info.roi.y_offset])
        size = np.array(
            [
                info.roi.width or info.width - offset[0],
                info.roi.height or info.height - offset[1],
            ]
        )
        # As in image_geometry, also for rectified images: x = (x_full - offset) / binning.
        received = np.diag([matrix[0, 0] / binning[0], matrix[1, 1] / binning[1], 1.0])
        received[:2, 2] = (matrix[:2, 2] - offset) / binning
        width, height = (int(side) for side in size // binning)
        if rectified:
            return cls((width, height), received, np.zeros(0), frame_id=info.header.frame_id)
        return cls(
            expected_size=(width, height),
            matrix=received,
            distortion=coefficients(info),
            fisheye=info.distortion_model == 'equidistant',
            rectification=rotation(info),
            frame_id=info.header.frame_id,
        )

    def check_image(self, width: int, height: int, frame_id: str = '') -> None:
        """Refuse images that do not fit the calibration."""
        names = {name.lstrip('/') for name in (self.frame_id, frame_id)} - {''}
        if len(names) > 1:
            raise CameraError(
                f"camera_info is that of '{self.frame_id}', but the image comes from "
                f"'{frame_id}': use the camera_info that belongs to this image topic, or let both "
                'carry the same frame_id'
            )
        if (width, height) != self.expected_size:
            raise CameraError(
                f'camera_info describes {self.expected_size[0]} x {self.expected_size[1]} images, '
                f'but the camera sends {width} x {height}: use the camera_info that belongs to '
                'this image topic, or calibrate the camera at this size'
            )

    def project(self, points: np.ndarray) -> np.ndarray:
        """Return where N x 3 points in the optical frame appear, as N x 2 pixels.

        NaN for points that the camera cannot see: behind it, or too far to a side.
        """
        lens_points = np.asarray(points, np.float64) @ self.rectification
        with np.errstate(divide='ignore', invalid='ignore'):
            lens_rays = lens_points[:, :2] / lens_points[:, 2:]
        visible = (lens_points[:, 2] > 0) & (np.linalg.norm(lens_rays, axis=1) <= self.reach)
        return np.where(visible[:, None], self._image(lens_rays), np.nan)

    def rays(self, image_points: np.ndarray) -> np.ndarray:
        """Return the rays x / z, y / z of N x 2 pixels: the inverse of project.

        NaN for pixels that show nothing, such as the black corners of some lenses.
        """
        image_points = np.asarray(image_points, np.float64)
        focal, centre = np.diag(self.matrix)[:2], self.matrix[:2, 2]
        lens_rays = (image_points - centre) / focal
        # Newton's method. OpenCV's own stops after a few iterations, which cannot be changed in
        # some versions: at the edge of wide-angle images it is pixels off.
        for _ in range(20):
            offsets = image_points - self._image(lens_rays)
            unseen = ~(np.linalg.norm(offsets, axis=1) < MAX_RAY_ERROR)
            with np.errstate(divide='ignore', invalid='ignore'):
                lens_rays = lens_rays + solve_2x2(slopes(self._image, lens_rays), offsets)
                # Beyond its reach the model is not valid.
                excess = np.linalg.norm(lens_rays, axis=1, keepdims=True) / self.reach
                lens_rays = lens_rays / np.maximum(1, excess)
            if not unseen.any():
                break
        points = lifted(lens_rays) @ self.rectification.T
        unseen |= points[:, 2] <= 0
        return np.where(unseen[:, None], np.nan, points[:, :2] / points[:, 2:])

    def slopes(self, rays: np.ndarray) -> np.ndarray:
        """Return the derivative of pixels by rays at N rays, as N x 2 x 2."""
        return slopes(lambda moved: self.project(lifted(moved)), rays)

    @cached_property
    def reach(self) -> float:
        """Return how far off its axis the camera sees, as the tangent of the angle.

        The polynomials of a lens model fold back somewhere beyond the edge of the image: points
        further out would move back into it.
        """
        tangents = np.tan(np.radians(np.linspace(0, 89.5, 360)))
        turns = np.radians(np.arange(0, 360, 45))
        directions = np.column_stack([np.cos(turns), np.sin(turns)])
        lens_rays = tangents[:, None, None] * directions
        growth = np.linalg.det(slopes(self._image, lens_rays.reshape(-1, 2)))
        folded = (growth.reshape(lens_rays.shape[:2]) <= 0).any(axis=1)
        return float(tangents[folded.argmax() - 1] if folded.any() else tangents[-1])

    def _image(self, lens_rays: np.ndarray) -> np.ndarray:
        """Return the pixels at which N x 2 rays in the frame of the lens arrive."""
        if not len(lens_rays):
            return np.empty((0, 2))
        project = cv2.fisheye.projectPoints if self.fisheye else cv2.projectPoints
        nowhere = np.zeros(3)
        image_points, _ = project(
            lifted(lens_rays)[:, None], nowhere, nowhere, self.matrix, self.distortion
        )
        return image_points[:, 0]


class CameraCalibration:
    """The camera that a camera_info describes, computed again only when it changes."""

    def __init__(self) -> None:
        self._source: tuple[Any, bool] | None = None
        self._camera: CameraModel | None = None
        self._problem = ''

    def camera_for(
        self, info: Any, rectified: bool, width: int, height: int, frame_id: str
    ) -> tuple[CameraModel | None, str]:
        """Return the camera that took an image like this, or why it is unknown."""
        if self._source is None or self._source[0] is not info or self._source[1] != rectified:
            self._source, self._camera, self._problem = (info, rectified), None, ''
            try:
                self._camera = CameraModel.of_message(info, rectified)
            except CameraError as error:
                self._problem = str(error)
        if self._camera is None:
            return None, self._problem
        try:
            self._camera.check_image(width, height, frame_id)
            return self._camera, ''
        except CameraError as error:
            return None, str(error)


def as_numbers(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers of a camera model as an array of this shape; -1 is any length."""
    try:
        values: np.ndarray | None = np.asarray(given, np.float64).reshape(shape)
    except (TypeError, ValueError):
        values = None
    if values is None or not np.isfinite(values).all():
        size = ' x '.join(str(side) for side in shape) if shape[0] > 0 else 'any number of'
        raise CameraError(f'the {name} of a camera must be {size} finite numbers, as OpenCV has')
    return values


def as_matrix(info: Any, name: str, columns: int) -> np.ndarray:
    """Return a three-row matrix of camera_info."""
    values = np.asarray(getattr(info, name), np.float64).ravel()
    if len(values) != 3 * columns or not np.isfinite(values).all():
        raise CameraError(
            f'{name} in camera_info must be {3 * columns} finite numbers, but is '
            f'{shown(values)}: calibrate the camera again'
        )
    return values.reshape(3, columns)


def coefficients(info: Any) -> np.ndarray:
    """Return the distortion coefficients of camera_info."""
    model = info.distortion_model
    if model not in COEFFICIENTS:
        raise CameraError(
            f"camera_info has the unknown distortion model '{model[:40]}': use one of "
            f'{", ".join(filter(None, COEFFICIENTS))}, or rectified images and set rectified_image'
        )
    values = np.asarray(info.d, np.float64).ravel()
    if not model and not values.any():
        return np.zeros(0)
    if len(values) not in COEFFICIENTS[model] or not np.isfinite(values).all():
        counts = ' or '.join(str(count) for count in COEFFICIENTS[model])
        raise CameraError(
            f"d in camera_info must be {counts} finite numbers for the model '{model}', but is "
            f'{shown(values)}: calibrate the camera again, or use rectified images and set '
            'rectified_image'
        )
    return values


def shown(values: np.ndarray, most: int = 20) -> str:
    """Return the first numbers as text, and how many more there are."""
    more = f' and {len(values) - most} more' if len(values) > most else ''
    return f'{values[:most].tolist()}{more}'


def rotation(info: Any) -> np.ndarray:
    """Return the rectification matrix of camera_info; the identity if it was never set."""
    matrix = as_matrix(info, 'r', 3)
    if not matrix.any():
        return np.eye(3)
    if not np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-3) or np.linalg.det(matrix) < 0:
        raise CameraError(
            f'r in camera_info is not a rotation matrix: {matrix.ravel().tolist()}: '
            'calibrate the camera again, or use rectified images and set rectified_image'
        )
    return matrix


def lifted(points: np.ndarray) -> np.ndarray:
    """Return N x 2 points or rays with a 1 as third coordinate."""
    return np.column_stack([points, np.ones(len(points))])


def slopes(image: Callable[[np.ndarray], np.ndarray], rays: np.ndarray) -> np.ndarray:
    """Return the derivative of a function from N x 2 to N x 2, as N x 2 x 2."""
    step = 1e-6
    columns = [(image(rays + shift) - image(rays - shift)) for shift in step * np.eye(2)]
    return np.stack(columns, axis=-1) / (2 * step)


def solve_2x2(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Solve N systems of two equations; infinite or NaN where there is no solution."""
    (a, b), (c, d) = np.moveaxis(matrices, 0, -1)
    x, y = vectors.T
    return np.column_stack([d * x - b * y, a * y - c * x]) / (a * d - b * c)[:, None]
