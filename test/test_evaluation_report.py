from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
import json
import math
from pathlib import Path
import re
import subprocess
import sys
from typing import Any
from urllib.parse import unquote

import cv2
import matplotlib
import numpy as np
import pytest

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.finished import Finished, short, written
from niom_ros.benchmarks.evaluation.glossary import (
    LESS,
    MAIN_METRICS,
    main_metrics,
    meaning,
    MORE,
    NEITHER,
)
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method, method_named
from niom_ros.benchmarks.evaluation.pictures import answer_banner, draw_answer, GUESS, TRUTH
from niom_ros.benchmarks.evaluation.report import check_folder, command, write_report
from niom_ros.benchmarks.evaluation.reporting.charts import acceptance_line, error_line, panels
from niom_ros.benchmarks.evaluation.reporting.plots import (
    Axis,
    curve_plot,
    Dot,
    dot_plot,
    DotRow,
    Line,
    round_end,
    Style,
    swatch,
)
from niom_ros.benchmarks.evaluation.reporting.tables import ahead, best_methods, verdict
from niom_ros.benchmarks.evaluation.shown_pairs import extremes, record_words
from niom_ros.core.errors import UserError
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import Options, Settings
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Evidence, Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.pictures.marks import BLUE, SLATE, VERMILLION
from niom_ros.pictures.matches import GAP

VOID = {'meta', 'img', 'br'}


