"""The report of `niom eval`: a page with tables, plots, and the best and worst pairs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import hashlib
import math
from pathlib import Path
import re
import shlex

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Case, Record
from niom_ros.benchmarks.evaluation.finished import Finished, is_number, short
from niom_ros.benchmarks.evaluation.glossary import ERROR_NAMES, ERROR_UNITS, spaced
from niom_ros.benchmarks.evaluation.method_runner import Workbench
from niom_ros.benchmarks.evaluation.reporting.charts import plots
from niom_ros.benchmarks.evaluation.reporting.markup import Content, element, joined, Markup
from niom_ros.benchmarks.evaluation.reporting.page import facts, GENERATOR, page, table
from niom_ros.benchmarks.evaluation.reporting.plots import Style
from niom_ros.benchmarks.evaluation.reporting.tables import (
    ahead,
    best_methods,
    difference_table,
    full_table,
    main_table,
    NOT_MEASURED,
    number_cell,
)
from niom_ros.benchmarks.evaluation.run import new_workbench
from niom_ros.core.durable_files import write_atomically
from niom_ros.core.errors import UserError
from niom_ros.core.progress_line import LiveLine
from niom_ros.core.settings import default_threads

INDEX = 'index.html'
PICTURES = 'pictures'
PICTURED_METHODS = 3
EACH = 2  # best pairs, and as many worst ones
JPEG_QUALITY = 88

# Names that only this module gives: others in the folder are never removed.
PICTURE_NAME = re.compile(r'[a-z0-9_.-]+-(best|worst)-\d-[0-9a-f]{12}\.jpg')


@dataclass(frozen=True)
class Shown:
    """A case that the report has a picture of."""

    method: str
    kind: str  # best or worst
    case: Case
    record: Record
    file: str
    size: tuple[int, int]  # width, height


def write_report(
    folder: Path,
    finished: Sequence[Finished],
    workbench: Workbench | None = None,
    arguments: Sequence[str] = (),
    lacking: Mapping[str, str] | None = None,
) -> Path:
    """Write a page about benchmarks into a folder, in place of the one that is there.

    `arguments` are those of the command, to show how to run it again; `lacking` says of other
    benchmarks why they were left out. At any time the page in the folder has all its pictures.
    """
    check_folder(folder)
    workbench = workbench or new_workbench(default_threads())
    shown = [draw_pairs(done, folder / PICTURES, workbench) for done in finished]
    content = report_page(finished, shown, arguments, lacking or {})
    used = {one.file for of_one in shown for one in of_one}
    with writing(folder):
        write_atomically(folder / INDEX, content.encode())
        for file in (folder / PICTURES).iterdir():
            if PICTURE_NAME.fullmatch(file.name) and file.name not in used:
                file.unlink()
    return folder / INDEX


def check_folder(folder: Path) -> None:
    """Make sure, before hours of measuring, that a report can be written into a folder."""
    index, trial = folder / INDEX, folder / '.niom_eval'
    with writing(folder):
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        trial.write_bytes(b'')
        trial.unlink()
        earlier = index.read_text('utf-8', 'replace') if index.exists() else ''
    if earlier and f'content="{GENERATOR}"' not in earlier:
        raise UserError(f'{index} is not a report of niom eval: give --report a folder of its own')


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say what to do if the folder does not let itself be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f'cannot write the report into {folder} ({error.strerror}): '
            'give --report a folder that is writable'
        ) from None


# Which pairs to show


def draw_pairs(done: Finished, folder: Path, workbench: Workbench) -> list[Shown]:
    """Draw the best and the worst pairs of the first methods."""
    chosen = [
        (method, kind, rank, index)
        for method in done.methods[:PICTURED_METHODS]
        for kind, indices in zip(
            ('best', 'worst'), extremes(done, done.records[method.name]), strict=True
        )
        for rank, index in enumerate(indices, start=1)
    ]
    line, shown = LiveLine(), []
    try:
        for number, (method, kind, rank, index) in enumerate(chosen, start=1):
            line.draw(f'{done.name}: drawing picture {number} of {len(chosen)}')
            case = done.cases[index]
            picture = done.benchmark.picture(case, method, workbench)
            beginning = safe_name(f'{done.name}-{method.name}-{kind}-{rank}')
            file = write_picture(folder, beginning, picture)
            record = done.records[method.name][index]
            size = picture.shape[1], picture.shape[0]
            shown.append(Shown(method.name, kind, case, record, file, size))
    finally:
        line.clear()
    return shown


def extremes(done: Finished, records: Sequence[Record]) -> tuple[list[int], list[int]]:
    """Return which cases went best, best first, and which went worst, worst first.

    Each is of another pair, as far as there are enough.
    """
    rated = [(done.benchmark.quality(record), index) for index, record in enumerate(records)]
    rated = [(quality, index) for quality, index in rated if not math.isnan(quality)]
    pairs = [case.pair for case in done.cases]
    upwards = [index for _, index in sorted(rated, key=lambda one: one[0])]
    downwards = [index for _, index in sorted(rated, key=lambda one: -one[0])]
    best = of_different_pairs(downwards, pairs, min(EACH, (len(rated) + 1) // 2))
    others = [index for index in upwards if index not in best]
    return best, of_different_pairs(others, pairs, min(EACH, len(others)))


def of_different_pairs(order: Sequence[int], pairs: Sequence[str], count: int) -> list[int]:
    """Return the first cases of an order, each of another pair as far as there are enough."""
    firsts: dict[str, int] = {}
    for index in order:
        firsts.setdefault(pairs[index], index)
    different = list(firsts.values())
    rest = [index for index in order if index not in different]
    chosen = set([*different, *rest][:count])
    return [index for index in order if index in chosen]


def write_picture(folder: Path, beginning: str, picture: np.ndarray) -> str:
    """Write a picture under a name that changes with its content, and return the name."""
    done, data = cv2.imencode('.jpg', picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise UserError(f'a picture of {picture.shape} pixels cannot be written as JPEG')
    content = data.tobytes()
    name = f'{beginning}-{hashlib.sha256(content).hexdigest()[:12]}.jpg'
    with writing(folder):
        write_atomically(folder / name, content)
    return name


def safe_name(text: str) -> str:
    """Return a text as a part of a file name that every system and every link takes."""
    return re.sub(r'[^a-z0-9-]+', '_', text.lower())


# The page


def report_page(
    finished: Sequence[Finished],
    shown: Sequence[Sequence[Shown]],
    arguments: Sequence[str],
    lacking: Mapping[str, str],
) -> str:
    """Return the page as HTML."""
    names = ', '.join(done.name for done in finished)
    methods = dict.fromkeys(method for done in finished for method in done.metrics)
    styles = {method: Style(number) for number, method in enumerate(methods)}
    title = f'niom eval: {names}'
    links = [('summary', 'Summary'), *((f'benchmark-{done.name}', done.name) for done in finished)]
    contents = element(
        'nav',
        element('ul', (element('li', element('a', text, href=f'#{key}')) for key, text in links)),
        aria_label='Contents',
    )
    return page(
        title,
        element('a', 'Skip to the results', href='#summary', class_='skip'),
        element('header', element('h1', title), what_was_run(finished, arguments), contents),
        element(
            'main',
            summary(finished, lacking),
            (section(done, own, styles) for done, own in zip(finished, shown, strict=True)),
        ),
    )


def what_was_run(finished: Sequence[Finished], arguments: Sequence[str]) -> Markup:
    """Return what one must know to get the same numbers again."""
    results = [done.result for done in finished]
    versions = {name: what for result in results for name, what in result['versions'].items()}
    data = dict.fromkeys(Path(result['data']).name for result in results)
    seeds = dict.fromkeys(str(result['seed']) for result in results)
    methods = dict.fromkeys(method for done in finished for method in done.metrics)
    entries: list[tuple[str, Content]] = [
        ('Benchmarks', ', '.join(f'{done.name} ({counted(done)})' for done in finished)),
        ('Methods', ', '.join(methods)),
        ('Data folder', ', '.join(data)),
        ('Seed', ', '.join(seeds)),
        ('Versions', ', '.join(f'{name} {what}' for name, what in versions.items())),
    ]
    if arguments:
        entries.append(('Command', element('pre', element('code', command(arguments)))))
    return facts(entries)


def counted(done: Finished) -> str:
    """Say how much was measured."""
    pairs, cases = done.result['pairs'], len(done.cases)
    text = f'{pairs} pair' if pairs == 1 else f'{pairs} pairs'
    return text if cases == pairs else f'{text}, {cases} cases'


def command(arguments: Sequence[str]) -> str:
    """Return the command line; of a path, only the name, which says enough and gives away less."""

    def named(argument: str) -> str:
        option, equals, value = argument.partition('=')
        if equals and '/' in value:
            return f'{option}={Path(value).name}'
        return Path(argument).name if '/' in argument else argument

    return shlex.join(['niom', *map(named, arguments)])


def summary(finished: Sequence[Finished], lacking: Mapping[str, str]) -> Markup:
    """Return the outcome of each benchmark in one line."""
    rows = []
    for done in finished:
        metric = done.benchmark.main_metric
        link = element('a', done.name, href=f'#benchmark-{done.name}')
        best = best_methods(done, metric)
        leader = best[0] if best else None
        cells = [
            element('td', str(done.result['pairs'])),
            element('td', done.meaning(metric).label, element('small', element('code', metric))),
            element('td', best_words(done, best)),
            number_cell(done.metrics[leader], metric) if leader else element('td', NOT_MEASURED),
            element('td', ahead(done, leader, metric) if leader else ''),
        ]
        rows.append((link, cells))
    return element(
        'section',
        element('h2', 'Summary', id='summary'),
        table(
            'The best method of each benchmark, by its main metric.',
            ['Benchmark', 'Pairs', 'Main metric', 'Best', 'Value', 'Against the others'],
            rows,
        ),
        (
            element(
                'p',
                element('b', f'{name} was not measured: '),
                without_place(reason, [done.benchmark.data for done in finished]),
                class_='warn',
            )
            for name, reason in lacking.items()
        ),
        element('h3', 'How to read the numbers'),
        element(
            'p',
            'Below each value is its 95 % interval: what other pairs of the same kind would give, '
            'from 1000 draws of the tested pairs. Pairs with the same scene or first picture are '
            'drawn together; other pictures that pairs share make intervals a little too narrow. '
            'Differences between methods are taken within each draw, on the same pairs; they are '
            'called better or worse only if their interval excludes 0. One in twenty intervals '
            'misses by chance, so a single such word among many means little. Intervals from '
            'fewer than about 20 scenes tend to be too narrow; where something never or always '
            'happened, nothing varies between draws, and the interval says nothing.',
        ),
    )


def without_place(text: str, folders: Sequence[Path]) -> str:
    """Return a text without where on this machine folders are, which is nobody's business."""
    for folder in folders:
        if folder.is_absolute():
            text = text.replace(str(folder), folder.name)
    return text


