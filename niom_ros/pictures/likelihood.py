"""A picture of where a point of the reference is likely to be on another object of its kind."""

import cv2
import numpy as np

from niom_ros.core.homographies import warp_points
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Landmark
from niom_ros.pictures.lettering import banner
from niom_ros.pictures.marks import draw_box, draw_diamond, GREEN, HEAT_COLOURS, SLATE, whole
from niom_ros.pictures.matches import (
    arrange,
    colour_bar,
    draw_heat_map,
    empty_symbol,
    framed,
    name_sides,
    Panel,
    symbol_area,
)
from niom_ros.semantics.correspondence.field import PartField


def draw_likelihood(
    reference: PreparedReference,
    image: np.ndarray,
    match: Match,
    point: Landmark,
    max_width: int = 1280,
) -> np.ndarray:
    """Draw a point of the reference, and how likely each place of the image is to be it."""
    assert match.parts is not None
    canvas, panels = arrange([reference.image, image], max_width)
    left, right = panels
    size = right.text_size
    place = np.array([[point.x, point.y]])
    draw_heat_map(right, heat_of(match.parts, place, right))
    area = match.parts.image_area
    corners = np.array([[area.left, area.top], [area.right, area.bottom]])
    start, end = whole(warp_points(right.from_image, corners))
    draw_box(right.pixels, start, end, True, size)
    draw_diamond(left.pixels, warp_points(left.from_image, place)[0], size)
    found = warp_points(right.from_image, match.parts.carry(place).places)[0]
    draw_diamond(right.pixels, found, size)
    name_sides(panels)
    strip = banner(
        canvas.shape[1],
        GREEN if match.located else SLATE,
        headline='LIKELIHOOD',
        note='of one point',
        paragraphs=[(point.name, 'where it is likely to be, relative to the likeliest place')],
        lines_each=2,
    )
    diamond, searched = empty_symbol(size), empty_symbol(size)
    start_x, start_y, end_x, end_y = symbol_area(size)
    draw_diamond(diamond, np.array([(start_x + end_x) / 2, (start_y + end_y) / 2]), size)
    draw_box(searched, (start_x, start_y), (end_x, end_y), True, size)
    entries = [
        (colour_bar(HEAT_COLOURS, size), 'likelihood'),
        (diamond, 'the point'),
        (searched, 'where it was looked for'),
    ]
    return framed(strip, canvas, entries)


def heat_of(parts: PartField, point: np.ndarray, panel: Panel) -> np.ndarray:
    """Return the likelihood of a point, 0 to 1, for each pixel of a panel."""
    likelihood = parts.likelihood_of(point)[0].numpy()
    height, width = panel.pixels.shape[:2]
    area, (rows, columns) = parts.image_area, likelihood.shape
    across, down = area.width / columns, area.height / rows
    to_image = np.array(
        [
            [across, 0, area.left + across / 2],
            [0, down, area.top + down / 2],
            [0, 0, 1],
        ]
    )
    heat = likelihood / max(float(likelihood.max()), 1e-30)
    warp = panel.from_image @ to_image
    return cv2.warpPerspective(heat, warp, (width, height), flags=cv2.INTER_LINEAR)
