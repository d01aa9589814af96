"""What the README promises to those who use niom_ros from Python."""

import ast
from dataclasses import is_dataclass
import inspect
import math
import re
import subprocess
import sys
from typing import get_args, get_type_hints

import cv2
import numpy as np
import pytest

import niom_ros
from niom_ros import (
    Area,
    Box,
    CameraModel,
    Landmark,
    Limits,
    MarkedObject,
    Matcher,
    Options,
    plugins,
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


# Plug-ins


def test_every_name_for_plug_ins_is_there_documented_and_in_the_readme(clone):
    readme = (clone / 'README.md').read_text().split('### Plug-ins\n')[1].split('\n## ')[0]
    table = readme.split('| name in `niom_ros.plugins` |')[1].split('\n\n')[0]
    rows = [line for line in table.splitlines() if line.startswith('| `')]
    listed = [name for row in rows for name in re.findall(r'`(\w+)`', row.split('|')[1])]
    assert sorted(listed) == plugins.__all__ == dir(plugins)
    assert not set(plugins.__all__) & set(niom_ros.__all__)
    for name in plugins.__all__:
        offered = getattr(plugins, name)
        assert offered.__name__ == name
        assert offered.__doc__ and not offered.__doc__.startswith(f'{name}(')  # as by dataclass
    with pytest.raises(AttributeError, match="no attribute 'Pipeline'"):
        _ = plugins.Pipeline


def ours_in(annotation):
    """Return our own classes in the annotation of a field or parameter."""
    parts = {part for inner in get_args(annotation) for part in ours_in(inner)}
    ours = getattr(annotation, '__module__', '').startswith('niom_ros.')
    return parts | {annotation} if ours and isinstance(annotation, type) else parts


@pytest.mark.parametrize(
    'name', [name for name in plugins.__all__ if name not in ('ImageAnalysis', 'Perception')]
)
def test_plug_ins_meet_only_classes_that_they_can_import(name):
    public = {getattr(niom_ros, each) for each in niom_ros.__all__}
    public |= {getattr(plugins, each) for each in plugins.__all__}
    offered = getattr(plugins, name)
    hints = list(get_type_hints(offered).values()) if is_dataclass(offered) else []
    if getattr(offered, '_is_protocol', False):
        methods = [each for each in vars(offered).values() if inspect.isfunction(each)]
        hints += [hint for each in methods for hint in get_type_hints(each).values()]
    assert {each for hint in hints for each in ours_in(hint)} <= public


def test_the_example_of_plug_ins_imports_only_what_is_public(clone):
    files = list((clone / 'test/plugin_example/acme_niom').glob('*.py'))
    imports = [
        node.module
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    ours = {module for module in imports if module.startswith('niom_ros')}
    assert ours == {'niom_ros', 'niom_ros.plugins'}


def test_importing_the_package_imports_nothing_heavy():
    script = (
        'import sys, niom_ros.plugins; assert not {"torch", "numpy", "cv2"} & set(sys.modules)'
    )
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
        (lambda: Settings(max_keypoints='512'), "max_keypoints is '512'.*give a whole number"),
        (lambda: Limits(min_inliers=None), 'min_inliers is None .*give a whole number'),
        (lambda: Options(weighting='sew'), "weighting is 'sew' .*give a Weighting"),
        (lambda: StreamOptions(Limits()), 'matching is of type Limits: give an Options'),
        (lambda: Options(strategies=('nobody',)), "unknown strategy 'nobody'"),
        (lambda: Stream(matcher, [prepared], Options()), 'give a StreamOptions'),
        (lambda: matcher.match(prepared, coffee, StreamOptions()), 'give an Options'),
        (lambda: Stream(matcher, [prepared]).follow(coffee), 'the frame is an array of uint8'),
        (lambda: matcher.match(prepared, coffee[:0]), 'the image is empty'),
        (lambda: read_image(None), 'the path is None'),
        (lambda: read_image(tmp_path, page='1'), "the page is '1'"),
        (lambda: Reference(coffee, id=None), 'id is None .*give a text'),
        (lambda: Reference(coffee, label=5), 'label is 5 '),
        (lambda: Reference(coffee, physical_width='0.3'), "physical_width is '0.3'"),
        (lambda: Reference(coffee, landmarks=[('a', 1, 2)]), 'each item a Landmark'),
        (lambda: Reference(coffee, landmarks=Landmark('a', 1, 2)), 'landmarks is .*give a list'),
        (lambda: Landmark('a', '1', 2), "x is '1'"),
        (lambda: Reference(coffee, region=(0, 0, 9, 9)), 'give a Box or None'),
        (lambda: Reference(coffee, region=Box(0, 0, 9.5, 9)), 'width is 9.5'),
        (lambda: Reference(coffee, mask=[[1]]), 'mask is .*give a NumPy array or None'),
        (lambda: Reference(coffee, mask=np.ones(9, np.uint8)), 'give height x width'),
        (lambda: Reference(coffee, mask=np.ones(coffee.shape[:2])), 'as uint8 or bool'),
        (lambda: CameraModel((9, 9), np.eye(4), []), 'the matrix of a camera must be 3 x 3'),
        (lambda: CameraModel((9, 9), np.diag([0, 0, 1]), []), 'focal lengths'),
        (lambda: CameraModel((9, 9), np.eye(3), 'none'), 'the distortion of a camera'),
        (lambda: CameraModel(9, np.eye(3), []), 'expected_size is 9'),
    ):
        with pytest.raises(UserError, match=words):
            use()


def test_a_calibration_for_images_of_another_size_is_refused(cup, coffee):
    matcher, prepared = cup
    camera = CameraModel((640, 480), np.diag([500, 500, 1]), [])
    with pytest.raises(UserError, match='640 x 480 images, but the camera sends 600 x 400'):
        Stream(matcher, [prepared], camera=camera).answer(coffee)


def test_a_calibration_may_be_given_as_lists():
    camera = CameraModel([9, 9], [[5, 0, 4], [0, 5, 4], [0, 0, 1]], [0.1, 0, 0, 0])
    assert camera.rays(np.array([[4.0, 4.0]])) == pytest.approx(np.zeros((1, 2)))
    assert camera != CameraModel([9, 9], camera.matrix, camera.distortion)


def test_region_and_mask_may_be_boolean_and_given_as_numpy_numbers(coffee):
    left = np.int64(100)
    mask = np.zeros(coffee.shape[:2], bool)
    mask[:, :150] = True
    given = Reference(
        coffee, region=Box(left, 0, 100, 50), mask=mask, physical_width=np.float32(1)
    )
    assert np.count_nonzero(given.counting_mask()) == 50 * 50


def test_an_object_of_the_reference_may_be_marked(cup, coffee):
    matcher, _ = cup
    marked = MarkedObject('espresso', Area(200, 50, 300, 150))
    prepared = matcher.prepare(Reference(coffee, objects=[marked]))
    assert [seen.label for seen in prepared.scene.objects] == ['espresso']
    with pytest.raises(UserError, match='lies outside'):
        Reference(coffee, objects=[MarkedObject('espresso', Area(700, 50, 800, 150))])


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
        'from niom_ros.plugins import Detectr, Detector\n'
        'matcher = Matcher()\n'
        'reveal_type(matcher.match(matcher.prepare(matcher), 3).confidence)\n'
    )
    command = [sys.executable, '-m', 'mypy', '--cache-dir', str(tmp_path / 'cache'), str(script)]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert 'has no attribute "Macher"' in said
    assert 'has no attribute "Detectr"' in said
    assert 'Argument 1 to "prepare" of "Matcher" has incompatible type "Matcher"' in said
    assert 'Revealed type is "float"' in said or 'Revealed type is "builtins.float"' in said
