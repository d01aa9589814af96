"""The matcher node: finds references in every camera frame it has time for."""

from collections.abc import Callable
from dataclasses import dataclass
import math
from pathlib import Path
from threading import Lock
from threading import Thread
import time
import traceback
from typing import Any
from typing import NoReturn
from typing import TypeAlias

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
from niom_ros.guidance.references import BadReference
from niom_ros.guidance.references import NamedReference
from niom_ros.guidance.rotation import Rotation
from niom_ros.matching.geometry import Status
from niom_ros.matching.images import ImageError
from niom_ros.matching.images import read_image
from niom_ros.matching.pipeline import Pipeline
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.diagnostics import camera_status
from niom_ros.nodes.diagnostics import matching_status
from niom_ros.nodes.diagnostics import memory
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.newest_frame import NewestFrame
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
from niom_ros.settings import GuideOptions
from niom_ros.settings import SettingsError
from niom_ros.srv import ListReferences
from niom_ros.srv import RemoveReference
from niom_ros.srv import SelectReference
from niom_ros.srv import SetReference

OLDEST_CURRENT_FRAME = 5.0  # seconds since it arrived
LONGEST_FRAME = 30.0  # seconds that deactivation waits for the frame that is being matched

DONE, REFUSED = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
Answer = Any  # a response of one of the services
CameraImage: TypeAlias = Image | CompressedImage


