"""The report of `niom eval`: a page with tables, plots, and the best and worst pairs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import hashlib
from pathlib import Path
import re
import shlex

import cv2
import numpy as np

from niom_ros.benchmarks.evaluation.finished import Finished
from niom_ros.benchmarks.evaluation.glossary import ERROR_UNITS
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner
from niom_ros.benchmarks.evaluation.run import new_runner
from niom_ros.benchmarks.evaluation.shown_pairs import extremes, record_words, ShownPair
from niom_ros.core.durable_files import write_atomically
from niom_ros.core.errors import UserError
from niom_ros.core.extras import needs_extra
from niom_ros.core.progress_line import ProgressLine
from niom_ros.core.settings import default_threads

GENERATOR = 'niom eval'
INDEX = 'index.html'
PICTURES = 'pictures'
PICTURED_METHODS = 3
JPEG_QUALITY = 88

# Only files with names of this form are ever removed from the folder.
PICTURE_NAME = re.compile(r'[a-z0-9_.-]+-(best|worst)-\d-[0-9a-f]{12}\.jpg')


def write_report(
    folder: Path,
    finished: Sequence[Finished],
    runner: MethodRunner | None = None,
    arguments: Sequence[str] = (),
    lacking: Mapping[str, str] | None = None,
) -> Path:
    """Write a page about benchmarks into a folder, replacing an earlier one.

    `arguments` are those of the command, to show how to run it again; `lacking` says why other
    benchmarks were left out. At any time the page in the folder has all its pictures.
    """
    check_folder(folder)
    # Only here: matplotlib takes a second to load, and a run without a report does not need it.
    from niom_ros.benchmarks.evaluation.reporting.page import report_page

    runner = runner or new_runner(default_threads())
    shown = [draw_pairs(done, folder / PICTURES, runner) for done in finished]
    command_line = command(arguments) if arguments else ''
    content = report_page(GENERATOR, finished, shown, command_line, lacking or {})
    used = {one.file for of_one in shown for one in of_one}
    with writing(folder):
        write_atomically(folder / INDEX, content.encode())
        for file in (folder / PICTURES).iterdir():
            if PICTURE_NAME.fullmatch(file.name) and file.name not in used:
                file.unlink()
    return folder / INDEX


def check_folder(folder: Path) -> None:
    """Make sure, before hours of measuring, that a report can be written into a folder."""
    with needs_extra('eval', '--report'):
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401

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
    """Say what to do if the folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f'cannot write the report into {folder} ({error.strerror}): '
            'give --report a folder that is writable'
        ) from None


def draw_pairs(done: Finished, folder: Path, runner: MethodRunner) -> list[ShownPair]:
    """Draw the best and the worst pairs of the first methods."""
    chosen = [
        (method, kind, rank, index)
        for method in done.methods[:PICTURED_METHODS]
        for kind, indices in zip(
            ('best', 'worst'), extremes(done, done.records[method.name]), strict=True
        )
        for rank, index in enumerate(indices, start=1)
    ]
    line, shown = ProgressLine(), []
    try:
        for number, (method, kind, rank, index) in enumerate(chosen, start=1):
            line.draw(f'{done.name}: drawing picture {number} of {len(chosen)}')
            case = done.cases[index]
            picture = done.benchmark.picture(case, method, runner)
            beginning = safe_name(f'{done.name}-{method.name}-{kind}-{rank}')
            record = done.records[method.name][index]
            shown.append(
                ShownPair(
                    method=method.name,
                    kind=kind,
                    case=case.name,
                    words=record_words(record, ERROR_UNITS.get(done.name, '')),
                    file=write_picture(folder, beginning, picture),
                    size=(picture.shape[1], picture.shape[0]),
                )
            )
    finally:
        line.clear()
    return shown


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
    """Return a text as part of a file name that is valid on every system and in links."""
    return re.sub(r'[^a-z0-9-]+', '_', text.lower())


def command(arguments: Sequence[str]) -> str:
    """Return the command line with only the last part of paths, so that it reveals nothing."""

    def named(argument: str) -> str:
        option, equals, value = argument.partition('=')
        if equals and '/' in value:
            return f'{option}={Path(value).name}'
        return Path(argument).name if '/' in argument else argument

    return shlex.join(['niom', *map(named, arguments)])
