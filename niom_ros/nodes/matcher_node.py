"""The matcher node: finds the reference in every camera frame it has time for."""

from array import array
from dataclasses import asdict
from dataclasses import dataclass
import sys
from threading import Thread

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import Image
import torch

from niom_ros.matching.geometry import Status
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import read_image
from niom_ros.matching.pictures import draw_matches
from niom_ros.matching.pictures import draw_semantics
from niom_ros.matching.pipeline import MatchOutcome
from niom_ros.matching.pipeline import Pipeline
from niom_ros.matching.pipeline import Reference
from niom_ros.msg import DetectedObject
from niom_ros.msg import Homography
from niom_ros.msg import MatchResult
from niom_ros.msg import ObjectPair
from niom_ros.nodes.image_conversion import message_to_rgb
from niom_ros.nodes.image_conversion import rgb_to_message
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.newest_frame import NewestFrame
from niom_ros.nodes.parameters import declare
from niom_ros.nodes.parameters import read
from niom_ros.nodes.parameters import refuse_wrong_values
from niom_ros.nodes.reference_request import check_request
from niom_ros.nodes.reference_request import NoCameraImage
from niom_ros.nodes.reference_request import refusal
from niom_ros.nodes.reference_request import requested_hints
from niom_ros.nodes.reference_request import requested_mask
from niom_ros.parameters import MATCHER_PARAMETERS
from niom_ros.parameters import options_of
from niom_ros.parameters import settings_of
from niom_ros.semantics.scene import Scene
from niom_ros.settings import default_threads
from niom_ros.srv import SetReference

