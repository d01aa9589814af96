"""Callbacks in several threads, of which each may destroy what others wait for."""

from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor
from rclpy.waitable import Waitable


class Executor(MultiThreadedExecutor):
    """A MultiThreadedExecutor that survives the end of a subscription or publisher.

    With each goes the handler of its QoS events. If that happens in a callback while the executor
    gathers what to wait for, rclpy's own raises InvalidHandle, which would end the node.
    """

    def wait_for_ready_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Return a callback that is ready, as soon as there is one."""
        while True:
            try:
                return super().wait_for_ready_callbacks(*args, **kwargs)
            except InvalidHandle:
                if not self.context.ok():
                    raise

    def _take_waitable(self, waitable: Waitable) -> Callable | None:
        """Take an event, unless it was destroyed since it was ready, like all else that is taken.

        rclpy's own raises, and the callback group then stays busy for ever.
        """
        try:
            return super()._take_waitable(waitable)
        except InvalidHandle:
            return None
