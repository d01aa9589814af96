"""Everything that works around rclpy and what is below it, in one place.

The functions named below are those of rclpy 7.1 (ROS 2 Jazzy). For each row,
test_rclpy_workarounds.py has a test that fails as soon as rclpy no longer needs it; only for the
pause of leaving_network it cannot, because what goes wrong without it is a race.

| workaround               | what plain rclpy does                                | upstream    |
| ------------------------ | ---------------------------------------------------- | ----------- |
| Executor                 | ends `spin` with the first error of any callback     | #983, #984  |
| Executor                 | blocks a callback group if a message cannot be taken | #1150       |
| Executor                 | ends `spin` when a subscription is destroyed         | #1284       |
| Executor.release_threads | lets the threads of the pool wait forever            | #893        |
| answer_every_request     | leaves some requests without an answer               | #1209       |
| answer_every_request     | refuses an unknown parameter without naming it       | none found  |
| take_over_change_state   | makes other services wait for a slow transition      | none found  |
| take_over_change_state   | logs the label of an unknown transition unescaped    | none found  |
| state_of                 | has no public way to read the state of a node        | none found  |
| leaving_network          | leaves services behind when a node is destroyed      | none found  |
| leaving_network          | leaves its name behind in the lists of busy nodes    | none found  |
| is_set_to_empty_list     | gives no type to an empty list in a parameter file   | #912        |
| nanoseconds_of           | raises ValueError for a stamp before 1970            | rclcpp #525 |
| RCLError                 | has no public name for the error of its C library    | none found  |

#983 is https://github.com/ros2/rclpy/issues/983, and so on; "none found" means that a search of
the issues of ros2/rclpy found no report.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
import difflib
from time import sleep
import traceback
from typing import Any

from builtin_interfaces.msg import Time
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.service import Service

from niom_ros.core.faults import explained, printable, printable_lines

LOG_PAUSE = 1.0  # seconds between two error reports of the executor
LEAVING_PAUSE = 0.2  # seconds
MAX_NAME_LENGTH = 100  # characters of an unknown parameter or transition that are shown

EMPTY_LIST = ('',)  # how this package writes an empty list of strings

Work = Callable[[], Awaitable[None]]  # what the executor does about one message or request
Handler = Callable[[Any, Any], Any]  # of a request and an empty response


# Errors

# What rclpy does: raises this error whenever the C library below it fails, for example if its
#     security settings forbid a node.
# Why that is wrong: it is a user's mistake, but to catch it one needs a private module, since
#     neither `rclpy` nor `rclpy.exceptions` names it.
# Upstream: rclpy/exceptions.py, which names InvalidHandle but not this one. No issue found.
# It can go: when rclpy.exceptions has RCLError.
RCLError = rclpy_implementation.RCLError


# Callbacks


class Executor(MultiThreadedExecutor):
    """A MultiThreadedExecutor that keeps spinning, whatever a callback raises or destroys.

    Errors of callbacks
        What rclpy does: `MultiThreadedExecutor._spin_once_impl` (executors.py) raises the first
            error of any callback out of `spin`.
        Why that is wrong: one bad message or request ends a node that guides an assembly.
        Upstream: deliberate since rclpy #984, which fixed that errors were lost (#983).
        It can go: when an executor can be given a handler for errors.

    Errors before a callback
        What rclpy does: `Executor._make_handler` takes a message outside of the `try` that
            releases its callback group, so an error there leaves the group busy forever.
        Why that is wrong: no callback of that group ever runs again.
        Upstream: a comment in rclpy #1150 says that the `try` should begin earlier.
        It can go: with the one above, when taking is inside of that `try`.

    Entities that are destroyed
        What rclpy does: `Executor._wait_for_ready_callbacks` skips handles that were destroyed
            since it collected them, but still adds the QoS events of a destroyed subscription to
            its wait set, which raises InvalidHandle out of `spin`.
        Why that is wrong: the matcher destroys subscriptions and publishers while it spins, at
            each deactivation and cleanup, and when `image_transport` or `reliable_image` changes.
        Upstream: rclpy #1284 explains it, #1142 is what users see.
        It can go: when the oldest supported rclpy has the fix of #1284.
    """

    def __init__(self, threads: int) -> None:
        """Prepare; nothing runs before `spin`."""
        super().__init__(threads)
        self._log = get_logger('niom_ros')  # kept, because it counts the pause between reports

    def release_threads(self) -> None:
        """Let the threads of the pool end after what they are doing now.

        What rclpy does: `MultiThreadedExecutor` inherits `shutdown`, which leaves its
            ThreadPoolExecutor open.
        Why that is wrong: its idle threads never end, so `wait_for_threads` of lifetime.py would
            always wait until its timeout.
        Upstream: rclpy #893, fixed by #1309 and for Jazzy by #1670, which is newer than 7.1.6.
        It can go: when the oldest supported rclpy has `shutdown(wait_for_threads=False)`.
        """
        self._executor.shutdown(wait=False, cancel_futures=True)

    def wait_for_ready_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Return a callback that is ready, as soon as there is one."""
        while True:
            try:
                return super().wait_for_ready_callbacks(*args, **kwargs)
            except InvalidHandle:
                if not self.context.ok():
                    raise

    def _take_timer(self, timer: Any) -> Work | None:
        return self._take(super()._take_timer, timer)

    def _take_subscription(self, subscription: Any) -> Work | None:
        return self._take(super()._take_subscription, subscription)

    def _take_client(self, client: Any) -> Work | None:
        return self._take(super()._take_client, client)

    def _take_service(self, service: Any) -> Work | None:
        return self._take(super()._take_service, service)

    def _take_waitable(self, waitable: Any) -> Work | None:
        return self._take(super()._take_waitable, waitable)

    def _take(self, take: Callable[[Any], Work | None], entity: Any) -> Work | None:
        """Return what to do about an entity that is ready, None if there is nothing to do."""
        try:
            work = take(entity)
        except InvalidHandle:  # it was destroyed in the meantime
            return None
        except BaseException:
            self._report()
            return None
        if work is None:
            return None

        async def guarded_work() -> None:
            try:
                await work()
            except BaseException:  # plug-ins also call sys.exit, or panic in Rust
                self._report()

        return guarded_work

    def _report(self) -> None:
        if self.context.ok():  # during shutdown, errors are expected and cannot be published
            fault = printable_lines(traceback.format_exc())
            self._log.error(fault, throttle_duration_sec=LOG_PAUSE)


