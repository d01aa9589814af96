"""Pictures that show people what was matched, and why.

The colours are those of Okabe and Ito, viridis and inferno, which every kind of colour blindness
leaves apart; shapes and words say the same once more.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import lru_cache
from importlib.util import find_spec
import math
from pathlib import Path
from typing import Protocol
import unicodedata

import cv2
import numpy as np
from PIL import Image
from PIL import ImageDraw
from PIL import ImageFont

from niom_ros.matching.geometry import Status
from niom_ros.matching.geometry import warp_points
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Reference
from niom_ros.matching.pipeline import Weights
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import Scene

BLUE = (0, 114, 178)
SKY = (86, 180, 233)
VERMILLION = (213, 94, 0)
PURPLE = (204, 121, 167)
WHITE = (245, 245, 245)
GREY = (205, 205, 205)
SLATE = (86, 90, 98)
BLACK = (0, 0, 0)

GAP = 8  # pixels between two images
READABLE_WIDTH = 640  # what is narrower is enlarged to this, if max_width lets it
WIDEST_REFERENCE = 1.25  # times the width of the camera image
MAX_LINES = 80  # more than this and nobody can follow one
FINEST_HEAT = 256  # pixels on a side: heat is smooth, and a finer map takes long
LONGEST_TEXT = 400  # characters: ids and labels come from anybody

Colour = Sequence[int]  # red, green, blue
Pixel = Sequence[int]  # x, y
Rectangle = tuple[int, int, int, int]  # left, top, right, bottom
Entry = tuple[np.ndarray, str]  # of a legend: a symbol and what it means


class Landmark(Protocol):
    """A named point of the camera image."""

    @property
    def name(self) -> str:
        """Return what it is called."""

    @property
    def x(self) -> float:
        """Return its column in pixels; NaN: not known."""

    @property
    def y(self) -> float:
        """Return its row in pixels; NaN: not known."""

    @property
    def inside(self) -> bool:
        """Tell whether it lies inside the image."""


@dataclass(frozen=True)
class Panel:
    """An image on the canvas."""

    pixels: np.ndarray  # its part of the canvas: what is drawn here stays inside
    from_image: np.ndarray  # 3 x 3, from pixels of the image to those of the panel
    corner: np.ndarray  # 2, where it begins on the canvas
    text_size: int
    labels: list[Rectangle] = field(default_factory=list)  # where no further one fits


def draw_matches(
    reference: Reference | None,
    image: np.ndarray,
    outcome: MatchOutcome,
    max_width: int = 1280,
    landmarks: Sequence[Landmark] | None = None,
    title: str = '',
) -> np.ndarray:
    """Draw reference and image side by side, joined by the matches that agree."""
    found = outcome.verdict.reference_to_image
    canvas, panels = arrange([image] if reference is None else [reference.image, image], max_width)
    if reference is not None:
        draw_correspondences(canvas, panels[0], panels[1], outcome)
        draw_outline(panels[0], reference, np.eye(3))
        if found is not None:
            draw_outline(panels[1], reference, found)
        name_sides(panels)
    draw_landmarks(panels[-1], landmarks or ())
    size = panels[-1].text_size
    entries = match_entries(size) + place_entries(size, landmarks) if reference else []
    return framed(status_banner(canvas.shape[1], outcome, title), canvas, entries)


def draw_overlay(
    reference: Reference | None,
    image: np.ndarray,
    outcome: MatchOutcome,
    max_width: int = 1280,
    landmarks: Sequence[Landmark] | None = None,
    title: str = '',
) -> np.ndarray:
    """Draw the image with what counts of the reference laid over it, where it was found."""
    canvas, panel = overlaid(reference, image, outcome, max_width)
    draw_landmarks(panel, landmarks or ())
    entries = place_entries(panel.text_size, landmarks)
    return framed(status_banner(canvas.shape[1], outcome, title), canvas, entries)


def draw_semantics(
    reference: Reference, image: np.ndarray, outcome: MatchOutcome, max_width: int = 1280
) -> np.ndarray:
    """Draw the objects of both sides, the pairs among them and the heat that made the weights."""
    scenes = [reference.scene, outcome.scene]
    used = [outcome.reference_weights.objects, outcome.image_weights.objects]
    canvas, panels = arrange([reference.image, image], max_width)
    for panel, scene, indices in zip(panels, scenes, used, strict=True):
        draw_heat(panel, [scene.objects[index] for index in indices])
        draw_objects(panel, scene, indices)
    draw_pairs(canvas, panels, scenes, outcome)
    name_sides(panels)
    for panel, scene, indices in zip(panels, scenes, used, strict=True):
        name_objects(panel, scene, indices)
    entries = heat_entries(panels[-1].text_size)
    return framed(weights_banner(canvas.shape[1], outcome), canvas, entries)


def draw_report(reference: Reference, image: np.ndarray, outcome: MatchOutcome) -> np.ndarray:
    """Draw the picture of `niom match`: the semantics, the matches, and the overlay if found."""
    parts = [draw_matches(reference, image, outcome)]
    if outcome.weighting != 'none':
        parts.insert(0, draw_semantics(reference, image, outcome))
    if outcome.verdict.reference_to_image is not None:
        parts.append(overlaid(reference, image, outcome, parts[0].shape[1])[0])
    return stacked(parts)


# Where images go


def arrange(images: Sequence[np.ndarray], max_width: int) -> tuple[np.ndarray, list[Panel]]:
    """Put images in a row on a canvas, none higher than the last one, the camera's."""
    height, width = images[-1].shape[:2]
    scales = [min(height / i.shape[0], WIDEST_REFERENCE * width / i.shape[1]) for i in images]
    natural = sum(i.shape[1] * scale for i, scale in zip(images, scales, strict=True))
    gaps = len(images) - 1
    room = max_width - gaps * (GAP + 1)  # one more for a sliver that is rounded up to a pixel
    enlarged = max(1.0, min(READABLE_WIDTH, room) / natural)
    # No higher than three quarters of the width, so that tall images stay on the screen.
    zoom = min(enlarged, room / natural, 0.75 * max_width / height)
    shown = [resized(i, scale * zoom) for i, scale in zip(images, scales, strict=True)]
    row = sum(part.shape[1] for part in shown) + gaps * GAP
    # Words need room, also above a sliver.
    canvas_width = max(row, min(max_width, READABLE_WIDTH))
    canvas = np.zeros((max(part.shape[0] for part in shown), canvas_width, 3), np.uint8)
    panels = []
    left = (canvas_width - row) // 2
    for image, part in zip(images, shown, strict=True):
        top = (canvas.shape[0] - part.shape[0]) // 2
        pixels = canvas[top : top + part.shape[0], left : left + part.shape[1]]
        pixels[:] = part
        corner = np.array([left, top])
        panels.append(Panel(pixels, scaling(image, part), corner, text_size(canvas_width)))
        left += part.shape[1] + GAP
    return canvas, panels


