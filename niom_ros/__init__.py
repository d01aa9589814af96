"""Find in a live camera what a sketch, blueprint or photo shows, point by point.

    from niom_ros import Matcher, read_image

    matcher = Matcher()
    reference = matcher.prepare(read_image('sketch.png'))
    match = matcher.match(reference, read_image('photo.jpg'))

What `__all__` names is stable: it changes only with a new major version, and CHANGELOG.rst says
how. So is what niom_ros.plugins names, for plug-ins. Everything else may change at any time.
"""

from pkgutil import extend_path
from typing import TYPE_CHECKING

from niom_ros.core.public_names import imported_on_use

if TYPE_CHECKING:
    from niom_ros.core.boxes import Box
    from niom_ros.core.errors import UserError
    from niom_ros.core.settings import (
        Limits,
        Options,
        Pairing,
        Settings,
        StreamOptions,
        Weighting,
    )
    from niom_ros.core.uncertainty import ViewUncertainty
    from niom_ros.images.decoding import read_image
    from niom_ros.matching.alike_object import AlikeObject, GuidePoints, Warp
    from niom_ros.matching.correspondences import Correspondences
    from niom_ros.matching.geometry import Status, Verdict
    from niom_ros.matching.match import Match
    from niom_ros.matching.matcher import Matcher
    from niom_ros.matching.prepared_reference import PreparedReference
    from niom_ros.matching.reference import Landmark, Reference
    from niom_ros.semantics.heat_maps import Area
    from niom_ros.semantics.scene import MarkedObject
    from niom_ros.stream.answers import Answer
    from niom_ros.stream.camera import CameraModel
    from niom_ros.stream.frame import Frame
    from niom_ros.stream.landmarks import PlacedLandmark
    from niom_ros.stream.pose import Pose
    from niom_ros.stream.stream import Stream

# The generated messages live in another folder of the same name; this joins the two.
__path__ = extend_path(__path__, __name__)

# Imported when they are first used: torch takes seconds, and `niom --help` needs none of it.
_HOMES = {
    'AlikeObject': 'niom_ros.matching.alike_object',
    'Answer': 'niom_ros.stream.answers',
    'Area': 'niom_ros.semantics.heat_maps',
    'Box': 'niom_ros.core.boxes',
    'CameraModel': 'niom_ros.stream.camera',
    'Correspondences': 'niom_ros.matching.correspondences',
    'Frame': 'niom_ros.stream.frame',
    'GuidePoints': 'niom_ros.matching.alike_object',
    'Landmark': 'niom_ros.matching.reference',
    'Limits': 'niom_ros.core.settings',
    'MarkedObject': 'niom_ros.semantics.scene',
    'Match': 'niom_ros.matching.match',
    'Matcher': 'niom_ros.matching.matcher',
    'Options': 'niom_ros.core.settings',
    'Pairing': 'niom_ros.core.settings',
    'PlacedLandmark': 'niom_ros.stream.landmarks',
    'Pose': 'niom_ros.stream.pose',
    'PreparedReference': 'niom_ros.matching.prepared_reference',
    'Reference': 'niom_ros.matching.reference',
    'Settings': 'niom_ros.core.settings',
    'Status': 'niom_ros.matching.geometry',
    'Stream': 'niom_ros.stream.stream',
    'StreamOptions': 'niom_ros.core.settings',
    'UserError': 'niom_ros.core.errors',
    'Verdict': 'niom_ros.matching.geometry',
    'ViewUncertainty': 'niom_ros.core.uncertainty',
    'Warp': 'niom_ros.matching.alike_object',
    'Weighting': 'niom_ros.core.settings',
    'read_image': 'niom_ros.images.decoding',
}

__all__ = [
    'AlikeObject',
    'Answer',
    'Area',
    'Box',
    'CameraModel',
    'Correspondences',
    'Frame',
    'GuidePoints',
    'Landmark',
    'Limits',
    'MarkedObject',
    'Match',
    'Matcher',
    'Options',
    'Pairing',
    'PlacedLandmark',
    'Pose',
    'PreparedReference',
    'Reference',
    'Settings',
    'Status',
    'Stream',
    'StreamOptions',
    'UserError',
    'Verdict',
    'ViewUncertainty',
    'Warp',
    'Weighting',
    'read_image',
]


if not TYPE_CHECKING:  # or type checkers would take any name for one of ours
    __getattr__ = imported_on_use(__name__, _HOMES)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
