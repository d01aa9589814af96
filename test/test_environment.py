"""`make setup`: what it checks, what it repeats, and what it says when something is missing."""

import importlib.metadata
import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest

from environment import build
from environment.build import Environment, SetupError, Step

HERE = Path(build.__file__).parent
CLONE = HERE.parent
REQUIREMENTS = sorted([*HERE.glob('requirements*.txt'), *HERE.glob('extras/*.txt')])
PYTHONS = [f'3.{minor}' for minor in range(10, 15)]

# The reasons are at the top of constraints.txt.
LEFT_OUT = {'opencv-python', 'lark-parser', 'numba'}


@pytest.fixture
def env(tmp_path):
    environment = Environment(tmp_path / 'an environment')
    environment.state.mkdir(parents=True)
    return environment


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / 'a clone'
    for name in ('msg/Point.msg', 'niom_ros/__init__.py', 'niom_ros/old/part.py', 'package.xml'):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'content of {name}')
    return folder


def requirements(name):
    lines = (HERE / name).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith('#')]


def pins_for(python):
    variables = {'python_version': python, 'python_full_version': f'{python}.0'}
    pins = requirements('constraints.txt')
    return [pin for pin in pins if pin.marker is None or pin.marker.evaluate(variables)]


# Versions


@pytest.mark.parametrize('python', PYTHONS)
def test_every_package_has_exactly_one_version_for_each_python(python):
    names = [canonicalize_name(pin.name) for pin in pins_for(python)]
    assert sorted(names) == sorted(set(names))


def test_every_version_is_exact():
    for pin in requirements('constraints.txt'):
        assert re.fullmatch(r'==[\w.]+', str(pin.specifier)), pin


@pytest.mark.parametrize('python', PYTHONS)
@pytest.mark.parametrize('file', REQUIREMENTS, ids=lambda file: file.stem)
def test_what_is_required_is_pinned_within_its_bounds(file, python):
    pinned = {canonicalize_name(pin.name): pin for pin in pins_for(python)}
    for requirement in requirements(file):
        (exact,) = pinned[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(exact.version), requirement


def test_nothing_that_a_pinned_package_asks_for_is_left_out_unknowingly():
    # The list is installed without asking for dependencies, so it has to be complete.
    pinned = {
        canonicalize_name(pin.name) for pin in pins_for(build.spell_version(sys.version_info[:2]))
    }
    extras = {canonicalize_name('ros-jazzy-rclpy'): 'fastrtps'}
    missing = set()
    for name in pinned:
        try:
            wanted = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f'{name} is not installed: not in the environment of `make setup`')
        for requirement in map(Requirement, wanted):
            marker = requirement.marker or Marker("python_version > '0'")
            if marker.evaluate({'extra': extras.get(name, '')}):
                missing.add(canonicalize_name(requirement.name))
    assert missing - pinned == LEFT_OUT


def test_the_files_name_no_server_and_no_folder_of_a_machine():
    for file in HERE.rglob('*.txt'):
        assert not re.search(r'https?:|file:|--index|--find-links|@ ', file.read_text()), file


# What a machine may lack


def only_with(monkeypatch, tmp_path, tools):
    folder = tmp_path / 'tools'
    folder.mkdir()
    for tool in tools:
        (folder / tool).write_text('#!/bin/sh\n')
        (folder / tool).chmod(0o755)
    monkeypatch.setenv('PATH', str(folder))
    monkeypatch.delenv('CC', raising=False)
    monkeypatch.delenv('CXX', raising=False)


@pytest.mark.parametrize(
    ('tools', 'remedy'),
    [
        (['cc', 'cmake', 'make'], 'sudo apt install g++'),
        (['c++', 'cmake', 'make'], 'sudo apt install gcc'),
        (['cc', 'c++', 'make'], 'sudo apt install cmake'),
        (['cc', 'c++', 'cmake'], 'sudo apt install make'),
    ],
)
def test_a_missing_build_tool_is_named_with_its_remedy(monkeypatch, tmp_path, tools, remedy):
    only_with(monkeypatch, tmp_path, tools)
    (reason,) = build.lacks_for_building()
    assert remedy in reason


def test_a_complete_machine_lacks_no_build_tool(monkeypatch, tmp_path):
    only_with(monkeypatch, tmp_path, ['gcc', 'clang++', 'cmake', 'make'])
    assert build.lacks_for_building() == []


def test_a_compiler_chosen_by_the_user_must_exist(monkeypatch, tmp_path):
    only_with(monkeypatch, tmp_path, ['cc', 'c++', 'cmake', 'make'])
    monkeypatch.setenv('CXX', 'g++-99 -m64')
    (reason,) = build.lacks_for_building()
    assert 'g++-99' in reason


