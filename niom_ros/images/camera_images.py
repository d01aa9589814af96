"""Convert the image messages of a camera to RGB arrays.

This does not use cv_bridge: the one in a ROS distribution is compiled against NumPy 1 and fails
with the NumPy 2 that current torch and OpenCV need. Also, a message may come from a bag, without
ROS.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from niom_ros.images.decoding import check_size, decode_image, ImageError, to_8_bits

Convert = Callable[[np.ndarray], np.ndarray]


def by_opencv(code: int) -> Convert:
    """Return a conversion to RGB by one of OpenCV's colour codes."""
    return lambda pixels: cv2.cvtColor(pixels, code)


CONVERSIONS: dict[tuple[str, int], Convert] = {
    ('rgb', 3): lambda pixels: pixels,
    ('bgr', 3): by_opencv(cv2.COLOR_BGR2RGB),
    ('rgba', 4): by_opencv(cv2.COLOR_RGBA2RGB),
    ('bgra', 4): by_opencv(cv2.COLOR_BGRA2RGB),
    ('mono', 1): by_opencv(cv2.COLOR_GRAY2RGB),
    ('bayer_rggb', 1): by_opencv(cv2.COLOR_BayerRGGB2RGB),
    ('bayer_bggr', 1): by_opencv(cv2.COLOR_BayerBGGR2RGB),
    ('bayer_gbrg', 1): by_opencv(cv2.COLOR_BayerGBRG2RGB),
    ('bayer_grbg', 1): by_opencv(cv2.COLOR_BayerGRBG2RGB),
    ('uyvy', 2): by_opencv(cv2.COLOR_YUV2RGB_UYVY),
    ('yuyv', 2): by_opencv(cv2.COLOR_YUV2RGB_YUYV),
}

# Encoding: kind of pixel, channels, bytes per channel.
ENCODINGS: dict[str, tuple[str, int, int]] = {
    f'{kind}{8 * size}': (kind, channels, size)
    for kind, channels in CONVERSIONS
    if kind not in ('uyvy', 'yuyv')
    for size in (1, 2)
}
ENCODINGS |= {
    '8UC1': ('mono', 1, 1),
    '8UC3': ('bgr', 3, 1),
    '8UC4': ('bgra', 4, 1),
    '16UC3': ('bgr', 3, 2),
    '16UC4': ('bgra', 4, 2),
    'yuv422': ('uyvy', 2, 1),
    'uyvy': ('uyvy', 2, 1),
    'yuv422_yuy2': ('yuyv', 2, 1),
    'yuyv': ('yuyv', 2, 1),
}

DEPTH_ENCODINGS = ('16UC1', '32FC1')


def message_to_rgb(message: Any) -> np.ndarray:
    """Return an Image or CompressedImage as RGB; the array may share the memory of the message."""
    return compressed_to_rgb(message) if hasattr(message, 'format') else raw_to_rgb(message)


def compressed_to_rgb(message: Any) -> np.ndarray:
    """Return the picture in a sensor_msgs/CompressedImage."""
    if 'compressedDepth' in message.format:
        raise carries_depth(f"format '{message.format[:60]}'")
    return decode_image(bytes(message.data))


def raw_to_rgb(message: Any) -> np.ndarray:
    """Return the picture in a sensor_msgs/Image."""
    check_size(message.width, message.height)
    if message.encoding in DEPTH_ENCODINGS:
        raise carries_depth(f"encoding '{message.encoding}'")
    if message.encoding not in ENCODINGS:
        raise ImageError(
            f"unknown encoding '{message.encoding[:40]}': use one of {', '.join(ENCODINGS)}"
        )
    kind, channels, size = ENCODINGS[message.encoding]
    if kind in ('uyvy', 'yuyv') and message.width % 2:
        raise ImageError(
            f"encoding '{message.encoding}' needs an even width, but it is {message.width}"
        )
    pixels = unpack(message, channels, size)
    if size == 2:
        pixels = to_8_bits(pixels)
    return CONVERSIONS[kind, channels](pixels)


def carries_depth(what: str) -> ImageError:
    """Return the error for a depth image."""
    return ImageError(
        f'{what} carries depth, not a picture: connect the colour or grey image of the camera'
    )


def unpack(message: Any, channels: int, size: int) -> np.ndarray:
    """Return the pixels of a message without its row padding, in this machine's byte order."""
    row = message.width * channels * size
    if message.step < row:
        raise ImageError(
            f"step is {message.step}, but a row of {message.width} pixels '{message.encoding}' "
            f'takes {row} bytes'
        )
    needed = message.step * (message.height - 1) + row
    if len(message.data) < needed:
        raise ImageError(
            f'data holds {len(message.data)} bytes, but {message.height} rows of step '
            f'{message.step} take {needed}'
        )
    data = np.frombuffer(message.data, np.uint8, needed)
    rows = np.lib.stride_tricks.as_strided(data, (message.height, row), (message.step, 1))
    if size == 2:
        order = '>u2' if message.is_bigendian else '<u2'
        rows = np.ascontiguousarray(rows).view(order).astype(np.uint16)
    shape = (message.height, message.width) if channels == 1 else (message.height, -1, channels)
    return rows.reshape(shape)
