"""What every plug-in declares about itself, and how its models are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar
import warnings

from niom_ros.core.field_types import in_words
from niom_ros.core.plugins import PluginError, REGISTRIES, Registry
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.store import ModelError, ModelStore
from niom_ros.models.table import Model

Part = TypeVar('Part')


@dataclass(frozen=True, kw_only=True)
class Plugin(Generic[Part]):
    """A part that can be chosen by name: what it is, and how to load it.

    There is a subclass for each kind.
    """

    makes: ClassVar[Any] = object  # the class that `load` must return an instance of

    name: str
    description: str  # in one line
    licence: str  # of the plug-in together with its models
    load: Callable[..., Part]  # from settings, model store and device; strategies: see there
    models: tuple[Model, ...] = ()  # that it loads from the store
    takes: tuple[str, ...] = ()  # settings that only it uses, such as detector_path


def load_part(
    registry: Registry, plugin: Plugin[Part], store: ModelStore, load: Callable[[ModelStore], Part]
) -> Part:
    """Load the part that a plug-in offers; `load` gets a store that also has its models."""
    if problem := registry.problem_with_names(plugin.name):
        warnings.warn(problem, stacklevel=2)  # only a warning: the built-in part is used
    with registry.blaming(plugin.name):
        part = load(store.with_models(plugin.models))
        if not isinstance(part, plugin.makes):
            wanted = in_words(plugin.makes)
            raise TypeError(f'load returned a {type(part).__name__}, not {wanted}')
    return part


def refuse_settings_of_others(
    registry: Registry, plugin: Plugin[Part], settings: Settings, names: Iterable[str]
) -> None:
    """Refuse settings (all of them texts) that are given but not for this plug-in."""
    for name in names:
        if getattr(settings, name) and name not in plugin.takes:
            raise SettingsError(
                f"{registry.kind} '{plugin.name}' takes no {name}: leave it empty, or choose "
                f'a {registry.kind} that takes it (niom plugins)'
            )


def with_models_of_plugins(store: ModelStore) -> tuple[ModelStore, list[str]]:
    """Return a store with the models of all plug-ins, and what is wrong with broken plug-ins.

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
