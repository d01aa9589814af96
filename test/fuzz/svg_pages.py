"""SVG files, as the process that draws pages reads them."""

from pathlib import Path
import tempfile

from niom_ros.images.decoding import ImageError
from niom_ros.images.pages.drawing import draw_page

INPUTS = 4_000
DPI = 40.0
_file = Path(tempfile.mkdtemp(prefix='fuzz')) / 'page.svg'
HEAD = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" '


def seeds() -> list[bytes]:
    page = HEAD + b'width="90" height="60">'
    uses = b''.join(
        b'<g id="g%d"><use x:href="#g%d"/><use x:href="#g%d"/></g>' % (n + 1, n, n)
        for n in range(40)
    )
    return [
        page + b'<path d="M9 9h70v9q1 2 3 4a5 5 0 0 1 9 9z" stroke="red"/></svg>',
        page + b'<style>.a{fill:none}</style><rect class="a" width="9" height="9"/>'
        b'<text x="9" y="9">12</text><circle r="5"/></svg>',
        page + b'<defs><g id="g0"><path d="M0 0h9"/></g></defs>' + uses + b'</svg>',
        page + b'<g>' * 300 + b'</g>' * 300 + b'</svg>',
        b'<!DOCTYPE s [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + page + b'&b;</svg>',
        HEAD + b'width="1e9" height="1e9"/>',
        page + b'<image x:href="file:///etc/passwd" width="9" height="9"/></svg>',
        page + b'<path d="M0 0' + b'h1' * 5000 + b'"/></svg>',
    ]


def attempt(data: bytes) -> None:
    _file.write_bytes(data)
    try:
        with _file.open('rb') as stream:
            picture = draw_page(stream, 'svg', 0, DPI)
    except ImageError as error:
        assert str(error)
        return
    assert picture.image.ndim == 3
