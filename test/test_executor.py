"""What callbacks raise or destroy must not end the thread that waits for them."""

from contextlib import contextmanager
import itertools
import threading
import time

import pytest
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException
from rclpy.waitable import NumberOfEntities, Waitable
from ros_client import ros_network
from std_msgs.msg import Header

from niom_ros.nodes.executor import Executor

LONGEST = 20.0  # seconds


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
def running(executor, node):
    """Spin in a thread; yields what it raised."""
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
        executor._executor.shutdown()  # rclpy leaves its threads


def heard(raised, event):
    """Wait for an event, or for the end of the executor."""
    deadline = time.monotonic() + LONGEST
    while not event.wait(0.05) and not raised and time.monotonic() < deadline:
        pass
    return event.is_set()


@pytest.fixture
def node():
    with ros_network() as node:
        yield node


def test_a_subscription_that_is_destroyed_while_it_is_gathered_ends_nothing(node):
    called = threading.Event()
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
    node.create_timer(0.1, called.set)
    with running(Executor(2), node) as raised:
        assert heard(raised, called)
    assert not subscriptions
    assert not raised


@pytest.mark.parametrize(
    ('error', 'is_told'),
    [(RuntimeError('not to be taken'), True), (InvalidHandle('destroyed since'), False)],
)
def test_what_cannot_be_taken_keeps_nobody_busy(error, is_told, node, capfd):
    taken, called = threading.Event(), threading.Event()

    def fail():
        taken.set()
        raise error

    broken = Other(node, taking=fail)
    node.create_timer(0.1, lambda: taken.is_set() and called.set(), callback_group=broken.group)
    with running(Executor(2), node) as raised:
        assert heard(raised, called)
    assert not raised
    assert (str(error) in capfd.readouterr().err) == is_told


def test_an_error_of_a_callback_is_told_and_others_are_called(node, capfd):
    failed, called = threading.Event(), threading.Event()

    def fail():
        failed.set()
        raise ValueError('of a callback\n[INFO] forged \x1b[2J')

    failing = node.create_timer(0.1, fail)
    node.create_timer(0.1, lambda: failed.is_set() and called.set())
    with running(Executor(2), node) as raised:
        assert heard(raised, called)
        node.destroy_timer(failing)
    assert not raised
    assert 'ValueError: of a callback\n  [INFO] forged \\x1b[2J\n' in capfd.readouterr().err


def test_errors_without_end_do_not_fill_the_log(node, capfd):
    count = itertools.count()

    def fail():
        next(count)
        raise ValueError('again and again')

    node.create_timer(0.01, fail)
    with running(Executor(2), node) as raised:
        deadline = time.monotonic() + LONGEST
        while next(count) < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not raised
    assert next(count) > 100
    assert capfd.readouterr().err.count('again and again') < 30


def test_an_error_of_the_start_is_raised(node):
    def start():
        raise ValueError('of the start')

    executor = Executor(2)
    executor.create_task(start)
    with running(executor, node) as raised:
        node.create_timer(0.1, lambda: None)
        deadline = time.monotonic() + LONGEST
        while not raised and time.monotonic() < deadline:
            time.sleep(0.05)
    assert str(raised[0]) == 'of the start'
