"""References on disk: a folder with a readable YAML file for each, and their pictures.

    cup.yaml                  the description of the reference 'cup'
    pictures/cup-1f0c....png  its picture, named by its content
    selected                  the name of the reference that was selected last

Users may also put plain images into the folder: each is a reference named after its file, unless a
YAML file has that name or describes it. A file is written under a temporary name and then renamed,
the YAML file last, so a reader finds a reference either as it was or as it is now, even after a
power cut.
"""

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
import fcntl
import hashlib
import math
import os
from pathlib import Path
import re
import stat
from typing import Any, IO, TypeAlias
from urllib.parse import quote

import cv2
import numpy as np
import yaml

from niom_ros.core.boxes import Box
from niom_ros.core.durable_files import remove_unfinished, write_atomically
from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason
from niom_ros.core.settings import WANTED, Wanted
from niom_ros.images.decoding import read_image
from niom_ros.images.pages.reading import read_reference_picture
from niom_ros.images.safe_open import FileRefused, opened_file
from niom_ros.matching.reference import (
    BadReference,
    check_count,
    Landmark,
    marked_object,
    MAX_OBJECTS,
    Reference,
)
from niom_ros.references.plain_yaml import plain_yaml
from niom_ros.semantics.scene import MarkedObject

PICTURES = 'pictures'
SELECTED = 'selected'
IMAGE_SUFFIXES = ('.png', '.jpg', '.jpeg', '.webp', '.tif', '.tiff', '.bmp', '.pdf', '.svg')
YAML_SUFFIXES = ('.yaml', '.yml')
PICTURE_FIELDS = ('image', 'mask')
LOCK = '.lock'
MAX_SELECTED_BYTES = 2000  # bytes; a name has at most 256 characters
MAX_YAML_BYTES = 2_000_000  # bytes; the longest valid description takes 1.2 million
MAX_YAML_DEPTH = 20  # nested brackets; a description has three
KINDS = {'auto': None, 'photo': False, 'drawing': True}
FIELDS = (
    'id', 'label', 'kind', 'wanted', 'image', 'page', 'page_dpi', 'mask', 'region', 'objects',
    'landmarks', 'physical_width',
)  # fmt: skip


FileState: TypeAlias = tuple[int, ...]


