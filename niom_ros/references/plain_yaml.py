"""Read untrusted YAML: strings, lists and mappings, and nothing that expands."""

from typing import Any

import yaml

NOTHING = ('', '~', 'null', 'Null', 'NULL')


class PlainLoader(yaml.BaseLoader):
    """Reads every scalar as a string: PyYAML takes very long for some numbers."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse tags, and aliases, with which ten lines expand to gigabytes."""
        if self.check_event(yaml.AliasEvent):
            raise ValueError('it has aliases (*name): write them out')
        if getattr(self.peek_event(), 'tag', None):
            raise ValueError('it has tags (!type): leave them out')
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        """Return a string, or None for an empty value."""
        text = super().construct_scalar(node)
        text.encode()  # an escape can give half a surrogate pair, which no message can carry
        return None if node.style is None and text in NOTHING else text


def plain_yaml(content: bytes) -> Any:
    """Return the content; if it is not valid YAML, PyYAML may raise any exception."""
    loader = PlainLoader(content)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
