"""Python packages that only some features need: `pip install 'niom_ros[EXTRA]'` brings them.

A robot that only matches does without a plotting library. environment/extras/ has a file for each
extra, with the packages in it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from niom_ros.core.errors import UserError
from niom_ros.core.faults import first_line


class ExtraMissing(UserError):
    """A feature lacks its packages; the message says how to install them."""


@contextmanager
def needs_extra(extra: str, feature: str, without_dependencies: str = '') -> Iterator[None]:
    """Import the packages of an extra in the block; if one is missing, say what to install.

    `without_dependencies` is a package that the feature also needs, but an extra cannot name,
    because it must be installed with --no-deps.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or '').partition('.')[0] == 'niom_ros':  # our own mistake
            raise
        besides = f'; pip install --no-deps {without_dependencies}' if without_dependencies else ''
        raise ExtraMissing(
            f'{feature} needs Python packages that cannot be imported ({first_line(error)}): '
            f"pip install 'niom_ros[{extra}]', or in a clone "
            f'pip install -r environment/extras/{extra}.txt{besides}'
        ) from error