class FolderError(UserError):
    """The folder of references cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Entry:
    """A reference of a folder."""

    name: str
    file: Path  # a YAML file or a plain image
    pictures: frozenset[Path] = frozenset()  # that a YAML file names


class ReferenceFolder:
    """A folder from which references are read, and in which they are kept."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()
        self._lock: IO[bytes] | None = None
        # What the YAML files contain, and their state when they were read.
        self._known: dict[Path, tuple[FileState, Entry]] = {}

    def claim(self) -> None:
        """Lock the folder for writing, creating it if it is missing."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = opened_lock(self.path / LOCK)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in (self.path, self.path / PICTURES):
                remove_unfinished(folder)
        except BlockingIOError:
            raise FolderError(
                f'another node keeps its references in {self.path}: give each its own folder'
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None

    def release(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def files(self) -> list[tuple[str, Path]]:
        """Return name and file of every reference: YAML files, then images that none names."""
        return [(entry.name, entry.file) for entry in self._entries()]

    def _entries(self) -> list[Entry]:
        """Return all references; only new or changed files are read."""
        try:
            files = sorted(self.path.iterdir())
        except OSError as error:
            raise FolderError(
                f'the reference_folder {self.path} cannot be read ({reason(error)}): '
                'name a folder that exists'
            ) from None
        described_in = [file for file in files if file.suffix in YAML_SUFFIXES]
        self._known = {file: self._known[file] for file in described_in if file in self._known}
        entries = [self._entry_in(file) for file in described_in]
        taken = {entry.name for entry in entries}
        described = {picture for entry in entries for picture in entry.pictures}
        for file in files:
            if is_image(file) and file not in described and file.stem not in taken:
                entries.append(Entry(file.stem, file))
        return entries

    def _entry_in(self, file: Path) -> Entry:
        """Return the reference of a YAML file; if that cannot be read, only its name."""
        try:
            state = state_of(file)  # before reading: a file that changes meanwhile is read again
            known = self._known.get(file)
            if known is None or known[0] != state:
                known = self._known[file] = state, read_entry(file)
            return known[1]
        except (OSError, UserError):  # not remembered: it may be readable next time
            return Entry(file.stem, file)

    def selected(self) -> str:
        """Return the name of the reference that was selected last, '' if unknown."""
        try:
            with opened_file(self.path / SELECTED, most=MAX_SELECTED_BYTES) as stream:
                return stream.read().decode().rstrip('\n')
        except (FileRefused, OSError, ValueError):
            return ''

    def write(self, given: Reference) -> Path:
        """Keep a reference, replacing an earlier one of the same name, and return its file."""
        pictures = self.path / PICTURES
        try:
            pictures.mkdir(parents=True, exist_ok=True)
            entries = self._entries()
            # A file that a user wrote keeps its name.
            former = entry_of(entries, given.id)
            if former is None or former.file.suffix not in YAML_SUFFIXES:
                former = Entry(given.id, self.path / f'{quoted(given.id)}.yaml')
            earlier = pictures_of(pictures, given.id)
            try:
                described = self._write_described(given, former.file)
            except (OSError, FolderError):
                # The file may still be in place, if only syncing its folder failed.
                named = self._entry_in(former.file).pictures
                remove_quietly(pictures_of(pictures, given.id) - earlier - named)
                raise
        except OSError as error:
            raise self._unwritable(error) from None
        written = {self.path / described[field] for field in PICTURE_FIELDS if field in described}
        outdated = former.pictures | pictures_of(pictures, given.id)
        remove_quietly(self._only_of(former, outdated, entries) - written)
        return former.file

    def _write_described(self, given: Reference, file: Path) -> dict[str, Any]:
        """Write the pictures of a reference, then the file that names them; return its content."""
        pictures, described = self.path / PICTURES, described_by(given)
        described['image'] = f'{PICTURES}/{write_picture(pictures, given.id, given.image)}'
        if given.mask is not None:
            described['mask'] = f'{PICTURES}/{write_picture(pictures, given.id, given.mask)}'
        content = yaml.safe_dump(described, sort_keys=False, allow_unicode=True).encode()
        if len(content) > MAX_YAML_BYTES:
            raise FolderError(
                f"'{given.id}' cannot be kept: its description has more than {MAX_YAML_BYTES} "
                'bytes, and would not be read again: use shorter names'
            )
        write_atomically(file, content)
        return described

    def write_selected(self, name: str) -> None:
        """Remember which reference is selected."""
        try:
            write_atomically(self.path / SELECTED, name.encode())
        except OSError as error:
            raise self._unwritable(error) from None

    def remove(self, name: str) -> None:
        """Remove a reference, and its pictures if they lie here and no other one uses them."""
        entries = self._entries()
        removed = entry_of(entries, name)
        if removed is None:
            return
        try:
            # Without its YAML file, an image would become a reference again.
            images = {file for file in self.path.iterdir() if is_image(file) and file.stem == name}
            named = removed.pictures | images | pictures_of(self.path / PICTURES, name)
            pictures = self._only_of(removed, named, entries)
            beside = {picture for picture in pictures if picture.parent == self.path}
            # The YAML file first: a kill in between leaves no reference without its picture.
            for file in (*(beside - removed.pictures), removed.file, *(beside & removed.pictures)):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise FolderError(
                f"cannot remove '{name}' from {self.path} ({reason(error)}): change permissions"
            ) from None
        remove_quietly(pictures)

    def _only_of(self, entry: Entry, pictures: Set[Path], entries: Iterable[Entry]) -> set[Path]:
        """Return the pictures that lie here and that no other reference names."""
        others = {p for other in entries if other.file != entry.file for p in other.pictures}
        folder = self.path.resolve()
        return {p for p in pictures - others if p.resolve().is_relative_to(folder)}

    def _unwritable(self, error: OSError) -> FolderError:
        return FolderError(
            f'cannot write to {self.path} ({reason(error)}): '
            'free space, change permissions, or set keep_references to false'
        )


def opened_lock(file: Path) -> IO[bytes]:
    """Open a lock file, without following links, and only if it is a regular file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.fdopen(os.open(file, flags, 0o644), 'r+b', buffering=0)
    if not stat.S_ISREG(os.fstat(lock.fileno()).st_mode):
        lock.close()
        raise OSError(f'{file.name} is not a regular file')
    return lock


