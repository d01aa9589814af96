"""`niom match` and `niom demo` as a user types them."""

import json
import os
from pathlib import Path
import re
import subprocess
import sys

from alike_pictures import picture, wall
import cv2
import numpy as np
import pytest
import yaml

from niom_ros.cli.main import main
from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.matching.geometry import corner_error
from niom_ros.simulation.virtual_scene import example_photo

NIOM = Path(sys.prefix) / 'bin/niom'
FEW = ('--max-keypoints', '512', '--device', 'cpu')


@pytest.fixture
def view_file(scene, tmp_path):
    path = tmp_path / 'view.png'
    cv2.imwrite(str(path), scene.view(8.0, 0).image[..., ::-1])
    return path


def test_match_says_draws_and_writes_it(coffee_file, view_file, scene, tmp_path, capsys):
    drawn, result_file = tmp_path / 'picture.png', tmp_path / 'result.json'
    command = ['match', coffee_file, view_file, '-o', drawn, '--json', result_file]
    assert main([*map(str, command), '--max-keypoints', '512']) == 0
    assert 'OK:' in capsys.readouterr().out
    report = cv2.imread(str(drawn))
    assert report.shape[1] > 1000 and report.shape[0] > 700
    result = json.loads(result_file.read_text())
    assert result['status'] == 'OK'
    found = np.array(result['reference_to_image'])
    truth = scene.view(8.0, 0).picture_to_image
    assert corner_error(found, truth, Box(0, 0, *result['reference_size'])) < 3
    assert len(result['scores']) == len(result['inliers']) == len(result['image_points'])


def test_a_reference_is_described_as_in_the_service(
    coffee_file, view_file, scene, tmp_path, capsys
):
    """Region, mask, landmarks and objects, by options and by a YAML file with the same names."""
    mask = np.zeros((400, 600), np.uint8)
    mask[20:380, 100:500] = 255
    cv2.imwrite(str(tmp_path / 'mask.png'), mask)
    drawn, result_file = tmp_path / 'new/folder/picture.png', tmp_path / 'result.json'
    command = ['match', coffee_file, view_file, '-o', drawn, '--json', result_file]
    about = '--region 100 20 400 360 --landmark rim 290 60 --landmark spoon 362 305 --kind photo'
    marked = ['--object', 'espresso cup', '150', '40', '250', '250']
    files = ['--mask', tmp_path / 'mask.png']
    assert main([*map(str, [*command, *about.split(), *marked, *files]), *FEW]) == 0
    assert drawn.is_file()
    places = np.array([[290.0, 60.0], [362.0, 305.0]])
    truth = warp_points(scene.view(8.0, 0).picture_to_image, places)
    result = json.loads(result_file.read_text())
    found = np.array([[mark['x'], mark['y']] for mark in result['landmarks']])
    assert [mark['name'] for mark in result['landmarks']] == ['rim', 'spoon']
    assert np.linalg.norm(found - truth, axis=1).max() < 3
    inside = np.array(result['reference_points'])
    assert (inside.min(axis=0) >= [99, 19]).all() and inside[:, 0].max() <= 500
    assert [each['label'] for each in result['reference_objects']] == ['espresso cup']
    rim = next(line for line in capsys.readouterr().out.splitlines() if line.startswith('  rim'))
    assert float(rim.split()[1]) == pytest.approx(found[0, 0], abs=0.1)

    described = tmp_path / 'cup.yaml'
    described.write_text(
        yaml.safe_dump(
            {
                'image': str(coffee_file),
                'kind': 'photo',
                'region': [100, 20, 400, 360],
                'landmarks': {'rim': [290, 60], 'spoon': [0, 0]},
            }
        )
    )
    again = ['match', described, view_file, '--json', result_file]
    assert main([*map(str, again), *FEW]) == 0
    first = json.loads(result_file.read_text())['landmarks'][0]
    assert first['x'] == pytest.approx(found[0, 0], abs=1)
    # An option replaces a field.
    assert main([*map(str, again), '--landmark', 'handle', '226', '275', *FEW]) == 0
    assert [m['name'] for m in json.loads(result_file.read_text())['landmarks']] == ['handle']


