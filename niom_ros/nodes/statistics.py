"""How the matcher has performed recently."""

from collections import Counter, deque
from dataclasses import dataclass, field
import math
from statistics import median
from threading import Lock
import time

from niom_ros.core.faults import printable
from niom_ros.matching.geometry import Status

WINDOW = 10.0  # seconds that rates and medians cover
MAX_RESULTS = 600  # in the window


@dataclass(frozen=True)
class Result:
    """How long one frame took."""

    finished: float  # seconds of the steady clock
    latency: float  # seconds from the image's stamp to publishing; NaN: it has no stamp
    stages: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The numbers of diagnostics."""

    seconds_since_image: float | None  # None: no image has arrived yet
    rate_in: float  # Hz
    rate_out: float
    latency: float | None  # median
    stages: dict[str, float]  # medians
    statuses: dict[str, int] = field(default_factory=dict)  # since the start
    fault: str = ''  # the latest one, with its remedy
    fault_age: float = 0.0  # seconds


class Statistics:
    """Counts and times frames. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._started = time.monotonic()
        self._images: deque[float] = deque(maxlen=4 * MAX_RESULTS)
        self._results: deque[Result] = deque(maxlen=MAX_RESULTS)
        self._statuses: Counter[str] = Counter()
        self._fault = ''
        self._fault_time = 0.0

    def restart(self) -> None:
        """Restart rates and medians; counts and the last fault are kept."""
        with self._lock:
            self._started = time.monotonic()
            self._images.clear()
            self._results.clear()

    def image_arrived(self) -> None:
        """Count a frame of the camera."""
        with self._lock:
            self._images.append(time.monotonic())

    def finished(self, status: Status, latency: float, stages: dict[str, float]) -> None:
        """Count a frame that was published."""
        with self._lock:
            self._statuses[status.name] += 1
            self._results.append(Result(time.monotonic(), latency, dict(stages)))

    def failed(self, fault: str) -> None:
        """Remember what went wrong and what to do about it."""
        with self._lock:
            self._fault, self._fault_time = printable(fault), time.monotonic()

    def summary(self) -> Summary:
        """Return the current figures."""
        now = time.monotonic()
        with self._lock:
            last_image = self._images[-1] if self._images else None
            images = [arrived for arrived in self._images if now - arrived <= WINDOW]
            results = [result for result in self._results if now - result.finished <= WINDOW]
            known = [result.latency for result in results if not math.isnan(result.latency)]
            span = max(1.0, min(WINDOW, now - self._started))
            names = dict.fromkeys(name for result in results for name in result.stages)
            return Summary(
                seconds_since_image=None if last_image is None else now - last_image,
                rate_in=len(images) / span,
                rate_out=len(results) / span,
                latency=median(known) if known else None,
                stages={
                    name: median(r.stages[name] for r in results if name in r.stages)
                    for name in names
                },
                statuses=dict(self._statuses),
                fault=self._fault,
                fault_age=now - self._fault_time,
            )
