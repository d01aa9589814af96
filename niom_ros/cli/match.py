"""What `niom match` does: match two image files, then print, draw and write the result."""

from dataclasses import asdict
import json
from pathlib import Path

import numpy as np

from niom_ros.core.settings import default_threads, Options, Settings
from niom_ros.core.threads import use_threads
from niom_ros.images.decoding import read_image
from niom_ros.images.pages.reading import read_reference_picture
from niom_ros.images.writing import write_bytes, write_picture
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.geometry import Status
from niom_ros.matching.match import Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.pictures.matches import draw_report
from niom_ros.semantics.scene import Scene


def match_files(
    reference_path: str,
    image_path: str,
    *,
    settings: Settings,
    options: Options,
    label: str = '',
    picture: Path | None = None,
    json_file: Path | None = None,
    page: int = 0,
    page_dpi: float = 0.0,
) -> Match:
    """Find the reference in the image, or one of its kind, and write the result."""
    use_threads(default_threads())
    reference_picture = read_reference_picture(reference_path, page, page_dpi)
    image = read_image(image_path)
    matcher = Matcher(settings)
    reference = matcher.prepare(
        Reference(reference_picture.image, label=label), options.limits.min_inliers
    )
    match, *further = matcher.match_several(reference, image, options)
    verdict = match.verdict
    for note in reference_picture.notes:
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
    if picture:
        write_picture(picture, draw_report(reference, image, match, further))
    if json_file:
        result = as_json(reference, match, matcher.method)
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
