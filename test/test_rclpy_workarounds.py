"""Each workaround for rclpy works, and plain rclpy still needs it."""

from contextlib import contextmanager
import itertools
import threading
import time

from builtin_interfaces.msg import Time as Stamp
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
import pytest
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
import rclpy
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.time import Time
from rclpy.waitable import NumberOfEntities, Waitable
from ros_client import ros_network
from std_msgs.msg import Header

from niom_ros.nodes import rclpy_workarounds
from niom_ros.nodes.rclpy_workarounds import (
    answer_every_request,
    Executor,
    is_set_to_empty_list,
    leaving_network,
    LEAVING_PAUSE,
    nanoseconds_of,
    RCLError,
    state_of,
    take_over_change_state,
)

LONGEST = 20.0  # seconds
SETTLED = 1.0  # seconds; the graph forgets what was destroyed in far less
UNKNOWN_TYPE = 99
FORGED = 'x\n[INFO] forged \x1b[2J'
ESCAPED = r'x\n[INFO] forged \x1b[2J'


def assert_still_needed(rclpy_fails, workaround):
    assert rclpy_fails, f'rclpy mended this: delete the workaround {workaround}'


@pytest.fixture
def node():
    with ros_network() as node:
        yield node


@pytest.fixture
def managed(node):
    managed = LifecycleNode('managed')
    yield managed
    managed.destroy_node()
    managed._state_machine.destroy_when_not_in_use()


def error_of(act):
    """Return what a call raises, None if nothing."""
    try:
        act()
    except Exception as error:
        return error
    return None


