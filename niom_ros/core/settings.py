"""What can be configured: which networks run, on which device, and how they work together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, KW_ONLY
import os
from pathlib import Path
from typing import get_args, Literal, TYPE_CHECKING

from niom_ros.core.errors import UserError
from niom_ros.core.field_types import check_fields
from niom_ros.core.plugins import (
    DETECTORS,
    EXTRACTORS,
    LABEL_EMBEDDERS,
    MATCHERS,
    STRATEGIES,
)

if TYPE_CHECKING:
    import torch

# What a setting can be; type checkers know it, and so do parameters, help and messages.
Device = Literal['auto', 'cpu', 'cuda']
Precision = Literal['single', 'half']
CamMethod = Literal['closed_form', 'gradcam', 'gradcam++', 'hirescam', 'layercam', 'eigencam']
Fallback = Literal['none', 'saliency']
WeightingKind = Literal['auto', 'sew', 'none', 'uniform', 'shuffled', 'heat', 'one_plus_heat']
Aggregation = Literal['max', 'mean', 'sigmoid', 'softmax']
HeatSourceName = Literal['detector', 'classifier', 'agreement']
WeightStage = Literal['before', 'after']
PairingBy = Literal['text', 'visual', 'both', 'none']
KeypointSearch = Literal['both', 'classical', 'networks']
DrawingSearch = Literal['both', 'matches', 'ink']
Sought = Literal['same_object', 'same_kind']
Wanted = Literal['same_object', 'same_kind', 'either']
LandmarkMode = Literal['auto', 'global', 'local']
RotationAngle = Literal[0, 90, 180, 270]
Transport = Literal['raw', 'compressed']

DEVICES: tuple[Device, ...] = get_args(Device)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
CAM_METHODS: tuple[CamMethod, ...] = get_args(CamMethod)
FALLBACKS: tuple[Fallback, ...] = get_args(Fallback)
WEIGHTINGS: tuple[WeightingKind, ...] = get_args(WeightingKind)
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
HEAT_SOURCES: tuple[HeatSourceName, ...] = get_args(HeatSourceName)
WEIGHT_STAGES: tuple[WeightStage, ...] = get_args(WeightStage)
PAIRINGS: tuple[PairingBy, ...] = get_args(PairingBy)
KEYPOINT_SEARCHES: tuple[KeypointSearch, ...] = get_args(KeypointSearch)
DRAWING_SEARCHES: tuple[DrawingSearch, ...] = get_args(DrawingSearch)
WANTED: tuple[Wanted, ...] = get_args(Wanted)
LANDMARK_MODES: tuple[LandmarkMode, ...] = get_args(LandmarkMode)
ROTATIONS: tuple[RotationAngle, ...] = get_args(RotationAngle)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)

MOST_INSTANCES = 20  # equal objects in one image: each is tracked in every frame


class SettingsError(UserError):
    """A setting that does not work here; the message says what to use instead."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that are fixed once the networks are loaded."""

    extractor: str = 'aliked'
    matcher: str = 'lightglue'
    device: Device = 'auto'
    precision: Precision = 'single'  # half is for GPUs
    max_keypoints: int = 1024  # per image
    pruning: bool = False  # let LightGlue drop keypoints early that are unlikely to match
    max_image_side: int = 1024  # larger images are shrunk to this, never enlarged

    detector: str = 'yolov4-tiny'
    detector_path: str = ''  # the file of an onnx or ultralytics detector
    detector_sha256: str = ''  # of that file; setting it means that you trust the file
    detector_labels: str = ''  # a text file with one label per line, for an onnx detector
    detector_threshold: float = 0.25  # detections with a lower score are ignored
    cam: CamMethod = 'closed_form'  # how heat maps are computed
    gate_heat: bool = True  # cut each heat map off at its object's box
    fallback: Fallback = 'none'  # where weights come from when nothing is detected
    label_embedder: str = 'auto'  # auto: open_clip if clip_path is set, else tables
    extra_strategies: tuple[str, ...] = ()  # those of plug-ins
    clip_path: str = ''  # an open_clip checkpoint that compares labels
    clip_model: str = 'ViT-B-32'  # its architecture, as open_clip names it

    def __post_init__(self) -> None:
        """Refuse values that no network can work with."""
        check_fields(self, SettingsError)
        for name, choices in (
            ('extractor', EXTRACTORS.names),
            ('matcher', MATCHERS.names),
            ('device', DEVICES),
            ('precision', PRECISIONS),
            ('detector', DETECTORS.names),
            ('cam', CAM_METHODS),
            ('fallback', FALLBACKS),
            ('label_embedder', LABEL_EMBEDDERS.names),
        ):
            check_choice(name, getattr(self, name), choices)
        for name in self.strategies:
            check_choice('strategy', name, STRATEGIES.names)
        for name in ('max_keypoints', 'max_image_side'):
            if getattr(self, name) < 64:
                raise SettingsError(f'{name} is {getattr(self, name)}: it must be 64 or more')
        check_share('detector_threshold', self.detector_threshold)

    @property
    def strategies(self) -> tuple[str, ...]:
        """Return the names of the strategies that are tried."""
        return tuple(dict.fromkeys((*STRATEGIES.built_in, *self.extra_strategies)))


