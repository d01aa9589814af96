"""What can be known of launch, parameter and RViz files without launch and RViz."""

import ast
from dataclasses import replace
import os
from pathlib import Path
import sys
from types import SimpleNamespace

import pytest
from rcl_interfaces.srv import GetParameters
from rclpy.exceptions import InvalidNamespaceException
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.validate_namespace import validate_namespace
from ros_client import call, ros_network, running, spin_until
import yaml

from niom_ros.benchmarks.evaluation.methods import method_named
from niom_ros.core.installation import share_folder
from niom_ros.core.parameters import (
    MATCHER_PARAMETERS,
    options_of,
    settings_of,
    VIRTUAL_CAMERA_PARAMETERS,
)
from niom_ros.core.settings import Options, Settings
from niom_ros.nodes.lifetime import WRONG_SETTINGS

LAUNCH_FOLDER = share_folder() / 'launch'
MATCHER = 'matcher.launch.py'
SEVERAL_CAMERAS = 'several_cameras.launch.py'
README_HEADINGS = {MATCHER: 'Launch arguments', SEVERAL_CAMERAS: 'Several cameras'}


def calls_of(name, file):
    """Return the arguments, positional and by keyword, of all calls of a function in a file."""
    tree = ast.parse((LAUNCH_FOLDER / file).read_text())
    return [
        (call.args, {keyword.arg: keyword.value for keyword in call.keywords})
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, 'id', '') == name
    ]


def declared_rows(file):
    """Return name, default, choices if any, and description of each argument of a launch file."""
    tree = ast.parse((LAUNCH_FOLDER / file).read_text())
    values = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    for row in values['ARGUMENTS'].elts:
        name, default, *choices, description = row.elts
        allowed = [values.get(getattr(node, 'id', ''), node) for node in choices]
        yield (
            ast.literal_eval(name),
            shown_default(default),
            [choice for node in allowed for choice in ast.literal_eval(node) or []],
            ast.literal_eval(description),
        )


def launch_arguments(file):
    """Return name, default, choices and description of each argument, as the README shows them."""
    return [
        (f'`{name}`', f'`{default}`', ', '.join(choices), description)
        for name, default, choices, description in declared_rows(file)
    ]


def shown_default(value):
    """Return a default as the README shows it: files relative to the package's share folder."""
    if isinstance(value, ast.Constant):
        return value.value or "''"
    return '/'.join(part.value for part in value.args[0].elts[1:])


def declared(file):
    """Return the names of all arguments of a launch file."""
    return {name for name, *_ in declared_rows(file)}


def used(file):
    """Return the names of all arguments whose value a launch file takes."""
    return {ast.literal_eval(args[0]) for args, _ in calls_of('LaunchConfiguration', file)}


def node_called(executable):
    """Return what the launch file of the matcher says about one of its nodes."""
    nodes = [keywords for _, keywords in calls_of('Node', MATCHER)]
    return next(
        keywords for keywords in nodes if ast.literal_eval(keywords['executable']) == executable
    )


def readme_table(readme, heading):
    """Return the rows of the first table below a heading, as lists of cells."""
    section = readme.split(f'# {heading}\n', 1)[1].split('\n#', 1)[0]
    lines = [line for line in section.splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in lines[2:]]


def test_all_launch_files_are_tested_here():
    assert {file.name for file in LAUNCH_FOLDER.glob('*.py')} == set(README_HEADINGS)


@pytest.mark.parametrize('file', README_HEADINGS)
def test_arguments_are_those_of_the_readme(file, clone):
    rows = readme_table((clone / 'README.md').read_text(), README_HEADINGS[file])
    assert [tuple(row) for row in rows] == launch_arguments(file)


@pytest.mark.parametrize('file', README_HEADINGS)
def test_every_argument_has_a_default_that_is_allowed_and_a_description(file):
    for name, default, choices, description in declared_rows(file):
        assert description.endswith('.'), name
        if default in ('true', 'false'):
            assert choices == ['true', 'false'], name
        assert not choices or default in choices, name


