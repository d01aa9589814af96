"""Where to keep what can be computed again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $NIOM_CACHE, or a folder in the user's cache; it may be deleted at any time.

    Not in the virtual environment, where models are: `make setup` judges by the size of that
    folder what is already installed.
    """
    if chosen := os.environ.get('NIOM_CACHE'):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'niom_ros'
