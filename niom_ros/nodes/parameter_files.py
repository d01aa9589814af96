"""Mistakes in parameter files that ROS is silent about: names of parameters and of nodes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
import difflib
from itertools import pairwise
from pathlib import Path
import re
from typing import Any

import yaml

OF_ROS = ('use_sim_time', 'start_type_description_service')  # parameters of every node,
OF_ROS_PREFIXES = ('qos_overrides.',)  # and groups of them
PARAMETERS = 'ros__parameters'


def mistakes_in_arguments(
    arguments: Sequence[str], node: str, known: Collection[str]
) -> Iterator[str]:
    """Return what is probably wrong in the parameters that a process was given.

    `node` is the fully qualified name, and `known` are the names of its parameters. What a section
    for all nodes contains may be meant for others.
    """
    for flag, value in pairwise(arguments):
        if flag == '--params-file':
            yield from mistakes_in_file(Path(value), node, known)
        elif flag in ('-p', '--param') and ':=' in value:
            name, colon, rest = value.partition(':=')[0].rpartition(':')
            if not colon or matches(name, node):
                yield from unknown([rest], known, 'the command line')


def mistakes_in_file(path: Path, node: str, known: Collection[str]) -> Iterator[str]:
    """Return what is probably wrong in a parameter file."""
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, yaml.YAMLError):
        return  # ROS refuses such a file itself
    sections = dict(sections_of(content)) if isinstance(content, dict) else {}
    own = {name: given for name, given in sections.items() if matches(name, node)}
    if sections and not own:
        named = ', '.join(sections)
        yield f'{path} says nothing about {node}: its sections are for {named}'
    for name, given in own.items():
        if not name.endswith('*'):
            yield from unknown(list(flat(given)), known, str(path))


def unknown(names: Sequence[str], known: Collection[str], where: str) -> Iterator[str]:
    """Return which names are those of no parameter, each with the most similar one."""
    for name in names:
        if name in known or name in OF_ROS or name.startswith(OF_ROS_PREFIXES):
            continue
        similar = difflib.get_close_matches(name, known, n=1)
        meant = f': did you mean {similar[0]}?' if similar else ''
        yield f'there is no parameter {name}, which {where} sets{meant}'


def sections_of(content: Mapping[Any, Any], above: str = '') -> Iterator[tuple[str, Any]]:
    """Return the parameters of each node pattern; namespaces may be nested."""
    for key, value in content.items():
        name = f'{above}/{str(key).strip("/")}'
        if isinstance(value, dict):
            if PARAMETERS in value:
                yield name, value[PARAMETERS]
            rest = {other: each for other, each in value.items() if other != PARAMETERS}
            yield from sections_of(rest, name)


def flat(given: object, above: str = '') -> Iterator[str]:
    """Return the names of parameters; those in groups are joined by dots."""
    if not isinstance(given, dict):
        return
    for key, value in given.items():
        name = f'{above}{key}'
        if isinstance(value, dict):
            yield from flat(value, f'{name}.')
        else:
            yield name


def matches(pattern: str, node: str) -> bool:
    """Return whether a pattern such as /**/matcher means a node; * is one name, ** any number."""
    words = [word for word in pattern.split('/') if word]
    parts = {'**': '(/[^/]+)*', '*': '/[^/]+'}
    expression = ''.join(parts.get(word, '/' + re.escape(word)) for word in words)
    return re.fullmatch(expression, node) is not None
