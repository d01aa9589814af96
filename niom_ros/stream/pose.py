"""Where a flat reference is in space, as a calibrated camera sees it."""

from dataclasses import dataclass, replace
import math

import cv2
import numpy as np

from niom_ros.core.homographies import SHARED_ERROR
from niom_ros.core.uncertainty import PARAMETERS, ViewUncertainty
from niom_ros.stream.camera import CameraModel


@dataclass(frozen=True)
class PoseParameters:
    """When points suffice for a pose, and how well they tell two possible poses apart."""

    min_points: int = 4
    max_flatness: float = 1e-3  # ratio of width to length up to which points count as a line
    # Matches share some of their errors, so more than these add no information about which pose
    # is right.
    independent_points: int = 10


DEFAULTS = PoseParameters()


@dataclass(frozen=True)
class Placement:
    """A rigid transform from the frame of the reference to the optical frame of the camera."""

    rotation: np.ndarray  # 3 x 3
    translation: np.ndarray  # 3, in metres


@dataclass(frozen=True)
class Pose:
    """Where the reference is, and how certain that is.

    The origin of the reference is the centre of the picture, x to the right, y down, z into it: a
    picture that faces the camera squarely is not rotated.
    """

    rotation: np.ndarray  # 3 x 3, from the reference's frame to the camera's optical frame
    translation: np.ndarray  # 3, in metres: the centre of the picture
    covariance: np.ndarray  # 6 x 6: x, y, z, rotation about the x, y and z axis of the camera
    error: float  # reprojection error: root mean square, in pixels
    ambiguity: float  # 0: the only explanation, 1: the alternative explains the points as well
    alternative: Placement | None = None

    @property
    def quaternion(self) -> tuple[float, float, float, float]:
        """Return the rotation as x, y, z, w."""
        return quaternion_of(self.rotation)


@dataclass(frozen=True)
class Sight:
    """Points of the picture and the rays along which the camera sees them."""

    plane_points: np.ndarray  # N x 3, from the centre of the picture, in widths of it
    rays: np.ndarray  # N x 2
    pixels_per_ray: np.ndarray  # N x 2 x 2
    # How the pixels move with the parameters of the view, and the covariance of these
    slopes: np.ndarray  # 2 N x 8
    covariance: np.ndarray  # 8 x 8

    def residuals(self, placement: Placement) -> np.ndarray:
        """Return the reprojection errors of a placement, in pixels: N x 2.

        These are differences between rays times the pixels per ray there. For errors of a few
        pixels that equals the distance in the distorted image, without computing the distortion
        in every step.
        """
        points = self.plane_points @ placement.rotation.T + placement.translation
        with np.errstate(divide='ignore', invalid='ignore'):
            offsets = points[:, :2] / points[:, 2:] - self.rays
        return np.einsum('nij,nj->ni', self.pixels_per_ray, offsets)

    def jacobian(self, placement: Placement) -> np.ndarray:
        """Return the derivative of the pixels by the placement: 2 N x 6."""
        turned = self.plane_points @ placement.rotation.T
        x, y, z = (turned + placement.translation).T
        zero = np.zeros_like(z)
        ray_per_point = np.array([[1 / z, zero, -x / z**2], [zero, 1 / z, -y / z**2]])
        # A small rotation d moves a point by d x turned = -turned x d.
        a, b, c = turned.T
        point_per_rotation = np.array([[zero, c, -b], [-c, zero, a], [b, -a, zero]])
        pixel_per_point = np.einsum('nij,jkn->nik', self.pixels_per_ray, ray_per_point)
        by_rotation = np.einsum('nij,jkn->nik', pixel_per_point, point_per_rotation)
        return np.concatenate([pixel_per_point, by_rotation], axis=2).reshape(-1, 6)

    def sees_front(self, placement: Placement) -> bool:
        """Return whether all points lie in front of the camera, which sees the picture's front."""
        depths = self.plane_points @ placement.rotation[2] + placement.translation[2]
        return bool((depths > 0).all() and placement.rotation[:, 2] @ placement.translation > 0)


