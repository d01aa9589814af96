"""A matcher: the nearest neighbours of niom_ros, for SIFT alone."""

from niom_ros.plugins import MatcherPlugin, NearestMatcher

PLUGIN = MatcherPlugin(
    name='acme-closest',
    description='nearest neighbours for SIFT',
    licence='Apache-2.0',
    load=NearestMatcher,
    extractors=('acme-sift',),
)