class Page(HTMLParser):
    """A page as a browser takes it, which complains about what is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[dict[str, Any]] = []
        self.text = ''
        self.feed(str(html))  # a Markup would escape what is added to it
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), 'an attribute is there twice'
        self.elements.append((tag, dict(attrs)))
        if tag == 'table':
            self.tables.append({'caption': '', 'rows': []})
        if tag == 'tr':
            self.tables[-1]['rows'].append([])
        if tag in ('th', 'td'):
            self.tables[-1]['rows'][-1].append('')
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if 'style' in self.open or not data.strip():
            return
        self.text += data
        if 'caption' in self.open:
            self.tables[-1]['caption'] += data
        elif 'th' in self.open or 'td' in self.open:
            self.tables[-1]['rows'][-1][-1] += data.strip() + '|'

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


class Invented(Benchmark):
    """Its cases, records and pictures are made up."""

    name = 'homography'
    title = 'Invented pairs & <i>more</i>.'
    folders = ('homography/oxford', 'homography/homogr')
    default_methods = ('plain',)
    main_metric = 'auc_5'

    def find_cases(self) -> list[Case]:
        return []

    def measure(self, case: Case, method: Method, runner: MethodRunner) -> Record:
        raise NotImplementedError

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        raise NotImplementedError

    def quality(self, record: Record) -> float:
        return -math.inf if record['error'] is None else -record['error']

    def picture(self, case: Case, method: Method, runner: MethodRunner) -> np.ndarray:
        shade = sum((case.name + method.name).encode()) % 256
        return np.full((60, 100, 3), shade, np.uint8)


class Pose(Invented):
    name = 'pose'
    main_metric = 'auc_20_clean'


METHODS = ('plain', 'sew', 'sift')
SECRET = Path('/mnt/somebody/private/benchmarks')


def a_record(error: float | None, confidence: float = 0.5) -> Record:
    return {
        'status': 'LOW_CONFIDENCE' if error is None else 'OK',
        'accepted': error is not None,
        'confidence': confidence,
        'error': error,
        'best_error': 50.0 if error is None else error,
        'matches': 40,
        'agreeing': 20,
        'checks': {'coverage': 0.5},
        'group': 'oxford',
        'unit': 'graf',
    }


def cases_named(*names: str) -> list[Case]:
    return [Case(name, name.partition('/')[0], 'unit', 'oxford') for name in names]


def some_run(kind: type[Benchmark] = Invented, methods: Sequence[str] = METHODS) -> Finished:
    cases = cases_named('one', 'two', 'three', 'four', 'five', 'six')
    errors = [3.0, 1.0, None, 15.0, math.inf, 2.0]
    result = {
        'benchmark': kind.name,
        'data': str(SECRET),
        'seed': 7,
        'versions': {'niom_ros': '0.1.0', 'torch': '2.9'},
        'methods': {
            'plain': {
                'auc_3': 0.25,
                'auc_3_ci': [0.125, 0.375],
                'auc_5': 0.5,
                'auc_5_ci': [0.4444, 0.5556],
                'auc_10': None,
                'auc_10_ci': None,
                'wrong_accepted': 0.125,
                'wrong_accepted_ci': [0.0, 0.25],
            },
            'sew': {
                'auc_3': 0.25,
                'auc_3_ci': [0.125, 0.375],
                'auc_5': 0.75,
                'auc_5_ci': [0.6543, 0.8765],
                'auc_10': math.nan,
                'auc_10_ci': [math.nan, math.nan],
                'wrong_accepted': 0.0625,
                'wrong_accepted_ci': [0.0, math.inf],
            },
            'sift': {'auc_3': 0.125, 'auc_3_ci': None, 'auc_5': 0.1, 'auc_5_ci': [0.0, 0.2]},
        },
        'differences': {
            'sew - plain': {
                'auc_5': 0.25,
                'auc_5_ci': [0.1, 0.4],
                'wrong_accepted': 0.0625,
                'wrong_accepted_ci': [0.01, 0.1],
            },
            'sift - plain': {'auc_5': -0.4, 'auc_5_ci': [-0.6, -0.2]},
            'sift - sew': {'auc_5': -0.65, 'auc_5_ci': [-0.9, 0.1]},
        },
        'pairs': 6,
        'missing': ['homography/homogr'],
    }
    result['methods'] = {name: result['methods'][name] for name in methods}
    return Finished(
        kind(SECRET, 7),
        cases,
        [method_named(name, Settings(device='cpu'), Options()) for name in methods],
        {name: [a_record(error) for error in errors] for name in methods},
        result,
    )


def read(index: Path) -> Page:
    return Page(index.read_text('utf-8'))


# The page


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    index = write_report(tmp_path / 'a' / 'report', [some_run(), some_run(Pose)])
    page = read(index)
    html = index.read_text('utf-8')
    assert index == tmp_path / 'a' / 'report' / 'index.html'
    assert 'http' not in re.sub(r'http-equiv', '', html)
    assert '<script' not in html
    assert '@import' not in html and 'url(' not in html
    assert str(SECRET.parent) not in html and str(tmp_path) not in html
    ids = [attributes['id'] for _, attributes in page.elements if 'id' in attributes]
    assert len(ids) == len(set(ids))
    links = [str(attributes['href']) for attributes in page.all('a')]
    links += [str(attributes['src']) for attributes in page.all('img')]
    assert any(link.startswith('pictures/') for link in links)
    for link in links:
        if link.startswith('#'):
            assert link[1:] in ids
        else:
            assert not link.startswith('/')
            assert (index.parent / unquote(link)).is_file()


def test_people_who_cannot_see_it_can_use_the_page(tmp_path: Path) -> None:
    page = read(write_report(tmp_path, [some_run(), some_run(Pose)]))
    assert page.all('html')[0]['lang'] == 'en'
    assert page.all('title')
    assert len(page.all('h1')) == 1
    assert all(table['caption'] for table in page.tables)
    assert all(cell['scope'] in ('col', 'row') for cell in page.all('th'))
    assert all(image['alt'] and image['width'] and image['height'] for image in page.all('img'))
    assert len(page.all('figure')) == len(page.all('figcaption'))
    for plot in page.all('svg'):
        assert plot.get('aria-hidden') == 'true' or plot.get('aria-label')
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch(r'h\d', name)]
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_what_was_run_is_told_without_saying_where(tmp_path: Path) -> None:
    arguments = ['eval', 'all', '--data', str(SECRET), f'--report={tmp_path}', '--limit', '6']
    lacking = {'sketch': f'sketch needs drawing/bsds: there is no such folder in {SECRET}'}
    index = write_report(tmp_path, [some_run()], MethodRunner(), arguments, lacking)
    text = read(index).text
    assert f'niom eval all --data benchmarks --report={tmp_path.name} --limit 6' in text
    assert 'sketch was not measured: sketch needs drawing/bsds' in text
    assert 'no such folder in benchmarks' in text
    assert 'homography/homogr was not measured' in text
    assert 'niom_ros 0.1.0, torch 2.9' in text
    assert str(SECRET) not in index.read_text('utf-8')


def test_a_folder_that_is_a_dot_is_not_taken_out_of_words(tmp_path: Path) -> None:
    run = some_run()
    run.benchmark.data = Path()
    text = read(write_report(tmp_path, [run], lacking={'tmc': 'None. In . here'})).text
    assert 'None. In . here' in text


def test_a_path_in_a_command_is_only_a_name() -> None:
    assert command(['eval', '/a/b c', '~/d', '--x=/e/f', '../g/h', '--y=1']) == (
        "niom eval 'b c' d --x=f h --y=1"
    )


def test_names_are_text_and_not_html(tmp_path: Path) -> None:
    run = replace(some_run(), cases=cases_named('a', '<b>bold</b> & "quoted"', *'cdef'))
    run.result['versions']['<script>alert(1)</script>'] = '"><img src=x>'
    index = write_report(tmp_path, [run])
    page = read(index)
    assert '<b>bold</b> & "quoted"' in page.text
    assert 'Invented pairs & <i>more</i>.' in page.text
    assert not page.all('script') and not page.all('i')
    assert all(image['src'] != 'x' for image in page.all('img'))


def test_tables_have_the_numbers_of_the_result(tmp_path: Path) -> None:
    summary, main, differences, everything = read(write_report(tmp_path, [some_run()])).tables
    assert main['rows'][1] == [
        'plain|',
        '0.250|best|0.125 to 0.375|',
        '0.500|0.444 to 0.556|',
        'not measured|',
        '0.125|0.000 to 0.250|',
    ]
    assert main['rows'][2] == [
        'sew|',
        '0.250|best|0.125 to 0.375|',
        '0.750|best|0.654 to 0.876|',
        'not measured|',
        '0.062|best|0.000 to ∞|',  # less is better
    ]
    assert main['rows'][3][1:] == [
        '0.125|',
        '0.100|0.000 to 0.200|',
        'not measured|',
        'not measured|',
    ]
    assert [cell.split('|')[0] for cell in differences['rows'][0]] == [
        'Methods',
        'AUC to 5 px',  # the main one comes first
        'AUC to 3 px',
        'AUC to 10 px',
        'wrong among accepted',
    ]
    assert differences['rows'][1] == [
        'sew \u2212 plain|',
        '+0.250|better|+0.100 to +0.400|',
        'not measured|',
        'not measured|',
        '+0.062|worse|+0.010 to +0.100|',
    ]
    assert differences['rows'][2][1] == '\u22120.400|worse|\u22120.600 to \u22120.200|'
    assert differences['rows'][3][1] == '\u22120.650|undecided|\u22120.900 to +0.100|'
    assert [row[0].split('|')[1] for row in everything['rows'][1:]] == [
        'auc_3',
        'auc_5',
        'auc_10',
        'wrong_accepted',
    ]
    assert summary['rows'][1] == [
        'homography|',
        '6|',
        'AUC to 5 px|auc_5|',
        'sew|',
        '0.750|0.654 to 0.876|',
        'clearly ahead of all but sift|',
    ]


def test_one_method_is_not_called_best(tmp_path: Path) -> None:
    run = some_run(methods=['plain'])
    run.result['differences'].clear()
    page = read(write_report(tmp_path, [run]))
    assert '|best|' not in ''.join(cell for row in page.tables[1]['rows'] for cell in row)
    assert 'the only method' in page.text
    assert len(page.tables) == 3  # none of differences


def test_a_method_is_ahead_only_of_those_it_differs_from() -> None:
    run = some_run()
    assert best_methods(run, 'auc_5') == ['sew']
    assert best_methods(run, 'auc_3') == ['plain', 'sew']
    assert best_methods(run, 'auc_10') == []
    assert ahead(run, 'sew', 'auc_5') == 'clearly ahead of all but sift'
    run.result['differences']['sift - sew']['auc_5_ci'] = [-0.9, -0.1]
    assert ahead(run, 'sew', 'auc_5') == 'clearly ahead of all others'
    run.result['differences']['sift - sew']['auc_5_ci'] = None
    run.result['differences']['sew - plain']['auc_5_ci'] = [-0.9, 0.1]
    assert ahead(run, 'sew', 'auc_5') == 'not clearly ahead of any'


@pytest.mark.parametrize(
    ('span', 'better', 'word'),
    [
        ((0.1, 0.2), MORE, 'better'),
        ((-0.2, -0.1), MORE, 'worse'),
        ((0.1, 0.2), LESS, 'worse'),
        ((-0.2, -0.1), LESS, 'better'),
        ((-0.1, 0.1), MORE, 'undecided'),
        ((0.0, 0.1), MORE, 'undecided'),
        ((0.0, 0.0), LESS, 'the same'),
        (None, MORE, 'no interval'),
    ],
)
def test_an_interval_means_a_word(
    span: tuple[float, float] | None, better: int, word: str
) -> None:
    assert verdict(span, better) == word


def test_numbers_are_written_for_people() -> None:
    assert written(0.12345) == '0.123'
    assert written(-0.0001, signed=True) == '0.000'
    assert written(-0.5) == '\u22120.500'
    assert written(math.inf) == '∞'
    assert short(12) == '12' and short(1.23456, ' px') == '1.23 px'
    assert short(123456.7, ' px') == '123457 px'
    assert short(math.inf, ' px') == 'infinite' and short(math.nan) == 'not measured'


def test_a_record_is_told_in_words() -> None:
    assert record_words(a_record(1.5, 0.75), ' px') == (
        'accepted, mean corner error 1.5 px, 20 of 40 matches fit the best view, confidence 0.75'
    )
    assert record_words(a_record(None), ' px').startswith(
        'refused: low confidence, error of the best guess 50 px'
    )
    assert record_words({'pck_05': math.nan, 'kind': 'cat', 'list': [1]}, '') == (
        'pck 05 not measured, kind cat'
    )
    assert record_words({'error': None}, '°') == 'nothing found'
    assert record_words({'group': 'x'}, '') == 'no numbers'


# Which pairs are shown


def shown_by(errors: Sequence[float | None], names: Sequence[str]) -> tuple[list[str], list[str]]:
    run = replace(some_run(), cases=cases_named(*names))
    best, worst = extremes(run, [a_record(error) for error in errors])
    return [names[index] for index in best], [names[index] for index in worst]


def test_best_and_worst_are_chosen() -> None:
    assert shown_by([3, 1, None, 15, 2, 9], 'abcdef') == (['b', 'e'], ['c', 'd'])
    # Of equals the first.
    assert shown_by([None, None, None, None], 'abcd') == (['a', 'b'], ['c', 'd'])
    # Not the same pair twice on one side, if there are others; but on both sides.
    names = ['a/1', 'a/2', 'b/1', 'b/2', 'a/3', 'b/3']
    assert shown_by([1, 2, 3, 7, 8, 9], names) == (['a/1', 'b/1'], ['b/3', 'a/3'])
    assert shown_by([1, 2, 3, 4], ['a/1', 'a/2', 'a/3', 'a/4']) == (
        ['a/1', 'a/2'],
        ['a/4', 'a/3'],
    )
    # No case on both sides.
    assert shown_by([3, 1, 2], 'abc') == (['b', 'c'], ['a'])
    assert shown_by([3, 1], 'ab') == (['b'], ['a'])
    assert shown_by([3], 'a') == (['a'], [])
    assert shown_by([], '') == ([], [])
    # What was not measured is neither.
    assert shown_by([math.nan, 1, 2], 'abc') == (['b'], ['c'])


def test_each_of_the_first_methods_shows_its_own_pairs(tmp_path: Path) -> None:
    run = some_run()
    index = write_report(tmp_path, [run])
    alts = [str(image['alt']) for image in read(index).all('img')]
    assert len(alts) == 3 * 4
    assert alts[0].startswith('best of plain: two. accepted, mean corner error 1 px')
    assert [alt.split('. ')[0] for alt in alts[4:8]] == [
        'best of sew: two',
        'best of sew: six',
        'worst of sew: three',
        'worst of sew: five',
    ]
    sizes = {(image['width'], image['height']) for image in read(index).all('img')}
    assert sizes == {('100', '60')}
    first = cv2.imread(str(tmp_path / str(read(index).all('img')[0]['src'])))
    assert first.shape == (60, 100, 3)
    assert abs(int(first[30, 50, 0]) - sum(b'twoplain') % 256) <= 2


# The folder


def test_a_report_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    write_report(tmp_path, [some_run()])
    before = set((tmp_path / 'pictures').iterdir())
    mine = tmp_path / 'pictures' / 'holiday.jpg'
    mine.write_bytes(b'mine')
    index = write_report(tmp_path, [some_run(Pose, ['sew'])])
    after = set((tmp_path / 'pictures').iterdir())
    assert not before & after
    used = {tmp_path / str(image['src']) for image in read(index).all('img')}
    assert after == {*used, mine}
    assert sorted(path.name for path in tmp_path.iterdir()) == ['index.html', 'pictures']


def test_the_same_numbers_give_the_same_report(tmp_path: Path) -> None:
    one, other = (write_report(tmp_path / name, [some_run()]) for name in 'ab')
    assert one.read_bytes() == other.read_bytes()


def test_an_interrupted_report_leaves_the_one_before_whole(tmp_path: Path) -> None:
    index = write_report(tmp_path, [some_run()])
    before = index.read_bytes()

    class Interrupted(Pose):
        count = 0

        def picture(self, case: Case, method: Method, runner: MethodRunner) -> np.ndarray:
            self.count += 1
            if self.count == 3:
                raise KeyboardInterrupt
            return super().picture(case, method, runner)

    with pytest.raises(KeyboardInterrupt):
        write_report(tmp_path, [some_run(Interrupted)])
    assert index.read_bytes() == before
    assert all((tmp_path / str(image['src'])).is_file() for image in read(index).all('img'))
    # What the interrupted one left behind goes with the next.
    index = write_report(tmp_path, [some_run()])
    assert len(list((tmp_path / 'pictures').iterdir())) == len(read(index).all('img'))


def test_a_folder_that_cannot_take_a_report_is_refused(tmp_path: Path) -> None:
    file = tmp_path / 'file'
    file.write_text('')
    for folder in (file, file / 'below'):
        with pytest.raises(UserError, match=r'cannot write the report into .*: give --report'):
            write_report(folder, [some_run()])
    (tmp_path / 'index.html').write_text('<p>My homepage</p>')
    with pytest.raises(UserError, match='is not a report of niom eval'):
        check_folder(tmp_path)
    assert (tmp_path / 'index.html').read_text() == '<p>My homepage</p>'


def test_a_report_says_which_library_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    with pytest.raises(UserError, match=r'--report needs .*matplotlib.*niom_ros\[eval\]'):
        check_folder(tmp_path)
    assert not any(tmp_path.iterdir())


def test_without_a_report_no_plotting_library_is_loaded() -> None:
    script = (
        'import sys; import niom_ros.cli.main, niom_ros.benchmarks.evaluation.command; '
        "print(sorted({'matplotlib', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, check=True
    )
    assert done.stdout == '[]\n'


# Plots


NUMBER = re.compile(r'-?\d+\.?\d*')


def shapes(page: Page, fill: str, stroke: str) -> list[np.ndarray]:
    """Return the corners of the paths that have these colours of the page."""
    found = []
    for path in page.all('path'):
        style = str(path['style'])
        if f'fill: {fill}' in style and f'stroke: {stroke}' in style:
            numbers = np.array(NUMBER.findall(str(path['d'])), float).reshape(-1, 2)
            shift = NUMBER.findall(str(path.get('transform') or 'translate(0 0)'))
            found.append(numbers + np.array(shift, float))
    return found


def marks(page: Page, colour: str) -> list[np.ndarray]:
    return shapes(page, f'var(--{colour})', 'var(--paper)')


def lines(page: Page, colour: str) -> list[np.ndarray]:
    return shapes(page, 'none', f'var(--{colour})')


def middle_of(corners: np.ndarray) -> float:
    """Return how far to the right a shape is."""
    return float(corners[:, 0].min() + corners[:, 0].max()) / 2


def test_places_in_a_plot_are_in_proportion_to_the_numbers() -> None:
    rows = [
        DotRow(name, [Dot(Style(0), value, (value / 2, value))])
        for name, value in (('none', 0.0), ('half', 0.5), ('all', 1.0), ('quarter', 0.25))
    ]
    page = Page(dot_plot('T', rows, Axis('', 1.0), 'D'))
    zero, half, one, quarter = map(middle_of, marks(page, 'c0'))
    assert zero < one
    assert half == pytest.approx((zero + one) / 2, abs=0.02)
    assert quarter == pytest.approx((3 * zero + one) / 4, abs=0.02)
    span = lines(page, 'c0')[1][:, 0]
    assert [span.min(), span.max()] == pytest.approx([quarter, half], abs=0.02)
    for words in ('none', 'half', 'all', 'quarter', '0.000', '0.500', '1.000', '0.250'):
        assert words in page.text


def test_what_lies_outside_of_a_scale_is_drawn_at_its_end() -> None:
    def places(value: float, interval: tuple[float, float]) -> list[float]:
        rows = [DotRow('row', [Dot(Style(0), value, interval, chance=2 * value)])]
        page = Page(dot_plot('T', rows, Axis('', 1.0), 'D'))
        drawn = marks(page, 'c0') + lines(page, 'c0') + lines(page, 'ink')
        assert len(drawn) == 3
        return [middle_of(shape) for shape in drawn]

    assert places(9.0, (0.0, math.inf)) == places(1.0, (0.0, 1.0))


def test_what_was_not_measured_is_written_in_the_plot() -> None:
    rows = [DotRow('a' * 99, [Dot(Style(1), None)]), DotRow('<b>$x', [Dot(Style(1), 0.5)])]
    page = Page(dot_plot('T', rows, Axis('', 1.0), 'D'))
    assert 'not measured' in page.text
    assert len(marks(page, 'c1')) == 1
    assert 'a' * 99 in page.text  # for those who point at what was cut
    assert 'a' * 10 + '…' + 'a' * 10 in page.text
    assert '<b>$x' in page.text  # neither an element nor a formula


def test_a_curve_goes_through_its_points() -> None:
    line = Line('m', Style(0), [(0.0, 0.0), (5.0, 0.5), (30.0, 1.0)], steps=True)
    page = Page(curve_plot('T', [line], Axis('x', 20.0), Axis('y', 1.0), 'D'))
    points = lines(page, 'c0')[0][:4]
    width, height = points[-1] - points[0]
    expected = points[0] + np.array([width, height]) * [[0, 0], [0.25, 0], [0.25, 1], [1, 1]]
    assert points == pytest.approx(expected, abs=0.1)
    bottom, top = (part[:, 1].mean() for part in (points[:2], points[2:]))
    grid = sorted(line[0, 1] for line in lines(page, 'line') if np.ptp(line[:, 1]) == 0)
    assert (grid[0] + grid[-1]) / 2 == pytest.approx(top, abs=0.1)  # 0.5 is half of 1
    assert grid[-1] == pytest.approx(bottom, abs=0.1)
    assert len(marks(page, 'c0')) == 5  # marks
    assert 'x' in page.text and 'y' in page.text


def test_a_method_stands_in_a_ring_on_its_curve() -> None:
    line = Line('m', Style(0), [(0.5, 0.25), (1.0, 0.5)], own=(0.75, 0.375))
    page = Page(curve_plot('T', [line], Axis('x', 1.0), Axis('y', 1.0), 'D'))
    (ring,) = lines(page, 'ink')
    (curve,) = lines(page, 'c0')
    assert (ring.min(axis=0) + ring.max(axis=0)) / 2 == pytest.approx(curve.mean(axis=0), abs=0.1)


def test_every_method_looks_different() -> None:
    styles = [Style(number) for number in range(16)]
    drawn = {(style.colour, style.dashes) for style in styles}
    assert len(drawn) == 16
    marks = {re.sub(r'var.*?\)', '', swatch(style)) for style in styles[:8]}
    assert len(marks) == 8
    assert len({style.marker for style in styles[:8]}) == 8


def test_plots_take_their_colours_from_the_page(tmp_path: Path) -> None:
    html = write_report(tmp_path, [some_run()]).read_text('utf-8')
    body = html.partition('<body>')[2]
    assert not re.search(r'#[0-9a-f]{6}', body)
    variables = set(re.findall(r'var\((--\w+)\)', body))
    assert {'--ink', '--soft', '--line', '--paper', '--c0', '--c1', '--c2'} <= variables
    light, dark, on_paper = re.findall(r':root {(.*?)}', html, re.S)
    for palette in (light, dark, on_paper):
        assert all(f'{name}: #' in palette for name in variables)


def test_plots_do_not_depend_on_settings_of_the_user(
    tmp_path: Path,
) -> None:
    before = write_report(tmp_path / 'a', [some_run()]).read_bytes()
    with matplotlib.rc_context({'font.size': 30, 'axes.grid': False, 'text.usetex': True}):
        after = write_report(tmp_path / 'b', [some_run()]).read_bytes()
        assert matplotlib.rcParams['font.size'] == 30
    assert before == after


@pytest.mark.parametrize(
    ('largest', 'end', 'ticks'),
    [
        (0.93, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.011, 0.02, [0, 0.005, 0.01, 0.015, 0.02]),
        (0.3, 0.5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (0.1, 0.1, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (math.inf, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_scales_end_at_round_numbers(largest: float, end: float, ticks: list[float]) -> None:
    assert round_end(largest) == pytest.approx(end)
    assert Axis('', round_end(largest)).ticks == pytest.approx(ticks)


def test_refusals_keep_a_curve_of_errors_down() -> None:
    records = [a_record(error) for error in (3.0, None, 1.0, math.inf, math.nan)]
    line = error_line('m', Style(0), records)
    assert line.points == [(0.0, 0.0), (1.0, 0.2), (3.0, 0.4)]
    assert error_line('m', Style(0), [{'top1': True}]).points == []


def test_wrong_answers_are_counted_in_the_order_of_confidence() -> None:
    records = [
        a_record(1.0, 0.9),
        a_record(30.0, 0.8),  # claimed, but wrong
        a_record(2.0, 0.7),
        a_record(None, 0.4),  # refused: its best guess is 50 px off
    ]
    line = acceptance_line('m', Style(0), records)
    assert line is not None
    assert line.points == [
        (0.25, 0.0),
        (0.5, 0.5),
        (0.75, pytest.approx(1 / 3)),
        (1.0, 0.5),
    ]
    assert line.own == (0.75, pytest.approx(1 / 3))
    refused = acceptance_line('m', Style(0), [a_record(None)])
    assert refused is not None and refused.own is None
    assert acceptance_line('m', Style(0), [{'top1': True}]) is None


def test_damaged_pictures_have_plots_of_their_own(tmp_path: Path) -> None:
    run = some_run(Pose, ['plain', 'sew'])
    groups = ['clean', 'both_fog', 'one_fog', 'both_snow', 'one_snow', 'clean']
    cases = [replace(case, group=group) for case, group in zip(run.cases, groups, strict=True)]
    run = replace(run, cases=cases)
    assert panels(run) == {
        'clean': [0, 5],
        'both pictures damaged': [1, 3],
        'one picture damaged': [2, 4],
    }
    for metrics in run.metrics.values():
        metrics.clear()
        for name in ('clean', 'both', 'one', 'both_fog', 'both_snow', 'one_fog', 'one_snow'):
            metrics[f'auc_20_{name}'], metrics[f'auc_20_{name}_ci'] = 0.5, [0.25, 0.75]
    run.result['differences'].clear()
    page = read(write_report(tmp_path, [run]))
    labels = [str(plot['aria-label']) for plot in page.all('svg') if 'aria-label' in plot]
    assert [label.split('. ')[0] for label in labels] == [
        'AUC to 20°, clean',
        'AUC to 20°, both',
        'AUC to 20°, one',
        'AUC to 20°, both pictures damaged',
        'AUC to 20°, one picture damaged',
        'Errors: clean',
        'Errors: both pictures damaged',
        'Errors: one picture damaged',
    ]
    assert 'fog: plain 0.500, sew 0.500' in labels[3]
    assert 'pose error (°)' in page.text


# Words


def test_all_known_metrics_have_a_meaning() -> None:
    for benchmark, names in MAIN_METRICS.items():
        for name in names:
            assert meaning(benchmark, name).words, name
    assert meaning('homography', 'auc_5').label == 'AUC to 5 px'
    assert meaning('pose', 'auc_20_both_gaussian_noise').label == 'AUC to 20°, both gaussian noise'
    assert meaning('pose', 'auc_20_one_fog').words.endswith('one picture damaged by fog')
    assert meaning('tmc', 'pck_05_cat_dog').label == 'PCK 0.05, cat dog'
    assert meaning('tmc', 'chance_pck_10').label == 'chance PCK 0.1'
    assert meaning('tmc', 'recall_01').words.endswith('within 0.01 of the size')
    assert meaning('abstain', 'false_accept_upper').label == 'false accepts, at most'
    assert meaning('new', 'some_thing').label == 'some thing'
    directions = {
        'rmse': LESS,
        'wrong_accepted_rotated': LESS,
        'false_accept': LESS,
        'true_accept': MORE,
        'top1': MORE,
        'detectable': NEITHER,
        'chance_pck_05': NEITHER,
        'accepted': NEITHER,
        'some_thing': NEITHER,
    }
    for name, better in directions.items():
        assert meaning('tmc', name).better == better, name


def test_main_metrics_are_those_that_are_there() -> None:
    assert main_metrics('homography', ['auc_10', 'auc_3'], 'auc_5') == ['auc_3', 'auc_10']
    assert main_metrics('homography', ['auc_10', 'mine'], 'mine') == ['mine', 'auc_10']
    assert main_metrics('new', list('abcdefgh'), 'h') == ['h', *'abcdef']


# What a method made of two pictures

WIDTH, HEIGHT = 320, 240  # two of them are drawn as they are
AHEAD = np.array([[0.5, 0, 60], [0, 0.5, 50], [0, 0, 1]], float)
ASIDE = np.array([[0.5, 0, 130], [0, 0.5, 90], [0, 0, 1]], float)


class Answering(MethodRunner):
    """Gives an answer that was thought up."""

    def __init__(self, found: np.ndarray, accepted: bool) -> None:
        super().__init__()
        points = np.array([[10, 10], [300, 20], [290, 220], [15, 200]], np.float32)
        there = warp_points(found, points).astype(np.float32)
        matches = Correspondences(points, there, np.full(4, 0.9, np.float32))
        agree = np.ones(4, bool)
        verdict = (
            Verdict(Status.OK, 'all agree', agree, found, 0.9)
            if accepted
            else Verdict(Status.LOW_CONFIDENCE, 'too few', agree, None, 0.2)
        )
        self.answer = MethodAnswer(Match(verdict, matches), Evidence(agree, found), plausible=True)

    def match(self, method: Method, reference: Picture, image: Picture) -> MethodAnswer:
        return self.answer


def drawn(found: np.ndarray, accepted: bool, truth: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Return the picture's banner, and its panel with the camera image."""
    grey = np.full((HEIGHT, WIDTH, 3), 100, np.uint8)
    reference, image = Picture('r', grey), Picture('i', grey)
    runner = Answering(found, accepted)
    method = method_named('sift', Settings(), Options())
    picture = draw_answer(method, runner, reference, image, truth)
    assert (grey == 100).all()
    top = answer_banner(picture.shape[1], runner.answer, reference, truth, '').shape[0]
    left = WIDTH + GAP
    return picture[:top], picture[top : top + HEIGHT, left : left + WIDTH]


