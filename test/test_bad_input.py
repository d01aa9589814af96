"""Whatever comes in is refused with a reason, in bounded memory: the short form of the fuzz."""

from array import array
import math
import os
from pathlib import Path
import re
import subprocess
import sys
import time

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

CLONE = Path(__file__).resolve().parent.parent
FUZZ = CLONE / 'test/fuzz'
sys.path.insert(0, str(FUZZ))

import camera_messages  # noqa: E402
from niom_ros.srv import SetReference  # noqa: E402
import pictures  # noqa: E402
import reference_yaml  # noqa: E402
import run  # noqa: E402
from sensor_msgs.msg import CompressedImage  # noqa: E402
from sensor_msgs.msg import Image as RawImage  # noqa: E402

from niom_ros.core.parameters import MATCHER_PARAMETERS  # noqa: E402
from niom_ros.images.camera_images import message_to_rgb  # noqa: E402
from niom_ros.images.decoding import ImageError  # noqa: E402
from niom_ros.images.pages.reading import ReadPicture  # noqa: E402
from niom_ros.matching.reference import BadReference  # noqa: E402
from niom_ros.nodes.reference_request import check_request, given_reference  # noqa: E402
from niom_ros.references import folder  # noqa: E402
from niom_ros.references.folder import read_reference  # noqa: E402

INPUTS = 150


@pytest.fixture(scope='module')
def lines(tmp_path_factory):
    """Run every target of the fuzz on seeds with random damage."""
    failures = tmp_path_factory.mktemp('failures')
    done = subprocess.run(
        [sys.executable, FUZZ / 'run.py', '--inputs', str(INPUTS), '--failures', failures],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}


def test_every_target_takes_all_inputs_in_bounded_memory(lines):
    assert set(lines) == set(run.WATCHED)
    for target, how, inputs, _, megabytes, result in lines.values():
        assert how == 'random'
        assert int(inputs) == (20 if target == 'pdf_pages' else INPUTS)  # these take a second
        assert int(megabytes) <= run.MAX_MEMORY
        assert result == 'fine'


def test_each_file_of_the_fuzz_is_a_target():
    shared = {'chosen', 'pictures', 'run'}
    assert {file.stem for file in FUZZ.glob('*.py')} - shared == set(run.WATCHED)


