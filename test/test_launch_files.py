"""What can be known of launch, parameter and RViz files without launch and RViz."""

import ast
from pathlib import Path
import sys

import pytest
from rcl_interfaces.srv import GetParameters
from ros_client import call
from ros_client import ros_network
from ros_client import running
import yaml

from niom_ros.installation import share_folder
from niom_ros.parameters import MATCHER_PARAMETERS
from niom_ros.parameters import VIRTUAL_CAMERA_PARAMETERS

LAUNCH_FILE = share_folder() / 'launch/matcher.launch.py'


def calls_of(name):
    """Return the keyword arguments of all calls of a function in the launch file."""
    tree = ast.parse(LAUNCH_FILE.read_text())
    return [
        (call.args, {keyword.arg: keyword.value for keyword in call.keywords})
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, 'id', '') == name
    ]


def launch_arguments():
    """Return name, default and description of each argument."""
    return [
        (
            ast.literal_eval(args[0]),
            shown_path(keywords['default_value']),
            ast.literal_eval(keywords['description']),
        )
        for args, keywords in calls_of('DeclareLaunchArgument')
    ]


def shown_path(value):
    """Return a default as the README shows it: files relative to the package's share folder."""
    if isinstance(value, ast.Constant):
        return value.value
    return '/'.join(part.value for part in value.args[0].elts[1:])


def readme_table(readme, heading):
    """Return the rows of the first table below a heading, as lists of cells."""
    section = readme.split(f'# {heading}\n', 1)[1].split('\n#', 1)[0]
    lines = [line for line in section.splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line.strip('|').split(' | ')] for line in lines[2:]]


def test_arguments_are_those_of_the_readme(clone):
    rows = readme_table((clone / 'README.md').read_text(), 'Launch arguments')
    assert [(name.strip('`'), default.strip('`'), what) for name, default, what in rows] == (
        launch_arguments()
    )


def test_every_declared_argument_is_used():
    used = {ast.literal_eval(args[0]) for args, _ in calls_of('LaunchConfiguration')}
    assert used == {name for name, _, _ in launch_arguments()}


def test_executables_exist():
    nodes = [keywords for _, keywords in calls_of('Node')]
    ours = [
        ast.literal_eval(keywords['executable'])
        for keywords in nodes
        if ast.literal_eval(keywords['package']) == 'niom_ros'
    ]
    assert ours == ['matcher_node', 'virtual_camera']
    for executable in ours:
        assert (Path(sys.prefix) / 'lib/niom_ros' / executable).is_file()


def test_files_exist_where_they_are_installed():
    joined = [args[0].elts[1:] for args, _ in calls_of('PathJoinSubstitution')]
    names = ['/'.join(ast.literal_eval(part) for part in parts) for parts in joined]
    assert names == ['config/matcher.yaml', 'config/virtual_camera.yaml', 'rviz/matcher.rviz']
    for name in names:
        assert (Path(sys.prefix) / 'share/niom_ros' / name).is_file()


def test_rviz_shows_topics_that_exist(clone):
    configuration = yaml.safe_load((share_folder() / 'rviz/matcher.rviz').read_text())
    displays = configuration['Visualization Manager']['Displays']
    assert {display['Class'] for display in displays} == {'rviz_default_plugins/Image'}
    for display, topic in zip(displays, ('debug_image', 'heatmap_image'), strict=True):
        assert display['Topic']['Value'] == f'/matcher/{topic}'
        assert f'`~/{topic}`' in (clone / 'README.md').read_text()


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
    defaults = {parameter.name: parameter.default for parameter in table}
    for name, value in content[node]['ros__parameters'].items():
        assert value == defaults[name], f'{name} in {file} is not the default'


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
