"""Plug-ins that can be imported, but not loaded."""

from niom_ros.matching.features import ExtractorPlugin
from niom_ros.matching.strategies.strategy import StrategyPlugin


def fail(settings, store, device):
    raise RuntimeError('the licence server\ndid not answer')


def nothing(settings, store, device):
    return None


BREAKS_WHEN_LOADED = ExtractorPlugin(name='acme-load-error', description='', licence='', load=fail)
LOADS_NOTHING = ExtractorPlugin(
    name='acme-loads-nothing', description='', licence='', load=nothing
)
NO_STRATEGY = StrategyPlugin(
    name='acme-no-strategy', description='', licence='', load=lambda perception, store: None
)