OLDEST_CURRENT_FRAME = 5.0  # seconds since it arrived
POOR_MATCHABILITY = 0.2


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
        """Load the networks, open all topics and services, and start the worker."""
        super().__init__('matcher')
        declare(self, MATCHER_PARAMETERS)
        values = read(self, MATCHER_PARAMETERS)
        torch.set_num_threads(values['threads'] or default_threads())
        self._pipeline = Pipeline(settings_of(values))
        self._named: NamedReference | None = None
        self._revision = 0
        self._apply(values)
        if values['reference_path']:
            picture = read_image(values['reference_path'])
            reference = self._pipeline.prepare(picture, None, self._options.limits.min_inliers)
            self._keep(reference, name='', label='')

        # Reliable, so that every subscriber connects; one deep, so that nobody reads old news.
        outputs = QoSProfile(depth=1)
        self._match_publisher = self.create_publisher(MatchResult, '~/match', outputs)
        self._homography_publisher = self.create_publisher(Homography, '~/homography', outputs)
        self._debug_publisher = self.create_publisher(Image, '~/debug_image', outputs)
        self._heatmap_publisher = self.create_publisher(Image, '~/heatmap_image', outputs)

        self._frames: NewestFrame[Image] = NewestFrame()
        reliable = values['reliable_image']
        inputs = QoSProfile(
            depth=1,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        )
        self.create_subscription(Image, 'image', self._frames.put, inputs)
        self.create_service(SetReference, '~/set_reference', self._set_reference)
        refuse_wrong_values(self, MATCHER_PARAMETERS)
        self.add_post_set_parameters_callback(
            lambda _: self._apply(read(self, MATCHER_PARAMETERS))
        )
        # Frames are matched in a thread of their own, so that services answer meanwhile.
        Thread(target=self._work, name='matcher', daemon=True).start()
        waiting_for = f'images on {self.resolve_topic_name("image")}'
        if self._named is None:
            waiting_for += f' and a call of {self.resolve_service_name("~/set_reference")}'
        self.get_logger().info(
            f'ready: {self._pipeline.method} on {self._pipeline.device}, waiting for {waiting_for}'
        )

    def destroy_node(self) -> None:
        """Let the worker end after the frame it works on."""
        self._frames.close()
        super().destroy_node()

    # Parameters

    def _apply(self, values: dict) -> None:
        self._options = options_of(values)
        self._debug_width = values['debug_image_width']

    # The reference

    def _set_reference(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> SetReference.Response:
        try:
            self._fill(response, self._reference_from(request, response))
        except Exception as error:  # whatever it is, the caller gets an answer
            response.error, reason = refusal(error)
            response.message = f'refused: {reason}'
            if self._named is not None:
                response.message += f" (still looking for '{self._named.id}')"
            self.get_logger().warning(f'set_reference {response.message}')
        return response

    def _reference_from(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> NamedReference:
        check_request(request)
        picture = self._requested_picture(request, response)
        mask = requested_mask(request, picture.shape[:2])
        hints = requested_hints(request, picture.shape[:2])
        fewest = self._options.limits.min_inliers
        reference = self._pipeline.prepare(picture, mask, fewest, hints)
        return self._keep(reference, request.id, request.label)

    def _requested_picture(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> np.ndarray:
        if request.path:
            return read_image(request.path, request.page)
        if request.use_current_frame:
            message = self._frames.newest(OLDEST_CURRENT_FRAME)
            if message is None:
                raise NoCameraImage(
                    f'no camera image arrived in the last {OLDEST_CURRENT_FRAME:.0f} s on '
                    f'{self.resolve_topic_name("image")}: check the camera and its topic'
                )
            response.header = message.header
            return message_to_rgb(message)
        return message_to_rgb(request.image)

    def _keep(self, reference: Reference, name: str, label: str) -> NamedReference:
        # Only the service and the start come here, one after the other.
        self._revision += 1
        self._named = NamedReference(reference, name or 'default', label, self._revision)
        return self._named

    def _fill(self, response: SetReference.Response, named: NamedReference) -> None:
        reference = named.reference
        response.success = True
        response.id = named.id
        response.revision = named.revision
        response.width, response.height = reference.size
        request = SetReference.Request
        response.kind = request.KIND_DRAWING if reference.drawing else request.KIND_PHOTO
        response.kind_confidence = reference.kind_confidence
        response.keypoints = len(reference.features)
        response.matchability = reference.matchability
        response.objects = object_messages(reference.scene)
        response.weights_from = reference.scene.source
        if reference.matchability < POOR_MATCHABILITY:
            response.warnings.append(
                f'only {len(reference.features)} distinct points: it will be hard to find'
            )
        if not reference.scene.objects and self._options.weighting.kind != 'none':
            response.warnings.append(
                f'no semantic weights ({reference.scene.source}): '
                'mark objects or give a label to help it'
            )
        response.message = (
            f"looking for '{named.id}', {response.width} x {response.height} pixels "
            f'with {response.keypoints} keypoints; weights from {response.weights_from}'
        )
        self.get_logger().info(response.message)

    # Frames

    def _work(self) -> None:
        while (message := self._frames.take()) is not None:
            try:
                self._process(message)
            except Exception as error:  # one bad frame must not end the guidance
                if not self.context.ok():
                    return
                self.get_logger().error(f'a frame was lost: {error!r}')

    def _process(self, message: Image) -> None:
        named, image = self._named, None
        try:
            image = message_to_rgb(message)
            outcome = self._match(named, image)
        except ImageError as error:
            outcome = MatchOutcome.without_matches(
                Status.BAD_IMAGE, f'the camera image cannot be used: {error}'
            )
        except Exception as error:
            self.get_logger().error(f'a frame failed: {error!r}')
            outcome = MatchOutcome.without_matches(
                Status.FAULT, f'the node failed on this frame: {error!r}'
            )
        if not self.context.ok():
            return
        result = result_message(message, named, outcome)
        result.method = self._pipeline.method
        result.detector = self._pipeline.detector
        result.frames_received, result.frames_dropped = self._frames.counts
        result.latency = (self.get_clock().now().nanoseconds - nanoseconds(message)) / 1e9
        self._homography_publisher.publish(result.homography)
        self._match_publisher.publish(result)
        if image is not None and self._debug_publisher.get_subscription_count():
            reference = named.reference if named else None
            picture = draw_matches(reference, image, outcome, self._debug_width)
            self._debug_publisher.publish(rgb_to_message(picture, message.header))
        if image is not None and named and self._heatmap_publisher.get_subscription_count():
            picture = draw_semantics(named.reference, image, outcome, self._debug_width)
            self._heatmap_publisher.publish(rgb_to_message(picture, message.header))

    def _match(self, named: NamedReference | None, image: np.ndarray) -> MatchOutcome:
        if named is None:
            return MatchOutcome.without_matches(
                Status.NO_REFERENCE, 'nothing to look for: call ~/set_reference'
            )
        return self._pipeline.match(named.reference, image, self._options)


def result_message(
    message: Image, named: NamedReference | None, outcome: MatchOutcome
) -> MatchResult:
    """Return an outcome as a message, with stamp and frame of the camera image."""
    verdict, correspondences = outcome.verdict, outcome.correspondences
    homography = Homography(
        header=message.header,
        status=int(verdict.status),
        image_width=message.width,
        image_height=message.height,
        confidence=verdict.confidence,
    )
    result = MatchResult(
        header=message.header,
        status_message=verdict.message,
        reference_x=floats(correspondences.reference_points[:, 0]),
        reference_y=floats(correspondences.reference_points[:, 1]),
        image_x=floats(correspondences.image_points[:, 0]),
        image_y=floats(correspondences.image_points[:, 1]),
        score=floats(correspondences.scores),
        inlier=verdict.inliers.tolist(),
        inliers=int(verdict.inliers.sum()),
        image_keypoints=outcome.image_keypoints,
        check_names=list(verdict.checks),
        check_values=list(verdict.checks.values()),
        weighting=outcome.weighting,
        reference_weights_from=outcome.reference_weights.source,
        image_weights_from=outcome.image_weights.source,
        image_objects=object_messages(outcome.scene),
        object_pairs=[ObjectPair(**asdict(pair)) for pair in outcome.paired.pairs],
        pairing=outcome.paired.how,
        stage_names=list(outcome.stage_seconds),
        stage_seconds=list(outcome.stage_seconds.values()),
    )
    if correspondences.reference_weights is not None:
        result.reference_weight = floats(correspondences.reference_weights)
    if correspondences.image_weights is not None:
        result.image_weight = floats(correspondences.image_weights)
    if verdict.reference_to_image is not None:
        homography.source = Homography.MATCHED
        homography.matched_stamp = message.header.stamp
        homography.matrix = verdict.reference_to_image.ravel().tolist()
    if named is not None:
        homography.reference_id = named.id
        homography.reference_revision = named.revision
        homography.reference_width, homography.reference_height = named.reference.size
        result.reference_label = named.label
        result.reference_objects = object_messages(named.reference.scene)
        result.reference_keypoints = len(named.reference.features)
        result.tried_reference_ids = [named.id]
        result.tried_confidences = [verdict.confidence]
    result.homography = homography
    return result


def object_messages(scene: Scene) -> list[DetectedObject]:
    """Return the objects of a scene as messages."""
    return [DetectedObject(**seen.as_message()) for seen in scene.objects]


def nanoseconds(message: Image) -> int:
    """Return the stamp of an image; also a negative one, which rclpy's Time refuses."""
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def floats(values: np.ndarray) -> array:
    """Return numbers in the form that messages take without looking at each one."""
    return array('f', values.astype(np.float32).tobytes())


def main() -> int:
    """Run the node until it is told to stop."""
    return run_node(MatcherNode)


if __name__ == '__main__':
    sys.exit(main())
