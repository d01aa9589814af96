"""What all plug-ins tell of themselves, and how the models that they need are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TYPE_CHECKING, TypeVar
import warnings

from niom_ros.core.plugins import PluginError, REGISTRIES, Registry
from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelError, ModelStore
from niom_ros.models.table import Model

if TYPE_CHECKING:
    import torch

Part = TypeVar('Part')


@dataclass(frozen=True, kw_only=True)
class Plugin(Generic[Part]):
    """A part that can be chosen by name: all that is to be known of it, and how to load it.

    There is a subclass for each kind.
    """

    makes: ClassVar[Any] = object  # what `load` has to return

    name: str
    description: str  # in one line
    licence: str  # under which it can be used, with its models
    load: Callable[..., Part]  # from settings, model store and device; see the subclasses
    models: tuple[Model, ...] = ()  # what it takes from the store
    takes: tuple[str, ...] = ()  # settings that others have no use for, such as detector_path


def load_part(
    registry: Registry,
    plugin: Plugin[Part],
    settings: Settings,
    store: ModelStore,
    device: torch.device,
) -> Part:
    """Load what a plug-in offers; the store also has its models then."""
    if problem := registry.problem_with_names(plugin.name):
        warnings.warn(problem, stacklevel=2)  # ours is meant, and works
    with registry.blaming(plugin.name):
        part = plugin.load(settings, store.with_models(plugin.models), device)
        if not isinstance(part, plugin.makes):
            raise TypeError(f'load returned a {type(part).__name__} instead of {plugin.makes}')
    return part


def with_models_of_plugins(store: ModelStore) -> tuple[ModelStore, list[str]]:
    """Return a store with the models of all plug-ins, and what is wrong with some of these.

    This imports the plug-ins of other packages.
    """
    problems = []
    for registry in REGISTRIES:
        for name in registry.others:
            try:
                if name in registry.built_in:
                    raise PluginError(registry.problem_with_names(name))
                store = store.with_models(registry.load(name, Plugin).models)
            except (ModelError, PluginError) as error:
                problems.append(str(error))
    return store, problems