def best_words(done: Finished, best: Sequence[str]) -> Content:
    """Say which methods are best."""
    if not best:
        return NOT_MEASURED
    return 'all alike' if len(best) == len(done.metrics) > 1 else ', '.join(best)


def section(done: Finished, shown: Sequence[Shown], styles: Mapping[str, Style]) -> Markup:
    """Return the part of the page on one benchmark."""
    key = f'benchmark-{done.name}'
    missing = [
        element(
            'p',
            element('b', f'{folder} was not measured: '),
            'the data folder does not have it.',
            class_='warn',
        )
        for folder in done.result['missing']
    ]
    return element(
        'section',
        element('h2', done.name, id=key),
        element('p', done.benchmark.title, class_='lead'),
        element('p', f'{counted(done)} for each method.', class_='note'),
        missing,
        main_table(done, styles),
        difference_table(done),
        element('h3', 'Plots'),
        plots(done, styles),
        full_table(done),
        pair_pictures(done, shown),
        aria_labelledby=key,
    )


# Pictures


def pair_pictures(done: Finished, shown: Sequence[Shown]) -> Markup:
    """Return the best and the worst pairs, as pictures."""
    if not shown:
        return Markup()
    parts = []
    for method in dict.fromkeys(one.method for one in shown):
        own = [one for one in shown if one.method == method]
        parts.append(element('h4', method))
        columns = [
            element(
                'div',
                element('h5', kind),
                (pair_figure(done, one) for one in own if one.kind == kind.lower()),
            )
            for kind in ('Best', 'Worst')
        ]
        parts.append(element('div', columns, class_='pairs'))
    left_out = len(done.methods) - len({one.method for one in shown})
    only = ' Only the first methods have pictures.' if left_out else ''
    return joined(
        element('h3', 'Best and worst pairs'),
        element('p', f'Each picture is a link to its full size.{only}', class_='note'),
        parts,
    )


