"""What benchmarks record about an answer that is a homography."""

from dataclasses import asdict

import numpy as np

from niom_ros.benchmarks.evaluation.benchmark import Record
from niom_ros.benchmarks.evaluation.method_runner import MethodAnswer, Picture
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.checks import as_dict
from niom_ros.matching.geometry import corner_error, in_front

WRONG = 20.0  # pixels of mean corner error from which an answer counts as wrong


def answer_record(answer: MethodAnswer, reference: Picture, truth: np.ndarray | None) -> Record:
    """Return what was claimed, how far it is from the truth, and the evidence for it.

    If there is no truth, there is nothing to find, so any claim is wrong.
    """
    verdict, evidence = answer.match.verdict, answer.evidence
    return {
        'status': verdict.status.name,
        'accepted': answer.accepted,
        'confidence': verdict.confidence,
        'error': error_of(verdict.reference_to_image, truth, reference),
        'best_error': error_of(evidence.reference_to_image, truth, reference),
        'matches': len(answer.correspondences),
        'agreeing': int(evidence.inliers.sum()),
        'plausible': answer.plausible,
        'checks': as_dict(evidence.checks),
        'alike': kind_signs_of(answer.match.alike),
    }


def kind_signs_of(alike: AlikeObject | None) -> dict[str, float]:
    """Return the evidence that an object is of the reference's kind; nothing if unknown."""
    return {} if alike is None or alike.signs is None else asdict(alike.signs)


def error_of(
    found: np.ndarray | None, truth: np.ndarray | None, reference: Picture
) -> float | None:
    """Return the mean corner error in pixels; None if nothing was found, or nothing was there."""
    if found is None or truth is None:
        return None
    if not in_front(found, reference.box):
        return float('inf')
    return corner_error(found, truth, reference.box)


def error_or_infinity(record: Record) -> float:
    """Return the error of a claim; the error of a refusal is infinite."""
    return float('inf') if record['error'] is None else record['error']


def wrong_share(records: list[Record]) -> float:
    """Return the share of wrong answers among the claims; 0 if nothing was claimed."""
    claims = [record for record in records if record['accepted']]
    if not claims:
        return 0.0
    return sum(error_or_infinity(record) >= WRONG for record in claims) / len(claims)
