"""Lists in messages, which may be long."""

from collections.abc import Sequence


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Return the first names in one line, and how many more there are."""
    shown = ', '.join(names[:limit])
    return f'{shown} and {len(names) - limit} more' if len(names) > limit else shown
