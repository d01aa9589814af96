"""A detector that sees one thing in the middle of every image; its label is its model."""

import hashlib
from importlib.resources import files

import torch

from niom_ros import Area
from niom_ros.plugins import (
    DetectorPlugin,
    GridFrame,
    HeatMap,
    Model,
    SeenObject,
    Wheel,
    WheelMember,
)

# A model that comes in the wheel of the plug-in itself
LABEL = files('acme_niom').joinpath('label.txt').read_bytes()
MODEL = Model(
    name='acme-label',
    purpose='what is in the middle',
    file='acme_label.txt',
    source=WheelMember(Wheel('acme-niom', '1.2', size=5_000), 'acme_niom/label.txt'),
    sha256=hashlib.sha256(LABEL).hexdigest(),
    size=len(LABEL),
    licence='Acme, for our customers',
    commercial=False,
    default=False,
)


class Middle:
    """Sees the middle of images."""

    name = 'acme-middle'

    def __init__(self, settings, store, device):
        self._label = store.read_text('acme-label').strip()
        self._device = device

    def detect(self, image):
        """Return one object, half as wide and high as the image."""
        height, width = image.shape[:2]
        area = Area(width / 4, height / 4, width * 3 / 4, height * 3 / 4)
        like = torch.empty(0, device=self._device)
        heat = HeatMap.filled(area, GridFrame(width, height), like)
        return (SeenObject(self._label, 0.9, area, heat),)


PLUGIN = DetectorPlugin(
    name='acme-middle',
    description='sees one thing in the middle of every image',
    licence='Acme, for our customers',
    load=Middle,
    models=(MODEL,),
)
