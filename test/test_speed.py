"""`niom bench`: what it measures, on a clock that the tests turn and once for real."""

from dataclasses import replace
import json
import os
import time

import numpy as np
import pytest
import torch

from niom_ros.benchmarks.speed import command
from niom_ros.benchmarks.speed.alike import measure_alike
from niom_ros.benchmarks.speed.command import as_json, Plan, QUICK
from niom_ros.benchmarks.speed.comparison import compare, frame_seconds
from niom_ros.benchmarks.speed.counting import calls_of
from niom_ros.benchmarks.speed.drawing import measure_drawing
from niom_ros.benchmarks.speed.findings import Findings, KEYS, milliseconds, TextTable
from niom_ros.benchmarks.speed.growth import by_keypoints, by_objects, by_references, eight_photos
from niom_ros.benchmarks.speed.machine import machine, why_not_idle
from niom_ros.benchmarks.speed.matcher_speedup import agreement
from niom_ros.benchmarks.speed.node import cpu_seconds, measure_node, peak_memory
from niom_ros.benchmarks.speed.peers import PEERS
from niom_ros.benchmarks.speed.setup import BenchSetup
from niom_ros.benchmarks.speed.timing import interleaved, Lap, Spread
from niom_ros.benchmarks.speed.views import Attempt, demo_views, OF_REFERENCE
from niom_ros.cli.main import BENCH_PARTS, main
from niom_ros.core.settings import Options, Settings
from niom_ros.matching import found_parts
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.matcher import Matcher
from niom_ros.models.store import ModelStore
from niom_ros.simulation.virtual_scene import example_photo

SMALL = 320, 240
FEW = Settings(device='cpu', max_keypoints=192, max_image_side=320)


@pytest.fixture(scope='module')
def bench_setup():
    store = ModelStore()
    return BenchSetup(Matcher(FEW, store), FEW, store, rounds=1)


