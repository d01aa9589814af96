"""Install the library and the `niom` command without ROS: pip install -e '.[all]'."""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

here = Path(__file__).parent
package = ElementTree.parse(here / 'package.xml').getroot()


def requirements(file: Path) -> list[str]:
    """Return the packages that a requirements file names."""
    lines = file.read_text().splitlines()
    return [line for line in lines if line and not line.startswith('#')]


extras = {file.stem: requirements(file) for file in here.glob('environment/extras/*.txt')}

setup(
    name='niom_ros',
    version=package.findtext('version'),
    description=' '.join(package.findtext('description').split()),
    license=package.findtext('license'),
    packages=find_packages(include=['niom_ros', 'niom_ros.*']),
    package_data={
        'niom_ros': ['py.typed'],
        'niom_ros.benchmarks.evaluation': ['templates/*'],
        'niom_ros.matching': ['calibration.json'],
    },
    python_requires='>=3.10',
    # Not requirements-no-deps.txt: nobody can ask for --no-deps here.
    install_requires=requirements(here / 'environment/requirements.txt'),
    extras_require=extras | {'all': sorted(set().union(*extras.values()))},
    entry_points={'console_scripts': ['niom = niom_ros.cli.main:main']},
)