@dataclass(frozen=True)
class Weighting:
    """How the heat H at a keypoint becomes the factor by which its descriptor is multiplied.

    auto           none, then sew if that does not find the reference
    sew            (1 + H) / max(1 + H), as in the paper; a smaller `range` makes it milder
    none           1: descriptors stay as they are
    uniform        control: every keypoint gets the mean of the sew weights
    shuffled       control: the sew weights, assigned to keypoints at random
    heat           H, which the paper rejected
    one_plus_heat  1 + H, which the paper rejected

    and where that heat comes from:

    detector       the objects that a detector sees or a user marked, as in the paper
    classifier     the classes that a network names, of each picture as a whole
    agreement      how well each place of one picture finds its counterpart in the other
    """

    kind: WeightingKind = 'auto'
    _: KW_ONLY
    range: float | None = None  # sew weights lie in [1 - range, 1]; None: as suits the extractor
    source: HeatSourceName = 'detector'  # of the heat
    aggregation: Aggregation = 'max'  # how the heat maps of several objects are combined
    stage: WeightStage = (
        'before'  # or after the linear layer that projects descriptors into LightGlue
    )
    seed: int = 0  # of shuffled

    def __post_init__(self) -> None:
        """Refuse values that have no meaning."""
        check_fields(self, SettingsError)
        check_choice('weighting', self.kind, WEIGHTINGS)
        check_choice('heat_source', self.source, HEAT_SOURCES)
        check_choice('heat_aggregation', self.aggregation, AGGREGATIONS)
        check_choice('weight_stage', self.stage, WEIGHT_STAGES)
        if self.range is not None and not 0 <= self.range < 1:
            raise SettingsError(f'weight_range is {self.range}: it must be 0 or more and below 1')


