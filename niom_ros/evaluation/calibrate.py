"""What `niom calibrate` does: learn from benchmarks when to believe a match.

Fitted on one half of the references, and reported on the other half.
"""

from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from niom_ros.errors import UserError
from niom_ros.evaluation.benchmark import Record
from niom_ros.evaluation.benchmarks.abstain import AbstainBenchmark
from niom_ros.evaluation.benchmarks.abstain import halves
from niom_ros.evaluation.benchmarks.answers import WRONG
from niom_ros.evaluation.benchmarks.sketch import SketchBenchmark
from niom_ros.evaluation.benchmarks.sketch import STANDARD
from niom_ros.evaluation.command import Evaluation
from niom_ros.evaluation.command import work_through
from niom_ros.evaluation.metrics import upper_bound
from niom_ros.evaluation.records import data_key
from niom_ros.evaluation.records import versions
from niom_ros.matching.command import write_bytes
from niom_ros.matching.confidence import Calibration
from niom_ros.matching.confidence import SIGNS
from niom_ros.matching.confidence import signs_of
from niom_ros.settings import Limits

# The two attempts of weighting 'auto', which is the default.
ATTEMPTS = ('plain', 'sew+nop')
BINDING = ('true/', 'unrelated/')  # groups of abstain
STIFFNESS = 0.1  # of the weights, against a fit to few pairs that is too good to be true
MARGIN = 0.5  # from the surest wrong match to where believing begins, in logits


@dataclass(frozen=True)
class Performance:
    """What comes of believing every match whose confidence is one half or more."""

    true_pairs: int
    true_accept: float  # share of them that is believed, and rightly
    accepted: int
    wrong_accepted: float  # share of those believed that is wrong
    wrong_accepted_upper: float  # the share is below this with 95 % certainty
    unrelated_pairs: int
    false_accept: float  # share of them that is believed
    false_accept_upper: float


def calibrate(task: Evaluation, output: Path | None) -> None:
    """Fit a calibration, say how it does on pairs that it has not seen, and write it."""
    records: dict[str, list[Record]] = {name: [] for name in ATTEMPTS}
    keys = []
    for benchmark in (
        AbstainBenchmark(task.data, task.seed),
        SketchBenchmark(task.data, task.seed),
    ):
        done = work_through(benchmark, task, ATTEMPTS)
        keys.append(data_key(benchmark))
        for name in ATTEMPTS:
            # The standard drawings are already among the true pairs of abstain.
            records[name] += [r for r in done.records[name] if r['group'] != STANDARD]
    split = {name: halves(of_method) for name, of_method in records.items()}
    calibration = fit([r for first, _ in split.values() for r in first])
    fitted, held_out = (
        {
            name: performance(calibration, split[name][half], task.options.limits)
            for name in ATTEMPTS
        }
        for half in (0, 1)
    )
    method = f'{task.settings.extractor}+{task.settings.matcher}'
    print(f'{method}: {described(calibration)}')
    for title, results in (('fitted on', fitted), ('held out', held_out)):
        for name, result in results.items():
            print(f'{title}, {name}: {said(result)}')
    if output:
        entry = {
            'weights': dict(calibration.weights),
            'bias': calibration.bias,
            'provenance': {
                'command': f'niom calibrate --extractor {task.settings.extractor} '
                f'--matcher {task.settings.matcher} --seed {task.seed}',
                'data_sha256': keys,
                'versions': versions(),
                'fitted_on': {name: asdict(result) for name, result in fitted.items()},
                'held_out': {name: asdict(result) for name, result in held_out.items()},
            },
        }
        write_entry(output, method, entry)


