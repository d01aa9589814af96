"""YOLOv4-tiny, and any detector of that family, from its darknet files."""

from typing import Any

import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.darknet import Darknet, numbers, Section, yolov4_tiny_network
from niom_ros.semantics.detectors.grid_detector import DetectorOptions, DetectorPlugin
from niom_ros.semantics.detectors.yolo import YoloDetector, YoloHead, YoloNetwork

# Labels are compared as text, so these compounds of darknet's file are split into words.
WORDS = {
    'diningtable': 'dining table',
    'pottedplant': 'potted plant',
    'tvmonitor': 'tv monitor',
}


class DarknetYolo(YoloNetwork):
    """A darknet that ends in layers named [yolo]."""

    def __init__(self, darknet: Darknet) -> None:
        """Read the heads from the cfg file."""
        super().__init__()
        self.darknet = darknet
        self.heads = [self._head(index, options) for index, options in darknet.heads]
        # The convolutions of the heads, and the layer that both heads are computed from: the first
        # directly, the second after upsampling.
        self._head_layers = [index - 1 for index, _ in darknet.heads]
        self._feature_layer = self._head_layers[0] - 2

    def _head(self, index: int, options: Section) -> YoloHead:
        sides = numbers(options['anchors'])
        anchors = list(zip(sides[::2], sides[1::2], strict=True))
        convolution: Any = self.darknet.layers[index - 1]
        return YoloHead(
            entering=self.darknet.layers[index - 2],
            convolution=convolution[0],
            anchors=[anchors[n] for n in numbers(options['mask'])],
            classes=int(options['classes']),
            stretch=float(options.get('scale_x_y', 1.0)),
            growth=torch.exp,
        )

    def outputs(self, pixels: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the raw output of every head, and a feature map (all 1 x D x h x w)."""
        layers = [*self._head_layers, self._feature_layer]
        *heads, features = self.darknet.features(pixels, layers)
        return heads, features


def load_yolov4_tiny(
    store: ModelStore, options: DetectorOptions, device: torch.device
) -> YoloDetector:
    """YOLOv4-tiny: small, fast, free for any use. 80 classes of everyday things."""
    darknet = yolov4_tiny_network(store)
    names = store.path('coco-labels').read_text().split('\n')
    labels = tuple(WORDS.get(name, name) for name in names if name)
    side = int(darknet.net['width'])
    return YoloDetector('yolov4-tiny', DarknetYolo(darknet), labels, side, options, device)


def load(settings: Settings, store: ModelStore, device: torch.device) -> YoloDetector:
    """Load YOLOv4-tiny with the options of the settings."""
    return load_yolov4_tiny(store, DetectorOptions.of(settings), device)


PLUGIN = DetectorPlugin(
    name='yolov4-tiny',
    description='YOLOv4-tiny: small and fast, 80 classes of everyday things',
    licence='Unlicense',
    load=load,
    models=models_named('yolov4-tiny', 'yolov4-tiny-cfg', 'coco-labels'),
)
