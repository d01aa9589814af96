"""A line on the terminal that is redrawn as work proceeds."""

import sys


class ProgressLine:
    """Draws on stderr; draws nothing if stderr is a file or a pipe."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._drawn = ''

    def draw(self, text: str) -> None:
        """Replace the text by another."""
        if self._is_terminal and text != self._drawn:
            self.clear()
            self._drawn = text
            print(text, end='', file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the text, so that the next line starts in the first column."""
        if self._drawn:
            print('\r\x1b[K', end='', file=sys.stderr, flush=True)
            self._drawn = ''
