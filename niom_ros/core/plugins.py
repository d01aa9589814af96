"""What can be chosen by name: built-in parts, and plug-ins of other packages.

Built-in parts are listed here. Plug-ins are found through the entry points of their packages, see
the README. Names are known without importing anything; only what is chosen is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
import importlib
from importlib.metadata import entry_points, EntryPoint
from typing import Protocol, TypeVar

from niom_ros.core.errors import UserError

CANNOT_BE_LOADED, FAILED = 'cannot be loaded', 'failed'  # faults of a plug-in


class PluginError(UserError):
    """A plug-in that cannot be used; the message says whose it is and what to do."""


class Named(Protocol):
    """What every plug-in has."""

    @property
    def name(self) -> str:
        """Return the name by which it is chosen."""


Kind = TypeVar('Kind', bound=Named)


@dataclass(frozen=True)
class Registry:
    """All plug-ins of one kind."""

    kind: str  # the parameter that chooses one
    group: str  # of entry points
    built_in: Mapping[str, str]  # name: 'module:attribute'

    @cached_property
    def others(self) -> dict[str, list[EntryPoint]]:
        """Return the plug-ins of other packages, by name; a name may be offered several times."""
        offered: dict[str, list[EntryPoint]] = {}
        for entry in sorted(installed(self.group), key=lambda entry: (entry.name, origin(entry))):
            offered.setdefault(entry.name, []).append(entry)
        return offered

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return what can be chosen, built-in parts first."""
        return tuple(dict.fromkeys((*self.built_in, *self.others)))

    def load(self, name: str, kind: type[Kind]) -> Kind:
        """Import the plug-in of this name, which must be of the given class."""
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(':')
            built_in: Kind = getattr(importlib.import_module(module), attribute)
            return built_in
        problem = self.problem_with_names(name)
        if problem:
            raise PluginError(problem)
        (entry,) = self.others[name]
        try:
            plugin = entry.load()
        except (Exception, SystemExit) as error:  # a plug-in may do anything
            raise self._broken(name, f'cannot be imported ({described(error)})') from error
        if not isinstance(plugin, kind):
            raise self._broken(name, f'is of class {type(plugin).__name__}, not {kind.__name__}')
        if plugin.name != name:
            raise self._broken(name, f"calls itself '{plugin.name}': both names must be the same")
        return plugin

    def problem_with_names(self, name: str) -> str:
        """Return why a name is ambiguous, or ''."""
        others = self.others.get(name, [])
        whose = ' and '.join(map(origin, others))
        if name in self.built_in and others:
            return (
                f"{self.kind} '{name}' is a part of niom_ros, so {whose} is not used: "
                'rename that entry point, or uninstall its package'
            )
        if len(others) > 1:
            return (
                f"{self.kind} '{name}' is offered more than once, by {whose}: "
                'uninstall all of these packages but one'
            )
        return ''

    @contextmanager
    def blaming(self, name: str, fault: str = CANNOT_BE_LOADED) -> Iterator[None]:
        """If the plug-in of another package fails in the block, name that package."""
        try:
            yield
        except (UserError, MemoryError):
            raise
        except Exception as error:
            if name in self.built_in:
                raise
            raise self._broken(name, f'{fault} ({described(error)})') from error

    def _broken(self, name: str, fault: str) -> PluginError:
        return PluginError(
            f"{self.kind} '{name}' cannot be used, because {origin(self.others[name][0])} "
            f'{fault}: fix or uninstall that package, or choose another {self.kind}'
        )


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, of all packages that Python finds."""
    return tuple(entry_points(group=group))


def origin(entry: EntryPoint) -> str:
    """Say where a plug-in comes from."""
    package = f'{entry.dist.name} {entry.dist.version}' if entry.dist else 'an unknown package'
    return f"entry point '{entry.name} = {entry.value}' ({entry.group}) of {package}"


def described(error: BaseException) -> str:
    """Return an error in one line."""
    return ' '.join(f'{type(error).__name__}: {error}'.split())[:300]


EXTRACTORS = Registry(
    'extractor',
    'niom_ros.extractors',
    {
        'aliked': 'niom_ros.matching.extractors.aliked:PLUGIN',
        'disk': 'niom_ros.matching.extractors.disk:PLUGIN',
        'xfeat': 'niom_ros.matching.extractors.xfeat:PLUGIN',
        'superpoint': 'niom_ros.matching.extractors.superpoint:PLUGIN',
    },
)
MATCHERS = Registry(
    'matcher',
    'niom_ros.matchers',
    {
        'lightglue': 'niom_ros.matching.matchers.lightglue:PLUGIN',
        'nearest': 'niom_ros.matching.matchers.nearest:PLUGIN',
        'superglue': 'niom_ros.matching.matchers.superglue:PLUGIN',
    },
)
DETECTORS = Registry(
    'detector',
    'niom_ros.detectors',
    {
        'yolov4-tiny': 'niom_ros.semantics.detectors.darknet:PLUGIN',
        'yolov7-seg': 'niom_ros.semantics.detectors.yolov7_seg:PLUGIN',
        'onnx': 'niom_ros.semantics.detectors.onnx_yolo:PLUGIN',
        'ultralytics': 'niom_ros.semantics.detectors.ultralytics_yolo:PLUGIN',
        'none': 'niom_ros.semantics.detectors.no_detector:PLUGIN',
    },
)
LABEL_EMBEDDERS = Registry(
    'label_embedder',
    'niom_ros.label_embedders',
    {
        'auto': 'niom_ros.semantics.embedders.auto:PLUGIN',
        'tables': 'niom_ros.semantics.embedders.tables:PLUGIN',
        'open_clip': 'niom_ros.semantics.embedders.open_clip:PLUGIN',
    },
)
STRATEGIES = Registry(
    'strategy',
    'niom_ros.strategies',
    {
        'classical': 'niom_ros.matching.strategies.classical:PLUGIN',
        'points': 'niom_ros.matching.strategies.points:PLUGIN',
        'turned': 'niom_ros.matching.strategies.turned:PLUGIN',
        'ink': 'niom_ros.matching.strategies.ink:PLUGIN',
        'on_object': 'niom_ros.matching.strategies.on_object:PLUGIN',
        'alike': 'niom_ros.matching.strategies.alike:PLUGIN',
    },
)
REGISTRIES = (EXTRACTORS, MATCHERS, DETECTORS, LABEL_EMBEDDERS, STRATEGIES)