@dataclass(frozen=True)
class Pairing:
    """How objects are paired: by the meaning of their labels, by appearance, or by both.

    Of the pairs of COCO labels from different supercategories, 1 to 2 % reach the floor of 0.2.
    Pairs such as dog and cat, cup and bowl, or chair and couch do.
    """

    by: PairingBy = 'text'
    _: KW_ONLY
    most: int = 1  # pairs; the paper takes the best pair only
    floor: float = 0.2  # less similar objects are not paired; 0: nothing in common, 1: identical

    def __post_init__(self) -> None:
        """Refuse values that have no meaning."""
        check_fields(self, SettingsError)
        check_choice('pairing', self.by, PAIRINGS)
        if self.most < 1:
            raise SettingsError(f'max_pairs is {self.most}: it must be 1 or more')
        if not -1 <= self.floor <= 1:
            raise SettingsError(f'pairing_floor is {self.floor}: it must be between -1 and 1')


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a match must reach to be accepted.

    Unrelated pictures almost always yield some homography, so the defaults were chosen by
    comparison with them: see 'When it says OK' in the README.
    """

    score_threshold: float = 0.1  # matches with a lower score are dropped
    reprojection_error: float = 4.0  # largest distance of an inlier, in pixels of the image
    min_confidence: float = 0.5  # the calibrated limit: see matching/confidence.py
    min_inliers: int = 20
    min_inlier_ratio: float = 0.25
    min_coverage: float = 0.08  # share of the visible part of the reference that inliers span
    min_area_ratio: float = 0.002  # area of the outline in the image / area of the image
    max_area_ratio: float = 50.0
    max_stretch: float = 8.0  # largest ratio of the scales in two directions
    max_perspective: float = 30.0  # largest ratio of the scales at two corners

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        check_fields(self, SettingsError)
        for name in ('score_threshold', 'min_confidence', 'min_inlier_ratio', 'min_coverage'):
            check_share(name, getattr(self, name))
        if not self.reprojection_error > 0:
            raise SettingsError(
                f'reprojection_error is {self.reprojection_error}: it must be above 0'
            )
        if self.min_inliers < 0:
            raise SettingsError(f'min_inliers is {self.min_inliers}: it must be 0 or more')


@dataclass(frozen=True)
class Options:
    """Options of matching, which may change from one image to the next."""

    limits: Limits = field(default_factory=Limits)
    _: KW_ONLY
    weighting: Weighting = field(default_factory=Weighting)
    pairing: Pairing = field(default_factory=Pairing)
    # both: by SIFT, which is fast and finds any direction, then by networks if it finds nothing.
    keypoint_search: KeypointSearch = 'both'
    # both: by keypoint matches, then by ink if those find nothing.
    drawing_search: DrawingSearch = 'both'
    # either: the object itself, or one of its kind if it is not seen. References may differ.
    wanted: Wanted = 'either'
    strategies: tuple[str, ...] | None = None  # to try; None: all that the settings name
    max_instances: int = 1  # places at which equal objects may be found in one image

    def __post_init__(self) -> None:
        """Refuse values that have no meaning."""
        check_fields(self, SettingsError)
        check_choice('keypoint_search', self.keypoint_search, KEYPOINT_SEARCHES)
        check_choice('drawing_search', self.drawing_search, DRAWING_SEARCHES)
        check_choice('wanted', self.wanted, WANTED)
        for name in self.strategies or ():
            check_choice('strategy', name, STRATEGIES.names)
        if not 1 <= self.max_instances <= MOST_INSTANCES:
            raise SettingsError(
                f'max_instances is {self.max_instances}: it must be 1 to {MOST_INSTANCES}'
            )


@dataclass(frozen=True)
class StreamOptions:
    """Options of a camera stream, which may change from one image to the next."""

    matching: Options = field(default_factory=Options)
    _: KW_ONLY
    rotation: RotationAngle = 0  # degrees clockwise that turn images upright
    landmark_mode: LandmarkMode = 'auto'  # global if the object is flat, else local
    tracking: bool = True  # follow what was found from image to image, between full matches
    match_interval: float = 2.0  # seconds from one full match to the next while tracking
    max_latency: float = 0.0  # seconds that a full match may take; 0: any time
    detection_interval: float = 5.0  # seconds for which detected objects move with the track

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        check_fields(self, SettingsError)
        check_choice('rotation', self.rotation, ROTATIONS)
        check_choice('landmark_mode', self.landmark_mode, LANDMARK_MODES)
        for name in ('match_interval', 'max_latency', 'detection_interval'):
            if not getattr(self, name) >= 0:
                raise SettingsError(f'{name} is {getattr(self, name)}: it must be 0 or more')


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise SettingsError(f"unknown {name} '{value}': use one of {', '.join(map(str, choices))}")


def check_share(name: str, value: float) -> None:
    """Refuse a value that is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise SettingsError(f'{name} is {value}: it must be between 0 and 1')


def existing_file(path: Path | str, setting: str) -> Path:
    """Return the absolute path of the file that a setting names, if it exists."""
    path = Path(path).expanduser().absolute()
    try:
        path.stat()
    except OSError as error:
        raise SettingsError(
            f'{path} cannot be read ({error.strerror}): set {setting} to a file that exists'
        ) from None
    if path.is_dir():
        raise SettingsError(f'{path} is a folder: set {setting} to a file')
    return path


def default_threads() -> int:
    """Return the number of CPU threads that leaves one core to the rest of the machine."""
    return max(1, (os.cpu_count() or 2) - 1)


def choose_device(name: str) -> 'torch.device':
    """Turn 'auto', 'cpu' or 'cuda' into a device that works on this machine."""
    import torch  # takes seconds, and the parameter table only needs the names above

    cuda_works = torch.cuda.is_available()
    if name == 'cuda' and not cuda_works:
        raise SettingsError("no usable CUDA GPU found: use device 'cpu' or 'auto'")
    return torch.device('cuda' if cuda_works and name != 'cpu' else 'cpu')
