"""The matcher node: finds references in every camera frame it has time for."""

from collections.abc import Callable
from threading import Lock
from threading import Thread
import time
import traceback
from typing import Any
from typing import NoReturn

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock
from rclpy.clock import ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.lifecycle import LifecycleState
from rclpy.lifecycle import TransitionCallbackReturn
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image
import torch

from niom_ros.errors import UserError
from niom_ros.guidance.camera import CameraModel
from niom_ros.guidance.camera_images import message_to_rgb
from niom_ros.guidance.folder import read_reference
from niom_ros.guidance.folder import ReferenceFolder
from niom_ros.guidance.guide import Guidance
from niom_ros.guidance.guide import guide
from niom_ros.guidance.guide import no_guidance
from niom_ros.guidance.library import ReferenceLibrary
from niom_ros.guidance.messages import FrameInfo
from niom_ros.guidance.references import GivenReference
from niom_ros.guidance.references import NamedReference
from niom_ros.matching.geometry import Status
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import read_image
from niom_ros.matching.pipeline import Pipeline
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.diagnostics import camera_status
from niom_ros.nodes.diagnostics import matching_status
from niom_ros.nodes.diagnostics import memory
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.outputs import Outputs
from niom_ros.nodes.parameters import declare
from niom_ros.nodes.parameters import read
from niom_ros.nodes.parameters import refuse_wrong_values
from niom_ros.nodes.reference_request import check_request
from niom_ros.nodes.reference_request import fill_answer
from niom_ros.nodes.reference_request import given_reference
from niom_ros.nodes.reference_request import NoCameraImage
from niom_ros.nodes.reference_request import NotReady
from niom_ros.nodes.reference_request import reference_info
from niom_ros.nodes.reference_request import refusal
from niom_ros.nodes.statistics import Statistics
from niom_ros.parameters import guide_options_of
from niom_ros.parameters import MATCHER_PARAMETERS
from niom_ros.parameters import Parameter
from niom_ros.parameters import settings_of
from niom_ros.settings import default_threads
from niom_ros.settings import SettingsError
from niom_ros.srv import ListReferences
from niom_ros.srv import RemoveReference
from niom_ros.srv import SelectReference
from niom_ros.srv import SetReference

OLDEST_CURRENT_FRAME = 5.0  # seconds since it arrived
LONGEST_FRAME = 30.0  # seconds that deactivation waits for the frame that is being matched

DONE, REFUSED = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
Answer = Any  # a response of one of the services