def test_an_object_that_is_only_alike_is_exit_code_4(tmp_path, capsys):
    files = [tmp_path / 'clock.png', tmp_path / 'wall.png']
    for file, pixels in zip(files, (picture('clock'), wall()), strict=True):
        cv2.imwrite(str(file), pixels[..., ::-1])
    asked = ['match', *map(str, files), '--device', 'cpu', '--max-keypoints', '256']
    assert main(asked) == 4
    said = capsys.readouterr().out
    assert said.startswith('ALIKE: another object of its kind') and 'homography' not in said
    assert main([*asked, '--wanted', 'same_object']) == 3


@pytest.mark.parametrize('command', ['match', 'replay'])
def test_the_help_tells_the_exit_codes(command, capsys):
    with pytest.raises(SystemExit):
        main([command, '--help'])
    said = ' '.join(capsys.readouterr().out.split())
    assert re.search('exit code: 0 if .* found.*, 4 if only .* kind .*, 3 if neither, 1', said)


def test_a_reference_that_is_not_there_is_exit_code_3(coffee_file, tmp_path, capsys):
    other = tmp_path / 'other.png'
    cv2.imwrite(str(other), example_photo('astronaut')[..., ::-1])
    code = main(['match', str(coffee_file), str(other), '--max-keypoints', '256'])
    assert code == 3
    assert 'OK' not in capsys.readouterr().out


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['missing.png', 'GOOD'], 'there is no file missing.png'),
        (['GOOD', '.'], 'is a folder'),
        (['GOOD', 'GOOD', '--extractor', 'sift'], "extractor is 'sift': use one of aliked"),
        (['GOOD', 'GOOD', '--device', 'tpu'], "device is 'tpu': use one of auto"),
        (['GOOD', 'GOOD', '--max-keypoints', '-1'], 'max_keypoints is -1'),
        (['GOOD', 'GOOD', '-o', 'picture.xyz'], 'use the ending .png or .jpg'),
        (['GOOD', 'GOOD', '-o', 'GOOD/a.png'], 'cannot write'),
        (['GOOD', 'GOOD', '--json', '.'], 'cannot write .: it is a folder'),
        (['GOOD', 'GOOD', '--landmark', 'rim', '5', 'x'], "--landmark has 'x'"),
        (['GOOD', 'GOOD', '--landmark', 'rim', '5', '900'], 'rim'),
        (['GOOD', 'GOOD', '--region', '0', '0', '9000', '9'], 'region'),
        (['GOOD', 'GOOD', '--kind', 'poem'], "kind is 'poem': use one of"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, words, coffee_file, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [argument.replace('GOOD', str(coffee_file)) for argument in arguments]
    assert main(['match', *given]) == 1
    error = capsys.readouterr().err
    assert error.startswith('niom: ')
    assert words in error
    assert len(error.splitlines()) == 1


def test_niom_runs_from_any_folder_with_nothing_sourced(tmp_path):
    finished = subprocess.run(
        [NIOM, '--version'], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert finished.stdout.startswith('niom ')


def run_demo(folder, results='6', output='out', **variables):
    return subprocess.run(
        [NIOM, 'demo', '--results', results, '-o', folder / output],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_demo_finds_what_the_sketch_shows(tmp_path):
    finished = run_demo(tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    summary = json.loads((tmp_path / 'out/summary.json').read_text())
    assert summary['results'] >= 5
    assert summary['statuses'].get('OK', 0) >= 0.8 * summary['results']
    assert summary['mean corner error in px'] < 12
    assert summary['mean landmark error in px'] < 8
    assert summary['mean position error in mm'] < 30
    for kind in ('debug', 'overlay', 'heatmap'):
        pictures = list((tmp_path / 'out').glob(f'{kind}_image_*.png'))
        assert pictures
        assert all(cv2.imread(str(picture)) is not None for picture in pictures)


def test_the_demo_fails_when_matching_does_not_work(tmp_path):
    finished = run_demo(tmp_path, NIOM_MODELS=str(tmp_path / 'no models'))
    assert finished.returncode == 1
    assert 'niom models fetch aliked-n16' in finished.stderr


def test_the_demo_refuses_what_it_cannot_do(tmp_path):
    (tmp_path / 'file').write_text('')
    nothing = run_demo(tmp_path, results='0')
    assert (nothing.returncode, nothing.stdout) == (1, '')
    assert nothing.stderr == 'niom: --results is 0: it must be 1 or more\n'
    blocked = run_demo(tmp_path, output='file/out')
    assert blocked.returncode == 1
    assert 'cannot write to the folder' in blocked.stderr
    assert len(blocked.stderr.splitlines()) == 1
