"""The page of the report: what its template shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from niom_ros.benchmarks.evaluation.finished import Finished
from niom_ros.benchmarks.evaluation.glossary import Meaning
from niom_ros.benchmarks.evaluation.reporting.charts import curves, metric_plots, Plot
from niom_ros.benchmarks.evaluation.reporting.plots import Style, swatch
from niom_ros.benchmarks.evaluation.reporting.tables import (
    ahead,
    best_methods,
    Cell,
    difference_table,
    explanations,
    full_rows,
    main_table,
    number_cell,
    Row,
    Table,
)
from niom_ros.benchmarks.evaluation.shown_pairs import ShownPair

TEMPLATES = Path(__file__).parent.parent / 'templates'


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """The result of a benchmark in one line."""

    benchmark: str
    pairs: int
    metric: str
    meaning: Meaning
    best: str  # '': not measured
    value: Cell
    ahead: str


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """The part of the page on one benchmark."""

    done: Finished
    counted: str
    main: Table
    explanations: Sequence[tuple[str, str]]
    differences: Table
    metric_plots: Sequence[Plot]
    curves: Sequence[Plot]
    all_metrics: Sequence[Row]
    shown: Sequence[ShownPair]


def report_page(
    generator: str,
    finished: Sequence[Finished],
    shown: Sequence[Sequence[ShownPair]],
    command: str,
    lacking: Mapping[str, str],
) -> str:
    """Return the page as HTML, in one file that needs no network, no script and no font."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    methods = dict.fromkeys(method for done in finished for method in done.metrics)
    styles = {method: Style(number) for number, method in enumerate(methods)}
    folders = [done.benchmark.data for done in finished]
    return templates.get_template('report.html.j2').render(
        generator=generator,
        title=f'niom eval: {", ".join(done.name for done in finished)}',
        facts=what_was_run(finished),
        command=command,
        summary=[summary_row(done) for done in finished],
        lacking={name: without_place(why, folders) for name, why in lacking.items()},
        chapters=[chapter(done, own, styles) for done, own in zip(finished, shown, strict=True)],
        swatches={method: swatch(style) for method, style in styles.items()},
    )


def what_was_run(finished: Sequence[Finished]) -> dict[str, str]:
    """Return what one needs to know to reproduce the numbers."""
    results = [done.result for done in finished]
    versions = {name: what for result in results for name, what in result['versions'].items()}
    data = dict.fromkeys(Path(result['data']).name for result in results)
    seeds = dict.fromkeys(str(result['seed']) for result in results)
    methods = dict.fromkeys(method for done in finished for method in done.metrics)
    return {
        'Benchmarks': ', '.join(f'{done.name} ({counted(done)})' for done in finished),
        'Methods': ', '.join(methods),
        'Data folder': ', '.join(data),
        'Seed': ', '.join(seeds),
        'Versions': ', '.join(f'{name} {what}' for name, what in versions.items()),
    }


def counted(done: Finished) -> str:
    """Say how much was measured."""
    pairs, cases = done.result['pairs'], len(done.cases)
    text = f'{pairs} pair' if pairs == 1 else f'{pairs} pairs'
    return text if cases == pairs else f'{text}, {cases} cases'


def summary_row(done: Finished) -> SummaryRow:
    """Return the result of a benchmark in one line."""
    metric = done.benchmark.main_metric
    best = best_methods(done, metric)
    all_equal = len(best) == len(done.metrics) > 1
    return SummaryRow(
        benchmark=done.name,
        pairs=done.result['pairs'],
        metric=metric,
        meaning=done.meaning(metric),
        best='all equal' if all_equal else ', '.join(best),
        value=number_cell(done.metrics[best[0]], metric) if best else Cell(),
        ahead=ahead(done, best[0], metric) if best else '',
    )


def without_place(text: str, folders: Sequence[Path]) -> str:
    """Return a text without the paths of folders on this machine, which are private."""
    for folder in folders:
        if folder.is_absolute():
            text = text.replace(str(folder), folder.name)
    return text


def chapter(done: Finished, shown: Sequence[ShownPair], styles: Mapping[str, Style]) -> Chapter:
    """Return what the page says about one benchmark."""
    return Chapter(
        done=done,
        counted=counted(done),
        main=main_table(done),
        explanations=explanations(done),
        differences=difference_table(done),
        metric_plots=metric_plots(done, styles),
        curves=curves(done, styles),
        all_metrics=full_rows(done),
        shown=shown,
    )
