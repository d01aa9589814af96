"""SuperPoint: keypoints and descriptors from one network.

Written from the paper (DeTone, Malisiewicz, Rabinovich: SuperPoint: Self-Supervised Interest Point
Detection and Description, 2018). The names of the layers are those of the published weights.
"""

import torch
from torch import nn, Tensor
from torch.nn import functional

CELL = 8  # stride of the network, in pixels
NMS_RADIUS = 4  # pixels
SCORE_THRESHOLD = 0.0005  # a pixel that scores less is not a keypoint
BORDER = 4  # pixels along the image's edge that have no keypoints


class SuperPoint(nn.Module):
    """Finds keypoints, best first, and their descriptors (256)."""

    def __init__(self, max_keypoints: int) -> None:
        """Create the network with random weights."""
        super().__init__()
        self.max_keypoints = max_keypoints

        self.conv1a = convolution(1, 64)
        self.conv1b = convolution(64, 64)
        self.conv2a = convolution(64, 64)
        self.conv2b = convolution(64, 64)
        self.conv3a = convolution(64, 128)
        self.conv3b = convolution(128, 128)
        self.conv4a = convolution(128, 128)
        self.conv4b = convolution(128, 128)

        self.convPa = convolution(128, 256)
        self.convPb = nn.Conv2d(256, CELL * CELL + 1, kernel_size=1)
        self.convDa = convolution(128, 256)
        self.convDb = nn.Conv2d(256, 256, kernel_size=1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keypoints (N x 2, x and y), scores (N) and unit descriptors (N x 256).

        The image is 1 x 3 x H x W (RGB) or 1 x 1 x H x W in [0, 1], at least 8 x 8 pixels.
        There are no keypoints to the right of or below the last whole cell.
        """
        scores, descriptors = self.dense(image)
        keypoints, keypoint_scores = self.select(scores)
        return keypoints, keypoint_scores, sample_descriptors(descriptors, keypoints)

    def dense(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of all pixels (H x W) and the descriptors of all cells (256 x h x w).

        H and W are the image's, rounded down to whole cells.
        """
        shared = self.encode(as_grey(image))
        logits = at_least_single(self.convPb(self.convPa(shared).relu()))
        # The last channel is for cells without a keypoint.
        scores = functional.pixel_shuffle(logits.softmax(1)[:, :-1], CELL)
        descriptors = at_least_single(self.convDb(self.convDa(shared).relu()))
        return scores[0, 0], functional.normalize(descriptors, dim=1)[0]

    def encode(self, grey: Tensor) -> Tensor:
        """Return 128 features of each cell, which both heads share."""
        features = self.conv1b(self.conv1a(grey).relu()).relu()
        for first, second in (
            (self.conv2a, self.conv2b),
            (self.conv3a, self.conv3b),
            (self.conv4a, self.conv4b),
        ):
            halved = functional.max_pool2d(features, 2)
            features = second(first(halved).relu()).relu()
        return features

    def select(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best keypoints (N x 2) and their scores (N), given those of all pixels."""
        inner = only_peaks(scores)[BORDER:-BORDER, BORDER:-BORDER]
        count = min(self.max_keypoints, inner.numel())
        best, places = inner.flatten().topk(count)
        good = best > SCORE_THRESHOLD
        best, places = best[good], places[good]
        # An image no wider than its borders has no keypoints, but must not divide by zero.
        width = max(inner.shape[1], 1)
        keypoints = torch.stack([places % width, places // width], dim=1) + BORDER
        return keypoints.to(best.dtype), best


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Return a 3 x 3 convolution that keeps the image's size."""
    return nn.Conv2d(inputs, outputs, kernel_size=3, padding=1)


def as_grey(image: Tensor) -> Tensor:
    """Return an RGB or grey image (1 x 3 or 1 x H x W) as a grey one."""
    if image.shape[1] == 1:
        return image
    red, green, blue = image.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def at_least_single(values: Tensor) -> Tensor:
    """Return half precision values in single precision, others unchanged.

    Half precision would round coordinates above 2048 and the length of descriptors.
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def only_peaks(scores: Tensor, radius: int = NMS_RADIUS) -> Tensor:
    """Return the scores (H x W) with zeros where there is a better one nearby."""
    peaks = torch.zeros_like(scores)
    rest = scores
    # A pixel may be worse than one that is not a peak itself: it gets a chance once that one is
    # suppressed. Three rounds miss hardly any.
    for _ in range(3):
        peaks = peaks.maximum(rest.masked_fill(rest < best_nearby(rest, radius), 0))
        rest = rest.masked_fill(best_nearby(peaks, radius) > 0, 0)
    return peaks


def best_nearby(values: Tensor, radius: int) -> Tensor:
    """Return for each pixel (H x W) the largest value within the radius, along x and along y."""
    side = 2 * radius + 1
    # One axis after the other: the same as a square window, in half the time.
    along_x = functional.max_pool2d(values[None], (1, side), stride=1, padding=(0, radius))
    return functional.max_pool2d(along_x, (side, 1), stride=1, padding=(radius, 0))[0]


def sample_descriptors(descriptors: Tensor, keypoints: Tensor) -> Tensor:
    """Interpolate the descriptors of cells (D x h x w) at keypoints: N x D, unit length."""
    rows, columns = descriptors.shape[1:]
    # The centres of the outer cells are `CELL * (columns - 1)` apart. The code with which
    # matchers were trained used 3.5 pixels more, so this must do the same.
    extent = keypoints.new_tensor([columns, rows]) * CELL - (CELL + 1) / 2
    positions = (keypoints - (CELL - 1) / 2) / extent * 2 - 1
    sampled = functional.grid_sample(
        descriptors[None], positions[None, None], mode='bilinear', align_corners=True
    )
    return functional.normalize(sampled[0, :, 0], dim=0).T
