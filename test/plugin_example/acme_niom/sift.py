"""An extractor: SIFT of OpenCV."""

import cv2
import numpy as np
import torch

from niom_ros.plugins import ExtractorPlugin


class Sift:
    """Finds keypoints with SIFT."""

    def __init__(self, settings, store, device):
        self._sift = cv2.SIFT_create(settings.max_keypoints)
        self._device = device

    def __call__(self, image):
        """Return keypoints, scores and descriptors of an image (1 x 3 x H x W, 0 to 1)."""
        pixels = (image[0].permute(1, 2, 0) * 255).byte().cpu().numpy()
        points, descriptors = self._sift.detectAndCompute(pixels, None)
        if descriptors is None:
            descriptors = np.empty((0, 128), np.float32)
        found = (
            np.array([point.pt for point in points], np.float32).reshape(-1, 2),
            np.array([point.response for point in points], np.float32),
            descriptors / np.maximum(np.linalg.norm(descriptors, axis=1, keepdims=True), 1e-9),
        )
        return tuple(torch.from_numpy(array).to(self._device) for array in found)


PLUGIN = ExtractorPlugin(
    name='acme-sift',
    description='SIFT of OpenCV',
    licence='Apache-2.0',
    load=Sift,
    weight_range=0.3,
)
