"""All that can be chosen: which networks to use, where, on what, and how they work together."""

from dataclasses import dataclass, field
import os
from pathlib import Path
from typing import TYPE_CHECKING

from niom_ros.core.errors import UserError
from niom_ros.core.plugins import DETECTORS, EXTRACTORS, LABEL_EMBEDDERS, MATCHERS

if TYPE_CHECKING:
    import torch

DEVICES = ('auto', 'cpu', 'cuda')
PRECISIONS = ('single', 'half')
CAM_METHODS = ('closed_form', 'gradcam', 'gradcam++', 'hirescam', 'layercam', 'eigencam')
FALLBACKS = ('none', 'saliency')
WEIGHTINGS = ('auto', 'sew', 'none', 'uniform', 'shuffled', 'heat', 'one_plus_heat')
AGGREGATIONS = ('max', 'mean', 'sigmoid', 'softmax')
WEIGHT_STAGES = ('before', 'after')
PAIRINGS = ('text', 'visual', 'both', 'none')
DRAWING_SEARCHES = ('both', 'matches', 'ink')
LANDMARK_MODES = ('global', 'local')
ROTATIONS = (0, 90, 180, 270)
TRANSPORTS = ('raw', 'compressed')


class SettingsError(UserError):
    """A setting that cannot work on this machine; the message says what to use instead."""


@dataclass(frozen=True)
class Settings:
    """What is fixed once the networks are loaded."""

    extractor: str = 'aliked'
    matcher: str = 'lightglue'
    device: str = 'auto'
    precision: str = 'single'  # half is for GPUs
    max_keypoints: int = 1024  # of each image
    pruning: bool = False  # whether LightGlue drops points that have hardly any prospect
    max_image_side: int = 1024  # larger images are shrunk to this, never enlarged

    detector: str = 'yolov4-tiny'
    detector_path: str = ''  # the file of an onnx or ultralytics detector
    detector_sha256: str = ''  # of that file: whoever names it trusts it
    detector_labels: str = ''  # a text file with one label a line, for an onnx detector
    detector_threshold: float = 0.25  # objects that score lower are not seen
    cam: str = 'closed_form'  # how heat maps are made
    gate_heat: bool = True  # whether a heat map ends at its object's box
    fallback: str = 'none'  # where weights come from when nothing is detected
    label_embedder: str = 'auto'  # open_clip where there is a clip_path, else tables
    clip_path: str = ''  # a checkpoint of open_clip, for labels
    clip_model: str = 'ViT-B-32'  # its architecture, by open_clip's name

    def __post_init__(self) -> None:
        """Refuse what no network can work with."""
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
        for name in ('max_keypoints', 'max_image_side'):
            if getattr(self, name) < 64:
                raise SettingsError(f'{name} is {getattr(self, name)}: it must be 64 or more')
        check_share('detector_threshold', self.detector_threshold)


@dataclass(frozen=True)
class Weighting:
    """How the heat at a keypoint becomes the number that its descriptor is multiplied with.

    auto           none, and if that does not find the reference, sew
    sew            (1 + H) / max(1 + H), as the paper has it; `range` makes it milder
    none           1: descriptors stay as they are
    uniform        control: the mean of what sew gives, the same for every keypoint
    shuffled       control: what sew gives, dealt out to the keypoints at random
    heat           H, which the paper rejected
    one_plus_heat  1 + H, which the paper rejected
    """

    kind: str = 'auto'
    range: float | None = None  # sew gives 1 - range to 1; None: what suits the extractor
    aggregation: str = 'max'  # how the heat of several objects becomes one
    stage: str = 'before'  # or after the linear layer with which LightGlue reads descriptors
    seed: int = 0  # of shuffled

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        check_choice('weighting', self.kind, WEIGHTINGS)
        check_choice('heat_aggregation', self.aggregation, AGGREGATIONS)
        check_choice('weight_stage', self.stage, WEIGHT_STAGES)
        if self.range is not None and not 0 <= self.range < 1:
            raise SettingsError(f'weight_range is {self.range}: it must be 0 or more and below 1')


@dataclass(frozen=True)
class Pairing:
    """How objects are paired: by what their labels mean, by how they look, or by both.

    Of pairs of COCO labels from different supercategories 1 to 2 % reach the floor of 0.2; pairs
    like dog and cat, cup and bowl or chair and couch do.
    """

    by: str = 'text'
    most: int = 1  # pairs; 1 is the one best pair of the paper
    floor: float = 0.2  # less alike objects stay alone; 0: nothing in common, 1: the same

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        check_choice('pairing', self.by, PAIRINGS)
        if self.most < 1:
            raise SettingsError(f'max_pairs is {self.most}: it must be 1 or more')
        if not -1 <= self.floor <= 1:
            raise SettingsError(f'pairing_floor is {self.floor}: it must be between -1 and 1')


@dataclass(frozen=True)
class Limits:
    """What a match must reach to be believed.

    Unrelated pictures give a homography almost every time, so the defaults come from a
    comparison with them: see the README, 'When it says OK'.
    """

    score_threshold: float = 0.1  # matches that the network scores lower are dropped
    reprojection_error: float = 4.0  # pixels of the image within which a match agrees
    min_confidence: float = 0.5  # one half: as calibrated, see matching/confidence.py
    min_inliers: int = 20
    min_inlier_ratio: float = 0.25
    min_coverage: float = 0.08  # share of the reference that the agreeing points span
    min_area_ratio: float = 0.002  # of the found outline to the image
    max_area_ratio: float = 50.0
    max_stretch: float = 8.0  # how much longer one direction may become than another
    max_perspective: float = 30.0  # how much larger one corner may appear than another


@dataclass(frozen=True)
class Options:
    """What may change from one image to the next."""

    limits: Limits = field(default_factory=Limits)
    weighting: Weighting = field(default_factory=Weighting)
    pairing: Pairing = field(default_factory=Pairing)
    # By matches, and by ink where those find nothing; or by one of the two alone.
    drawing_search: str = 'both'

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        check_choice('drawing_search', self.drawing_search, DRAWING_SEARCHES)


@dataclass(frozen=True)
class GuideOptions:
    """What may change from one camera image to the next."""

    matching: Options = field(default_factory=Options)
    rotation: int = 0  # degrees clockwise that set images upright
    landmark_mode: str = 'global'  # or local
    most_keypoints: int | None = None  # that are matched; None: as many as max_keypoints


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise SettingsError(f"unknown {name} '{value}': use one of {', '.join(choices)}")


def check_share(name: str, value: float) -> None:
    """Refuse a value that is not between 0 and 1."""
    if not 0 <= value <= 1:
        raise SettingsError(f'{name} is {value}: it must be between 0 and 1')


def existing_file(path: Path | str, setting: str) -> Path:
    """Return the path of the file that a setting names, after making sure that there is one."""
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
    """Return how many CPU threads leave one core to the rest of the machine."""
    return max(1, (os.cpu_count() or 2) - 1)


def choose_device(name: str) -> 'torch.device':
    """Turn 'auto', 'cpu' or 'cuda' into a device that works on this machine."""
    import torch  # takes seconds, and the table of parameters needs only the names above

    cuda_works = torch.cuda.is_available()
    if name == 'cuda' and not cuda_works:
        raise SettingsError("no usable CUDA GPU found: use device 'cpu' or 'auto'")
    return torch.device('cuda' if cuda_works and name != 'cpu' else 'cpu')
