"""Pages of PDF files: what is drawn on them, and rendering them with parts left out."""

from collections.abc import Iterator, Set
from contextlib import contextmanager
import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2
import pypdfium2.raw as pdfium

from niom_ros.core.faults import reason
from niom_ros.images.decoding import ImageError
from niom_ros.images.pages.line_work import Kind, MAX_STEPS, Piece, shapes_of, SubPath

POINTS_PER_INCH = 72
MAX_OBJECTS = 500_000
MAX_FORM_DEPTH = 12  # forms that contain forms
WHITE = 250  # of 255; brighter paint is paper, or hides what is below it


@dataclass(frozen=True)
class PdfPart:
    """Where a piece of a page comes from."""

    source: int  # among the objects of the page
    sub_paths: tuple[int, ...] = ()


class PdfPage:
    """An open page of a PDF file, valid inside the block that opened it."""

    def __init__(self, page: Any) -> None:
        """Read what is drawn on the page."""
        self._page = page
        width, height = page.get_size()
        if not (0 < width < 1e6 and 0 < height < 1e6):
            raise ImageError('the page has no size')
        self.inches = width / POINTS_PER_INCH, height / POINTS_PER_INCH
        self.pieces: list[Piece] = []
        self._parts: list[PdfPart] = []
        self._objects: list[tuple[Any, np.ndarray]] = []
        self._paths: dict[int, list[SubPath]] = {}
        self._seen = self._steps = 0
        longer = max(width, height)
        self._to_page = page_matrix(page) * np.array([[width], [height]]) / longer
        top = [
            pdfium.FPDFPage_GetObject(page, index)
            for index in range(pdfium.FPDFPage_CountObjects(page))
        ]
        self._read(top, np.eye(3)[:2], 0)

    def picture_without(self, pieces: Set[int], size: tuple[int, int]) -> np.ndarray:
        """Render the page as an RGB image of width x height pixels, without some pieces."""
        gone: dict[int, set[int]] = {}
        for index in pieces:
            part = self._parts[index]
            gone.setdefault(part.source, set()).update(part.sub_paths)
        for source, sub_paths in gone.items():
            self._leave_out(source, sub_paths)
        width, height = size
        bitmap = pypdfium2.PdfBitmap.new_native(width, height, pdfium.FPDFBitmap_BGR)
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, width, height)
        # Without FPDF_ANNOT, so that annotations by readers are not drawn.
        flags = pdfium.FPDF_REVERSE_BYTE_ORDER
        pdfium.FPDF_RenderPageBitmap(bitmap, self._page, 0, 0, width, height, 0, flags)
        picture = bitmap.to_numpy().copy()
        bitmap.close()
        return picture

    def _read(self, objects: list[Any], matrix: np.ndarray, depth: int) -> None:
        """Read objects; the matrix (2 x 3) maps them to the page."""
        for one in objects:
            self._seen += 1
            if self._seen > MAX_OBJECTS or self._steps > MAX_STEPS:
                raise ImageError(
                    f'the page has more than {MAX_OBJECTS} objects or {MAX_STEPS} lines: '
                    'export a simpler one'
                )
            kind = pdfium.FPDFPageObj_GetType(one)
            if kind == pdfium.FPDF_PAGEOBJ_FORM:
                if depth < MAX_FORM_DEPTH:
                    count = max(0, pdfium.FPDFFormObj_CountObjects(one))
                    inner = [pdfium.FPDFFormObj_GetObject(one, index) for index in range(count)]
                    self._read(inner, composed(matrix, matrix_of(one)), depth + 1)
                continue
            source = len(self._objects)
            self._objects.append((one, matrix))
            if kind == pdfium.FPDF_PAGEOBJ_PATH:
                self._read_path(source)
            elif kind == pdfium.FPDF_PAGEOBJ_TEXT:
                if pdfium.FPDFTextObj_GetTextRenderMode(one) != INVISIBLE_TEXT:
                    self._add(box_of(one), matrix, PdfPart(source), kind=Kind.TEXT)
            elif kind in (pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_SHADING):
                self._add(box_of(one), matrix, PdfPart(source), kind=Kind.IMAGE)

    def _add(self, points: np.ndarray, matrix: np.ndarray, part: PdfPart, **fields: Any) -> None:
        place = composed(self._to_page, matrix)
        moved = points @ place[:, :2].T + place[:, 2]
        piece = Piece(moved, **fields)
        if piece.is_near:
            self.pieces.append(piece)
            self._parts.append(part)

    def _read_path(self, source: int) -> None:
        path, matrix = self._objects[source]
        filled, stroked = draw_mode(path)
        fill = colour_of(path, pdfium.FPDFPageObj_GetFillColor)
        stroke = colour_of(path, pdfium.FPDFPageObj_GetStrokeColor)
        filled, stroked = filled and is_ink(fill), stroked and is_ink(stroke)
        if not (filled or stroked):
            return
        own = matrix_of(path)
        sub_paths = sub_paths_of(path)
        self._steps += sum(len(sub_path.steps) for sub_path in sub_paths)
        self._paths[source] = sub_paths
        lines = [sub_path.flattened(own) for sub_path in sub_paths]
        if not lines:
            return
        whole = composed(composed(self._to_page, matrix), own)
        scale = float(np.sqrt(abs(np.linalg.det(whole[:, :2]))))
        # A line of zero width is drawn as thin as possible.
        line_width = max(stroke_width(path) * scale, 1e-5) if stroked else 0.0
        dash_pattern = max(0, pdfium.FPDFPageObj_GetDashCount(path)) if stroked else 0
        groups = shapes_of(lines) if filled else [[index] for index in range(len(lines))]
        for group in groups:
            outer = max(group, key=lambda index: float(np.ptp(lines[index], axis=0).sum()))
            self._add(
                lines[outer],
                matrix,
                PdfPart(source, tuple(group)),
                closed=filled or is_closed(sub_paths[outer], lines[outer]),
                filled=filled,
                has_holes=len(group) > 1,
                line_width=line_width,
                dash_pattern=dash_pattern,
            )

    def _leave_out(self, source: int, gone: Set[int]) -> None:
        """Hide an object, and add those of its sub-paths that stay as a new one."""
        one, matrix = self._objects[source]
        pdfium.FPDFPageObj_SetIsActive(one, False)
        stays = [
            path for index, path in enumerate(self._paths.get(source, [])) if index not in gone
        ]
        if stays:
            again = path_like(one, stays, composed(matrix, matrix_of(one)))
            pdfium.FPDFPage_InsertObject(self._page, again)