@dataclass(frozen=True)
class Live:
    """The parameters as they are now; a frame sees one such state from beginning to end."""

    values: dict[str, Any]
    options: GuideOptions

    @property
    def transport(self) -> tuple[str, bool]:
        """Return how images are to be received."""
        return self.values['image_transport'], self.values['reliable_image']


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
        self._folder: ReferenceFolder | None = None
        self._worker: Thread | None = None
        self._activated = 0.0
        self._problem = ''  # that the user has to solve
        self._no_pose = ''  # why the last reference that was found has no pose
        self._statistics = Statistics()
        self._revision = 0  # of the last reference, also after a cleanup
        self._changes = Lock()  # of the state and of the references
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
        if not self._live.values['autostart']:
            self.get_logger().info(f'waiting for: ros2 lifecycle set {self._name} configure')
            return
        with self._changes:
            # Somebody else may have been quicker.
            ready = self._state != 'unconfigured' or self.trigger_configure() == DONE
            ready = ready and (self._state != 'inactive' or self.trigger_activate() == DONE)
        if not ready:
            raise SettingsError(self._problem)

    def stop(self) -> None:
        """Let the worker end after the frame it works on."""
        self._camera.frames.close()

    @property
    def _name(self) -> str:
        return self.get_fully_qualified_name()

    @property
    def _state(self) -> str:
        return str(self._state_machine.current_state[1])

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the networks and the references, and open the outputs."""
        done = self._try('configure', self._configure)
        return super().on_configure(state) if done == DONE else done

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to the camera and match."""
        enabled = super().on_activate(state)  # before the worker, so that no result is lost
        return self._try('activate', self._activate) if enabled == DONE else enabled

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop listening; a frame that is being matched is not published any more."""
        self._stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free the networks and the references."""
        self._free()
        self._problem = ''
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
        """Leave the network."""
        super().destroy_node()
        # rclpy forgets it; it would keep the node alive, and others would call a dead service.
        self._state_machine.destroy_when_not_in_use()

    def _try(self, what: str, act: Callable[[], None]) -> TransitionCallbackReturn:
        """Make a transition; if it fails, say why, and leave the node as it was."""
        try:
            act()
        except Exception as error:
            self._problem = str(error) if isinstance(error, UserError) else repr(error)
            self.get_logger().error(f'cannot {what}: {self._problem}')
            self._stop()
            if what == 'configure':
                self._free()
            return REFUSED
        self._problem = ''
        return DONE

    def _guard_transitions(self) -> None:
        """Answer a transition that is not possible now with a refusal.

        rclpy raises an exception instead, which would end the node.
        """
        change_state = self._service_change_state.callback

        def answer(request: Any, response: Any) -> Any:
            with self._changes:
                try:
                    return change_state(request, response)
                except Exception as error:
                    self.get_logger().error(f'refused: {error}')
                    response.success = False
                    return response

        self._service_change_state.callback = answer

    def _configure(self) -> None:
        values = self._live.values
        torch.set_num_threads(values['threads'] or default_threads())
        self._pipeline = Pipeline(settings_of(values))
        if values['reference_folder']:
            self._folder = ReferenceFolder(values['reference_folder'])
            if values['keep_references']:
                self._folder.claim()
        elif values['keep_references']:
            raise SettingsError('keep_references needs a folder: set reference_folder')
        kept_in = self._folder if values['keep_references'] else None
        library = ReferenceLibrary(kept_in, self._revision)
        self._load_references(library, self._pipeline, values['reference_path'])
        self._outputs = Outputs(self)
        self._library = library
        if library.selected is not None:
            self._outputs.publish_reference(library.selected)

    def _load_references(self, library: ReferenceLibrary, pipeline: Pipeline, path: str) -> None:
        """Take in the references that the parameters name.

        One broken file in a folder is told and left out; the only file that is named must work.
        """
        fewest = self._live.options.matching.limits.min_inliers

        def load(file: str | Path) -> NamedReference:
            given = read_reference(file)
            if given.id in [named.id for named in library.all()]:
                raise BadReference(f"{file}: there is another reference '{given.id}': rename one")
            return library.add(given, given.prepared_by(pipeline, fewest), str(file))

        if self._folder is not None:
            for _, file in self._folder.files():
                try:
                    self.get_logger().info(f"reference '{load(file).id}' from {file}")
                except UserError as error:
                    self._fail(f'a reference was left out: {error}')
            known = [named.id for named in library.all()]
            selected = self._folder.selected()
            if selected in known or len(known) == 1:
                library.choose(selected if selected in known else known[0])
        if path:
            library.choose(load(path).id)

    def _activate(self) -> None:
        assert self._pipeline is not None and self._library is not None
        self._camera.restart()
        self._statistics.restart()
        self._activated = time.monotonic()
        transport = self._live.transport
        self._camera.open(*transport)
        self._worker = Thread(target=self._work, args=(self._camera.frames,), daemon=True)
        self._worker.start()
        if self._live.transport != transport:  # it was changed meanwhile
            self._camera.open(*self._live.transport)
        waiting_for = f'images on {self._camera.topic}'
        if not self._sought(self._library, self._live):
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
        self._camera.restart()
        if self._outputs is not None:
            self._outputs.close()
        if self._folder is not None:
            self._folder.release()
        if self._library is not None:
            self._revision = self._library.revision
        self._pipeline = self._library = self._outputs = self._folder = None
        self._no_pose = ''
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
        before, self._live = getattr(self, '_live', None), Live(values, guide_options_of(values))
        if self._worker is not None and before and before.transport != self._live.transport:
            self._camera.open(*self._live.transport)

    # References

    def _answer(
        self, name: str, response: Answer, act: Callable[[Pipeline, ReferenceLibrary], str]
    ) -> Answer:
        """Answer a service that changes references; a refusal says why and changes nothing."""
        try:
            # After a transition that is under way: at the start, the networks are still loading.
            with self._changes:
                if self._pipeline is None or self._library is None:
                    raise NotReady(self._why_not_ready())
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
            fewest = self._live.options.matching.limits.min_inliers
            reference = given.prepared_by(pipeline, fewest)
            named, problem = library.put(given, reference, select=not request.keep_selection)
            fill_answer(response, named)
            if problem:
                response.warnings.append(problem)
            looking = f"'{named.id}' is kept for later"
            if library.selected is named:
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
                why += f'{self._camera.topic}: check the camera and its topic'
                if self._state != 'active':
                    why = f'the node is {self._state} and hears no camera: activate it'
                raise NoCameraImage(why)
            response.header = message.header
            image = message_to_rgb(message)
            rotation = Rotation(self._live.options.rotation, image.shape[1], image.shape[0])
            return rotation.upright(image)
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
                self._show_reference(None)
                return f"'{removed.id}' is removed; {library.why_nothing_is_sought()}"
            return f"'{removed.id}' is removed; still looking for '{library.selected.id}'"

        return self._answer('remove_reference', response, act)

    def _list_references(
        self, _: ListReferences.Request, response: ListReferences.Response
    ) -> ListReferences.Response:
        library = self._library
        if library is None:
            response.message = self._why_not_ready()
            return response
        selected = library.selected
        response.success = True
        response.selected_id = selected.id if selected else ''
        response.match_all = self._live.values['match_all']
        response.references = [
            reference_info(named, named.id == response.selected_id) for named in library.all()
        ]
        count = len(response.references)
        response.message = f'{count} reference{"" if count == 1 else "s"}'
        return response

    def _show_reference(self, named: NamedReference | None) -> None:
        assert self._outputs is not None
        self._outputs.publish_reference(named)
        self._no_pose = ''

    def _why_not_ready(self) -> str:
        if self._state == 'finalized':
            return 'the node is finalized: start it again'
        return f'the node is {self._state}: ros2 lifecycle set {self._name} configure'

    # Frames

    def _work(self, frames: NewestFrame[CameraImage]) -> None:
        while (message := frames.take()) is not None:
            try:
                self._process(message, frames)
            except Exception as error:  # one bad frame must not end the guidance
                if not self.context.ok():
                    return
                self._fail(f'a frame was lost: {error!r}')

    def _process(self, message: CameraImage, frames: NewestFrame[CameraImage]) -> None:
        live, pipeline, outputs = self._live, self._pipeline, self._outputs
        assert pipeline is not None and outputs is not None
        guidance, size, camera = self._guidance(message, live)
        latency = self._age(message)
        received, dropped = frames.counts
        frame = FrameInfo(
            message.header,
            *size,
            pipeline.method,
            pipeline.detector,
            live.options.landmark_mode,
            latency,
            received,
            dropped,
        )
        if frames.closed or not self.context.ok():
            return  # deactivated meanwhile: this frame guides nobody
        outcome = guidance.outcome
        if outcome.verdict.status is Status.OK:
            self._no_pose = guidance.no_pose
        outputs.publish(guidance, frame, camera, live.values['publish_tf'])
        self._statistics.finished(outcome.verdict.status, latency, outcome.stage_seconds)
        width = live.values['picture_width']
        outputs.publish_pictures(guidance, pipeline, message.header, width)

    def _guidance(
        self, message: CameraImage, live: Live
    ) -> tuple[Guidance, tuple[int, int], CameraModel | None]:
        """Return what is known about a frame, its size, and the calibration that fits it."""
        size = getattr(message, 'width', 0), getattr(message, 'height', 0)
        camera = None
        try:
            if too_old := self._why_stale(message, live):
                return no_guidance(Status.STALE, too_old), size, None
            image = message_to_rgb(message)
            size = image.shape[1], image.shape[0]
            camera, no_camera = self._camera_model(live, *size)
            guidance = self._guide(image, camera, no_camera, live)
        except ImageError as error:
            reason = f'the camera image cannot be used: {error}'
            self._statistics.failed(reason)
            guidance = no_guidance(Status.BAD_IMAGE, reason)
        except Exception as error:
            self._fail(f'the node failed on this frame: {error!r}')
            guidance = no_guidance(Status.FAULT, f'the node failed on this frame: {error!r}')
        if guidance.outcome.verdict.status is Status.OK and (
            too_old := self._why_stale(message, live)
        ):
            guidance = guidance.but(Status.STALE, too_old)
        return guidance, size, camera

    def _guide(
        self, image: np.ndarray, camera: CameraModel | None, no_camera: str, live: Live
    ) -> Guidance:
        pipeline, library = self._pipeline, self._library
        assert pipeline is not None and library is not None
        references = self._sought(library, live)
        if not references:
            why = library.why_nothing_is_sought()
            return no_guidance(Status.NO_REFERENCE, why, image, live.options.rotation)
        return guide(pipeline, references, image, camera, live.options, no_camera)

    def _sought(self, library: ReferenceLibrary, live: Live) -> tuple[NamedReference, ...]:
        """Return the references that frames are compared with."""
        if live.values['match_all']:
            return library.all()
        selected = library.selected
        return () if selected is None else (selected,)

    def _camera_model(self, live: Live, width: int, height: int) -> tuple[CameraModel | None, str]:
        """Return the calibration of the images, or why there is none."""
        try:
            camera = self._camera.camera_model(live.values['rectified_image'])
            if camera is None:
                topic = self.resolve_topic_name('camera_info')
                return None, f'no camera_info has arrived on {topic}'
            camera.check_image_size(width, height)
            return camera, ''
        except UserError as error:
            self._statistics.failed(str(error))
            return None, str(error)

    def _fail(self, fault: str) -> None:
        """Tell about a fault in the log and in diagnostics."""
        self._statistics.failed(fault)
        self.get_logger().error(fault)

    def _age(self, message: CameraImage) -> float:
        """Return how many seconds ago an image was taken; NaN: it has no stamp."""
        stamp = message.header.stamp  # may be negative, which rclpy's Time refuses
        if stamp == Time():
            return math.nan
        return (self.get_clock().now().nanoseconds - stamp.sec * 10**9 - stamp.nanosec) / 1e9

    def _why_stale(self, message: CameraImage, live: Live) -> str:
        """Say why an image is too old to guide anyone, '' if it is not."""
        limit = live.values['max_image_age']
        age = self._age(message)
        if not limit or age <= limit:
            return ''
        if math.isnan(age):
            return f'the image has no stamp, so its age is not known; max_image_age is {limit:g} s'
        return f'the image is {age:.1f} s old, and max_image_age is {limit:g} s'

    # Diagnostics

    def _publish_diagnostics(self) -> None:
        try:
            self._diagnostics.publish(self._status())
        except Exception as error:  # a node that works must not end because of a report
            if self.context.ok():
                self.get_logger().error(f'diagnostics failed: {error!r}')

    def _status(self) -> DiagnosticArray:
        live, summary = self._live, self._statistics.summary()
        pipeline, library, state = self._pipeline, self._library, self._state
        values: dict[str, object] = {}
        problem = self._problem
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
            if state == 'active' and not self._sought(library, live):
                problem = library.why_nothing_is_sought()
        array = DiagnosticArray()
        array.header.stamp = self.get_clock().now().to_msg()
        array.status = [matching_status(self, summary, state, values | memory(), problem)]
        if state == 'active':
            active = time.monotonic() - self._activated
            timeout = live.values['image_timeout']
            array.status.append(camera_status(self, self._camera, summary, timeout, active))
        return array


def main() -> NoReturn:
    """Run the node until it is told to stop."""
    run_node(MatcherNode)


if __name__ == '__main__':
    main()
