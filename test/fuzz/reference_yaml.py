"""YAML files that describe references, and folders with them."""

from itertools import pairwise
from pathlib import Path
import tempfile

from pictures import damaged_pictures

from niom_ros.core.errors import UserError
from niom_ros.references.folder import described_by, read_reference, ReferenceFolder

INPUTS = 20_000
FULL = b"""
id: cover
image: a.png
label: gear box
kind: drawing
page: 0
page_dpi: 0
mask: a.png
region: [0, 4, 6, 3]
landmarks: {screw 1: [1.5, 8], 2: [4, 9.5]}
objects:
  - {label: lid, box: [1, 6, 9, 9]}
physical_width: 0.21
"""
_folder = Path(tempfile.mkdtemp(prefix='fuzz'))
(_folder / 'a.png').write_bytes(damaged_pictures()[0])


def seeds() -> list[bytes]:
    names = 'abcdefghijklmnopqrstuvwxyz'
    doubled = (f'{b}: &{b} [*{a},*{a}]\n' for a, b in pairwise(names))
    bomb = 'a: &a [x]\n' + ''.join(doubled)
    return [
        FULL,
        b'image: a.png\nlandmarks: {a: [.nan, .inf]}',
        b'image: a.png\nregion: [1e400, 0x10, 1_0, 0o7]\nlabel: 2001-01-01 01:01:01',
        b'image: a.png\nphysical_width: !!python/object/apply:os.system ["true"]',
        b'image: ../../../dev/zero',
        b'[' * 1500,
        b'{a: ' * 1500,
        bomb.encode(),
        b'image: a.png\nlabel: ' + b'x' * 3_000,
        b'image: a.png\n? [a, b]\n: c\n<<: {label: x}',
    ]


def attempt(data: bytes) -> None:
    file = _folder / 'fuzzed.yaml'
    file.write_bytes(data)
    try:
        ReferenceFolder(_folder).files()
        given = read_reference(file)
    except UserError as error:
        assert str(error)
        return
    described_by(given)
