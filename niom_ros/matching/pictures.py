"""Pictures that show people what was matched."""

import cv2
import numpy as np

from niom_ros.matching.geometry import Box
from niom_ros.matching.geometry import Status
from niom_ros.matching.geometry import warp_points
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Reference

GREEN = (60, 220, 90)
RED = (235, 80, 70)
AMBER = (255, 190, 60)
CYAN = (70, 210, 255)
WHITE = (240, 240, 240)
BACKGROUND = (24, 26, 30)

BANNER_HEIGHT = 34
GAP = 8
MAX_LINES = 80  # more than this and nobody can follow one


def draw_matches(
    reference: Reference | None,
    image: np.ndarray,
    outcome: MatchOutcome,
    max_width: int = 1280,
) -> np.ndarray:
    """Draw reference and image side by side, joined by the correspondences."""
    panels = [image] if reference is None else [reference.image, image]
    height = min(image.shape[0], 720)
    scales = [height / panel.shape[0] for panel in panels]
    natural = sum(p.shape[1] * s for p, s in zip(panels, scales, strict=True))
    shrink = min(1.0, (max_width - GAP * (len(panels) - 1)) / natural)
    shrunk = [resized(p, s * shrink) for p, s in zip(panels, scales, strict=True)]
    canvas, offsets = side_by_side(shrunk)

    if reference is not None:
        to_left = placement(reference.image, shrunk[0], offsets[0])
        to_right = placement(image, shrunk[1], offsets[1])
        left = warp_points(to_left, outcome.correspondences.reference_points)
        right = warp_points(to_right, outcome.correspondences.image_points)
        draw_lines(canvas, left, right, outcome.verdict.inliers)
        draw_outline(canvas, reference.box, to_left)
        if outcome.verdict.reference_to_image is not None:
            draw_outline(canvas, reference.box, to_right @ outcome.verdict.reference_to_image)
    return np.vstack([banner(canvas.shape[1], outcome), canvas])


def draw_overlay(
    reference: Reference, image: np.ndarray, reference_to_image: np.ndarray
) -> np.ndarray:
    """Draw the image with what counts of the reference laid over it where it was found."""
    size = image.shape[1], image.shape[0]
    box = reference.box
    counts = np.zeros(reference.image.shape[:2], np.uint8)
    box.part_of(counts)[:] = 255
    covered = cv2.warpPerspective(counts, reference_to_image, size) > 0
    laid = cv2.warpPerspective(reference.image, reference_to_image, size)
    canvas = image.copy()
    canvas[covered] = cv2.addWeighted(image, 0.45, laid, 0.55, 0)[covered]
    draw_outline(canvas, box, reference_to_image)
    return canvas


def draw_report(reference: Reference, image: np.ndarray, outcome: MatchOutcome) -> np.ndarray:
    """Draw the picture of `niom match`: the matches, and if it was found the overlay below."""
    matches = draw_matches(reference, image, outcome)
    if outcome.verdict.reference_to_image is None:
        return matches
    overlay = draw_overlay(reference, image, outcome.verdict.reference_to_image)
    overlay = resized(overlay, min(1.0, matches.shape[1] / overlay.shape[1]))
    report = np.full(
        (matches.shape[0] + GAP + overlay.shape[0], matches.shape[1], 3), BACKGROUND, np.uint8
    )
    report[: matches.shape[0]] = matches
    left = (matches.shape[1] - overlay.shape[1]) // 2
    report[-overlay.shape[0] :, left : left + overlay.shape[1]] = overlay
    return report


def resized(image: np.ndarray, scale: float) -> np.ndarray:
    """Return the image scaled, at least one pixel a side."""
    width, height = (max(1, round(side * scale)) for side in image.shape[1::-1])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return cv2.resize(image, (width, height), interpolation=method)


def side_by_side(panels: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Return the panels in a row and the x at which each begins."""
    height = max(panel.shape[0] for panel in panels)
    width = sum(panel.shape[1] for panel in panels) + GAP * (len(panels) - 1)
    canvas = np.full((height, width, 3), BACKGROUND, np.uint8)
    offsets = []
    x = 0
    for panel in panels:
        canvas[: panel.shape[0], x : x + panel.shape[1]] = panel
        offsets.append(x)
        x += panel.shape[1] + GAP
    return canvas, offsets


def placement(image: np.ndarray, panel: np.ndarray, offset: int) -> np.ndarray:
    """Return the transform from pixels of an image to pixels of the canvas its panel is on."""
    scale_x = panel.shape[1] / image.shape[1]
    scale_y = panel.shape[0] / image.shape[0]
    return np.array(
        [
            [scale_x, 0, (scale_x - 1) / 2 + offset],
            [0, scale_y, (scale_y - 1) / 2],
            [0, 0, 1],
        ]
    )


def draw_lines(
    canvas: np.ndarray, left: np.ndarray, right: np.ndarray, inliers: np.ndarray
) -> None:
    """Join matched points that agree in green; the others are red dots."""
    for point in (*left[~inliers], *right[~inliers]):
        cv2.circle(canvas, pixel(point), 3, RED, -1, cv2.LINE_AA)
    agreeing_left, agreeing_right = left[inliers], right[inliers]
    # Evenly chosen from best to worst, so that the picture shows the whole range.
    shown = np.linspace(0, len(agreeing_left) - 1, min(MAX_LINES, len(agreeing_left)))
    lines = canvas.copy()
    for index in shown.astype(int):
        start, end = pixel(agreeing_left[index]), pixel(agreeing_right[index])
        cv2.line(lines, start, end, GREEN, 1, cv2.LINE_AA)
    cv2.addWeighted(lines, 0.6, canvas, 0.4, 0, dst=canvas)
    for point in (*agreeing_left, *agreeing_right):
        cv2.circle(canvas, pixel(point), 2, GREEN, -1, cv2.LINE_AA)


def draw_outline(canvas: np.ndarray, box: Box, warp: np.ndarray) -> None:
    """Draw the border of a part of the reference where the warp puts it, its top in amber."""
    corners = [pixel(corner) for corner in warp_points(warp, box.corners())]
    for index, corner in enumerate(corners):
        colour = AMBER if index == 0 else CYAN
        cv2.line(canvas, corner, corners[(index + 1) % 4], colour, 2, cv2.LINE_AA)


def banner(width: int, outcome: MatchOutcome) -> np.ndarray:
    """Return a strip of text that says how the match went."""
    strip = np.full((BANNER_HEIGHT, width, 3), BACKGROUND, np.uint8)
    verdict = outcome.verdict
    if verdict.status is Status.OK:
        colour = GREEN
        text = (
            f'{int(verdict.inliers.sum())} of {len(outcome.correspondences)} matches agree, '
            f'confidence {verdict.confidence:.2f}'
        )
    else:
        colour = RED
        text = verdict.message
    font = cv2.FONT_HERSHEY_SIMPLEX
    name = verdict.status.name
    (name_width, _), _ = cv2.getTextSize(name, font, 0.55, 2)
    cv2.putText(strip, name, (8, 22), font, 0.55, colour, 2, cv2.LINE_AA)
    # What does not fit is cut off at the edge of the strip.
    text = text[:200]
    cv2.putText(strip, text, (name_width + 20, 22), font, 0.45, WHITE, 1, cv2.LINE_AA)
    return strip


def pixel(point: np.ndarray) -> tuple[int, int]:
    """Return a point as integers that OpenCV can draw, however far outside it lies."""
    x, y = np.nan_to_num(point).clip(-30_000, 30_000)
    return round(float(x)), round(float(y))