def near(panel: np.ndarray, colour: Sequence[int], warp: np.ndarray) -> float:
    """Return the share of an outline's left and right edge that has a colour on it or beside."""
    corners = warp_points(warp, np.array([[0, 0], [WIDTH - 1, HEIGHT - 1]])).round().astype(int)
    (left, top), (right, bottom) = corners
    is_colour = (np.abs(panel.astype(int) - colour).max(axis=2) < 12).astype(np.uint8)
    wide = cv2.dilate(is_colour, np.ones((1, 5), np.uint8))
    return float(np.mean([wide[top:bottom, x].mean() for x in (left, right)]))


SKY = (86, 180, 233)


def test_both_outlines_are_where_they_belong() -> None:
    _, panel = drawn(ASIDE, True, AHEAD)
    assert 0.4 < near(panel, TRUTH, AHEAD) < 0.85  # dashes
    assert near(panel, TRUTH, ASIDE) < 0.05
    assert near(panel, SKY, ASIDE) > 0.9
    assert near(panel, SKY, AHEAD) < 0.05
    _, panel = drawn(ASIDE, True, None)
    assert near(panel, TRUTH, AHEAD) == 0


def test_both_outlines_are_seen_where_they_are_the_same() -> None:
    _, panel = drawn(AHEAD, True, AHEAD)
    assert 0.4 < near(panel, TRUTH, AHEAD) < 0.85
    assert near(panel, SKY, AHEAD) > 0.1


