"""Annotations of scenes: which objects a photo shows, and where."""

from pathlib import Path
from xml.etree import ElementTree

from niom_ros.core.errors import UserError
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.scene import MarkedObject

VOC = 'scenes/voc100'
CARTUCHO = 'scenes/cartucho85'

# Labels of Pascal VOC that differ from those of COCO, which the detectors use.
COCO_NAMES = {
    'aeroplane': 'airplane',
    'diningtable': 'dining table',
    'motorbike': 'motorcycle',
    'pottedplant': 'potted plant',
    'sofa': 'couch',
    'tvmonitor': 'tv',
}


def read_voc(path: Path) -> tuple[MarkedObject, ...]:
    """Return the objects of an XML file of Pascal VOC, with COCO's names."""
    try:
        return tuple(
            MarkedObject(coco_name(text_of(entry, 'name')), area_of(entry))
            for entry in ElementTree.parse(path).getroot().iter('object')
        )
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise UserError(
            f'{path} is not an XML file of Pascal VOC ({error}): fetch it again'
        ) from None


def text_of(entry: ElementTree.Element, tag: str) -> str:
    """Return the text of an element."""
    text = entry.findtext(tag)
    if text is None:
        raise ValueError(f'an object has no {tag}')
    return text.strip()


def area_of(entry: ElementTree.Element) -> Area:
    """Return the box of an object; VOC counts pixels from 1 and names the outermost ones."""
    left, top, right, bottom = (
        float(text_of(entry, f'bndbox/{side}')) - 1 for side in ('xmin', 'ymin', 'xmax', 'ymax')
    )
    return Area(left - 0.5, top - 0.5, right + 0.5, bottom + 0.5)


def read_labels(path: Path) -> frozenset[str]:
    """Return the names in a text file with a line 'name left top right bottom' for each object."""
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f'{path} is not a list of objects ({error}): fetch it again') from None
    return frozenset(coco_name(line.split()[0]) for line in lines if line.split())


def coco_name(label: str) -> str:
    """Return what COCO calls an object of Pascal VOC."""
    return COCO_NAMES.get(label, label)


def labels_of(objects: tuple[MarkedObject, ...]) -> frozenset[str]:
    """Return the names of objects, each once."""
    return frozenset(marked.label for marked in objects)
