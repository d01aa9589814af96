"""What the README lists is what the running node offers."""

from fnmatch import fnmatch
import re

import pytest
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters
from ros_client import call, ros_network, running, spin_until
from test_launch_files import readme_table

from niom_ros.benchmarks.evaluation.command import BENCHMARKS
from niom_ros.benchmarks.evaluation.methods import CLASSICAL, PRESETS
from niom_ros.benchmarks.speed.findings import KEYS
from niom_ros.cli.main import BENCH_OPTIONS, BENCH_PARTS, main
from niom_ros.core.parameters import MATCHER_PARAMETERS, VIRTUAL_CAMERA_PARAMETERS
from niom_ros.core.plugins import REGISTRIES
from niom_ros.models.table import MODELS

NODES = {'matcher_node': 'matcher', 'virtual_camera': 'virtual_camera'}
PARAMETERS = {
    'matcher_node': MATCHER_PARAMETERS,
    'virtual_camera': VIRTUAL_CAMERA_PARAMETERS,
}
# Without the plug-ins that somebody may have installed
BUILT_IN = {registry.kind: registry.built_in for registry in REGISTRIES}
HEADINGS = {'matcher_node': 'Matcher', 'virtual_camera': 'Virtual camera'}

# Every node of ROS 2 has these, and those with a lifecycle some services more.
STANDARD_TOPICS = {'/rosout', '/parameter_events'}
STANDARD_PARAMETERS = {'use_sim_time', 'start_type_description_service'}


@pytest.fixture(scope='module')
def readme(clone):
    return (clone / 'README.md').read_text()


@pytest.fixture(scope='module', params=NODES)
def offered(request, tmp_path_factory):
    """Run a node and return what it offers: topics, services, parameters."""
    executable, name = request.param, NODES[request.param]
    log = tmp_path_factory.mktemp(name) / 'log.txt'
    with ros_network() as node, running(executable, log):
        spin_until(node, lambda: (name, '/') in node.get_node_names_and_namespaces(), name)
        listed = call(node, ListParameters, f'{name}/list_parameters', ListParameters.Request())
        names = sorted(set(listed.result.names) - STANDARD_PARAMETERS)
        descriptors = call(
            node,
            DescribeParameters,
            f'{name}/describe_parameters',
            DescribeParameters.Request(names=names),
        ).descriptors
        values = call(
            node, GetParameters, f'{name}/get_parameters', GetParameters.Request(names=names)
        ).values

        def interfaces():
            found = set()
            for direction, query in (
                ('in', node.get_subscriber_names_and_types_by_node),
                ('out', node.get_publisher_names_and_types_by_node),
                ('srv', node.get_service_names_and_types_by_node),
            ):
                for topic, (kind,) in query(name, '/'):
                    standard = topic in STANDARD_TOPICS or re.search(
                        r'/(\w+_)?parameter(s|_types|s_atomically)$|type_description$'
                        r'|/(change_state|get_(available_)?(state|states|transitions))$'
                        r'|/(get_transition_graph|transition_event)$',
                        topic,
                    )
                    if not standard:
                        short = topic.replace(f'/{name}/', '~/').removeprefix('/')
                        found.add((direction, short, re.sub('/(msg|srv)/', '/', kind)))
            return found

        documented = interfaces_in((request.config.rootpath / 'README.md').read_text(), executable)
        spin_until(node, lambda: interfaces() >= documented, f'{documented}')
        yield executable, interfaces(), dict(zip(names, descriptors, strict=True)), values


def interfaces_in(readme, executable):
    rows = readme_table(readme, f'{HEADINGS[executable]}: topics and services')
    return {(row[0], row[1].strip('`').removeprefix('/'), row[2]) for row in rows}


def test_topics_and_services(offered, readme):
    executable, interfaces, _, _ = offered
    assert interfaces == interfaces_in(readme, executable)


def test_the_running_node_has_the_parameters_of_the_table(offered):
    executable, _, descriptors, values = offered
    table = {parameter.name: parameter for parameter in PARAMETERS[executable]}
    assert set(descriptors) == set(table)
    for value, (name, descriptor) in zip(values, descriptors.items(), strict=True):
        assert descriptor.description == table[name].description
        assert descriptor.read_only is (executable == 'virtual_camera')
        given = {
            bool: value.bool_value,
            int: value.integer_value,
            float: value.double_value,
            str: value.string_value,
            tuple: tuple(value.string_array_value),
        }[type(table[name].default)]
        assert given == table[name].default


