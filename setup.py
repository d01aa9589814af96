"""Install the library and the `niom` command without ROS: pip install -e ."""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

here = Path(__file__).parent
package = ElementTree.parse(here / 'package.xml').getroot()
# Not requirements-no-deps.txt: nobody can ask for --no-deps here.
requirements = (here / 'environment/requirements.txt').read_text().splitlines()

setup(
    name='niom_ros',
    version=package.findtext('version'),
    description=' '.join(package.findtext('description').split()),
    license=package.findtext('license'),
    packages=find_packages(include=['niom_ros', 'niom_ros.*']),
    package_data={
        'niom_ros.benchmarks.evaluation': ['templates/*'],
        'niom_ros.matching': ['calibration.json'],
    },
    python_requires='>=3.10',
    install_requires=[line for line in requirements if line and not line.startswith('#')],
    entry_points={'console_scripts': ['niom = niom_ros.cli.main:main']},
)