@pytest.mark.parametrize('version', [(3, 9), (3, 15)])
def test_an_unsupported_python_is_refused(monkeypatch, version):
    monkeypatch.setattr(sys, 'version_info', (*version, 0, 'final', 0))
    reasons = build.lacks_for_python()
    assert 'Python 3.10 to 3.14 is needed' in reasons[0]
    assert 'make setup PYTHON=' in reasons[0]


def test_python_without_ensurepip_is_refused(monkeypatch):
    found = build.importlib.util.find_spec
    monkeypatch.setattr(
        build.importlib.util, 'find_spec', lambda name: found(name) if name == 'venv' else None
    )
    (reason,) = build.lacks_for_python()
    assert re.search(r'sudo apt install python3\.\d+-venv', reason)


def test_python_without_headers_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, 'get_path', lambda name: str(tmp_path))
    (reason,) = build.lacks_for_python()
    assert re.search(r'Python\.h is missing.*sudo apt install python3\.\d+-dev', reason)


def test_another_machine_is_refused(monkeypatch):
    monkeypatch.setattr(build.platform, 'machine', lambda: 'aarch64')
    (reason,) = build.lacks_for_python()
    assert 'aarch64' in reason
    assert 'colcon' in reason


def free_disk(monkeypatch, gigabytes):
    usage = shutil.disk_usage('/')._replace(free=int(gigabytes * 1e9))
    monkeypatch.setattr(build.shutil, 'disk_usage', lambda folder: usage)


def test_a_full_disk_is_reported_with_both_numbers(monkeypatch, env):
    free_disk(monkeypatch, 3.2)
    (reason,) = build.lacks_of_disk(env)
    assert 'needs 12.0 GB of free disk space' in reason
    assert 'only 3.2 GB' in reason
    assert 'NIOM_ENV' in reason


def test_what_is_already_installed_needs_no_space_again(monkeypatch, env):
    free_disk(monkeypatch, 3.2)
    monkeypatch.setattr(build, 'folder_size', lambda folder: 9e9)
    assert build.lacks_of_disk(env) == []


def test_all_that_is_missing_is_reported_at_once_and_nothing_is_begun(env):
    done = []
    steps = [
        Step('one', 'one', lambda: '', lambda: ['no compiler'], lambda: done.append(1)),
        Step('two', 'two', lambda: '', lambda: ['no disk'], lambda: done.append(2)),
    ]
    with pytest.raises(SetupError, match=r'(?s)no compiler.*no disk'):
        build.run_outdated(env, steps)
    assert done == []


