"""Callbacks in several threads; none of them can end the node."""

from collections.abc import Awaitable, Callable
import traceback
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import MultiThreadedExecutor
from rclpy.logging import get_logger

from niom_ros.core.faults import printable_lines

LOG_PAUSE = 1.0  # seconds between two reports

Act = Callable[[], Awaitable[None]]


class Executor(MultiThreadedExecutor):
    """A MultiThreadedExecutor that survives errors of callbacks and the end of what it waits for.

    That of rclpy ends with the first error of any callback. It also raises InvalidHandle if a
    callback destroys a subscription or a publisher, and with it the handler of its QoS events,
    while the executor gathers what to wait for.
    """

    def __init__(self, threads: int) -> None:
        """Prepare; nothing runs before `spin`."""
        super().__init__(threads)
        self._log = get_logger('niom_ros')  # always the same: it knows when the last report was

    def wait_for_ready_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Return a callback that is ready, as soon as there is one."""
        while True:
            try:
                return super().wait_for_ready_callbacks(*args, **kwargs)
            except InvalidHandle:
                if not self.context.ok():
                    raise

    # What is ready is taken in a thread of the pool; an error there would besides leave its
    # callback group busy for ever.

    def _take_timer(self, timer: Any) -> Act | None:
        return self._take(super()._take_timer, timer)

    def _take_subscription(self, subscription: Any) -> Act | None:
        return self._take(super()._take_subscription, subscription)

    def _take_client(self, client: Any) -> Act | None:
        return self._take(super()._take_client, client)

    def _take_service(self, service: Any) -> Act | None:
        return self._take(super()._take_service, service)

    def _take_waitable(self, waitable: Any) -> Act | None:
        return self._take(super()._take_waitable, waitable)

    def _take(self, take: Callable[[Any], Act | None], entity: Any) -> Act | None:
        """Return what to do about an entity that is ready; None: nothing."""
        try:
            act = take(entity)
        except InvalidHandle:  # it was destroyed since
            return None
        except BaseException:
            self._report()
            return None
        if act is None:
            return None

        async def survived() -> None:
            try:
                await act()
            except BaseException:  # also what calls sys.exit, or panics in Rust
                self._report()

        return survived

    def _report(self) -> None:
        if self.context.ok():  # else it ends, and nothing can be published any more
            fault = printable_lines(traceback.format_exc())
            self._log.error(fault, throttle_duration_sec=LOG_PAUSE)
