"""YOLOv4-tiny, and any detector of that family, from its darknet files."""

from typing import Any

import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.darknet import Darknet, numbers, Section, yolov4_tiny_network
from niom_ros.semantics.detectors.grid_detector import DetectorOptions, DetectorPlugin
from niom_ros.semantics.detectors.yolo import YoloDetector, YoloHead, YoloNetwork

# Labels are compared as text: these are the words for what darknet's file runs together.
WORDS = {
    'diningtable': 'dining table',
    'pottedplant': 'potted plant',
    'tvmonitor': 'tv monitor',
}


class DarknetYolo(YoloNetwork):
    """A darknet that ends in layers named [yolo]."""

    def __init__(self, darknet: Darknet) -> None:
        """Read what the cfg file says about the heads."""
        super().__init__()
        self.darknet = darknet
        self.heads = [self._head(index, options) for index, options in darknet.heads]
        # The convolutions of the heads, and what the first of them, and upsampled the second,
        # are computed from.
        self._head_layers = [index - 1 for index, _ in darknet.heads]
        self._look_layer = self._head_layers[0] - 2

    def _head(self, index: int, options: Section) -> YoloHead:
        sides = numbers(options['anchors'])
        anchors = list(zip(sides[::2], sides[1::2], strict=True))
        convolution: Any = self.darknet.layers[index - 1]
        return YoloHead(
            self.darknet.layers[index - 2],
            convolution[0],
            [anchors[n] for n in numbers(options['mask'])],
            int(options['classes']),
            float(options.get('scale_x_y', 1.0)),
            torch.exp,
        )

    def answer(self, pixels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the raw output of every head, and how each place looks (both 1 x D x h x w)."""
        *heads, looks = self.darknet.features(pixels, [*self._head_layers, self._look_layer])
        return heads, looks


def load_yolov4_tiny(
    store: ModelStore, options: DetectorOptions, device: torch.device
) -> YoloDetector:
    """YOLOv4-tiny: small, fast, free for any use. 80 classes of everyday things."""
    darknet = yolov4_tiny_network(store)
    names = store.path('coco-labels').read_text().split('\n')
    labels = tuple(WORDS.get(name, name) for name in names if name)
    side = int(darknet.net['width'])
    return YoloDetector('yolov4-tiny', DarknetYolo(darknet), labels, side, 32, options, device)


def load(settings: Settings, store: ModelStore, device: torch.device) -> YoloDetector:
    """Load YOLOv4-tiny as the settings want it."""
    return load_yolov4_tiny(store, DetectorOptions.of(settings), device)


PLUGIN = DetectorPlugin(
    name='yolov4-tiny',
    description='YOLOv4-tiny: small and fast, 80 classes of everyday things',
    licence='Unlicense',
    load=load,
    models=models_named('yolov4-tiny', 'yolov4-tiny-cfg', 'coco-labels'),
)
