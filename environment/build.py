"""Build the environment of `make setup`: ROS 2, torch and this package in one folder.

It needs nothing but the system's Python:

    python3 environment/build.py [--env FOLDER]

Each step leaves a stamp with a hash of what it depends on, so a second run repeats only what
changed or was interrupted. The output of the programs that a step runs goes to the log.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass
import fcntl
import hashlib
import importlib.util
import json
import os
from pathlib import Path
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

CLONE = Path(__file__).resolve().parents[1]
CONSTRAINTS = Path(__file__).resolve().parent / 'constraints.txt'
RECIPE = {'versions': CONSTRAINTS, 'script': Path(__file__).resolve()}

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = (3, 14)

# Bytes: a finished environment, plus pip's downloads and cache.
DISK_NEEDED = 12.0e9
DISK_FOR_CHANGES = 2.0e9

# What CMake reads; tests and documents are not built.
SOURCES = (
    'CMakeLists.txt',
    'package.xml',
    'config',
    'environment/executable.py.in',
    'launch',
    'msg',
    'niom_ros',
    'rviz',
    'security',
    'srv',
)
NOT_INSTALLED = ('__pycache__',)

# Variables of a sourced ROS, another environment or the calling make would interfere with ours.
LEAKING_PREFIXES = ('AMENT_', 'CMAKE_', 'COLCON_', 'CONDA_', 'PYTHON', 'RMW_', 'ROS_', '_ROS_')
LEAKING_NAMES = (
    'CPATH',
    'CPLUS_INCLUDE_PATH',
    'C_INCLUDE_PATH',
    'DESTDIR',
    'GNUMAKEFLAGS',
    'LD_LIBRARY_PATH',
    'LIBRARY_PATH',
    'MAKEFLAGS',
    'MAKELEVEL',
    'MFLAGS',
    'PIP_PREFIX',
    'PIP_ROOT',
    'PIP_TARGET',
    'PKG_CONFIG_PATH',
    'VIRTUAL_ENV',
)

# The first match explains a failure. Network errors come before missing versions, because pip
# reports both when it cannot reach the index.
REMEDIES = (
    (
        r'No space left on device|Disk quota exceeded',
        'The disk is full: free some space, or set NIOM_ENV to a folder on a larger disk.',
    ),
    (
        r'CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerification',
        'The certificate of the package index is not trusted here: '
        "set PIP_CERT to your organisation's certificate file.",
    ),
    (
        r'NewConnectionError|ConnectTimeout|ReadTimeout|Read timed out|Connection refused|'
        r'Connection reset|ConnectionError|ProxyError|ProtocolError|IncompleteRead|'
        r'name resolution|Name or service not known|Network is unreachable|HTTP error \d+|'
        r'[45]\d\d (Client|Server) Error',
        'The package index cannot be reached: check the network; behind a proxy set '
        'HTTPS_PROXY, for a mirror set PIP_INDEX_URL.',
    ),
    (
        r'from versions: none',
        'The package index does not have the package, or cannot be reached: check the network, '
        'and the mirror if PIP_INDEX_URL names one.',
    ),
    (
        r'No matching distribution|Could not find a version|is not a supported wheel',
        'The package index has no such version for this machine: it must be Linux x86-64 with '
        'glibc 2.28 or newer, and a mirror named by PIP_INDEX_URL must be complete.',
    ),
    (
        r'DO NOT MATCH THE HASHES|BadZipFile|has an invalid wheel',
        'A download is damaged: run `pip cache purge`.',
    ),
    (
        r'Killed|MemoryError|out of memory|Cannot allocate memory',
        'The machine is out of memory: close other programs.',
    ),
    (
        r'Permission denied|Read-only file system',
        'The folder is not writable: set NIOM_ENV to a folder of your own.',
    ),
)


class SetupError(Exception):
    """Says in its message what is wrong and what the user can do."""


@dataclass(frozen=True)
class Environment:
    """The folder that is built."""

    folder: Path

    @property
    def python(self) -> Path:
        """The Python that runs everything."""
        return self.folder / 'bin/python'

    @property
    def state(self) -> Path:
        """What this script keeps from one run to the next."""
        return self.folder / '.niom'

    @property
    def log(self) -> Path:
        """The output of the programs of the last run."""
        return self.state / 'setup.log'

    def stamp(self, step: str) -> Path:
        """Return the file that says for which inputs a step was completed."""
        return self.state / f'{step}.done'


@dataclass(frozen=True)
class Step:
    """A part of the setup that is repeated only when its inputs change."""

    name: str
    title: str
    inputs: Callable[[], str]
    lacks: Callable[[], list[str]]
    run: Callable[[], None]


def main(argv: list[str] | None = None) -> int:
    """Build the environment, or say why it cannot be built."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get('NIOM_ENV') or CLONE / '.venv'
    parser.add_argument(
        '--env', type=Path, default=default, help='default: $NIOM_ENV, or .venv in the clone'
    )
    # A cancelled or background job has to end pip and cmake as well.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # Resolved, so that the same folder reached through a link does not count as moved.
    env = Environment(Path(parser.parse_args(argv).env).resolve())
    try:
        set_up(env, CLONE)
    except SetupError as error:
        print(f'setup: {error}', file=sys.stderr)
        return 1
    except OSError as error:
        advice = 'if the disk is full or not writable, set NIOM_ENV to another folder'
        print(f'setup: {error}: {advice}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nsetup: interrupted; run it again to continue from here', file=sys.stderr)
        return 130
    return 0


