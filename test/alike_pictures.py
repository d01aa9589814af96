"""Pictures of objects that are alike, and a wall with a clock on it."""

from pathlib import Path

import cv2
import numpy as np

from niom_ros.images.decoding import read_image
from niom_ros.simulation.virtual_scene import example_photo

FOLDER = Path(__file__).with_name('pictures')
# Where the marks of 12, 3, 6 and 9 are on `clock.jpg`, and on `other_clock.jpg` (240 pixels wide,
# 40 pixels from the edges, like the first).
CLOCK_MARKS = {'12': (160.0, 70.0), '3': (248.0, 160.0), '6': (160.0, 248.0), '9': (72.0, 160.0)}
CLOCK_PLACE, CLOCK_SIDE = (340, 120), 200  # top left corner and side of the other clock, pixels


def picture(name: str) -> np.ndarray:
    """Return a picture of the folder, RGB."""
    return read_image(FOLDER / f'{name}.jpg')


def wall(clock: bool = True) -> np.ndarray:
    """Return a brick wall of 640 x 480 pixels, with the other clock on it or without."""
    image = cv2.resize(example_photo('brick'), (640, 480))
    if clock:
        (left, top), side = CLOCK_PLACE, CLOCK_SIDE
        shown = picture('other_clock')[40:280, 40:280]
        shown = cv2.resize(shown, (side, side), interpolation=cv2.INTER_AREA)
        disc = cv2.circle(
            np.zeros((side, side), np.uint8), (side // 2, side // 2), side // 2, 1, -1
        )
        part = image[top : top + side, left : left + side]
        part[disc == 1] = shown[disc == 1]
    return image


def on_the_wall(points: np.ndarray) -> np.ndarray:
    """Return where places of `clock.jpg` are on the clock of the wall, if both had its size."""
    return (points - 40) * (CLOCK_SIDE / 240) + CLOCK_PLACE
