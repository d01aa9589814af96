"""The life of a node process: initialise ROS, spin, handle signals, shut down."""

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
from niom_ros.core.malloc_tuning import reuse_freed_memory
from niom_ros.nodes.rclpy_workarounds import answer_every_request, Executor, RCLError

PATIENCE = 0.5  # seconds that threads get to finish
CALLBACK_THREADS = 4  # so that a slow service does not delay the others
# Exit code of a node that cannot start with its settings, of sysexits.h: starting it again is no
# use, and the launch file does not.
WRONG_SETTINGS = os.EX_CONFIG


def run_node(create: Callable[[], Node]) -> NoReturn:
    """Create a node, run it until it is stopped, and exit the process.

    If the node has a method `start`, it runs alongside the callbacks, and an error in it ends the
    node. If it has a method `stop`, that is called so that its threads can end.
    """
    node = executor = None
    code = 0
    reuse_freed_memory()
    initialise_ros()
    try:
        node = created(create)
        answer_every_request(node)
        # Callbacks run in its threads, so this one can react to a signal at any time.
        executor = Executor(CALLBACK_THREADS)
        executor.add_node(node)
        if hasattr(node, 'start'):
            executor.create_task(node.start)
        executor.spin()
    except UserError as error:
        get_logger('niom_ros').fatal(f'cannot start: {printable_lines(str(error))}')
        code = WRONG_SETTINGS
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():  # otherwise it was stopped while it was starting
            traceback.print_exc()
            code = 1
    finally:
        # Ctrl-C reaches a node twice, from the terminal and from `ros2 launch`; the second one
        # must not interrupt the shutdown that the first one started.
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
        # Immediately: a thread inside a network cannot be stopped, torch aborts if the interpreter
        # ends while it runs, and Python takes seconds to free what the system reclaims anyway.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def created(create: Callable[[], Node]) -> Node:
    """Create a node; a refusal by ROS, for example by its security, is an error of the user."""
    try:
        return create()
    except RCLError as error:
        if not rclpy.ok():  # it was stopped in the meantime
            raise
        raise UserError(str(error)) from error


def initialise_ros() -> None:
    """Initialise ROS with the arguments of the command line."""
    try:
        rclpy.init()
    except RuntimeError as error:  # for example, the parameter file does not exist
        print(f'cannot start: {error}', file=sys.stderr)
        sys.exit(WRONG_SETTINGS)


def wait_for_threads() -> None:
    """Give other threads a moment to finish what they are doing."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if all(thread is threading.main_thread() for thread in threading.enumerate()):
            return
        time.sleep(0.01)