INVISIBLE_TEXT = 3  # text render mode; scanners add such text to make a page searchable


@contextmanager
def pdf_page(content: bytes, number: int) -> Iterator[PdfPage]:
    """Open a page of a PDF file. PDFium is not thread-safe: use one thread at a time."""
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise ImageError(why_not_opened(error)) from None
    try:
        count = len(document)
        if number >= count:
            pages = 'page' if count == 1 else 'pages'
            raise ImageError(f'there is no page {number}: it has {count} {pages}, counted from 0')
        try:
            page = document[number]
        except pypdfium2.PdfiumError as error:
            raise ImageError(f'page {number} is damaged: {reason(error)}') from None
        yield PdfPage(page)
    finally:
        document.close()


def why_not_opened(error: Exception) -> str:
    """Say why a document cannot be opened, and what to do."""
    if getattr(error, 'err_code', None) in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
        return 'it is encrypted: save it without a password'
    return f'the PDF file is damaged, export it again ({reason(error)})'


def page_matrix(page: Any) -> np.ndarray:
    """Return the matrix (2 x 3) to the visible part of a page, as fractions from its top left."""
    finest = 1 << 20
    across, down = ctypes.c_int(), ctypes.c_int()
    places = []
    distance = 1000.0
    for x, y in ((0.0, 0.0), (distance, 0.0), (0.0, distance)):
        pdfium.FPDF_PageToDevice(page, 0, 0, finest, finest, 0, x, y, across, down)
        places.append((across.value / finest, down.value / finest))
    origin, right, up = np.array(places)
    return np.stack([(right - origin) / distance, (up - origin) / distance, origin], axis=1)


