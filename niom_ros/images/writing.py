"""Write pictures and reports for users."""

from pathlib import Path

import cv2
import numpy as np

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason


def write_picture(path: Path, rgb: np.ndarray) -> None:
    """Write an RGB picture; the file extension selects the format."""
    try:
        encoded, data = cv2.imencode(path.suffix or '.none', cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    except cv2.error:
        encoded = False
    if not encoded:
        raise UserError(f'cannot write a picture named {path}: use the ending .png or .jpg')
    write_bytes(path, data.tobytes())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file, or say why it cannot be written."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UserError(f'cannot write {path}: {reason(error)}') from None
