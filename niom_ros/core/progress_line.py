"""One line on a terminal that is drawn again and again, where a person looks."""

import sys


class LiveLine:
    """Draws on stderr; nothing where that is a file or another program."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._drawn = ''

    def draw(self, text: str) -> None:
        """Show a text in place of the one before."""
        if self._live and text != self._drawn:
            self.clear()
            self._drawn = text
            print(text, end='', file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove it, so that the next line starts at the left."""
        if self._drawn:
            print('\r\x1b[K', end='', file=sys.stderr, flush=True)
            self._drawn = ''
