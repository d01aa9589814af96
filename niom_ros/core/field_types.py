"""Check the fields of a dataclass against their annotations, with errors that users can read."""

from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, Literal, Union

from niom_ros.core.errors import UserError

IN_WORDS: dict[Any, str] = {
    bool: 'True or False',
    int: 'a whole number',
    float: 'a number',
    str: 'a text',
    type(None): 'None',
}


def check_fields(instance: Any, error: type[UserError]) -> None:
    """Refuse fields of the wrong type, and turn lists into tuples, as annotated."""
    hints = hints_of(type(instance))  # type: ignore[arg-type]  # mypy: classes are hashable
    for name in (field.name for field in fields(instance)):
        value = getattr(instance, name)
        check_type(name, value, hints[name], error)
        if isinstance(value, list):
            object.__setattr__(instance, name, tuple(value))  # it is frozen


def check_type(name: str, value: object, kind: Any, error: type[UserError] = UserError) -> None:
    """Refuse a value that is not of this type."""
    if not fits(value, kind):
        raise error(f'{name} is {described(value)}: give {in_words(kind)}')


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class."""
    return get_type_hints(kind)


def fits(value: object, kind: Any) -> bool:
    """Return whether a value is of an annotated type; numbers may be NumPy's."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        if arguments[-1] is Ellipsis:
            return all(fits(each, arguments[0]) for each in value)
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, bool)
    # Literals are checked where their name is known; others, such as Any, fit everything.
    return isinstance(value, kind) if isinstance(kind, type) else True


def in_words(kind: Any) -> str:
    """Return a type as a user reads it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in IN_WORDS:
        return IN_WORDS[kind]
    if origin in (Union, UnionType):
        return ' or '.join(map(in_words, arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f'a list, each item {in_words(arguments[0])}'
        return f'{len(arguments)} values, {", ".join(map(in_words, arguments))}'
    if origin is Literal:
        return f'one of {", ".join(map(str, arguments))}'
    name = getattr(kind, '__name__', str(kind))
    if name == 'ndarray':
        return 'a NumPy array'
    return f'{"an" if name[0] in "AEIOU" else "a"} {name}'


def described(value: Any) -> str:
    """Return a value and its type in a few words."""
    if hasattr(value, 'dtype') and hasattr(value, 'shape') and value.shape:
        return f'an array of {value.dtype} with shape {value.shape}'
    text = repr(value)
    kind = type(value).__name__
    return f'{text} ({kind})' if len(text) <= 40 else f'of type {kind}'
