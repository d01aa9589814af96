"""Where this package is installed, and which version it is."""

from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from niom_ros.core.errors import UserError


class NotInstalled(UserError):
    """A file of this package is not where an installation puts it."""


def share_folder() -> Path:
    """Return the folder with package.xml, config, launch and rviz: installed, or the clone."""
    package = Path(__file__).resolve().parents[1]
    candidates = [package.parent]
    candidates += [parent / 'share/niom_ros' for parent in package.parents]
    for candidate in candidates:
        if (candidate / 'package.xml').is_file() and (candidate / 'config').is_dir():
            return candidate
    raise NotInstalled(
        'the configuration files of niom_ros are not installed: '
        'build the package with `make setup` or colcon'
    )


def executable_file(name: str) -> Path:
    """Return where a node of this package is installed."""
    file = share_folder().parents[1] / 'lib/niom_ros' / name
    if not file.is_file():
        raise NotInstalled(f'{name} is not installed: build it with `make setup` or colcon')
    return file


def version() -> str:
    """Return the version of the package."""
    try:
        package = ElementTree.parse(share_folder() / 'package.xml').getroot()
    except NotInstalled:  # a plain pip install has only the Python code
        return metadata.version('niom_ros')
    return package.findtext('version', default='')
