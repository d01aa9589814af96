"""Keypoints and descriptors of an image."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
from torch.nn.functional import interpolate

from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.networks.aliked import ALIKED, rearranged
from niom_ros.networks.superpoint import SuperPoint

# With its authors' threshold of 0.2 a blurred image has almost no keypoints. A uniform grey or
# white image reaches 0.017, a photo blurred beyond recognition (sigma 10) still 0.04.
ALIKED_THRESHOLD = 0.02
SMALLEST_SIDE = 32  # pixels; below this the networks' coarsest layer has no cell left


@dataclass(frozen=True)
class Features:
    """The keypoints of one image, in pixels of that image (pixel centres at integers)."""

    keypoints: torch.Tensor  # N x 2, x and y
    scores: torch.Tensor  # N, larger is better; the scale is the extractor's own
    descriptors: torch.Tensor  # N x D, unit length until they are weighted
    width: int
    height: int

    def __len__(self) -> int:
        """Return the number of keypoints."""
        return len(self.keypoints)

    def where(self, keep: torch.Tensor) -> 'Features':
        """Return only some of the keypoints: N booleans, or the numbers of those to keep."""
        return replace(
            self,
            keypoints=self.keypoints[keep],
            scores=self.scores[keep],
            descriptors=self.descriptors[keep],
        )

    def strongest(self, most: int) -> 'Features':
        """Return only so many keypoints, those with the best scores, in their order."""
        return self.where(strongest(self.scores, most))

    def moved(self, left: int, top: int, width: int, height: int) -> 'Features':
        """Return the features of a part as those of the whole that it was cut from."""
        keypoints = self.keypoints + self.keypoints.new_tensor([left, top])
        return Features(keypoints, self.scores, self.descriptors, width, height)

    def inside(self, mask: np.ndarray) -> 'Features':
        """Return only the keypoints where the mask (height x width) is not zero."""
        columns, rows = self.keypoints.round().long().cpu().numpy().T
        keep = mask[rows.clip(0, self.height - 1), columns.clip(0, self.width - 1)] != 0
        return self.where(torch.from_numpy(keep).to(self.keypoints.device))


def strongest(scores: torch.Tensor, most: int) -> torch.Tensor:
    """Return the numbers of the best scores (N), in ascending order: so many, or all."""
    return scores.topk(min(most, len(scores))).indices.sort().values


Network = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
"""From a 1 x 3 x H x W image in [0, 1] to keypoints (N x 2), scores (N), descriptors (N x D)."""


def load_aliked(store: ModelStore, max_keypoints: int) -> tuple[torch.nn.Module, Network]:
    """ALIKED: fast and precise. The default."""
    model = ALIKED(max_keypoints, ALIKED_THRESHOLD)
    model.load_state_dict(rearranged(store.load_state_dict('aliked-n16')))
    return model, model


def load_disk(store: ModelStore, max_keypoints: int) -> tuple[torch.nn.Module, Network]:
    """DISK: finds more on plain surfaces, slower."""
    from kornia.feature import DISK  # takes half a second

    model = DISK()
    model.load_state_dict(store.load_state_dict('disk')['extractor'])

    def network(image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # A uniform grey or white image reaches 11.3; keypoints of photos score up to 115.
        (found,) = model(image, n=max_keypoints, score_threshold=12.0, pad_if_not_divisible=True)
        return found.keypoints, found.detection_scores, found.descriptors

    return model, network


def load_superpoint(store: ModelStore, max_keypoints: int) -> tuple[torch.nn.Module, Network]:
    """SuperPoint: what the paper uses; its weights are for non-commercial use only."""
    model = SuperPoint(max_keypoints)
    model.load_state_dict(store.load_state_dict('superpoint'))
    return model, model


def load_xfeat(store: ModelStore, max_keypoints: int) -> tuple[torch.nn.Module, Network]:
    """XFeat: made for speed, on CPUs too; less precise."""
    try:
        from kornia.feature import XFeat
    except ImportError:  # kornia has it since 0.8.3, which needs Python 3.11
        raise SettingsError(
            "extractor 'xfeat' needs kornia 0.8.3 or later, for which Python must be 3.11 or "
            'later: use another extractor, or a newer Python'
        ) from None
    model = XFeat(top_k=max_keypoints)
    model.net.load_state_dict(store.load_state_dict('xfeat'))

    def network(image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # XFeat would do this itself, but then be half a pixel off.
        height, width = image.shape[-2:]
        size = max(32, height // 32 * 32), max(32, width // 32 * 32)
        image = interpolate(image, size, mode='bilinear', align_corners=False)
        (found,) = model.detectAndCompute(image)
        scale = image.new_tensor([width / size[1], height / size[0]])
        keypoints = (found['keypoints'] + 0.5) * scale - 0.5
        return keypoints, found['scores'], found['descriptors']

    return model, network


LOADERS = {
    'aliked': load_aliked,
    'disk': load_disk,
    'superpoint': load_superpoint,
    'xfeat': load_xfeat,
}


class Extractor:
    """Finds the keypoints of images, with one of the networks above."""

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load the network from the store."""
        self._device = device
        self._max_side = settings.max_image_side
        model, self._network = LOADERS[settings.extractor](store, settings.max_keypoints)
        model.eval().to(device)

    def shrunk_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height in which an image of this size reaches the network."""
        shrink = min(1.0, self._max_side / max(width, height, 1))
        return round(width * shrink), round(height * shrink)

    @torch.inference_mode()
    def extract(self, image: np.ndarray) -> Features:
        """Return the features of an RGB image (height x width x 3, uint8)."""
        height, width = image.shape[:2]
        small_width, small_height = self.shrunk_size(width, height)
        if min(small_width, small_height) < SMALLEST_SIDE:
            nothing = torch.empty(0, 2, device=self._device)
            return Features(nothing, nothing[:, 0], nothing, width, height)
        if small_width < width:
            image = cv2.resize(image, (small_width, small_height), interpolation=cv2.INTER_AREA)
        # torch wants an array that is in one piece and writable, though it only reads it.
        pixels = np.require(image, requirements=['C', 'W'])
        tensor = torch.from_numpy(pixels).to(self._device)
        keypoints, scores, descriptors = self._network(tensor.permute(2, 0, 1)[None].float() / 255)
        # Half a pixel of care: pixel centres are integers, so image edges are at -0.5.
        scale = keypoints.new_tensor([small_width / width, small_height / height])
        return Features((keypoints + 0.5) / scale - 0.5, scores, descriptors, width, height)