def resized(image: np.ndarray, scale: float) -> np.ndarray:
    """Return the image scaled, at least one pixel a side."""
    # A little more, so that a rounding error does not cost a pixel.
    width, height = (max(1, int(side * scale + 1e-6)) for side in image.shape[1::-1])
    if (height, width) == image.shape[:2]:
        return image
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return cv2.resize(image, (width, height), interpolation=method)


def scaling(image: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return the transform from pixels of an image to those of its resized copy."""
    x, y = part.shape[1] / image.shape[1], part.shape[0] / image.shape[0]
    return np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2], [0, 0, 1]])


def framed(banner: np.ndarray, canvas: np.ndarray, entries: Sequence[Entry]) -> np.ndarray:
    """Return a picture with its banner above and its legend below."""
    return np.vstack([banner, canvas, legend(canvas.shape[1], entries)])


def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return pictures below each other, each in the middle."""
    width = max(part.shape[1] for part in parts)
    rows = []
    for part in parts:
        left = (width - part.shape[1]) // 2
        rows.append(np.pad(part, ((0, GAP), (left, width - part.shape[1] - left), (0, 0))))
    return np.vstack(rows)[:-GAP]


# Marks


def colour_map(code: int, darkest: int) -> np.ndarray:
    """Return 256 RGB colours of a map of OpenCV, without those too dark to see on a photo."""
    steps = np.linspace(darkest, 255, 256).round().astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(steps[:, None], code)[..., ::-1])


