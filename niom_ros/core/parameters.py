"""What users can set, in one table: type, default, description and range.

The nodes declare these as ROS parameters; `niom match` and `niom replay` take them as options.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from niom_ros.core.plugins import DETECTORS, EXTRACTORS, LABEL_EMBEDDERS, MATCHERS
from niom_ros.core.settings import (
    AGGREGATIONS,
    CAM_METHODS,
    DEVICES,
    DRAWING_SEARCHES,
    FALLBACKS,
    GuideOptions,
    LANDMARK_MODES,
    Limits,
    Options,
    Pairing,
    PAIRINGS,
    PRECISIONS,
    ROTATIONS,
    Settings,
    TRANSPORTS,
    WEIGHT_STAGES,
    Weighting,
    WEIGHTINGS,
)


@dataclass(frozen=True)
class Parameter:
    """Something that users can set."""

    name: str
    default: bool | int | float | str | tuple[str, ...]
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str | int, ...] = ()
    live: bool = False  # may change while a node works
    at_start: bool = False  # never changes: whoever reaches the node must not move it elsewhere

    def problem_with(self, value: Any) -> str:
        """Return why a value is refused, or '' if it is fine."""
        if self.choices and value not in self.choices:
            return f"{self.name} is '{value}': use one of {self.listed_choices()}"
        if self.minimum is None or self.maximum is None or isinstance(value, str):
            return ''
        if not self.minimum <= value <= self.maximum:
            return f'{self.name} is {value}: use {self.minimum:g} to {self.maximum:g}'
        return ''

    def listed_choices(self) -> str:
        """Return what may be chosen, in one line."""
        return ', '.join(map(str, self.choices))


NETWORK_PARAMETERS = (
    Parameter(
        'extractor',
        Settings.extractor,
        'Network that finds keypoints.',
        choices=EXTRACTORS.names,
    ),
    Parameter(
        'matcher',
        Settings.matcher,
        'What matches keypoints; superglue only for superpoint.',
        choices=MATCHERS.names,
    ),
    Parameter(
        'device',
        Settings.device,
        'Where the networks run; auto takes a CUDA GPU if there is one.',
        choices=DEVICES,
    ),
    Parameter(
        'precision',
        Settings.precision,
        'Of the networks; half is faster on GPUs, and only for them.',
        choices=PRECISIONS,
    ),
    Parameter(
        'max_keypoints',
        Settings.max_keypoints,
        'Most keypoints taken from each image; fewer is faster, more is surer.',
        minimum=64,
        maximum=8192,
    ),
    Parameter(
        'pruning',
        Settings.pruning,
        'Whether LightGlue drops keypoints on the way that will hardly match: faster, 2 % other.',
    ),
    Parameter(
        'max_image_side',
        Settings.max_image_side,
        'Images are shrunk to this many pixels on their longer side before keypoints are sought.',
        minimum=64,
        maximum=4096,
    ),
    Parameter(
        'detector',
        Settings.detector,
        'Network that finds objects; yolov7-seg is under the GPL.',
        choices=DETECTORS.names,
    ),
    Parameter(
        'detector_path',
        Settings.detector_path,
        'Model file of an onnx or ultralytics detector.',
        at_start=True,
    ),
    Parameter(
        'detector_sha256',
        Settings.detector_sha256,
        'Sha256 of an ultralytics file, which can hold code: no other file is read.',
        at_start=True,
    ),
    Parameter(
        'detector_labels',
        Settings.detector_labels,
        'Text file with one label a line, for an onnx detector that does not tell its own.',
        at_start=True,
    ),
    Parameter(
        'detector_threshold',
        Settings.detector_threshold,
        'Objects that score lower are not seen.',
        minimum=0.01,
        maximum=1.0,
    ),
    Parameter(
        'cam',
        Settings.cam,
        'How heat maps are made; all but closed_form are slow, for experiments.',
        choices=CAM_METHODS,
    ),
    Parameter(
        'gate_heat',
        Settings.gate_heat,
        "Whether a heat map ends at its object's box; else objects of a class share one map.",
    ),
    Parameter(
        'fallback',
        Settings.fallback,
        'Where weights come from when no object is known.',
        choices=FALLBACKS,
    ),
    Parameter(
        'label_embedder',
        Settings.label_embedder,
        'What compares labels; auto: open_clip where clip_path is set, else tables and MiniLM.',
        choices=LABEL_EMBEDDERS.names,
    ),
    Parameter(
        'clip_path',
        Settings.clip_path,
        'Checkpoint of open_clip that compares labels; empty: tables and MiniLM.',
        at_start=True,
    ),
    Parameter(
        'clip_model',
        Settings.clip_model,
        "Architecture of that checkpoint, by open_clip's name.",
    ),
)

MATCH_PARAMETERS = (
    Parameter(
        'weighting',
        Weighting.kind,
        'How heat weights descriptors; auto: as sew, but only where none does not find it.',
        choices=WEIGHTINGS,
        live=True,
    ),
    Parameter(
        'weight_range',
        -1.0,
        'Weights lie between 1 minus this and 1; negative: what suits the extractor.',
        minimum=-1.0,
        maximum=0.99,
        live=True,
    ),
    Parameter(
        'weight_stage',
        Weighting.stage,
        'Weight before or after the layer with which LightGlue reads descriptors.',
        choices=WEIGHT_STAGES,
        live=True,
    ),
    Parameter(
        'heat_aggregation',
        Weighting.aggregation,
        'How the heat of several objects becomes one.',
        choices=AGGREGATIONS,
        live=True,
    ),
    Parameter(
        'drawing_search',
        Options.drawing_search,
        'How drawings are found: by matches, by laying their ink along edges, or both in turn.',
        choices=DRAWING_SEARCHES,
        live=True,
    ),
    Parameter(
        'pairing',
        Pairing.by,
        'What objects are paired by: labels (text), looks (visual), both, or not at all.',
        choices=PAIRINGS,
        live=True,
    ),
    Parameter(
        'max_pairs',
        Pairing.most,
        'Most pairs of objects; 1 takes the one best pair.',
        minimum=1,
        maximum=20,
        live=True,
    ),
    Parameter(
        'pairing_floor',
        Pairing.floor,
        'Objects that are less alike stay alone; 0: nothing in common, 1: the same.',
        minimum=-1.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'score_threshold',
        Limits.score_threshold,
        'Matches that the network scores lower are dropped.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'reprojection_error',
        Limits.reprojection_error,
        'Pixels of the camera image within which a match agrees with the homography.',
        minimum=0.5,
        maximum=50.0,
        live=True,
    ),
    Parameter(
        'min_confidence',
        Limits.min_confidence,
        'Confidence that is needed to say OK; 0.5 is as calibrated, more is stricter.',
        minimum=0.5,
        maximum=0.999,
        live=True,
    ),
    Parameter(
        'min_inliers',
        Limits.min_inliers,
        'Agreeing matches that a full match needs to say OK; unrelated pictures reach a few.',
        minimum=4,
        maximum=1000,
        live=True,
    ),
    Parameter(
        'min_inlier_ratio',
        Limits.min_inlier_ratio,
        'Share of all matches that must agree.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'min_coverage',
        Limits.min_coverage,
        'Share of the reference that the agreeing matches must span.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
)

GUIDE_PARAMETERS = (
    Parameter(
        'match_all',
        False,
        'Compare every frame with all references and report the best; else with the selected one.',
        live=True,
    ),
    Parameter(
        'image_rotation',
        GuideOptions.rotation,
        'Degrees clockwise that set the images of a turned camera upright.',
        choices=ROTATIONS,
        live=True,
    ),
    Parameter(
        'rectified_image',
        False,
        'Whether images are already rectified: the pose then uses P of camera_info, else K and D.',
        live=True,
    ),
    Parameter(
        'landmark_mode',
        GuideOptions.landmark_mode,
        'What places landmarks: the homography, or the matches around each (not flat, not same).',
        choices=LANDMARK_MODES,
        live=True,
    ),
)

MATCHER_NODE_PARAMETERS = (
    Parameter(
        'autostart',
        True,
        'Configure and activate the node at its start; else ros2 lifecycle does.',
        at_start=True,
    ),
    Parameter(
        'threads',
        0,
        'CPU threads of the networks; 0 leaves one core to the rest of the robot.',
        minimum=0,
        maximum=256,
    ),
    Parameter(
        'reference_path',
        '',
        'Image or YAML file to look for from the start; empty: wait for ~/set_reference.',
        at_start=True,
    ),
    Parameter(
        'reference_folder',
        '',
        'Folder whose images and YAML files are references from the start; empty: none.',
        at_start=True,
    ),
    Parameter(
        'keep_references',
        False,
        'Write references that are set, selected or removed to reference_folder.',
        at_start=True,
    ),
    Parameter(
        'reference_folders',
        ('~',),
        'Folders in which ~/set_reference may name files, none hidden; one empty name: no files.',
        at_start=True,
    ),
    Parameter(
        'image_transport',
        'raw',
        'Whether to take sensor_msgs/Image from image, or CompressedImage from image/compressed.',
        choices=TRANSPORTS,
        live=True,
    ),
    Parameter(
        'reliable_image',
        False,
        'Ask the camera for reliable delivery; a best-effort camera then does not connect.',
        live=True,
    ),
    Parameter(
        'image_timeout',
        5.0,
        'Seconds without an image after which diagnostics say so.',
        minimum=0.1,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'max_image_age',
        0.0,
        'Seconds after which a frame is STALE and guides nobody; 0: never. Needs one clock.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'tracking',
        True,
        'Follow what was found from frame to frame, at camera rate, between full matches.',
        live=True,
    ),
    Parameter(
        'match_interval',
        2.0,
        'Seconds from one full match to the next while a reference is tracked.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'max_latency',
        0.0,
        'Seconds that a full match may take: it gets as many keypoints as that allows; 0: all.',
        minimum=0.0,
        maximum=60.0,
        live=True,
    ),
    Parameter(
        'detection_interval',
        5.0,
        'Seconds for which objects are carried on by the motion of a tracked reference; 0: never.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'publish_tf',
        True,
        'Publish the pose on /tf as well, as frame NAMESPACE/NODE/ID, where tf2_ros is installed.',
        live=True,
    ),
    Parameter(
        'picture_width',
        1280,
        'Widest debug, overlay and heat map image in pixels.',
        minimum=64,
        maximum=7680,
        live=True,
    ),
)

MATCHER_PARAMETERS = (
    *MATCHER_NODE_PARAMETERS,
    *GUIDE_PARAMETERS,
    *NETWORK_PARAMETERS,
    *MATCH_PARAMETERS,
)

VIRTUAL_CAMERA_PARAMETERS = (
    Parameter('photo_path', '', 'Photo that lies in the scene; empty: a cup of coffee.'),
    Parameter('photo_width', 0.3, 'Its width in metres.', minimum=0.001, maximum=100.0),
    Parameter('width', 640, 'Width of the images in pixels.', minimum=32, maximum=4096),
    Parameter('height', 480, 'Height of the images in pixels.', minimum=32, maximum=4096),
    Parameter('rate', 5.0, 'Images per second.', minimum=0.1, maximum=120.0),
    Parameter('noise', 6.0, 'Sensor noise in grey values.', minimum=0.0, maximum=100.0),
    Parameter('light_change', 0.35, 'How far the light swings.', minimum=0.0, maximum=0.9),
    Parameter('seed', 0, 'Seed of the noise.', minimum=0, maximum=2**31 - 1),
    Parameter('frame_id', 'virtual_camera_optical_frame', 'frame_id of the images.'),
)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return what is fixed once the networks are loaded."""
    return Settings(**{field.name: values[field.name] for field in fields(Settings)})


def options_of(values: Mapping[str, Any]) -> Options:
    """Return what may change from one image to the next."""
    limits = (
        'score_threshold',
        'reprojection_error',
        'min_confidence',
        'min_inliers',
        'min_inlier_ratio',
        'min_coverage',
    )
    return Options(
        Limits(**{name: values[name] for name in limits}),
        Weighting(
            kind=values['weighting'],
            range=values['weight_range'] if values['weight_range'] >= 0 else None,
            aggregation=values['heat_aggregation'],
            stage=values['weight_stage'],
        ),
        Pairing(by=values['pairing'], most=values['max_pairs'], floor=values['pairing_floor']),
        values['drawing_search'],
    )


def guide_options_of(values: Mapping[str, Any]) -> GuideOptions:
    """Return what may change from one camera image to the next."""
    return GuideOptions(options_of(values), values['image_rotation'], values['landmark_mode'])


def defaults(table: Iterable[Parameter]) -> dict[str, Any]:
    """Return the default of every parameter of a table."""
    return {parameter.name: parameter.default for parameter in table}
