"""Find what on a page describes the object: texts, dimensions, frame and title block."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from niom_ros.images.pages.arrows import DimensionParameters, find_dimensions
from niom_ros.images.pages.centre_lines import CentreLineParameters, find_centre_lines
from niom_ros.images.pages.line_work import Kind, Piece
from niom_ros.images.pages.sheet import find_sheet, SheetParameters
from niom_ros.images.pages.texts import DrawnTextParameters, find_drawn_texts


@dataclass(frozen=True, kw_only=True)
class AnnotationParameters:
    """How annotations are distinguished from the object."""

    max_pieces: int = 20_000  # on a page with more, only texts are left out
    scan: float = 0.5  # of the page: an image that covers more is a scan of it
    min_extent: float = 0.002  # of the longer side: a smaller piece is a speck
    dimensions: DimensionParameters = field(default_factory=DimensionParameters)
    texts: DrawnTextParameters = field(default_factory=DrawnTextParameters)
    centre_lines: CentreLineParameters = field(default_factory=CentreLineParameters)
    sheet: SheetParameters = field(default_factory=SheetParameters)


DEFAULTS = AnnotationParameters()


@dataclass(frozen=True)
class Annotations:
    """The pieces of a page that do not show the object, and what the user should know."""

    pieces: frozenset[int]
    left_out: str  # for example '3 texts, 2 dimension lines, frame'
    advice: tuple[str, ...] = ()


def find_annotations(
    pieces: Sequence[Piece], page: tuple[float, float], parameters: AnnotationParameters = DEFAULTS
) -> Annotations:
    """Separate annotations from the object; the page's longer side is 1.

    If nothing would be left, nothing is left out.
    """
    texts = {index for index, piece in enumerate(pieces) if piece.kind is Kind.TEXT}
    advice: list[str] = []
    if covered_by_images(pieces) > parameters.scan * page[0] * page[1]:
        advice.append(
            'is a scan or a photo, in which annotations cannot be recognised: give a region or '
            'a mask'
        )
    if len(pieces) > parameters.max_pieces:
        advice.append(
            f'has {len(pieces)} lines, too many to tell dimension lines and frame from the '
            'object: give a region or a mask'
        )
        found, said = texts, counted(len(texts), 'text')
    else:
        found, said, doubts = annotations_among(pieces, texts, page, parameters)
        advice += doubts
    kept = (piece for index, piece in enumerate(pieces) if index not in found)
    if found and not any(shows_something(piece, parameters.min_extent) for piece in kept):
        advice.append(f'would be empty without {said}: they were kept')
        return Annotations(frozenset(), '', tuple(advice))
    return Annotations(frozenset(found), said, tuple(advice))


def annotations_among(
    pieces: Sequence[Piece],
    texts: set[int],
    page: tuple[float, float],
    parameters: AnnotationParameters = DEFAULTS,
) -> tuple[set[int], str, list[str]]:
    """Return which pieces are annotations, a text that lists them, and what is doubtful."""
    text_boxes = boxes_of([pieces[index].box for index in texts])
    # Texts tell leaders from edges, and arrow heads must not be mistaken for letters.
    clear = find_dimensions(pieces, text_boxes, parameters.dimensions)
    pointing = {index for dimension in clear for index in dimension.pieces}
    drawn = find_drawn_texts(pieces, texts | pointing, parameters.texts)
    lettering = {index for text in drawn for index in text.pieces}
    if drawn:
        text_boxes = np.vstack([text_boxes, boxes_of([text.box for text in drawn])])
        unlettered = [
            piece if index not in lettering else as_text(piece)
            for index, piece in enumerate(pieces)
        ]
        clear = find_dimensions(unlettered, text_boxes, parameters.dimensions)
        pointing = {index for dimension in clear for index in dimension.pieces}
    centres = find_centre_lines(pieces, texts | lettering | pointing, parameters.centre_lines)
    sheet = find_sheet(
        pieces,
        text_boxes,
        [(dimension.pieces, dimension.tips) for dimension in clear],
        page,
        parameters.sheet,
    )
    blocks = {index for block in sheet.blocks for index in block}
    said = [
        counted(len(texts) + len(drawn), 'text'),
        counted(len(clear), 'dimension line'),
        counted(len(centres), 'centre line'),
        'frame' if sheet.frame else '',
        {0: '', 1: 'title block'}.get(len(sheet.blocks), f'{len(sheet.blocks)} title blocks'),
    ]
    doubts = []
    if sheet.doubtful:
        doubts.append(
            'has a rectangle around everything that was kept: if it is a frame, give a region '
            'inside it'
        )
    central = {index for line in centres for index in line}
    found = texts | lettering | pointing | central | blocks | sheet.frame
    return found, ', '.join(filter(None, said)), doubts


def as_text(piece: Piece) -> Piece:
    """Return a piece of a drawn letter as text."""
    return Piece(piece.points, kind=Kind.TEXT)


def boxes_of(boxes: Sequence[np.ndarray]) -> np.ndarray:
    """Return boxes as an array (n x 4), even if there are none."""
    return np.array(boxes, float).reshape(-1, 4)


def counted(count: int, name: str) -> str:
    """Return '2 texts', '1 text' or ''."""
    if not count:
        return ''
    return f'{count} {name}{"" if count == 1 else "s"}'


def covered_by_images(pieces: Sequence[Piece]) -> float:
    """Return the area of the largest image."""
    areas = [float((p.box[2:] - p.box[:2]).prod()) for p in pieces if p.kind is Kind.IMAGE]
    return max(areas, default=0.0)


def shows_something(piece: Piece, min_extent: float) -> bool:
    """Return whether a piece is more than a speck."""
    return piece.kind is not Kind.TEXT and piece.extent > min_extent
