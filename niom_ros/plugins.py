"""The classes that plug-ins of other packages are made of, besides those of niom_ros itself.

    from niom_ros import Settings
    from niom_ros.plugins import ExtractorPlugin, ModelStore

README.md says what each kind of plug-in has to offer. What `__all__` names is stable: it changes
only with a new major version, and CHANGELOG.rst says how.
"""

from typing import TYPE_CHECKING

from niom_ros.core.public_names import imported_on_use

if TYPE_CHECKING:
    from niom_ros.matching.checks import Checks
    from niom_ros.matching.features import ExtractorPlugin, Features, LightGlueWeights
    from niom_ros.matching.geometry import Evidence
    from niom_ros.matching.image_analysis import ImageAnalysis
    from niom_ros.matching.keypoint_matcher import (
        KeypointMatcher,
        KeypointMatches,
        MatcherPlugin,
        MatchesAsExtracted,
    )
    from niom_ros.matching.match import Approach, Weights
    from niom_ros.matching.matchers.nearest import NearestMatcher
    from niom_ros.matching.perception import Perception
    from niom_ros.matching.prior import Prior
    from niom_ros.matching.strategies.strategy import Search, Strategy, StrategyPlugin
    from niom_ros.models.store import ModelStore
    from niom_ros.models.table import Model, Wheel, WheelMember
    from niom_ros.networks.lightglue import Architecture
    from niom_ros.semantics.detectors.grid_detector import Detector, DetectorPlugin
    from niom_ros.semantics.heat_maps import GridFrame, HeatMap
    from niom_ros.semantics.labels import LabelEmbedderPlugin, LabelEncoder
    from niom_ros.semantics.objects import SeenObject
    from niom_ros.semantics.pairing import ObjectPair, PairedObjects
    from niom_ros.semantics.scene import Scene

# Imported when they are first used: a detector needs nothing of a strategy.
_HOMES = {
    'Approach': 'niom_ros.matching.match',
    'Architecture': 'niom_ros.networks.lightglue',
    'Checks': 'niom_ros.matching.checks',
    'Detector': 'niom_ros.semantics.detectors.grid_detector',
    'DetectorPlugin': 'niom_ros.semantics.detectors.grid_detector',
    'Evidence': 'niom_ros.matching.geometry',
    'ExtractorPlugin': 'niom_ros.matching.features',
    'Features': 'niom_ros.matching.features',
    'GridFrame': 'niom_ros.semantics.heat_maps',
    'HeatMap': 'niom_ros.semantics.heat_maps',
    'ImageAnalysis': 'niom_ros.matching.image_analysis',
    'KeypointMatcher': 'niom_ros.matching.keypoint_matcher',
    'KeypointMatches': 'niom_ros.matching.keypoint_matcher',
    'LabelEmbedderPlugin': 'niom_ros.semantics.labels',
    'LabelEncoder': 'niom_ros.semantics.labels',
    'LightGlueWeights': 'niom_ros.matching.features',
    'MatcherPlugin': 'niom_ros.matching.keypoint_matcher',
    'MatchesAsExtracted': 'niom_ros.matching.keypoint_matcher',
    'Model': 'niom_ros.models.table',
    'ModelStore': 'niom_ros.models.store',
    'NearestMatcher': 'niom_ros.matching.matchers.nearest',
    'ObjectPair': 'niom_ros.semantics.pairing',
    'PairedObjects': 'niom_ros.semantics.pairing',
    'Perception': 'niom_ros.matching.perception',
    'Prior': 'niom_ros.matching.prior',
    'Scene': 'niom_ros.semantics.scene',
    'Search': 'niom_ros.matching.strategies.strategy',
    'SeenObject': 'niom_ros.semantics.objects',
    'Strategy': 'niom_ros.matching.strategies.strategy',
    'StrategyPlugin': 'niom_ros.matching.strategies.strategy',
    'Weights': 'niom_ros.matching.match',
    'Wheel': 'niom_ros.models.table',
    'WheelMember': 'niom_ros.models.table',
}

__all__ = [
    'Approach',
    'Architecture',
    'Checks',
    'Detector',
    'DetectorPlugin',
    'Evidence',
    'ExtractorPlugin',
    'Features',
    'GridFrame',
    'HeatMap',
    'ImageAnalysis',
    'KeypointMatcher',
    'KeypointMatches',
    'LabelEmbedderPlugin',
    'LabelEncoder',
    'LightGlueWeights',
    'MatcherPlugin',
    'MatchesAsExtracted',
    'Model',
    'ModelStore',
    'NearestMatcher',
    'ObjectPair',
    'PairedObjects',
    'Perception',
    'Prior',
    'Scene',
    'Search',
    'SeenObject',
    'Strategy',
    'StrategyPlugin',
    'Weights',
    'Wheel',
    'WheelMember',
]


if not TYPE_CHECKING:  # or type checkers would take any name for one of ours
    __getattr__ = imported_on_use(__name__, _HOMES)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
