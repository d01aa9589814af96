"""Plug-ins of another package, installed as its users would, found and used for real."""

from importlib.metadata import EntryPoint
import json
import os
import shutil
import subprocess
import sys

import cv2
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
import numpy as np
import pytest
from ros_client import ros_network, running
from std_msgs.msg import Header

from niom_ros.core import plugins
from niom_ros.core.boxes import Box
from niom_ros.core.parameters import parameters_of, settings_of
from niom_ros.core.plugins import EXTRACTORS, PluginError, REGISTRIES, Registry
from niom_ros.core.settings import Settings
from niom_ros.matching.features import ExtractorPlugin
from niom_ros.matching.geometry import corner_error
from niom_ros.models.plugins import Plugin
from niom_ros.models.store import ModelClash, ModelStore, State
from niom_ros.models.table import MODELS, models_named
from niom_ros.nodes.ros_messages import rgb_to_message

CUP = Box(0, 0, 600, 400)
NETWORKS = ('--keypoint-search', 'networks')  # without SIFT, so that plug-ins are needed
ACME = (
    *('--extractor', 'acme-sift', '--matcher', 'acme-closest', '--detector', 'acme-middle'),
    *NETWORKS,
)


@pytest.fixture(scope='module')
def acme(clone, tmp_path_factory):
    """Install the example package, and return its folder."""
    # From a copy, because setuptools writes into the folder it builds.
    sources = tmp_path_factory.mktemp('sources') / 'plugin_example'
    shutil.copytree(clone / 'test/plugin_example', sources)
    folder = tmp_path_factory.mktemp('installed')
    command = [sys.executable, '-m', 'pip', 'install', '-q', '--no-deps', '--no-build-isolation']
    subprocess.run([*command, '--target', folder, sources], check=True)
    return folder


