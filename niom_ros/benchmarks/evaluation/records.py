"""Measurements on disk, so that a run can be interrupted and resumed.

One file for each benchmark and method, under a name that depends on everything that could change
a number in it: data, seed, settings, code, weights and versions. So a record is never stale, and
a run with one more method or a larger --limit measures only what is new.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
import hashlib
import json
from pathlib import Path
from typing import Any, TextIO

import niom_ros
from niom_ros.benchmarks.cache import cache_folder
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Record
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.versions import versions
from niom_ros.core.errors import UserError
from niom_ros.core.settings import choose_device, existing_file
from niom_ros.matching.confidence import calibration_of, INK

# The code that a measurement depends on; code that summarises or draws it is not part of this.
MEASURING_CODE = (
    'core',
    'drawings',
    'matching',
    'models/table.py',
    'networks',
    'references/known_reference.py',
    'semantics',
    'simulation',
    'stream',
    'tracking',
    'benchmarks/classical.py',
    'benchmarks/evaluation/answers.py',
    'benchmarks/evaluation/corruptions.py',
    'benchmarks/evaluation/method_runner.py',
    'benchmarks/evaluation/methods.py',
    'benchmarks/evaluation/metrics.py',
    'benchmarks/evaluation/suites',
)


class Records:
    """The records of one benchmark and one method."""

    def __init__(self, path: Path) -> None:
        """Read what was measured before; a last line that was cut off is ignored."""
        self.path = path
        self._file: TextIO | None = None
        self._known: dict[str, Record] = {}
        for name, record in read(path):
            self._known[name] = record

    def __contains__(self, case: str) -> bool:
        """Return whether a case was measured."""
        return case in self._known

    def __getitem__(self, case: str) -> Record:
        """Return what was measured on a case."""
        return self._known[case]

    def add(self, case: str, record: Record) -> None:
        """Keep what was measured on a case, in memory and on disk."""
        self._known[case] = record
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open('a', encoding='utf-8')
            # On a new line, in case the last one was cut off.
            self._file.write('\n' + json.dumps({'case': case, 'record': record}))
            self._file.flush()
        except OSError as error:
            raise UserError(
                f'cannot write {self.path} ({error.strerror}): '
                'set NIOM_CACHE to a folder that is writable and has room'
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def forget(self) -> None:
        """Remove all records."""
        self.close()
        self._known.clear()
        self.path.unlink(missing_ok=True)


def read(path: Path) -> Iterator[tuple[str, Record]]:
    """Return the complete lines of a file of records."""
    if not path.is_file():
        return
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        try:
            entry = json.loads(line)
            yield entry['case'], entry['record']
        except (ValueError, KeyError, TypeError):
            continue


def records_of(
    benchmark: Benchmark, method: Method, data_key: str, judged: bool = True
) -> Records:
    """Return the records of a method that were measured so far.

    Without `judged` they do not depend on the calibration, and what they say about accepted
    matches has no meaning.
    """
    # Weighting 'auto' tries weights if it does not accept the result without them.
    judged &= benchmark.depends_on_acceptance or method.options.weighting.kind == 'auto'
    acceptance = judgement(method) if judged else 'not judged'
    key = digest(
        (
            data_key.encode(),
            json.dumps([benchmark.name, benchmark.seed, benchmark.variant()]).encode(),
            json.dumps(
                [method.classical, asdict(method.settings), asdict(method.options)]
            ).encode(),
            json.dumps([device_of(method), acceptance]).encode(),
            *(
                existing_file(getattr(method.settings, name), name).read_bytes()
                for name in ('detector_path', 'detector_labels', 'clip_path')
                if getattr(method.settings, name)
            ),
            json.dumps(versions()).encode(),
            code_key().encode(),
        )
    )
    safe_name = method.name.replace('/', '_')
    return Records(cache_folder() / 'eval' / benchmark.name / f'{safe_name}-{key[:16]}.jsonl')


def judgement(method: Method) -> dict[str, Any] | None:
    """Return what decides whether the method accepts a match."""
    if method.classical:
        return None
    settings = method.settings
    names = [f'{settings.extractor}+{settings.matcher}']
    if method.options.drawing_search != 'matches':
        names.append(INK)
    found = {name: calibration_of(name) for name in names}
    return {name: asdict(known) for name, known in found.items() if known is not None}


def device_of(method: Method) -> str:
    """Return where the networks of a method run."""
    return '' if method.classical else choose_device(method.settings.device).type


def data_key(benchmark: Benchmark) -> str:
    """Return a hash of all files of the benchmark's data."""
    files = sorted(
        path
        for folder in benchmark.folders
        for path in (benchmark.data / folder).rglob('*')
        if path.is_file()
    )
    return digest(
        part
        for path in files
        for part in (path.relative_to(benchmark.data).as_posix().encode(), path.read_bytes())
    )


def code_key() -> str:
    """Return a hash of the code that measures."""
    root = Path(niom_ros.__file__).parent
    files = sorted(
        path
        for part in MEASURING_CODE
        for path in ([root / part] if part.endswith('.py') else (root / part).rglob('*.py'))
    )
    return digest(path.read_bytes() for path in files)


def digest(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of parts, which depends on where each part ends."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()