def set_up(env: Environment, clone: Path) -> None:
    """Bring the environment to the state of the clone, doing only what is not yet done."""
    claim_folder(env)
    with only_setup_in(env):
        forget_unusable(env)
        run_outdated(env, steps_for(env, clone))


def steps_for(env: Environment, clone: Path) -> list[Step]:
    """Return the steps, in order."""
    return [
        Step(
            'python',
            'creating the virtual environment',
            inputs=lambda: str(env.folder),
            lacks=lacks_for_python,
            run=lambda: create_virtual_environment(env),
        ),
        Step(
            'packages',
            f'installing torch, ROS 2 Jazzy and the rest: {len(pinned_names())} packages '
            '(3 to 10 minutes the first time)',
            inputs=lambda: digest(RECIPE),
            lacks=lambda: lacks_of_disk(env),
            run=lambda: install_packages(env),
        ),
        Step(
            'niom_ros',
            'building niom_ros and its messages',
            inputs=lambda: digest({**RECIPE, **source_files(clone)}),
            lacks=lacks_for_building,
            run=lambda: build_and_install(env, clone),
        ),
        Step(
            'models',
            'fetching the default models',
            inputs=lambda: (
                digest({'table': clone / 'niom_ros/models/table.py'})
                + os.environ.get('NIOM_MODELS', '')
            ),
            lacks=list,
            run=lambda: fetch_models(env),
        ),
    ]


def run_outdated(env: Environment, steps: list[Step]) -> None:
    """Run the steps whose inputs differ from those of their stamp."""
    begin = time.monotonic()
    outdated = [step for step in steps if not is_done(env, step)]
    if not outdated:
        print(f'environment up to date: {env.folder}')
        return
    # All of them, before anything is downloaded: users should not discover them one by one.
    lacking = [reason for step in outdated for reason in step.lacks()]
    if lacking:
        raise SetupError('\n  - '.join(['this machine is not ready:', *lacking]))
    env.log.write_text('')
    for step in outdated:
        print(f'[{steps.index(step) + 1}/{len(steps)}] {step.title}', flush=True)
        inputs = step.inputs()
        env.stamp(step.name).unlink(missing_ok=True)
        step.run()
        env.stamp(step.name).write_text(inputs)
    print(f'environment ready after {spell_seconds(time.monotonic() - begin)}: {env.folder}')


def is_done(env: Environment, step: Step) -> bool:
    """Return whether the step was completed with its present inputs."""
    stamp = env.stamp(step.name)
    return stamp.is_file() and stamp.read_text() == step.inputs()


