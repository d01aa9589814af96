"""What stands out in a picture, for use when no objects are known."""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True)
class SaliencyParameters:
    """How the spectral residual is computed."""

    side: int = 64  # pixels of the map, which is square
    window: int = 3  # cells of the spectrum that are averaged
    blur: float = 2.5  # pixels of the map


DEFAULTS = SaliencyParameters()


def saliency(image: np.ndarray, parameters: SaliencyParameters = DEFAULTS) -> np.ndarray:
    """Return the spectral residual saliency of an RGB picture as a square map."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (parameters.side, parameters.side), interpolation=cv2.INTER_AREA)
    spectrum = np.fft.fft2(small.astype(np.float32))
    amplitude = np.log(np.abs(spectrum) + 1e-6).astype(np.float32)
    window = (parameters.window, parameters.window)
    residual = amplitude - cv2.blur(amplitude, window, borderType=cv2.BORDER_REPLICATE)
    unusual = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    return cv2.GaussianBlur(unusual.astype(np.float32), (0, 0), parameters.blur)
