"""Plug-ins that can be imported, but not loaded."""

from niom_ros.plugins import ExtractorPlugin, StrategyPlugin


def fail(settings, store, device):
    raise RuntimeError('the licence server\ndid not answer')


def nothing(settings, store, device):
    return None


def find_nothing(image):
    raise ZeroDivisionError('no light')


class FailsInImages:
    """A strategy that fails with every image."""

    name = 'acme-fails'
    rank = 10
    seeks = 'same_object'
    by_keypoints = False

    def weightings(self, reference, options):
        return ('none',)

    def find(self, search):
        raise KeyError('part 7')

    def replaces(self, earlier, later):
        return True


BREAKS_WHEN_LOADED = ExtractorPlugin(name='acme-load-error', description='', licence='', load=fail)
LOADS_NOTHING = ExtractorPlugin(
    name='acme-loads-nothing', description='', licence='', load=nothing
)
BREAKS_WHEN_CALLED = ExtractorPlugin(
    name='acme-call-error', description='', licence='', load=lambda *_: find_nothing
)
FAILS = StrategyPlugin(
    name='acme-fails', description='', licence='', load=lambda *_: FailsInImages()
)
NO_STRATEGY = StrategyPlugin(
    name='acme-no-strategy', description='', licence='', load=lambda perception, store: None
)
