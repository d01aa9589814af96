"""Where a homography puts points, and how certain that is."""

import numpy as np

# Some errors are shared by all matches and do not shrink with their number: those of the lens, of
# a picture that is not quite flat, of networks that see keypoints half a pixel aside. As if four
# corners were each so many pixels off. In rendered scenes with real matches the squared error of
# the pose, in units of the covariance, was 71 on average without this and 7 with it; in other
# scenes, which this was not chosen with, 146 and 6. It is 6 if a covariance is right.
SHARED_ERROR = 0.3
CORNERS = 4


def warp_points(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Apply a homography to N x 2 points."""
    lifted = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return lifted[:, :2] / lifted[:, 2:]


def resizing(across: float, down: float) -> np.ndarray:
    """Return the homography from pixels of an image to those of a wider or higher copy.

    The edges of both fall together, not the centres of their first pixels.
    """
    return np.array([[across, 0, across / 2 - 0.5], [0, down, down / 2 - 0.5], [0, 0, 1]], float)


def homography_deviations(
    homography: np.ndarray,
    known_points: np.ndarray,
    known_image_points: np.ndarray,
    reference_points: np.ndarray,
) -> np.ndarray:
    """Return how uncertain points are that a homography puts into the image: N.

    The uncertainty of its eight parameters, as the distances that are left to the points it was
    fitted to tell, carried on to the others: those far from all known ones are less certain.
    """
    known_points = known_points.astype(np.float64)
    residuals = known_image_points - warp_points(homography, known_points)
    # Centred and scaled, so that all parameters are of similar size.
    middle, scale = known_points.mean(axis=0), known_points.std() + 1e-9
    to_middle = np.array([[scale, 0, middle[0]], [0, scale, middle[1]], [0, 0, 1]])
    centred = homography @ to_middle
    centred = centred / centred[2, 2]
    known = parameter_slopes(centred, (known_points - middle) / scale).reshape(-1, 8)
    information = known.T @ known / match_variance(residuals, 8)
    # Where they say nothing, the uncertainty is huge rather than undefined.
    information += 1e-12 * np.trace(information) * np.eye(8)
    slopes = parameter_slopes(centred, (reference_points - middle) / scale)
    covariances = slopes @ np.linalg.inv(information) @ slopes.transpose(0, 2, 1)
    return np.sqrt(np.linalg.eigvalsh(covariances)[:, 1])


def parameter_slopes(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return how warped points move with the first eight numbers of a homography: N x 2 x 8."""
    ones = np.column_stack([points, np.ones(len(points))])
    depths = ones @ homography[2]
    x, y = warp_points(homography, points).T
    nothing = np.zeros_like(ones)
    horizontal = np.concatenate([ones, nothing, -x[:, None] * points], axis=1)
    vertical = np.concatenate([nothing, ones, -y[:, None] * points], axis=1)
    return np.stack([horizontal, vertical], axis=1) / depths[:, None, None]


def match_variance(residuals: np.ndarray, parameters: int) -> float:
    """Return how uncertain each coordinate of N matches is, in square pixels, for a fit to them.

    From the N x 2 distances that are left after fitting so many parameters, with what they do not
    show because the matches share it.
    """
    # As in Student's distribution: few matches also say little about how exact they are.
    own = (residuals**2).sum() / max(1, residuals.size - parameters - 2)
    return float(own + SHARED_ERROR**2 * len(residuals) / CORNERS)
