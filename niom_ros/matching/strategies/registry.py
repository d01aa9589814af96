"""Which strategies there are."""

from collections.abc import Callable
from importlib import import_module

from niom_ros.matching.perception import Perception
from niom_ros.matching.strategies.strategy import Strategy

Make = Callable[[Perception], Strategy]

STRATEGIES: dict[str, str | Make] = {
    'points': 'niom_ros.matching.strategies.points:Points',
    'ink': 'niom_ros.matching.strategies.ink:Ink',
    'on_object': 'niom_ros.matching.strategies.on_object:OnObject',
}
"""What makes each strategy, as 'module:attribute' or as such."""


def load_strategies(perception: Perception) -> dict[str, Strategy]:
    """Make all strategies; they come in the order in which they are asked."""
    made = {name: imported(make)(perception) for name, make in STRATEGIES.items()}
    return dict(sorted(made.items(), key=lambda item: item[1].rank))


def imported(make: str | Make) -> Make:
    """Return what makes a strategy."""
    if not isinstance(make, str):
        return make
    module, _, attribute = make.partition(':')
    found: Make = getattr(import_module(module), attribute)
    return found