def digest(files: Mapping[str, Path]) -> str:
    """Hash the names and contents of files; a missing one counts as empty."""
    total = hashlib.sha256()
    for name, file in files.items():
        content = file.read_bytes() if file.is_file() else b''
        total.update(f'{name} {len(content)}\n'.encode() + content)
    return total.hexdigest()


# The folder


def claim_folder(env: Environment) -> None:
    """Make sure that the folder is ours before anything in it is written or removed."""
    odd = [character for character in ':;"$\\\n' if character in str(env.folder)]
    if odd:
        raise SetupError(
            f'{env.folder} has a {odd[0]!r} in its path, which has a special meaning in CMake or '
            'the shell: set NIOM_ENV to a folder without it'
        )
    try:
        if not env.state.is_dir() and any_entry(env.folder):
            raise SetupError(
                f'{env.folder} contains files that `make setup` did not put there: '
                'set NIOM_ENV to a new or an empty folder'
            )
        env.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f'cannot use {env.folder} ({error.strerror}): '
            'set NIOM_ENV to a folder that you may write to'
        ) from None


@contextlib.contextmanager
def only_setup_in(env: Environment) -> Iterator[None]:
    """Wait until no other setup works on this environment, and keep others waiting."""
    with (env.state / 'lock').open('w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print('another setup uses this environment: waiting for it to finish', flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Step 1: Python


def lacks_for_python() -> list[str]:
    """Say why this Python cannot build the environment."""
    lacking = []
    if (sys.platform, platform.machine()) != ('linux', 'x86_64'):
        lacking.append(
            f'ROS 2 wheels exist only for Linux x86-64, but this is {sys.platform} '
            f'{platform.machine()}: install ROS 2 Jazzy and build with colcon'
        )
    version = sys.version_info[:2]
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        lacking.append(
            f'Python {spell_version(OLDEST_PYTHON)} to {spell_version(NEWEST_PYTHON)} is needed, '
            f'but this is {spell_version(version)}: choose another one, '
            'for example make setup PYTHON=python3.12'
        )
    if not (importlib.util.find_spec('venv') and importlib.util.find_spec('ensurepip')):
        lacking.append(
            'Python has no venv and ensurepip: install them '
            f'(Debian, Ubuntu: sudo apt install python{spell_version(version)}-venv)'
        )
    header = Path(sysconfig.get_path('include')) / 'Python.h'
    if not header.is_file():
        lacking.append(
            f'{header} is missing: install the headers of Python '
            f'(Debian, Ubuntu: sudo apt install python{spell_version(version)}-dev; '
            'Fedora: sudo dnf install python3-devel)'
        )
    return lacking


def forget_unusable(env: Environment) -> None:
    """Rebuild everything if the folder was moved, or the system replaced its Python."""
    if not (is_in_place(env) and has_its_python(env)):
        for stamp in env.state.glob('*.done'):
            stamp.unlink()


def is_in_place(env: Environment) -> bool:
    """Return whether the folder still has the path that many files in it contain."""
    stamp = env.stamp('python')
    return stamp.is_file() and stamp.read_text() == str(env.folder)


def has_its_python(env: Environment) -> bool:
    """Return whether Python runs and is of the version that the packages were installed for."""
    # -S skips the start-up hook of the ROS wheels, which would double the time.
    program = 'import sys; print("%d.%d" % sys.version_info[:2])'
    command = [str(env.python), '-I', '-S', '-c', program]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return (env.folder / f'lib/python{answer.stdout.strip()}/site-packages').is_dir()


def create_virtual_environment(env: Environment) -> None:
    """Create it in the emptied folder."""
    kept = (env.state, env.state / 'lock', env.log)
    for entry in [*env.folder.iterdir(), *env.state.iterdir()]:
        if entry not in kept:
            remove(entry)
    # Not sys.executable: it may be the Python of the environment that was just emptied.
    python = getattr(sys, '_base_executable', sys.executable)
    run_logged(env, [python, '-m', 'venv', env.folder])


# Step 2: packages


def pinned_names() -> set[str]:
    """List what is installed; a package may have several lines, for several Pythons."""
    lines = CONSTRAINTS.read_text().splitlines()
    return {line.split('==')[0] for line in lines if '==' in line and not line.startswith('#')}


def lacks_of_disk(env: Environment) -> list[str]:
    """Say how much space is missing where the environment goes."""
    present = folder_size(env.folder)
    needed = max(DISK_NEEDED - present, DISK_FOR_CHANGES)
    free = shutil.disk_usage(env.folder).free
    if free >= needed:
        return []
    return [
        f'{env.folder} needs {needed / 1e9:.1f} GB of free disk space, but there is only '
        f'{free / 1e9:.1f} GB: free some space, or set NIOM_ENV to a folder on a larger disk'
    ]


def folder_size(folder: Path) -> int:
    """Add up the bytes of all files below a folder."""
    return sum(
        os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118 (three times slower)
        for path, _, names in os.walk(folder)
        for name in names
    )


def install_packages(env: Environment) -> None:
    """Install exactly the pinned packages, and repair the paths of their build machine."""
    forget_half_installed(env)
    # pip unpacks gigabytes; a system's /tmp is often small, and this disk was checked.
    temporary = env.state / 'tmp'
    remove(temporary)
    temporary.mkdir()
    # PIP_USER is for machines whose pip.conf says to install into the home folder.
    variables = {'TMPDIR': str(temporary), 'PIP_USER': '0'}
    quiet = ['--no-input', '--disable-pip-version-check', '--progress-bar', 'off']
    pip = [str(env.python), '-m', 'pip', 'install', *quiet]
    run_logged(env, [*pip, '--no-deps', '-r', str(CONSTRAINTS)], variables)
    remove(temporary)
    fix_cmake_exports(env)


def forget_half_installed(env: Environment) -> None:
    """Make pip install again what it was installing when it was interrupted.

    pip considers a package installed as soon as it finds its metadata, but unpacks these before
    the libraries. Only when everything is in place does it list the file INSTALLER in RECORD.
    """
    for information in env.folder.glob('lib/python*/site-packages/*.dist-info'):
        record = information / 'RECORD'
        if not record.is_file() or 'INSTALLER' not in record.read_text():
            remove(information)


def fix_cmake_exports(env: Environment) -> None:
    """Let the CMake files of the ROS wheels name the headers of this machine."""
    program = (
        'import json, numpy, sysconfig;'
        'print(json.dumps([sysconfig.get_path("include"), numpy.get_include()]))'
    )
    answer = subprocess.run(
        [env.python, '-c', program],
        env=clean_variables(env),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise SetupError(f'NumPy cannot be imported in the environment:\n{answer.stderr}')
    python_headers, numpy_headers = json.loads(answer.stdout)
    for file in env.folder.glob('share/**/*.cmake'):
        text = file.read_text()
        fixed = fix_export(text, python_headers, numpy_headers)
        if fixed != text:
            file.write_text(fixed)


def fix_export(text: str, python_headers: str, numpy_headers: str) -> str:
    """Replace the header folders of the machine that built a wheel by the given ones."""
    build_machine = r'/opt/python/[^/;"\s]+'
    numpy = build_machine + r'/lib/python[^/]+/site-packages/numpy/_?core/include'
    text = re.sub(numpy, lambda _: numpy_headers, text)
    return re.sub(build_machine + r'/include/python[\w.]+', lambda _: python_headers, text)


# Step 3: this package


def lacks_for_building() -> list[str]:
    """Say which build tools are missing."""
    lacking = []
    for language, variable, names, package in (
        ('C', 'CC', ('cc', 'gcc', 'clang'), 'gcc'),
        ('C++', 'CXX', ('c++', 'g++', 'clang++'), 'g++'),
    ):
        chosen = os.environ.get(variable, '').split()[:1]
        if not any(shutil.which(name) for name in chosen or names):
            lacking.append(
                f'a {language} compiler is missing ({", ".join(chosen or names)}): install one '
                f'(Debian, Ubuntu: sudo apt install {package}; Fedora: sudo dnf install gcc-c++)'
            )
    for tool in ('cmake', 'make'):
        if not shutil.which(tool):
            lacking.append(
                f'{tool} is missing: install it (Debian, Ubuntu: sudo apt install {tool}; '
                f'Fedora: sudo dnf install {tool})'
            )
    return lacking


def source_files(clone: Path) -> dict[str, Path]:
    """Map the relative path of each file that the build needs to the file itself."""
    found = []
    for source in SOURCES:
        top = clone / source
        found += sorted(top.rglob('*')) if top.is_dir() else [top]
    return {
        str(file.relative_to(clone)): file
        for file in found
        if file.is_file() and not set(NOT_INSTALLED) & set(file.relative_to(clone).parts)
    }


def build_and_install(env: Environment, clone: Path) -> None:
    """Build the package from a copy of its sources and install it into the environment."""
    source = env.state / 'source'
    build = env.state / 'build'
    stage_sources(clone, source)
    # It exists only if the build folder is that of a completed build with the same settings.
    completed = build / 'completed'
    settings = build_settings()
    if not completed.is_file() or completed.read_text() != settings:
        remove(build)
        configure(env, source, build)
    completed.unlink(missing_ok=True)
    cores = str(len(os.sched_getaffinity(0)))
    run_logged(env, ['cmake', '--build', build, '--parallel', cores])
    run_logged(env, ['cmake', '--install', build])
    remove_stale_files(env, build / 'install_manifest.txt')
    completed.write_text(settings)


def stage_sources(clone: Path, source: Path) -> None:
    """Copy what changed, and remove what is gone: several clones may share an environment.

    A changed file gets the current time and not that of the clone, because make must see it as
    newer than what was built from another clone.
    """
    files = source_files(clone)
    for name in SOURCES:
        if (clone / name).is_dir():
            (source / name).mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        copy = source / name
        if copy.is_file() and copy.read_bytes() == file.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    for name in source_files(source).keys() - files.keys():
        remove(source / name)
        remove_empty_folders((source / name).parent, source)


def build_settings() -> str:
    """Describe everything that a build depends on, except the sources."""
    tools = [shutil.which(tool) for tool in ('cmake', 'cc', 'c++')]
    flags = [os.environ.get(name) for name in ('CC', 'CXX', 'CFLAGS', 'CXXFLAGS', 'LDFLAGS')]
    return json.dumps([digest(RECIPE), tools, flags])


def configure(env: Environment, source: Path, build: Path) -> None:
    """Tell CMake where everything is."""
    options = {
        'BUILD_TESTING': 'OFF',
        'CMAKE_BUILD_TYPE': 'Release',
        'CMAKE_INSTALL_PREFIX': env.folder,
        'Python3_EXECUTABLE': env.python,
    }
    definitions = [f'-D{name}={value}' for name, value in options.items()]
    run_logged(env, ['cmake', '-G', 'Unix Makefiles', '-S', source, '-B', build, *definitions])


def remove_stale_files(env: Environment, manifest: Path) -> None:
    """Remove what the previous build installed and this one no longer does."""
    previous = env.state / 'installed.txt'
    current = manifest.read_text()
    if previous.is_file():
        for line in set(previous.read_text().splitlines()) - set(current.splitlines()):
            file = Path(line)
            if env.folder not in file.parents:
                continue
            remove(file)
            for compiled in file.parent.glob(f'__pycache__/{file.stem}.*.pyc'):
                remove(compiled)
            remove_empty_folders(file.parent / '__pycache__', env.folder)
            remove_empty_folders(file.parent, env.folder)
    previous.write_text(current)


# Step 4: models


def fetch_models(env: Environment) -> None:
    """Fetch the default models; the command reports its own progress."""
    command = [str(env.folder / 'bin/niom'), 'models', 'fetch', '--default']
    # Not in the clone, where Python would import its sources instead of the installed package.
    finished = subprocess.run(command, cwd=env.folder, env=clean_variables(env), check=False)
    if finished.returncode:
        raise SetupError(
            'the default models could not be downloaded (see above): run the setup again to resume'
        )


# Running programs


def clean_variables(env: Environment) -> dict[str, str]:
    """Return the user's variables without those of another ROS or Python, plus our own."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in LEAKING_NAMES and not name.startswith(LEAKING_PREFIXES)
    }
    variables['AMENT_PREFIX_PATH'] = str(env.folder)
    variables['CMAKE_PREFIX_PATH'] = str(env.folder)
    variables['PATH'] = f'{env.folder / "bin"}:{os.environ.get("PATH", os.defpath)}'
    return variables


def run_logged(
    env: Environment, command: Sequence[str | Path], variables: dict[str, str] | None = None
) -> None:
    """Run a program with its output in the log; if it fails, show the lines that explain why."""
    words = [str(word) for word in command]
    with env.log.open('a') as log:
        log.write(f'\n$ {" ".join(words)}\n')
        log.flush()
        begin = log.tell()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**clean_variables(env), **(variables or {})},
            # A group of its own, so that an interruption also ends what the program started.
            start_new_session=True,
        )
        try:
            show_progress(process, env.log)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        said = env.log.read_bytes()[begin:].decode(errors='replace')
        raise SetupError(explain_failure(words, process.returncode, said, env.log))


def show_progress(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a program; a terminal shows what it does, a CI log one line per minute."""
    live = sys.stdout.isatty()
    begin = time.monotonic()
    reported = 0
    while True:
        try:
            process.wait(timeout=0.5 if live else 5)
            break
        except subprocess.TimeoutExpired:
            elapsed = time.monotonic() - begin
            line = f'      {spell_seconds(elapsed)}: {last_line(log)}'
            if live:
                width = shutil.get_terminal_size().columns - 1
                print(f'\r\x1b[K{line[:width]}', end='', flush=True)
            elif elapsed // 60 > reported:
                reported = int(elapsed // 60)
                print(line[:99], flush=True)
    if live:
        print('\r\x1b[K', end='', flush=True)


def last_line(log: Path) -> str:
    """Return the last line that a program printed."""
    lines = log.read_text(errors='replace').splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), '')


def explain_failure(command: list[str], code: int, said: str, log: Path) -> str:
    """Compose a message from the lines that matter, the likely remedy and the log's place."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    faults = [line for line in lines if re.search(r'error|fatal', line, re.IGNORECASE)]
    shown = list(dict.fromkeys(faults or lines))[-6:]
    remedy = next(
        (remedy for pattern, remedy in REMEDIES if re.search(pattern, said)),
        'Run the setup again to repeat this step; the log has the details.',
    )
    name = 'pip' if 'pip' in command else Path(command[0]).name
    return '\n'.join(
        [
            f'{name} failed (exit code {code}):',
            *(f'    {line[:300]}' for line in shown),
            remedy,
            f'Log: {log}',
        ]
    )


# Files and words


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with its contents, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def any_entry(folder: Path) -> bool:
    """Return whether the folder exists and has anything in it."""
    return folder.exists() and any(folder.iterdir())


def remove_empty_folders(folder: Path, top: Path) -> None:
    """Remove a folder and its parents as far as they are empty, but never the top."""
    while folder != top and top in folder.parents:
        if any_entry(folder):
            return
        if folder.exists():
            folder.rmdir()
        folder = folder.parent


def spell_version(version: tuple[int, ...]) -> str:
    """Write (3, 10) as 3.10."""
    return '.'.join(str(number) for number in version)


def spell_seconds(seconds: float) -> str:
    """Write 125 seconds as 2 min 5 s."""
    minutes, rest = divmod(int(seconds), 60)
    return f'{minutes} min {rest} s' if minutes else f'{rest} s'


if __name__ == '__main__':
    sys.exit(main())
