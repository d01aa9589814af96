"""What each part of `niom bench` measures with."""

from collections.abc import Callable
from dataclasses import dataclass

from niom_ros.core.settings import Settings
from niom_ros.matching.matcher import Matcher
from niom_ros.models.store import ModelStore


@dataclass(frozen=True)
class BenchSetup:
    """The networks to measure, how often, and where to show progress."""

    matcher: Matcher
    settings: Settings
    store: ModelStore
    rounds: int
    progress: Callable[[str], None] = lambda _: None