class Clock:
    """Stands still unless somebody turns it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


# Taking the time


def test_tasks_run_in_turn_and_the_first_round_only_warms_up():
    clock, order = Clock(), []

    def task(name, seconds):
        def run(number):
            order.append(f'{name}{number}')
            clock.now += seconds + number
            return name.upper()

        return run

    said = []
    laps = interleaved({'a': task('a', 1.0), 'b': task('b', 10.0)}, 2, clock, said.append)
    assert order == ['a0', 'b0', 'a1', 'b1', 'a2', 'b2']
    assert laps == {'a': [Lap(2.0, 'A'), Lap(3.0, 'A')], 'b': [Lap(11.0, 'B'), Lap(12.0, 'B')]}
    assert said[:3] == ['a, warming up', 'b, warming up', 'a, round 1 of 2']


def test_a_spread_is_the_median_between_quartiles():
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0, 1)
    assert str(Spread.of([1.0, 2.0])) == '1.500 [1.250 1.750]'
    assert milliseconds([0.001, 0.003]) == '2.0 [1.5 2.5]'


def test_ratios_are_those_of_the_same_round():
    # In the second round the machine was busy: both took ten times longer.
    assert Spread.of_ratios([2.0, 22.0, 3.0], [1.0, 10.0, 1.0]) == Spread(2.2, 2.1, 2.6, 3)


def test_a_frame_of_a_stream_costs_nothing_for_the_reference():
    attempt = Attempt(None, {f'extract{OF_REFERENCE}': 2.0, 'extract': 3.0, 'match': 4.0})
    assert frame_seconds([Lap(9.5, attempt)]) == [7.5]


# Whether matchers say the same


def correspondences(*pairs):
    points = np.array(pairs, np.float32)
    return Correspondences(points[:, :2], points[:, 2:], np.ones(len(points), np.float32))


def test_agreement_is_the_share_of_pairs_that_both_have():
    first = correspondences((1, 1, 5, 5), (2, 2, 6, 6), (3, 3, 7, 7))
    second = correspondences((3, 3, 7, 7.01), (1, 1, 5, 5), (2, 2, 9, 9))
    assert agreement(first, first) == 1
    assert agreement(first, second) == 2 / 4  # two are common, and each has one of its own
    assert agreement(first, Correspondences.none()) == 0
    assert agreement(Correspondences.none(), Correspondences.none()) == 1


# What is told about it


def test_findings_are_joined_and_the_first_has_the_say():
    first = Findings({'ratio': 1.5, 'by_size': {'1x1': 1}}, left_out={'a': 'why'})
    second = Findings({'ratio': 2.5, 'by_size': {'2x2': 2}}, left_out={'b': 'why'})
    both = first + second
    assert both.values == {'ratio': 1.5, 'by_size': {'1x1': 1, '2x2': 2}}
    assert both.left_out == {'a': 'why', 'b': 'why'}


def test_columns_of_a_table_are_below_each_other():
    table = TextTable('Title', ('a', 'long name'), [('value', '1'), ('x', '22')])
    assert str(table) == 'Title\n  a      long name\n  value  1\n  x      22'


def test_the_json_begins_with_the_keys_and_says_how_it_was_measured():
    values = {'by_size': {}, 'sew_overhead': 1.1, 'peers': {'sift': {}}}
    findings = Findings(values, left_out={'node_overhead': 'no ROS'})
    about = machine(FEW)
    content = as_json(findings, about, FEW, QUICK, ['bench', '--quick'])
    assert list(content) == ['sew_overhead', 'peers', 'left_out', 'how', 'by_size']
    assert content['left_out'] == {'node_overhead': 'no ROS'}
    how = content['how']
    assert how['image_sizes'] == ['640x480']
    assert how['rounds'] == 3
    assert how['machine']['threads'] == torch.get_num_threads()
    assert {'niom_ros', 'python', 'torch', 'numpy'} <= set(how['machine']['versions'])
    assert how['machine']['cpu']
    json.dumps(content)


def test_a_busy_machine_is_told():
    assert why_not_idle({'load_before': 0.9, 'cores': 2}) == ''
    assert 'load 3.0 on 2 cores' in why_not_idle({'load_before': 3.0, 'cores': 2})


# What is counted


def test_calls_are_noted_only_inside_the_block():
    class Counted:
        def plain(self, number):
            return number + 1

        @classmethod
        def made(cls, number):
            return cls, number

    counted = Counted()
    with calls_of(Counted, 'plain') as plain, calls_of(Counted, 'made') as made:
        assert counted.plain(1) == 2
        assert Counted.made(3) == (Counted, 3)
    assert counted.plain(5) == 6
    assert Counted.made(7) == (Counted, 7)
    assert plain == [(counted, 1)]
    assert made == [(Counted, 3)]


def test_the_processors_and_the_memory_of_a_process_are_known():
    own, spent = cpu_seconds(os.getpid()), time.process_time()
    assert own == pytest.approx(spent, abs=1.0)
    assert 10 < peak_memory(os.getpid()) < 1e6


# For real, but small


def test_everything_that_finds_the_photo_is_compared(bench_setup):
    found = compare(bench_setup, [SMALL])
    values = found.values
    assert not found.left_out
    assert {'sew_overhead', 'pair_over_stream', 'matcher_speedup'} <= set(values)
    assert 0.2 < values['sew_overhead'] < 20
    assert values['pair_over_stream'] > 0.2
    assert values['matcher_agreement'] > 0.95
    assert set(values['peers']) == set(PEERS)
    for judged in values['peers'].values():
        pair, frame = judged['seconds_per_pair'], judged['seconds_per_frame']
        assert 0 < frame['median'] < pair['median']
        assert pair['count'] == 1
        assert judged['right'] in (0, 1)
    at_size = values['by_size']['320x240']
    assert at_size['contestants']['stream with SEW']['right'] == 1
    assert at_size['weighted_frames'] == 1
    assert at_size['sew_overhead']['count'] == 2
    assert at_size['pair_over_stream']['count'] == 1
    sew, pairs = (at_size['stages'][name] for name in ('stream with SEW', 'loop over pairs'))
    assert {'extract', 'detect', 'pair', 'match', 'verify', 'rest', 'whole'} == set(sew)
    assert {'detect of reference', 'extract of reference', 'heat pictures'} <= set(pairs)
    shares = sum(spread['median'] for name, spread in pairs.items() if name != 'whole')
    assert shares == pytest.approx(pairs['whole']['median'])
    work = values['reference_work_per_frame']
    assert [work[what] for what in ('extraction', 'detection', 'heat_map')] == [0, 0, 0]
    assert set(values) <= {*KEYS, 'pair_over_stream_breakdown', 'matcher_agreement', 'by_size'}
    assert all(str(table) for table in found.tables)
    json.dumps(values)


def test_a_drawing_is_measured_in_its_first_frame_and_in_the_next(bench_setup):
    values = measure_drawing(bench_setup, SMALL).values['drawing']['320x240']
    assert {'edges', 'trace', 'whole'} <= set(values['first_frame']['stages'])
    assert {'edges', 'trace', 'whole'} <= set(values['next_frame']['stages'])


def test_alike_objects_are_measured_beside_full_matches(bench_setup):
    found = measure_alike(replace(bench_setup, rounds=2), SMALL)
    values = found.values['alike']['320x240']
    assert found.values['alike_over_full'] == values['alike_over_full']['median'] > 0
    assert values['alike_over_full']['count'] == 2
    assert 'alike / full match' in str(found.tables[0])
    assert found.values['reference_work_per_frame'] == {'parts': 0}
    assert not found.left_out
    assert 0 < values['tracked_over_very']['median'] < 10
    assert 'of its kind / the object itself' in str(found.tables[1])


def test_the_parts_of_a_reference_are_prepared_once_for_all_frames():
    matcher = Matcher(FEW)
    options = Options(wanted='same_kind')
    reference = matcher.prepare(example_photo('coffee'))
    with calls_of(found_parts, 'prepare_parts') as calls:
        for view in demo_views(SMALL, 2):
            assert matcher.match(reference, view.image, options).alike is not None
    assert len(calls) == 1
    other = matcher.prepare(example_photo('chelsea'))
    with calls_of(found_parts, 'prepare_parts') as calls:
        matcher.match_all([reference, other], matcher.analyse(view.image), options)
        matcher.match_all([reference, other], matcher.analyse(view.image), options)
    assert len(calls) == 1  # of the one that is new


def test_growth_is_measured_for_each_number(bench_setup):
    keypoints = by_keypoints(bench_setup, SMALL, (64, 128)).values['growth']
    assert keypoints['keypoints']['64']['keypoints_of_image']['median'] == 64
    assert set(keypoints['keypoints']) == {'64', '128'}
    references = by_references(bench_setup, SMALL, (1, 2)).values['growth']
    assert [entry['count'] for entry in references['references'].values()] == [1, 2]
    grids = {1: (1, 1), 2: (2, 1)}
    objects = by_objects(bench_setup, SMALL, grids).values['growth']
    assert set(objects) == {'objects', 'objects_by_gradients'}
    for entries in objects.values():
        assert list(entries) == ['1 cups', '2 cups']
        assert all(entry['count'] > 0 for entry in entries.values())


def test_the_eight_references_are_all_different():
    photos = eight_photos()
    assert len({photo.tobytes() for photo in photos}) == 8


def test_views_move_and_have_the_size(scene):
    first, second = demo_views(SMALL, 2)
    assert first.image.shape == (240, 320, 3)
    assert not np.allclose(first.picture_to_image, second.picture_to_image)


def test_the_node_is_measured_beside_the_library(bench_setup):
    found = measure_node(replace(bench_setup, rounds=2), SMALL, 1.0)
    node = found.values['node']['320x240']
    assert found.values['node_overhead'] == node['node_overhead']['median']
    assert node['node_overhead']['count'] == 2
    assert node['same_answers'] == 1
    assert 0.2 < found.values['node_overhead'] < 50
    assert 0 < node['to_publishing_seconds']['median'] < node['node_seconds']['median']
    for kind in ('only_matching', 'tracking'):
        assert node[kind]['results'] >= 5
        assert node[kind]['results_per_second'] > 0
        assert node[kind]['latency_seconds']['median'] <= node[kind]['latency_95_percent']
        assert node[kind]['cpu_seconds_per_result'] > 0
    assert node['only_matching']['tracked_share'] == 0 < node['tracking']['tracked_share']
    assert node['peak_memory_megabytes'] > 100
    # A wide bound: once, the track had to wait until three pictures were drawn.
    assert node['lock_on_with_pictures']['count'] == 2
    assert 0.1 < found.values['lock_on_with_pictures'] < 10
    assert all(0.01 < lock['median'] < 60 for lock in node['lock_on_seconds'].values())
    assert 'node / library' in str(found.tables[0])


# The command


def test_the_command_prints_and_writes_after_each_part(tmp_path, capsys, monkeypatch):
    asked = []

    def parts(bench_setup, plan):
        asked.append(plan)
        table = TextTable('Ratios', ('ratio', 'value'), [('sew_overhead', '1.05')])
        return [
            lambda: Findings({'sew_overhead': 1.05}, (table,)),
            lambda: Findings(left_out={'node_overhead': 'no ROS here'}),
        ]

    monkeypatch.setattr(command, 'parts', parts)
    monkeypatch.setattr(command, 'Matcher', lambda *_: None)
    file = tmp_path / 'speed.json'
    words = ['bench', '--quick', '--rounds', '2', '--parts', 'node', '--json', str(file)]
    threads = torch.get_num_threads()
    try:
        assert main([*words, '--threads', '1']) == 0
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr()
    assert 'Ratios\n  ratio         value\n' in printed.out
    assert 'node_overhead is left out: no ROS here' in printed.err
    content = json.loads(file.read_text())
    assert content['sew_overhead'] == 1.05
    assert content['left_out'] == {'node_overhead': 'no ROS here'}
    assert content['how']['arguments'][0] == 'bench'
    assert asked[0] == Plan(QUICK.sizes, 2, 2, QUICK.camera_seconds, ('node',))


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--json', 'no/such/folder/a.json'], 'its folder does not exist'),
        (['--rounds', '-1'], '--rounds is -1: it must be 0 or more'),
        (['--threads', '-2'], '--threads is -2: it must be 0 or more'),
        (['--device', 'tpu'], "device is 'tpu': use one of auto"),
        (['--detector', 'ssd'], "detector is 'ssd': use one of yolov4-tiny"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(['bench', *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith('niom: ')
    assert words in error
    assert len(error.splitlines()) == 1


def test_the_parts_of_the_command_line_are_those_of_the_plan(bench_setup):
    every = Plan(sizes=(SMALL,))
    assert len(command.parts(bench_setup, every)) == len(BENCH_PARTS)
    for part in BENCH_PARTS:
        plan = Plan(sizes=(SMALL,), parts=(part,))
        assert len(command.parts(bench_setup, plan)) == 1
