"""References from files: images, and pages of PDF and SVG files without their annotations."""

from dataclasses import dataclass
import math
from pathlib import Path

import numpy as np

from niom_ros.matching.images import ImageError
from niom_ros.matching.images import MAX_PIXELS
from niom_ros.matching.images import read_image
from niom_ros.matching.images import reason
from niom_ros.matching.images import regular_file
from niom_ros.pages.annotations import Annotations
from niom_ros.pages.annotations import find_annotations
from niom_ros.pages.pdf import pdf_page
from niom_ros.pages.pdf import PdfPage
from niom_ros.pages.svg import svg_page
from niom_ros.pages.svg import SvgPage

LONGER_SIDE = 1600  # pixels of a page whose resolution nobody chose
LARGEST_PDF = 200_000_000  # bytes
LARGEST_SVG = 30_000_000
BEGINNING = 4096  # bytes that tell what a file is


@dataclass(frozen=True)
class ReferencePicture:
    """A picture from a file, and what the user should know about it."""

    image: np.ndarray  # RGB
    notes: tuple[str, ...] = ()


def read_reference_picture(
    path: str | Path, page: int = 0, page_dpi: float = 0.0
) -> ReferencePicture:
    """Read an image, or draw a page of a PDF or SVG file without text, dimensions and frame.

    With page_dpi 0 the longer side of a page becomes LONGER_SIDE pixels.
    """
    file = regular_file(path)
    problem = problem_with_dpi(page_dpi) or ('page is negative' if page < 0 else '')
    if problem:
        raise ImageError(problem)
    try:
        kind = kind_of(file)
        if kind == 'image':
            if page_dpi:
                raise ImageError(
                    'an image has its pixels already, page_dpi is for PDF and SVG: leave it 0'
                )
        elif kind == 'pdf':
            check_bytes(file, LARGEST_PDF)
            with pdf_page(file, page) as opened:
                return drawn(opened, page, page_dpi)
        else:
            check_bytes(file, LARGEST_SVG)
            if page:
                raise ImageError(f'there is no page {page}: an SVG file has one page, 0')
            return drawn(svg_page(file.read_bytes()), page, page_dpi)
    except ImageError as error:
        raise ImageError(f'{file}: {error}') from None
    except PermissionError:
        raise ImageError(f'{file} may not be read by this user: change its permissions') from None
    except OSError as error:
        raise ImageError(f'{file} cannot be read: {reason(error)}') from None
    return ReferencePicture(read_image(file, page))


def problem_with_dpi(page_dpi: float) -> str:
    """Say what is wrong with a resolution; '' if nothing is."""
    if math.isfinite(page_dpi) and page_dpi >= 0:
        return ''
    return f'page_dpi is {page_dpi:g}: give pixels per inch, or 0 to have it chosen'


def kind_of(file: Path) -> str:
    """Tell from its content whether a file is a 'pdf', an 'svg' or else an 'image'."""
    with file.open('rb') as stream:
        beginning = stream.read(BEGINNING)
    if b'%PDF-' in beginning[:1024]:
        return 'pdf'
    # Without zeros, UTF-16 reads like ASCII here.
    text = beginning.replace(b'\0', b'').lstrip(b'\xef\xbb\xbf\xff\xfe \t\r\n')
    if text.startswith(b'<') and b'<!doctype html' not in text.lower():
        return 'svg'
    if beginning.startswith(b'\x1f\x8b') and file.suffix.lower() in ('.svgz', '.svg'):
        raise ImageError('it is compressed: unpack it, for example with gunzip')
    if file.suffix.lower() == '.svg' and b'<svg' in text:
        return 'svg'
    return 'image'


def check_bytes(file: Path, most: int) -> None:
    """Refuse a file that is too large to be a page."""
    size = file.stat().st_size
    if size > most:
        raise ImageError(
            f'it has {size / 1e6:.0f} MB, more than the limit of {most // 10**6} MB: '
            'export only the page that is needed'
        )


def drawn(opened: PdfPage | SvgPage, page: int, page_dpi: float) -> ReferencePicture:
    """Draw a page without its annotations, and say what these were."""
    size = pixels(opened.inches, page_dpi)
    if not opened.pieces:
        raise ImageError(f'page {page} is empty: name a page on which something is drawn')
    longer = max(opened.inches)
    annotations = find_annotations(
        opened.pieces, (opened.inches[0] / longer, opened.inches[1] / longer)
    )
    image = opened.picture_without(annotations.pieces, size)
    return ReferencePicture(image, notes_on(annotations, page))


def pixels(inches: tuple[float, float], page_dpi: float) -> tuple[int, int]:
    """Return width and height of the picture, if they are within the limit."""
    dpi = page_dpi or LONGER_SIDE / max(inches)
    width, height = (max(1, round(length * dpi)) for length in inches)
    if width * height > MAX_PIXELS:
        most = math.sqrt(MAX_PIXELS / (inches[0] * inches[1]))
        raise ImageError(
            f'at {dpi:g} dpi the page has {width} x {height} pixels, more than the limit of '
            f'{MAX_PIXELS // 10**6} million: use at most {math.floor(most)} dpi, or 0'
        )
    return width, height


def notes_on(annotations: Annotations, page: int) -> tuple[str, ...]:
    """Return what to tell about a page."""
    told = [f'page {page} {advice}' for advice in annotations.advice]
    if annotations.left_out:
        told.insert(0, f'left out of page {page}: {annotations.left_out}')
    return tuple(told)
