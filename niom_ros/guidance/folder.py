"""References on disk: a folder with one readable YAML file for each, and their pictures.

    cup.yaml                  what was said about the reference 'cup'
    pictures/cup-1f0c....png  its picture, named by its content
    selected                  the name of the one that was looked for last

People may also lay plain images into the folder: each is a reference named like its file, unless a
YAML file has that name or describes it. A file is written under another name and then renamed, the
YAML file last, so whoever reads the folder finds a reference as it was or as it is now, also after
a power cut.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import hashlib
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cv2
import numpy as np
import yaml

from niom_ros.durable_files import write_atomically
from niom_ros.errors import UserError
from niom_ros.guidance.landmarks import Landmark
from niom_ros.guidance.references import BadReference
from niom_ros.guidance.references import check_count
from niom_ros.guidance.references import GivenReference
from niom_ros.guidance.references import marked_object
from niom_ros.guidance.references import MOST_OBJECTS
from niom_ros.matching.geometry import Box
from niom_ros.matching.images import read_image
from niom_ros.matching.images import reason
from niom_ros.semantics.scene import MarkedObject

PICTURES = 'pictures'
SELECTED = 'selected'
IMAGE_SUFFIXES = ('.png', '.jpg', '.jpeg', '.webp', '.tif', '.tiff', '.bmp')
LARGEST_YAML = 1_000_000  # bytes
KINDS = {'auto': None, 'photo': False, 'drawing': True}
FIELDS = (
    'id', 'label', 'kind', 'image', 'mask', 'region', 'objects', 'landmarks', 'physical_width',
)  # fmt: skip


class FolderError(UserError):
    """The folder of references cannot be used; the message says why and what to do."""


class ReferenceFolder:
    """A folder with references, to read them from and to keep them in."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()

    def files(self, create: bool = False) -> dict[str, Path]:
        """Return the file of every reference by its name: YAML files, then plain images."""
        try:
            if create:
                self.path.mkdir(parents=True, exist_ok=True)
            entries = sorted(self.path.iterdir())
        except OSError as error:
            raise FolderError(
                f'the reference_folder {self.path} cannot be read ({reason(error)}): '
                'name a folder that exists'
            ) from None
        files: dict[str, Path] = {}
        described: set[Path] = set()  # images
        for file in entries:
            if file.suffix == '.yaml':
                name, image = name_and_image(file)
                files.setdefault(name, file)
                described.add(image)
        for file in entries:
            if file.suffix.lower() in IMAGE_SUFFIXES and file not in described:
                files.setdefault(file.stem, file)
        return files

    def selected(self) -> str:
        """Return the name of the reference that was looked for last, '' if that is not known."""
        try:
            return (self.path / SELECTED).read_text().rstrip('\n')
        except (OSError, ValueError):
            return ''

    def file_of(self, name: str) -> Path:
        """Return the YAML file of a reference, whether there is one or not."""
        return self.path / f'{quoted(name)}.yaml'

    def write(self, given: GivenReference) -> Path:
        """Keep a reference, in place of an earlier one of its name."""
        pictures = self.path / PICTURES
        try:
            pictures.mkdir(parents=True, exist_ok=True)
            described = described_by(given)
            described['image'] = f'{PICTURES}/{write_picture(pictures, given.id, given.image)}'
            if given.mask is not None:
                described['mask'] = f'{PICTURES}/{write_picture(pictures, given.id, given.mask)}'
            content = yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
            file = self.file_of(given.id)
            former = self.files().get(given.id, file)
            write_atomically(file, content.encode())
        except OSError as error:
            raise FolderError(
                f'cannot write the reference to {self.path} ({reason(error)}): '
                'free space, change permissions, or set keep_references to false'
            ) from None
        if former.suffix == '.yaml' and former != file:
            remove_quietly([former])
        remove_quietly(set(pictures_of(pictures, given.id)) - named_in(described, self.path))
        return file

    def write_selected(self, name: str) -> None:
        """Remember which reference is looked for."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path / SELECTED, name.encode())
        except OSError as error:
            raise FolderError(
                f'cannot write to {self.path} ({reason(error)}): '
                'free space, change permissions, or set keep_references to false'
            ) from None

    def remove(self, name: str) -> None:
        """Remove a reference with its pictures, as far as they lie in this folder."""
        file = self.files().get(name)
        if file is None:
            return
        image = name_and_image(file)[1] if file.suffix == '.yaml' else file
        try:
            # The YAML file first: without it the pictures mean nothing.
            file.unlink(missing_ok=True)
            if image.resolve().is_relative_to(self.path.resolve()):
                image.unlink(missing_ok=True)
        except OSError as error:
            raise FolderError(
                f"cannot remove '{name}' from {self.path} ({reason(error)}): change permissions"
            ) from None
        remove_quietly(pictures_of(self.path / PICTURES, name))


def read_reference(path: str | Path) -> GivenReference:
    """Read a reference from an image, which is then named like the file, or from a YAML file."""
    file = Path(path)
    if file.suffix != '.yaml':
        return GivenReference(read_image(file), file.stem)
    described = read_description(file)
    image = read_image(beside(file, described.get('image')))
    mask = described.get('mask')
    try:
        return GivenReference(
            image,
            id=text(described, 'id') or file.stem,
            label=text(described, 'label'),
            drawing=kind_in(described),
            region=region_in(described),
            mask=None if mask is None else read_image(beside(file, mask))[:, :, 0],
            objects=objects_in(described, (image.shape[1], image.shape[0])),
            landmarks=landmarks_in(described),
            physical_width=number(described.get('physical_width', 0.0), 'physical_width'),
        )
    except UserError as error:
        raise type(error)(f'{file}: {error}') from None


def read_description(file: Path) -> Mapping[str, Any]:
    """Return the content of a YAML file that describes a reference."""
    try:
        with file.open('rb') as stream:
            content = stream.read(LARGEST_YAML + 1)
        if len(content) > LARGEST_YAML:
            raise BadReference(f'{file} has more than {LARGEST_YAML} bytes: it is no description')
        described = yaml.safe_load(content)
    except OSError as error:
        raise BadReference(f'{file} cannot be read: {reason(error)}') from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadReference(f'{file} is not valid YAML: {reason(error)}') from None
    if not isinstance(described, dict):
        raise BadReference(f'{file} describes no reference: it needs at least `image: FILE`')
    unknown = [str(key) for key in described if key not in FIELDS]
    if unknown:
        raise BadReference(
            f'{file} has the unknown field {unknown[0][:40]}: use {", ".join(FIELDS)}'
        )
    return described


def described_by(given: GivenReference) -> dict[str, Any]:
    """Return what is said about a reference, in the form of its YAML file."""
    described: dict[str, Any] = {'id': given.id, 'image': ''}
    if given.label:
        described['label'] = given.label
    if given.drawing is not None:
        described['kind'] = 'drawing' if given.drawing else 'photo'
    if given.region is not None:
        region = given.region
        described['region'] = [region.left, region.top, region.width, region.height]
    if given.objects:
        described['objects'] = [
            {
                'label': marked.label,
                'box': [
                    marked.area.left + 0.5,
                    marked.area.top + 0.5,
                    marked.area.width,
                    marked.area.height,
                ],
            }
            for marked in given.objects
        ]
    if given.landmarks:
        described['landmarks'] = {mark.name: [mark.x, mark.y] for mark in given.landmarks}
    if given.physical_width:
        described['physical_width'] = given.physical_width
    return described


def kind_in(described: Mapping[str, Any]) -> bool | None:
    """Return whether it is a drawing; None: to be found out."""
    kind = text(described, 'kind') or 'auto'
    if kind not in KINDS:
        raise BadReference(f"kind is '{kind[:40]}': use one of {', '.join(KINDS)}")
    return KINDS[kind]


def region_in(described: Mapping[str, Any]) -> Box | None:
    """Return the part that counts."""
    if described.get('region') is None:
        return None
    return Box(*map(int, numbers(described['region'], 4, 'region', '[x, y, width, height]')))


def objects_in(described: Mapping[str, Any], size: tuple[int, int]) -> tuple[MarkedObject, ...]:
    """Return the marked objects."""
    objects = described.get('objects') or []
    if not isinstance(objects, list) or not all(isinstance(entry, dict) for entry in objects):
        raise BadReference('objects is not a list of {label: TEXT, box: [x, y, width, height]}')
    check_count('objects', objects, MOST_OBJECTS)
    found = []
    for entry in objects:
        x, y, width, height = numbers(entry.get('box'), 4, 'box', '[x, y, width, height]')
        found.append(marked_object(text(entry, 'label'), x, y, width, height, size))
    return tuple(found)


def landmarks_in(described: Mapping[str, Any]) -> tuple[Landmark, ...]:
    """Return the named points."""
    landmarks = described.get('landmarks') or {}
    if not isinstance(landmarks, dict):
        raise BadReference('landmarks is not a list of lines like `NAME: [x, y]`')
    return tuple(
        Landmark(str(name), *numbers(place, 2, f"landmark '{name}'", '[x, y]'))
        for name, place in landmarks.items()
    )


def numbers(given: Any, count: int, what: str, form: str) -> list[float]:
    """Return a list of numbers of a known length."""
    if not isinstance(given, list) or len(given) != count:
        raise BadReference(f'the {what} is not {form}')
    return [number(value, what) for value in given]


def number(given: Any, what: str) -> float:
    """Return something as a number."""
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError):
        raise BadReference(f"the {what} has '{str(given)[:40]}' where a number belongs") from None
    if not math.isfinite(value):
        raise BadReference(f'the {what} has {value}, which is not a place or a length')
    return value


def text(described: Mapping[str, Any], field: str) -> str:
    """Return a field as text; a YAML file may hold a name that looks like a number."""
    value = described.get(field)
    return '' if value is None else str(value)


def beside(file: Path, name: Any) -> Path:
    """Return the file that a YAML file names, relative to its folder."""
    if not isinstance(name, str) or not name:
        raise BadReference(f'{file} names no image: write `image: FILE`')
    return file.parent / name


def name_and_image(file: Path) -> tuple[str, Path]:
    """Return the name of the reference in a YAML file, and its picture, as far as it tells."""
    try:
        described = read_description(file)
        return text(described, 'id') or file.stem, beside(file, described.get('image'))
    except UserError:
        return file.stem, file


def named_in(described: Mapping[str, Any], folder: Path) -> set[Path]:
    """Return the pictures that a description names."""
    return {folder / described[field] for field in ('image', 'mask') if field in described}


def quoted(name: str) -> str:
    """Return a name as a file name: no folder, nothing hidden, and never another name's."""
    # Dots too: '..' would be a folder, and '.x' hidden.
    safe = quote(name, safe=' ').replace('.', '%2E').replace('~', '%7E')
    if len(safe) <= 150:
        return safe
    return f'{safe[:100]}%{hashlib.sha256(name.encode()).hexdigest()[:16]}'


def pictures_of(folder: Path, name: str) -> list[Path]:
    """Return the pictures that were written for a reference."""
    prefix = f'{quoted(name)}-'
    if not folder.is_dir():
        return []
    return [
        file
        for file in folder.iterdir()
        if file.suffix == '.png'
        and file.name.startswith(prefix)
        and len(file.stem) == len(prefix) + 16
    ]


def write_picture(folder: Path, name: str, picture: np.ndarray) -> str:
    """Write a picture under a name that tells its content, and return that name."""
    bgr = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    content = cv2.imencode('.png', bgr)[1].tobytes()
    file = folder / f'{quoted(name)}-{hashlib.sha256(content).hexdigest()[:16]}.png'
    write_atomically(file, content)
    return file.name


def remove_quietly(files: Iterable[Path]) -> None:
    """Remove files that nothing refers to any more; what stays does no harm."""
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError:
            continue
