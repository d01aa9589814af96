"""Tables in a terminal."""

from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells in aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print('  '.join(cells).rstrip())
