"""Pictures that show what was matched, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import math
from typing import Protocol

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match, Weights
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.pictures.lettering import (
    banner,
    Entry,
    legend,
    lettered,
    line_height,
    shortened,
    text_size,
    text_width,
    WHITE,
    write_plate,
)
from niom_ros.pictures.marks import (
    BLUE,
    draw_arrow_head,
    draw_box,
    draw_cross,
    draw_dashed_quadrangle,
    draw_deviation,
    draw_diamond,
    draw_dot,
    draw_ink,
    draw_line,
    draw_quadrangle,
    draw_thin_line,
    GREEN,
    HEAT_COLOURS,
    PURPLE,
    SCORE_COLOURS,
    score_colours,
    SLATE,
    VERMILLION,
    whole,
)
from niom_ros.semantics.heat_maps import HeatMap
from niom_ros.semantics.objects import SeenObject
from niom_ros.semantics.scene import Scene

GAP = 8  # pixels between two images
READABLE_WIDTH = 640  # narrower images are enlarged to this, if max_width allows it
MAX_REFERENCE_WIDTH = 1.25  # times the width of the camera image
MAX_LINES = 80  # thick ones: with more, single lines cannot be told apart
DRAWN_DEVIATION = 0.65  # of the text size: smaller circles are hidden by their landmark
FINEST_HEAT = 256  # pixels per side: heat is smooth, and a finer map takes long

STATUS_LOOKS = {Status.OK: (BLUE, '✓'), Status.ALIKE: (GREEN, '≈')}  # others failed

Rectangle = tuple[int, int, int, int]  # left, top, right, bottom


class NamedPoint(Protocol):
    """A named point of the camera image."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def x(self) -> float:
        """Return its column in pixels; NaN: unknown."""

    @property
    def y(self) -> float:
        """Return its row in pixels; NaN: unknown."""

    @property
    def deviation(self) -> float:
        """Return its standard deviation in pixels."""

    @property
    def inside(self) -> bool:
        """Return whether it lies inside the image."""


@dataclass(frozen=True)
class PictureOptions:
    """The size of a picture of a match, and what else it shows."""

    max_width: int = 1280
    landmarks: Sequence[NamedPoint] = ()
    title: str = ''


DEFAULTS = PictureOptions()


@dataclass(frozen=True)
class Panel:
    """An image on the canvas."""

    pixels: np.ndarray  # its part of the canvas, which clips what is drawn
    from_image: np.ndarray  # 3 x 3, from pixels of the image to those of the panel
    corner: np.ndarray  # 2, its top left corner on the canvas
    text_size: int
    labels: list[Rectangle] = field(default_factory=list)  # places that are taken


def draw_matches(
    reference: PreparedReference | None,
    image: np.ndarray,
    match: Match,
    options: PictureOptions = DEFAULTS,
) -> np.ndarray:
    """Draw reference and image side by side, joined by the matches."""
    images = [image] if reference is None else [reference.image, image]
    canvas, panels = arrange(images, options.max_width)
    if reference is not None:
        draw_correspondences(canvas, panels[0], panels[1], match)
        draw_outline(panels[0], reference, np.eye(3))
        draw_place(panels[1], reference, match)
        name_sides(panels)
    draw_landmarks(panels[-1], options.landmarks)
    size = panels[-1].text_size
    entries = []
    if reference is not None:
        alike = match.status is Status.ALIKE
        entries = match_entries(size, alike) + place_entries(size, options.landmarks, alike)
    return framed(status_banner(canvas.shape[1], match, options.title), canvas, entries)


def draw_overlay(
    reference: PreparedReference | None,
    image: np.ndarray,
    match: Match,
    options: PictureOptions = DEFAULTS,
) -> np.ndarray:
    """Draw the image, overlaid with the used part of the reference where it was found."""
    canvas, panel = overlaid(reference, image, match, options.max_width)
    draw_landmarks(panel, options.landmarks)
    alike = match.status is Status.ALIKE
    entries = place_entries(panel.text_size, options.landmarks, alike)
    return framed(status_banner(canvas.shape[1], match, options.title), canvas, entries)