def composed(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return the matrix (2 x 3) that applies the inner one first."""
    return np.hstack([outer[:, :2] @ inner[:, :2], outer[:, :2] @ inner[:, 2:] + outer[:, 2:]])


def matrix_of(one: Any) -> np.ndarray:
    """Return the matrix of an object (2 x 3)."""
    got = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(one, got):
        return np.eye(3)[:2]
    return np.array([[got.a, got.c, got.e], [got.b, got.d, got.f]])


def box_of(one: Any) -> np.ndarray:
    """Return the corners of the bounds of an object, in the coordinates of its form."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(one, left, bottom, right, top):
        return np.zeros((0, 2))
    xs, ys = (left.value, right.value), (bottom.value, top.value)
    return np.array([(x, y) for x in xs for y in ys])


def draw_mode(path: Any) -> tuple[bool, bool]:
    """Return whether a path is filled and whether its outline is drawn."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    return fill.value != pdfium.FPDF_FILLMODE_NONE, bool(stroke.value)


def colour_of(one: Any, ask: Any) -> tuple[int, int, int, int]:
    """Return red, green, blue and opacity."""
    parts = [ctypes.c_uint() for _ in range(4)]
    if not ask(one, *parts):
        return 0, 0, 0, 255
    red, green, blue, opacity = (part.value for part in parts)
    return red, green, blue, opacity


def is_ink(colour: tuple[int, int, int, int]) -> bool:
    """Return whether a colour is visible on white paper."""
    return min(colour[:3]) < WHITE and colour[3] > 0


def stroke_width(path: Any) -> float:
    """Return the width of the outline in units of the path."""
    width = ctypes.c_float()
    pdfium.FPDFPageObj_GetStrokeWidth(path, width)
    return width.value


def sub_paths_of(path: Any) -> list[SubPath]:
    """Return the sub-paths of a path."""
    found: list[SubPath] = []
    start: tuple[float, float] | None = None
    steps: list[tuple[float, ...]] = []
    controls: list[float] = []
    x, y = ctypes.c_float(), ctypes.c_float()

    def finish(closed: bool) -> None:
        nonlocal start, steps
        if start is not None and steps:
            found.append(SubPath(start, tuple(steps), closed))
            start = start if closed else None
        steps = []

    for index in range(pdfium.FPDFPath_CountSegments(path)):
        segment = pdfium.FPDFPath_GetPathSegment(path, index)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            finish(closed=False)
            start, controls = (x.value, y.value), []
        elif kind == pdfium.FPDF_SEGMENT_BEZIERTO:
            controls += [x.value, y.value]
            if len(controls) == 6:
                steps.append(tuple(controls))
                controls = []
        else:
            steps.append((x.value, y.value))
        if pdfium.FPDFPathSegment_GetClose(segment):
            finish(closed=True)
    finish(closed=False)
    return found


def is_closed(sub_path: SubPath, points: np.ndarray) -> bool:
    """Return whether a line ends where it starts."""
    return sub_path.closed or (
        len(points) > 3 and bool(np.ptp(points[[0, -1]], axis=0).max() < 1e-3 * np.ptp(points))
    )


def path_like(model: Any, sub_paths: list[SubPath], matrix: np.ndarray) -> Any:
    """Return a new path object with these sub-paths and the style of another."""
    path = pdfium.FPDFPageObj_CreateNewPath(*sub_paths[0].start)
    for index, sub_path in enumerate(sub_paths):
        if index:
            pdfium.FPDFPath_MoveTo(path, *sub_path.start)
        for step in sub_path.steps:
            draw = pdfium.FPDFPath_LineTo if len(step) == 2 else pdfium.FPDFPath_BezierTo
            draw(path, *step)
        if sub_path.closed:
            pdfium.FPDFPath_Close(path)
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(model, fill, stroke)
    pdfium.FPDFPath_SetDrawMode(path, fill, stroke)
    fill_colour = colour_of(model, pdfium.FPDFPageObj_GetFillColor)
    pdfium.FPDFPageObj_SetFillColor(path, *fill_colour)
    stroke_colour = colour_of(model, pdfium.FPDFPageObj_GetStrokeColor)
    pdfium.FPDFPageObj_SetStrokeColor(path, *stroke_colour)
    pdfium.FPDFPageObj_SetStrokeWidth(path, stroke_width(model))
    pdfium.FPDFPageObj_SetLineCap(path, pdfium.FPDFPageObj_GetLineCap(model))
    pdfium.FPDFPageObj_SetLineJoin(path, pdfium.FPDFPageObj_GetLineJoin(model))
    count = pdfium.FPDFPageObj_GetDashCount(model)
    if count > 0:
        dashes, phase = (ctypes.c_float * count)(), ctypes.c_float()
        pdfium.FPDFPageObj_GetDashArray(model, dashes, count)
        pdfium.FPDFPageObj_GetDashPhase(model, phase)
        pdfium.FPDFPageObj_SetDashArray(path, dashes, count, phase)
    (a, c, e), (b, d, f) = matrix
    pdfium.FPDFPageObj_SetMatrix(path, pdfium.FS_MATRIX(a, b, c, d, e, f))
    return path