def find_pose(
    reference_points: np.ndarray,
    image_points: np.ndarray,
    reference_size: tuple[int, int],
    physical_width: float,
    camera: CameraModel,
    uncertainty: ViewUncertainty,
    parameters: PoseParameters = DEFAULTS,
) -> Pose | None:
    """Return where the reference is, or None if its points do not determine that.

    The points are N x 2 pixels that correspond, such as the inliers of a homography, whose
    uncertainty becomes that of the pose; `physical_width` is that of the whole picture in metres.
    """
    if not physical_width > 0:
        raise ValueError(f'the physical width must be positive, not {physical_width}')
    sight = sight_of(
        reference_points, image_points, reference_size, camera, uncertainty, parameters
    )
    if sight is None:
        return None
    found = distinct([refined(sight, start) for start in starts(sight) if sight.sees_front(start)])
    if not found:
        return None
    best, *others = sorted(found, key=lambda placement: error_of(sight, placement))
    ambiguity, alternative, covariance = 0.0, None, covariance_of(sight, best)
    if others:
        alternative = others[0]
        # Errors below the resolution of matches count as equal.
        least = SHARED_ERROR * math.sqrt(2)
        ambiguity = max(error_of(sight, best), least) / max(error_of(sight, alternative), least)
        covariance = mixture(sight, best, alternative, ambiguity, parameters.independent_points)
    to_metres = np.diag([physical_width] * 3 + [1.0] * 3)
    if alternative is not None:
        alternative = replace(alternative, translation=alternative.translation * physical_width)
    return Pose(
        rotation=best.rotation,
        translation=best.translation * physical_width,
        covariance=to_metres @ covariance @ to_metres,
        error=error_of(sight, best),
        ambiguity=ambiguity,
        alternative=alternative,
    )


def sight_of(
    reference_points: np.ndarray,
    image_points: np.ndarray,
    reference_size: tuple[int, int],
    camera: CameraModel,
    uncertainty: ViewUncertainty,
    parameters: PoseParameters = DEFAULTS,
) -> Sight | None:
    """Return what the camera sees of the picture, or None if it is too little for a pose."""
    reference_points = np.asarray(reference_points, np.float64)
    image_points = np.asarray(image_points, np.float64)
    if not (np.isfinite(reference_points).all() and np.isfinite(image_points).all()):
        return None
    plane_points = in_widths(reference_points, reference_size)
    rays = camera.rays(image_points)
    pixels_per_ray = camera.slopes(rays)
    # At the edge of what the camera can see there is no slope.
    seen = np.isfinite(pixels_per_ray).all(axis=(1, 2))
    sight = Sight(
        plane_points=plane_points[seen],
        rays=rays[seen],
        pixels_per_ray=pixels_per_ray[seen],
        slopes=uncertainty.slopes(reference_points[seen]).reshape(-1, PARAMETERS),
        covariance=uncertainty.covariance,
    )
    flatness = parameters.max_flatness
    if seen.sum() < parameters.min_points or any(
        on_a_line(points, flatness) for points in (sight.plane_points, sight.rays)
    ):
        return None
    return sight


def in_widths(reference_points: np.ndarray, reference_size: tuple[int, int]) -> np.ndarray:
    """Return pixels of the picture in its own frame (N x 3), in widths of the picture."""
    middle = (np.array(reference_size) - 1) / 2
    flat = (reference_points - middle) / reference_size[0]
    return np.column_stack([flat, np.zeros(len(flat))])


def on_a_line(points: np.ndarray, max_flatness: float) -> bool:
    """Return whether points lie so close to a line that a pose would be meaningless."""
    spreads = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(spreads[1] <= max_flatness * spreads[0])


def starts(sight: Sight) -> list[Placement]:
    """Return the two placements that explain the points roughly equally well.

    A small or distant picture looks almost the same when tilted the other way.
    """
    # OpenCV misses a solution rotated by exactly half a turn, as for pictures upside down. So
    # the picture is rotated upright first.
    upright = cv2.Rodrigues(np.array([0, 0, roll_of(sight)]))[0]
    _, vectors, translations, _ = cv2.solvePnPGeneric(
        (sight.plane_points @ upright.T)[:, None],
        sight.rays[:, None],
        np.eye(3),
        np.zeros(0),
        flags=cv2.SOLVEPNP_IPPE,
    )
    return [
        Placement(cv2.Rodrigues(vector)[0] @ upright, translation.ravel())
        for vector, translation in zip(vectors, translations, strict=True)
        if np.isfinite(vector).all() and np.isfinite(translation).all()
    ]