def read_reference(path: str | Path, more: Mapping[str, Any] | None = None) -> Reference:
    """Read a reference from a YAML file, or from an image, which is then named after its file.

    `more` are fields as in a YAML file, which replace its own; files are named from there.
    """
    file = Path(path).expanduser()
    described = read_description(file) if file.suffix in YAML_SUFFIXES else {'image': file.name}
    described = {**described, **(more or {})}
    picture = read_reference_picture(
        beside(file, described.get('image')),
        page_in(described),
        number(described.get('page_dpi', 0.0), 'page_dpi'),
    )
    image = picture.image
    mask = described.get('mask')
    try:
        return Reference(
            image,
            id=text(described, 'id') or file.stem,
            label=text(described, 'label'),
            drawing=kind_in(described),
            wanted=wanted_in(described),
            region=region_in(described),
            mask=None if mask is None else read_image(beside(file, mask))[:, :, 0],
            objects=objects_in(described, (image.shape[1], image.shape[0])),
            landmarks=landmarks_in(described),
            physical_width=number(described.get('physical_width', 0.0), 'physical_width'),
            notes=picture.notes,
        )
    except UserError as error:
        raise type(error)(f'{file}: {error}') from None


def read_description(file: Path) -> Mapping[str, Any]:
    """Return the content of a YAML file that describes a reference."""
    try:
        with opened_file(file) as stream:
            content = stream.read(MAX_YAML_BYTES + 1)
        if len(content) > MAX_YAML_BYTES:
            raise BadReference(
                f'{file} has more than {MAX_YAML_BYTES} bytes: this is not a reference description'
            )
        check_nesting(content, file)
        described = plain_yaml(content)
    except FileRefused as error:
        raise BadReference(str(error)) from None
    except UserError:
        raise
    except Exception as error:  # PyYAML raises anything from IndexError to RecursionError
        raise BadReference(f'{file} is not valid YAML: {reason(error)}') from None
    if not isinstance(described, dict):
        raise BadReference(
            f'{file} does not describe a reference: it needs at least `image: FILE`'
        )
    unknown = [str(key) for key in described if key not in FIELDS]
    if unknown:
        raise BadReference(
            f'{file} has the unknown field {unknown[0][:40]}: use {", ".join(FIELDS)}'
        )
    return described


def check_nesting(content: bytes, file: Path) -> None:
    """Refuse deeply nested brackets: PyYAML visits all open ones at each step."""
    depth = 0
    for bracket in re.findall(rb'[][{}]', content):
        depth = depth + 1 if bracket in b'[{' else max(0, depth - 1)
        if depth > MAX_YAML_DEPTH:
            raise BadReference(
                f'{file} has more than {MAX_YAML_DEPTH} nested brackets: '
                'this is not a reference description'
            )


def described_by(given: Reference) -> dict[str, Any]:
    """Return the description of a reference, as its YAML file has it."""
    described: dict[str, Any] = {'id': given.id, 'image': ''}
    if given.label:
        described['label'] = given.label
    if given.drawing is not None:
        described['kind'] = 'drawing' if given.drawing else 'photo'
    if given.wanted is not None:
        described['wanted'] = given.wanted
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
    """Return whether it is a drawing; None: detect it."""
    kind = text(described, 'kind') or 'auto'
    if kind not in KINDS:
        raise BadReference(f"kind is '{kind[:40]}': use one of {', '.join(KINDS)}")
    return KINDS[kind]


def wanted_in(described: Mapping[str, Any]) -> Wanted | None:
    """Return what counts as found; None: what the parameter says."""
    wanted = text(described, 'wanted')
    if not wanted:
        return None
    for choice in WANTED:
        if wanted == choice:
            return choice
    raise BadReference(f"wanted is '{wanted[:40]}': use one of {', '.join(WANTED)}")


def page_in(described: Mapping[str, Any]) -> int:
    """Return the number of the page."""
    page = number(described.get('page', 0.0), 'page')
    if page < 0 or page != int(page):
        raise BadReference(f'page is {page:g}: pages are counted from 0')
    return int(page)


def region_in(described: Mapping[str, Any]) -> Box | None:
    """Return the region to look for."""
    if described.get('region') is None:
        return None
    return Box(*map(int, numbers(described['region'], 4, 'region', '[x, y, width, height]')))


