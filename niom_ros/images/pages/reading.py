"""Read references from files: images, and PDF or SVG pages without their annotations."""

from dataclasses import dataclass
import json
import math
import os
from pathlib import Path
import subprocess
import sys
from typing import BinaryIO

import numpy as np

from niom_ros.core.faults import reason
from niom_ros.images.decoding import ImageError, read_image_from
from niom_ros.images.safe_open import AllowedFolders, FileForbidden, FileRefused, opened_file

DEADLINE = 30.0  # seconds for a page
READER = ('-m', 'niom_ros.images.pages.child')
BEGINNING = 4096  # bytes that show what kind of file it is


@dataclass(frozen=True)
class ReadPicture:
    """A picture from a file, and what the user should know about it."""

    image: np.ndarray  # RGB
    notes: tuple[str, ...] = ()


def read_reference_picture(
    path: str | Path,
    page: int = 0,
    page_dpi: float = 0.0,
    allowed: AllowedFolders | None = None,
) -> ReadPicture:
    """Read an image, or draw a page of a PDF or SVG file without text, dimensions and frame.

    With page_dpi 0 the longer side of a page becomes 1600 pixels. If folders are given, a file
    outside of them raises FileForbidden.
    """
    problem = problem_with_dpi(page_dpi) or ('page is negative' if page < 0 else '')
    if problem:
        raise ImageError(problem)
    try:
        with opened_file(path, allowed) as stream:
            kind = kind_of(stream, Path(path).suffix.lower())
            if kind != 'image':
                return read_apart(stream, kind, page, page_dpi)
            if page_dpi:
                raise ImageError(
                    'an image already has pixels, page_dpi is for PDF and SVG: leave it at 0'
                )
            return ReadPicture(read_image_from(stream, page))
    except FileForbidden:
        raise
    except FileRefused as error:
        raise ImageError(str(error)) from None
    except ImageError as error:
        raise ImageError(f'{path}: {error}') from None
    except OSError as error:
        raise ImageError(f'{path} cannot be read: {reason(error)}') from None


def read_apart(stream: BinaryIO, kind: str, page: int, page_dpi: float) -> ReadPicture:
    """Read a page in another process, which may hang or crash without harm to this one."""
    command = [sys.executable, *READER, kind, str(page), str(page_dpi)]
    try:
        done = subprocess.run(
            command,
            cwd='/',  # not the current folder: Python would import modules from it
            env=environment_of_reader(),
            stdin=stream,  # the open file: its name may point elsewhere by now
            capture_output=True,
            timeout=DEADLINE,
        )
    except subprocess.TimeoutExpired:
        raise ImageError(
            'it takes too long to draw: simplify it, or give a picture of it'
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors='replace').split('\n')
        why = next((f' ({line.strip()[:200]})' for line in reversed(said) if line.strip()), '')
        raise ImageError(
            f'reading this file crashed the reader: give a picture of it instead{why}'
        )
    header, _, pixels = done.stdout.partition(b'\n')
    answer = json.loads(header)
    if 'error' in answer:
        raise ImageError(answer['error'])
    image = np.frombuffer(pixels, np.uint8).reshape(answer['shape'])
    return ReadPicture(image.copy(), tuple(answer['notes']))


def environment_of_reader() -> dict[str, str]:
    """Return the environment in which the other process finds the same modules as this one."""
    folders = [str(Path(folder).absolute()) for folder in sys.path]
    return {
        **os.environ,
        'PYTHONPATH': os.pathsep.join(folders),
        # It computes little, and each thread would count towards its memory limit.
        'OMP_NUM_THREADS': '1',
        'OPENBLAS_NUM_THREADS': '1',
    }


def problem_with_dpi(page_dpi: float) -> str:
    """Say what is wrong with a resolution; '' if nothing is."""
    if math.isfinite(page_dpi) and page_dpi >= 0:
        return ''
    return f'page_dpi is {page_dpi:g}: give pixels per inch, or 0 for the default'


def kind_of(stream: BinaryIO, suffix: str) -> str:
    """Return from its content whether a file is a 'pdf', an 'svg' or else an 'image'."""
    beginning = stream.read(BEGINNING)
    stream.seek(0)
    if b'%PDF-' in beginning[:1024]:
        return 'pdf'
    # Without its zero bytes, UTF-16 looks like ASCII here.
    text = beginning.replace(b'\0', b'').lstrip(b'\xef\xbb\xbf\xff\xfe \t\r\n')
    if text.startswith(b'<') and b'<!doctype html' not in text.lower():
        return 'svg'
    if beginning.startswith(b'\x1f\x8b') and suffix in ('.svgz', '.svg'):
        raise ImageError('it is compressed: unpack it, for example with gunzip')
    if suffix == '.svg' and b'<svg' in text:
        return 'svg'
    return 'image'
