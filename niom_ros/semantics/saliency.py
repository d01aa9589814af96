"""What stands out in a picture, for use when no objects are known."""

import cv2
import numpy as np

SALIENCY_SIDE = 64


def saliency(image: np.ndarray) -> np.ndarray:
    """Return the spectral residual saliency of an RGB picture, SALIENCY_SIDE pixels a side."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, (SALIENCY_SIDE, SALIENCY_SIDE), interpolation=cv2.INTER_AREA)
    spectrum = np.fft.fft2(small.astype(np.float32))
    amplitude = np.log(np.abs(spectrum) + 1e-6).astype(np.float32)
    residual = amplitude - cv2.blur(amplitude, (3, 3), borderType=cv2.BORDER_REPLICATE)
    unusual = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    return cv2.GaussianBlur(unusual.astype(np.float32), (0, 0), 2.5)
