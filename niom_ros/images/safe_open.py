"""Files that somebody names, perhaps from afar: looked at before they are opened.

A name can lead anywhere: through `..` or a symbolic link out of the folder it seems to lie in, to
a device, or to a pipe that keeps its reader waiting. And what it leads to can change between a
check and its use. So a file is first only located, which opens nothing and waits for nothing; what
was located is checked; and then that very file is opened, not its name a second time.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import stat
from typing import BinaryIO

from niom_ros.core.errors import UserError

# 50 million pixels of 8 bytes, the largest picture that is taken, and some more.
LARGEST_FILE = 500_000_000  # bytes


class FileRefused(UserError):
    """A file that is not opened; the message says why and what to do."""


class FileForbidden(FileRefused):
    """A file outside of the folders that may be named; the message tells nothing about it."""


@dataclass(frozen=True)
class AllowedFolders:
    """Where the files must lie that others may name."""

    folders: tuple[Path, ...]  # absolute; may themselves be reached through links
    problem: str = ''  # with names that were left out

    @classmethod
    def named(cls, names: Iterable[str]) -> 'AllowedFolders':
        """Return the folders of these names; empty ones, of which ROS needs one, are none.

        Nor is a home that is the whole disk, as that of services and in containers often is: who
        means that can write `/`.
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
        """Refuse a name that does not lie in the folders, whether there is such a file or not."""
        if not self.folders:
            why = f' ({self.problem})' if self.problem else ''
            raise FileForbidden(
                f'this node takes no files{why}: send the picture as image, '
                'or start the node with its folder in reference_folders'
            )
        if '..' in path.parts:
            raise FileForbidden("the path has '..' in it: write it without")
        self._check(path, [*self.folders, *self._real()], 'lies')

    def check_place(self, real: Path) -> None:
        """Refuse a file that really lies elsewhere, wherever its name seemed to be."""
        self._check(real, self._real(), 'leads')

    def _check(self, path: Path, folders: Iterable[Path], verb: str) -> None:
        inside = [path.relative_to(each).parts for each in folders if path.is_relative_to(each)]
        if not inside:
            shown = ', '.join(map(str, self.folders))
            raise FileForbidden(
                f'the path {verb} outside of reference_folders ({shown}): move the file there, '
                'send the picture as image, or start the node with its folder among them'
            )
        # Keys, tokens and histories of programs lie in such folders.
        if not any(not any(part.startswith('.') for part in parts) for parts in inside):
            raise FileForbidden(
                f'the path {verb} to something hidden (its name begins with a dot): '
                'move the file, or start the node with its folder in reference_folders'
            )

    def _real(self) -> list[Path]:
        return [Path(os.path.realpath(folder)) for folder in self.folders]


@contextmanager
def opened_file(
    name: str | Path, allowed: AllowedFolders | None = None, most: int = LARGEST_FILE
) -> Iterator[BinaryIO]:
    """Open a regular file that is not too large and lies in the allowed folders, if any are."""
    path = expanded(name)
    if path is None:
        if allowed is None:
            raise FileRefused(f'cannot look at {name}: there is no such home folder')
        path = Path('/', name)  # like a home elsewhere: which users there are is not told
    try:
        path = path.absolute()
        if allowed is not None:
            allowed.check_name(path)
        located = located_file(path, allowed)
    except FileNotFoundError:
        raise FileRefused(f'there is no file {name} on this machine') from None
    except (OSError, ValueError) as error:
        raise FileRefused(f'cannot look at {name}: {reason(error)}') from None
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
    """Return a path with a home folder in place of `~`; None: nobody knows that folder."""
    try:
        return Path(name).expanduser()
    except (RuntimeError, ValueError):  # no such user, or no name of one
        return None


def located_file(path: Path, allowed: AllowedFolders | None) -> int:
    """Return a descriptor that tells where a file is; why there is none is told only inside."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if allowed is not None:
            allowed.check_place(Path(os.path.realpath(path)))
        raise


def check_kind(name: str | Path, state: os.stat_result, most: int) -> None:
    """Refuse all but regular files of a bounded size."""
    if stat.S_ISDIR(state.st_mode):
        raise FileRefused(f'{name} is a folder: name an image file in it')
    if not stat.S_ISREG(state.st_mode):
        raise FileRefused(f'{name} is not a regular file')
    if state.st_size > most:
        raise FileRefused(
            f'{name} has {state.st_size / 1e6:.0f} MB, more than the limit of '
            f'{most // 10**6} MB: make it smaller'
        )


def reason(error: Exception) -> str:
    """Return what an error says, or at least what it is."""
    text = getattr(error, 'strerror', None) or str(error) or type(error).__name__
    return ' '.join(text.split())