def pair_figure(done: Finished, one: Shown) -> Markup:
    """Return a picture with its numbers."""
    numbers = record_words(one.record, ERROR_UNITS.get(done.name, ''))
    link = f'{PICTURES}/{one.file}'
    width, height = one.size
    return element(
        'figure',
        element(
            'a',
            element(
                'img',
                src=link,
                alt=f'{one.kind} of {one.method}: {one.case.name}. {numbers}',
                width=width,
                height=height,
                loading='lazy',
            ),
            href=link,
        ),
        element('figcaption', element('b', one.case.name), numbers),
    )


def record_words(record: Record, unit: str) -> str:
    """Say what was measured on a case."""
    words = []
    accepted = record.get('accepted')
    if accepted is not None:
        status = spaced(str(record.get('status', ''))).lower()
        words.append('accepted' if accepted else f'refused: {status}' if status else 'refused')
    if is_number(record.get('error')):
        words.append(f'{ERROR_NAMES.get(unit, "error")} {short(record["error"], unit)}')
    elif is_number(record.get('best_error')):
        words.append(f'error of the best guess {short(record["best_error"], unit)}')
    elif 'error' in record and not accepted:
        words.append('nothing found')
    if is_number(record.get('matches')) and is_number(record.get('agreeing')):
        words.append(f'{record["agreeing"]} of {record["matches"]} matches fit the best view')
    told = ('accepted', 'status', 'error', 'best_error', 'matches', 'agreeing', 'group', 'unit')
    for key, value in record.items():
        if key not in told and (is_number(value) or isinstance(value, (str, bool))):
            words.append(f'{spaced(key)} {short(value) if is_number(value) else value}')
    return ', '.join(words) or 'no numbers'
