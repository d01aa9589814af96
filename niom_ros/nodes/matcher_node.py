"""The matcher node: finds the reference in every camera frame it has time for."""

from array import array
from dataclasses import dataclass
import os
import sys
from threading import Lock
from threading import Thread

import numpy as np
from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.qos import QoSProfile
from rclpy.qos import ReliabilityPolicy
from rclpy.time import Time
from sensor_msgs.msg import Image
from sensor_msgs.msg import RegionOfInterest
import torch

from niom_ros.matching.geometry import Limits
from niom_ros.matching.geometry import Status
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import read_image
from niom_ros.matching.pictures import draw_matches
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Pipeline
from niom_ros.matching.pipeline import Reference
from niom_ros.matching.settings import Settings
from niom_ros.msg import Homography
from niom_ros.msg import MatchResult
from niom_ros.nodes.image_conversion import message_to_rgb
from niom_ros.nodes.image_conversion import rgb_to_message
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.newest_frame import NewestFrame
from niom_ros.nodes.parameters import declare
from niom_ros.nodes.parameters import MATCHER_PARAMETERS
from niom_ros.nodes.parameters import problem_with_changes
from niom_ros.nodes.parameters import read
from niom_ros.srv import SetReference

NO_WEIGHTS = 'none: this version does not weight descriptors'


@dataclass(frozen=True)
class NamedReference:
    """A reference as clients know it."""

    reference: Reference
    id: str
    label: str
    revision: int  # grows with every reference that was set