def test_a_target_that_fails_is_told_and_its_input_kept(tmp_path, monkeypatch):
    """The runner itself: an exception that is no UserError must not pass."""
    broken = tmp_path / 'fuzz'
    broken.mkdir()
    for file in FUZZ.glob('*.py'):
        (broken / file.name).write_bytes(file.read_bytes())
    target = broken / 'model_store.py'
    target.write_text(
        re.sub(r'(def attempt.*\n)', r'\1    assert data != RIGHT\n', target.read_text())
    )
    done = subprocess.run(
        [sys.executable, broken / 'run.py', '--inputs', '20', '--target', 'model_store',
         '--failures', tmp_path / 'failures'],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert 'FAILED' in done.stdout and 'AssertionError' in done.stdout
    assert (tmp_path / 'failures/model_store').read_bytes() == b'the right file'


def long_form(*arguments, **environment):
    return subprocess.run(
        [sys.executable, FUZZ / 'run.py', *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_long_form_is_guided_and_says_so(tmp_path):
    done = long_form('--target', 'parameters', '--seconds', '2', '--failures', tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    target, how, inputs, *_, result = done.stdout.splitlines()[-1].split()
    assert (target, how, result) == ('parameters', 'guided', 'fine')
    assert int(inputs) >= 100


def test_the_long_form_fails_where_nothing_can_guide_it(tmp_path):
    (tmp_path / 'atheris.py').write_text('raise ImportError')
    path = os.pathsep.join([str(tmp_path), os.environ.get('PYTHONPATH', '')])
    done = long_form('--failures', tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert 'cannot be imported: run make setup' in done.stdout
    assert 'fine' not in done.stdout


@pytest.mark.parametrize(
    ('each', 'arguments', 'short'),
    [
        (12_499, [], True),
        (12_500, [], False),
        (10, ['--inputs', '10'], False),
        (10, ['--target', 'bags'], False),
    ],
)
def test_the_long_form_fails_if_it_tries_too_little(monkeypatch, capsys, each, arguments, short):
    monkeypatch.setattr(run, 'run_target', lambda *_: (True, each))
    monkeypatch.setattr(sys, 'argv', ['run.py', *arguments])
    assert run.main() == int(short)
    words = "99992 inputs in all, and 100000 are wanted: give it more time, make fuzz ARGS='--sec"
    assert (words in capsys.readouterr().out) == short


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_camera_message(data):
    camera_messages.attempt(data)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(reference_yaml.seeds()), st.binary(max_size=20), st.integers(0, 300))
def test_any_bytes_are_a_reference_file(seed, inserted, place):
    reference_yaml.attempt(seed[:place] + inserted + seed[place:])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([each for each in MATCHER_PARAMETERS if each.minimum is not None]),
    st.floats() | st.integers(),
)
def test_a_number_is_taken_exactly_when_it_lies_in_its_range(parameter, value):
    inside = not math.isnan(value) and parameter.minimum <= value <= parameter.maximum
    assert (parameter.problem_with(value) == '') == inside


@pytest.mark.parametrize(
    ('data', 'words'),
    [
        (pictures.png(60_000, 60_000), 'more pixels than the limit|60000 x 60000'),
        (pictures.gif_of(60_000), 'more pixels than the limit|60000 x 60000'),
        (pictures.tiff_of(60_000), 'more pixels than the limit|60000 x 60000'),
    ],
)
def test_a_picture_that_claims_too_much_is_refused(data, words):
    with pytest.raises(ImageError, match=words):
        message_to_rgb(CompressedImage(data=array('B', data)))


def test_yaml_that_grows_is_refused(tmp_path):
    file = tmp_path / 'a.yaml'
    file.write_bytes(reference_yaml.seeds()[7])
    with pytest.raises(BadReference, match='write them out'):
        read_reference(file)


@pytest.mark.parametrize(
    'content', [b'[' * 1_500, b'[' * 10**6, b'{[' * 10**5, b'\0['.join([b''] * 99)]
)
def test_nested_yaml_is_refused_before_it_is_parsed(tmp_path, monkeypatch, content):
    """Found by the fuzz: PyYAML took more than a second for 1500 brackets, and 20 s if watched."""
    monkeypatch.setattr(folder, 'plain_yaml', lambda _: pytest.fail('it was parsed'))
    file = tmp_path / 'a.yaml'
    file.write_bytes(content)
    with pytest.raises(BadReference, match='more than 20 nested brackets'):
        read_reference(file)


def test_a_description_may_have_many_brackets_but_not_in_each_other(tmp_path):
    file = tmp_path / 'a.yaml'
    (tmp_path / 'a.png').write_bytes(pictures.damaged_pictures()[0])
    marks = ', '.join(f'"[{number}": [1, 2]' for number in range(15))
    file.write_text(f'image: a.png\nlandmarks: {{{marks}}}\nlabel: "]]]]"')
    assert len(read_reference(file).landmarks) == 15


@pytest.mark.parametrize(
    ('fields', 'words'),
    [
        (
            {
                'landmark_names': ['a'] * 10**6,
                'landmark_x': array('f', bytes(4 * 10**6)),
                'landmark_y': array('f', bytes(4 * 10**6)),
            },
            'at most 1000',
        ),
        ({'landmark_names': ['a'], 'landmark_x': [math.nan], 'landmark_y': [1.0]}, 'outside'),
        ({'label': 'x' * 10**6}, 'at most 256'),
        ({'id': 'x' * 10**6}, 'at most 256'),
    ],
)
def test_a_call_that_says_too_much_is_refused_in_a_moment(fields, words):
    request = SetReference.Request(**({'id': 'cup', 'use_current_frame': True} | fields))
    picture = ReadPicture(np.zeros((40, 60, 3), np.uint8))
    begin = time.monotonic()
    with pytest.raises(BadReference, match=words) as refused:
        check_request(request)
        given_reference(request, picture)
    assert time.monotonic() - begin < 10
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(('step', 'more'), [(100_000, 0), (192, 10**7)])
def test_a_reference_keeps_its_pixels_and_nothing_else_of_the_call(step, more):
    """Rows with padding, and bytes behind the last row, could hold any amount of memory."""
    padded = bytes(range(192)) + bytes(step - 192)
    shared = {'width': 64, 'height': 64, 'step': step}
    picture = RawImage(encoding='rgb8', data=array('B', padded * 64 + bytes(more)), **shared)
    mask = RawImage(encoding='mono8', data=array('B', padded * 64 + bytes(more)), **shared)
    request = SetReference.Request(image=picture, mask=mask)
    given = given_reference(request, ReadPicture(message_to_rgb(request.image)))
    assert given.image.tobytes() == bytes(range(192)) * 64
    for kept in (given.image, given.mask):
        assert kept.base is None and kept.flags.owndata