def until(condition, seconds=LONGEST):
    """Wait for a condition, and tell whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


# The executor


class Other(Waitable):
    """Something to wait for that acts at a chosen moment of the wait."""

    def __init__(self, node, entering=lambda: None, taking=None):
        self.group = MutuallyExclusiveCallbackGroup()
        super().__init__(self.group)
        self.entering = entering
        self.taking = taking
        node.add_waitable(self)

    def __enter__(self):
        self.entering()

    def __exit__(self, *_):
        pass

    def get_num_entities(self):
        return NumberOfEntities()

    def add_to_wait_set(self, _):
        pass

    def is_ready(self, _):
        return self.taking is not None

    def take_data(self):
        taking, self.taking = self.taking, None
        taking()

    async def execute(self, _):
        pass


@contextmanager
def spinning(executor, node):
    """Spin in a thread; yields the list of what `spin` raised."""
    raised = []

    def spin():
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except Exception as error:
            raised.append(error)

    executor.add_node(node)
    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield raised
    finally:
        executor.shutdown()
        thread.join(LONGEST)
        executor._executor.shutdown()


def is_called(event, raised):
    """Wait for an event or for the end of the executor, and tell whether the event came."""
    until(lambda: event.is_set() or raised)
    return event.is_set()


def destroy_while_gathered(node):
    """Have a subscription destroyed while the executor gathers what to wait for."""
    subscriptions = []

    def destroy():
        if subscriptions:
            node.destroy_subscription(subscriptions.pop())

    Other(node, entering=destroy)
    # Its events come after the other one, so they are gathered already, but not yet in use.
    events = SubscriptionEventCallbacks(incompatible_qos=lambda _: None)
    subscriptions.append(
        node.create_subscription(Header, 'never', lambda _: None, 1, event_callbacks=events)
    )
    return subscriptions


def fail_at_taking(node, error):
    """Return something that raises an error when it is taken, and an event of that moment."""
    taken = threading.Event()

    def fail():
        taken.set()
        raise error

    return Other(node, taking=fail), taken


def fail_in_timer(node, error):
    """Return a timer whose callback raises an error, and an event of that moment."""
    failed = threading.Event()

    def fail():
        failed.set()
        raise error

    return node.create_timer(0.1, fail), failed


def test_a_subscription_destroyed_while_it_is_gathered_ends_nothing(node):
    called = threading.Event()
    subscriptions = destroy_while_gathered(node)
    node.create_timer(0.1, called.set)
    with spinning(Executor(2), node) as raised:
        assert is_called(called, raised)
    assert not subscriptions
    assert not raised


def test_surviving_a_destroyed_subscription_is_still_needed(node):
    destroy_while_gathered(node)
    with spinning(MultiThreadedExecutor(2), node) as raised:
        until(lambda: raised)
    assert_still_needed(
        [type(error) for error in raised] == [InvalidHandle], 'Executor.wait_for_ready_callbacks'
    )


@pytest.mark.parametrize(
    ('error', 'is_reported'),
    [(RuntimeError('not to be taken'), True), (InvalidHandle('destroyed since'), False)],
)
def test_what_cannot_be_taken_blocks_no_group(error, is_reported, node, capfd):
    called = threading.Event()
    broken, taken = fail_at_taking(node, error)
    node.create_timer(0.1, lambda: taken.is_set() and called.set(), callback_group=broken.group)
    with spinning(Executor(2), node) as raised:
        assert is_called(called, raised)
    assert not raised
    assert (str(error) in capfd.readouterr().err) == is_reported


def test_releasing_the_group_of_what_cannot_be_taken_is_still_needed(node):
    broken, taken = fail_at_taking(node, RuntimeError('not to be taken'))
    with spinning(MultiThreadedExecutor(2), node) as raised:
        assert taken.wait(LONGEST)
        released = until(lambda: broken.group.can_execute(broken), 0.5)
    assert_still_needed(not released, f'Executor._take (spin raised {raised})')


def test_an_error_of_a_callback_is_reported_and_others_are_called(node, capfd):
    called = threading.Event()
    failing, failed = fail_in_timer(node, ValueError('of a callback\n[INFO] forged \x1b[2J'))
    node.create_timer(0.1, lambda: failed.is_set() and called.set())
    with spinning(Executor(2), node) as raised:
        assert is_called(called, raised)
        node.destroy_timer(failing)
    assert not raised
    assert 'ValueError: of a callback\n  [INFO] forged \\x1b[2J\n' in capfd.readouterr().err


def test_surviving_an_error_of_a_callback_is_still_needed(node):
    fail_in_timer(node, ValueError('of a callback'))
    with spinning(MultiThreadedExecutor(2), node) as raised:
        until(lambda: raised)
    assert_still_needed([str(error) for error in raised] == ['of a callback'], 'Executor._take')


def test_errors_without_end_do_not_fill_the_log(node, capfd):
    count = itertools.count()

    def fail():
        next(count)
        raise ValueError('again and again')

    node.create_timer(0.01, fail)
    with spinning(Executor(2), node) as raised:
        until(lambda: next(count) >= 100)
    assert not raised
    assert next(count) > 100
    assert capfd.readouterr().err.count('again and again') < 30


def test_an_error_of_the_start_is_raised(node):
    def start():
        raise ValueError('of the start')

    executor = Executor(2)
    executor.create_task(start)
    with spinning(executor, node) as raised:
        node.create_timer(0.1, lambda: None)
        until(lambda: raised)
    assert str(raised[0]) == 'of the start'


def used_threads(executor, node):
    """Spin until the pool of an executor has a thread; returns its threads."""
    before = set(threading.enumerate())
    node.create_timer(0.01, lambda: None)
    executor.add_node(node)
    deadline = time.monotonic() + LONGEST
    while not (threads := set(threading.enumerate()) - before):
        assert time.monotonic() < deadline
        executor.spin_once(timeout_sec=0.1)
    return threads


def test_released_threads_end(node):
    executor = Executor(2)
    threads = used_threads(executor, node)
    executor.release_threads()
    assert until(lambda: not any(thread.is_alive() for thread in threads))
    executor.shutdown()


def test_releasing_the_threads_is_still_needed(node):
    executor = MultiThreadedExecutor(2)
    threads = used_threads(executor, node)
    executor.shutdown()
    ended = until(lambda: not any(thread.is_alive() for thread in threads), 0.5)
    executor._executor.shutdown()
    assert_still_needed(not ended, 'Executor.release_threads')


# Services


def asked(node, kind, **fields):
    """Return what the callback of a service answers, without a network in between."""
    service = next(each for each in node.services if each.srv_type is kind)
    return service.callback(kind.Request(**fields), kind.Response())


def parameter(name, value):
    return Parameter(name=name, value=ParameterValue(type=2, integer_value=value))


STRANGE = Parameter(name='size', value=ParameterValue(type=UNKNOWN_TYPE))
IMPOSSIBLE = Transition(id=Transition.TRANSITION_CLEANUP)  # of a node that is unconfigured
UNANSWERED = [
    (SetParameters, {'parameters': [STRANGE]}, ValueError),
    (SetParametersAtomically, {'parameters': [STRANGE]}, ValueError),
    (ChangeState, {'transition': IMPOSSIBLE}, RCLError),
]


def test_each_request_is_answered(managed, capfd):
    managed.declare_parameter('size', 1)
    answer_every_request(managed)
    changes = [STRANGE, parameter('size', 2)]
    results = asked(managed, SetParameters, parameters=changes).results
    assert [result.successful for result in results] == [False, True]
    assert '99 is not a valid' in results[0].reason
    result = asked(managed, SetParametersAtomically, parameters=[STRANGE]).result
    assert not result.successful
    assert '99 is not a valid' in result.reason
    assert not asked(managed, ChangeState, transition=IMPOSSIBLE).success
    assert 'managed/change_state refused: RCLError(' in capfd.readouterr().err
    assert managed.get_parameter('size').value == 2


@pytest.mark.parametrize(('kind', 'fields', 'error'), UNANSWERED)
def test_answering_each_request_is_still_needed(kind, fields, error, managed):
    managed.declare_parameter('size', 1)
    raised = error_of(lambda: asked(managed, kind, **fields))
    assert_still_needed(
        isinstance(raised, error), f'answer_every_request for {kind.__name__}: {raised!r}'
    )


@pytest.mark.parametrize(
    ('name', 'reason'),
    [
        ('sise', "there is no parameter 'sise': maybe size, see `ros2 param list /managed`"),
        ('', "there is no parameter '': see `ros2 param list /managed`"),
        (FORGED, f"there is no parameter '{ESCAPED}': see `ros2 param list /managed`"),
    ],
)
def test_an_unknown_parameter_is_refused_with_its_name(name, reason, managed):
    managed.declare_parameter('size', 1)
    answer_every_request(managed)
    results = asked(managed, SetParameters, parameters=[parameter(name, 2)]).results
    assert [(result.successful, result.reason) for result in results] == [(False, reason)]
    assert not managed.has_parameter(name)


def test_naming_unknown_parameters_is_still_needed(managed):
    (result,) = asked(managed, SetParameters, parameters=[parameter('sise', 2)]).results
    assert not result.successful
    assert_still_needed('sise' not in result.reason, 'why_unknown of answer_every_request')


def test_refusing_parameters_without_a_name_is_still_needed(managed):
    (result,) = asked(managed, SetParameters, parameters=[parameter('', 2)]).results
    assert_still_needed(result.successful, 'has_parameter of answer_every_request')


# The lifecycle


def change_state_of(node):
    return next(each for each in node.services if each.srv_type is ChangeState)


def test_change_state_is_taken_over_in_a_group_of_its_own(managed):
    asked_for = []

    def answer(request, response, answer_of_rclpy):
        asked_for.append(request.transition.label)
        return answer_of_rclpy(request, response)

    take_over_change_state(managed, answer)
    assert asked(managed, ChangeState, transition=Transition(label='configure')).success
    assert asked_for == ['configure']
    assert state_of(managed) == 'inactive'
    group = change_state_of(managed).callback_group
    assert group.can_execute(change_state_of(managed))
    assert not any(group.has_entity(s) for s in managed.services if s.srv_type is not ChangeState)


def test_a_group_for_change_state_is_still_needed(managed):
    assert_still_needed(
        change_state_of(managed).callback_group is managed.default_callback_group,
        'the callback group of take_over_change_state',
    )


def test_the_label_of_an_unknown_transition_is_escaped(managed, capfd):
    take_over_change_state(managed, lambda request, response, rclpy: rclpy(request, response))
    assert not asked(managed, ChangeState, transition=Transition(label=FORGED)).success
    assert f'No transition matching {ESCAPED} found' in capfd.readouterr().err


def test_escaping_the_label_of_a_transition_is_still_needed(managed, capfd):
    assert not asked(managed, ChangeState, transition=Transition(label=FORGED)).success
    assert_still_needed(
        FORGED in capfd.readouterr().err, 'the printable label of take_over_change_state'
    )


def test_the_state_of_a_node_is_known(managed):
    assert state_of(managed) == 'unconfigured'
    managed.trigger_configure()
    assert state_of(managed) == 'inactive'


def test_reading_the_state_is_still_needed():
    public = [name for name in dir(LifecycleNode) if 'state' in name and name[0] != '_']
    assert_still_needed(not public, f'state_of, if {public} gives it')


def lifecycle_services(node):
    """Return the lifecycle services of the managed node that another one sees."""
    names = [name for name, _ in node.get_service_names_and_types()]
    return {'/managed/change_state', '/managed/get_state'}.intersection(names)


def test_a_node_that_leaves_the_network_offers_nothing(node):
    managed = LifecycleNode('managed')
    assert until(lambda: len(lifecycle_services(node)) == 2)
    with leaving_network(managed):
        managed.destroy_node()
    assert until(lambda: not lifecycle_services(node))
    assert until(lambda: 'managed' not in node.get_node_names())


def test_leaving_the_network_is_still_needed(node, managed):
    assert until(lambda: len(lifecycle_services(node)) == 2)
    managed.destroy_node()
    gone = until(lambda: not lifecycle_services(node), SETTLED)
    assert_still_needed(not gone, 'the state machine of leaving_network')


def test_a_node_that_leaves_stays_a_moment_without_its_services(node, monkeypatch):
    """It does, so that busy nodes learn of the end of its services before it leaves.

    No test fails when this is no longer needed: without the pause, a node is listed for ever only
    if another one takes two messages in an order that nobody can bring about.
    """
    managed = LifecycleNode('managed')
    assert until(lambda: len(lifecycle_services(node)) == 2)
    seen = []

    def pause(seconds):
        seen.append(seconds)
        seen.append(until(lambda: not lifecycle_services(node)))
        seen.append('managed' in node.get_node_names())

    monkeypatch.setattr(rclpy_workarounds, 'sleep', pause)
    with leaving_network(managed):
        managed.destroy_node()
    assert seen == [LEAVING_PAUSE, True, True]
    assert until(lambda: 'managed' not in node.get_node_names())


# Parameters, time and errors


@pytest.fixture
def configured(node):
    """A node for which a user gave an empty list and one with an entry."""
    given = ['--ros-args', '-p', 'none:=[]', '-p', 'one:=[a]']
    configured = rclpy.create_node('configured', cli_args=given)
    yield configured
    configured.destroy_node()


def test_an_empty_list_is_told_from_others(configured):
    names = ('none', 'one', 'not given')
    assert [is_set_to_empty_list(configured, name) for name in names] == [True, False, False]
    assert not any(configured.has_parameter(name) for name in names)


def test_looking_for_empty_lists_is_still_needed(configured):
    value = configured.declare_parameter('none', ['default']).value
    assert_still_needed(value is None, f'is_set_to_empty_list: it is {value!r}')


@pytest.mark.parametrize(
    ('seconds', 'nanoseconds', 'total'),
    [(1, 500_000_000, 1_500_000_000), (-2, 500_000_000, -1_500_000_000), (0, 0, 0)],
)
def test_stamps_count_from_1970_and_before(seconds, nanoseconds, total):
    assert nanoseconds_of(Stamp(sec=seconds, nanosec=nanoseconds)) == total


def test_counting_stamps_before_1970_is_still_needed():
    raised = error_of(lambda: Time.from_msg(Stamp(sec=-1)))
    assert_still_needed(isinstance(raised, ValueError), 'nanoseconds_of')


def test_the_error_of_the_c_library_can_be_caught(node):
    with pytest.raises(RCLError, match='Transition is not registered'):
        LifecycleNode('managed', enable_communication_interface=False).trigger_cleanup()


def test_naming_the_error_of_the_c_library_is_still_needed():
    assert_still_needed(not hasattr(rclpy.exceptions, 'RCLError'), 'RCLError')
