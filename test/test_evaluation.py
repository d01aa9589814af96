"""The frame of `niom eval`: methods by name, records that survive interruptions, processes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
import json
import multiprocessing
import os
from pathlib import Path
import queue
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from niom_ros.benchmarks.evaluation import records as records_module
from niom_ros.benchmarks.evaluation import run as run_module
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, DataMissing, Record
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.methods import Method, method_named
from niom_ros.benchmarks.evaluation.records import data_key, Records, records_of
from niom_ros.benchmarks.evaluation.results import as_json
from niom_ros.benchmarks.evaluation.run import (
    BenchmarkProgress,
    collected,
    run,
    sample,
    tasks_of,
    work,
)
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Options, Settings, Weighting
from niom_ros.matching.confidence import Calibration


def named(name: str, **changes: object) -> Method:
    return method_named(name, Settings(**changes), Options())  # type: ignore[arg-type]


class Counting(Benchmark):
    """Measures nothing but itself: each case has a number, and a method adds its own."""

    name = 'counting'
    title = 'Numbers.'
    folders = ('numbers', 'letters')
    default_methods = ('plain',)
    main_metric = 'mean'

    def find_cases(self) -> Iterable[Case]:
        for file in sorted((self.data / 'numbers').glob('*.txt')):
            for group in ('a', 'b'):
                yield Case(f'{file.stem}/{group}', file.stem, file.stem, group)

    def measure(self, case: Case, method: Method, runner: MethodRunner) -> Record:
        log = self.data / 'log.txt'
        with log.open('a') as file:
            file.write(f'{case.name} {method.name} {os.getpid()}\n')
        content = (self.data / 'numbers' / f'{case.pair}.txt').read_text()
        if content == 'refuse':
            raise UserError('this number is bad: take another')
        if content == 'crash':
            raise ZeroDivisionError('a fault in the benchmark')
        if content == 'die':
            os.kill(os.getpid(), signal.SIGKILL)
        if content == 'wait':
            time.sleep(60)
        return {'value': float(content) + (0.5 if method.name == 'sew' else 0)}

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        return {
            'mean': float(np.mean([record['value'] for record in records])),
            'undefined': float('nan'),
        }

    def quality(self, record: Record) -> float:
        return float(record['value'])

    def picture(self, case: Case, method: Method, runner: MethodRunner) -> np.ndarray:
        return np.zeros((8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('NIOM_CACHE', str(tmp_path / 'cache'))


def benchmark_with(folder: Path, contents: Sequence[str], seed: int = 0) -> Counting:
    (folder / 'numbers').mkdir(parents=True, exist_ok=True)
    for index, content in enumerate(contents):
        (folder / 'numbers' / f'{index}.txt').write_text(content)
    return Counting(folder, seed)


def measured(benchmark: Counting, methods: Sequence[Method], jobs: int = 1) -> dict[str, Records]:
    key = data_key(benchmark)
    known = {method: records_of(benchmark, method, key) for method in methods}
    run(benchmark, benchmark.cases(), known, jobs)
    return {method.name: found for method, found in known.items()}


def started(clone: Path, data: Path) -> subprocess.Popen[bytes]:
    """Measure in two processes of another one."""
    script = data / 'run.py'
    script.write_text(
        'import sys; sys.path[:0] = sys.argv[1:3]\n'
        'from pathlib import Path; from test_evaluation import Counting, measured, named\n'
        "if __name__ == '__main__':\n"
        "    measured(Counting(Path(sys.argv[3]), 0), [named('plain')], jobs=2)\n"
    )
    return subprocess.Popen(
        [sys.executable, script, clone / 'test', clone, data], stderr=subprocess.DEVNULL
    )


def alive(process: int) -> bool:
    try:
        # A process that has ended, but nobody asked how, is still there as a zombie.
        return 'State:\tZ' not in Path(f'/proc/{process}/status').read_text()
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not happen in time'
        time.sleep(0.1)


def log_lines(benchmark: Counting) -> list[str]:
    log = benchmark.data / 'log.txt'
    return log.read_text().splitlines() if log.exists() else []


class TestMethods:
    def test_presets_change_weighting_and_pairing_only(self) -> None:
        base = Options()
        for name, weighting, pairing in (
            ('plain', 'none', 'none'),
            ('sew', 'sew', 'none'),
            ('sew+nop', 'sew', 'text'),
            ('sew+visual', 'sew', 'visual'),
            ('uniform', 'uniform', 'none'),
            ('shuffled', 'shuffled', 'none'),
        ):
            method = named(name)
            assert (method.options.weighting.kind, method.options.pairing.by) == (
                weighting,
                pairing,
            )
            assert method.settings == Settings()
            assert method.options.limits == base.limits
            assert method.options.weighting.range == base.weighting.range

    @pytest.mark.parametrize('source', ['classifier', 'agreement'])
    def test_sew_and_its_controls_with_heat_from_elsewhere(self, source: str) -> None:
        for kind in ('sew', 'uniform', 'shuffled'):
            plain, other = named(kind), named(f'{kind}+{source}')
            weighting = replace(plain.options.weighting, source=source)
            assert other.options == replace(plain.options, weighting=weighting)

    def test_a_preset_that_names_no_source_of_heat_takes_the_given_one(self) -> None:
        given = Options(weighting=Weighting(source='classifier'))
        for name, source in (('sew', 'classifier'), ('sew+agreement', 'agreement')):
            assert method_named(name, Settings(), given).options.weighting.source == source

    def test_default_is_what_the_node_does_out_of_the_box(self) -> None:
        assert named('default') == Method('default', Settings(), Options())

    def test_networks_follow_an_at_sign(self) -> None:
        assert named('sew@disk').settings == Settings(extractor='disk')
        method = named('plain@superpoint+superglue', max_keypoints=300)
        assert method.settings == Settings(
            extractor='superpoint', matcher='superglue', max_keypoints=300
        )
        assert method.options.weighting.kind == 'none'

    @pytest.mark.parametrize(
        ('name', 'said'),
        [
            ('see', "there is no method 'see': use one of default, plain, classical, ink"),
            ('sew@dusk', "there is no extractor 'dusk': use one of aliked"),
            ('sew@disk+glue', "there is no matcher 'glue'"),
            ('sift@disk', 'write sift alone'),
            ('', "there is no method ''"),
        ],
    )
    def test_wrong_names_are_refused_with_the_right_ones(self, name: str, said: str) -> None:
        with pytest.raises(UserError, match=said.replace('+', r'\+')):
            named(name)


class TestRecords:
    def test_what_was_added_is_there_for_the_next_run(self, tmp_path: Path) -> None:
        path = tmp_path / 'deep' / 'records.jsonl'
        first = Records(path)
        first.add('a', {'value': 1.5, 'error': float('inf')})
        first.close()
        again = Records(path)
        assert 'a' in again and 'b' not in again
        assert again['a'] == {'value': 1.5, 'error': float('inf')}

    def test_a_line_that_was_cut_off_is_measured_again(self, tmp_path: Path) -> None:
        path = tmp_path / 'records.jsonl'
        first = Records(path)
        first.add('a', {'value': 1})
        first.add('b', {'value': 2})
        first.close()
        path.write_text(path.read_text()[:-5])
        second = Records(path)
        assert 'a' in second and 'b' not in second
        second.add('b', {'value': 3})
        second.close()
        assert Records(path)['a'] == {'value': 1}
        assert Records(path)['b'] == {'value': 3}

    def test_a_folder_that_cannot_be_written_is_said(self, tmp_path: Path) -> None:
        (tmp_path / 'file').write_text('')
        with pytest.raises(UserError, match='set NIOM_CACHE to a folder that is writable'):
            Records(tmp_path / 'file' / 'records.jsonl').add('a', {})

    def test_each_thing_that_may_change_a_number_has_its_own_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        benchmark = benchmark_with(tmp_path / 'data', ['1'])
        labels = tmp_path / 'labels.txt'
        labels.write_text('cup')

        def path(benchmark: Counting, method: Method) -> Path:
            return records_of(benchmark, method, data_key(benchmark)).path

        usual, sift = path(benchmark, named('sew')), path(benchmark, named('sift'))
        unjudged = records_of(benchmark, named('sew'), 'data', judged=False).path
        assert unjudged != records_of(benchmark, named('sew'), 'data').path
        assert path(benchmark, named('sew')) == usual
        assert path(benchmark, named('sew@disk')) != usual
        assert path(benchmark, named('sew', max_keypoints=100)) != usual
        assert path(Counting(benchmark.data, 1), named('sew')) != usual
        with_labels = path(benchmark, named('sew', detector_labels=str(labels)))
        labels.write_text('mug')
        assert path(benchmark, named('sew', detector_labels=str(labels))) != with_labels
        with pytest.raises(UserError, match='set detector_path to a file that exists'):
            path(benchmark, named('sew', detector_path=str(tmp_path / 'none.onnx')))
        stricter = Calibration({'agreeing': 1.0}, -9.0)
        monkeypatch.setattr(records_module, 'calibration_of', lambda method: stricter)
        assert path(benchmark, named('sew')) != usual
        assert path(benchmark, named('sift')) == sift
        assert records_of(benchmark, named('sew'), 'data', judged=False).path == unjudged
        monkeypatch.undo()
        monkeypatch.setattr(records_module, 'choose_device', lambda name: torch.device('cuda'))
        assert path(benchmark, named('sew')) != usual
        monkeypatch.undo()
        monkeypatch.setattr(records_module, 'code_key', lambda: 'other code')
        assert path(benchmark, named('sew')) != usual
        monkeypatch.undo()
        (benchmark.data / 'numbers' / '0.txt').write_text('2')
        assert path(benchmark, named('sew')) != usual

    def test_a_new_calibration_keeps_what_does_not_depend_on_beliefs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        benchmark = benchmark_with(tmp_path / 'data', ['1'])
        monkeypatch.setattr(Counting, 'depends_on_acceptance', False)
        methods = named('sew'), named('default')
        assert methods[1].options.weighting.kind == 'auto'
        before = [records_of(benchmark, method, 'data').path for method in methods]
        stricter = Calibration({'agreeing': 1.0}, -9.0)
        monkeypatch.setattr(records_module, 'calibration_of', lambda method: stricter)
        sew, auto = (records_of(benchmark, method, 'data').path for method in methods)
        assert sew == before[0]
        assert auto != before[1]

    def test_a_new_calibration_of_ink_changes_what_looks_for_ink(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        benchmark = benchmark_with(tmp_path / 'data', ['1'])
        known = {'aliked+lightglue': Calibration({'agreeing': 1.0}, -5.0)}
        monkeypatch.setattr(records_module, 'calibration_of', known.get)
        methods = named('plain'), named('default')
        before = [records_of(benchmark, method, 'data').path for method in methods]
        known['ink'] = Calibration({'agreeing': 1.0}, -9.0)
        plain, default = (records_of(benchmark, method, 'data').path for method in methods)
        assert plain == before[0]
        assert default != before[1]

    def test_all_code_that_finds_anything_counts_as_measuring(self) -> None:
        root = Path(records_module.niom_ros.__file__).parent
        for part in records_module.MEASURING_CODE:
            assert (root / part).exists(), part
        assert {'drawings', 'matching', 'semantics'} <= set(records_module.MEASURING_CODE)


class TestRun:
    def test_what_is_known_is_not_measured_again(self, tmp_path: Path) -> None:
        benchmark = benchmark_with(tmp_path, ['1', '2'])
        measured(benchmark, [named('plain')])
        assert len(log_lines(benchmark)) == 4
        found = measured(benchmark, [named('plain'), named('sew')])
        assert len(log_lines(benchmark)) == 8
        assert found['plain']['1/b']['value'] == 2
        assert found['sew']['1/b'] == {
            'value': 2.5,
            'group': 'b',
            'unit': '1',
            'places': ['1'],
        }

    def test_several_processes_share_the_work_and_agree_with_one(self, tmp_path: Path) -> None:
        contents = [str(number) for number in range(6)]
        alone = benchmark_with(tmp_path / 'alone', contents)
        # With another seed, so that it is measured at all.
        shared = benchmark_with(tmp_path / 'shared', contents, seed=1)
        one = measured(alone, [named('plain')])
        two = measured(shared, [named('plain')], jobs=2)
        for case in alone.cases():
            assert two['plain'][case.name] == one['plain'][case.name]
        processes = {line.split()[2] for line in log_lines(shared)}
        assert str(os.getpid()) not in processes
        assert 1 <= len(processes) <= 2

    def test_an_error_loses_nothing_that_was_measured(self, tmp_path: Path) -> None:
        benchmark = benchmark_with(tmp_path, ['1', 'refuse'])
        for attempt in (['0/a', '0/b', '1/a'], ['1/a']):
            with pytest.raises(UserError, match='this number is bad: take another'):
                measured(benchmark, [named('plain')])
            assert [line.split()[0] for line in log_lines(benchmark)] == attempt
            (benchmark.data / 'log.txt').unlink()

    @pytest.mark.parametrize(
        ('content', 'kind', 'said'),
        [
            ('refuse', UserError, '^this number is bad: take another$'),
            ('crash', RuntimeError, '(?s)line .* in measure.*a fault in the benchmark'),
        ],
    )
    def test_a_worker_sends_its_errors(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        content: str,
        kind: type[Exception],
        said: str,
    ) -> None:
        # Run here, with queues of this process, to save the start of another.
        monkeypatch.setattr(signal, 'signal', lambda *_: None)
        benchmark = benchmark_with(tmp_path, ['1', content])
        known = {named('plain'): records_of(benchmark, named('plain'), 'key')}
        waiting: queue.Queue[object] = queue.Queue()
        done: queue.Queue[object] = queue.Queue()
        for task in (*tasks_of(benchmark, benchmark.cases(), known), None):
            waiting.put(task)
        work(waiting, done)  # type: ignore[arg-type]
        collecting = collected(done, [multiprocessing.current_process()])  # type: ignore[arg-type]
        assert next(collecting)[0] == '0/a'
        assert next(collecting)[0] == '0/b'
        with pytest.raises(kind, match=said):
            next(collecting)

    def test_a_process_that_dies_is_noticed(self, tmp_path: Path) -> None:
        benchmark = benchmark_with(tmp_path, ['die', 'die', '1'])
        with pytest.raises(UserError, match='run the same command again with --jobs 1'):
            measured(benchmark, [named('plain')], jobs=2)

    def test_an_error_ends_the_command_also_if_much_is_still_waiting(
        self, clone: Path, tmp_path: Path
    ) -> None:
        # More than fits into the pipe to the workers.
        benchmark_with(tmp_path, ['refuse', *['1'] * 1500])
        first = started(clone, tmp_path)
        assert first.wait(timeout=120) == 1

    def test_an_interruption_ends_all_processes_and_keeps_what_was_measured(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        benchmark = benchmark_with(tmp_path, ['1', 'wait'])
        method = named('plain')
        known = {method: records_of(benchmark, method, 'key')}

        def interrupt(self: BenchmarkProgress) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(BenchmarkProgress, 'step', interrupt)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run(benchmark, benchmark.cases(), known, 2)
        assert time.monotonic() - start < 45  # not the minute that a worker would wait
        kept = records_of(benchmark, method, 'key')
        assert sum(case.name in kept for case in benchmark.cases()) == 1
        for process in {int(line.split()[2]) for line in log_lines(benchmark)}:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)

    def test_processes_end_when_the_first_one_is_killed(self, clone: Path, tmp_path: Path) -> None:
        benchmark = benchmark_with(tmp_path, ['wait', 'wait'])
        first = started(clone, tmp_path)
        until(lambda: len(log_lines(benchmark)) == 2, 120)
        first.kill()
        first.wait()
        for process in {int(line.split()[2]) for line in log_lines(benchmark)}:
            until(lambda process=process: not alive(process), 20)

    def test_progress_tells_the_time_left(self) -> None:
        progress = BenchmarkProgress('sketch', 100, known=40)
        assert progress.text(0) == 'sketch [############..................] 40 of 100'
        for _ in range(20):
            progress.step()
        # 20 took 120 seconds, so the other 40 take 240.
        assert (
            progress.text(120) == 'sketch [##################............] 60 of 100, 4 min left'
        )
        assert run_module.duration(30) == '30 s'
        assert run_module.duration(5400) == '1 h 30 min'


class TestSample:
    CASES = tuple(
        Case(f'{pair}/{group}', pair, pair, group) for pair in 'abcdefgh' for group in 'xy'
    )

    def test_it_has_whole_pairs_in_their_order(self) -> None:
        chosen = sample(self.CASES, 3, seed=1)
        assert len(chosen) == 6
        assert len({case.pair for case in chosen}) == 3
        assert chosen == [case for case in self.CASES if case in chosen]

    def test_a_larger_one_has_the_smaller_one_in_it(self) -> None:
        small, large = sample(self.CASES, 2, seed=5), sample(self.CASES, 5, seed=5)
        assert set(small) < set(large)

    def test_another_seed_draws_others(self) -> None:
        drawn = {tuple(sample(self.CASES, 2, seed)) for seed in range(10)}
        assert len(drawn) > 3

    @pytest.mark.parametrize('limit', [0, 8, 100])
    def test_without_a_limit_it_is_everything(self, limit: int) -> None:
        assert sample(self.CASES, limit, seed=0) == list(self.CASES)


class TestResults:
    def test_metrics_differences_and_intervals(self, tmp_path: Path) -> None:
        benchmark = benchmark_with(tmp_path, [str(n) for n in range(8)])
        found = measured(benchmark, [named('plain'), named('sew')])
        cases = benchmark.cases()
        records = {name: [known[case.name] for case in cases] for name, known in found.items()}
        result = as_json(benchmark, 8, records, {'torch': '1'}, 'data')
        assert json.loads(json.dumps(result, allow_nan=False)) == result
        assert list(result) == [
            'benchmark', 'data', 'seed', 'versions', 'methods', 'differences', 'pairs', 'missing',
        ]  # fmt: skip
        assert result['methods']['plain']['mean'] == 3.5
        low, high = result['methods']['plain']['mean_ci']
        # The deviation of a mean of 8 numbers from 0 to 7 is 2.29 / sqrt(8).
        assert 3.5 - 2.2 < low < 3.5 - 1.0 and 3.5 + 1.0 < high < 3.5 + 2.2
        # Sew is better by one half on every pair, so that is certain, whatever the pairs are.
        assert result['differences'] == {
            'sew - plain': {
                'mean': 0.5, 'mean_ci': [0.5, 0.5], 'undefined': None, 'undefined_ci': None,
            }
        }  # fmt: skip
        assert result['methods']['sew']['undefined'] is None
        assert result['missing'] == ['letters']

    def test_without_data_the_folders_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataMissing, match='counting needs numbers or letters'):
            Counting(tmp_path, 0).cases()
        (tmp_path / 'letters').mkdir()
        with pytest.raises(DataMissing, match='found no pair in numbers, letters'):
            Counting(tmp_path, 0).cases()