@pytest.mark.parametrize(
    ('file', 'columns'),
    [
        (MATCHER, ['name', 'default', 'choices', 'description']),
        (SEVERAL_CAMERAS, ['name', 'default', 'description']),
    ],
)
def test_every_row_of_the_table_is_declared(file, columns):
    ((args, keywords),) = calls_of('DeclareLaunchArgument', file)
    assert [value.id for value in (*args, *keywords.values())] == columns


def test_every_declared_argument_is_used():
    assert used(MATCHER) == declared(MATCHER)
    # What it does not use itself, it declares for the launch file that it includes.
    assert used(SEVERAL_CAMERAS) == declared(SEVERAL_CAMERAS) - declared(MATCHER)


def test_a_camera_is_given_its_namespace_and_nothing_else():
    (_, include), *others = calls_of('IncludeLaunchDescription', SEVERAL_CAMERAS)
    assert not others
    given = include['launch_arguments'].func.value  # the dictionary of `{...}.items()`
    assert [ast.literal_eval(key) for key in given.keys] == ['namespace']
    assert 'namespace' in declared(MATCHER) - declared(SEVERAL_CAMERAS)


@pytest.fixture(scope='module')
def camera_names():
    return function_of(SEVERAL_CAMERAS, 'camera_names', validate_namespace=validate_namespace)


def function_of(file, name, **names):
    """Return a function of a launch file, with what it needs of launch in place of the real one.

    launch is not to be had without ROS; `colcon test` uses the real one.
    """
    tree = ast.parse((LAUNCH_FOLDER / file).read_text())
    tree.body = [node for node in tree.body if getattr(node, 'name', '') == name]
    exec(compile(tree, file, 'exec'), names)
    return names[name]


@pytest.mark.parametrize(
    ('cameras', 'names'),
    [
        ('left,right', ['left', 'right']),
        ('left, right', ['left', 'right']),
        ('top', ['top']),
        ('cell_1/left,cell_2/left', ['cell_1/left', 'cell_2/left']),
    ],
)
def test_cameras_are_separated_by_commas(cameras, names, camera_names):
    assert camera_names(cameras) == names


OURS = 'share/config/fastdds_large_images.xml'
VARIABLE, OTHER_VARIABLE = 'FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE'


@pytest.mark.parametrize(
    ('environment', 'sets', 'says'),
    [
        ({}, [(VARIABLE, OURS)], f'uses the profile {OURS}, for large images'),
        ({VARIABLE: '/opt/own.xml'}, [], 'uses your profile /opt/own.xml'),
        ({OTHER_VARIABLE: '/opt/own.xml'}, [], 'uses your profile /opt/own.xml'),
        ({VARIABLE: OURS}, [], None),  # set for another camera already
    ],
)
def test_large_images_are_delivered_unless_the_user_has_a_profile(environment, sets, says):
    use_large_images = function_of(
        MATCHER,
        'use_large_images',
        SHARE='share',
        PROFILE_VARIABLES=(VARIABLE, OTHER_VARIABLE),
        PathJoinSubstitution=lambda parts: SimpleNamespace(perform=lambda _: '/'.join(parts)),
        SetEnvironmentVariable=lambda name, value: (name, value),
        LogInfo=lambda msg: msg,
    )
    actions = use_large_images(SimpleNamespace(environment=environment))
    assert [action for action in actions if isinstance(action, tuple)] == sets
    told = [action for action in actions if isinstance(action, str)]
    assert len(told) == (says is not None)
    assert says is None or says in told[0]


def test_wrong_settings_end_the_launch_and_other_failures_do_not():
    end = function_of(MATCHER, 'end_if_settings_are_wrong', os=os, Shutdown=lambda reason: reason)
    for code in (0, 1, -9):
        assert end(SimpleNamespace(returncode=code), None) == []
    (reason,) = end(SimpleNamespace(returncode=WRONG_SETTINGS), None)
    assert 'cannot start with these settings' in reason


