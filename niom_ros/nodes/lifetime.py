"""Run a node from its start to its end."""

from collections.abc import Callable
import os
import signal
import sys
import threading
import time
import traceback

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.logging import get_logger
from rclpy.node import Node

from niom_ros.errors import UserError

PATIENCE = 1.0  # seconds for threads to finish what they are doing


def run_node(create: Callable[[], Node]) -> int:
    """Create a node, run it until it is told to stop, and return the exit code."""
    rclpy.init()
    node = None
    code = 0
    try:
        node = create()
        rclpy.spin(node)
    except UserError as error:
        get_logger('niom_ros').fatal(f'cannot start: {error}')
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
        if node is not None:
            node.destroy_node()
    end_threads(code)
    return code


def end_threads(code: int) -> None:
    """Wait a little for other threads; leave at once if one is still inside a network."""
    deadline = time.monotonic() + PATIENCE
    while any(thread is not threading.main_thread() for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            # Python cannot stop it, and torch aborts the process if Python ends under it.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        time.sleep(0.01)