def roll_of(sight: Sight) -> float:
    """Return roughly how far the picture is rotated in the image, in radians."""
    x, y = (sight.plane_points - sight.plane_points.mean(axis=0))[:, :2].T
    right, down = (sight.rays - sight.rays.mean(axis=0)).T
    return math.atan2(x @ down - y @ right, x @ right + y @ down)


def refined(sight: Sight, start: Placement) -> Placement:
    """Minimise the sum of squared reprojection errors, from a start.

    Levenberg-Marquardt: short steps downhill while long ones fail, long ones near the minimum.
    """
    best, damping = start, 1e-3
    for _ in range(50):
        residuals = sight.residuals(best).ravel()
        jacobian = sight.jacobian(best)
        information = jacobian.T @ jacobian
        # The small constant avoids a singular matrix where a direction changes nothing.
        damped = information + damping * np.diag(np.diag(information) + 1e-9)
        step = -np.linalg.solve(damped, jacobian.T @ residuals)
        trial = moved(best, step)
        gain = residuals @ residuals - (sight.residuals(trial) ** 2).sum()
        if gain > 0 and sight.sees_front(trial):
            best, damping = trial, max(damping / 10, 1e-12)
        else:
            damping *= 10
        if np.abs(step).max() < 1e-10:
            break
    return best


def moved(placement: Placement, step: np.ndarray) -> Placement:
    """Return a placement after a shift and a rotation about the camera's axes: 6 numbers."""
    return Placement(
        cv2.Rodrigues(step[3:])[0] @ placement.rotation, placement.translation + step[:3]
    )


def difference(placement: Placement, other: Placement) -> np.ndarray:
    """Return the step of 6 numbers from one placement to the other."""
    turn = rotation_vector(other.rotation @ placement.rotation.T)
    return np.concatenate([other.translation - placement.translation, turn])


def quaternion_of(rotation: np.ndarray) -> tuple[float, float, float, float]:
    """Return a rotation as x, y, z, w."""
    vector = rotation_vector(rotation)
    angle = float(np.linalg.norm(vector))  # at most pi, so w is never negative
    x, y, z = vector * (math.sin(angle / 2) / angle if angle else 0.5)
    return float(x), float(y), float(z), math.cos(angle / 2)


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return the axis of a rotation, as long as its angle in radians."""
    return cv2.Rodrigues(rotation)[0].ravel()


def distinct(placements: list[Placement]) -> list[Placement]:
    """Return the placements without those equal to the one before."""
    return [
        placement
        for index, placement in enumerate(placements)
        if not index or np.abs(difference(placements[index - 1], placement)).max() > 1e-3
    ]


def error_of(sight: Sight, placement: Placement) -> float:
    """Return the root mean square reprojection error in pixels."""
    return float(np.sqrt((sight.residuals(placement) ** 2).sum(axis=1).mean()))


def covariance_of(sight: Sight, placement: Placement) -> np.ndarray:
    """Return the covariance of a placement (6 x 6), from that of the view."""
    # How the placement changes with the parameters of the view
    changes = np.linalg.lstsq(sight.jacobian(placement), sight.slopes, rcond=None)[0]
    covariance = changes @ sight.covariance @ changes.T
    # No rotation is off by more than half a turn, even if the points do not constrain it. This is
    # the inverse of the sum of both inverses, without inverting what may be singular.
    limit = np.diag([0, 0, 0, 1, 1, 1]) / math.pi
    within = np.linalg.inv(np.eye(6) + limit @ covariance @ limit)
    covariance = covariance - covariance @ limit @ within @ limit @ covariance
    return (covariance + covariance.T) / 2


def mixture(
    sight: Sight,
    placement: Placement,
    alternative: Placement,
    ambiguity: float,
    independent_points: int,
) -> np.ndarray:
    """Return the covariance about a placement if the alternative may be the true one.

    For normal noise of unknown strength, the odds of the alternative are the ratio of the errors
    of N points to the power of 2 N. So there is no threshold for ambiguity: with a ratio of 1 both
    are equally probable, with 0.9 the odds are 1 to 8, with 0.8 1 to 87.
    """
    odds = ambiguity ** (2 * min(len(sight.rays), independent_points))
    apart = difference(placement, alternative)
    otherwise = covariance_of(sight, alternative) + np.outer(apart, apart)
    return (covariance_of(sight, placement) + odds * otherwise) / (1 + odds)
