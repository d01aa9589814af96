"""Where a homography maps points to, and how certain that is."""

import numpy as np

# Pixels. Some errors are shared by all matches and do not average out: lens distortion, a picture
# that is not quite flat, keypoints that a network sees half a pixel off. They are modelled as an
# error of this size at each of four corners.
SHARED_ERROR = 0.3
CORNERS = 4


def warp_points(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Apply a homography to N x 2 points."""
    homogeneous = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return homogeneous[:, :2] / homogeneous[:, 2:]


def jacobians_at(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the 2 x 2 Jacobians of a homography at N points: N x 2 x 2."""
    warped = warp_points(homography, points)
    depths = points @ homography[2, :2] + homography[2, 2]
    turned = homography[:2, :2] - warped[:, :, None] * homography[2, :2]
    return np.asarray(turned / depths[:, None, None])


def resizing(across: float, down: float) -> np.ndarray:
    """Return the homography from an image to a resized copy, given the two scale factors.

    The outer edges of both coincide, not the centres of their first pixels.
    """
    return np.array([[across, 0, across / 2 - 0.5], [0, down, down / 2 - 0.5], [0, 0, 1]], float)


def homography_deviations(
    homography: np.ndarray,
    known_points: np.ndarray,
    known_image_points: np.ndarray,
    reference_points: np.ndarray,
) -> np.ndarray:
    """Return the standard deviation of points that a homography maps to the image: N, in pixels.

    Calibrated confidences were learnt with this one; core/uncertainty.py says what is published.
    The residuals of the points it was fitted to give the covariance of its eight parameters,
    which is propagated to the other points: those far from all known points are less certain.
    """
    known_points = known_points.astype(np.float64)
    residuals = known_image_points - warp_points(homography, known_points)
    # Centred and scaled, so that all parameters are of similar size.
    middle, scale = known_points.mean(axis=0), known_points.std() + 1e-9
    to_middle = np.array([[scale, 0, middle[0]], [0, scale, middle[1]], [0, 0, 1]])
    centred = homography @ to_middle
    centred = centred / centred[2, 2]
    known = homography_jacobian(centred, (known_points - middle) / scale).reshape(-1, 8)
    information = known.T @ known / match_variance(residuals, 8)
    # In directions that the points do not constrain, the uncertainty is huge, not undefined.
    information += 1e-12 * np.trace(information) * np.eye(8)
    jacobian = homography_jacobian(centred, (reference_points - middle) / scale)
    covariances = jacobian @ np.linalg.inv(information) @ jacobian.transpose(0, 2, 1)
    return np.sqrt(np.linalg.eigvalsh(covariances)[:, 1])


def homography_jacobian(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the derivatives of warped points by the first eight entries of H: N x 2 x 8."""
    homogeneous = np.column_stack([points, np.ones(len(points))])
    depths = homogeneous @ homography[2]
    x, y = warp_points(homography, points).T
    zeros = np.zeros_like(homogeneous)
    horizontal = np.concatenate([homogeneous, zeros, -x[:, None] * points], axis=1)
    vertical = np.concatenate([zeros, homogeneous, -y[:, None] * points], axis=1)
    return np.stack([horizontal, vertical], axis=1) / depths[:, None, None]


def match_variance(residuals: np.ndarray, parameters: int) -> float:
    """Return the variance of each coordinate of N matches, in square pixels.

    It follows from the N x 2 residuals of a fit with this number of parameters, plus the error
    that all matches share, which residuals do not show.
    """
    # As in Student's distribution: few matches also say little about their own variance.
    own = (residuals**2).sum() / max(1, residuals.size - parameters - 2)
    return float(own + SHARED_ERROR**2 * len(residuals) / CORNERS)