def test_make_without_python_says_what_to_install():
    make = shutil.which('make')
    answer = subprocess.run(
        [make, '-C', CLONE, 'setup', 'PYTHON=python3.0'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode
    assert 'install Python 3.10 to 3.14' in answer.stderr


# What pip and cmake say


def test_an_unreachable_index_is_reported_as_such(monkeypatch, env):
    subprocess.run([sys.executable, '-m', 'venv', env.folder], check=True)
    for name in [name for name in os.environ if name.upper().endswith('_PROXY')]:
        monkeypatch.delenv(name)
    monkeypatch.delenv('PIP_FIND_LINKS', raising=False)
    monkeypatch.delenv('PIP_EXTRA_INDEX_URL', raising=False)
    monkeypatch.setenv('PIP_CONFIG_FILE', os.devnull)
    monkeypatch.setenv('PIP_INDEX_URL', 'http://127.0.0.1:9/simple')
    monkeypatch.setenv('PIP_RETRIES', '1')
    with pytest.raises(SetupError) as failure:
        build.install_packages(env)
    assert 'cannot be reached: check the network' in str(failure.value)
    assert str(env.log) in str(failure.value)


@pytest.mark.parametrize(
    ('said', 'remedy'),
    [
        ('ERROR: [Errno 28] No space left on device', 'set NIOM_ENV to a folder on a larger'),
        ('SSLError(SSLCertVerificationError(1, ...', 'PIP_CERT'),
        ('Temporary failure in name resolution\nERROR: No matching distribution', 'the network'),
        ('ERROR: Could not find a version of torch (from versions: none)', 'check the network'),
        ('ERROR: No matching distribution found for torch==9', 'no such version for this machine'),
        ('c++: fatal error: Killed signal terminated program cc1plus', 'out of memory'),
        ('error: an unknown one', 'the log has the details'),
    ],
)
def test_a_failure_comes_with_its_remedy(said, remedy):
    message = build.explain_failure(['cmake'], 1, said, Path('setup.log'))
    assert remedy in message
    assert said.splitlines()[-1] in message


def test_a_failing_program_shows_its_errors_and_not_all_it_said(env):
    program = (
        'echo working; echo "default value"; echo "error: it broke"; echo cleaning up; exit 3'
    )
    with pytest.raises(SetupError) as failure:
        build.run_logged(env, ['sh', '-c', program])
    assert 'exit code 3' in str(failure.value)
    assert 'error: it broke' in str(failure.value)
    assert 'working' not in str(failure.value)
    assert 'working' in env.log.read_text()


def test_variables_of_another_ros_stay_out_and_those_of_pip_pass(monkeypatch, env):
    leaking = (
        'AMENT_PREFIX_PATH CMAKE_PREFIX_PATH CONDA_PREFIX DESTDIR LD_LIBRARY_PATH MAKEFLAGS '
        'PYTHONHOME PYTHONPATH RMW_IMPLEMENTATION ROS_DISTRO VIRTUAL_ENV '
        '_ROS_WHEELS_BOOTSTRAP_COMPLETE'
    )
    passing = 'CXX HOME HTTPS_PROXY PIP_CERT PIP_INDEX_URL SSL_CERT_FILE'
    for name in [*leaking.split(), *passing.split()]:
        monkeypatch.setenv(name, '/elsewhere')
    variables = build.clean_variables(env)
    assert not [name for name in leaking.split() if variables.get(name) == '/elsewhere']
    assert all(variables[name] == '/elsewhere' for name in passing.split())
    assert variables['CMAKE_PREFIX_PATH'] == str(env.folder)


# Repeating and resuming


def counted_step(inputs):
    runs = []
    return runs, Step('one', 'the only step', lambda: inputs[0], list, lambda: runs.append(1))


def test_a_step_runs_again_only_when_its_inputs_change(env, capsys):
    inputs = ['first']
    runs, step = counted_step(inputs)
    build.run_outdated(env, [step])
    assert '[1/1] the only step' in capsys.readouterr().out
    build.run_outdated(env, [step])
    assert runs == [1]
    assert capsys.readouterr().out == f'environment up to date: {env.folder}\n'
    inputs[0] = 'second'
    build.run_outdated(env, [step])
    assert runs == [1, 1]


def test_an_interrupted_step_runs_again_even_with_its_former_inputs(env):
    inputs = ['first']
    runs, step = counted_step(inputs)
    build.run_outdated(env, [step])

    def interrupted():
        raise KeyboardInterrupt

    inputs[0] = 'second'
    with pytest.raises(KeyboardInterrupt):
        build.run_outdated(env, [Step('one', '', step.inputs, list, interrupted)])
    inputs[0] = 'first'
    build.run_outdated(env, [step])
    assert runs == [1, 1]


def test_what_pip_was_installing_when_interrupted_is_installed_again(env):
    packages = env.folder / 'lib/python3.11/site-packages'
    for name, record in (
        ('whole', 'whole.py,,\nwhole-1.dist-info/INSTALLER,,\n'),
        ('half', 'half.py,,\n'),
        ('begun', None),
    ):
        information = packages / f'{name}-1.dist-info'
        information.mkdir(parents=True)
        (information / 'METADATA').write_text(f'Name: {name}\n')
        if record:
            (information / 'RECORD').write_text(record)
    build.forget_half_installed(env)
    assert [path.name for path in packages.iterdir()] == ['whole-1.dist-info']


def usable_environment(env):
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', env.folder], check=True)
    env.stamp('python').write_text(str(env.folder))
    env.stamp('packages').write_text('')


def test_a_usable_environment_is_kept(env):
    usable_environment(env)
    build.forget_unusable(env)
    assert env.stamp('packages').exists()


def test_a_moved_environment_is_rebuilt(env):
    usable_environment(env)
    moved = Environment(env.folder.with_name('elsewhere'))
    env.folder.rename(moved.folder)
    build.forget_unusable(moved)
    assert not moved.stamp('packages').exists()


def test_an_environment_whose_python_is_gone_is_rebuilt(env):
    usable_environment(env)
    env.python.unlink()
    env.python.symlink_to('/nonexistent/python3')
    build.forget_unusable(env)
    assert not env.stamp('packages').exists()


def test_creating_the_virtual_environment_starts_from_an_empty_folder(env):
    (env.folder / 'lib/leftover').mkdir(parents=True)
    env.stamp('packages').write_text('')
    (env.state / 'lock').touch()
    build.create_virtual_environment(env)
    assert not (env.folder / 'lib/leftover').exists()
    assert not env.stamp('packages').exists()
    # Another setup may be waiting for this very file.
    assert (env.state / 'lock').exists()
    assert build.has_its_python(env)


def test_ctrl_c_ends_what_was_started_and_says_how_to_go_on(tmp_path):
    # Stands in for pip: it says its number and stays.
    program = (
        'import sys\n'
        'from environment import build\n'
        'stay = ["sh", "-c", "sleep 60 & echo child $!; wait"]\n'
        'build.set_up = lambda env, _: (build.claim_folder(env), build.run_logged(env, stay))\n'
        f'sys.exit(build.main(["--env", {str(tmp_path / "env")!r}]))\n'
    )
    process = subprocess.Popen(
        [sys.executable, '-c', program], cwd=CLONE, stderr=subprocess.PIPE, text=True
    )
    log = tmp_path / 'env/.niom/setup.log'
    child = wait_for(lambda: log.exists() and re.search(r'\nchild (\d+)\n', log.read_text()))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert 'run it again' in said
    wait_for(lambda: not is_running(int(child[1])))


def is_running(pid):
    status = Path(f'/proc/{pid}/status')
    return status.exists() and 'State:\tZ' not in status.read_text()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


# The folder


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / 'thesis.txt').write_text('')
    with pytest.raises(SetupError, match='set NIOM_ENV to a new or an empty folder'):
        build.claim_folder(Environment(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ['thesis.txt']


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(SetupError, match='a folder that you may write to'):
        build.claim_folder(Environment(tmp_path / 'file/env'))


def test_a_path_that_cmake_would_split_is_refused(tmp_path):
    with pytest.raises(SetupError, match="has a ';' in its path"):
        build.claim_folder(Environment(tmp_path / 'a;b'))


def test_a_second_setup_waits_for_the_first_and_says_so(env, capsys):
    order = []

    def second():
        with build.only_setup_in(env):
            order.append('second')

    waiting = threading.Thread(target=second)
    with build.only_setup_in(env):
        waiting.start()
        said = wait_for(lambda: capsys.readouterr().out)
        time.sleep(0.2)
        order.append('first')
    waiting.join(timeout=20)
    assert order == ['first', 'second']
    assert 'waiting' in said


# Sources, exports and installed files


def test_the_folders_of_the_build_machine_are_replaced_in_exports():
    text = (
        'set(A "/opt/python/cp311-cp311/include/python3.11;/opt/other")\n'
        'set(B "${_IMPORT_PREFIX}/include;/opt/python/cp311-cp311/lib/python3.11/site-packages/'
        'numpy/_core/include")\n'
    )
    fixed = build.fix_export(text, '/usr/my python', '/env/numpy\\1')
    assert fixed == (
        'set(A "/usr/my python;/opt/other")\nset(B "${_IMPORT_PREFIX}/include;/env/numpy\\1")\n'
    )
    assert build.fix_export(fixed, '/usr/my python', '/env/numpy\\1') == fixed


def test_staging_copies_changes_and_removes_what_is_gone(clone, tmp_path):
    source = tmp_path / 'the source'
    (clone / 'config').mkdir()
    (clone / 'niom_ros/__pycache__').mkdir()
    (clone / 'niom_ros/__pycache__/old.pyc').write_text('')
    build.stage_sources(clone, source)
    assert (source / 'config').is_dir()
    assert not (source / 'niom_ros/__pycache__').exists()
    untouched = source / 'package.xml'
    os.utime(untouched, (1, 1))

    (clone / 'msg/Point.msg').write_text('changed')
    os.utime(clone / 'msg/Point.msg', (1, 1))
    shutil.rmtree(clone / 'niom_ros/old')
    build.stage_sources(clone, source)
    assert (source / 'msg/Point.msg').read_text() == 'changed'
    # Newer than anything built before, though the file comes from a clone of long ago.
    assert (source / 'msg/Point.msg').stat().st_mtime > time.time() - 60
    assert untouched.stat().st_mtime == 1
    assert not (source / 'niom_ros/old').exists()


def test_a_moved_file_changes_the_digest(clone):
    before = build.digest(build.source_files(clone))
    assert build.digest(build.source_files(clone)) == before
    (clone / 'niom_ros/old/part.py').rename(clone / 'niom_ros/part.py')
    assert build.digest(build.source_files(clone)) != before


def test_files_that_are_no_longer_installed_vanish(env, tmp_path):
    package = env.folder / 'lib/niom_ros'
    old, kept = package / 'old/part.py', package / 'kept.py'
    foreign = tmp_path / 'foreign.py'
    compiled = old.parent / '__pycache__/part.cpython-311.pyc'
    for file in (old, kept, foreign, compiled):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('')
    manifest = tmp_path / 'install_manifest.txt'
    manifest.write_text(f'{old}\n{kept}\n{foreign}')
    build.remove_stale_files(env, manifest)
    assert old.exists()

    manifest.write_text(f'{kept}\n')
    build.remove_stale_files(env, manifest)
    assert not old.parent.exists()
    assert kept.exists()
    assert foreign.exists()
