"""uncertainty: errors in units of what answers state, near what they rest on and far away."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
import math
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from niom_ros.benchmarks.evaluation.benchmark import Benchmark, Case, Record
from niom_ros.benchmarks.evaluation.halves import halves
from niom_ros.benchmarks.evaluation.method_runner import MethodRunner, Picture
from niom_ros.benchmarks.evaluation.methods import Method
from niom_ros.benchmarks.evaluation.pictures import draw_answer
from niom_ros.benchmarks.evaluation.suites.photo_views import IMAGENET
from niom_ros.benchmarks.evaluation.suites.sketch import (
    BSDS,
    drawing_of,
    SketchBenchmark,
    SketchCase,
)
from niom_ros.benchmarks.evaluation.suites.zoomed import UPRIGHT, ZoomedBenchmark, ZoomedCase
from niom_ros.core.homographies import warp_points
from niom_ros.core.uncertainty import ViewUncertainty
from niom_ros.images.decoding import read_image
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import uncertainty_of, Verdict
from niom_ros.matching.offset_field import same_side
from niom_ros.matching.reference import Landmark
from niom_ros.simulation.virtual_scene import VirtualScene
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.landmarks import place_landmarks
from niom_ros.stream.pose import difference, find_pose, Placement
from niom_ros.tracking.frames import grey_frame
from niom_ros.tracking.track import FullMatch

PHOTOS, DRAWINGS = 'photos', 'drawings'
TRACKED_PHOTOS, TRACKED_DRAWINGS = 'tracked_photos', 'tracked_drawings'
GROUPS = (PHOTOS, DRAWINGS, TRACKED_PHOTOS, TRACKED_DRAWINGS)
# Of points, from the nearest one that the view rests on, in spreads of these
DISTANCES = {'at': 0.1, 'near': 0.5, 'far': 1.5, 'beyond': math.inf}
SUPPORT, CORNERS, LANDMARKS, POSE = 'support', 'corners', 'landmarks', 'pose'
# How many independent numbers each error is made of
FREEDOMS = {SUPPORT: 2, CORNERS: 2, LANDMARKS: 1, POSE: 6}
KEYS = tuple(
    [(SUPPORT, 'at')]
    + [(kind, distance) for kind in (CORNERS, LANDMARKS) for distance in DISTANCES]
    + [(POSE, '')]
)


@dataclass(frozen=True)
class UncertaintyParameters:
    """What is measured."""

    landmarks: int = 5  # in each direction, spread over the reference
    supporting: int = 25  # of the points that a view rests on
    film_seconds: float = 2.0
    film_rate: float = 30.0
    samples: int = 4  # frames of a film that are measured
    path_seconds: float = 60.0  # of the virtual camera's path, on which a film begins at random
    closeness: tuple[float, float] = (0.9, 2.2)  # of the camera: of a near picture, a part shows
    # With fewer answers, or if they are about fewer pictures, a mean says little.
    fewest_answers: int = 10
    fewest_pictures: int = 5


PARAMETERS = UncertaintyParameters()


@dataclass(frozen=True)
class UncertaintyCase(Case):
    """A picture that another benchmark makes, or a film of it."""

    pictures: ZoomedCase | SketchCase

    @property
    def is_film(self) -> bool:
        """Return whether it is tracked through a film."""
        return self.group in (TRACKED_PHOTOS, TRACKED_DRAWINGS)


@dataclass(frozen=True)
class Claim:
    """A view that was accepted, and the true one."""

    verdict: Verdict
    correspondences: Correspondences
    truth: np.ndarray  # 3 x 3
    size: tuple[int, int]  # of the reference
    image_size: tuple[int, int]
    # Camera and true placement of the reference, which is one unit wide; None: not known
    seen_by: tuple[CameraModel, Placement] | None = None


class UncertaintyBenchmark(Benchmark):
    """Measures squared errors in units of the squared deviations that answers state."""

    name = 'uncertainty'
    title = 'Squared error by stated variance: 1 is right, more is too certain, less too modest.'
    folders = (IMAGENET, BSDS)
    default_methods = ('default', 'plain')
    main_metric = 'worst_factor'
    stratified = True

    def find_cases(self) -> Iterable[UncertaintyCase]:
        """Return each photo at each scale, each drawing in each setting, and films of both."""
        for views, still, film in (
            (ZoomedBenchmark(self.data, self.seed), PHOTOS, TRACKED_PHOTOS),
            (SketchBenchmark(self.data, self.seed), DRAWINGS, TRACKED_DRAWINGS),
        ):
            if views.missing():
                continue
            filmed = set()
            for case in views.find_cases():
                assert isinstance(case, ZoomedCase | SketchCase)
                if case.pair not in filmed:
                    filmed.add(case.pair)
                    yield self._case(film, case)
                if not isinstance(case, ZoomedCase) or case.group == UPRIGHT:
                    yield self._case(still, case)

    def _case(self, group: str, case: ZoomedCase | SketchCase) -> UncertaintyCase:
        return UncertaintyCase(
            name=f'{group}/{case.name}',
            pair=case.pair,
            unit=case.unit,
            group=group,
            pictures=case,
        )

    # Measuring

    def measure(self, case: UncertaintyCase, method: Method, runner: MethodRunner) -> Record:
        """Compare errors with what accepted answers say about them."""
        random = np.random.default_rng([self.seed, *case.name.encode()])
        if case.is_film:
            claims = self._claims_of_film(case, method, runner, random)
        else:
            claims = self._claims_of_image(case, method, runner)
        answers = [squared_errors(claim, random) for claim in claims]
        return {
            # Of each answer the mean of all its points, and a single one
            'means': gathered([{key: float(np.mean(v)) for key, v in a.items()} for a in answers]),
            'singles': gathered([{key: float(v[0]) for key, v in a.items()} for a in answers]),
            'answers': len(answers),
        }

    def _claims_of_image(
        self, case: UncertaintyCase, method: Method, runner: MethodRunner
    ) -> Iterator[Claim]:
        reference, image, truth = self._pictures(case)
        match = runner.match(method, reference, image).match
        if match.found:
            yield Claim(
                match.verdict,
                match.correspondences,
                truth,
                (reference.box.width, reference.box.height),
                (image.box.width, image.box.height),
            )

    def _claims_of_film(
        self,
        case: UncertaintyCase,
        method: Method,
        runner: MethodRunner,
        random: np.random.Generator,
    ) -> Iterator[Claim]:
        """Match the first frame in full, and track the reference from there."""
        reference, scene, start = self._scene(case)
        camera = CameraModel((scene.width, scene.height), scene.camera_matrix(), np.zeros(0))

        def claim(verdict: Verdict, correspondences: Correspondences, seconds: float) -> Claim:
            return Claim(
                verdict,
                correspondences,
                scene.picture_to_image(seconds),
                (reference.box.width, reference.box.height),
                (scene.width, scene.height),
                (camera, Placement(*scene.pose(seconds))),
            )

        first = scene.view(start, 0).image
        match = runner.match(method, reference, Picture(f'{case.name} {self.seed}', first)).match
        if not match.found:
            return
        yield claim(match.verdict, match.correspondences, start)
        prepared = runner.reference(method, reference)
        track = FullMatch(
            stamp=0.0,
            image=first,
            verdict=match.verdict,
            correspondences=match.correspondences,
            reference_box=prepared.box,
            counting_area=prepared.counting_area,
        ).track(method.options.limits)
        frames = round(PARAMETERS.film_seconds * PARAMETERS.film_rate)
        for number in range(1, frames + 1):
            stamp = number / PARAMETERS.film_rate
            image = scene.view(start + stamp, number).image
            tracked = track.follow(grey_frame(image, stamp))
            if tracked.found and number % (frames // PARAMETERS.samples) == 0:
                yield claim(tracked.verdict, tracked.correspondences, start + stamp)

    def _pictures(self, case: UncertaintyCase) -> tuple[Picture, Picture, np.ndarray]:
        """Return the reference, the image and the true homography of a case without a film."""
        if isinstance(case.pictures, SketchCase):
            return SketchBenchmark(self.data, self.seed).pictures(case.pictures)
        return ZoomedBenchmark(self.data, self.seed).pictures(case.pictures)

    def _scene(self, case: UncertaintyCase) -> tuple[Picture, VirtualScene, float]:
        """Return the reference of a film, its scene, and where it begins."""
        pictures = case.pictures
        photo = read_image(pictures.photo)
        if isinstance(pictures, SketchCase):
            ground: Path | None = pictures.clutter
            reference = Picture(str(pictures.drawing), drawing_of(pictures.drawing))
        else:
            ground, reference = pictures.behind, Picture(str(pictures.photo), photo)
        assert ground is not None
        random = np.random.default_rng([self.seed, *case.name.encode()])
        scene = VirtualScene(
            photo,
            read_image(ground),
            seed=self.seed,
            closeness=random.uniform(*PARAMETERS.closeness),
        )
        return reference, scene, random.uniform(0, PARAMETERS.path_seconds)

    # Summary

    def summarise(self, records: Sequence[Record]) -> dict[str, float]:
        """Return mean and median, relative to what they should be, by what, where and which."""
        _, unseen = halves(records)
        metrics: dict[str, float] = {}
        for group in GROUPS:
            of_all = [record for record in records if record['group'] == group]
            of_unseen = [record for record in unseen if record['group'] == group]
            for kind, distance in KEYS:
                key = '_'.join(filter(None, (kind, distance)))
                if kind == POSE and group in (PHOTOS, DRAWINGS):
                    continue
                name = f'{group}_{key}'
                metrics[f'squared_{name}'] = self._mean(of_all, key)
                metrics[f'squared_{name}_held_out'] = self._mean(of_unseen, key)
                singles = values_of(of_all, 'singles', key)
                usual = float(chi2.median(FREEDOMS[kind])) / FREEDOMS[kind]
                metrics[f'median_{name}'] = (
                    float(np.median(singles)) / usual if enough(of_all, key) else math.nan
                )
        held_out = [
            value
            for name, value in metrics.items()
            if name.endswith('_held_out') and math.isfinite(value)
        ]
        worst = max((abs(math.log(max(value, 1e-9))) for value in held_out), default=math.nan)
        return {
            'worst_factor': math.exp(worst),
            'answers': float(sum(record['answers'] for record in records)),
            **metrics,
        }

    def _mean(self, records: Sequence[Record], key: str) -> float:
        values = values_of(records, 'means', key)
        return float(np.mean(values)) if enough(records, key) else math.nan

    def quality(self, record: Record) -> float:
        """Rank errors worst that are largest in units of what was stated."""
        worst = [value for values in record['means'].values() for value in values]
        return -max(worst, default=0.0)

    def picture(self, case: UncertaintyCase, method: Method, runner: MethodRunner) -> np.ndarray:
        """Draw the matches and both outlines; of a film, in its first frame."""
        if not case.is_film:
            return draw_answer(method, runner, *self._pictures(case))
        reference, scene, start = self._scene(case)
        view = scene.view(start, 0)
        image = Picture(f'{case.name} {self.seed}', view.image)
        return draw_answer(method, runner, reference, image, view.picture_to_image)


def enough(records: Sequence[Record], key: str) -> bool:
    """Return whether there are enough answers for a mean that says something."""
    pictures = {record['unit'] for record in records if record['means'].get(key)}
    answers = sum(len(record['means'].get(key, ())) for record in records)
    return answers >= PARAMETERS.fewest_answers and len(pictures) >= PARAMETERS.fewest_pictures


def values_of(records: Sequence[Record], what: str, key: str) -> list[float]:
    """Return the numbers of all answers under a key."""
    return [value for record in records for value in record[what].get(key, ())]


def gathered(answers: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the numbers of several answers under each key."""
    result: dict[str, list[float]] = {}
    for answer in answers:
        for key, value in answer.items():
            result.setdefault(key, []).append(round(value, 4))
    return result


