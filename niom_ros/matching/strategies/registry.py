"""Load the strategies that the settings name."""

from niom_ros.core.plugins import STRATEGIES
from niom_ros.matching.perception import Perception
from niom_ros.matching.strategies.strategy import Strategy, StrategyPlugin
from niom_ros.models.plugins import load_part


def load_strategies(perception: Perception) -> dict[str, Strategy]:
    """Load the strategies; the result is in the order in which they are tried."""
    loaded = {name: load(name, perception) for name in perception.settings.strategies}
    return dict(sorted(loaded.items(), key=lambda item: item[1].rank))


def load(name: str, perception: Perception) -> Strategy:
    """Load one strategy, with the models that it needs."""
    plugin = STRATEGIES.load(name, StrategyPlugin)
    return load_part(
        STRATEGIES, plugin, perception.store, lambda models: plugin.load(perception, models)
    )