class MatcherNode(LifecycleNode):
    """Matches the newest camera frame with the references and publishes what it found.

    Callbacks only keep and answer; a worker thread matches while the node is active.
    """

    def __init__(self) -> None:
        """Declare the parameters and offer the services; `configure` loads the networks."""
        super().__init__('matcher')
        declare(self, MATCHER_PARAMETERS, read_only=False)
        self._pipeline: Pipeline | None = None
        self._library: ReferenceLibrary | None = None
        self._outputs: Outputs | None = None
        self._worker: Thread | None = None
        self._activated = 0.0
        self._problem = ''  # that the user has to solve
        self._no_pose = ''  # why the last reference that was found has no pose
        self._statistics = Statistics()
        self._transitions = Lock()
        self._changes = Lock()  # of the references
        self._apply(read(self, MATCHER_PARAMETERS))
        refuse_wrong_values(self, MATCHER_PARAMETERS, self._why_fixed)
        self.add_post_set_parameters_callback(
            lambda _: self._apply(read(self, MATCHER_PARAMETERS))
        )
        # One group each, so that none waits for another; the node's own services have a third.
        images, references, lists, timers = (MutuallyExclusiveCallbackGroup() for _ in range(4))
        self._camera = CameraInput(self, images, self._statistics.image_arrived)
        for kind, name, callback, group in (
            (SetReference, '~/set_reference', self._set_reference, references),
            (SelectReference, '~/select_reference', self._select_reference, references),
            (RemoveReference, '~/remove_reference', self._remove_reference, references),
            (ListReferences, '~/list_references', self._list_references, lists),
        ):
            self.create_service(kind, name, callback, callback_group=group)
        self._guard_transitions()
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(
            1.0,
            self._publish_diagnostics,
            callback_group=timers,
            clock=Clock(clock_type=ClockType.STEADY_TIME),  # also while simulated time stands
        )

    # Lifecycle

    def start(self) -> None:
        """Configure and activate the node, unless somebody else shall do that."""
        if not self._values['autostart']:
            self.get_logger().info(f'waiting for: ros2 lifecycle set {self._name} configure')
            return
        with self._transitions:
            done = self.trigger_configure() == DONE and self.trigger_activate() == DONE
        if not done:
            raise SettingsError(self._problem)

    @property
    def _name(self) -> str:
        return self.get_fully_qualified_name()

    @property
    def _state(self) -> str:
        return str(self._state_machine.current_state[1])

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the networks and the references, and open the outputs."""
        return self._try('configure', lambda: self._configure(self._values), state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to the camera and match."""
        return self._try('activate', self._activate, state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop listening; a frame that is being matched is not published any more."""
        self._stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the networks and the references."""
        self._free()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop and free everything."""
        self._stop()
        self._free()
        return super().on_shutdown(state)

    def on_error(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Free everything after a transition that broke, so that it can be configured again."""
        self._stop()
        self._free()
        return DONE

    def destroy_node(self) -> None:
        """Let the worker end after the frame it works on, and leave the network."""
        self._camera.frames.close()
        super().destroy_node()
        # rclpy forgets it; it would keep the node alive, and others would call a dead service.
        self._state_machine.destroy_when_not_in_use()

    def _try(
        self, what: str, act: Callable[[], None], state: LifecycleState
    ) -> TransitionCallbackReturn:
        """Make a transition; if it fails, say why, and leave the node as it was."""
        try:
            act()
        except Exception as error:
            reason = str(error) if isinstance(error, UserError) else repr(error)
            self._problem = reason
            self.get_logger().error(f'cannot {what}: {reason}')
            if what == 'configure':
                self._free()
            return REFUSED
        self._problem = ''
        parent = {'configure': super().on_configure, 'activate': super().on_activate}[what]
        return parent(state)

    def _guard_transitions(self) -> None:
        """Answer a transition that is not possible now with a refusal.

        rclpy raises an exception instead, which would end the node.
        """
        change_state = self._service_change_state.callback

        def answer(request: Any, response: Any) -> Any:
            with self._transitions:
                try:
                    return change_state(request, response)
                except Exception as error:
                    self.get_logger().error(f'refused: {error}')
                    response.success = False
                    return response

        self._service_change_state.callback = answer

    def _configure(self, values: dict[str, Any]) -> None:
        torch.set_num_threads(values['threads'] or default_threads())
        pipeline = Pipeline(settings_of(values))
        folder = None
        if values['reference_folder']:
            folder = ReferenceFolder(values['reference_folder'])
        elif values['keep_references']:
            raise SettingsError('keep_references needs a folder: set reference_folder')
        library = ReferenceLibrary(folder if values['keep_references'] else None)
        self._pipeline = pipeline
        self._load_references(library, pipeline, folder, values)
        self._outputs = Outputs(self)
        self._library = library
        if library.selected is not None:
            self._outputs.publish_reference(library.selected)

    def _load_references(
        self,
        library: ReferenceLibrary,
        pipeline: Pipeline,
        folder: ReferenceFolder | None,
        values: dict[str, Any],
    ) -> None:
        """Take in the references that the parameters name.

        One broken file in a folder is told and left out; the only file that is named must work.
        """
        fewest = self._options.matching.limits.min_inliers

        def load(given: GivenReference) -> NamedReference:
            return library.add(given, given.prepared_by(pipeline, fewest))

        if folder is not None:
            for file in folder.files(create=values['keep_references']).values():
                try:
                    named = load(read_reference(file))
                    self.get_logger().info(f"reference '{named.id}' from {file}")
                except UserError as error:
                    self._statistics.failed(f'a reference was left out: {error}')
                    self.get_logger().error(f'a reference was left out: {error}')
            known = [named.id for named in library.all()]
            selected = folder.selected()
            if selected in known or len(known) == 1:
                library.choose(selected if selected in known else known[0])
        if values['reference_path']:
            library.choose(load(read_reference(values['reference_path'])).id)

    def _activate(self) -> None:
        self._camera.restart()
        self._statistics.restart()
        self._activated = time.monotonic()
        self._camera.open(self._values['image_transport'], self._values['reliable_image'])
        self._worker = Thread(target=self._work, args=(self._camera.frames,), daemon=True)
        self._worker.start()
        assert self._pipeline is not None and self._library is not None
        waiting_for = f'images on {self._camera.topic}'
        if not self._sought(self._library):
            waiting_for += f' and a call of {self.resolve_service_name("~/set_reference")}'
        self.get_logger().info(
            f'ready: {self._pipeline.method} on {self._pipeline.device}, waiting for {waiting_for}'
        )

    def _stop(self) -> None:
        self._camera.close()
        self._camera.frames.close()
        if self._worker is not None:
            self._worker.join(LONGEST_FRAME)
            self._worker = None

    def _free(self) -> None:
        with self._changes:
            if self._outputs is not None:
                self._outputs.close()
            self._pipeline = self._library = self._outputs = None
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    # Parameters

    def _why_fixed(self, parameter: Parameter) -> str:
        """Say why a parameter cannot change now, '' if it can."""
        if parameter.name == 'autostart':
            return 'autostart only counts at the start of the node: set it in its parameter file'
        if parameter.live or self._state == 'unconfigured':
            return ''
        steps = ' and '.join(['deactivate', 'cleanup'] if self._state == 'active' else ['cleanup'])
        return (
            f'{parameter.name} can only change while the node is unconfigured, '
            f'it is {self._state}: ros2 lifecycle set {self._name} {steps} first'
        )

    def _apply(self, values: dict[str, Any]) -> None:
        before: dict[str, Any] = getattr(self, '_values', values)
        self._values = values
        self._options = guide_options_of(values)
        transport = ('image_transport', 'reliable_image')
        if self._worker is not None and any(values[name] != before[name] for name in transport):
            self._camera.open(*(values[name] for name in transport))

    # References

    def _answer(
        self, name: str, response: Answer, act: Callable[[Pipeline, ReferenceLibrary], str]
    ) -> Answer:
        """Answer a service that changes references; a refusal says why and changes nothing."""
        try:
            # After a transition that is under way: at the start, the networks are still loading.
            with self._transitions, self._changes:
                if self._pipeline is None or self._library is None or self._outputs is None:
                    raise NotReady(
                        f'the node is {self._state}: ros2 lifecycle set {self._name} configure'
                    )
                response.message = act(self._pipeline, self._library)
            response.success = True
            self.get_logger().info(f'{name}: {response.message}')
        except Exception as error:  # whatever it is, the caller gets an answer
            response.success = False
            response.error, reason = refusal(error, type(response))
            if response.error == response.FAULT:
                self.get_logger().error(traceback.format_exc())
            response.message = f'refused: {reason}'
            library = self._library
            if library is not None and library.selected is not None:
                response.message += f" (still looking for '{library.selected.id}')"
            self.get_logger().warning(f'{name} {response.message}')
        return response

    def _set_reference(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> SetReference.Response:
        def act(pipeline: Pipeline, library: ReferenceLibrary) -> str:
            check_request(request)
            given = given_reference(request, self._requested_picture(request, response))
            reference = given.prepared_by(pipeline, self._options.matching.limits.min_inliers)
            named = library.put(given, reference, select=not request.keep_selection)
            fill_answer(response, named)
            looking = f"'{named.id}' is kept for later" if request.keep_selection else ''
            if not looking:
                self._show_reference(named)
                looking = f"looking for '{named.id}'"
            return (
                f'{looking}, {response.width} x {response.height} pixels with '
                f'{response.keypoints} keypoints; weights from {response.weights_from}'
            )

        return self._answer('set_reference', response, act)

    def _requested_picture(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> np.ndarray:
        if request.path:
            return read_image(request.path, request.page)
        if request.use_current_frame:
            message = self._camera.frames.newest(OLDEST_CURRENT_FRAME)
            if message is None:
                why = f'no camera image arrived in the last {OLDEST_CURRENT_FRAME:.0f} s on '
                why += f'{self.resolve_topic_name("image")}: check the camera and its topic'
                if self._state != 'active':
                    why = f'the node is {self._state} and hears no camera: activate it'
                raise NoCameraImage(why)
            response.header = message.header
            return message_to_rgb(message)
        return message_to_rgb(request.image)

    def _select_reference(
        self, request: SelectReference.Request, response: SelectReference.Response
    ) -> SelectReference.Response:
        def act(_: Pipeline, library: ReferenceLibrary) -> str:
            named = library.select(request.id)
            response.revision = named.revision
            self._show_reference(named)
            return f"looking for '{named.id}'"

        return self._answer('select_reference', response, act)

    def _remove_reference(
        self, request: RemoveReference.Request, response: RemoveReference.Response
    ) -> RemoveReference.Response:
        def act(_: Pipeline, library: ReferenceLibrary) -> str:
            removed = library.remove(request.id)
            if library.selected is None:
                return f"'{removed.id}' is removed; {library.why_nothing_is_sought()}"
            return f"'{removed.id}' is removed; still looking for '{library.selected.id}'"

        return self._answer('remove_reference', response, act)

    def _list_references(
        self, _: ListReferences.Request, response: ListReferences.Response
    ) -> ListReferences.Response:
        library = self._library
        if library is None:
            response.message = (
                f'the node is {self._state}: ros2 lifecycle set {self._name} configure'
            )
            return response
        selected = library.selected
        response.success = True
        response.selected_id = selected.id if selected else ''
        response.match_all = self._values['match_all']
        response.references = [
            reference_info(named, named.id == response.selected_id, library.file_of(named.id))
            for named in library.all()
        ]
        count = len(response.references)
        response.message = f'{count} reference{"" if count == 1 else "s"}'
        return response

    def _show_reference(self, named: NamedReference) -> None:
        assert self._outputs is not None
        self._outputs.publish_reference(named)

    # Frames

    def _work(self, frames: Any) -> None:
        while (message := frames.take()) is not None:
            try:
                self._process(message, frames)
            except Exception as error:  # one bad frame must not end the guidance
                if not self.context.ok():
                    return
                self._statistics.failed(f'a frame was lost: {error!r}')
                self.get_logger().error(f'a frame was lost: {error!r}')

    def _process(self, message: Image | CompressedImage, frames: Any) -> None:
        values, options = self._values, self._options
        pipeline, outputs = self._pipeline, self._outputs
        assert pipeline is not None and outputs is not None
        camera: CameraModel | None = None
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        too_old = self._why_stale(message)
        try:
            if too_old:
                guidance = no_guidance(Status.STALE, too_old)
            else:
                image = message_to_rgb(message)
                size = image.shape[1], image.shape[0]
                camera = self._camera_model()
                guidance = self._guide(image, camera)
        except ImageError as error:
            reason = f'the camera image cannot be used: {error}'
            self._statistics.failed(reason)
            guidance = no_guidance(Status.BAD_IMAGE, reason)
        except Exception as error:
            reason = f'the node failed on this frame: {error!r}'
            self._statistics.failed(reason)
            self.get_logger().error(reason)
            guidance = no_guidance(Status.FAULT, reason)
        too_old = self._why_stale(message)
        if too_old and guidance.outcome.verdict.status is Status.OK:
            guidance = guidance.but(Status.STALE, too_old)
        if not self.context.ok():
            return
        latency = self._age(message)
        received, dropped = frames.counts
        frame = FrameInfo(
            message.header,
            *size,
            pipeline.method,
            pipeline.detector,
            options.landmark_mode,
            latency,
            received,
            dropped,
        )
        outcome = guidance.outcome
        if outcome.verdict.status is Status.OK:
            self._no_pose = guidance.no_pose
        outputs.publish(guidance, frame, camera, values['publish_tf'])
        self._statistics.finished(outcome.verdict.status, latency, outcome.stage_seconds)
        outputs.publish_pictures(guidance, pipeline, message.header, values['picture_width'])

    def _guide(self, image: np.ndarray, camera: CameraModel | None) -> Guidance:
        pipeline, library = self._pipeline, self._library
        assert pipeline is not None and library is not None
        references = self._sought(library)
        if not references:
            why = library.why_nothing_is_sought()
            return no_guidance(Status.NO_REFERENCE, why, image, self._options.rotation)
        return guide(pipeline, references, image, camera, self._options)

    def _sought(self, library: ReferenceLibrary) -> tuple[NamedReference, ...]:
        """Return the references that frames are compared with."""
        if self._values['match_all']:
            return library.all()
        return () if library.selected is None else (library.selected,)

    def _camera_model(self) -> CameraModel | None:
        try:
            return self._camera.camera_model(self._values['rectified_image'])
        except UserError as error:
            self._statistics.failed(str(error))
            return None

    def _age(self, message: Image | CompressedImage) -> float:
        """Return how many seconds ago an image was taken, by its stamp."""
        stamp = message.header.stamp  # may be negative, which rclpy's Time refuses
        return (self.get_clock().now().nanoseconds - stamp.sec * 10**9 - stamp.nanosec) / 1e9

    def _why_stale(self, message: Image | CompressedImage) -> str:
        """Say why an image is too old to guide anyone, '' if it is not."""
        limit = self._values['max_image_age']
        age = self._age(message)
        if not limit or age <= limit:
            return ''
        if message.header.stamp == Time():
            return f'the image has no stamp, so its age is not known; max_image_age is {limit:g} s'
        return f'the image is {age:.1f} s old, and max_image_age is {limit:g} s'

    # Diagnostics

    def _publish_diagnostics(self) -> None:
        summary = self._statistics.summary()
        pipeline, library, state = self._pipeline, self._library, self._state
        values: dict[str, object] = {}
        if pipeline is not None and library is not None:
            selected = library.selected
            values = {
                'references': len(library.all()),
                'selected': selected.id if selected else 'none',
                'models': f'{pipeline.method}, detector {pipeline.detector}',
                'device': pipeline.device,
                'threads': torch.get_num_threads(),
                'pose': self._no_pose or 'published when found',
            }
        problem = self._problem
        if state == 'active' and library is not None and not library.all():
            problem = library.why_nothing_is_sought()
        array = DiagnosticArray()
        array.header.stamp = self.get_clock().now().to_msg()
        array.status = [matching_status(self, summary, state, values | memory(), problem)]
        if state == 'active':
            active = time.monotonic() - self._activated
            timeout = self._values['image_timeout']
            array.status.append(camera_status(self, self._camera, summary, timeout, active))
        self._diagnostics.publish(array)


def main() -> NoReturn:
    """Run the node until it is told to stop."""
    run_node(MatcherNode)


if __name__ == '__main__':
    main()
