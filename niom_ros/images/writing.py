"""Write pictures and reports for users."""

import os
from pathlib import Path

import cv2
import numpy as np

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason


def check_writable(path: Path, picture: bool = False) -> None:
    """Create the folder of a file, or say why it cannot be written: before work, not after it."""
    if picture and not cv2.haveImageWriter(str(path)):
        raise UserError(f'cannot write a picture named {path}: use the ending .png or .jpg')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f'cannot write {path}: {reason(error)}') from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f'cannot write {path}: it is a folder, or you may not write there')


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
