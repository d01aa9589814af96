"""PDF files, each read in a process of its own, as always: PDFium alone can be kept busy for ever.

A form that contains itself twice takes it longer than anyone lives, in all the memory there is.
"""

from pathlib import Path
import tempfile
import zlib

from niom_ros.images.decoding import ImageError
from niom_ros.images.pages import reading

INPUTS = 200
DPI = 40.0
reading.DEADLINE = 3.0  # seconds: there are many
_file = Path(tempfile.mkdtemp(prefix='fuzz')) / 'page.pdf'


def seeds() -> list[bytes]:
    strokes = b'1 w 9 9 m 99 9 l 99 50 l h S 20 20 30 30 re f BT /F 9 Tf 9 60 Td (12) Tj ET'
    squeezed = zlib.compress(b'9 9 m 99 9 l S ' * 5_000)
    return [
        pdf(strokes),
        pdf(strokes + b' /X Do'),
        pdf(b'/X Do /X Do'),
        pdf(squeezed, b'/Filter /FlateDecode'),
        pdf(strokes, box=b'0 0 1e9 1e9'),
        pdf(strokes, box=b'0 0 0 0'),
        pdf(strokes).replace(b'/Kids [3 0 R]', b'/Kids [2 0 R]'),
        pdf(strokes)[:300],
    ]


def pdf(content: bytes, how: bytes = b'', box: bytes = b'0 0 120 90') -> bytes:
    """Return a PDF file with a page and a form that both draw the same."""
    resources = b'/Resources << /XObject << /X 5 0 R >> /Font << /F 6 0 R >> >>'
    stream = b'/Length %d %s >> stream\n%s\nendstream' % (len(content), how, content)
    parts = [
        b'<< /Type /Catalog /Pages 2 0 R >>',
        b'<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
        b'<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents 4 0 R %s >>' % (box, resources),
        b'<< ' + stream,
        b'<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] %s ' % resources + stream,
        b'<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ]
    objects = [b'%d 0 obj %s endobj\n' % (number, part) for number, part in enumerate(parts, 1)]
    return b'%PDF-1.4\n' + b''.join(objects) + b'trailer << /Root 1 0 R >>\n%%EOF'


def attempt(data: bytes) -> None:
    _file.write_bytes(data)
    try:
        with _file.open('rb') as stream:
            picture = reading.read_apart(stream, 'pdf', 0, DPI)
    except ImageError as error:
        assert str(error)
        return
    assert picture.image.ndim == 3
