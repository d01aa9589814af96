"""The process in which a page is read, so that no file can stop its parent or fill its memory.

read_apart() starts it. It reads the file from standard input, and writes a line of JSON and then
the pixels of the picture to standard output.
"""

import json
import resource
import sys

from niom_ros.core.errors import UserError
from niom_ros.core.extras import needs_extra

MAX_MEMORY = 2 * 10**9  # bytes
MAX_SECONDS = 60  # of computing, in case the parent is gone and cannot end this process


def main() -> None:
    """Draw the page that the arguments name: kind, page, page_dpi."""
    limit(resource.RLIMIT_AS, MAX_MEMORY)
    limit(resource.RLIMIT_CPU, MAX_SECONDS)
    kind, page, page_dpi = sys.argv[1:]
    try:
        with needs_extra('pages', 'a page of a PDF or SVG file'):
            from niom_ros.images.pages.drawing import draw_page
        picture = draw_page(sys.stdin.buffer, kind, int(page), float(page_dpi))
        pixels = picture.image.tobytes()
    except MemoryError:
        answer({'error': 'it takes too much memory to draw: simplify it, or give a picture of it'})
    except UserError as error:
        answer({'error': str(error)})
    else:
        answer({'shape': picture.image.shape, 'notes': picture.notes}, pixels)


def limit(what: int, most: int) -> None:
    """Lower a resource limit of this process, unless it is already lower."""
    lowest = min((value for value in resource.getrlimit(what) if value >= 0), default=most)
    resource.setrlimit(what, (min(most, lowest),) * 2)


def answer(header: dict[str, object], pixels: bytes = b'') -> None:
    """Write what the parent process waits for."""
    sys.stdout.buffer.write(json.dumps(header).encode() + b'\n')
    sys.stdout.buffer.write(pixels)


if __name__ == '__main__':
    main()
