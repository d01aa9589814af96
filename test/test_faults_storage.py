"""Faults of the disk, and ends in the middle of writing: no reference is lost or half read."""

from contextlib import ExitStack
import os
import resource
import signal
import subprocess
import sys
from threading import Event, Thread
import time

from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
from niom_ros.srv import ListReferences, SelectReference, SetReference
import numpy as np
import pytest
from recorded_film import Film, status_is
from recorder import Recorder
from ros_client import ros_network, running, spin_until
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.references.folder import read_reference, ReferenceFolder

UNFINISHED = '.*.unfinished'
PATIENCE = 60.0  # seconds

# Imports take a second, a fork takes none: so many more moments can be tried.
WRITERS = """
import os
from pathlib import Path
import random
import signal
import sys
import time
import numpy as np
from niom_ros.references.folder import read_reference
from niom_ros.references.folder import ReferenceFolder
from niom_ros.matching.reference import Reference

path, kills = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(7)


def picture(number):
    image = np.random.default_rng(number).integers(0, 256, (120, 160, 3), np.uint8)
    image[0, 0] = number % 256
    return image


def write_for_ever(first):
    folder = ReferenceFolder(path)
    folder.claim()
    number = first
    while True:
        number += 1
        mask = np.full((120, 160), 1 + number % 255, np.uint8) if number % 2 else None
        folder.write(Reference(picture(number), 'cup', label=str(number % 256), mask=mask))
        folder.write_selected('cup' if number % 2 else 'cat')
        folder.write(Reference(picture(number), 'cat', label=str(number % 256)))
        folder.remove('cat')


folder = ReferenceFolder(path)
folder.write(Reference(picture(1), 'cup', label='1'))
folder.write_selected('cup')
left_behind = 0
for kill in range(kills):
    child = os.fork()
    if child == 0:
        write_for_ever(kill * 1000)
    time.sleep(chance.uniform(0.001, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    names = {name: file for name, file in ReferenceFolder(path).files()}
    assert 'cup' in names and set(names) <= {'cup', 'cat'}, names
    for name, file in names.items():
        reference = read_reference(file)
        assert reference.image[0, 0, 0] == int(reference.label), name
    assert ReferenceFolder(path).selected() in ('cup', 'cat')
    left_behind += len(list(path.rglob('.*.unfinished')))
folder.claim()
assert not list(path.rglob('.*.unfinished'))
print(left_behind)
"""


def test_writers_killed_at_many_moments_leave_whole_references(tmp_path):
    command = [sys.executable, '-c', WRITERS, str(tmp_path), '40']
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, 'none was killed while it wrote a file: it tried nothing'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('references')


def keeping(folder):
    return ('-p', f'reference_folder:={folder}', '-p', 'keep_references:=true', *FAST)


@pytest.fixture(scope='module')
def network():
    with ros_network() as node:
        yield node


@pytest.fixture(scope='module')
def start(network, folder, tmp_path_factory):
    """Return a function that returns a matcher which keeps its references in the folder.

    It is the one of the test before, if that still runs: to start one takes seconds.
    """
    logs = tmp_path_factory.mktemp('logs')
    with ExitStack() as started:
        benches = []

        def start():
            if benches and benches[-1].process.poll() is None:
                return benches[-1]
            log = logs / f'{len(benches)}.txt'
            process = started.enter_context(running('matcher_node', log, *keeping(folder)))
            bench = Bench(network, process)
            bench.log = log
            bench.recorder = Recorder(network)
            benches.append(bench)
            spin_until(network, lambda: bench.state() == 'active', 'the matcher')
            return bench

        yield start


def listed(bench):
    answer = bench.call(ListReferences, 'list_references')
    assert answer.success, answer.message
    return answer


