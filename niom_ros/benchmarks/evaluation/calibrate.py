"""What `niom calibrate` does: learn from benchmarks when to accept a match.

The confidence is fitted on one half of the pictures, and reported on the other half.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
import json
from pathlib import Path

import numpy as np

from niom_ros.benchmarks.evaluation.answers import WRONG
from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Record
from niom_ros.benchmarks.evaluation.calibrate_alike import (
    calibrated_kinds,
    calibrated_points,
    Fitter,
)
from niom_ros.benchmarks.evaluation.command import Evaluation, measure
from niom_ros.benchmarks.evaluation.halves import halves
from niom_ros.benchmarks.evaluation.logistic import logistic, rows, scores
from niom_ros.benchmarks.evaluation.metrics import upper_bound
from niom_ros.benchmarks.evaluation.report import command
from niom_ros.benchmarks.evaluation.suites.abstain import (
    AbstainBenchmark,
    TRUE_HOMOGRAPHY,
    TRUE_SKETCH,
    UNRELATED_DRAWING,
    UNRELATED_PHOTO,
)
from niom_ros.benchmarks.evaluation.suites.sketch import (
    HARDER,
    SETTINGS,
    SketchBenchmark,
    SketchCase,
)
from niom_ros.benchmarks.evaluation.suites.turned import AMONG_CLUTTER, TurnedBenchmark
from niom_ros.benchmarks.evaluation.suites.zoomed import ANY_DIRECTION, ZoomedBenchmark
from niom_ros.benchmarks.versions import versions
from niom_ros.core.durable_files import write_atomically
from niom_ros.core.errors import UserError
from niom_ros.core.settings import Limits
from niom_ros.matching.alike_confidence import required
from niom_ros.matching.confidence import (
    Calibration,
    CLASSICAL,
    INK,
    INK_SIGNS,
    KIND,
    POINTS,
    SIGNS,
)
from niom_ros.matching.geometry import confidence_in
from niom_ros.matching.strategies.classical import own_limits

MARGIN = 0.5  # from the most confident wrong match to the acceptance threshold, in logits


@dataclass(frozen=True)
class Subject:
    """What is calibrated: attempts made one after another, and the evidence for each."""

    attempts: tuple[str, ...]
    signs: Mapping[str, int]
    pairs: tuple[tuple[type[Benchmark], tuple[str, ...]], ...]  # groups of benchmarks
    limits: Callable[[Limits], Limits] = lambda limits: limits  # that the strategy applies
    # Where limits leave no wrong views, nothing can be learnt: fit on all that have a view.
    fit_below_limits: bool = False
    # Whether wrong views of harder drawings, too, must not reach the confidence that is enough.
    strict: bool = False


class FirstViews(SketchBenchmark):
    """One view of each drawing in each setting: more views of it teach little, and cost hours."""

    def find_cases(self) -> Iterable[SketchCase]:
        """Leave out all other views."""
        return (case for case in super().find_cases() if not case.warp)


UNRELATED = (UNRELATED_PHOTO, UNRELATED_DRAWING)
# The standard drawings are already among the true pairs of abstain.
HARDER_DRAWINGS = (FirstViews, HARDER)
# The two attempts of weighting 'auto', which is the default.
MATCHES = Subject(
    ('plain', 'sew+nop'),
    SIGNS,
    ((AbstainBenchmark, (*UNRELATED, TRUE_HOMOGRAPHY, TRUE_SKETCH)), HARDER_DRAWINGS),
)
KEYPOINTS = Subject(
    ('classical',),
    SIGNS,
    (
        (AbstainBenchmark, (*UNRELATED, TRUE_HOMOGRAPHY)),
        (TurnedBenchmark, (AMONG_CLUTTER,)),
        (ZoomedBenchmark, (ANY_DIRECTION,)),
    ),
    own_limits,
    fit_below_limits=True,
)
DRAWINGS = Subject(
    ('ink',),
    INK_SIGNS,
    ((AbstainBenchmark, (UNRELATED_DRAWING,)), (FirstViews, SETTINGS)),
    strict=True,
)


@dataclass(frozen=True, kw_only=True)
class Performance:
    """What follows from accepting every match whose confidence is one half or more."""

    true_pairs: int
    true_accept: float  # share of them that is accepted, and correctly
    accepted: int
    wrong_accepted: float  # share of the accepted ones that is wrong
    wrong_accepted_upper: float  # the share is below this with 95 % certainty
    unrelated_pairs: int
    false_accept: float  # share of them that is accepted
    false_accept_upper: float


def calibrate(
    task: Evaluation,
    subjects: Collection[str],
    output: Path | None,
    arguments: Sequence[str] = (),
) -> None:
    """Fit the calibrations of some of the subjects, and write them."""
    if output and task.limit:
        raise UserError('a calibration from only some of the pairs is not kept: leave out --limit')
    if output:
        check_calibrations(output)
    networks = f'{task.settings.extractor}+{task.settings.matcher}'
    known = {
        'drawings': (INK, DRAWINGS),
        'matches': (networks, MATCHES),
        'classical': (CLASSICAL, KEYPOINTS),
    }
    for name, subject in (known[subject] for subject in known if subject in subjects):
        entry = calibrated(name, subject, task, arguments)
        if output:
            write_entry(output, name, entry)
    fitters: dict[str, tuple[str, Fitter]] = {
        'alike': (KIND, calibrated_kinds),
        'alike-points': (POINTS, partial(calibrated_points, kinds=required(KIND))),
    }
    for name, fitter in (fitters[subject] for subject in fitters if subject in subjects):
        fitted, results, key = fitter(task)
        print(f'{name}: {calibration_line(fitted)}')
        for title, numbers in results.items():
            listed = ', '.join(f'{what} {value:.3g}' for what, value in numbers.items())
            print(f'{title}: {listed}'.replace('_', ' '))
        if output:
            write_entry(output, name, entry_of(fitted, results, [key], arguments))


def calibrated(
    name: str, subject: Subject, task: Evaluation, arguments: Sequence[str]
) -> dict[str, object]:
    """Fit a calibration, and report how well it works on pairs that it has not seen."""
    records: dict[str, list[Record]] = {attempt: [] for attempt in subject.attempts}
    keys = []
    for kind, groups in subject.pairs:
        benchmark = kind(task.data, task.seed)
        done = measure(benchmark, task, subject.attempts, judged=False, groups=groups)
        keys.append(done.data_key)
        for attempt in subject.attempts:
            records[attempt] += done.records[attempt]
    limits = subject.limits(task.options.limits)
    # Every method has tried the same pairs, in the same order.
    split = [halves(of_attempt) for of_attempt in records.values()]
    fitting, unseen = (list(zip(*half, strict=True)) for half in zip(*split, strict=True))
    seen = [record for attempts in fitting for record in attempts]
    fitted = replace(limits, min_inliers=4, min_inlier_ratio=0.0)
    calibration = fit(
        seen, fitted if subject.fit_below_limits else limits, subject.signs, subject.strict
    )
    print(f'{name}: {calibration_line(calibration)}')
    results = {
        f'{half}, {kind}': performance(calibration, chosen, limits)
        for half, part in (('fitted on', fitting), ('held out', unseen))
        for kind in ('standard', 'harder drawings')
        if (chosen := of_kind(part, kind))
    }
    for title, result in results.items():
        print(f'{title}: {performance_line(result)}')
    reported = {title: asdict(result) for title, result in results.items()}
    return entry_of(calibration, reported, keys, arguments)


def entry_of(
    calibration: Calibration,
    results: Mapping[str, Mapping[str, float]],
    data_keys: Sequence[str],
    arguments: Sequence[str],
) -> dict[str, object]:
    """Return a calibration as it is stored, with its origin."""
    return {
        'weights': dict(calibration.weights),
        'bias': calibration.bias,
        'provenance': {
            'command': command(arguments),
            'data_sha256': data_keys,
            'versions': versions(),
            'results': results,
        },
    }


Attempts = tuple[Record, ...]
"""What was measured on one pair in each attempt."""


def of_kind(pairs: Sequence[Attempts], kind: str) -> list[Attempts]:
    """Return the harder drawings, or all other pairs."""
    return [both for both in pairs if is_standard(both[0]) == (kind == 'standard')]


def is_standard(record: Record) -> bool:
    """Return whether a pair is not one of the harder settings of sketch."""
    return record['group'] not in HARDER


def fit(
    records: Iterable[Record],
    limits: Limits,
    names: Mapping[str, int] = SIGNS,
    strict: bool = False,
) -> Calibration:
    """Fit the confidence; then lower it until no wrong standard match is accepted.

    Unless it is strict, drawings that are rotated, scaled or in clutter affect the weights, but
    not how far the confidence is lowered: wrong answers of matches are only slightly beyond the
    limit.
    """
    # What the other limits refuse stays refused, whatever its confidence.
    always_confident = Calibration({}, 99.0)
    reached = [
        r for r in records if is_accepted(always_confident, r, limits) and has_signs(r, names)
    ]
    right = np.array([is_right(record) for record in reached])
    if not len(right) or right.all() or not right.any():
        raise UserError('right and wrong matches are both needed to calibrate: use more pairs')
    signs = rows([record['checks'] for record in reached], names)
    calibration = logistic(signs, right, names)
    counting = np.array([strict or is_standard(record) for record in reached])
    surest_wrong = scores(calibration, signs)[counting & ~right].max(initial=-np.inf)
    caution = max(0.0, float(surest_wrong) + MARGIN)
    return replace(calibration, bias=calibration.bias - caution)


def is_true(record: Record) -> bool:
    """Return whether the image shows the reference."""
    return not record['group'].startswith('unrelated/')


def is_right(record: Record) -> bool:
    """Return whether the best view of a pair is near the truth."""
    return record['best_error'] is not None and record['best_error'] < WRONG


def performance(
    calibration: Calibration, pairs: Sequence[Attempts], limits: Limits
) -> Performance:
    """Return the effect of a calibration if the attempts on each pair are made in order."""
    claims = [(both, claim(calibration, both, limits)) for both in pairs]
    unrelated = [record for both, record in claims if not is_true(both[0])]
    true_pairs = [record for both, record in claims if is_true(both[0])]
    accepted = [record for record in true_pairs if record is not None]
    wrong = sum(not is_right(record) for record in accepted)
    claimed = sum(record is not None for record in unrelated)
    return Performance(
        true_pairs=len(true_pairs),
        true_accept=(len(accepted) - wrong) / max(1, len(true_pairs)),
        accepted=len(accepted),
        wrong_accepted=wrong / max(1, len(accepted)),
        wrong_accepted_upper=upper_bound(wrong, len(accepted)),
        unrelated_pairs=len(unrelated),
        false_accept=claimed / max(1, len(unrelated)),
        false_accept_upper=upper_bound(claimed, len(unrelated)),
    )


def claim(calibration: Calibration, both: Attempts, limits: Limits) -> Record | None:
    """Return the first accepted attempt, as weighting 'auto' does; None: refused."""
    return next((record for record in both if is_accepted(calibration, record, limits)), None)


def is_accepted(calibration: Calibration, record: Record, limits: Limits) -> bool:
    """Return whether the matcher would accept the best view of a pair."""
    return (
        bool(record['plausible'])
        and has_signs(record, calibration.weights)
        and not confidence_in(record['checks'], limits, calibration)[1]
    )


def has_signs(record: Record, names: Iterable[str]) -> bool:
    """Return whether a pair has this evidence: some drawings are mistaken for photos."""
    return set(names) <= record['checks'].keys()


def calibration_line(calibration: Calibration) -> str:
    """Write a calibration in one line."""
    weights = ', '.join(f'{name} {weight:.3g}' for name, weight in calibration.weights.items())
    return f'weights {weights}; bias {calibration.bias:.3g}'


def performance_line(result: Performance) -> str:
    """Write how well a calibration works in one line."""
    text = (
        f'{result.true_accept:.1%} of {result.true_pairs} true pairs found; '
        f'{result.wrong_accepted:.1%} of {result.accepted} claims wrong '
        f'(below {result.wrong_accepted_upper:.1%})'
    )
    if not result.unrelated_pairs:
        return text
    return (
        f'{text}; {result.false_accept:.2%} of {result.unrelated_pairs} unrelated pairs claimed '
        f'(below {result.false_accept_upper:.2%})'
    )


def check_calibrations(path: Path) -> dict[str, object]:
    """Return the calibrations in a file, {} if it does not exist; refuse any other file."""
    try:
        entries = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(
            f'{path} does not contain calibrations ({error}): name another file'
        ) from None
    if not isinstance(entries, dict):
        raise UserError(f'{path} does not contain calibrations: name another file')
    return entries


def write_entry(path: Path, method: str, entry: dict[str, object]) -> None:
    """Write a calibration into a file that may hold others."""
    content = {**check_calibrations(path), method: entry}
    try:
        write_atomically(path, (json.dumps(content, indent=1, sort_keys=True) + '\n').encode())
    except OSError as error:
        raise UserError(f'cannot write {path}: {error.strerror}') from None
