"""Run a node from its start to its end."""

from collections.abc import Callable
import os
import signal
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.executors import MultiThreadedExecutor
from rclpy.executors import SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node

from niom_ros.errors import UserError


def run_node(create: Callable[[], Node], threads: int = 1) -> int:
    """Create a node, run it until it is told to stop, and return the exit code."""
    rclpy.init()
    try:
        node = create()
    except UserError as error:
        get_logger('niom_ros').fatal(f'cannot start: {error}')
        rclpy.try_shutdown()
        return 1
    except (KeyboardInterrupt, ExternalShutdownException):
        rclpy.try_shutdown()
        return 0
    executor = MultiThreadedExecutor(threads) if threads > 1 else SingleThreadedExecutor()
    executor.add_node(node)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        # Ctrl-C reaches a node twice, from the terminal and from `ros2 launch`; the second one
        # must not disturb the end that the first one began.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        executor.shutdown(timeout_sec=0.5)
        node.destroy_node()
        rclpy.try_shutdown()
    if any(thread is not threading.main_thread() for thread in threading.enumerate()):
        # One is still inside a network. Python cannot stop it, and torch aborts the process if
        # Python ends under it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0