@pytest.mark.parametrize('cameras', ['', ',', 'left,', 'left,left', 'left,2nd', 'a-b', '/left'])
def test_cameras_that_cannot_be_namespaces_are_refused(cameras, camera_names):
    with pytest.raises((ValueError, InvalidNamespaceException)):
        camera_names(cameras)


def test_executables_exist():
    nodes = [keywords for _, keywords in calls_of('Node', MATCHER)]
    ours = [
        ast.literal_eval(keywords['executable'])
        for keywords in nodes
        if ast.literal_eval(keywords['package']) == 'niom_ros'
    ]
    assert ours == ['matcher_node', 'virtual_camera']
    for executable in ours:
        assert (Path(sys.prefix) / 'lib/niom_ros' / executable).is_file()


@pytest.mark.parametrize(
    ('file', 'expected'),
    [
        (
            MATCHER,
            [
                'config/fastdds_large_images.xml',
                'config/matcher.yaml',
                'config/virtual_camera.yaml',
                'rviz/matcher.rviz',
            ],
        ),
        (SEVERAL_CAMERAS, ['launch/matcher.launch.py']),
    ],
)
def test_files_exist_where_they_are_installed(file, expected):
    joined = [args[0].elts[1:] for args, _ in calls_of('PathJoinSubstitution', file)]
    names = ['/'.join(ast.literal_eval(part) for part in parts) for parts in joined]
    assert sorted(names) == expected
    for name in names:
        assert (Path(sys.prefix) / 'share/niom_ros' / name).is_file()


def test_all_nodes_are_started_in_the_namespace():
    for executable in ('matcher_node', 'virtual_camera', 'rviz2'):
        assert node_called(executable)['namespace'].id == 'namespace'


def test_a_matcher_that_ends_at_once_is_not_started_again_at_once():
    assert ast.literal_eval(node_called('matcher_node')['respawn_delay']) >= 1.0


def test_the_default_frame_of_rviz_is_that_of_the_demo_camera():
    defaults = {name: default for name, default, *_ in launch_arguments(MATCHER)}
    table = {parameter.name: parameter.default for parameter in VIRTUAL_CAMERA_PARAMETERS}
    assert defaults['`camera_frame`'] == f'`{table["frame_id"]}`'


RVIZ_TYPES = {
    'rviz_default_plugins/Image': 'sensor_msgs/Image',
    'rviz_default_plugins/MarkerArray': 'visualization_msgs/MarkerArray',
    'rviz_default_plugins/PoseWithCovariance': 'geometry_msgs/PoseWithCovarianceStamped',
}


def rviz_topics():
    """Return topic, type and durability of everything that RViz is set up to show."""
    configuration = yaml.safe_load((share_folder() / 'rviz/matcher.rviz').read_text())
    displays = configuration['Visualization Manager']['Displays']
    return {
        (
            display['Topic']['Value'],
            RVIZ_TYPES[display['Class']],
            display['Topic']['Durability Policy'],
        )
        for display in displays
        if 'Topic' in display
    }