def draw_semantics(
    reference: PreparedReference, image: np.ndarray, match: Match, max_width: int = 1280
) -> np.ndarray:
    """Draw the objects of both images, the pairs and the heat behind the weights."""
    scenes = [reference.scene, match.scene]
    weights = [match.reference_weights, match.image_weights]
    used = [side.objects for side in weights]
    canvas, panels = arrange([reference.image, image], max_width)
    for panel, scene, side in zip(panels, scenes, weights, strict=True):
        draw_heat(panel, side.heat)
        draw_objects(panel, scene, side.objects)
    draw_pairs(canvas, panels, scenes, match)
    name_sides(panels)
    for panel, scene, indices in zip(panels, scenes, used, strict=True):
        name_objects(panel, scene, indices)
    entries = heat_entries(panels[-1].text_size)
    return framed(weights_banner(canvas.shape[1], match), canvas, entries)


def draw_edges(
    reference: PreparedReference, image: np.ndarray, match: Match, max_width: int = 1280
) -> np.ndarray:
    """Draw the strokes of a drawing, and the edges of the image with those strokes on them."""
    assert reference.strokes is not None and match.edges is not None
    edges = cv2.resize(match.edges.picture(), image.shape[1::-1])
    canvas, (left, right) = arrange([np.zeros_like(reference.image), edges], max_width)
    for x, y in whole(warp_points(left.from_image, reference.strokes.points)):
        cv2.circle(left.pixels, (x, y), left.text_size // 12, WHITE, -1)
    points = whole(warp_points(right.from_image, match.correspondences.image_points))
    # Of an object that is only alike, ink may lie on edges without being certain.
    on_edges = match.verdict.inliers if match.evidence is None else match.evidence.inliers
    for point, is_on_edge in zip(points, on_edges, strict=True):
        draw_ink(right.pixels, point, is_on_edge, right.text_size)
    name_sides([left, right])
    how = 'The strokes of the drawing are aligned with edges of the same direction.'
    strip = banner(
        canvas.shape[1],
        SLATE,
        headline='EDGES',
        note='of the camera image',
        paragraphs=[('', how)],
        lines_each=2,
    )
    return framed(strip, canvas, ink_entries(right.text_size))


def draw_report(reference: PreparedReference, image: np.ndarray, match: Match) -> np.ndarray:
    """Draw the picture of `niom match`: semantics or edges if used, matches, overlay if found."""
    parts = [draw_matches(reference, image, match)]
    if match.edges is not None:
        parts.insert(0, draw_edges(reference, image, match))
    if match.weighting != 'none':
        parts.insert(0, draw_semantics(reference, image, match))
    if match.located:
        parts.append(overlaid(reference, image, match, parts[0].shape[1])[0])
    return stacked(parts)


# Where images go


def arrange(images: Sequence[np.ndarray], max_width: int) -> tuple[np.ndarray, list[Panel]]:
    """Put images in a row on a canvas, none higher than the last one, the camera image."""
    height, width = images[-1].shape[:2]
    scales = [min(height / i.shape[0], MAX_REFERENCE_WIDTH * width / i.shape[1]) for i in images]
    natural = sum(i.shape[1] * scale for i, scale in zip(images, scales, strict=True))
    gaps = len(images) - 1
    room = max_width - gaps * (GAP + 1)  # one more for narrow images that are rounded up
    enlarged = max(1.0, min(READABLE_WIDTH, room) / natural)
    # No higher than three quarters of the width, so that tall images stay on the screen.
    zoom = min(enlarged, room / natural, 0.75 * max_width / height)
    shown = [resized(i, scale * zoom) for i, scale in zip(images, scales, strict=True)]
    row = sum(part.shape[1] for part in shown) + gaps * GAP
    # Text needs room, even above a narrow image.
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
    """Return the image scaled, at least one pixel per side."""
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
    """Return pictures below each other, centred."""
    width = max(part.shape[1] for part in parts)
    rows = []
    for part in parts:
        left = (width - part.shape[1]) // 2
        rows.append(np.pad(part, ((0, GAP), (left, width - part.shape[1] - left), (0, 0))))
    return np.vstack(rows)[:-GAP]


# Marks


def draw_correspondences(canvas: np.ndarray, left: Panel, right: Panel, match: Match) -> None:
    """Join all matches by lines: thin ones, crossed out, for those that disagree.

    Of those that agree, some have a thick line in the colour of their score.
    """
    pairs, agrees, size = match.correspondences, match.verdict.inliers, left.text_size
    starts = whole(warp_points(left.from_image, pairs.reference_points) + left.corner)
    ends = whole(warp_points(right.from_image, pairs.image_points) + right.corner)
    colours = score_colours(pairs.scores)
    for index in np.flatnonzero(~agrees):
        draw_thin_line(canvas, starts[index], ends[index], VERMILLION)
    for index in np.flatnonzero(~agrees):
        draw_cross(canvas, starts[index], size)
        draw_cross(canvas, ends[index], size)
    # Best first. The best are drawn last, so that they are on top.
    agreeing = np.flatnonzero(agrees)[::-1]
    for index in agreeing:
        draw_thin_line(canvas, starts[index], ends[index], colours[index])
    lines = min(MAX_LINES, len(agreeing), canvas.shape[0] // 8 + 1)
    for index in agreeing[np.linspace(0, len(agreeing) - 1, lines).round().astype(int)]:
        draw_line(canvas, starts[index], ends[index], colours[index], 1 + size // 12)
    for index in agreeing:
        draw_dot(canvas, starts[index], colours[index], size)
        draw_dot(canvas, ends[index], colours[index], size)


def draw_outline(
    panel: Panel, reference: PreparedReference, reference_to_image: np.ndarray
) -> None:
    """Draw the outline of the used part of the reference in the image."""
    warp = panel.from_image @ reference_to_image
    draw_quadrangle(panel.pixels, warp_points(warp, reference.box.corners()), panel.text_size)


def draw_place(panel: Panel, reference: PreparedReference, match: Match) -> None:
    """Draw where the reference is, or with dashes where it fits an alike object roughly."""
    place = placing(match)
    if place is None:
        return
    if match.found:
        draw_outline(panel, reference, place)
        return
    corners = warp_points(panel.from_image @ place, reference.box.corners())
    draw_dashed_quadrangle(panel.pixels, corners, panel.text_size)


def placing(match: Match) -> np.ndarray | None:
    """Return the transform from the reference to what was found, exact or rough, if any."""
    if match.status is Status.ALIKE and match.alike is not None and match.alike.warp is not None:
        return match.alike.warp.matrix
    return match.verdict.reference_to_image


def overlaid(
    reference: PreparedReference | None, image: np.ndarray, match: Match, max_width: int
) -> tuple[np.ndarray, Panel]:
    """Return a canvas with the overlay, without text."""
    canvas, (panel,) = arrange([image], max_width)
    place = placing(match)
    if reference is not None and place is not None:
        lay_over(panel, reference, place)
        draw_place(panel, reference, match)
    return canvas, panel


def lay_over(panel: Panel, reference: PreparedReference, reference_to_image: np.ndarray) -> None:
    """Blend the used part of the reference into the image."""
    box = reference.box
    part = box.part_of(reference.image)
    # No finer than visible; besides, OpenCV 4 warps at most 32767 pixels per side.
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


def draw_landmarks(panel: Panel, landmarks: Sequence[NamedPoint]) -> None:
    """Draw landmarks; for those outside of the image, an arrow head at its border."""
    size = panel.text_size
    known = [mark for mark in landmarks if math.isfinite(mark.x) and math.isfinite(mark.y)]
    points = np.array([[mark.x, mark.y] for mark in known]).reshape(-1, 2)
    points = warp_points(panel.from_image, points)
    corner = np.array(panel.pixels.shape[1::-1]) - 1
    nearest = points.clip(np.minimum(4, corner / 2), np.maximum(corner - 4, corner / 2))
    scale = panel.from_image[0, 0]
    for mark, centre in zip(known, whole(points), strict=True):
        if mark.inside and scale * mark.deviation > DRAWN_DEVIATION * size:
            draw_deviation(panel.pixels, centre, scale * mark.deviation)
    for mark, point, inner in zip(known, points, nearest, strict=True):
        if mark.inside:
            draw_diamond(panel.pixels, point, size)
        else:
            draw_arrow_head(panel.pixels, inner, point - inner, PURPLE, size)
    around = [(x - size, y - size, x + size, y + size) for x, y in whole(nearest)]
    panel.labels.extend(around)
    for mark, place in zip(known, around, strict=True):
        write_label(panel, mark.name, place)


def draw_heat(panel: Panel, maps: Sequence[HeatMap]) -> None:
    """Colour an image by heat maps, the maximum where they overlap."""
    height, width = panel.pixels.shape[:2]
    rows, columns = min(height, FINEST_HEAT), min(width, FINEST_HEAT)
    heat = np.zeros((rows, columns), np.float32)
    for each in maps:
        heat = np.maximum(heat, each.picture(columns, rows).cpu().numpy())
    draw_heat_map(panel, cv2.resize(heat, (width, height)))


def draw_heat_map(panel: Panel, heat: np.ndarray) -> None:
    """Colour an image by the heat of each pixel, 0 to 1."""
    # Grey and darker, so that the heat stands out.
    grey = cv2.convertScaleAbs(cv2.cvtColor(panel.pixels, cv2.COLOR_RGB2GRAY), alpha=0.7)
    ground = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
    colours = cv2.applyColorMap((255 * heat).astype(np.uint8), HEAT_COLOURS)
    share = np.minimum(0.8, 1.6 * heat)
    panel.pixels[:] = cv2.blendLinear(colours, ground, share, 1 - share)


def draw_objects(panel: Panel, scene: Scene, used: Sequence[int]) -> None:
    """Draw the boxes of objects, those that weights come from on top."""
    for index in sorted(range(len(scene.objects)), key=lambda index: index in used):
        start, end = whole(corners_of(panel, scene.objects[index]))
        draw_box(panel.pixels, start, end, index in used, panel.text_size)


def corners_of(panel: Panel, seen: SeenObject) -> np.ndarray:
    """Return the top left and bottom right corners of an object's box, clipped to the panel."""
    corners = [[seen.area.left, seen.area.top], [seen.area.right, seen.area.bottom]]
    last = np.array(panel.pixels.shape[1::-1]) - 1
    return warp_points(panel.from_image, np.array(corners)).clip(0, last)


def draw_pairs(
    canvas: np.ndarray, panels: Sequence[Panel], scenes: Sequence[Scene], match: Match
) -> None:
    """Join paired objects, with their similarity."""
    size = panels[0].text_size
    for pair in match.paired.pairs:
        indices = pair.reference_object, pair.image_object
        middles = [
            corners_of(panel, scene.objects[index]).mean(axis=0) + panel.corner
            for panel, scene, index in zip(panels, scenes, indices, strict=True)
        ]
        start, end = whole(np.array(middles))
        draw_line(canvas, start, end, WHITE, 1 + size // 10)
        x, y = (start[0] + end[0]) // 2, (start[1] + end[1]) // 2
        write_plate(canvas, f'{pair.similarity:.2f}', (x - size, y - size // 2), size)


# Text on images


def name_sides(panels: Sequence[Panel]) -> None:
    """Write on each of two panels what it shows."""
    for panel, name in zip(panels, ('reference', 'camera'), strict=True):
        height, width = panel.pixels.shape[:2]
        write_label(panel, name, (0, height, width, height))


def name_objects(panel: Panel, scene: Scene, used: Sequence[int]) -> None:
    """Write the labels of objects, first those that weights come from."""
    for index in sorted(range(len(scene.objects)), key=lambda index: index not in used):
        seen = scene.objects[index]
        (left, top), (right, bottom) = whole(corners_of(panel, seen))
        text = f'{seen.label or "unnamed"} {seen.score:.2f}'
        write_label(panel, text, (left, top, right, bottom))


def write_label(panel: Panel, text: str, around: Rectangle) -> None:
    """Write a name at the first free place next to a rectangle, if there is one."""
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
    """Return whether two rectangles overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# Text around them


def status_banner(width: int, match: Match, title: str) -> np.ndarray:
    """Return a strip that says how the match went."""
    verdict = match.verdict
    colour, symbol = STATUS_LOOKS.get(verdict.status, (VERMILLION, '✗'))
    return banner(
        width,
        colour,
        headline=f'{symbol} {verdict.status.name.replace("_", " ")}',
        note=f'confidence {verdict.confidence:.2f}',
        paragraphs=[(title, verdict.message)],
        lines_each=2,
    )


def weights_banner(width: int, match: Match) -> np.ndarray:
    """Return a strip that says where the weights of both images came from."""
    sides = match.reference_weights, match.image_weights
    paragraphs = [
        ('reference', weights_line(sides[0])),
        ('camera', weights_line(sides[1])),
        ('pairs', match.paired.description),
    ]
    weighted = any(side.values is not None for side in sides)
    return banner(
        width,
        BLUE if weighted and match.found else SLATE,
        headline='WEIGHTED' if weighted else 'NOT WEIGHTED',
        note=f'weighting {match.weighting}' if weighted else 'all points have equal weight',
        paragraphs=paragraphs,
        lines_each=1,
    )


def weights_line(weights: Weights) -> str:
    """Say where weights came from and how large they are, or why there are none."""
    if weights.values is None or not len(weights.values):
        why = weights.why_none or weights.source
        return f'not weighted: {why}' if why and weights.asked_for else 'not weighted'
    low, high = float(weights.values.min()), float(weights.values.max())
    return f'weights {low:.2f} to {high:.2f} from {weights.source}'


def match_entries(size: int, alike: bool = False) -> list[Entry]:
    """Return the legend of matches; `alike`: of points of an object that is only alike."""
    agree, disagree = empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    start, middle, end = ((x, (top + bottom) // 2) for x in (left, (left + right) // 2, right))
    (colour,) = score_colours(np.array([0.8]))
    draw_line(agree, start, end, colour, 1 + size // 12)
    draw_dot(agree, start, colour, size)
    draw_dot(agree, end, colour, size)
    draw_thin_line(disagree, start, end, VERMILLION)
    draw_cross(disagree, middle, size)
    bar = colour_bar(SCORE_COLOURS, size)
    yes, no = ('certain', 'uncertain') if alike else ('agree', 'disagree')
    return [(bar, 'score'), (agree, yes), (disagree, no)]


def ink_entries(size: int) -> list[Entry]:
    """Return the legend of ink on edges."""
    symbols = []
    for agrees in (True, False):
        symbol = empty_symbol(size)
        left, top, right, bottom = symbol_area(size)
        draw_ink(symbol, ((left + right) // 2, (top + bottom) // 2), agrees, size)
        symbols.append(symbol)
    return [(symbols[0], 'ink on an edge'), (symbols[1], 'ink off edges')]


def place_entries(
    size: int, landmarks: Sequence[NamedPoint] = (), alike: bool = False
) -> list[Entry]:
    """Return the legend of outline and landmarks; `alike`: of an object that is only alike."""
    outline, landmark, rough = (empty_symbol(size) for _ in range(3))
    left, top, right, bottom = symbol_area(size)
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    draw_quadrangle(outline, corners, size * 5 // 6)
    entries = [(outline, 'reference, arrow: top')]
    if alike:
        draw_dashed_quadrangle(rough, corners, size * 5 // 6)
        entries.append((rough, 'rough fit'))
    if landmarks:
        middle = corners.mean(axis=0)
        draw_diamond(landmark, middle, size * 3 // 4 if alike else size)
        if alike:
            draw_deviation(landmark, whole(middle[None])[0], size * 5 // 9)
        entries.append((landmark, 'landmark, circle: deviation' if alike else 'landmark'))
    return entries


def heat_entries(size: int) -> list[Entry]:
    """Return the legend of objects and heat."""
    used, unused, pair = empty_symbol(size), empty_symbol(size), empty_symbol(size)
    left, top, right, bottom = symbol_area(size)
    draw_box(used, (left, top), (right, bottom), True, size)
    draw_box(unused, (left, top), (right, bottom), False, size)
    draw_line(pair, (left, size * 2 // 3), (right, size * 2 // 3), WHITE, 1 + size // 10)
    return [
        (colour_bar(HEAT_COLOURS, size), 'heat'),
        (used, 'gives weight'),
        (unused, 'gives none'),
        (pair, 'pair and its similarity'),
    ]


def empty_symbol(size: int) -> np.ndarray:
    """Return the background of a symbol in a legend."""
    return np.zeros((line_height(size), 2 * size, 3), np.uint8)


def symbol_area(size: int) -> Rectangle:
    """Return the area of a symbol on its background."""
    middle = line_height(size) // 2
    return size // 3, middle - size * 4 // 9, size * 3 // 2, middle + size * 4 // 9


def colour_bar(colours: np.ndarray, size: int) -> np.ndarray:
    """Return a colour bar from 0 to 1 as a symbol."""
    bar = cv2.resize(colours.reshape(1, -1, 3), (5 * size, size), interpolation=cv2.INTER_AREA)
    margin = line_height(size) - size
    bar = np.pad(bar, ((margin // 2, margin - margin // 2), (0, 0), (0, 0)))
    return np.hstack([lettered('0 ', size), bar, lettered(' 1 ', size)])
