"""Read models that were saved as whole Python objects, without running or importing code.

Unpickling such a file normally imports the classes of its objects and calls whatever it names.
Here only tensors and containers are created. Everything else, be it a harmless layer or
`os.system`, becomes a `Placeholder`, which accepts any call and any attributes and does nothing.
"""

from collections import OrderedDict
from pathlib import Path
import pickle
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch


class ForeignPickleError(ValueError):
    """A file that is not what torch.save writes."""


class Placeholder:
    """Stands in for an object whose class is not loaded, and keeps its attributes."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


def parameter(tensor: torch.Tensor, *_: object) -> torch.Tensor:
    """Return the tensor of a saved parameter, without its gradient and hooks."""
    return tensor


ALLOWED: dict[tuple[str, str], Any] = {
    ('collections', 'OrderedDict'): OrderedDict,
    ('builtins', 'set'): set,
    ('__builtin__', 'set'): set,
    ('torch._utils', '_rebuild_tensor_v2'): torch._utils._rebuild_tensor_v2,
    ('torch._utils', '_rebuild_parameter'): parameter,
}


class PlaceholderPickle:
    """Passed to torch.load as the pickle module."""

    class Unpickler(pickle.Unpickler):
        """Resolves tensors and containers, and everything else to a placeholder."""

        def find_class(self, module: str, name: str) -> Any:
            """Return what a name stands for, without importing anything."""
            return ALLOWED.get((module, name), Placeholder)


def load_foreign_pickle(path: Path) -> Any:
    """Return what a file of torch.save holds, on the CPU, with placeholders for its objects."""
    try:
        with ZipFile(path) as archive:
            names = [Path(name).name for name in archive.namelist()]
    except BadZipFile:
        raise ForeignPickleError(f'{path} is not an archive of torch.save') from None
    # torch.load would pass TorchScript programs to torch.jit, bypassing the unpickler.
    if 'data.pkl' not in names or 'constants.pkl' in names:
        raise ForeignPickleError(f'{path} does not hold one pickle')
    return torch.load(
        path, map_location='cpu', pickle_module=PlaceholderPickle, weights_only=False
    )


def tensors_of(module: Placeholder, prefix: str = '') -> dict[str, torch.Tensor]:
    """Return all tensors of a saved module, under the names of its state dict."""
    saved = vars(module)
    tensors = {
        f'{prefix}{name}': tensor
        for kind in ('_parameters', '_buffers')
        for name, tensor in saved[kind].items()
        if tensor is not None
    }
    for name, child in saved['_modules'].items():
        tensors |= tensors_of(child, f'{prefix}{name}.')
    return tensors
