"""A strategy that finds an exact copy of the reference by comparing pixels."""

import cv2
import numpy as np

from niom_ros import Correspondences, Match, Status, Verdict
from niom_ros.plugins import StrategyPlugin

ALIKE = 0.99


class Template:
    """Finds references that were neither turned nor scaled."""

    name = 'acme-template'
    rank = 10  # before all others
    seeks = 'same_object'
    by_keypoints = False

    def __init__(self, perception, store):
        """Need nothing."""

    def weightings(self, reference, options):
        """Return that nothing is weighted."""
        return ('none',)

    def replaces(self, earlier, later):
        """Tell that what was found counts."""
        return later.found

    def find(self, search):
        """Return the place where all pixels agree."""
        picture, image = search.reference.image, search.image.image
        if any(np.greater(picture.shape, image.shape)):
            return None
        likeness = cv2.matchTemplate(image, picture, cv2.TM_CCOEFF_NORMED)
        _, best, _, (x, y) = cv2.minMaxLoc(likeness)
        if best < ALIKE:
            return None
        view = np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]])
        corners = search.reference.box.corners().astype(np.float32)
        points = Correspondences(corners, corners + np.float32([x, y]), np.ones(4, np.float32))
        message = 'an exact copy was found'
        return Match(Verdict(Status.OK, message, np.ones(4, bool), view, float(best)), points)


PLUGIN = StrategyPlugin(
    name='acme-template',
    description='finds an exact copy',
    licence='Apache-2.0',
    load=Template,
)