def test_a_refused_guess_is_dotted() -> None:
    _, panel = drawn(ASIDE, False, AHEAD)
    assert near(panel, SKY, ASIDE) < 0.05
    assert 0.2 < near(panel, GUESS, ASIDE) < 0.9
    assert 0.4 < near(panel, TRUTH, AHEAD) < 0.85


@pytest.mark.parametrize(
    ('found', 'accepted', 'colour'),
    [(AHEAD, True, BLUE), (ASIDE, True, VERMILLION), (AHEAD, False, SLATE)],
)
def test_the_banner_tells_right_wrong_and_refused(
    found: np.ndarray, accepted: bool, colour: Sequence[int]
) -> None:
    banner, _ = drawn(found, accepted, AHEAD)
    assert (banner[2, 2] == colour).all()


@pytest.mark.parametrize('scale', [1e-9, 1e6, 1e12])
def test_outlines_of_any_size_are_drawn(scale: float) -> None:
    huge = np.diag([scale, scale, 1.0])
    for accepted in (True, False):
        banner, panel = drawn(huge, accepted, huge)
        assert banner.size and panel.shape == (HEIGHT, WIDTH, 3)


def test_an_outline_behind_the_camera_is_left_out() -> None:
    behind = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1]], float)
    _, panel = drawn(behind, False, AHEAD)
    assert near(panel, TRUTH, AHEAD) > 0.4
    guess = np.abs(panel.astype(int) - GUESS).max(axis=2) < 3
    assert guess.mean() < 0.01


def test_a_real_answer_is_drawn(coffee: np.ndarray) -> None:
    truth = np.array([[0.7, 0.1, 60], [-0.05, 0.8, 50], [0, 0, 1]])
    image = cv2.warpPerspective(coffee, truth, (600, 400))
    method = method_named('sift', Settings(device='cpu'), Options())
    pictures = Picture('coffee', coffee), Picture('seen', image)
    picture = draw_answer(method, MethodRunner(), *pictures, truth)
    assert picture.shape[1] <= 1000 and picture.dtype == np.uint8
    assert (picture[2, 2] == BLUE).all()


def test_the_result_of_a_run_survives_json(tmp_path: Path) -> None:
    run = some_run(methods=['plain'])
    run.result['methods']['plain'].pop('auc_10_ci')
    again = replace(run, result=json.loads(json.dumps(run.result)))
    one, other = write_report(tmp_path / 'a', [run]), write_report(tmp_path / 'b', [again])
    assert one.read_text() == other.read_text()