class MatcherNode(Node):
    """Matches the newest camera frame with the reference and publishes what it found."""

    def __init__(self) -> None:
        """Load the networks and open all topics and services."""
        super().__init__('matcher')
        declare(self, MATCHER_PARAMETERS)
        values = read(self, MATCHER_PARAMETERS)
        torch.set_num_threads(values['threads'] or max(1, (os.cpu_count() or 2) - 1))
        self._pipeline = Pipeline(
            Settings(
                extractor=values['extractor'],
                device=values['device'],
                max_keypoints=values['max_keypoints'],
                max_image_side=values['max_image_side'],
            )
        )
        self._named: NamedReference | None = None
        self._revision = 0
        self._setting = Lock()
        self._apply(values)
        if values['reference_path']:
            self._keep(self._pipeline.prepare(read_image(values['reference_path'])), '', '')

        # Reliable, so that every subscriber connects; one deep, so that nobody reads old news.
        outputs = QoSProfile(depth=1)
        self._match_publisher = self.create_publisher(MatchResult, '~/match', outputs)
        self._homography_publisher = self.create_publisher(Homography, '~/homography', outputs)
        self._debug_publisher = self.create_publisher(Image, '~/debug_image', outputs)

        self._frames: NewestFrame[Image] = NewestFrame()
        self._current_frame: Image | None = None
        reliable = values['reliable_image']
        inputs = QoSProfile(
            depth=1,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        )
        self.create_subscription(Image, 'image', self._receive, inputs)
        # A group of its own: frames keep arriving while a reference is being prepared.
        self.create_service(
            SetReference,
            '~/set_reference',
            self._set_reference,
            callback_group=MutuallyExclusiveCallbackGroup(),
        )
        self.add_on_set_parameters_callback(self._validate)
        self.add_post_set_parameters_callback(
            lambda _: self._apply(read(self, MATCHER_PARAMETERS))
        )
        self._worker = Thread(target=self._work, name='matcher', daemon=True)
        self._worker.start()
        waiting_for = f'images on {self.resolve_topic_name("image")}'
        if self._named is None:
            waiting_for += f' and a call of {self.resolve_service_name("~/set_reference")}'
        self.get_logger().info(
            f'ready: {self._pipeline.method} on {self._pipeline.device}, waiting for {waiting_for}'
        )

    def destroy_node(self) -> None:
        """End the worker; a frame being matched is given up after a second."""
        self._frames.close()
        self._worker.join(timeout=1.0)
        super().destroy_node()

    # Parameters

    def _validate(self, changes: list[RosParameter]) -> SetParametersResult:
        problem = problem_with_changes(MATCHER_PARAMETERS, changes)
        return SetParametersResult(successful=not problem, reason=problem)

    def _apply(self, values: dict) -> None:
        self._limits = Limits(
            reprojection_error=values['reprojection_error'],
            min_inliers=values['min_inliers'],
            min_inlier_ratio=values['min_inlier_ratio'],
            min_coverage=values['min_coverage'],
        )
        self._score_threshold = values['score_threshold']
        self._debug_width = values['debug_image_width']

    # The reference

    def _set_reference(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> SetReference.Response:
        try:
            picture = self._requested_picture(request)
            mask = requested_mask(request, picture.shape[:2])
            refuse_what_is_not_supported(request)
            named = self._keep(self._pipeline.prepare(picture, mask), request.id, request.label)
        except ImageError as error:
            response.message = f'refused: {error}'
            if self._named is not None:
                response.message += f" (still looking for '{self._named.id}')"
            self.get_logger().warning(f'set_reference {response.message}')
            return response
        reference = named.reference
        response.success = True
        response.id = named.id
        response.revision = named.revision
        response.width, response.height = reference.size
        response.keypoints = len(reference.features)
        response.matchability = reference.matchability
        response.weights_from = NO_WEIGHTS
        if reference.matchability < 0.2:
            response.warnings.append(
                f'only {len(reference.features)} distinct points: it will be hard to find'
            )
        response.message = (
            f"looking for '{named.id}', {response.width} x {response.height} pixels "
            f'with {response.keypoints} keypoints'
        )
        self.get_logger().info(response.message)
        return response

    def _requested_picture(self, request: SetReference.Request) -> np.ndarray:
        has_image = bool(request.image.data) or request.image.width or request.image.height
        if (bool(has_image), bool(request.path), request.use_current_frame).count(True) != 1:
            raise ImageError('give exactly one of image, path and use_current_frame')
        if request.path:
            return read_image(request.path, request.page)
        if request.page:
            raise ImageError('page is only for files: leave it 0')
        if request.use_current_frame:
            if self._current_frame is None:
                raise ImageError(
                    'no camera image has arrived yet on '
                    f'{self.resolve_topic_name("image")}: check the camera and its topic'
                )
            return message_to_rgb(self._current_frame)
        return message_to_rgb(request.image)

    def _keep(self, reference: Reference, name: str, label: str) -> NamedReference:
        with self._setting:
            self._revision += 1
            self._named = NamedReference(reference, name or 'default', label, self._revision)
            return self._named

    # Frames

    def _receive(self, message: Image) -> None:
        self._current_frame = message
        self._frames.put(message)

    def _work(self) -> None:
        while (message := self._frames.take()) is not None:
            named, image = self._named, None
            try:
                image = message_to_rgb(message)
                outcome = self._match(named, image)
            except ImageError as error:
                outcome = MatchOutcome.without_matches(
                    Status.BAD_IMAGE, f'the camera image cannot be used: {error}'
                )
            except Exception as error:  # one bad frame must not end the guidance
                self.get_logger().error(f'a frame failed: {error!r}')
                outcome = MatchOutcome.without_matches(
                    Status.FAULT, f'the node failed on this frame: {error!r}'
                )
            if not self.context.ok():
                return
            self._publish(message, named, image, outcome)

    def _match(self, named: NamedReference | None, image: np.ndarray) -> MatchOutcome:
        if named is None:
            return MatchOutcome.without_matches(
                Status.NO_REFERENCE, 'nothing to look for: call ~/set_reference'
            )
        return self._pipeline.match(named.reference, image, self._limits, self._score_threshold)

    def _publish(
        self,
        message: Image,
        named: NamedReference | None,
        image: np.ndarray | None,
        outcome: MatchOutcome,
    ) -> None:
        result = result_message(message, named, outcome, self._pipeline.method)
        result.frames_received, result.frames_dropped = self._frames.counts
        age = self.get_clock().now() - Time.from_msg(message.header.stamp)
        result.latency = age.nanoseconds / 1e9
        self._homography_publisher.publish(result.homography)
        self._match_publisher.publish(result)
        if image is not None and self._debug_publisher.get_subscription_count():
            reference = named.reference if named else None
            picture = draw_matches(reference, image, outcome, self._debug_width)
            self._debug_publisher.publish(rgb_to_message(picture, message.header))


def result_message(
    message: Image, named: NamedReference | None, outcome: MatchOutcome, method: str
) -> MatchResult:
    """Return an outcome as a message, with stamp and frame of the camera image."""
    homography = Homography(
        header=message.header, status=int(outcome.status), confidence=outcome.confidence
    )
    result = MatchResult(
        header=message.header,
        status_message=outcome.message,
        image_width=message.width,
        image_height=message.height,
        reference_x=floats(outcome.correspondences.reference_points[:, 0]),
        reference_y=floats(outcome.correspondences.reference_points[:, 1]),
        image_x=floats(outcome.correspondences.image_points[:, 0]),
        image_y=floats(outcome.correspondences.image_points[:, 1]),
        score=floats(outcome.correspondences.scores),
        inlier=outcome.inliers.tolist(),
        inliers=int(outcome.inliers.sum()),
        image_keypoints=outcome.image_keypoints,
        check_names=list(outcome.checks),
        check_values=list(outcome.checks.values()),
        method=method,
        weighting='none',
        reference_weights_from=NO_WEIGHTS,
        image_weights_from=NO_WEIGHTS,
        pairing='none',
        stage_names=list(outcome.stage_seconds),
        stage_seconds=list(outcome.stage_seconds.values()),
    )
    if outcome.reference_to_image is not None:
        homography.source = Homography.MATCHED
        homography.matched_stamp = message.header.stamp
        homography.matrix = outcome.reference_to_image.ravel().tolist()
    if named is not None:
        homography.reference_id = named.id
        homography.reference_width, homography.reference_height = named.reference.size
        result.reference_label = named.label
        result.reference_revision = named.revision
        result.reference_keypoints = len(named.reference.features)
        result.tried_reference_ids = [named.id]
        result.tried_confidences = [outcome.confidence]
    result.homography = homography
    return result


def floats(values: np.ndarray) -> array:
    """Return numbers in the form that messages take without looking at each one."""
    return array('f', values.astype(np.float32).tobytes())


def requested_mask(request: SetReference.Request, shape: tuple[int, int]) -> np.ndarray | None:
    """Return where the reference counts, from the region and the mask of a request."""
    region, height, width = request.region, *shape
    mask = None
    if request.mask.data or request.mask.width or request.mask.height:
        mask = message_to_rgb(request.mask)[:, :, 0]
    if region != RegionOfInterest():
        right, bottom = region.x_offset + region.width, region.y_offset + region.height
        if not (region.width and region.height and right <= width and bottom <= height):
            raise ImageError(
                f'the region (x {region.x_offset} to {right}, y {region.y_offset} to {bottom}) '
                f'does not lie inside the picture of {width} x {height} pixels'
            )
        inside = np.zeros(shape, np.uint8)
        inside[region.y_offset : bottom, region.x_offset : right] = 255
        if mask is None:
            return inside
        if mask.shape == shape:  # any other is refused when the reference is prepared
            mask = mask & inside
    return mask


def refuse_what_is_not_supported(request: SetReference.Request) -> None:
    """Refuse fields that have no effect yet, rather than ignore them quietly."""
    unsupported = {
        'landmarks': request.landmark_names or request.landmark_x or request.landmark_y,
        'physical_width': request.physical_width,
        'kind': request.kind,
        'keep_selection': request.keep_selection,
    }
    for field, value in unsupported.items():
        if value:
            raise ImageError(f'{field} is not supported by this version: leave it empty')


def main() -> int:
    """Run the node until it is told to stop."""
    # One thread for the service, one for everything else.
    return run_node(MatcherNode, threads=2)


if __name__ == '__main__':
    sys.exit(main())
