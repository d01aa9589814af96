"""The folder with the models: find one, check it, load it.

Nothing here uses the network: models/fetching.py does, and only `niom models fetch` calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
import difflib
from enum import Enum
import hashlib
import os
from pathlib import Path
import sys
from typing import Any

from niom_ros.core.errors import UserError
from niom_ros.models.table import Model, MODELS

CHUNK = 1 << 20  # bytes read at a time


class ModelError(UserError):
    """A model cannot be used; the message says which one and what to do."""


class UnknownModel(ModelError):
    """A name that is not in the table."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = list(known)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f' (did you mean {close[0]}?)' if close else ''
        super().__init__(f'there is no model {name!r}{hint}; known models: {", ".join(known)}')


class ModelMissing(ModelError):
    """The model has not been fetched yet."""

    def __init__(self, model: Model, path: Path) -> None:
        super().__init__(
            f'{model.name} is missing: no {path}; run: niom models fetch {model.name}'
        )


class ModelBroken(ModelError):
    """The stored file is not the one that the table describes, so it is not used."""

    def __init__(self, model: Model, path: Path, fault: str) -> None:
        super().__init__(
            f'{model.name} is broken: {path} {fault}; run: niom models fetch {model.name}'
        )


class ModelClash(ModelError):
    """A plug-in brings a model whose name or file another one has."""

    def __init__(self, model: Model, other: Model) -> None:
        super().__init__(
            f'{model.name} ({model.file}) of a plug-in is not the {other.name} ({other.file}) '
            'that is already known: give the model of the plug-in another name and file'
        )


class StoreNotWritable(ModelError):
    """The folder for the models cannot be created or written to."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f'cannot write to the model folder {folder} ({error.strerror}): '
            'make it writable, or set NIOM_MODELS to a folder that is'
        )


class FetchFailed(ModelError):
    """Some models could not be fetched: one line for each."""

    def __init__(self, failures: dict[str, str]) -> None:
        super().__init__(
            '\n'.join(
                f'{name} was not fetched: {reason}; to try again: niom models fetch {name}'
                for name, reason in failures.items()
            )
        )


class State(Enum):
    """The state of a model in the store."""

    OK = 'ok'
    MISSING = 'missing'
    BROKEN = 'broken'


def default_folder() -> Path:
    """Return $NIOM_MODELS, or a folder in the virtual environment or the user's data folder."""
    if chosen := os.environ.get('NIOM_MODELS'):
        return Path(chosen).expanduser().absolute()
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / 'share/niom_ros/models'
    data = os.environ.get('XDG_DATA_HOME') or Path.home() / '.local/share'
    return Path(data) / 'niom_ros/models'


def megabytes(size: int) -> str:
    """Format a size for people: 2.7 MB, 48 MB."""
    millions = size / 1e6
    return f'{millions:.1f} MB' if millions < 10 else f'{millions:.0f} MB'


class ModelStore:
    """The models on this machine."""

    def __init__(self, folder: Path | str | None = None, models: Iterable[Model] = MODELS) -> None:
        self.folder = default_folder() if folder is None else Path(folder).absolute()
        self.models = {model.name: model for model in models}

    def model(self, name: str) -> Model:
        """Return the row of the table with that name."""
        if name not in self.models:
            raise UnknownModel(name, self.models)
        return self.models[name]

    def with_models(self, models: Iterable[Model]) -> ModelStore:
        """Return the same store with more models, which must not replace any."""
        known = {**self.models}
        for model in models:
            for other in known.values():
                if model != other and (model.name == other.name or model.file == other.file):
                    raise ModelClash(model, other)
            known[model.name] = model
        return ModelStore(self.folder, known.values())

    def path(self, name: str) -> Path:
        """Return the file of a model, after verifying its hash."""
        model = self.model(name)
        path = self.folder / model.file
        try:
            found = sha256_of(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ModelMissing(model, path) from None
        except OSError as error:
            raise ModelBroken(model, path, f'cannot be read ({error.strerror})') from None
        if found != model.sha256:
            raise ModelBroken(model, path, wrong_hash(model, found))
        return path

    def load_state_dict(self, name: str) -> dict[str, Any]:
        """Return the tensors of a model, on the CPU, structured as in its file."""
        path = self.path(name)
        # Importing torch takes seconds, which listing and fetching need not wait for.
        import torch

        weights: dict[str, Any] = torch.load(path, map_location='cpu', weights_only=True)
        return weights

    def load_safetensors(self, name: str) -> dict[str, Any]:
        """Return the tensors of a model in the safetensors format, on the CPU."""
        path = self.path(name)
        from safetensors.torch import load_file

        weights: dict[str, Any] = load_file(path)
        return weights

    def load_array(self, name: str) -> Any:
        """Return a numpy array that is stored in a file of its own."""
        path = self.path(name)
        import numpy as np

        return np.load(path, allow_pickle=False)

    def read_text(self, name: str) -> str:
        """Return a file of words or names that belongs to a model."""
        return self.path(name).read_text(encoding='utf-8')

    def state(self, name: str) -> State:
        """Return whether a model is there and intact."""
        try:
            self.path(name)
        except ModelMissing:
            return State.MISSING
        except ModelBroken:
            return State.BROKEN
        return State.OK

    def check(self) -> list[tuple[Model, State]]:
        """Return every model and whether it is there and intact."""
        return [(model, self.state(name)) for name, model in self.models.items()]


def wrong_hash(model: Model, found: str) -> str:
    """Say how a file differs from the one that the table describes."""
    return f'has sha256 {found} instead of {model.sha256}'


def sha256_of(path: Path) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with path.open('rb') as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
