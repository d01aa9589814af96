"""A sketch of the demo photo, as somebody with a marker and little time would draw it."""

import math

import cv2
import numpy as np

SIZE = 600, 400  # pixels of the photo that it shows
LINE_WIDTH = 3
FINER = 16  # OpenCV gets points in fractions of a pixel, this many per pixel

# Ellipses: middle, half axes, and the part that is drawn, in degrees clockwise from the right.
ELLIPSES = {
    'rim of the cup': (290, 113, 117, 95, 0, 360),
    'inside of the rim': (293, 110, 98, 84, 0, 360),
    'saucer': (278, 222, 201, 167, -40, 241),
    'bowl of the spoon': (366, 286, 40, 40, -62, 260),
}
LINES = {
    'edge of the coffee': (
        (204, 146), (213, 124), (227, 107), (258, 98), (298, 96), (335, 107), (358, 130),
        (369, 160),
    ),
    'left side of the cup': ((174, 125), (177, 152), (186, 186), (200, 215), (218, 236)),
    'right side of the cup': ((407, 125), (403, 152), (394, 180), (383, 202), (366, 226)),
    'foot of the cup': ((258, 282), (290, 285), (314, 278), (334, 262)),
    'handle of the cup': (
        (236, 226), (223, 234), (209, 253), (198, 275), (197, 293), (209, 304), (227, 302),
        (236, 286), (246, 265), (260, 246),
    ),
    'handle of the spoon': (
        (397, 74), (402, 67), (414, 67), (424, 76), (414, 111), (404, 150), (394, 186), (384, 216),
        (380, 236), (391, 253),
    ),
    'edge of the table': ((13, 98), (50, 73), (100, 41), (148, 10)),
}  # fmt: skip


def demo_sketch() -> np.ndarray:
    """Return the sketch as RGB, black on white."""
    paper = np.full((SIZE[1], SIZE[0], 3), 255, np.uint8)
    arcs = [arc(*ellipse) for ellipse in ELLIPSES.values()]
    lines = [np.array(line, float) for line in LINES.values()]
    for line in arcs + lines:
        points = np.round(line * FINER).astype(np.int32)
        shift = round(math.log2(FINER))
        cv2.polylines(paper, [points], False, (0, 0, 0), LINE_WIDTH, cv2.LINE_AA, shift)
    return paper


def arc(x: float, y: float, across: float, down: float, first: float, last: float) -> np.ndarray:
    """Return points along a part of an ellipse."""
    angles = np.radians(np.linspace(first, last, 60))
    return np.column_stack([x + across * np.cos(angles), y + down * np.sin(angles)])
