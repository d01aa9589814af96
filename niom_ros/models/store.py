"""The folder where the models lie: find one, check it, fetch it.

Looking up and loading read this folder and nothing else. Only `ModelStore.fetch` uses the
network, and only the `niom models fetch` command calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
import difflib
from enum import Enum
import errno
import hashlib
import http.client
import importlib.metadata
import os
from pathlib import Path
import shutil
import ssl
import subprocess
import sys
from typing import Any
from typing import IO
from typing import Protocol
import urllib.error
from urllib.parse import urlsplit
import urllib.request
import zipfile
import zlib

from niom_ros.errors import UserError
from niom_ros.models.table import Model
from niom_ros.models.table import MODELS
from niom_ros.models.table import OfficialUrl
from niom_ros.models.table import Wheel
from niom_ros.models.table import WheelMember

CHUNK = 1 << 20
NETWORK_TIMEOUT = 30.0  # seconds without a single byte
LARGEST_GROWTH = 1.5  # times the size in the table, before a download is refused
STAGING_PREFIX = '.fetching-'


class ModelError(UserError):
    """A model cannot be used; the message says which one and what to do."""


class UnknownModel(ModelError):
    """A name that the table does not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = list(known)
        close = difflib.get_close_matches(name, known, n=1)
        hint = f' (did you mean {close[0]}?)' if close else ''
        super().__init__(f'there is no model {name!r}{hint}; known are: {", ".join(known)}')


class ModelMissing(ModelError):
    """The model was not fetched yet."""

    def __init__(self, model: Model, path: Path) -> None:
        super().__init__(
            f'{model.name} is missing: no {path}; run: niom models fetch {model.name}'
        )


class ModelBroken(ModelError):
    """The stored file is not the one that the table describes, so it is not used."""

    def __init__(self, model: Model, path: Path, fault: str) -> None:
        super().__init__(
            f'{model.name} is broken: {path} {fault}; run: niom models fetch {model.name}'
        )


class StoreNotWritable(ModelError):
    """The folder for the models cannot be created or written to."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f'cannot write to the model folder {folder} ({error.strerror}): '
            'make it writable, or set NIOM_MODELS to a folder that is'
        )


class FetchFailed(ModelError):
    """Some models could not be fetched: one line for each."""

    def __init__(self, failures: dict[str, str]) -> None:
        self.failures = failures
        super().__init__(
            '\n'.join(
                f'{name} was not fetched: {reason}; to try again: niom models fetch {name}'
                for name, reason in failures.items()
            )
        )


class State(Enum):
    """What the store holds of a model."""

    OK = 'ok'
    MISSING = 'missing'
    BROKEN = 'broken'


class Report(Protocol):
    """Is told how a fetch goes on."""

    def line(self, text: str) -> None:
        """Take a sentence worth keeping."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Take how many of about `total` bytes are there; called often."""


class Silence:
    """A report that nobody reads."""

    def line(self, text: str) -> None:
        """Drop the sentence."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Drop the numbers."""


def default_folder() -> Path:
    """Where the models lie: $NIOM_MODELS, the virtual environment, or the user's data folder."""
    if chosen := os.environ.get('NIOM_MODELS'):
        return Path(chosen).expanduser().absolute()
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / 'share/niom_ros/models'
    data = os.environ.get('XDG_DATA_HOME') or Path.home() / '.local/share'
    return Path(data) / 'niom_ros/models'


def megabytes(size: int) -> str:
    """Write a size the way people read it: 2.7 MB, 48 MB."""
    millions = size / 1e6
    return f'{millions:.1f} MB' if millions < 10 else f'{millions:.0f} MB'


