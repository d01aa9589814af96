"""Calls of ~/set_reference, answered by the real service up to the networks."""

from array import array
from pathlib import Path
import tempfile
from threading import Lock
from types import SimpleNamespace

from camera_messages import raw_image
from chosen import Chosen, noises
from niom_ros.msg import DetectedObject
from niom_ros.srv import SetReference
import numpy as np
from pictures import damaged_pictures
from sensor_msgs.msg import Image

from niom_ros.images.decoding import TooPlain
from niom_ros.nodes.reference_services import ReferenceServices
from niom_ros.references.library import ReferenceLibrary

INPUTS = 30_000
FAULT = SetReference.Response.FAULT
FILES = ('a.png', 'b.png', 'nothing', '../a.png', '/etc/passwd', '/dev/zero', '', '.', '\0')


class Networks:
    """Stands for the networks: finds every picture too plain, so that nothing is kept."""

    def prepare(self, image, mask, fewest, hints):
        assert mask is None or mask.shape == image.shape[:2]
        raise TooPlain('too plain')


class Node:
    """As much of the matcher as its services ask for."""

    state = 'active'

    def __init__(self, folder: Path) -> None:
        self.services: dict = {}
        self.changes = Lock()
        self.camera = SimpleNamespace(frames=self, topic='/image')
        options = SimpleNamespace(rotation=90)
        values = {'reference_folders': [str(folder)]}
        self.live = SimpleNamespace(values=values, options=options, fewest_keypoints=20)
        self.configured = SimpleNamespace(matcher=Networks(), library=ReferenceLibrary())
        self.frame: Image | None = None

    def create_service(self, kind, name, callback, callback_group):
        self.services[name] = callback

    def get_logger(self):
        silent = lambda text: None  # noqa: E731
        return SimpleNamespace(info=silent, warning=silent, error=silent)

    def newest(self, oldest):
        return self.frame


_folder = Path(tempfile.mkdtemp(prefix='fuzz'))
(_folder / 'a.png').write_bytes(damaged_pictures()[0])
(_folder / 'b.png').write_bytes(damaged_pictures()[-4])
_node = Node(_folder)
ReferenceServices(_node)


def seeds() -> list[bytes]:
    return noises(30)


def attempt(data: bytes) -> None:
    chosen = Chosen(data)
    request = SetReference.Request(id=chosen.text(), label=chosen.text())
    request.kind = chosen.bytes(1)[0] % 5
    pictures = chosen.bytes(1)[0]
    if pictures % 4 == 1 or pictures > 250:
        request.path = str(_folder / chosen.pick(FILES)) if chosen.chance(0.8) else chosen.text()
        request.page = chosen.pick((0, 0, 1, 2**32 - 1))
        request.page_dpi = np.float32(chosen.pick((0.0, 0.0, float('nan'), 1e30)))
    if pictures % 4 == 2 or pictures > 250:
        request.use_current_frame = True
        _node.frame = raw_image(chosen) if chosen.chance() else None
    if pictures % 4 in (0, 3):
        request.image = right_image(chosen) if chosen.chance(0.8) else raw_image(chosen)
    if chosen.chance(0.2):
        request.mask = raw_image(chosen)
    if chosen.chance(0.3):
        region = request.region
        region.x_offset, region.width = chosen.integer(0, 50), chosen.integer(0, 2**32 - 1)
        region.height, region.do_rectify = chosen.integer(0, 50), chosen.chance(0.1)
    with np.errstate(over='ignore'):
        request.objects = [some_object(chosen) for _ in range(chosen.pick((0, 0, 1, 3, 101)))]
        count = chosen.pick((0, 0, 1, 5, 1001))
        request.landmark_names = [chosen.text(20) for _ in range(count)]
        request.landmark_x = array('f', [float32(chosen) for _ in range(count)])
        request.landmark_y = array('f', [float32(chosen) for _ in range(count)])
        if chosen.chance(0.01):
            request.landmark_x = array('f', bytes(4_000_000))
    request.physical_width = float(chosen.number()) if chosen.chance() else 0.0
    response = _node.services['~/set_reference'](request, SetReference.Response())
    assert not response.success
    assert response.error not in (FAULT, SetReference.Response.NO_ERROR), response.message
    assert 0 < len(response.message) < 6000


def right_image(chosen: Chosen) -> Image:
    return Image(width=30, height=20, step=90, encoding='rgb8', data=array('B', bytes(1800)))


def some_object(chosen: Chosen) -> DetectedObject:
    box = [float32(chosen) for _ in range(4)]
    return DetectedObject(label=chosen.text(20), x=box[0], y=box[1], width=box[2], height=box[3])


def float32(chosen: Chosen) -> float:
    return float(np.float32(chosen.number()))