# Services


def answer_every_request(node: Node) -> None:
    """Make each service of a node refuse what it cannot do, instead of raising an error.

    Requests that raise
        What rclpy does: a parameter of an unknown type raises ValueError in
            `Parameter.from_parameter_msg` (parameter.py), an impossible transition raises RCLError
            in `LifecycleNodeMixin.__change_state` (lifecycle/node.py). Nobody catches them.
        Why that is wrong: the client waits for an answer that never comes, and `spin` ends.
        Upstream: rclpy #1209 for transitions, fixed by #1319 after Jazzy. No rclpy issue found
            for parameters; rclcpp had the same fault (rclcpp #3257).
        It can go: when the oldest supported rclpy answers both.

    Unknown parameters
        What rclpy does: refuses them with 'Invalid access to undeclared parameter(s): []', and
            accepts a parameter with an empty name.
        Why that is wrong: a user who mistyped a name is not shown it, nor what to do.
        Upstream: `_set_parameters_callback` in parameter_service.py; no issue found.
        It can go: when rclpy names the parameter and refuses an empty one.
    """
    for service in node.services:
        service.callback = answered(node, service)


def answered(node: Node, service: Service) -> Handler:
    """Return the callback of a service, with a refusal in place of errors."""
    callback: Handler = service.callback
    kind: Any = service.srv_type

    def answer(request: Any, response: Any) -> Any:
        if isinstance(request, SetParameters.Request):
            # One by one, because some may be set before one fails.
            response.results = [
                answer_one(SetParameters.Request(parameters=[parameter])).results[0]
                for parameter in request.parameters
            ]
            return response
        return answer_one(request)

    def answer_one(request: Any) -> Any:
        if isinstance(request, SetParameters.Request | SetParametersAtomically.Request):
            for parameter in request.parameters:
                if not node.has_parameter(parameter.name):
                    return refusal(kind.Response(), why_unknown(node, parameter.name))
        try:
            return callback(request, kind.Response())
        except BaseException as error:  # plug-ins also call sys.exit, or panic in Rust
            reason = explained(error)
            node.get_logger().error(f'{service.srv_name} refused: {reason}')
            return refusal(kind.Response(), reason)

    return answer


def refusal(response: Any, reason: str) -> Any:
    """Return an empty response that says no, as far as its type allows."""
    result = SetParametersResult(successful=False, reason=reason)
    if isinstance(response, SetParameters.Response):
        response.results = [result]
    elif isinstance(response, SetParametersAtomically.Response):
        response.result = result
    return response


