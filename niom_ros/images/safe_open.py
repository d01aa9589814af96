"""Open files whose names come from others, such as clients of a service.

A path can lead anywhere: through `..` or a symbolic link out of the folder it seems to lie in, to
a device, or to a pipe that blocks its reader. And what it leads to can change between a check and
its use. So a file is first located without opening it (O_PATH), then checked, and then that very
file is opened through its descriptor; the path is never resolved a second time.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import stat
from typing import BinaryIO

from niom_ros.core.errors import UserError
from niom_ros.core.faults import reason

# 50 million pixels of 8 bytes, the largest picture that is accepted, and a little more.
MAX_FILE_BYTES = 500_000_000  # bytes


class FileRefused(UserError):
    """A file that is not opened; the message says why and what to do."""


class FileForbidden(FileRefused):
    """A file outside of the allowed folders; the message reveals nothing about it."""


@dataclass(frozen=True)
class AllowedFolders:
    """The folders in which the files that others name must lie."""

    folders: tuple[Path, ...]  # absolute; may contain symbolic links
    problem: str = ''  # which names were left out, and why

    @classmethod
    def named(cls, names: Iterable[str]) -> 'AllowedFolders':
        """Return the folders of these names, without empty ones: ROS has no empty list of strings.

        A home that is the whole disk, as is common for services and in containers, is left out
        too: to allow the whole disk, write `/`.
        """
        folders, left_out = [], []
        for name in filter(None, names):
            folder = expanded(name)
            if folder is None or (name.startswith('~') and os.path.realpath(folder) == '/'):
                left_out.append(name)
            else:
                folders.append(folder.absolute())
        problem = (
            f'{", ".join(left_out)} in reference_folders is left out, because there is no such '
            'home folder, or it is the whole disk'
        )
        return cls(tuple(folders), problem if left_out else '')

    def check_name(self, path: Path) -> None:
        """Refuse a path outside of the folders, whether such a file exists or not."""
        if not self.folders:
            why = f' ({self.problem})' if self.problem else ''
            raise FileForbidden(
                f'this node takes no files{why}: send the picture as image, '
                'or start the node with its folder in reference_folders'
            )
        if '..' in path.parts:
            raise FileForbidden("the path contains '..': write it without")
        self._check(path, [*self.folders, *self._real()], 'lies')

    def check_place(self, real: Path) -> None:
        """Refuse a file whose resolved path lies outside of the folders."""
        self._check(real, self._real(), 'leads')

    def _check(self, path: Path, folders: Iterable[Path], verb: str) -> None:
        inside = [path.relative_to(each).parts for each in folders if path.is_relative_to(each)]
        if not inside:
            shown = ', '.join(map(str, self.folders))
            raise FileForbidden(
                f'the path {verb} outside of reference_folders ({shown}): move the file there, '
                'send the picture as image, or start the node with its folder among them'
            )
        # Hidden folders hold keys, tokens and histories.
        if not any(not any(part.startswith('.') for part in parts) for parts in inside):
            raise FileForbidden(
                f'the path {verb} to something hidden (its name begins with a dot): '
                'move the file, or start the node with its folder in reference_folders'
            )

    def _real(self) -> list[Path]:
        return [Path(os.path.realpath(folder)) for folder in self.folders]


@contextmanager
def opened_file(
    name: str | Path, allowed: AllowedFolders | None = None, most: int = MAX_FILE_BYTES
) -> Iterator[BinaryIO]:
    """Open a regular file that is not too large and, if folders are given, lies in one of them."""
    path = expanded(name)
    if path is None:
        if allowed is None:
            raise FileRefused(f'cannot access {name}: there is no such home folder')
        path = Path('/', name)  # as outside of the folders: do not reveal which users exist
    try:
        path = path.absolute()
        if allowed is not None:
            allowed.check_name(path)
        located = located_file(path, allowed)
    except FileNotFoundError:
        raise FileRefused(f'there is no file {name} on this machine') from None
    except (OSError, ValueError) as error:
        raise FileRefused(f'cannot access {name}: {reason(error)}') from None
    try:
        link = Path(f'/proc/self/fd/{located}')
        if allowed is not None:
            allowed.check_place(link.readlink())
        check_kind(name, os.fstat(located), most)
        stream = link.open('rb')
    except PermissionError:
        raise FileRefused(f'{name} may not be read by this user: change its permissions') from None
    except OSError as error:
        raise FileRefused(f'{name} cannot be read: {reason(error)}') from None
    finally:
        os.close(located)
    with stream:
        yield stream


def expanded(name: str | Path) -> Path | None:
    """Return a path with `~` expanded; None: there is no such home folder."""
    try:
        return Path(name).expanduser()
    except (RuntimeError, ValueError):  # no such user, or not a valid name
        return None


def located_file(path: Path, allowed: AllowedFolders | None) -> int:
    """Return an O_PATH descriptor; say why there is none only inside the allowed folders."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if allowed is not None:
            allowed.check_place(Path(os.path.realpath(path)))
        raise


def check_kind(name: str | Path, state: os.stat_result, most: int) -> None:
    """Refuse everything but regular files up to a size."""
    if stat.S_ISDIR(state.st_mode):
        raise FileRefused(f'{name} is a folder: name an image file in it')
    if not stat.S_ISREG(state.st_mode):
        raise FileRefused(f'{name} is not a regular file')
    if state.st_size > most:
        raise FileRefused(
            f'{name} is {state.st_size / 1e6:.0f} MB, over the limit of {most // 10**6} MB: '
            'make it smaller'
        )
