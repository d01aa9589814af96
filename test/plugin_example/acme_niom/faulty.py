"""Plug-ins that can be imported, but not loaded."""

from niom_ros.matching.features import ExtractorPlugin


def fail(settings, store, device):
    raise RuntimeError('the licence server\ndid not answer')


def nothing(settings, store, device):
    return None


BREAKS_WHEN_LOADED = ExtractorPlugin(name='acme-load-error', description='', licence='', load=fail)
LOADS_NOTHING = ExtractorPlugin(
    name='acme-loads-nothing', description='', licence='', load=nothing
)
