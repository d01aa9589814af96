"""From a reference and an image to a verdict: the flow of the README as one class."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import math
from threading import Lock

import cv2
import numpy as np
import torch

from niom_ros.core.boxes import Box
from niom_ros.core.homographies import warp_points
from niom_ros.core.settings import (
    choose_device,
    Limits,
    Options,
    Settings,
    SettingsError,
    Weighting,
)
from niom_ros.drawings.edges import EdgeFinder, Edges
from niom_ros.drawings.likeness import drawing_likeness
from niom_ros.drawings.strokes import Strokes, strokes_of
from niom_ros.drawings.tracing import trace, trace_near, Traced
from niom_ros.images.decoding import check_size, ImageError, TooPlain
from niom_ros.matching.confidence import calibration_of, INK
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.features import Extractor, Features, SMALLEST_SIDE
from niom_ros.matching.geometry import (
    Evidence,
    hull_area,
    in_front,
    judge,
    locate,
    measure,
    Status,
    Verdict,
)
from niom_ros.matching.looks import Clue, is_close, keypoint_step, Look, part_around, timed
from niom_ros.matching.matches import load_matcher, Side
from niom_ros.matching.outcomes import better, found_without_need, MatchOutcome, ON_OBJECT, Weights
from niom_ros.matching.reference import Reference
from niom_ros.matching.weighting import one_heat, weighted, weights_of
from niom_ros.models.store import ModelStore
from niom_ros.semantics.detectors.loading import load_detector
from niom_ros.semantics.heat_maps import Area
from niom_ros.semantics.labels import LabelEmbedder
from niom_ros.semantics.pairing import pair_objects, PairedObjects
from niom_ros.semantics.scene import Hints, Scene, SceneReader

PLENTY_OF_KEYPOINTS = 500
PLENTY_OF_INK = 800  # points along the strokes of a drawing
LEAST_INK = 120  # of such points: fewer fit anything
NARROWEST = 64  # pixels of edges across an image: in a strip, something always fits
LEAST_SPREAD = 0.008  # of the part that counts, which the strokes must span
BY_INK = 'ink'
INK_AGREES = 'points of the drawing lie on edges'
LONGEST_LOCK = 20  # images in a row in which something is sought only where it was before
MOST_INK_POINTS = 400  # of a drawing that are reported: enough to see where it lies


class Pipeline:
    """Finds references in images. Holds the networks; safe to use from several threads."""

    def __init__(self, settings: Settings, store: ModelStore | None = None) -> None:
        """Load the networks from the model store."""
        store = store or ModelStore()
        device = choose_device(settings.device)
        if settings.precision == 'half' and device.type != 'cuda':
            raise SettingsError("precision 'half' is for CUDA GPUs: use 'single' on the CPU")
        self.device = device.type
        torch.backends.cudnn.deterministic = True  # the same image, the same answer
        self.method = f'{settings.extractor}+{settings.matcher}'
        self.detector = settings.detector
        self._calibration = calibration_of(self.method)
        self._half = settings.precision == 'half'
        self.max_keypoints = settings.max_keypoints
        self._plenty = min(PLENTY_OF_KEYPOINTS, settings.max_keypoints)
        self._extractor = Extractor(settings, store, device)
        self._matcher = load_matcher(settings, store, device)
        detector = load_detector(settings, store, device)
        self._embedder = LabelEmbedder(settings, store, device)
        self._embedder.prepare()  # so that faults show now
        self._reader = SceneReader(detector, self._embedder, settings.fallback, device)
        self._store, self._loading = store, Lock()
        self._edge_finder: EdgeFinder | None = None
        self._beside = ThreadPoolExecutor(1, 'detector')

    def prepare(
        self,
        image: np.ndarray,
        mask: np.ndarray | None = None,
        fewest_keypoints: int = Limits.min_inliers,
        hints: Hints | None = None,
    ) -> Reference:
        """Make a reference of an RGB image; where the mask is 0, the image does not count."""
        height, width = image.shape[:2]
        check_size(width, height)
        hints = hints or Hints()
        box = Box(0, 0, width, height)
        counting_area = box.area
        if mask is not None:
            if mask.shape != (height, width):
                raise ImageError(
                    f'the mask has {mask.shape[1]} x {mask.shape[0]} pixels, '
                    f'but the reference has {width} x {height}: make them the same size'
                )
            box = Box(*cv2.boundingRect((mask != 0).astype(np.uint8)))
            counting_area = int(np.count_nonzero(mask))
        shrunk = self._extractor.shrunk_size(box.width, box.height)
        if min(shrunk) < SMALLEST_SIDE:
            raise ImageError(
                f'of the reference only {box.width} x {box.height} pixels count, '
                f'{shrunk[0]} x {shrunk[1]} after shrinking it to max_image_side: '
                f'it needs at least {SMALLEST_SIDE} in each direction'
            )
        with self._precision():
            # Only this part, so that its rest takes neither resolution nor keypoints from it.
            features = self._extractor.extract(box.part_of(image)).moved(
                box.left, box.top, width, height
            )
        if mask is not None:
            features = features.inside(mask)
        likeness = drawing_likeness(box.part_of(image))
        drawing, kind_confidence = likeness >= 0.5, max(likeness, 1 - likeness)
        if hints.drawing is not None:
            drawing, kind_confidence = hints.drawing, 1.0
        part_mask = None if mask is None else box.part_of(mask)
        strokes = None
        richness = len(features) / self._plenty
        if drawing:
            found = strokes_of(box.part_of(image), part_mask).moved(box.left, box.top)
            richness = max(richness, len(found) / PLENTY_OF_INK)
            # A single line fits any edge.
            if len(found) >= LEAST_INK and hull_area(found.points) > LEAST_SPREAD * box.area:
                strokes = found
                self._load_edge_finder()
        if len(features) < fewest_keypoints and strokes is None:
            raise TooPlain(
                f'the reference has only {len(features)} distinct points, and '
                f'{fewest_keypoints} must be found again'
                + (', and hardly any strokes' if drawing else '')
                + ': use a picture with more detail, a sharper one, or a larger region'
            )
        hints = replace(hints, drawing=drawing).for_part(box.left, box.top)
        with self._precision():
            scene = self._reader.read_reference(box.part_of(image), hints, part_mask)
        scene = scene.moved(box.left, box.top, width, height)
        return Reference(
            image,
            features,
            scene.at(features.keypoints),
            box,
            counting_area,
            min(1.0, richness),
            drawing,
            kind_confidence,
            strokes,
        )

    def features_of(self, look: Look) -> Features:
        """Return the features of an image, or of the part of it that is looked at."""
        if look.features is None:
            with timed('extract', look.seconds), self._precision():
                part = look.image if look.part is None else look.part.part_of(look.image)
                features = self._extractor.extract(part)
                if look.most_keypoints:
                    features = features.strongest(look.most_keypoints)
                look.features = features
        return look.features

    def scene_of(self, look: Look) -> Scene:
        """Return the objects of an image."""
        if look.scene is None:
            with timed('detect', look.seconds), self._precision():
                look.scene = self._reader.read_image(look.image)
        return look.scene

    def features_and_scene_of(self, look: Look) -> tuple[Features, Scene]:
        """Return both; if neither is known, detector and extractor work side by side."""
        if look.features is None and look.scene is None:
            look.seconds |= {'extract': 0.0, 'detect': 0.0}  # in this order, whoever ends first
            scene = self._beside.submit(self.scene_of, look)
            return self.features_of(look), scene.result()
        return self.features_of(look), self.scene_of(look)

    def edges_of(self, look: Look) -> Edges:
        """Return the edges of an image."""
        if look.edges is None:
            with timed('edges', look.seconds), self._precision():
                look.edges = self._load_edge_finder().find(look.image)
        return look.edges

    def _load_edge_finder(self) -> EdgeFinder:
        """Return what finds edges: loaded with the first drawing, for photos need none."""
        with self._loading:
            if self._edge_finder is None:
                self._edge_finder = EdgeFinder(self._store, torch.device(self.device))
            return self._edge_finder

    def pair(self, reference: Reference, look: Look, options: Options) -> PairedObjects:
        """Pair the objects of a reference with those of an image."""
        scene = self.scene_of(look)
        with timed('pair', look.seconds):
            return pair_objects(
                reference.scene.objects, scene.objects, options.pairing, self._embedder
            )

    def match(
        self, reference: Reference, image: np.ndarray, options: Options | None = None
    ) -> MatchOutcome:
        """Find the reference in an RGB image."""
        return self.match_all([reference], Look(image), options)[0]

    def match_all(
        self,
        references: Sequence[Reference],
        look: Look,
        options: Options | None = None,
        clue: Clue | None = None,
    ) -> list[MatchOutcome]:
        """Find each of the references in an image; their stage times are those of all together.

        In a stream, the way in which the last image was matched is worth trying first, and the
        reference is looked for where it should be before it is looked for everywhere.
        """
        options = options or Options()
        try_first = '' if clue is None else clue.way
        ways = [ways_to_find(reference, options, try_first) for reference in references]
        if clue is not None and clue.scene is not None:
            look.scene = look.scene or clue.scene
        if clue is not None and len(references) == 1 and references[0] is clue.reference:
            nearby = self._nearby(look, options, clue) if clue.way == ways[0][0] else None
            if nearby is not None:
                return found_without_need([nearby]) if len(ways[0]) > 1 else [nearby]
        outcomes = [
            self._attempt(reference, look, options, way[0], clue)
            for reference, way in zip(references, ways, strict=True)
        ]
        for turn in range(1, max(map(len, ways))):
            if any(outcome.verdict.status is Status.OK for outcome in outcomes):
                return found_without_need(outcomes)
            outcomes = [
                better(outcome, self._attempt(reference, look, options, way[turn], clue, outcome))
                if turn < len(way)
                else outcome
                for reference, way, outcome in zip(references, ways, outcomes, strict=True)
            ]
        return outcomes

    def _nearby(self, look: Look, options: Options, clue: Clue) -> MatchOutcome | None:
        """Find a reference by matches around where it was followed to; None: not found there.

        Less of the image is looked at, but that more closely. Now and then the whole image has
        its turn anyway.
        """
        if not clue.followed or clue.way == BY_INK or clue.locked >= LONGEST_LOCK:
            return None
        part = part_around(clue.reference_to_image, clue.reference.box, look.whole)
        if part is None:
            return None
        most = look.most_keypoints or self.max_keypoints
        share = math.sqrt(part.area / look.whole.area)
        closer = replace(
            look, part=part, features=None, most_keypoints=keypoint_step(most, most * share)
        )
        outcome = self._by_matches(clue.reference, closer, options, clue.way)
        look.scene = closer.scene
        found = outcome.verdict.reference_to_image
        if found is None or not is_close(found, clue.reference_to_image, clue.reference.box):
            return None  # one of the two is wrong: the whole image tells which
        return replace(outcome, locked=clue.locked + 1)

    def _attempt(
        self,
        reference: Reference,
        look: Look,
        options: Options,
        way: str,
        clue: Clue | None,
        earlier: MatchOutcome | None = None,
    ) -> MatchOutcome:
        """Find the reference in one way; `earlier` is the outcome of the way before."""
        if way == BY_INK and reference.strokes is not None:
            return self._by_ink(reference, reference.strokes, look, options, clue)
        if way == ON_OBJECT and reference.strokes is not None and earlier is not None:
            return self._on_object(reference, reference.strokes, look, options, earlier)
        return self._by_matches(reference, look, options, way, earlier)

    def _by_matches(
        self,
        reference: Reference,
        look: Look,
        options: Options,
        way: str,
        earlier: MatchOutcome | None = None,
    ) -> MatchOutcome:
        """Find the reference by matching keypoints, weighted in one way or not at all."""
        if look.most_keypoints:
            reference = reference.with_most(look.most_keypoints)
        weighting, seconds = replace(options.weighting, kind=way), look.seconds
        if weighting.range is None:
            weighting = replace(weighting, range=self._extractor.weight_range)
        scene, paired = Scene(), PairedObjects()
        if weighting.kind == 'none':
            features = self.features_of(look)
        else:
            features, scene = self.features_and_scene_of(look)
            paired = self.pair(reference, look, options)
        if len(features) < 4:
            message = (
                f'the image has only {len(features)} distinct points: '
                'check light, focus, lens cap and image size'
            )
            verdict = Verdict(Status.NO_KEYPOINTS, message, np.zeros(0, bool))
            return MatchOutcome(verdict, Correspondences.none(), len(features), seconds, way=way)
        place = look.place
        heated = scene.at(features.keypoints + features.keypoints.new_tensor(place))
        weights = weights_for(reference.scene, heated, paired, weighting)
        _, image_weights = weights
        same_again = earlier is not None and earlier.way == 'none' and image_weights.values is None
        if earlier is not None and same_again:
            return replace(earlier, scene=scene, paired=paired, image_weights=image_weights)
        with timed('match', seconds):
            correspondences = self._correspondences(
                reference, features, weights, weighting, options.limits.score_threshold
            ).moved_in_image(*place)
        with timed('verify', seconds):
            verdict = locate(
                correspondences,
                reference.box,
                reference.counting_area,
                look.whole,
                options.limits,
                self._calibration,
            )
        is_weighted = any(side.values is not None for side in weights)
        return MatchOutcome(
            verdict,
            correspondences,
            len(features),
            seconds,
            scene,
            paired,
            weighting.kind if is_weighted else 'none',
            *weights,
            way=way,
        )

    def _by_ink(
        self,
        reference: Reference,
        strokes: Strokes,
        look: Look,
        options: Options,
        clue: Clue | None,
    ) -> MatchOutcome:
        """Find a drawing by laying its ink along the edges of an image.

        First close to where it was; everywhere if it is not found there, and now and then anyway,
        so that a wrong view does not stay.
        """
        edges, corners = self.edges_of(look), reference.box.corners()
        height, width = look.image.shape[:2]
        if min(height, width) < SMALLEST_SIDE or min(edges.size) < NARROWEST:
            reason = f'the image is too small or narrow to find a drawing in ({width} x {height})'
            nothing = MatchOutcome.without_matches(Status.NO_KEYPOINTS, reason)
            return replace(nothing, stage_seconds=look.seconds, edges=edges, way=BY_INK)
        if (
            clue is not None
            and clue.reference is reference
            and clue.way == BY_INK
            and clue.locked < LONGEST_LOCK
        ):
            with timed('trace', look.seconds):
                traced = trace_near(strokes, corners, edges, clue.reference_to_image)
            outcome = self._judge_ink(reference, strokes, look, options, traced)
            found = outcome.verdict.reference_to_image
            # Far from there it may be the best view on the way, not the best of all.
            if found is not None and is_close(found, clue.reference_to_image, reference.box):
                return replace(outcome, locked=clue.locked + 1)
        with timed('trace', look.seconds):
            traced = trace(strokes, corners, edges)
        return self._judge_ink(reference, strokes, look, options, traced)

    def _on_object(
        self,
        reference: Reference,
        strokes: Strokes,
        look: Look,
        options: Options,
        earlier: MatchOutcome,
    ) -> MatchOutcome:
        """Lay a drawing whose label is known onto the object that it is paired with.

        Another object of the kind has other lines: most of these lie on edges where the drawing
        is laid onto something small and full of texture, which is no answer at all. On the object
        they say which points belong together, but not that the drawing was found: whether to
        believe in a view was learnt from views that are better than all others.
        """
        scene, paired = self.scene_of(look), self.pair(reference, look, options)
        if not paired.pairs:
            return replace(earlier, scene=scene, paired=paired)
        pair = paired.pairs[0]
        onto = fitting(
            reference.scene.objects[pair.reference_object].area,
            scene.objects[pair.image_object].area,
        )
        # As if it had been drawn with the proportions of the object in the image.
        across, down = onto.diagonal()[:2]
        stretched, corners = np.diag([across, down, 1]), reference.box.corners()
        with timed('trace', look.seconds):
            traced = trace_near(
                strokes.stretched(across, down),
                warp_points(stretched, corners),
                self.edges_of(look),
                onto @ np.linalg.inv(stretched),
            )
        traced = replace(traced, drawing_to_image=traced.drawing_to_image @ stretched)
        outcome = self._judge_ink(reference, strokes, look, options, traced)
        kind = scene.objects[pair.image_object].label
        verdict = Verdict(
            Status.LOW_CONFIDENCE,
            f'not found; the points are those of the drawing laid onto the {kind} in the image',
            outcome.verdict.inliers,
            checks=outcome.verdict.checks,
        )
        return replace(outcome, verdict=verdict, scene=scene, paired=paired, way=ON_OBJECT)

    def _judge_ink(
        self,
        reference: Reference,
        strokes: Strokes,
        look: Look,
        options: Options,
        traced: Traced,
    ) -> MatchOutcome:
        """Say whether a view in which ink lies on edges is to be believed."""
        box = reference.box
        # Any first part of the strokes is a fair sample of them; best first, as matches are.
        shown = np.argsort(-traced.strength[:MOST_INK_POINTS], kind='stable')
        correspondences = Correspondences(
            strokes.points[shown], traced.image_points[shown], traced.strength[shown]
        )
        with timed('verify', look.seconds):
            evidence = Evidence(traced.on_edge[shown], traced.drawing_to_image)
            if in_front(traced.drawing_to_image, box):
                checks = measure(
                    traced.drawing_to_image,
                    correspondences,
                    evidence.inliers,
                    box,
                    hull_area(strokes.points),
                    look.whole,
                )
                checks |= traced.checks
                longer_side = max(look.image.shape[:2])
                checks['corner_uncertainty'] = checks['corner_deviation'] / longer_side
                evidence = replace(evidence, checks=checks)
            verdict = judge(evidence, box, options.limits, calibration_of(INK), INK_AGREES)
        return MatchOutcome(
            verdict,
            correspondences,
            0,
            look.seconds,
            evidence=evidence,
            edges=look.edges,
            way=BY_INK,
        )

    def _correspondences(
        self,
        reference: Reference,
        image: Features,
        weights: tuple[Weights, Weights],
        weighting: Weighting,
        score_threshold: float,
    ) -> Correspondences:
        if not len(reference.features) or not len(image):
            return Correspondences.none()
        for_reference, for_image = weights
        # The weights of a reference follow from which of its objects count, and from how.
        matches = self._matcher.match(
            reference.sides.once(
                (for_reference.objects, weighting) if for_reference.values is not None else None,
                lambda: self._side(reference.features, for_reference.values, weighting.stage),
            ),
            self._side(image, for_image.values, weighting.stage),
            score_threshold,
        )
        return Correspondences(
            reference.features.keypoints[matches.reference_index].cpu().numpy(),
            image.keypoints[matches.image_index].cpu().numpy(),
            matches.scores.cpu().numpy(),
            chosen(for_reference.values, matches.reference_index),
            chosen(for_image.values, matches.image_index),
        )

    def _side(self, features: Features, weights: torch.Tensor | None, stage: str) -> Side:
        if weights is not None and stage == 'before':
            features = times(features, weights)
        projected = self._matcher.project(features)
        if weights is not None and stage == 'after':
            projected = times(projected, weights)
        return self._matcher.prepare(projected)

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device, torch.float16, enabled=self._half)


def ways_to_find(reference: Reference, options: Options, try_first: str = '') -> list[str]:
    """Return the ways to look for a reference: each is tried if the one before found nothing.

    A way is a kind of weighting, or by ink. Weights cost matches where both sides show the same
    object, and help where they are only alike. Matches find a copy of a drawing, ink what it
    shows; if both fail, its label tells on which object of the image its points lie.
    """
    kind = options.weighting.kind
    first = 'none' if kind == 'auto' else kind
    if reference.strokes is None or options.drawing_search == 'matches':
        ways = [first, 'sew'] if kind == 'auto' else [first]
        return sorted(ways, key=lambda way: way != try_first)
    ways = [BY_INK] if options.drawing_search == 'ink' else [first, BY_INK]
    ways.sort(key=lambda way: way != try_first)
    labelled = any(seen.label for seen in reference.scene.objects)
    return [*ways, ON_OBJECT] if labelled else ways


def fitting(area: Area, other: Area) -> np.ndarray:
    """Return the 3 x 3 matrix that moves and stretches a rectangle so that it is another."""
    across, down = other.width / area.width, other.height / area.height
    return np.array(
        [
            [across, 0, other.left - across * area.left],
            [0, down, other.top - down * area.top],
            [0, 0, 1],
        ]
    )


def weights_for(
    reference: Scene, image: Scene, paired: PairedObjects, weighting: Weighting
) -> tuple[Weights, Weights]:
    """Return the weights of the keypoints on both sides, and what they came from."""
    if weighting.kind == 'none':
        nothing = Weights(None, (), 'none: not weighted')
        return nothing, nothing
    sides = []
    for scene, partner in (
        (reference, [pair.reference_object for pair in paired.pairs]),
        (image, [pair.image_object for pair in paired.pairs]),
    ):
        objects = tuple(partner) if paired.decided else tuple(range(len(scene.objects)))
        heat = scene.choose(objects)
        if heat is None:
            why = scene.source if not scene.objects else 'none: no object has a partner'
            sides.append(Weights(None, (), why))
        else:
            values = weights_of(one_heat(heat, weighting.aggregation), weighting)
            sides.append(Weights(values, objects, scene.source_of(objects)))
    return sides[0], sides[1]


def times(features: Features, weights: torch.Tensor) -> Features:
    """Return features with their descriptors multiplied with the weights."""
    return replace(features, descriptors=weighted(features.descriptors, weights))


def chosen(weights: torch.Tensor | None, index: torch.Tensor) -> np.ndarray | None:
    """Return the weights of the matched keypoints."""
    return None if weights is None else weights[index].float().cpu().numpy()
