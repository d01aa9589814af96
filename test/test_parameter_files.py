"""Mistakes in parameter files: what ROS is silent about is named at the start."""

import pytest
from ros_client import ros_network, running, spin_until
import yaml

from niom_ros.nodes.parameter_files import matches, mistakes_in_arguments

KNOWN = ('extractor', 'min_inliers', 'match_interval', 'threads')


def mistakes(tmp_path, content, node='/matcher'):
    file = tmp_path / 'given.yaml'
    file.write_text(yaml.safe_dump(content) if isinstance(content, dict) else content)
    arguments = ['matcher_node', '--ros-args', '--params-file', str(file)]
    return [
        text.replace(str(file), 'FILE') for text in mistakes_in_arguments(arguments, node, KNOWN)
    ]


def section(**given):
    return {'ros__parameters': given}


def test_an_unknown_parameter_is_named_with_the_most_similar_one(tmp_path):
    content = {'/**/matcher': section(extractr='aliked', min_inlier=5, threads=1, colour='red')}
    assert sorted(mistakes(tmp_path, content)) == [
        'there is no parameter colour, which FILE sets',
        'there is no parameter extractr, which FILE sets: did you mean extractor?',
        'there is no parameter min_inlier, which FILE sets: did you mean min_inliers?',
    ]


def test_a_file_for_other_nodes_only_is_told(tmp_path):
    content = {'/**/mather': section(threads=1), 'camera': section(rate=5.0)}
    assert mistakes(tmp_path, content) == [
        'FILE says nothing about /matcher: its sections are for /**/mather, /camera'
    ]


@pytest.mark.parametrize(
    'content',
    [
        {'/**': section(rate=5.0), 'matcher': section(threads=1)},  # rate is for another node
        {'matcher': section(use_sim_time=True, qos_overrides={'/image': {'depth': 1}})},
        {'camera': section(rate=5.0), '/**': section(threads=1)},
        'not: [valid',
        '[1, 2]',
        '',
    ],
)
def test_what_may_be_right_is_not_named(tmp_path, content):
    assert mistakes(tmp_path, content) == []


def test_namespaces_may_be_nested(tmp_path):
    content = {'left': {'matcher': section(thread=1), 'camera': section(rate=5.0)}}
    assert mistakes(tmp_path, content, '/left/matcher') == [
        'there is no parameter thread, which FILE sets: did you mean threads?'
    ]
    assert 'says nothing about /right/matcher' in mistakes(tmp_path, content, '/right/matcher')[0]


def test_the_command_line_is_looked_at_as_well():
    arguments = ['--ros-args', '-p', 'thread:=1', '-p', 'threads:=1', '-p', 'camera:rate:=5.0']
    assert list(mistakes_in_arguments(arguments, '/matcher', KNOWN)) == [
        'there is no parameter thread, which the command line sets: did you mean threads?'
    ]


@pytest.mark.parametrize(
    ('pattern', 'node', 'means'),
    [
        ('/**/matcher', '/matcher', True),
        ('/**/matcher', '/left/top/matcher', True),
        ('/*/matcher', '/left/matcher', True),
        ('/*/matcher', '/matcher', False),
        ('matcher', '/matcher', True),
        ('/**', '/anything', True),
        ('/left/matcher', '/right/matcher', False),
        ('/match.r', '/matcher', False),
    ],
)
def test_patterns_of_nodes(pattern, node, means):
    assert matches(pattern, node) is means


def test_a_node_warns_about_them_at_the_start(tmp_path):
    file, log = tmp_path / 'typos.yaml', tmp_path / 'log.txt'
    file.write_text(yaml.safe_dump({'/**/virtual_camera': section(hight=240, width=320)}))
    with ros_network() as node, running('virtual_camera', log, '--params-file', str(file)):
        spin_until(node, lambda: node.count_publishers('image'), 'the camera')
        spin_until(node, lambda: 'there is no parameter hight' in log.read_text(), 'a warning')
    (warning,) = [line for line in log.read_text().splitlines() if 'hight' in line]
    assert '[WARN]' in warning and 'did you mean height?' in warning
    assert 'width' not in warning