SCORE_COLOURS = colour_map(cv2.COLORMAP_VIRIDIS, 70)
HEAT_COLOURS = colour_map(cv2.COLORMAP_INFERNO, 40)


def score_colours(scores: np.ndarray) -> list[Colour]:
    """Return the colours of scores from 0 to 1."""
    steps = (255 * np.nan_to_num(scores).clip(0, 1)).round().astype(int)
    colours: list[Colour] = SCORE_COLOURS[steps, 0].tolist()
    return colours


def whole(points: np.ndarray) -> list[Pixel]:
    """Return points as integers that OpenCV can draw, however far outside they lie."""
    rounded: list[Pixel] = np.nan_to_num(points).clip(-1e9, 1e9).round().astype(int).tolist()
    return rounded


def draw_correspondences(
    canvas: np.ndarray, left: Panel, right: Panel, outcome: MatchOutcome
) -> None:
    """Join points that agree by lines in the colour of their score; cross the others out."""
    matches, agrees, size = outcome.correspondences, outcome.verdict.inliers, left.text_size
    starts = whole(warp_points(left.from_image, matches.reference_points) + left.corner)
    ends = whole(warp_points(right.from_image, matches.image_points) + right.corner)
    colours = score_colours(matches.scores)
    for index in np.flatnonzero(~agrees):
        draw_cross(canvas, starts[index], size)
        draw_cross(canvas, ends[index], size)
    # Matches come best first. The best are drawn last, so that they are on top.
    agreeing = np.flatnonzero(agrees)[::-1]
    lines = min(MAX_LINES, len(agreeing), canvas.shape[0] // 8 + 1)
    for index in agreeing[np.linspace(0, len(agreeing) - 1, lines).round().astype(int)]:
        draw_line(canvas, starts[index], ends[index], colours[index], 1 + size // 12)
    for index in agreeing:
        draw_dot(canvas, starts[index], colours[index], size)
        draw_dot(canvas, ends[index], colours[index], size)


def draw_cross(pixels: np.ndarray, point: Pixel, size: int) -> None:
    """Draw the mark of a match that disagrees."""
    shape, length, thickness = cv2.MARKER_TILTED_CROSS, size * 3 // 5, 1 + size // 12
    cv2.drawMarker(pixels, point, BLACK, shape, length, thickness + 2)
    cv2.drawMarker(pixels, point, VERMILLION, shape, length, thickness, cv2.LINE_AA)


def draw_dot(pixels: np.ndarray, point: Pixel, colour: Colour, size: int) -> None:
    """Draw one end of a match that agrees."""
    cv2.circle(pixels, point, 1 + size // 6, BLACK, -1)
    cv2.circle(pixels, point, size // 6, colour, -1)


def draw_line(
    pixels: np.ndarray, start: Pixel, end: Pixel, colour: Colour, thickness: int
) -> None:
    """Draw a line with a black border, however far outside it begins and ends."""
    # OpenCV goes through all rows of a thick line, also through a billion that nobody sees.
    around = (-99, -99, pixels.shape[1] + 198, pixels.shape[0] + 198)
    visible, start, end = cv2.clipLine(around, start, end)
    if visible:
        cv2.line(pixels, start, end, BLACK, thickness + 2, cv2.LINE_AA)
        cv2.line(pixels, start, end, colour, thickness, cv2.LINE_AA)


def draw_outline(panel: Panel, reference: Reference, reference_to_image: np.ndarray) -> None:
    """Draw the border of what counts of the reference, where it lies in the image."""
    warp = panel.from_image @ reference_to_image
    draw_quadrangle(panel.pixels, warp_points(warp, reference.box.corners()), panel.text_size)


def draw_quadrangle(pixels: np.ndarray, corners: np.ndarray, size: int) -> None:
    """Draw four edges, the first one white and with an arrow head at it: the top."""
    ends = whole(corners)
    for index in (1, 2, 3, 0):
        colour = SKY if index else WHITE
        draw_line(pixels, ends[index], ends[(index + 1) % 4], colour, 1 + size // 10)
    top, bottom = corners[:2].mean(axis=0), corners[2:].mean(axis=0)
    draw_arrow_head(pixels, top, top - bottom, WHITE, size)


def draw_arrow_head(
    pixels: np.ndarray, tip: np.ndarray, direction: np.ndarray, colour: Colour, size: int
) -> None:
    """Draw a triangle that points somewhere."""
    length = np.hypot(*direction)
    if 0 < length < math.inf:
        back = -0.7 * size / length * direction
        aside = 0.7 * np.array([-back[1], back[0]])
        fill(pixels, np.array([tip, tip + back + aside, tip + back - aside]), colour)


def draw_diamond(pixels: np.ndarray, point: np.ndarray, size: int) -> None:
    """Draw the mark of a landmark."""
    tips = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]])
    fill(pixels, point + 0.65 * size * tips, WHITE)
    inner = np.array(whole(point + 0.4 * size * tips))
    cv2.fillConvexPoly(pixels, inner, PURPLE, cv2.LINE_AA)


def fill(pixels: np.ndarray, corners: np.ndarray, colour: Colour) -> None:
    """Fill a small shape and give it a black border."""
    shape = np.array(whole(corners))
    cv2.polylines(pixels, [shape], True, BLACK, 3, cv2.LINE_AA)
    cv2.fillConvexPoly(pixels, shape, colour, cv2.LINE_AA)


def overlaid(
    reference: Reference | None, image: np.ndarray, outcome: MatchOutcome, max_width: int
) -> tuple[np.ndarray, Panel]:
    """Return a canvas with the overlay, without words."""
    found = outcome.verdict.reference_to_image
    canvas, (panel,) = arrange([image], max_width)
    if reference is not None and found is not None:
        lay_over(panel, reference, found)
        draw_outline(panel, reference, found)
    return canvas, panel


def lay_over(panel: Panel, reference: Reference, reference_to_image: np.ndarray) -> None:
    """Blend what counts of the reference with the image, where it lies in it."""
    box = reference.box
    part = box.part_of(reference.image)
    # No finer than one can see; besides, OpenCV 4 warps no more than 32767 pixels a side.
    finest = 2 * max(panel.pixels.shape)
    columns, rows = min(box.width, finest), min(box.height, finest)
    shrunk = cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA)
    from_part = np.array([[1, 0, box.left], [0, 1, box.top], [0, 0, 1]])
    from_shrunk = from_part @ np.linalg.inv(scaling(part, shrunk))
    warp = panel.from_image @ reference_to_image @ from_shrunk
    size = panel.pixels.shape[1], panel.pixels.shape[0]
    laid = cv2.warpPerspective(shrunk, warp, size)
    covered = cv2.warpPerspective(np.full(shrunk.shape[:2], 255, np.uint8), warp, size)
    cv2.copyTo(cv2.addWeighted(panel.pixels, 0.45, laid, 0.55, 0), covered, panel.pixels)


def draw_landmarks(panel: Panel, landmarks: Sequence[Landmark]) -> None:
    """Draw named points; for those outside of the image, an arrow head at its border."""
    size = panel.text_size
    known = [mark for mark in landmarks if math.isfinite(mark.x) and math.isfinite(mark.y)]
    points = np.array([[mark.x, mark.y] for mark in known]).reshape(-1, 2)
    points = warp_points(panel.from_image, points)
    corner = np.array(panel.pixels.shape[1::-1]) - 1
    nearest = points.clip(np.minimum(4, corner / 2), np.maximum(corner - 4, corner / 2))
    for mark, point, inner in zip(known, points, nearest, strict=True):
        if mark.inside:
            draw_diamond(panel.pixels, point, size)
        else:
            draw_arrow_head(panel.pixels, inner, point - inner, PURPLE, size)
    around = [(x - size, y - size, x + size, y + size) for x, y in whole(nearest)]
    panel.labels.extend(around)
    for mark, place in zip(known, around, strict=True):
        write_label(panel, mark.name, place)


def draw_heat(panel: Panel, objects: Sequence[SeenObject]) -> None:
    """Colour an image by the heat of objects, of the strongest where they overlap."""
    # Grey and darker, so that the heat stands out.
    grey = cv2.convertScaleAbs(cv2.cvtColor(panel.pixels, cv2.COLOR_RGB2GRAY), alpha=0.7)
    ground = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
    height, width = grey.shape
    rows, columns = min(height, FINEST_HEAT), min(width, FINEST_HEAT)
    heat = np.zeros((rows, columns), np.float32)
    for seen in objects:
        heat = np.maximum(heat, seen.heat.picture(columns, rows).cpu().numpy())
    heat = cv2.resize(heat, (width, height))
    colours = cv2.applyColorMap((255 * heat).astype(np.uint8), HEAT_COLOURS)
    share = np.minimum(0.8, 1.6 * heat)
    panel.pixels[:] = cv2.blendLinear(colours, ground, share, 1 - share)


def draw_objects(panel: Panel, scene: Scene, used: Sequence[int]) -> None:
    """Draw the boxes of objects, on top those that give weights."""
    for index in sorted(range(len(scene.objects)), key=lambda index: index in used):
        start, end = whole(corners_of(panel, scene.objects[index]))
        draw_box(panel.pixels, start, end, index in used, panel.text_size)


def draw_box(pixels: np.ndarray, start: Pixel, end: Pixel, used: bool, size: int) -> None:
    """Draw the mark of an object: thick if it gives weights, thin if not."""
    colour, thickness = (SKY, 1 + size // 8) if used else (GREY, 1)
    cv2.rectangle(pixels, start, end, BLACK, thickness + 2)
    cv2.rectangle(pixels, start, end, colour, thickness)


def corners_of(panel: Panel, seen: SeenObject) -> np.ndarray:
    """Return the left top and the right bottom corner of an object's box, as far as it is seen."""
    corners = [[seen.area.left, seen.area.top], [seen.area.right, seen.area.bottom]]
    last = np.array(panel.pixels.shape[1::-1]) - 1
    return warp_points(panel.from_image, np.array(corners)).clip(0, last)


def draw_pairs(
    canvas: np.ndarray, panels: Sequence[Panel], scenes: Sequence[Scene], outcome: MatchOutcome
) -> None:
    """Join the objects that were paired, with a number that says how alike they are."""
    size = panels[0].text_size
    for pair in outcome.paired.pairs:
        indices = pair.reference_object, pair.image_object
        middles = [
            corners_of(panel, scene.objects[index]).mean(axis=0) + panel.corner
            for panel, scene, index in zip(panels, scenes, indices, strict=True)
        ]
        start, end = whole(np.array(middles))
        draw_line(canvas, start, end, WHITE, 1 + size // 10)
        x, y = (start[0] + end[0]) // 2, (start[1] + end[1]) // 2
        write_plate(canvas, f'{pair.similarity:.2f}', (x - size, y - size // 2), size)


# Words on images


def name_sides(panels: Sequence[Panel]) -> None:
    """Write on each of two panels which side it shows."""
    for panel, name in zip(panels, ('reference', 'camera'), strict=True):
        height, width = panel.pixels.shape[:2]
        write_label(panel, name, (0, height, width, height))


def name_objects(panel: Panel, scene: Scene, used: Sequence[int]) -> None:
    """Write what the objects are, first those that give weights."""
    for index in sorted(range(len(scene.objects)), key=lambda index: index not in used):
        seen = scene.objects[index]
        (left, top), (right, bottom) = whole(corners_of(panel, seen))
        text = f'{seen.label or "unnamed"} {seen.score:.2f}'
        write_label(panel, text, (left, top, right, bottom))


def write_label(panel: Panel, text: str, around: Rectangle) -> None:
    """Write a name at the first free place next to a rectangle, or nowhere if there is none."""
    size = panel.text_size
    text = shortened(text, size, panel.pixels.shape[1] // 2)
    width, height = text_width(text, size) + size // 2, line_height(size)
    left, top, right, bottom = around
    above, within, below = (left, top - height), (left, top), (left, bottom)
    beside = (right, top), (left - width, top)
    for x, y in (above, within, below, *beside, (left, top - 2 * height)):
        x = max(0, min(x, panel.pixels.shape[1] - width))
        place = (x, y, x + width, y + height)
        fits = 0 <= y <= panel.pixels.shape[0] - height
        if text and fits and not any(overlap(place, other) for other in panel.labels):
            write_plate(panel.pixels, text, (x, y), size)
            panel.labels.append(place)
            return


def overlap(one: Rectangle, other: Rectangle) -> bool:
    """Tell whether two rectangles share a part."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def write_plate(pixels: np.ndarray, text: str, place: tuple[int, int], size: int) -> None:
    """Write a line on a dark plate, legible on any ground."""
    left, top = max(0, place[0]), max(0, place[1])
    width = text_width(text, size) + size // 2
    plate = pixels[top : top + line_height(size), left : left + width]
    plate[:] = plate // 5
    write(pixels, text, (left + size // 4, top), size)


# Words around them


def status_banner(width: int, outcome: MatchOutcome, title: str) -> np.ndarray:
    """Return a strip that says how the match went."""
    verdict = outcome.verdict
    found = verdict.status is Status.OK
    headline = f'{"✓" if found else "✗"} {verdict.status.name.replace("_", " ")}'
    note = f'confidence {verdict.confidence:.2f}'
    colour = BLUE if found else VERMILLION
    return banner(width, colour, headline, note, [(title, verdict.message)], 2)


def weights_banner(width: int, outcome: MatchOutcome) -> np.ndarray:
    """Return a strip that says what the weights of both sides came from."""
    sides = outcome.reference_weights, outcome.image_weights
    paragraphs = [
        ('reference', weights_line(sides[0])),
        ('camera', weights_line(sides[1])),
        ('pairs', outcome.paired.how),
    ]
    if any(side.values is not None for side in sides):
        note = f'weighting {outcome.weighting}'
        return banner(width, BLUE, '✓ WEIGHTED', note, paragraphs, 1)
    return banner(width, SLATE, 'NOT WEIGHTED', 'all points count alike', paragraphs, 1)


def weights_line(weights: Weights) -> str:
    """Say where weights came from and how large they are, or why there are none."""
    if weights.values is None or not len(weights.values):
        why = weights.source.removeprefix('none').removeprefix(': ')
        return f'not weighted: {why}' if why and why != 'not weighted' else 'not weighted'
    low, high = float(weights.values.min()), float(weights.values.max())
    return f'weights {low:.2f} to {high:.2f} from {weights.source}'


def banner(
    width: int,
    colour: Colour,
    headline: str,
    note: str,
    paragraphs: Sequence[tuple[str, str]],
    lines_each: int,
) -> np.ndarray:
    """Return a strip with a headline on a coloured plate, and paragraphs that have a name.

    However long these are, it has the same height, so that pictures of a stream keep their size.
    """
    size = text_size(width)
    line = line_height(size)
    strip = np.zeros((lines_each * len(paragraphs) * line + size, width, 3), np.uint8)
    widest = max(text_width(headline, size, bold=True), text_width(note, size))
    plate = min(widest + 2 * size, width // 2)
    strip[:, :plate] = colour
    top = strip.shape[0] // 2 - line
    headline = shortened(headline, size, plate - 2 * size, bold=True)
    write(strip, headline, (size, top), size, bold=True)
    write(strip, shortened(note, size, plate - 2 * size), (size, top + line), size)

    rows = []
    for name, text in paragraphs:
        rows += wrapped(name, text, size, width - plate - 2 * size, lines_each)
    top = (strip.shape[0] - len(rows) * line) // 2
    for name, text in rows:
        write(strip, name, (plate + size, top), size, SKY, bold=True)
        write(strip, text, (plate + size + text_width(name, size, bold=True), top), size)
        top += line
    return strip


def match_entries(size: int) -> list[Entry]:
    """Return what the marks of matches mean."""
    agree, disagree = empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    start, middle, end = ((x, (top + bottom) // 2) for x in (left, (left + right) // 2, right))
    (colour,) = score_colours(np.array([0.8]))
    draw_line(agree, start, end, colour, 1 + size // 12)
    draw_dot(agree, start, colour, size)
    draw_dot(agree, end, colour, size)
    draw_cross(disagree, middle, size)
    bar = colour_bar(SCORE_COLOURS, size)
    return [(bar, 'score'), (agree, 'agree'), (disagree, 'disagree')]


def place_entries(size: int, landmarks: Sequence[Landmark] | None) -> list[Entry]:
    """Return what the marks of places in the image mean."""
    outline, landmark = empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    draw_quadrangle(outline, corners, size * 5 // 6)
    draw_diamond(landmark, corners.mean(axis=0), size)
    entries = [(outline, 'reference, arrow: top'), (landmark, 'landmark')]
    return entries if landmarks else entries[:1]


def heat_entries(size: int) -> list[Entry]:
    """Return what the marks of objects mean."""
    used, unused, pair = empty_symbol(size), empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    draw_box(used, (left, top), (right, bottom), True, size)
    draw_box(unused, (left, top), (right, bottom), False, size)
    draw_line(pair, (left, size * 2 // 3), (right, size * 2 // 3), WHITE, 1 + size // 10)
    return [
        (colour_bar(HEAT_COLOURS, size), 'heat'),
        (used, 'gives weight'),
        (unused, 'gives none'),
        (pair, 'pair, how alike'),
    ]


def empty_symbol(size: int) -> np.ndarray:
    """Return the ground on which a symbol of a legend is drawn."""
    return np.zeros((line_height(size), 2 * size, 3), np.uint8)


def symbol_area(size: int) -> Rectangle:
    """Return the part of the ground that a symbol takes."""
    middle = line_height(size) // 2
    return size // 3, middle - size * 4 // 9, size * 3 // 2, middle + size * 4 // 9


def colour_bar(colours: np.ndarray, size: int) -> np.ndarray:
    """Return the symbol of numbers from 0 to 1 that are shown as colours."""
    bar = cv2.resize(colours.reshape(1, -1, 3), (5 * size, size), interpolation=cv2.INTER_AREA)
    margin = line_height(size) - size
    bar = np.pad(bar, ((margin // 2, margin - margin // 2), (0, 0), (0, 0)))
    return np.hstack([lettered('0 ', size), bar, lettered(' 1 ', size)])


def lettered(text: str, size: int) -> np.ndarray:
    """Return a line of words on black ground."""
    strip = np.zeros((line_height(size), text_width(text, size), 3), np.uint8)
    write(strip, text, (0, 0), size)
    return strip


def legend(width: int, entries: Sequence[Entry]) -> np.ndarray:
    """Return a strip that says what symbols mean, in as many rows as it takes."""
    size = text_size(width)
    rows = [np.zeros((line_height(size), size // 2, 3), np.uint8)]
    for mark, text in entries:
        words = shortened(text, size, width - mark.shape[1] - size)
        entry = np.hstack([mark, lettered(words, size)])
        if rows[-1].shape[1] + entry.shape[1] > width:
            rows.append(rows[0][:, : size // 2])
        rows[-1] = np.hstack([rows[-1], entry, lettered('   ', size)])
    shown = [row[:, :width] for row in rows]
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in shown]
    return np.pad(np.vstack(padded), ((size // 4, size // 4), (0, 0), (0, 0)))


# Letters


def text_size(width: int) -> int:
    """Return how high letters are in a picture of this width, legible also when it is shrunk."""
    return round(min(max(6 + width / 90, 9), 28))


def line_height(size: int) -> int:
    """Return the distance between two lines of text."""
    return round(1.4 * size)


@lru_cache(maxsize=64)
def font(size: int, bold: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return a font with the letters of all Europe; the one inside Pillow has only ASCII."""
    name = 'DejaVuSans-Bold.ttf' if bold else 'DejaVuSans.ttf'
    files = [name]  # Pillow looks among the fonts of the system.
    # It also comes with matplotlib, which grad-cam brings. Nothing but the file is used.
    if (matplotlib := find_spec('matplotlib')) and matplotlib.origin:
        files.insert(0, str(Path(matplotlib.origin).parent / 'mpl-data/fonts/ttf' / name))
    for file in files:
        try:
            return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)
        except OSError:
            continue
    return ImageFont.load_default(size)


def text_width(text: str, size: int, bold: bool = False) -> int:
    """Return how many pixels a line takes."""
    return math.ceil(font(size, bold).getlength(text))


def cleaned(text: str) -> str:
    """Return text as one line of letters that can be drawn."""
    composed = unicodedata.normalize('NFC', text[:LONGEST_TEXT])
    return ' '.join(''.join(c if c.isprintable() else ' ' for c in composed).split())


def shortened(text: str, size: int, room: int, bold: bool = False) -> str:
    """Return as much of a text as there is room for, with an ellipsis where it was cut."""
    text = cleaned(text)
    if text_width(text, size, bold) <= room:
        return text

    def width_of_beginning(length: int) -> int:
        return text_width(text[:length].rstrip() + '…', size, bold)

    length = bisect_right(range(len(text)), room, key=width_of_beginning) - 1
    return text[:length].rstrip() + '…' if length > 0 else ''


def wrapped(name: str, text: str, size: int, room: int, lines: int) -> list[tuple[str, str]]:
    """Return a paragraph as rows of a name, which only the first one has, and a text."""
    name = shortened(name, size, room // 2, bold=True)
    name += '  ' if name else ''
    rows, words = [], cleaned(text).split()
    for _ in range(lines - 1):
        free = room - text_width(name, size, bold=True)
        count = 0
        while count < len(words) and text_width(' '.join(words[: count + 1]), size) <= free:
            count += 1
        rows.append((name, ' '.join(words[:count])))
        name, words = '', words[count:]
    if words or not rows:
        free = room - text_width(name, size, bold=True)
        rows.append((name, shortened(' '.join(words), size, free)))
    return rows


def write(
    pixels: np.ndarray,
    text: str,
    place: tuple[int, int],
    size: int,
    colour: Colour = WHITE,
    bold: bool = False,
) -> None:
    """Write a line whose left top corner is at a place."""
    left, top = place
    part = pixels[top : top + line_height(size), left : left + text_width(text, size, bold)]
    if part.size:
        patch = Image.fromarray(part)
        baseline = round(1.05 * size)
        ImageDraw.Draw(patch).text(
            (0, baseline), text, tuple(colour), font(size, bold), anchor='ls'
        )
        part[:] = np.asarray(patch)
