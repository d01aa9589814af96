"""HTML and SVG from Python: what is opened is closed, and all text is escaped."""

from collections.abc import Iterable
import html

VOID = frozenset(('br', 'img', 'meta'))  # elements that have no end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Iterable[str]


def element(name: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """Return an element; plain text in it is escaped, attributes that are None are left out.

    Attributes that are words of Python end with an underscore, and hyphens become underscores:
    class_, aria_label.
    """
    inside = joined(*content)
    written = ''.join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f'<{name}{written}>')
    return Markup(f'<{name}{written}>{inside}</{name}>')


def joined(*content: Content) -> Markup:
    """Return parts one after the other, as HTML."""
    return Markup(
        ''.join(
            (part if isinstance(part, Markup) else html.escape(part))
            if isinstance(part, str)
            else joined(*part)
            for part in content
        )
    )


def value_text(value: str | float) -> str:
    """Write a value of an attribute; coordinates need no more than two digits."""
    return value if isinstance(value, str) else f'{value:.2f}'.rstrip('0').rstrip('.')
