"""The fields of the messages about a frame, for any message class.

The node builds ROS messages; `niom replay` builds those of a bag, or plain JSON. `Build` makes a
message of a given type from its fields; arrays of numbers are NumPy arrays.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
import math
from typing import Any

import numpy as np

from niom_ros.core.settings import LandmarkMode
from niom_ros.matching.alike_object import AlikeObject
from niom_ros.matching.geometry import Status, uncertainty_of
from niom_ros.matching.match import Match
from niom_ros.semantics.scene import Scene
from niom_ros.stream.answers import Answer
from niom_ros.stream.landmarks import resolved
from niom_ros.stream.pose import Pose

Build = Callable[..., Any]  # build('niom_ros/Homography', status=1, ...)

MATCHED, TRACKED = 1, 2  # Homography.MATCHED, Homography.TRACKED
MODE_NUMBERS = {'global': 1, 'local': 2}  # LandmarkArray.GLOBAL, LandmarkArray.LOCAL
SEMANTIC = 3  # LandmarkArray.SEMANTIC


@dataclass(frozen=True, kw_only=True)
class FrameInfo:
    """What messages say about a frame besides the answer."""

    header: Any  # of the camera image, of the type that the builder uses
    width: int
    height: int
    method: str
    detector: str
    landmark_mode: LandmarkMode
    latency: float = 0.0  # seconds from its stamp to now
    received: int = 0  # frames since the node became active
    dropped: int = 0


def homography_message(build: Build, answer: Answer, frame: FrameInfo) -> Any:
    """Return where the reference is: small, for controllers."""
    verdict = answer.match.verdict
    fields: dict[str, Any] = {
        'header': frame.header,
        'status': int(verdict.status),
        'image_width': frame.width,
        'image_height': frame.height,
        # Of the homography: an object that is only alike has none.
        'confidence': 0.0 if verdict.status is Status.ALIKE else verdict.confidence,
    }
    if answer.located:
        fields['source'] = TRACKED if answer.tracked else MATCHED
        fields['matched_stamp'] = answer.matched_tag if answer.tracked else stamp_of(frame.header)
    if verdict.reference_to_image is not None:
        fields['matrix'] = verdict.reference_to_image.ravel()
        uncertainty = uncertainty_of(verdict, answer.match.correspondences)
        fields['corner_deviation'] = floats(uncertainty.at_corners)
    if answer.reference is not None:
        width, height = answer.reference.given.size
        fields |= reference_fields(answer)
        fields |= {'reference_width': width, 'reference_height': height}
    return build('niom_ros/Homography', **fields)


def stamp_of(header: Any) -> Any:
    """Return the stamp of a header, which is a dictionary for JSON."""
    return header['stamp'] if isinstance(header, dict) else header.stamp


def reference_fields(answer: Answer) -> dict[str, Any]:
    """Return which reference a message is about."""
    if answer.reference is None:
        return {}
    return {
        'reference_id': answer.reference.id,
        'reference_revision': answer.reference.revision,
    }


def match_message(build: Build, answer: Answer, frame: FrameInfo, homography: Any) -> Any:
    """Return all that is known about a frame."""
    match, verdict = answer.match, answer.match.verdict
    correspondences = match.correspondences
    checks = match.checks | pose_checks(answer.pose)
    fields: dict[str, Any] = {
        'header': frame.header,
        'homography': homography,
        'status_message': verdict.message,
        'tried_reference_ids': [name for name, _ in answer.tried],
        'tried_confidences': floats([confidence for _, confidence in answer.tried]),
        'reference_x': floats(correspondences.reference_points[:, 0]),
        'reference_y': floats(correspondences.reference_points[:, 1]),
        'image_x': floats(correspondences.image_points[:, 0]),
        'image_y': floats(correspondences.image_points[:, 1]),
        'score': floats(correspondences.scores),
        'inlier': verdict.inliers,
        'inliers': int(verdict.inliers.sum()),
        'image_keypoints': match.image_keypoints,
        'check_names': list(checks),
        'check_values': floats(list(checks.values())),
        'method': frame.method,
        'detector': frame.detector,
        'stage_names': list(match.stage_seconds),
        'stage_seconds': floats(list(match.stage_seconds.values())),
        'latency': frame.latency,
        'frames_received': frame.received,
        'frames_dropped': frame.dropped,
        **semantic_fields(build, match),
    }
    if correspondences.reference_weights is not None:
        fields['reference_weight'] = floats(correspondences.reference_weights)
    if correspondences.image_weights is not None:
        fields['image_weight'] = floats(correspondences.image_weights)
    if match.status is Status.ALIKE and match.alike is not None:
        fields['alike'] = alike_message(build, match.alike)
    if answer.reference is not None:
        reference = answer.reference.prepared
        fields['reference_label'] = answer.reference.given.label
        fields['reference_objects'] = object_messages(build, reference.scene)
        fields['reference_keypoints'] = len(reference.features)
    return build('niom_ros/MatchResult', **fields)


def alike_message(build: Build, alike: AlikeObject) -> Any:
    """Return another object of the reference's kind."""
    fields: dict[str, Any] = {
        'confidence': alike.confidence,
        # Like DetectedObject, relative to the outer edge of the image.
        'x': alike.box.left + 0.5,
        'y': alike.box.top + 0.5,
        'width': alike.box.width,
        'height': alike.box.height,
        'warp_deviation': math.nan,
        'size': alike.size,
    }
    if alike.warp is not None:
        fields['warp'] = alike.warp.matrix.ravel()
        fields['warp_deviation'] = alike.warp.deviation
    return build('niom_ros/AlikeObject', **fields)