class ModelStore:
    """The models on this machine."""

    def __init__(
        self,
        folder: Path | str | None = None,
        models: Iterable[Model] = MODELS,
        url_schemes: tuple[str, ...] = ('https',),
    ) -> None:
        self.folder = default_folder() if folder is None else Path(folder).absolute()
        self.models = {model.name: model for model in models}
        self._url_schemes = url_schemes

    def model(self, name: str) -> Model:
        """Return the table's row of that name."""
        if name not in self.models:
            raise UnknownModel(name, self.models)
        return self.models[name]

    def path(self, name: str) -> Path:
        """Return the model's file, after making sure that it is the right one."""
        model = self.model(name)
        path = self.folder / model.file
        try:
            found = _sha256(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ModelMissing(model, path) from None
        except OSError as error:
            raise ModelBroken(model, path, f'cannot be read ({error.strerror})') from None
        if found != model.sha256:
            raise ModelBroken(model, path, _wrong_hash(model, found))
        return path

    def load_state_dict(self, name: str) -> dict[str, Any]:
        """Return the tensors of a model, on the CPU, in the structure its file has."""
        path = self.path(name)
        # Importing torch takes seconds, which listing and fetching need not wait for.
        import torch

        weights: dict[str, Any] = torch.load(path, map_location='cpu', weights_only=True)
        return weights

    def state(self, name: str) -> State:
        """Tell whether a model is there and right."""
        try:
            self.path(name)
        except ModelMissing:
            return State.MISSING
        except ModelBroken:
            return State.BROKEN
        return State.OK

    def check(self) -> list[tuple[Model, State]]:
        """Tell of every model whether it is there and right."""
        return [(model, self.state(name)) for name, model in self.models.items()]

    def fetch(self, names: Iterable[str], report: Report | None = None) -> None:
        """Bring models into the store; those that are there and right are left alone.

        A model appears in the store complete and verified, or not at all. One that fails does
        not keep the others from being tried: FetchFailed at the end names all that failed.
        """
        report = report or Silence()
        wanted = [self.model(name) for name in dict.fromkeys(names)]
        _remove_abandoned_staging(self.folder)
        absent = []
        for model in wanted:
            if self.state(model.name) is State.OK:
                report.line(f'{model.name}: already there')
            else:
                absent.append(model)
        if not absent:
            return

        staging = self.folder / f'{STAGING_PREFIX}{os.getpid()}'
        failures: dict[str, str] = {}
        try:
            try:
                staging.mkdir(parents=True)
            except OSError as error:
                raise StoreNotWritable(self.folder, error) from None
            fetching = _Fetching(staging, report, self._url_schemes)
            for model in absent:
                if not model.permissive:
                    report.line(_licence_notice(model))
                try:
                    staged = fetching.obtain(model)
                    _publish(staged, self.folder / model.file)
                    report.line(f'{model.name}: fetched ({megabytes(model.size)})')
                except _NotObtained as error:
                    failures[model.name] = str(error)
                except OSError as error:
                    failures[model.name] = _disk_fault(self.folder / model.file, error)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        if failures:
            raise FetchFailed(failures)


class _NotObtained(Exception):
    """Why a model could not be had, and what would help."""


class _Fetching:
    """One call of fetch: what it has downloaded so far, all of it below its staging folder."""

    def __init__(self, staging: Path, report: Report, url_schemes: tuple[str, ...]) -> None:
        self._staging = staging
        self._report = report
        self._url_schemes = url_schemes
        # A failure is kept too: without a network, each further attempt would wait in vain.
        self._wheels: dict[Wheel, Path | _NotObtained] = {}

    def obtain(self, model: Model) -> Path:
        """Return a verified copy of the model in the staging folder."""
        staged = self._staging / model.file
        if isinstance(model.source, WheelMember):
            installed = _installed_member(model, model.source)
            if installed is not None:
                _link_or_copy(installed, staged)
            else:
                wheel = self._wheel(model.source.wheel)
                self._write(model, _member_chunks(wheel, model.source), staged)
        else:
            self._report.line(f'{model.name}: downloading {megabytes(model.size)}')
            self._write(model, _url_chunks(model.source, self._url_schemes), staged)
        found = _sha256(staged)
        if found != model.sha256:
            raise _NotObtained(
                f'refused {model.file}, because it {_wrong_hash(model, found)}: '
                f'look for a proxy or mirror that changes {_origin(model)}'
            )
        return staged

    def _write(self, model: Model, chunks: Iterator[bytes], staged: Path) -> None:
        done = 0
        with staged.open('wb') as file:
            for chunk in chunks:
                done += len(chunk)
                if done > model.size * LARGEST_GROWTH:
                    raise _NotObtained(
                        f'refused {model.file}, because it is larger than the '
                        f'{megabytes(model.size)} of the table: '
                        f'look for a proxy or mirror that changes {_origin(model)}'
                    )
                file.write(chunk)
                self._report.progress(model.name, done, model.size)

    def _wheel(self, wheel: Wheel) -> Path:
        if wheel not in self._wheels:
            try:
                self._wheels[wheel] = self._download_wheel(wheel)
            except _NotObtained as failure:
                self._wheels[wheel] = failure
        outcome = self._wheels[wheel]
        if isinstance(outcome, _NotObtained):
            raise outcome
        return outcome

    def _download_wheel(self, wheel: Wheel) -> Path:
        """Let pip download a wheel, so that the user's index, proxy and certificates apply."""
        label = f'{wheel.distribution} {wheel.version}'
        self._report.line(f'{label}: downloading {megabytes(wheel.size)}')
        area = self._staging / f'{wheel.distribution}-{wheel.version}'
        destination = area / 'wheel'
        temporary = area / 'tmp'
        destination.mkdir(parents=True)
        temporary.mkdir()
        # Only a file is taken out of the wheel, so what it requires to run does not matter.
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
                while not _ended(process, within=0.2):
                    self._report.progress(label, _largest_file(area), wheel.size)
            finally:
                _stop(process)
        wheels = list(destination.glob('*.whl'))
        if process.returncode != 0 or len(wheels) != 1:
            raise _NotObtained(_pip_fault(wheel, log.read_text(errors='replace')))
        return wheels[0]


def _installed_member(model: Model, source: WheelMember) -> Path | None:
    """Return the file of an installed distribution, which saves the download."""
    try:
        distribution = importlib.metadata.distribution(source.wheel.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != source.wheel.version:
        return None
    path = Path(str(distribution.locate_file(source.member))).resolve()
    try:
        return path if _sha256(path) == model.sha256 else None
    except OSError:
        return None


def _link_or_copy(source: Path, target: Path) -> None:
    """Share the bytes on the disk where the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _member_chunks(wheel: Path, source: WheelMember) -> Iterator[bytes]:
    label = f'{source.wheel.distribution} {source.wheel.version}'
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            yield from _chunks(member)
    except KeyError:
        raise _NotObtained(f'the wheel {label} has no {source.member}: check its index') from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _NotObtained(f'the wheel {label} is broken ({error}): empty the pip cache') from None


def _url_chunks(source: OfficialUrl, schemes: tuple[str, ...]) -> Iterator[bytes]:
    _refuse_scheme(source.url, schemes)
    opener = urllib.request.build_opener(_CheckedRedirects(schemes))
    try:
        with opener.open(source.url, timeout=NETWORK_TIMEOUT) as response:
            announced = response.headers.get('Content-Length')
            done = 0
            for chunk in _chunks(response):
                done += len(chunk)
                yield chunk
            if announced is not None and done < int(announced):
                raise _NotObtained(f'{source.url} broke off after {done} of {announced} bytes')
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            raise _NotObtained(f'{source.url} was not found (HTTP {error.code})') from None
        raise _NotObtained(f'{source.url} was refused (HTTP {error.code})') from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, 'reason', None) or error
        remedy = 'connect to the network'
        if isinstance(reason, ssl.SSLCertVerificationError):
            remedy = "install the network's certificate (SSL_CERT_FILE)"
        raise _NotObtained(f'{source.url} could not be reached ({reason}): {remedy}') from None


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        yield chunk


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only where the first address would have been allowed too."""

    def __init__(self, schemes: tuple[str, ...]) -> None:
        self._schemes = schemes

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _refuse_scheme(newurl, self._schemes)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refuse_scheme(url: str, schemes: tuple[str, ...]) -> None:
    if urlsplit(url).scheme not in schemes:
        raise _NotObtained(f'refused {url}, because it is not {" or ".join(schemes)}')


def _ended(process: subprocess.Popen[bytes], within: float) -> bool:
    try:
        process.wait(timeout=within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that an interruption left behind, before its folder is removed."""
    if process.poll() is None:
        process.terminate()
        if not _ended(process, within=3.0):
            process.kill()
            process.wait()


def _largest_file(folder: Path) -> int:
    """Return the size of the growing download; pip may hold a second copy for its cache."""
    largest = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                largest = max(largest, Path(parent, file).stat().st_size)
            except FileNotFoundError:
                continue
    return largest


def _pip_fault(wheel: Wheel, log: str) -> str:
    """Say in one sentence why pip failed: its own output is long and blames the wrong thing."""
    label = f'{wheel.distribution} {wheel.version}'
    if 'No module named pip' in log:
        return f'this Python has no pip: run {sys.executable} -m ensurepip'
    if os.strerror(errno.ENOSPC) in log:
        return f'no space left while downloading {label}: free {megabytes(2 * wheel.size)}'
    # Without a network pip says "No matching distribution" in the end, so this goes first.
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


def _disk_fault(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f'no space left in {path.parent}: free some'
    return f'cannot write {path} ({error.strerror}): remove what is in its way'


def _licence_notice(model: Model) -> str:
    use = 'commercial use allowed' if model.commercial else 'NOT for commercial use'
    return f'{model.name}: licence {model.licence}, {use}'


def _origin(model: Model) -> str:
    if isinstance(model.source, OfficialUrl):
        return model.source.url
    return f'the wheel {model.source.wheel.distribution} {model.source.wheel.version}'


def _wrong_hash(model: Model, found: str) -> str:
    return f'has sha256 {found} instead of {model.sha256}'


def _publish(staged: Path, path: Path) -> None:
    """Move a complete file into place, so that a power cut leaves the old one or the new one."""
    with staged.open('rb') as file:
        os.fsync(file.fileno())
    staged.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_abandoned_staging(folder: Path) -> None:
    """Remove what fetches left behind that were killed before they could clean up."""
    for staging in folder.glob(f'{STAGING_PREFIX}*'):
        pid = staging.name.removeprefix(STAGING_PREFIX)
        # In containers the same few process ids come again: one's own is another's remains.
        if pid.isdecimal() and (int(pid) == os.getpid() or not _alive(int(pid))):
            shutil.rmtree(staging, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open('rb') as file:
        for chunk in _chunks(file):
            digest.update(chunk)
    return digest.hexdigest()
