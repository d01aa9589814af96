"""What the README promises to those who use niom_ros from Python."""

import math
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

import niom_ros
from niom_ros import (
    CameraModel,
    Limits,
    Matcher,
    read_image,
    Reference,
    Settings,
    Stream,
    StreamOptions,
    UserError,
)
from niom_ros.simulation.virtual_scene import DEMO_PHOTO, example_photo, VirtualScene


@pytest.fixture(scope='module')
def snippets(clone):
    section = (clone / 'README.md').read_text().split('## From Python\n')[1].split('\n## ')[0]
    return re.findall(r'```python\n(.*?)```', section, re.DOTALL)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Return a folder with the files that the snippets read."""
    folder = tmp_path_factory.mktemp('files')
    photo = example_photo(DEMO_PHOTO)
    scene = VirtualScene(photo, example_photo('gravel'))
    cv2.imwrite(str(folder / 'sketch.png'), photo[..., ::-1])
    cv2.imwrite(str(folder / 'photo.jpg'), scene.view(8.0, 0).image[..., ::-1])
    video = cv2.VideoWriter(
        str(folder / 'video.mp4'),
        cv2.VideoWriter.fourcc(*'mp4v'),
        10.0,
        (scene.width, scene.height),
    )
    for number in range(6):
        video.write(scene.view(8 + number / 30, number).image[..., ::-1])
    video.release()
    return folder


def run(snippet, folder):
    finished = subprocess.run(
        [sys.executable, '-c', snippet], cwd=folder, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def test_two_images_in_eight_lines(snippets, folder):
    snippet = snippets[0]
    assert len([line for line in snippet.splitlines() if line]) <= 8
    said = run(snippet, folder)
    assert said[0].startswith('OK ') and 'confidence' in said[0]
    assert said[1].startswith('[[') and len(said) == 4


def test_a_video_in_twelve_lines(snippets, folder):
    snippet = snippets[1]
    assert len([line for line in snippet.splitlines() if line]) <= 12
    said = run(snippet, folder)
    assert [line.split()[0] for line in said[::2]] == ['matched'] + ['tracked'] * 5
    assert all(line.startswith("[('handle', ") for line in said[1::2])


def test_every_promised_name_is_there_and_in_the_readme(clone):
    readme = (clone / 'README.md').read_text().split('## From Python\n')[1].split('\n## ')[0]
    rows = [line for line in readme.splitlines() if line.startswith('| `')]
    listed = {name for row in rows for name in re.findall(r'`(\w+)`', row.split('|')[1])}
    assert listed == set(niom_ros.__all__) == set(dir(niom_ros))
    for name in niom_ros.__all__:
        assert getattr(niom_ros, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Pipeline'"):
        _ = niom_ros.Pipeline


def test_importing_the_package_imports_nothing_heavy():
    script = 'import sys, niom_ros; assert not {"torch", "numpy", "cv2"} & set(sys.modules)'
    subprocess.run([sys.executable, '-c', script], check=True)


def test_the_package_is_typed(clone):
    assert (clone / 'niom_ros/py.typed').is_file()


@pytest.mark.parametrize(
    ('image', 'words'),
    [
        ('cup.png', 'is a str: give a NumPy array, as read_image returns it'),
        (np.zeros((40, 60), np.uint8), r'of uint8 with shape \(40, 60\): give RGB pixels'),
        (np.zeros((40, 60, 3)), 'of float64'),
        (np.zeros((40, 60, 4), np.uint8), 'height x width x 3'),
    ],
)
def test_what_is_no_picture_is_refused_with_the_remedy(image, words, cup):
    matcher, prepared = cup
    for use in (
        lambda: Reference(image),
        lambda: matcher.prepare(image),
        lambda: matcher.match(prepared, image),
        lambda: Stream(matcher, [prepared]).answer(image),
    ):
        with pytest.raises(UserError, match=words):
            use()


@pytest.fixture(scope='module')
def cup(coffee):
    matcher = Matcher(Settings(device='cpu', max_keypoints=128, detector='none'))
    return matcher, matcher.prepare(coffee)


def test_other_bad_input_is_a_user_error_too(cup, coffee, tmp_path):
    matcher, prepared = cup
    for use, words in (
        (lambda: read_image(tmp_path / 'none.png'), 'none.png'),
        (lambda: Settings(extractor='nobody'), "unknown extractor 'nobody': use one of aliked"),
        (lambda: Stream(matcher).answer(np.zeros((40, 60, 3), np.uint8)), 'no references'),
        (lambda: matcher.prepare(np.zeros((99, 99, 3), np.uint8)), 'has only 0 distinct points'),
        (lambda: matcher.match(Reference(coffee), coffee), 'give what Matcher.prepare returns'),
        (lambda: matcher.match(coffee, coffee), 'a ndarray cannot be matched'),
        (lambda: Stream(matcher, [Reference(coffee)]), 'a Reference cannot be matched'),
        (lambda: Stream(matcher, [prepared]).answer(coffee, math.nan), 'give seconds'),
        (lambda: StreamOptions(rotation=45), "unknown rotation '45': use one of 0, 90, 180, 270"),
        (lambda: StreamOptions(landmark_mode='all'), "unknown landmark_mode 'all'"),
        (lambda: StreamOptions(match_interval=-1), 'match_interval is -1'),
        (lambda: Limits(min_confidence=7), 'min_confidence is 7: it must be between 0 and 1'),
        (lambda: Settings(extra_strategies=('nobody',)), "unknown strategy 'nobody'"),
    ):
        with pytest.raises(UserError, match=words):
            use()


def test_one_reference_may_be_given_without_a_list(cup, coffee):
    matcher, prepared = cup
    assert Stream(matcher, prepared).answer(coffee).found


def test_with_a_camera_and_a_width_the_answer_has_a_pose(cup, coffee):
    matcher, _ = cup
    scene = VirtualScene(coffee, example_photo('gravel'))
    camera = CameraModel((scene.width, scene.height), scene.camera_matrix(), np.zeros(5))
    reference = matcher.prepare(Reference(coffee, physical_width=0.3))
    answer = Stream(matcher, [reference], camera=camera).answer(scene.view(8.0, 0).image)
    _, shift = scene.pose(8.0)
    truth = 0.3 * shift
    assert np.linalg.norm(answer.pose.translation - truth) < 0.03 * np.linalg.norm(truth)
    without = Stream(matcher, [reference]).answer(scene.view(8.0, 0).image)
    assert without.pose is None and without.no_pose == 'no calibrated camera is given'


def test_a_type_checker_knows_the_names(tmp_path):
    script = tmp_path / 'uses.py'
    script.write_text(
        'from niom_ros import Macher, Matcher\n'
        'matcher = Matcher()\n'
        'reveal_type(matcher.match(matcher.prepare(matcher), 3).confidence)\n'
    )
    command = [sys.executable, '-m', 'mypy', '--cache-dir', str(tmp_path / 'cache'), str(script)]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert 'has no attribute "Macher"' in said
    assert 'Argument 1 to "prepare" of "Matcher" has incompatible type "Matcher"' in said
    assert 'Revealed type is "float"' in said or 'Revealed type is "builtins.float"' in said
