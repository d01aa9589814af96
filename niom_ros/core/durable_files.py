"""Files that are written completely or not at all, even if the power fails."""

import os
from pathlib import Path

UNFINISHED = '.unfinished'  # suffix of a file that is still being written


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees it half written."""
    staged = path.with_name(f'.{path.name}{UNFINISHED}')
    try:
        staged.unlink(missing_ok=True)  # left by a writer that was killed
        with staged.open('xb') as file:  # x: never through a link
            file.write(content)
        publish(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed writer left; call it only if nobody else writes to the folder."""
    for file in folder.glob(f'.*{UNFINISHED}'):
        file.unlink(missing_ok=True)


def publish(staged: Path, path: Path) -> None:
    """Move a complete file into place, so that a power cut leaves the old one or the new one."""
    with staged.open('rb') as file:
        os.fsync(file.fileno())
    staged.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