def test_rviz_shows_what_the_running_node_offers(tmp_path):
    arguments = ('-r', '__ns:=/cell')
    with ros_network() as node, running('matcher_node', tmp_path / 'log.txt', *arguments):

        def offered():
            return {
                topic.removeprefix('/cell/')
                for topic, _ in node.get_publisher_names_and_types_by_node('matcher', '/cell')
            }

        spin_until(
            node,
            lambda: (
                ('matcher', '/cell') in node.get_node_names_and_namespaces()
                and 'matcher/pose' in offered()
            ),
            'the topics of the matcher',
        )
        for topic, kind, durability in rviz_topics():
            # Relative, so that RViz resolves it in the namespace in which it is started.
            absolute = f'/cell/{topic}'
            spin_until(node, lambda name=absolute: node.count_publishers(name), absolute)
            (publisher,) = node.get_publishers_info_by_topic(absolute)
            assert publisher.topic_type.replace('/msg/', '/') == kind
            latched = publisher.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
            assert latched == (durability == 'Transient Local')
            assert publisher.qos_profile.reliability == ReliabilityPolicy.RELIABLE
        shown = {topic for topic, _, _ in rviz_topics()}
        pictures = {topic for topic in offered() if topic.endswith('_image')}
        assert pictures <= shown
        assert {'matcher/markers', 'matcher/pose'} <= shown


@pytest.mark.parametrize(
    ('file', 'node', 'table'),
    [
        ('matcher.yaml', '/**/matcher', MATCHER_PARAMETERS),
        ('virtual_camera.yaml', '/**/virtual_camera', VIRTUAL_CAMERA_PARAMETERS),
    ],
)
def test_parameter_files_name_parameters_that_exist(file, node, table):
    content = yaml.safe_load((share_folder() / 'config' / file).read_text())
    assert list(content) == [node]
    known = {each.name: each.default for each in table}
    for name, value in content[node]['ros__parameters'].items():
        assert value == known[name], f'{name} in {file} is not the default'


def test_the_preset_plain_is_what_niom_eval_calls_plain():
    content = yaml.safe_load((share_folder() / 'config/plain.yaml').read_text())
    preset = content['/**/matcher']['ros__parameters']
    table = {parameter.name: parameter for parameter in MATCHER_PARAMETERS}
    assert all(table[name].problem_with(value) == '' for name, value in preset.items())
    values = {each.name: each.default for each in MATCHER_PARAMETERS} | preset
    plain = method_named('plain', Settings(), Options())
    # The preset also leaves out strategies to come; today, the others do not apply.
    chosen = replace(plain.options, strategies=None, wanted='same_object')
    assert options_of(values) == chosen
    # No detector: nothing that it could see would be used.
    assert settings_of(values) == replace(plain.settings, detector='none')


def test_the_real_node_reads_the_parameter_file(tmp_path):
    text = (share_folder() / 'config/matcher.yaml').read_text()
    changed = text.replace('min_inliers: 20', 'min_inliers: 33')
    assert changed != text
    (tmp_path / 'matcher.yaml').write_text(changed)
    arguments = ('--params-file', str(tmp_path / 'matcher.yaml'))
    names = list(yaml.safe_load(changed)['/**/matcher']['ros__parameters'])
    with ros_network() as node, running('matcher_node', tmp_path / 'log.txt', *arguments):
        request = GetParameters.Request(names=names)
        answer = call(node, GetParameters, 'matcher/get_parameters', request)
    values = dict(zip(names, answer.values, strict=True))
    assert values['min_inliers'].integer_value == 33
    assert values['extractor'].string_value == 'aliked'
    assert values['max_keypoints'].integer_value == 1024


def test_a_section_for_one_camera_counts_if_it_comes_later(tmp_path):
    sections = {
        '/**/virtual_camera': {'ros__parameters': {'width': 320, 'height': 200}},
        '/left/virtual_camera': {'ros__parameters': {'width': 160}},
        '/right/virtual_camera': {'ros__parameters': {'height': 100}},
    }
    (tmp_path / 'cameras.yaml').write_text(yaml.safe_dump(sections, sort_keys=False))
    arguments = ('-r', '__ns:=/left', '--params-file', str(tmp_path / 'cameras.yaml'))
    with ros_network() as node, running('virtual_camera', tmp_path / 'log.txt', *arguments):
        request = GetParameters.Request(names=['width', 'height'])
        answer = call(node, GetParameters, 'left/virtual_camera/get_parameters', request)
    assert [value.integer_value for value in answer.values] == [160, 200]
