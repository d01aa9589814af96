"""What `niom match` does: match two image files, then print, draw and write the result."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from niom_ros.core.settings import default_threads, Options, Settings, StreamOptions
from niom_ros.core.threads import use_threads
from niom_ros.images.decoding import read_image
from niom_ros.images.writing import check_writable, write_bytes, write_picture
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.pictures.matches import draw_report
from niom_ros.references.folder import read_reference
from niom_ros.references.known_reference import KnownReference
from niom_ros.semantics.scene import Scene
from niom_ros.stream.answers import landmarks_in
from niom_ros.stream.landmarks import PlacedLandmark
from niom_ros.stream.rotation import Rotation


def match_files(
    reference_path: str,
    image_path: str,
    *,
    settings: Settings,
    options: Options,
    described: Mapping[str, Any] | None = None,
    picture: Path | None = None,
    json_file: Path | None = None,
) -> Match:
    """Find the reference in the image, or one of its kind, and write the result.

    `described` says more about the reference, with the fields of its YAML file.
    """
    if picture:
        check_writable(picture, picture=True)
    if json_file:
        check_writable(json_file)
    use_threads(default_threads())
    given = read_reference(reference_path, described)
    image = read_image(image_path)
    matcher = Matcher(settings)
    reference = matcher.prepare(given, options.limits.min_inliers)
    match, *further = matcher.match_several(reference, image, options)
    verdict = match.verdict
    for note in given.notes:
        print(note)
    print(f'{verdict.status.name}: {verdict.message}')
    if options.weighting.kind != 'none':
        print(f'reference weights from {match.reference_weights.description}')
        print(f'image weights from {match.image_weights.description}')
        print(f'pairing: {describe_pairs(reference.scene, match)}')
    if verdict.reference_to_image is not None:
        print(f'confidence {verdict.confidence:.2f}, homography from reference to image:')
        print_matrix(verdict.reference_to_image)
    for number, other in enumerate(further, start=2):
        print(f'{number}: {other.message}, confidence {other.confidence:.2f}, homography:')
        print_matrix(other.reference_to_image)
    if match.status is Status.ALIKE and match.alike is not None:
        print_alike(match.alike)
    landmarks = landmarks_in(
        match,
        KnownReference(reference, revision=1),
        Rotation(0, image.shape[1], image.shape[0]),
        StreamOptions(options),
    )
    print_landmarks(landmarks)
    if picture:
        write_picture(picture, draw_report(reference, image, match, further))
    if json_file:
        result = as_json(reference, match, matcher.method)
        result['landmarks'] = [landmark_as_json(mark) for mark in landmarks]
        result['instances'] = [instance_as_json(each) for each in (match, *further) if each.found]
        write_bytes(json_file, json.dumps(result, indent=1).encode())
    return match


def print_alike(alike: AlikeObject) -> None:
    """Print where another object of the kind is."""
    box = alike.box
    print(
        f'confidence {alike.confidence:.2f}, box {box.left:.0f},{box.top:.0f} '
        f'{box.width:.0f}x{box.height:.0f}'
    )
    if alike.warp is None:
        print('no view explains its points, so there is no warp')
        return
    print(f'affine warp from reference to image, {alike.warp.deviation:.0f} px from the points:')
    print_matrix(alike.warp.matrix)


def print_landmarks(landmarks: Sequence[PlacedLandmark]) -> None:
    """Print where the landmarks are in the image, and how certain that is."""
    if not landmarks:
        return
    print('landmarks in the image (x, y, deviation in pixels, confidence):')
    width = max(len(mark.name) for mark in landmarks)
    for mark in landmarks:
        place = f'{mark.x:8.1f} {mark.y:8.1f} {mark.deviation:8.1f} {mark.confidence:8.2f}'
        outside = '' if mark.inside else '  outside of the image'
        print(f'  {mark.name:{width}} {place}{outside}')


def landmark_as_json(mark: PlacedLandmark) -> dict[str, object]:
    """Return a landmark, ready to be written as JSON, which has no NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(mark).items()
    }


def print_matrix(matrix: np.ndarray | None) -> None:
    """Print the rows of a matrix."""
    for row in () if matrix is None else matrix:
        print('  ' + ' '.join(f'{value:12.6g}' for value in row))


def describe_pairs(reference: Scene, match: Match) -> str:
    """Say which objects were paired, and how."""
    pairs = [
        f'{reference.objects[pair.reference_object].label or "unnamed"} with '
        f'{match.scene.objects[pair.image_object].label or "unnamed"} ({pair.similarity:.2f})'
        for pair in match.paired.pairs
    ]
    return ', '.join([*pairs, match.paired.description])


def as_json(reference: PreparedReference, match: Match, method: str) -> dict[str, object]:
    """Return everything about a match, ready to be written as JSON."""
    correspondences, verdict = match.correspondences, match.verdict
    homography = verdict.reference_to_image
    return {
        'status': verdict.status.name,
        'message': verdict.message,
        'method': method,
        'confidence': verdict.confidence,
        'reference_to_image': None if homography is None else homography.tolist(),
        'reference_size': list(reference.size),
        'reference_keypoints': len(reference.features),
        'image_keypoints': match.image_keypoints,
        'checks': match.checks,
        'alike': alike_as_json(match),
        'stage_seconds': match.stage_seconds,
        'reference_points': correspondences.reference_points.tolist(),
        'image_points': correspondences.image_points.tolist(),
        'scores': correspondences.scores.tolist(),
        'inliers': verdict.inliers.tolist(),
        'weighting': match.weighting,
        'reference_weights': listed(correspondences.reference_weights),
        'image_weights': listed(correspondences.image_weights),
        'reference_weights_from': match.reference_weights.description,
        'image_weights_from': match.image_weights.description,
        'reference_objects': [seen.as_message() for seen in reference.scene.objects],
        'image_objects': [seen.as_message() for seen in match.scene.objects],
        'pairing': match.paired.description,
        # JSON has no NaN.
        'object_pairs': [
            {key: None if value != value else value for key, value in asdict(pair).items()}
            for pair in match.paired.pairs
        ],
    }


def instance_as_json(match: Match) -> dict[str, object]:
    """Return one of the places of the reference, without its points."""
    homography = match.reference_to_image
    return {
        'message': match.message,
        'confidence': match.confidence,
        'reference_to_image': None if homography is None else homography.tolist(),
        'inliers': int(match.inliers.sum()),
        'checks': match.checks,
    }


def alike_as_json(match: Match) -> dict[str, object] | None:
    """Return another object of the kind, None if that is not the answer."""
    alike = match.alike
    if match.status is not Status.ALIKE or alike is None:
        return None
    return {
        'confidence': alike.confidence,
        'size': alike.size,
        'box': [alike.box.left, alike.box.top, alike.box.right, alike.box.bottom],
        'warp': None if alike.warp is None else alike.warp.matrix.tolist(),
        'warp_deviation': None if alike.warp is None else alike.warp.deviation,
    }


def listed(values: np.ndarray | None) -> list[float] | None:
    """Return an array as a list for JSON."""
    return None if values is None else values.tolist()
