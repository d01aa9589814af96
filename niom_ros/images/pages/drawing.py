"""Draw PDF and SVG pages without their annotations, in this process."""

import math
import os
from typing import BinaryIO

from niom_ros.core.faults import reason
from niom_ros.images.decoding import ImageError, MAX_PIXELS
from niom_ros.images.pages.annotations import Annotations, find_annotations
from niom_ros.images.pages.pdf import pdf_page, PdfPage
from niom_ros.images.pages.reading import ReadPicture
from niom_ros.images.pages.svg import svg_page, SvgPage

LONGER_SIDE = 1600  # pixels of a page without a given resolution
MAX_PDF_BYTES = 200_000_000  # bytes
MAX_SVG_BYTES = 30_000_000


def draw_page(file: BinaryIO, kind: str, page: int, page_dpi: float) -> ReadPicture:
    """Draw a page of a 'pdf' or 'svg' file; a bad file may take any time."""
    try:
        if kind == 'pdf':
            with pdf_page(content_of(file, MAX_PDF_BYTES), page) as opened:
                return drawn(opened, page, page_dpi)
        content = content_of(file, MAX_SVG_BYTES)
        if page:
            raise ImageError(f'there is no page {page}: an SVG file has one page, 0')
        return drawn(svg_page(content), page, page_dpi)
    except OSError as error:
        raise ImageError(f'it cannot be read: {reason(error)}') from None
    except (ArithmeticError, ValueError) as error:
        raise ImageError(
            f'its numbers make no sense ({reason(error)}): give a picture of it instead'
        ) from None


def content_of(file: BinaryIO, most: int) -> bytes:
    """Return the content of a file, unless it is too large to be a page."""
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise ImageError(
            f'it is {size / 1e6:.0f} MB, over the limit of {most // 10**6} MB: '
            'export only the page that is needed'
        )
    file.seek(0)
    return file.read(most)


def drawn(opened: PdfPage | SvgPage, page: int, page_dpi: float) -> ReadPicture:
    """Draw a page without its annotations, and note what was left out."""
    size = pixels(opened.inches, page_dpi)
    if not opened.pieces:
        raise ImageError(f'page {page} is empty: name a page on which something is drawn')
    longer = max(opened.inches)
    annotations = find_annotations(
        opened.pieces, (opened.inches[0] / longer, opened.inches[1] / longer)
    )
    image = opened.picture_without(annotations.pieces, size)
    return ReadPicture(image, notes_on(annotations, page))


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
    """Return what the user should know about a page."""
    notes = [f'page {page} {advice}' for advice in annotations.advice]
    if annotations.left_out:
        notes.insert(0, f'left out of page {page}: {annotations.left_out}')
    return tuple(notes)
