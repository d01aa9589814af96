"""What `niom plugins` does: list what can be chosen, and say which plug-ins are broken."""

import sys

from niom_ros.cli.tables import print_table
from niom_ros.core.plugins import PluginError, REGISTRIES, Registry
from niom_ros.models.plugins import Plugin


def show_plugins() -> bool:
    """Import and list all plug-ins, and return whether all can be used."""
    table, problems = [('kind', 'name', 'licence', 'from', 'description')], []
    for registry in REGISTRIES:
        for name in registry.names:
            if name in registry.built_in and name in registry.others:
                problems.append(registry.problem_with_names(name))
            try:
                table.append(row_of(registry, name))
            except PluginError as error:
                problems.append(str(error))
    print_table(table)
    for problem in problems:
        print(f'niom: {problem}', file=sys.stderr)
    return not problems


def row_of(registry: Registry, name: str) -> tuple[str, str, str, str, str]:
    """Return what a plug-in says about itself, as a row of the table."""
    kind = type(registry.load(next(iter(registry.built_in)), Plugin))
    plugin = registry.load(name, kind)
    package = 'niom_ros'
    if name not in registry.built_in and (dist := registry.others[name][0].dist):
        package = f'{dist.name} {dist.version}'
    return registry.kind, name, plugin.licence, package, plugin.description