def shown(parameter):
    if parameter.name in BUILT_IN:
        allowed = ', '.join(BUILT_IN[parameter.name])
    elif parameter.choices:
        allowed = parameter.listed_choices()
    elif parameter.minimum is not None:
        allowed = f'{parameter.minimum:.10g} to {parameter.maximum:.10g}'
    else:
        allowed = ''
    default = repr('') if parameter.default == '' else str(parameter.default)
    if isinstance(parameter.default, bool):
        default = default.lower()
    if isinstance(parameter.default, tuple):
        default = str(list(parameter.default))
    live = 'start' if parameter.at_start else 'yes' if parameter.live else 'no'
    return [f'`{parameter.name}`', f'`{default}`', allowed, live, parameter.description]


@pytest.mark.parametrize('executable', NODES)
def test_the_readme_lists_the_parameters(executable, readme):
    rows = readme_table(readme, f'{HEADINGS[executable]}: parameters')
    assert rows == [shown(parameter) for parameter in PARAMETERS[executable]]


def test_the_readme_lists_the_models(readme):
    rows = readme_table(readme, 'Models')
    assert [row[0] for row in rows] == [f'`{model.name}`' for model in MODELS]
    for row, model in zip(rows, MODELS, strict=True):
        assert row[2] == model.licence
        assert row[3] == ('yes' if model.commercial else 'no')
        assert row[4] == ('yes' if model.default else 'no')


def test_the_readme_lists_the_statuses(readme, clone):
    rows = readme_table(readme, 'When it says OK')
    constants = re.findall(
        r'^uint8 (\w+) = (\d+)', (clone / 'msg/Homography.msg').read_text().split('# How')[0], re.M
    )
    assert [(row[1].strip('`'), row[0]) for row in rows] == constants


def test_the_readme_lists_the_benchmarks(readme):
    rows = readme_table(readme, 'Benchmarks')
    assert [row[0] for row in rows] == [f'`{kind.name}`' for kind in BENCHMARKS]
    for row, kind in zip(rows, BENCHMARKS, strict=True):
        patterns = re.findall(r'`(.+?)`', row[1])
        for folder in kind.folders:
            assert any(fnmatch(folder, pattern) for pattern in patterns), (kind.name, folder)
        assert f'`{kind.main_metric}`' in row[3]


def test_the_readme_says_what_belongs_into_each_folder_of_the_data(readme):
    rows = readme_table(readme, 'Benchmark data')
    listed = [row[0].strip('`') for row in rows]
    assert set(listed) == {folder for kind in BENCHMARKS for folder in kind.folders}


def test_the_readme_lists_the_methods(readme):
    rows = readme_table(readme, 'Methods')
    named = {name for row in rows for cell in row for name in re.findall(r'`(.+?)`', cell)}
    assert named == {*PRESETS, *CLASSICAL}


def test_the_readme_lists_what_niom_bench_tells(readme):
    rows = readme_table(readme, 'How fast it is')
    keys = [row for row in rows if row[0].strip('`') in KEYS]
    assert keys == [[f'`{key}`', meaning] for key, meaning in KEYS.items()]
    listed = {name for row in rows for name in re.findall(r'`--(\w+)', row[0])}
    with_options = {'json', 'quick', 'parts', 'rounds', 'threads'}
    assert listed == with_options | {parameter.name for parameter in BENCH_OPTIONS}
    for part in BENCH_PARTS:
        assert f'`{part}`' in readme


def test_commands_in_the_readme_exist(readme, capsys):
    commands = set(re.findall(r'`?niom (\w+)', readme))
    assert {'match', 'demo', 'models'} <= commands
    with pytest.raises(SystemExit):
        main(['--help'])
    listed = capsys.readouterr().out
    for command in commands:
        assert re.search(rf'^\s+{command}\b', listed, re.M), f'niom {command} does not exist'


def test_make_targets_in_the_readme_exist(readme, clone):
    makefile = (clone / 'Makefile').read_text()
    for target in set(re.findall(r'`make ([a-z-]+)', readme)):
        assert re.search(rf'^{target}:', makefile, re.M), f'make {target} does not exist'


def test_files_linked_in_the_readme_exist(readme, clone):
    for path in re.findall(r'\]\(([^)#:]+)\)', readme):
        assert (clone / path).exists(), path


def test_every_picture_and_file_that_it_links_is_there(readme, clone):
    links = re.findall(r'\]\(([^)#]+)\)', readme)
    assert 'rviz/edges_image.jpg' in links
    for link in links:
        assert '://' in link or (clone / link).exists(), link