def squared_errors(claim: Claim, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return squared errors in units of the stated variances: 1 on average if these are right."""
    uncertainty = uncertainty_of(claim.verdict, claim.correspondences)
    support = random.permutation(uncertainty.support)[: PARAMETERS.supporting]
    result = {f'{SUPPORT}_at': of_points(claim, uncertainty, support)}
    width, height = claim.size
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], float)
    for kind, points, squares in (
        (CORNERS, corners, of_points(claim, uncertainty, corners)),
        (LANDMARKS, *of_landmarks(claim, uncertainty)),
    ):
        distances = uncertainty.distances(points)
        order = random.permutation(len(points))
        least = 0.0
        for name, most in DISTANCES.items():
            chosen = order[(distances[order] >= least) & (distances[order] < most)]
            chosen = chosen[np.isfinite(squares[chosen])]
            least = most
            if len(chosen):
                result[f'{kind}_{name}'] = squares[chosen]
    if claim.seen_by is not None:
        squared = of_pose(claim, uncertainty, *claim.seen_by)
        if squared is not None:
            result[POSE] = np.array([squared])
    return result


def of_points(
    claim: Claim, uncertainty: ViewUncertainty, reference_points: np.ndarray
) -> np.ndarray:
    """Return the squared errors of points; NaN behind the camera."""
    offsets = offsets_of(claim, reference_points)
    covariances = uncertainty.covariances(reference_points)
    # One number for both directions, so that 1 is right
    scaled = np.linalg.solve(covariances, offsets[:, :, None])[:, :, 0]
    squares = (offsets * scaled).sum(axis=1) / FREEDOMS[CORNERS]
    return np.asarray(np.where(seen(claim, reference_points), squares, np.nan))


def of_landmarks(claim: Claim, uncertainty: ViewUncertainty) -> tuple[np.ndarray, np.ndarray]:
    """Return landmarks all over the reference, and their squared errors.

    The error in the direction in which it is largest, as this is what a landmark states.
    """
    width, height = claim.size
    shares = (np.arange(PARAMETERS.landmarks) + 0.5) / PARAMETERS.landmarks
    x, y = np.meshgrid(shares * width, shares * height)
    points = np.column_stack([x.ravel(), y.ravel()]) - 0.5
    placed = place_landmarks(
        tuple(Landmark(str(index), *point) for index, point in enumerate(points.tolist())),
        claim.correspondences,
        claim.verdict,
        *claim.image_size,
        mode='global',
        reprojection_error=4.0,
    )
    deviations = np.array([landmark.deviation for landmark in placed])
    places = np.array([[landmark.x, landmark.y] for landmark in placed])
    worst = np.linalg.eigh(uncertainty.covariances(points))[1][:, :, 1]
    offsets = places - warp_points(claim.truth, points)
    squares = ((offsets * worst).sum(axis=1) / deviations) ** 2
    return points, np.where(seen(claim, points), squares, np.nan)


def of_pose(
    claim: Claim, uncertainty: ViewUncertainty, camera: CameraModel, truth: Placement
) -> float | None:
    """Return the squared error of the pose; None: there is none."""
    agreeing = claim.verdict.inliers
    pose = find_pose(
        claim.correspondences.reference_points[agreeing],
        claim.correspondences.image_points[agreeing],
        claim.size,
        1.0,
        camera,
        uncertainty,
    )
    if pose is None:
        return None
    apart = difference(Placement(pose.rotation, pose.translation), truth)
    return float(apart @ np.linalg.solve(pose.covariance, apart)) / FREEDOMS[POSE]


def offsets_of(claim: Claim, reference_points: np.ndarray) -> np.ndarray:
    """Return how far points of the claimed view are from where they are: N x 2, in pixels."""
    assert claim.verdict.reference_to_image is not None
    return warp_points(claim.verdict.reference_to_image, reference_points) - warp_points(
        claim.truth, reference_points
    )


def seen(claim: Claim, reference_points: np.ndarray) -> np.ndarray:
    """Return which points are in front of the camera in both views."""
    assert claim.verdict.reference_to_image is not None
    known = claim.correspondences.reference_points[claim.verdict.inliers]
    return np.asarray(
        same_side(claim.verdict.reference_to_image, known, reference_points)
        & same_side(claim.truth, known, reference_points)
    )