def semantic_fields(build: Build, match: Match) -> dict[str, Any]:
    """Return the objects, their pairs, and where the weights came from."""
    return {
        'weighting': match.weighting,
        'reference_weights_from': match.reference_weights.description,
        'image_weights_from': match.image_weights.description,
        'image_objects': object_messages(build, match.scene),
        'object_pairs': [
            build('niom_ros/ObjectPair', **asdict(pair)) for pair in match.paired.pairs
        ],
        'pairing': match.paired.description,
    }


def pose_checks(pose: Pose | None) -> dict[str, float]:
    """Return the numbers behind a pose."""
    if pose is None:
        return {}
    return {'pose_error': pose.error, 'pose_ambiguity': pose.ambiguity}


def object_messages(build: Build, scene: Scene) -> list[Any]:
    """Return the objects of a scene."""
    return [build('niom_ros/DetectedObject', **seen.as_message()) for seen in scene.objects]


def landmarks_message(build: Build, answer: Answer, frame: FrameInfo) -> Any:
    """Return where the landmarks of the reference are."""
    places = answer.landmarks
    return build(
        'niom_ros/LandmarkArray',
        header=frame.header,
        status=int(answer.match.verdict.status),
        mode=SEMANTIC
        if answer.status is Status.ALIKE
        else MODE_NUMBERS[resolved(frame.landmark_mode, answer.match.verdict)],
        names=[place.name for place in places],
        x=floats([place.x for place in places]),
        y=floats([place.y for place in places]),
        deviation=floats([place.deviation for place in places]),
        confidence=floats([place.confidence for place in places]),
        inside=np.array([place.inside for place in places], bool),
        supported=np.array([place.supported for place in places], bool),
        **reference_fields(answer),
    )


def pose_message(build: Build, pose: Pose, frame: FrameInfo) -> Any:
    """Return where the reference is in space."""
    return build(
        'geometry_msgs/PoseWithCovarianceStamped',
        header=frame.header,
        pose=pose_with_covariance(build, pose),
    )


def pose_with_covariance(build: Build, pose: Pose) -> Any:
    """Return a pose and how certain it is."""
    x, y, z = pose.translation.tolist()
    qx, qy, qz, qw = map(float, pose.quaternion)
    return build(
        'geometry_msgs/PoseWithCovariance',
        pose=build(
            'geometry_msgs/Pose',
            position=build('geometry_msgs/Point', x=x, y=y, z=z),
            orientation=build('geometry_msgs/Quaternion', x=qx, y=qy, z=qz, w=qw),
        ),
        covariance=pose.covariance.ravel(),
    )


def instances_message(build: Build, answer: Answer, frame: FrameInfo) -> Any:
    """Return all places at which references were found, and what is not seen any more."""
    return build(
        'niom_ros/InstanceArray',
        header=frame.header,
        status=int(answer.status),
        best=answer.number,
        instances=[instance_message(build, each, frame) for each in answer.instances],
    )


def instance_message(build: Build, answer: Answer, frame: FrameInfo) -> Any:
    """Return one of several equal objects."""
    return build(
        'niom_ros/Instance',
        number=answer.number,
        homography=homography_message(build, answer, frame),
        status_message=answer.message,
        landmarks=landmarks_message(build, answer, frame),
        pose=[] if answer.pose is None else [pose_with_covariance(build, answer.pose)],
    )


def image_message(build: Build, rgb: np.ndarray, header: Any) -> Any:
    """Return an RGB array as an image of encoding rgb8."""
    height, width = rgb.shape[:2]
    return build(
        'sensor_msgs/Image',
        header=header,
        height=height,
        width=width,
        encoding='rgb8',
        step=3 * width,
        data=rgb.ravel(),
    )


def floats(values: Any) -> np.ndarray:
    """Return numbers as float32, as in most messages."""
    return np.asarray(values, np.float32)
