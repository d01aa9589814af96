"""Run a node from its start to its end."""

from collections.abc import Callable
import os
import signal
import sys
import threading
import time
import traceback
from typing import NoReturn

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.logging import get_logger
from rclpy.node import Node

from niom_ros.core.errors import UserError
from niom_ros.core.faults import printable_lines
from niom_ros.core.malloc_tuning import keep_freed_memory
from niom_ros.nodes.rclpy_workarounds import answer_every_request, Executor, RCLError

PATIENCE = 0.5  # seconds for threads to finish what they are doing
CALLBACK_THREADS = 4  # so that a service that takes long keeps no other one waiting


def run_node(create: Callable[[], Node]) -> NoReturn:
    """Create a node, run it until it is told to stop, and end the process with its exit code.

    A method `start` of the node runs beside its callbacks, and what it raises ends the node; a
    method `stop` lets its own threads end.
    """
    node = executor = None
    code = 0
    keep_freed_memory()
    begin_ros()
    try:
        node = created(create)
        answer_every_request(node)
        # Callbacks run in its pool, so that this thread is free to notice a signal at any time.
        executor = Executor(CALLBACK_THREADS)
        executor.add_node(node)
        if hasattr(node, 'start'):
            executor.create_task(node.start)
        executor.spin()
    except UserError as error:
        get_logger('niom_ros').fatal(f'cannot start: {printable_lines(str(error))}')
        code = 1
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():  # otherwise it was told to stop while it was starting
            traceback.print_exc()
            code = 1
    finally:
        # Ctrl-C reaches a node twice, from the terminal and from `ros2 launch`; the second one
        # must not disturb the end that the first one began.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        rclpy.try_shutdown()
        if executor is not None:
            executor.release_threads()
        if node is not None and hasattr(node, 'stop'):
            node.stop()
        wait_for_threads()
        if node is not None:
            node.destroy_node()
        # At once: a thread inside a network cannot be stopped, torch aborts if Python ends under
        # it, and Python takes seconds to tidy up what the system takes back anyway.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def created(create: Callable[[], Node]) -> Node:
    """Create a node; that ROS does not allow it, for example for its security, is no bug."""
    try:
        return create()
    except RCLError as error:
        if not rclpy.ok():  # it was told to stop meanwhile
            raise
        raise UserError(str(error)) from error


def begin_ros() -> None:
    """Take part in ROS, as the arguments of the command line say."""
    try:
        rclpy.init()
    except RuntimeError as error:  # for example a parameter file that is not there
        sys.exit(f'cannot start: {error}')


def wait_for_threads() -> None:
    """Give other threads a moment to finish what they are doing."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if all(thread is threading.main_thread() for thread in threading.enumerate()):
            return
        time.sleep(0.01)
