"""Tries many bad inputs on everything that takes input, counts them and measures the memory.

    python test/fuzz/run.py                   # the long form: atheris, guided by coverage
    python test/fuzz/run.py --inputs 200      # the short form: random damage to the seeds

Each target runs in a process of its own. An input may be refused with a UserError; any other
exception, or more than MAX_MEMORY, is a failure. The input that failed is written to --failures.
The long form of all targets fails as well if it tries fewer than MIN_INPUTS.
"""

import argparse
from importlib import import_module
import os
from pathlib import Path
import random
import subprocess
import sys
import tempfile
import time
import traceback

# Each target, and the modules whose branches guide the fuzzer; none: they run in another process,
# where it does not see them, so the damage is random.
WATCHED = {
    'camera_messages': [
        'niom_ros.images.camera_images',
        'niom_ros.images.decoding',
        'niom_ros.images.tiff_layout',
        'PIL',
    ],
    'set_reference': ['niom_ros.references', 'niom_ros.images.safe_open', 'niom_ros.nodes'],
    'parameters': ['niom_ros.nodes', 'niom_ros.core.parameters'],
    'reference_yaml': ['niom_ros.references', 'niom_ros.images.decoding', 'yaml'],
    'model_store': ['niom_ros.models'],
    'bags': ['niom_ros.replay', 'rosbags'],
    'svg_pages': ['niom_ros.images.pages'],
    'pdf_pages': [],
}
MIN_INPUTS = 100_000  # of all targets together, in the long form
MAX_MEMORY = 2000  # MB of a whole process, libraries and networks' runtime included
MAX_INPUT_BYTES = 20_000  # bytes
HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--inputs', type=int, default=0, help='of each target at most; 0: the long form'
    )
    parser.add_argument('--seconds', type=int, default=600, help='most of all targets together')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--failures', type=Path, default=Path('fuzz_failures'))
    parser.add_argument('--target', choices=WATCHED, action='append', dest='targets')
    parser.add_argument('--child', choices=WATCHED, help=argparse.SUPPRESS)
    parser.add_argument('--count-file', type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return fuzz(arguments)
    targets = arguments.targets or tuple(WATCHED)
    if any(is_guided(target, arguments) for target in targets) and not has_atheris():
        print(
            'atheris, which guides the long form, cannot be imported: run make setup, or try '
            "random damage with make fuzz ARGS='--inputs 200'"
        )
        return 1
    failed, total = False, 0
    print(f'{"target":<17}{"how":<7}{"inputs":>8}{"seconds":>9}{"peak MB":>9}  result', flush=True)
    for target in targets:
        fine, count = run_target(target, arguments, arguments.seconds // len(targets))
        failed |= not fine
        total += count
    if not arguments.inputs and not arguments.targets and total < MIN_INPUTS:
        print(
            f'FAILED: {total} inputs in all, and {MIN_INPUTS} are wanted: give it more time, '
            f"make fuzz ARGS='--seconds {2 * arguments.seconds}', or a machine that is less busy"
        )
        failed = True
    return int(failed)


def is_guided(target: str, arguments: argparse.Namespace) -> bool:
    """Return whether the branches that a target takes guide what is tried next."""
    return not arguments.inputs and bool(WATCHED[target])


def has_atheris() -> bool:
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def run_target(target: str, arguments: argparse.Namespace, seconds: int) -> tuple[bool, int]:
    """Run a target in a process of its own, print a line about it, and tell whether it is fine.

    Also returns how many inputs were tried.
    """
    with tempfile.TemporaryDirectory(prefix='fuzz') as folder:
        count_file, log = Path(folder) / 'count', Path(folder) / 'log'
        command = [
            sys.executable, __file__, '--child', target, '--count-file', str(count_file),
            '--inputs', str(arguments.inputs), '--seconds', str(seconds),
            '--seed', str(arguments.seed), '--failures', str(arguments.failures.absolute()),
        ]  # fmt: skip
        began = time.monotonic()
        with log.open('wb') as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, 'TMPDIR': folder, 'OMP_NUM_THREADS': '1'},
            )
            _, status, usage = os.wait4(process.pid, 0)
        count = int(count_file.read_text()) if count_file.exists() else 0
        peak = usage.ru_maxrss // 1000
        code = os.waitstatus_to_exitcode(status)
        fine = code == 0 and peak <= MAX_MEMORY and count > 0
        verdict = 'fine' if fine else f'FAILED (exit code {code}, see {arguments.failures})'
        took = time.monotonic() - began
        how = 'guided' if is_guided(target, arguments) else 'random'
        print(f'{target:<17}{how:<7}{count:>8}{took:>9.0f}{peak:>9}  {verdict}', flush=True)
        if not fine:
            print(log.read_text(errors='replace')[-3000:], flush=True)
        return fine, count


def fuzz(arguments: argparse.Namespace) -> int:
    """Try inputs on a target, in this process."""
    if not is_guided(arguments.child, arguments):
        return try_damaged(arguments, import_module(arguments.child))
    import atheris

    with atheris.instrument_imports(include=WATCHED[arguments.child]):
        target = import_module(arguments.child)
    corpus = Path(tempfile.mkdtemp(prefix='corpus'))
    for number, seed in enumerate(target.seeds()):
        (corpus / f'{number}').write_bytes(seed)
    attempt = Counted(target.attempt, arguments)
    for seed in target.seeds():  # also those that are longer than what is mutated
        attempt(seed)
    atheris.Setup(
        [
            sys.argv[0],
            f'-runs={target.INPUTS}',
            f'-max_total_time={arguments.seconds}',
            f'-max_len={MAX_INPUT_BYTES}',
            f'-rss_limit_mb={MAX_MEMORY}',
            f'-seed={arguments.seed}',
            f'-artifact_prefix={corpus}/',
            '-timeout=20',
            str(corpus),
        ],
        attempt,
    )
    atheris.Fuzz()
    return 0


def try_damaged(arguments: argparse.Namespace, target) -> int:
    """Try the seeds, and then seeds with random damage."""
    attempt = Counted(target.attempt, arguments)
    chance = random.Random(arguments.seed)
    seeds = target.seeds()
    for seed in seeds:
        attempt(seed)
    ends = time.monotonic() + arguments.seconds
    most = arguments.inputs and min(arguments.inputs, target.INPUTS // 10)
    for _ in range((most or target.INPUTS) - len(seeds)):
        if time.monotonic() > ends:
            break
        attempt(damaged(chance.choice(seeds)[:MAX_INPUT_BYTES], chance))
    attempt.note()
    return 0


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return an input with a few bytes changed, taken out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] = chance.choice((0, 255, chance.randrange(256)))
        elif kind == 1:
            del changed[at : at + chance.choice((1, 4, 100))]
        elif kind == 2:
            changed[at:at] = changed[at : at + chance.choice((1, 8, 100))]
        else:
            changed[at:at] = chance.randbytes(chance.choice((1, 4, 30)))
    return bytes(changed)


class Counted:
    """Tries inputs, counts them, and keeps the one that fails."""

    def __init__(self, attempt, arguments: argparse.Namespace) -> None:
        self._attempt = attempt
        self._arguments = arguments
        self._count = 0

    def __call__(self, data: bytes) -> None:
        self._count += 1
        try:
            self._attempt(data)
        except BaseException:
            failures = self._arguments.failures
            failures.mkdir(exist_ok=True)
            (failures / self._arguments.child).write_bytes(data)
            self.note()
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        if self._count % 100 == 0:
            self.note()

    def note(self) -> None:
        self._arguments.count_file.write_text(str(self._count))


if __name__ == '__main__':
    sys.exit(main())
