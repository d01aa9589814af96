"""Names that are offered in one place and imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
import sys
from typing import Any


def imported_on_use(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that offers names of other modules, its `homes`."""

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return imported