def why_unknown(node: Node, name: str) -> str:
    """Say that a node does not have a parameter, and which one may be meant."""
    name = printable(name[:MAX_NAME_LENGTH])
    alike = difflib.get_close_matches(name, node.get_parameters_by_prefix(''), 1)
    guess = f'maybe {alike[0]}, ' if alike else ''
    known = f'ros2 param list {node.get_fully_qualified_name()}'
    return f"there is no parameter '{name}': {guess}see `{known}`"


# The lifecycle


def take_over_change_state(
    node: LifecycleNode, answer: Callable[[Any, Any, Handler], Any]
) -> None:
    """Let `answer` answer ~/change_state; its last argument is the answer that rclpy gives.

    The callback group
        What rclpy does: `LifecycleNode.__init__` does not pass a `callback_group` on to
            `LifecycleNodeMixin`, so its services share the default group of the node.
        Why that is wrong: configuring takes seconds, in which no parameter could be read and
            nobody could ask for the state.
        Upstream: lifecycle/node.py; no issue found.
        It can go: when each lifecycle service can be given a group of its own.

    The label
        What rclpy does: `rcl_lifecycle_get_transition_by_label` (rcl_lifecycle.c) logs a label
            that it does not know as it was sent.
        Why that is wrong: any client can forge entries of the log and control the terminal.
        Upstream: rcl_lifecycle 9.2; no issue found.
        It can go: when the log of ROS escapes what is not printable.
    """
    service = node._service_change_state
    answer_of_rclpy: Handler = service.callback

    def answer_printable(request: Any, response: Any) -> Any:
        request.transition.label = printable(request.transition.label[:MAX_NAME_LENGTH])
        return answer(request, response, answer_of_rclpy)

    service.callback = answer_printable
    service.callback_group = MutuallyExclusiveCallbackGroup()
    service.callback_group.add_entity(service)


def state_of(node: LifecycleNode) -> str:
    """Return the lifecycle state of a node, for example 'inactive'.

    What rclpy does: tells the state only to clients of ~/get_state.
    Why that is wrong: a node has to know its own state to say why it refuses something.
    Upstream: LifecycleNodeMixin in lifecycle/node.py has no counterpart of
        rclcpp_lifecycle's get_current_state. No issue found.
    It can go: when there is a public one.
    """
    return str(node._state_machine.current_state[1])


@contextmanager
def leaving_network(node: LifecycleNode) -> Iterator[None]:
    """Make a node that is destroyed in the block leave the network without a trace.

    The lifecycle services
        What rclpy does: `Node.destroy_node` (node.py) does not know of the state machine, which
            keeps its five services, its publisher and the node itself alive.
        Why that is wrong: others still see the node, and wait for answers of services that nobody
            serves.
        Upstream: LifecycleNodeMixin in lifecycle/node.py has no destroy_node. No issue found;
            #1710 was the same fault with another service.
        It can go: when LifecycleNode.destroy_node destroys the state machine.

    The pause
        What ROS does: each topic and service that goes is announced by a message of its own. A
            node that is busy may take the last of them after it has noticed that the sender has
            left. `GraphCache::update_participant_entities` (rmw_dds_common) then adds the sender
            again, and nothing removes it any more.
        Why that is wrong: the node is listed for ever. So it stays in the network for a moment
            without topics and services, until others have taken those messages.
        Upstream: graph_cache.cpp of rmw_dds_common; no issue found.
        It can go: when the cache does not add a participant that has left.
    """
    with node.handle:  # the node itself leaves at the end of this block
        yield
        node._state_machine.destroy_when_not_in_use()
        sleep(LEAVING_PAUSE)


# Parameters and time


def is_set_to_empty_list(node: Node, name: str) -> bool:
    """Return whether a user gave an empty list for a parameter that is not declared yet.

    What rclpy does: an empty list in a parameter file or on the command line has no type, so
        `Node.declare_parameter` returns None for it, like for a value that is missing.
    Why that is wrong: 'no folders' is a setting that users need.
    Upstream: rclpy #912 and rclcpp #1955, both open.
    It can go: when declare_parameter returns [] for it.
    """
    given = node.declare_parameter(name, EMPTY_LIST).value
    node.undeclare_parameter(name)
    return given is None


def nanoseconds_of(stamp: Time) -> int:
    """Return a stamp in nanoseconds since 1970; it may be negative.

    What rclpy does: `rclpy.time.Time` (time.py) raises ValueError for negative seconds, which
        builtin_interfaces/Time allows.
    Why that is wrong: a camera with a wrong clock would lose its frames to an error, instead of
        having them answered as too old.
    Upstream: deliberate (rclcpp #525).
    It can go: when Time.from_msg takes every stamp.
    """
    return int(stamp.sec * 10**9 + stamp.nanosec)
