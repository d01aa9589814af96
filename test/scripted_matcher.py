"""Stands in for the networks: returns scripted results for each image."""

from types import SimpleNamespace

import numpy as np
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Features
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.match import Match
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.reference import Reference
from niom_ros.references.known_reference import KnownReference
from niom_ros.semantics.scene import Scene


class ScriptedMatcher:
    """Finds each reference where `view_of` says for an image: 3 x 3, or None for nowhere."""

    max_keypoints = 1024

    def __init__(self, view_of, box):
        self.view_of = view_of
        self.box = box
        self.analyses = []  # of the images, in their order

    def analyse(self, image, max_keypoints=None):
        return SimpleNamespace(image=image, max_keypoints=max_keypoints, scene_was_detected=False)

    def match_all(self, references, analysis, options=None, prior=None):
        self.analyses.append(analysis)
        view = self.view_of(analysis.image)
        return [found_at(view, self.box) for _ in references]


def found_at(view, box):
    """Return a match at a place; None: not found."""
    if view is None:
        return Match.without_matches(Status.FEW_MATCHES, 'nothing there')
    points = np.random.default_rng(0).uniform((0, 0), (box.width, box.height), (60, 2))
    matches = Correspondences(
        points.astype(np.float32),
        warp_points(view, points).astype(np.float32),
        np.ones(60, np.float32),
    )
    return Match(Verdict(Status.OK, '', np.ones(60, bool), view, 0.95), matches)


def named_reference(picture, revision=1):
    """Return a reference that no network has seen."""
    box = Box.around(picture)
    no_points = torch.empty(0, 2)
    prepared = PreparedReference(
        given=Reference(picture, f'reference {revision}'),
        features=Features(
            keypoints=no_points,
            scores=no_points[:, 0],
            descriptors=no_points,
            width=box.width,
            height=box.height,
        ),
        scene=Scene(),
        box=box,
        counting_area=box.area,
        matchability=1.0,
        drawing=False,
        kind_confidence=1.0,
    )
    return KnownReference(prepared, revision)
