"""The matcher node: finds references in every camera frame it has time for."""

from collections.abc import Callable
from threading import Lock
import time
from typing import NoReturn

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.srv import ChangeState
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
import torch

from niom_ros.core.errors import UserError
from niom_ros.core.faults import explained, printable, printable_lines
from niom_ros.core.parameters import MATCHER_PARAMETERS, Parameter
from niom_ros.core.settings import SettingsError
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import configure, Configured, Live
from niom_ros.nodes.diagnostics import camera_status, matching_status, memory, namesakes
from niom_ros.nodes.frame_worker import FrameWorker
from niom_ros.nodes.lifetime import run_node
from niom_ros.nodes.parameters import declare, read, refuse_wrong_values
from niom_ros.nodes.rclpy_workarounds import (
    Handler,
    leaving_network,
    state_of,
    take_over_change_state,
)
from niom_ros.nodes.reference_services import ReferenceServices
from niom_ros.nodes.statistics import Statistics

DONE, REFUSED = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class MatcherNode(LifecycleNode):
    """Matches the newest camera frame with the references and publishes what it found.

    Callbacks only store messages and answer requests; a FrameWorker matches while the node is
    active. Requests are answered by:

    | service                                         | answered by                             |
    | ----------------------------------------------- | --------------------------------------- |
    | ~/set_reference, ~/list_references and the like | ReferenceServices                       |
    | ~/change_state                                  | _answer_change_state, which calls rclpy |
    | ~/get_state and other lifecycle services        | rclpy                                   |
    | ~/set_parameters                                | rclpy, which asks _why_fixed            |
    | ~/get_parameters and other parameter services   | rclpy                                   |

    `answer_every_request` in run_node wraps all of them: an error becomes a refusal.
    """

    def __init__(self) -> None:
        """Declare the parameters and offer the services; `configure` loads the networks."""
        super().__init__('matcher')
        declare(self, MATCHER_PARAMETERS, read_only=False)
        self.live = Live.of(read(self, MATCHER_PARAMETERS))
        self.configured: Configured | None = None
        self.changes = Lock()  # held while the state or the references change
        self._worker: FrameWorker | None = None
        self._activated = 0.0  # when, in seconds of the steady clock
        self._problem = ''  # why the last transition failed,
        self._fixable = False  # and whether the user can fix it
        self._statistics = Statistics()
        self._told: dict[str, str] = {}  # what was logged last about a part, '' if all is well
        self._revision = 0  # of the newest reference; a cleanup does not reset it
        refuse_wrong_values(self, MATCHER_PARAMETERS, self._why_fixed)
        self.add_post_set_parameters_callback(lambda _: self._apply())
        # Separate groups, so that neither waits for the other.
        images, timers = MutuallyExclusiveCallbackGroup(), MutuallyExclusiveCallbackGroup()
        self.camera = CameraInput(self, images, self._statistics.image_arrived)
        ReferenceServices(self)
        take_over_change_state(self, self._answer_change_state)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(
            1.0,
            self._publish_diagnostics,
            callback_group=timers,
            clock=Clock(clock_type=ClockType.STEADY_TIME),  # runs while simulated time is paused
        )

    @property
    def state(self) -> str:
        """Return the lifecycle state of the node."""
        return state_of(self)

    # Start and end

    def start(self) -> None:
        """Configure and activate the node, unless `autostart` is off."""
        if not self.live.values['autostart']:
            name = self.get_fully_qualified_name()
            self.get_logger().info(f'waiting for: ros2 lifecycle set {name} configure')
            return
        with self.changes:
            # A client may have done it already.
            ready = self.state != 'unconfigured' or self.trigger_configure() == DONE
            ready = ready and (self.state != 'inactive' or self.trigger_activate() == DONE)
        if not ready:
            # A fault, unlike a wrong setting, may be gone the next time.
            raise (SettingsError if self._fixable else RuntimeError)(self._problem)

    def stop(self) -> None:
        """Let the worker end after its current frame."""
        self.camera.frames.close()

    def destroy_node(self) -> None:
        """Destroy the node and leave the network."""
        with leaving_network(self):
            super().destroy_node()

    # Transitions

    def _answer_change_state(
        self,
        request: ChangeState.Request,
        response: ChangeState.Response,
        change_state: Handler,
    ) -> ChangeState.Response:
        """Answer ~/change_state after any other change of the state or of the references."""
        with self.changes:
            return change_state(request, response)  # calls one of the methods below

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the networks and the references, and open the outputs."""
        done = self._try('configure', self._configure)
        return super().on_configure(state) if done == DONE else done

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Listen to the camera and match."""
        enabled = super().on_activate(state)  # before the worker, so that no result is lost
        return self._try('activate', self._activate) if enabled == DONE else enabled

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop listening and matching; keep the references."""
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
        """Free everything after a failed transition, so that the node can be configured again."""
        self._stop()
        self._free()
        return DONE

    def _try(self, what: str, act: Callable[[], None]) -> TransitionCallbackReturn:
        """Run a transition; if it fails, report why and leave the node as it was."""
        try:
            act()
        except BaseException as error:  # plug-ins may call sys.exit
            known = isinstance(error, UserError)
            self._problem = printable_lines(str(error)) if known else explained(error)
            self._fixable = known
            self.get_logger().error(f'cannot {what}: {self._problem}')
            self._stop()
            return REFUSED
        self._problem = ''
        return DONE

    def _configure(self) -> None:
        self.configured = configure(self, self.live, self._revision, self.report)

    def _activate(self) -> None:
        assert self.configured is not None
        self.camera.restart()
        self._statistics.restart()
        self._activated = time.monotonic()
        transport = self.live.transport
        self.camera.open(*transport)
        self._worker = FrameWorker(
            self, self.configured, self.camera, self._statistics, lambda: self.live
        )
        if self.live.transport != transport:  # it changed in the meantime
            self.camera.reopen(*self.live.transport)
        waiting_for = f'images on {self.camera.topic}'
        if not self.configured.targets(self.live):
            waiting_for += f' and a call to {self.resolve_service_name("~/set_reference")}'
        matcher = self.configured.matcher
        self.get_logger().info(
            f'ready: {matcher.method} on {matcher.device}, waiting for {waiting_for}'
        )

    def _stop(self) -> None:
        self.camera.close()
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _free(self) -> None:
        self.camera.restart()
        if self.configured is not None:
            self._revision = self.configured.library.revision
            self.configured.close()
            self.configured = None
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def report(self, fault: str) -> None:
        """Report a fault in the log and in the diagnostics."""
        fault = printable(fault)
        self._statistics.failed(fault)
        self.get_logger().error(fault)

    # Parameters

    def _why_fixed(self, parameter: Parameter) -> str:
        """Return why a parameter cannot change now, or '' if it can."""
        if parameter.at_start:
            return f'{parameter.name} is only read at startup: set it in the parameter file'
        if parameter.live or self.state == 'unconfigured':
            return ''
        steps = ' and '.join(['deactivate', 'cleanup'] if self.state == 'active' else ['cleanup'])
        return (
            f'{parameter.name} can only change while the node is unconfigured, it is '
            f'{self.state}: ros2 lifecycle set {self.get_fully_qualified_name()} {steps} first'
        )

    def _apply(self) -> None:
        before, self.live = self.live, Live.of(read(self, MATCHER_PARAMETERS))
        if before.transport != self.live.transport:
            self.camera.reopen(*self.live.transport)

    # Diagnostics

    def _publish_diagnostics(self) -> None:
        try:
            self._diagnostics.publish(self._status())
        except Exception as error:  # diagnostics must not disturb a working node
            if self.context.ok():
                self.get_logger().error(f'diagnostics failed: {explained(error)}')

    def _status(self) -> DiagnosticArray:
        live, configured, worker, state = self.live, self.configured, self._worker, self.state
        summary = self._statistics.summary()
        values: dict[str, object] = {}
        problem = self._problem
        if configured is not None:
            matcher, library = configured.matcher, configured.library
            selected = library.selected
            values = {
                'references': len(library.all()),
                'selected': selected.id if selected else 'none',
                'models': f'{matcher.method}, detector {matcher.detector}',
                'device': matcher.device,
                'threads': torch.get_num_threads(),
            }
            if state == 'active' and not configured.targets(live):
                problem = library.why_no_target()
        if worker is not None:
            values['pose'] = worker.no_pose or 'published when found'
            keypoints = worker.stream.keypoints(live.options.max_latency)
            values['keypoints by max_latency'] = keypoints or 'all'
            problem = problem or worker.stream.too_slow
        namesake = namesakes(self)
        self._tell_once('name', namesake)
        problem = problem or namesake
        array = DiagnosticArray()
        array.header.stamp = self.get_clock().now().to_msg()
        array.status = [matching_status(self, summary, state, values | memory(), problem)]
        if state == 'active':
            active = time.monotonic() - self._activated
            camera = camera_status(
                self,
                self.camera,
                summary,
                dropped=worker.dropped if worker else self.camera.frames.counts[1],
                timeout=live.values['image_timeout'],
                active_seconds=active,
            )
            array.status.append(camera)
            # Publishers that do not fit are logged when they appear.
            silent = camera.level == DiagnosticStatus.ERROR and not self.camera.incompatible
            self._tell_once('camera', camera.message if silent else '')
        return array

    def _tell_once(self, part: str, problem: str) -> None:
        """Log a problem when it begins, for those who do not look at diagnostics; '': none."""
        if problem and not self._told.get(part):
            self.get_logger().warning(problem)
        self._told[part] = problem


def main() -> NoReturn:
    """Run the node until it is stopped."""
    run_node(MatcherNode)


if __name__ == '__main__':
    main()
