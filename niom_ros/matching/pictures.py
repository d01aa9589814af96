"""Pictures that show people what was matched, and why."""

from collections.abc import Sequence

import cv2
import numpy as np

from niom_ros.matching.geometry import Box
from niom_ros.matching.geometry import Status
from niom_ros.matching.geometry import warp_points
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Reference
from niom_ros.matching.pipeline import Weights
from niom_ros.semantics.scene import Scene

GREEN = (60, 220, 90)
RED = (235, 80, 70)
AMBER = (255, 190, 60)
CYAN = (70, 210, 255)
GREY = (150, 150, 150)
WHITE = (240, 240, 240)
BACKGROUND = (24, 26, 30)

FONT = cv2.FONT_HERSHEY_SIMPLEX
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
    shrunk = same_height(panels, max_width)
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


def draw_semantics(
    reference: Reference, image: np.ndarray, outcome: MatchOutcome, max_width: int = 1280
) -> np.ndarray:
    """Draw the objects of both sides, the pairs among them and the heat that made the weights."""
    pictures = [reference.image, image]
    scenes = [reference.scene, outcome.scene]
    weights = [outcome.reference_weights, outcome.image_weights]
    panels = [
        draw_heat(panel, scene, used.objects)
        for panel, scene, used in zip(
            same_height(pictures, max_width), scenes, weights, strict=True
        )
    ]
    canvas, offsets = side_by_side(panels)
    places = list(map(placement, pictures, panels, offsets))
    for scene, place, used in zip(scenes, places, weights, strict=True):
        draw_objects(canvas, scene, place, used.objects)
    for pair in outcome.paired.pairs:
        centres = [centre_of(scenes[0], pair.reference_object)]
        centres.append(centre_of(scenes[1], pair.image_object))
        (start,), (end,) = map(warp_points, places, centres)
        cv2.line(canvas, pixel(start), pixel(end), AMBER, 2, cv2.LINE_AA)
        draw_text(canvas, f'{pair.similarity:.2f}', pixel((start + end) / 2), AMBER)
    width = canvas.shape[1]
    return np.vstack(
        [
            strip(width, 'reference weights', weights_line(weights[0]), AMBER),
            strip(width, 'image weights', weights_line(weights[1]), AMBER),
            strip(width, 'pairing', outcome.paired.how, AMBER),
            canvas,
        ]
    )


def weights_line(weights: Weights) -> str:
    """Say where weights came from and how large they are."""
    if weights.values is None or not len(weights.values):
        return weights.source
    low, high = float(weights.values.min()), float(weights.values.max())
    return f'{low:.2f} to {high:.2f}, from {weights.source}'


def draw_heat(image: np.ndarray, scene: Scene, objects: Sequence[int]) -> np.ndarray:
    """Draw the heat of some objects over an image, of the strongest where they overlap."""
    if not objects:
        return image.copy()
    height, width = image.shape[:2]
    maps = [scene.objects[index].heat.picture(width, height) for index in objects]
    heat = np.max([heat_map.cpu().numpy() for heat_map in maps], axis=0)
    colours = cv2.applyColorMap((255 * heat).astype(np.uint8), cv2.COLORMAP_INFERNO)
    return cv2.addWeighted(image, 0.45, cv2.cvtColor(colours, cv2.COLOR_BGR2RGB), 0.55, 0)


def draw_objects(canvas: np.ndarray, scene: Scene, place: np.ndarray, used: Sequence[int]) -> None:
    """Draw the boxes of objects with their labels; those that make the weights in colour."""
    for index, seen in enumerate(scene.objects):
        colour = CYAN if index in used else GREY
        corners = np.array(
            [[seen.area.left, seen.area.top], [seen.area.right, seen.area.bottom]], np.float32
        )
        start, end = (pixel(corner) for corner in warp_points(place, corners))
        cv2.rectangle(canvas, start, end, colour, 2, cv2.LINE_AA)
        text = f'{seen.label} {seen.score:.2f}'.strip()
        draw_text(canvas, text, (start[0] + 4, max(start[1] + 14, 14)), colour)


def draw_text(
    canvas: np.ndarray, text: str, place: tuple[int, int], colour: tuple[int, int, int]
) -> None:
    """Write a word that is legible on any ground."""
    for shade, thickness in ((BACKGROUND, 3), (colour, 1)):
        cv2.putText(canvas, text, place, FONT, 0.45, shade, thickness, cv2.LINE_AA)


def centre_of(scene: Scene, index: int) -> np.ndarray:
    """Return the middle of an object's box (1 x 2)."""
    area = scene.objects[index].area
    return np.array([[(area.left + area.right) / 2, (area.top + area.bottom) / 2]], np.float32)


def draw_report(reference: Reference, image: np.ndarray, outcome: MatchOutcome) -> np.ndarray:
    """Draw the picture of `niom match`: the semantics, the matches, and the overlay if found."""
    parts = [draw_matches(reference, image, outcome)]
    if outcome.weighting != 'none':
        parts.insert(0, draw_semantics(reference, image, outcome))
    if outcome.verdict.reference_to_image is not None:
        overlay = draw_overlay(reference, image, outcome.verdict.reference_to_image)
        parts.append(resized(overlay, min(1.0, parts[0].shape[1] / overlay.shape[1])))
    return stacked(parts)


def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return pictures below each other, each in the middle."""
    width = max(part.shape[1] for part in parts)
    height = sum(part.shape[0] for part in parts) + GAP * (len(parts) - 1)
    canvas = np.full((height, width, 3), BACKGROUND, np.uint8)
    top = 0
    for part in parts:
        left = (width - part.shape[1]) // 2
        canvas[top : top + part.shape[0], left : left + part.shape[1]] = part
        top += part.shape[0] + GAP
    return canvas


def same_height(panels: Sequence[np.ndarray], max_width: int) -> list[np.ndarray]:
    """Scale pictures to the height of the last one, and so that a row of them is not too wide."""
    height = min(panels[-1].shape[0], 720)
    scales = [height / panel.shape[0] for panel in panels]
    natural = sum(p.shape[1] * s for p, s in zip(panels, scales, strict=True))
    shrink = min(1.0, (max_width - GAP * (len(panels) - 1)) / natural)
    return [resized(p, s * shrink) for p, s in zip(panels, scales, strict=True)]


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
    verdict = outcome.verdict
    if verdict.status is not Status.OK:
        return strip(width, verdict.status.name, verdict.message, RED)
    text = (
        f'{int(verdict.inliers.sum())} of {len(outcome.correspondences)} matches agree, '
        f'confidence {verdict.confidence:.2f}'
    )
    return strip(width, verdict.status.name, text, GREEN)


def strip(width: int, name: str, text: str, colour: tuple[int, int, int]) -> np.ndarray:
    """Return a line of text; what does not fit is cut off at its edge."""
    line = np.full((BANNER_HEIGHT, width, 3), BACKGROUND, np.uint8)
    (name_width, _), _ = cv2.getTextSize(name, FONT, 0.55, 2)
    cv2.putText(line, name, (8, 22), FONT, 0.55, colour, 2, cv2.LINE_AA)
    cv2.putText(line, text[:200], (name_width + 20, 22), FONT, 0.45, WHITE, 1, cv2.LINE_AA)
    return line


def pixel(point: np.ndarray) -> tuple[int, int]:
    """Return a point as integers that OpenCV can draw, however far outside it lies."""
    x, y = np.nan_to_num(point).clip(-30_000, 30_000)
    return round(float(x)), round(float(y))