@pytest.fixture(scope='module')
def with_acme(acme):
    """Let programs that are started from here find the example package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('PYTHONPATH', os.pathsep.join([str(acme), os.environ.get('PYTHONPATH', '')]))
        yield


@pytest.fixture(scope='module')
def with_label(with_acme, tmp_path_factory):
    """Fetch the model of the detector into a store that has ours, too."""
    folder = tmp_path_factory.mktemp('models')
    for model, state in ModelStore().check():
        if state is State.OK:
            (folder / model.file).symlink_to(ModelStore().path(model.name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NIOM_MODELS', str(folder))
        finished = niom('models', 'fetch', 'acme-label')
        assert finished.returncode == 0, finished.stderr
        yield finished


@pytest.fixture(scope='module')
def files(coffee, scene, tmp_path_factory):
    """Return a reference and an image that shows it."""
    folder = tmp_path_factory.mktemp('images')
    cv2.imwrite(str(folder / 'coffee.png'), coffee[..., ::-1])
    cv2.imwrite(str(folder / 'view.png'), scene.view(8.0, 0).image[..., ::-1])
    return folder / 'coffee.png', folder / 'view.png'


def niom(*arguments):
    command = [sys.executable, '-m', 'niom_ros.cli.main', *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_niom_match_finds_the_cup_with_plug_ins_of_others(with_label, files, scene, tmp_path):
    result_file = tmp_path / 'result.json'
    options = ('--label-embedder', 'acme-letters', '--weighting', 'sew', '--json', result_file)
    finished = niom('match', *files, *ACME, *options)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(result_file.read_text())
    assert result['method'] == 'acme-sift+acme-closest'
    found = np.array(result['reference_to_image'])
    assert corner_error(found, scene.view(8.0, 0).picture_to_image, CUP) < 5
    # The middle half of the 640 x 480 image, named by the model of the plug-in
    (seen,) = result['image_objects']
    assert seen == pytest.approx(
        {'label': 'teapot', 'score': 0.9, 'x': 160.5, 'y': 120.5, 'width': 320, 'height': 240}
    )
    assert result['image_weights_from'] == 'acme-middle: teapot'
    # Its weight range is 0.3, and points beside the middle get the least.
    assert min(result['image_weights']) == pytest.approx(0.7)


def test_a_strategy_of_others_is_asked_where_it_is_named(with_acme, coffee, tmp_path):
    reference, image = tmp_path / 'part.png', tmp_path / 'whole.png'
    cv2.imwrite(str(reference), coffee[100:300, 200:450, ::-1])
    cv2.imwrite(str(image), coffee[..., ::-1])
    quick = ('--max-keypoints', '512', '--detector', 'none')
    finished = niom('match', reference, image, *quick, '--extra-strategies', 'acme-template')
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith('OK: an exact copy was found')
    finished = niom('match', reference, image, *quick)
    assert finished.returncode == 0, finished.stderr
    assert 'recognised points agree' in finished.stdout


def test_the_node_finds_the_cup_with_plug_ins_of_others(with_label, coffee, scene, tmp_path):
    names = {
        'extractor': 'acme-sift',
        'matcher': 'acme-closest',
        'detector': 'acme-middle',
        'extra_strategies': 'acme-template',
        'keypoint_search': 'networks',
    }
    chosen = [word for name in names for word in ('-p', f'{name}:={names[name]}')]
    with (
        ros_network() as node,
        running('matcher_node', tmp_path / 'log.txt', *chosen, *FAST) as process,
    ):
        bench = Bench(node, process)
        bench.wait_until_connected()
        answer = bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()))
        assert answer.success, answer.message
        copy = bench.result_of(rgb_to_message(coffee, Header()))
        assert copy.status_message == 'an exact copy was found'
        view = scene.view(8.0, 0)
        result = bench.result_of(rgb_to_message(view.image, Header()))
        assert result.homography.status == Homography.OK, result.status_message
        found = np.array(result.homography.matrix).reshape(3, 3)
        assert corner_error(found, view.picture_to_image, CUP) < 5
        assert result.method == 'acme-sift+acme-closest'
        assert result.detector == 'acme-middle'
        # A broken one can be chosen, is refused with the reason, and can be left again.
        assert bench.change_state('deactivate') and bench.change_state('cleanup')
        assert bench.set_parameter('extractor', 'acme-import-error').successful
        assert not bench.change_state('configure')
        assert bench.set_parameter('extractor', 'acme-sift').successful
        assert bench.change_state('configure')
        refused = bench.set_parameter('extractor', 'acme-orb')
        assert 'acme-sift' in refused.reason and not refused.successful
        bench.close()
    log = (tmp_path / 'log.txt').read_text()
    assert (
        "'acme-import-error = acme_niom.broken:PLUGIN' (niom_ros.extractors) of acme-niom" in log
    )


REFUSED = [
    (
        ['--extractor', 'acme-import-error'],
        "extractor 'acme-import-error' cannot be used, because entry point 'acme-import-error "
        "= acme_niom.broken:PLUGIN' (niom_ros.extractors) of acme-niom 1.2 cannot be imported "
        "(ModuleNotFoundError: No module named 'acme_network_that_nobody_has'): fix or "
        'uninstall that package, or choose another extractor',
    ),
    (['--extractor', 'acme-wrong-kind'], 'is of class DetectorPlugin, not ExtractorPlugin'),
    (['--extractor', 'acme-other-name'], "calls itself 'acme-sift'"),
    (
        ['--extractor', 'acme-load-error', '--matcher', 'nearest'],
        'of acme-niom 1.2 cannot be loaded (RuntimeError: the licence server did not answer)',
    ),
    (
        ['--extractor', 'acme-loads-nothing', '--matcher', 'nearest'],
        'cannot be loaded (TypeError: load returned a NoneType',
    ),
    (
        ['--extractor', 'acme-call-error', '--matcher', 'nearest'],
        'of acme-niom 1.2 failed (ZeroDivisionError: no light): fix or uninstall that package',
    ),
    (['--extra-strategies', 'acme-fails'], "of acme-niom 1.2 failed (KeyError: 'part 7')"),
    (['--extractor', 'acme-sift'], "no weights for extractor 'acme-sift': use matcher 'near"),
    (['--matcher', 'acme-closest'], "only features of extractor 'acme-sift', not of 'aliked'"),
    (
        ['--label-embedder', 'acme-letters', '--clip-path', 'a.pt'],
        "label_embedder 'acme-letters' takes no clip_path: leave it empty, or choose a label",
    ),
    (['--label-embedder', 'open_clip'], 'set clip_path'),
    (
        ['--detector', 'acme-middle', '--detector-path', 'a.pt'],
        "'acme-middle' takes no detector_path",
    ),
    (['--extra-strategies', 'nobody'], "unknown strategy 'nobody': use one of classical, points"),
    (
        ['--extra-strategies', 'acme-no-strategy'],
        'cannot be loaded (TypeError: load returned a NoneType, not a Strategy)',
    ),
]
# All in one process, because each would import torch again.
REFUSALS_SCRIPT = """
import contextlib, io, json, sys
from niom_ros.cli.main import main
answers = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        answers.append([main(arguments), said.getvalue()])
print(json.dumps(answers))
"""


def test_what_cannot_be_used_is_explained_in_one_line(with_label, files):
    match = ('match', *map(str, files), *NETWORKS)
    commands = [[*match, *arguments] for arguments, _ in REFUSED]
    finished = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', REFUSALS_SCRIPT, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    for (code, said), (_, words) in zip(json.loads(finished.stdout), REFUSED, strict=True):
        assert words in said
        assert said.startswith('niom: ') and len(said.splitlines()) == 1
        assert code == 1


def test_a_missing_model_of_a_plug_in_names_the_command_that_brings_it(with_acme, files, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NIOM_MODELS', str(tmp_path))
        finished = niom('match', *files, *ACME)
    assert finished.returncode == 1
    assert 'run: niom models fetch acme-label' in finished.stderr


def test_the_defaults_work_beside_broken_plug_ins_and_one_that_takes_a_name(with_acme, files):
    finished = niom('match', *files, '--max-keypoints', '512')
    assert finished.returncode == 0
    assert finished.stdout.startswith('OK:')
    # The name aliked stays ours, and its user hears of it.
    assert "extractor 'aliked' is a part of niom_ros, so entry point 'aliked = acme_niom" in (
        finished.stderr
    )
    assert 'of acme-niom 1.2 is not used: rename that entry point' in finished.stderr


def test_models_of_plug_ins_are_listed_fetched_and_checked_with_their_licence(with_label):
    assert 'licence Acme, for our customers, NOT for commercial use' in with_label.stderr
    assert 'acme-label: fetched' in with_label.stderr
    listed = niom('models', 'list')
    names = [line.split()[0] for line in listed.stdout.split('\n\n')[0].splitlines()[1:]]
    assert names == [*(model.name for model in MODELS), 'acme-label']
    # Told once each, and nothing stops.
    assert listed.returncode == 0
    assert len(listed.stderr.splitlines()) == 4
    for words in ('acme-import-error', "calls itself 'acme-sift'", "'aliked' is a part of"):
        assert words in listed.stderr
    checked = niom('models', 'check')
    assert 'acme-label: ok' in checked.stdout


def test_niom_plugins_lists_all_and_says_what_is_broken(with_acme):
    finished = niom('plugins')
    assert finished.returncode == 1
    rows = [line.split() for line in finished.stdout.splitlines()[1:]]
    listed = {(row[0], row[1]) for row in rows}
    ours = {(registry.kind, name) for registry in REGISTRIES for name in registry.built_in}
    assert listed - ours == {
        ('extractor', 'acme-sift'),
        ('extractor', 'acme-load-error'),
        ('extractor', 'acme-loads-nothing'),
        ('extractor', 'acme-call-error'),
        ('matcher', 'acme-closest'),
        ('detector', 'acme-middle'),
        ('label_embedder', 'acme-letters'),
        ('strategy', 'acme-template'),
        ('strategy', 'acme-no-strategy'),
        ('strategy', 'acme-fails'),
    }
    assert ours <= listed
    assert 'Acme, for our customers    acme-niom 1.2  sees one thing' in finished.stdout
    assert len(finished.stderr.splitlines()) == 4
    assert 'is of class DetectorPlugin, not ExtractorPlugin' in finished.stderr


def test_names_are_known_without_importing_the_plug_ins_or_torch(with_acme):
    script = (
        'import sys\n'
        'from niom_ros.cli.main import main\n'
        'try:\n    main(["match", "--help"])\nexcept SystemExit:\n    pass\n'
        'print([name for name in sys.modules if name in ("torch", "numpy", "acme_niom")])\n'
    )
    finished = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert 'acme-sift' in finished.stdout and 'acme-letters' in finished.stdout
    assert finished.stdout.splitlines()[-1] == '[]'


@pytest.mark.parametrize(
    ('registry', 'name'),
    [(registry, name) for registry in REGISTRIES for name in registry.built_in],
    ids=lambda value: getattr(value, 'kind', value),
)
def test_each_of_ours_is_what_its_name_says(registry, name):
    plugin = registry.load(name, Plugin)
    assert plugin.name == name
    assert plugin.description and plugin.licence


def test_the_table_of_models_is_what_our_plug_ins_need():
    needed = {
        model.name
        for registry in REGISTRIES
        for name in registry.built_in
        for model in registry.load(name, Plugin).models
    }
    assert needed == {model.name for model in MODELS}


def test_a_name_that_two_packages_offer_is_nobodys():
    group = 'niom_ros.nothing'
    twins = [EntryPoint('twin', f'{module}:PLUGIN', group) for module in ('first', 'second')]
    registry = Registry('extractor', group, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, 'installed', lambda group: twins)
        assert registry.names == ('twin',)
        with pytest.raises(PluginError, match=r'more than once, by .*first.* and .*second'):
            registry.load('twin', ExtractorPlugin)


def test_a_plug_in_cannot_replace_a_model(tmp_path):
    (aliked,) = models_named('aliked-n16')
    store = ModelStore(tmp_path)
    assert store.with_models((aliked,)).models == store.models
    for changes in ({'sha256': '0' * 64}, {'name': 'other'}):
        with pytest.raises(ModelClash, match='give the model of the plug-in another name'):
            store.with_models((type(aliked)(**{**vars(aliked), **changes}),))


def test_only_what_is_chosen_is_imported():
    script = (
        'import sys\n'
        'from niom_ros.core.settings import Settings\n'
        'from niom_ros.matching.matcher import Matcher\n'
        'Matcher(Settings(device="cpu"))\n'
        'print(*(name for name in sys.modules if ".extractors." in name or ".detectors." in name))'
    )
    finished = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, check=True
    )
    imported = {name.rpartition('.')[2] for name in finished.stdout.split()}
    assert imported == {'aliked', 'darknet', 'grid_detector', 'loading', 'yolo'}
    assert set(EXTRACTORS.built_in) > {'aliked'}


def test_settings_and_parameters_mean_the_same():
    settings = Settings(extractor='disk', extra_strategies=('points', 'ink'))
    values = parameters_of(settings)
    assert values['extra_strategies'] == 'points,ink'
    assert settings_of(values) == settings
    assert settings_of(values | {'extra_strategies': ' ink ,'}).extra_strategies == ('ink',)
