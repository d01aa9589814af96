"""YAML from anyone: texts, lists and mappings, and nothing that grows beyond its file."""

from typing import Any

import yaml

NOTHING = ('', '~', 'null', 'Null', 'NULL')


class PlainLoader(yaml.BaseLoader):
    """Reads every scalar as a text: for some numbers PyYAML takes very long."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases, which let ten lines unfold to gigabytes, and tags."""
        if self.check_event(yaml.AliasEvent):
            raise ValueError('it refers to other parts of itself with *: write them out')
        if getattr(self.peek_event(), 'tag', None):
            raise ValueError('it says with ! what kind something is: leave that out')
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        """Return a text, or None where nothing is written."""
        text = super().construct_scalar(node)
        text.encode()  # an escape can make half a character, which no message can carry
        return None if node.style is None and text in NOTHING else text


def plain_yaml(content: bytes) -> Any:
    """Return what is written; raises whatever PyYAML does if that is not valid YAML."""
    loader = PlainLoader(content)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