def limit_files(process, size):
    """Let a process write no file beyond a size: a disk that is full in the middle of a file."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))


def test_a_full_disk_refuses_and_loses_nothing_and_is_used_again_when_it_is_not(
    start, folder, scene, coffee
):
    bench = start()
    film = Film(bench, scene)
    picture = rgb_to_message(coffee, Header())
    answer = bench.set_reference(id='cup', image=picture)
    assert answer.success, answer.message
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3), np.uint8)
    before = sorted(file.name for file in folder.rglob('*'))
    limit_files(bench.process, 200_000)
    try:
        answer = bench.set_reference(id='noise', image=rgb_to_message(noise, Header()))
    finally:
        limit_files(bench.process, resource.RLIM_INFINITY)
    assert answer.error == SetReference.Response.STORAGE
    assert 'free space' in answer.message and "still looking for 'cup'" in answer.message
    assert sorted(file.name for file in folder.rglob('*')) == before
    limit_files(bench.process, 1)
    try:
        answer = bench.call(SelectReference, 'select_reference', id='cup')
    finally:
        limit_files(bench.process, resource.RLIM_INFINITY)
    assert answer.error == SelectReference.Response.STORAGE
    assert 'File too large): free space' in answer.message
    # The picture can be written, but not what is said about it.
    blocked = folder / '.noise.yaml.unfinished'
    blocked.mkdir()
    answer = bench.set_reference(id='noise', image=rgb_to_message(noise, Header()))
    assert answer.error == SetReference.Response.STORAGE
    blocked.rmdir()
    assert [info.id for info in listed(bench).references] == ['cup']
    film.show_until(status_is(Homography.OK))
    bench.recorder.check()
    # There is room again.
    answer = bench.set_reference(id='noise', image=rgb_to_message(noise, Header()))
    assert answer.success, answer.message
    assert [info.id for info in listed(bench).references] == ['cup', 'noise']
    assert bench.call(SelectReference, 'select_reference', id='cup').success
    assert len(list((folder / 'pictures').iterdir())) == 2


class Load:
    """Calls that set references, and a camera, in a thread until it is stopped."""

    def __init__(self, bench, scene):
        self._bench = bench
        self._stopped = Event()
        view = scene.view(0.0, 0)
        self._truth = view.picture_to_image
        self._image = rgb_to_message(view.image, Header())
        random = np.random.default_rng(3)
        # Noise is not compressed: its file is large, and takes a while to write.
        noise = random.integers(0, 256, (900, 1200, 3), np.uint8)
        self._request = SetReference.Request(
            id='noise', image=rgb_to_message(noise, Header()), keep_selection=True
        )
        self._client = bench.node.create_client(SetReference, f'{bench.name}/set_reference')
        assert self._client.wait_for_service(PATIENCE)
        self._thread = Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()
        self._bench.node.destroy_client(self._client)

    def _run(self):
        calls = []
        while not self._stopped.wait(1 / 30):
            # Noted in time: nothing is heard before the load ends.
            stamp = self._bench.publish(self._image)
            self._bench.recorder.note(stamp, self._truth)
            if sum(not call.done() for call in calls) < 3 and len(calls) < 20:
                calls.append(self._client.call_async(self._request))


def wait_for_a_file_being_written(folder):
    deadline = time.monotonic() + PATIENCE
    while not list(folder.rglob(UNFINISHED)):
        assert time.monotonic() < deadline, 'nothing was written'
        time.sleep(0.0005)


@pytest.mark.parametrize('ending', [signal.SIGKILL, signal.SIGTERM])
def test_a_node_that_ends_in_the_middle_of_writing_knows_all_when_it_starts_again(
    start, folder, ending, scene, coffee
):
    bench = start()
    bench.recorder.begin()
    answer = bench.set_reference(
        id='cup', label=ending.name, image=rgb_to_message(coffee, Header())
    )
    assert answer.success, answer.message
    with Load(bench, scene):
        wait_for_a_file_being_written(folder)
        bench.process.send_signal(ending)
        told = time.monotonic()
        code = bench.process.wait(timeout=20)
    assert code == (0 if ending == signal.SIGTERM else -signal.SIGKILL), bench.log.read_text()
    assert time.monotonic() - told < 10
    assert 'Traceback' not in bench.log.read_text()
    for _, file in ReferenceFolder(folder).files():
        read_reference(file)  # each is whole
    bench.recorder.check()
    bench.recorder.close()
    bench.close()
    again = start()
    known = {info.id: info for info in listed(again).references}
    assert known['cup'].label == ending.name
    assert listed(again).selected_id == 'cup'
    assert set(known) <= {'cup', 'noise'}
    assert 'left out' not in again.log.read_text()
    assert not list(folder.rglob(UNFINISHED))


def test_a_folder_that_cannot_be_written_is_told_at_the_start(network, tmp_path):
    file = tmp_path / 'a file'
    file.write_text('where a folder should be')
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, *keeping(file / 'below')) as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    assert f'cannot write to {file}/below (Not a directory): free space' in log.read_text()
    assert 'Traceback' not in log.read_text()