def objects_in(described: Mapping[str, Any], size: tuple[int, int]) -> tuple[MarkedObject, ...]:
    """Return the marked objects."""
    objects = described.get('objects') or []
    if not isinstance(objects, list) or not all(isinstance(entry, dict) for entry in objects):
        raise BadReference('objects is not a list of {label: TEXT, box: [x, y, width, height]}')
    check_count('objects', objects, MAX_OBJECTS)
    found = []
    for entry in objects:
        x, y, width, height = numbers(entry.get('box'), 4, 'box', '[x, y, width, height]')
        found.append(marked_object(text(entry, 'label'), x, y, width, height, size))
    return tuple(found)


def landmarks_in(described: Mapping[str, Any]) -> tuple[Landmark, ...]:
    """Return the named points."""
    landmarks = described.get('landmarks') or {}
    if not isinstance(landmarks, dict) or not all(isinstance(n, str) for n in landmarks):
        raise BadReference('landmarks is not a list of lines like `NAME: [x, y]`')
    return tuple(
        Landmark(name, *numbers(place, 2, f"landmark '{name}'", '[x, y]'))
        for name, place in landmarks.items()
    )


def numbers(given: Any, count: int, what: str, form: str) -> list[float]:
    """Return a list of numbers of a known length."""
    if not isinstance(given, list) or len(given) != count:
        raise BadReference(f'the {what} is not {form}')
    return [number(value, what) for value in given]


def number(given: Any, what: str) -> float:
    """Return a coordinate or a length as a number."""
    try:
        value = float(given) if isinstance(given, str | float) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        shown = str(given)[:40] if isinstance(given, str | float) else type(given).__name__
        raise BadReference(f"the {what} has '{shown}' where a number belongs")
    return value


def text(described: Mapping[str, Any], field: str) -> str:
    """Return a field as text."""
    value = described.get(field)
    if value is None:
        return ''
    if not isinstance(value, str):
        raise BadReference(f'{field} is a {type(value).__name__}: write a text')
    return value


def beside(file: Path, name: Any) -> Path:
    """Return the file that a YAML file names, relative to its folder."""
    if not isinstance(name, str) or not name:
        raise BadReference(f'{file} does not name an image: write `image: FILE`')
    return file.parent / name


def state_of(file: Path) -> FileState:
    """Return numbers that change whenever the content of a file does."""
    state = file.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def read_entry(file: Path) -> Entry:
    """Read which reference a YAML file describes, and its pictures."""
    described = read_description(file)
    name = described.get('id')
    name = name if isinstance(name, str) else ''
    pictures = (described.get(field) for field in PICTURE_FIELDS)
    named = (picture for picture in pictures if isinstance(picture, str) and picture)
    return Entry(name or file.stem, file, frozenset(file.parent / picture for picture in named))


def entry_of(entries: Iterable[Entry], name: str) -> Entry | None:
    """Return the reference of a name, if there is one."""
    return next((entry for entry in entries if entry.name == name), None)


def is_image(file: Path) -> bool:
    """Return whether a file may be a plain image."""
    return file.suffix.lower() in IMAGE_SUFFIXES


def quoted(name: str) -> str:
    """Return a unique file name for a name: without folders, and not hidden."""
    # Dots too: '..' is a folder, and '.x' is hidden.
    safe = quote(name, safe=' ').replace('.', '%2E').replace('~', '%7E')
    if len(safe) <= 150:
        return safe
    return f'{safe[:100]}%{hashlib.sha256(name.encode()).hexdigest()[:16]}'


def pictures_of(folder: Path, name: str) -> set[Path]:
    """Return the pictures that were written for a reference."""
    prefix = f'{quoted(name)}-'
    if not folder.is_dir():
        return set()
    return {
        file
        for file in folder.iterdir()
        if file.suffix == '.png'
        and file.name.startswith(prefix)
        and len(file.stem) == len(prefix) + 16
    }


def write_picture(folder: Path, name: str, picture: np.ndarray) -> str:
    """Write a picture under a name with a hash of its content, and return that name."""
    bgr = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    content = cv2.imencode('.png', bgr)[1].tobytes()
    file = folder / f'{quoted(name)}-{hashlib.sha256(content).hexdigest()[:16]}.png'
    write_atomically(file, content)
    return file.name


def remove_quietly(files: Iterable[Path]) -> None:
    """Remove files that nothing refers to any more; any that remain do no harm."""
    for file in files:
        with suppress(OSError):
            file.unlink(missing_ok=True)