def fit(records: Iterable[Record]) -> Calibration:
    """Fit the confidence; then be so cautious that no wrong match among these is believed.

    Drawings that are turned, scaled or among clutter have a say in what counts how much, but not
    in how much caution is needed: there, answers are wrong by a little more than the limit.
    """
    # What no camera can see is refused whatever its confidence.
    plausible = [record for record in records if record['plausible']]
    right = np.array([is_right(record) for record in plausible])
    if not len(right) or right.all() or not right.any():
        raise UserError('right and wrong matches are both needed to calibrate: use more pairs')
    signs = np.array([list(signs_of(record['checks']).values()) for record in plausible])
    centre, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    scaled = np.column_stack([np.ones(len(signs)), (signs - centre) / spread])

    def cost(weights: np.ndarray) -> float:
        margins = np.where(right, 1, -1) * (scaled @ weights)
        return float(np.logaddexp(0, -margins).sum() + STIFFNESS * (weights[1:] ** 2).sum())

    # More points that agree must never make a match less sure, whatever these pairs say.
    bounds = [(None, None), *((0, None) if sign > 0 else (None, 0) for sign in SIGNS.values())]
    found = minimize(cost, np.zeros(scaled.shape[1]), bounds=bounds).x
    weights = found[1:] / spread
    bias = float(found[0] - weights @ centre)
    binding = np.array([record['group'].startswith(BINDING) for record in plausible])
    surest_wrong = (signs @ weights + bias)[binding & ~right].max(initial=-np.inf)
    caution = max(0.0, float(surest_wrong) + MARGIN)
    return Calibration(dict(zip(SIGNS, weights.tolist(), strict=True)), bias - caution)


def is_right(record: Record) -> bool:
    """Tell whether the best view of a pair is near the truth."""
    return record['best_error'] is not None and record['best_error'] < WRONG


def performance(
    calibration: Calibration, records: Sequence[Record], limits: Limits
) -> Performance:
    """Return what comes of a calibration."""
    true_pairs = [r for r in records if not r['group'].startswith('unrelated/')]
    unrelated = [r for r in records if r['group'].startswith('unrelated/')]
    accepted = [r for r in true_pairs if believed(calibration, r, limits)]
    wrong = sum(not is_right(record) for record in accepted)
    claimed = sum(believed(calibration, record, limits) for record in unrelated)
    return Performance(
        len(true_pairs),
        (len(accepted) - wrong) / max(1, len(true_pairs)),
        len(accepted),
        wrong / max(1, len(accepted)),
        upper_bound(wrong, len(accepted)),
        len(unrelated),
        claimed / max(1, len(unrelated)),
        upper_bound(claimed, len(unrelated)),
    )


def believed(calibration: Calibration, record: Record, limits: Limits) -> bool:
    """Tell whether the pipeline would believe the best view of a pair."""
    checks = record['checks']
    return (
        bool(record['plausible'])
        and checks['agreeing'] >= limits.min_inliers
        and checks['inlier_ratio'] >= limits.min_inlier_ratio
        and calibration.confidence(checks) >= limits.min_confidence
    )


def described(calibration: Calibration) -> str:
    """Write a calibration in one line."""
    weights = ', '.join(f'{name} {weight:.3g}' for name, weight in calibration.weights.items())
    return f'weights {weights}; bias {calibration.bias:.3g}'


def said(result: Performance) -> str:
    """Write how a calibration did in one line."""
    return (
        f'{result.true_accept:.1%} of {result.true_pairs} true pairs found; '
        f'{result.wrong_accepted:.1%} of {result.accepted} claims wrong '
        f'(below {result.wrong_accepted_upper:.1%}); '
        f'{result.false_accept:.2%} of {result.unrelated_pairs} unrelated pairs claimed '
        f'(below {result.false_accept_upper:.2%})'
    )


def write_entry(path: Path, method: str, entry: dict[str, object]) -> None:
    """Write a calibration into a file that may hold others."""
    try:
        entries = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f'{path} holds no calibrations ({error}): name another file') from None
    content = {**entries, method: entry}
    write_bytes(path, (json.dumps(content, indent=1, sort_keys=True) + '\n').encode())
