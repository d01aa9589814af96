"""What users can set, in one table: type, default, description and range.

The nodes declare these as ROS parameters; `niom match` and `niom replay` take them as options.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, KW_ONLY
from typing import Any

from niom_ros.core.plugins import DETECTORS, EXTRACTORS, LABEL_EMBEDDERS, MATCHERS
from niom_ros.core.settings import (
    AGGREGATIONS,
    CAM_METHODS,
    DEVICES,
    DRAWING_SEARCHES,
    FALLBACKS,
    HEAT_SOURCES,
    KEYPOINT_SEARCHES,
    LANDMARK_MODES,
    Limits,
    MOST_INSTANCES,
    Options,
    Pairing,
    PAIRINGS,
    PRECISIONS,
    ROTATIONS,
    Settings,
    StreamOptions,
    TRANSPORTS,
    WANTED,
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
    _: KW_ONLY
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str | int, ...] = ()
    live: bool = False  # may change while the node is active
    at_start: bool = False  # read once: a client must not redirect what the node reads or writes

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
        """Return the choices in one line."""
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
        'Method that matches keypoints; superglue works only with superpoint.',
        choices=MATCHERS.names,
    ),
    Parameter(
        'device',
        Settings.device,
        'Where the networks run; auto uses a CUDA GPU if there is one.',
        choices=DEVICES,
    ),
    Parameter(
        'precision',
        Settings.precision,
        'Precision of the networks; half is faster, but only works on a GPU.',
        choices=PRECISIONS,
    ),
    Parameter(
        'max_keypoints',
        Settings.max_keypoints,
        'Maximum number of keypoints per image; fewer are faster, more are more reliable.',
        minimum=64,
        maximum=8192,
    ),
    Parameter(
        'pruning',
        Settings.pruning,
        'Let LightGlue drop unpromising keypoints early: faster; about 2 % of the matches differ.',
    ),
    Parameter(
        'max_image_side',
        Settings.max_image_side,
        'Larger images are shrunk to this many pixels on their longer side before extraction.',
        minimum=64,
        maximum=4096,
    ),
    Parameter(
        'detector',
        Settings.detector,
        'Network that detects objects; yolov7-seg is under the GPL.',
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
        'SHA-256 of an ultralytics file, which can contain code: no other file is loaded.',
        at_start=True,
    ),
    Parameter(
        'detector_labels',
        Settings.detector_labels,
        'Text file with one label per line, for an onnx model that has none of its own.',
        at_start=True,
    ),
    Parameter(
        'detector_threshold',
        Settings.detector_threshold,
        'Detections with a lower score are ignored.',
        minimum=0.01,
        maximum=1.0,
    ),
    Parameter(
        'cam',
        Settings.cam,
        'How heat maps are computed; all but closed_form are slow, for experiments.',
        choices=CAM_METHODS,
    ),
    Parameter(
        'gate_heat',
        Settings.gate_heat,
        "Cut each heat map off at its object's box; if false, objects of a class share one map.",
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
        'extra_strategies',
        '',
        'More strategies to try, of plug-ins, separated by commas.',
    ),
    Parameter(
        'clip_path',
        Settings.clip_path,
        'open_clip checkpoint that compares labels; empty: use tables and MiniLM.',
        at_start=True,
    ),
    Parameter(
        'clip_model',
        Settings.clip_model,
        'Architecture of that checkpoint, as open_clip names it.',
    ),
)

MATCH_PARAMETERS = (
    Parameter(
        'weighting',
        Weighting.kind,
        'How heat weights descriptors; auto: sew only where unweighted matching finds nothing.',
        choices=WEIGHTINGS,
        live=True,
    ),
    Parameter(
        'weight_range',
        -1.0,
        'Weights lie between 1 minus this and 1; negative: the default of the extractor.',
        minimum=-1.0,
        maximum=0.99,
        live=True,
    ),
    Parameter(
        'weight_stage',
        Weighting.stage,
        'Weight descriptors before or after the input projection of LightGlue.',
        choices=WEIGHT_STAGES,
        live=True,
    ),
    Parameter(
        'heat_source',
        Weighting.source,
        'What heat shows: objects of the detector, classes that a classifier names, or where both '
        'pictures agree.',
        choices=HEAT_SOURCES,
        live=True,
    ),
    Parameter(
        'heat_aggregation',
        Weighting.aggregation,
        'How the heat maps of several objects are combined.',
        choices=AGGREGATIONS,
        live=True,
    ),
    Parameter(
        'keypoint_search',
        Options.keypoint_search,
        'How keypoints are found: by SIFT (classical: fast, any direction, the very same thing '
        'only), by networks, or by both, SIFT first.',
        choices=KEYPOINT_SEARCHES,
        live=True,
    ),
    Parameter(
        'drawing_search',
        Options.drawing_search,
        'How drawings are found: by keypoint matches, by fitting ink to edges, '
        'or by both, matches first.',
        choices=DRAWING_SEARCHES,
        live=True,
    ),
    Parameter(
        'wanted',
        Options.wanted,
        'What counts as found: the object of the reference, one of its kind, or either; '
        'references may override it.',
        choices=WANTED,
        live=True,
    ),
    Parameter(
        'max_instances',
        Options.max_instances,
        'Maximum number of equal objects that are found in one image.',
        minimum=1,
        maximum=MOST_INSTANCES,
        live=True,
    ),
    Parameter(
        'pairing',
        Pairing.by,
        'Pair objects by label (text), by appearance (visual), by both, or not at all.',
        choices=PAIRINGS,
        live=True,
    ),
    Parameter(
        'max_pairs',
        Pairing.most,
        'Maximum number of object pairs; 1 keeps only the best pair.',
        minimum=1,
        maximum=20,
        live=True,
    ),
    Parameter(
        'pairing_floor',
        Pairing.floor,
        'Less similar objects are not paired; 0: nothing in common, 1: identical.',
        minimum=-1.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'score_threshold',
        Limits.score_threshold,
        'Matches with a lower score are dropped.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'reprojection_error',
        Limits.reprojection_error,
        'Maximum distance of an inlier from the homography, in pixels of the camera image.',
        minimum=0.5,
        maximum=50.0,
        live=True,
    ),
    Parameter(
        'min_confidence',
        Limits.min_confidence,
        'Minimum confidence for OK; 0.5 is the calibrated limit, higher is stricter.',
        minimum=0.5,
        maximum=0.999,
        live=True,
    ),
    Parameter(
        'min_inliers',
        Limits.min_inliers,
        'Minimum number of inliers for OK in a full match; SIFT needs three fifths of it.',
        minimum=4,
        maximum=1000,
        live=True,
    ),
    Parameter(
        'min_inlier_ratio',
        Limits.min_inlier_ratio,
        'Minimum share of matches that are inliers.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
    Parameter(
        'min_coverage',
        Limits.min_coverage,
        'Minimum share of the visible part of the reference that the inliers span.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    ),
)

ANSWER_PARAMETERS = (
    Parameter(
        'match_all',
        False,
        'Compare every frame with all references and report the best match.',
        live=True,
    ),
    Parameter(
        'image_rotation',
        StreamOptions.rotation,
        'Degrees clockwise that turn the images of a rotated camera upright.',
        choices=ROTATIONS,
        live=True,
    ),
    Parameter(
        'rectified_image',
        False,
        'Images are already rectified: the pose uses P of camera_info instead of K and D.',
        live=True,
    ),
    Parameter(
        'landmark_mode',
        StreamOptions.landmark_mode,
        'Place landmarks by the homography (global), by the matches near each of them (local), or '
        'as the matches show whether the object is flat (auto).',
        choices=LANDMARK_MODES,
        live=True,
    ),
)

STREAM_PARAMETERS = (
    Parameter(
        'tracking',
        StreamOptions.tracking,
        'Track what was found at camera rate between full matches.',
        live=True,
    ),
    Parameter(
        'match_interval',
        StreamOptions.match_interval,
        'Seconds between full matches while a reference is tracked.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'max_latency',
        StreamOptions.max_latency,
        'Seconds that a full match may take; keypoints are reduced to meet it; 0: no limit.',
        minimum=0.0,
        maximum=60.0,
        live=True,
    ),
    Parameter(
        'detection_interval',
        StreamOptions.detection_interval,
        'Seconds between object detections while a reference is tracked; 0: in every full match.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
)

MATCHER_NODE_PARAMETERS = (
    Parameter(
        'autostart',
        True,
        'Configure and activate the node at start-up; if false, use ros2 lifecycle.',
        at_start=True,
    ),
    Parameter(
        'threads',
        0,
        'CPU threads for the networks and OpenCV; 0 leaves one core to the rest of the robot.',
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
        'Folder whose images and YAML files are loaded as references at start-up; empty: none.',
        at_start=True,
    ),
    Parameter(
        'keep_references',
        False,
        'Save references in reference_folder when they are set, selected or removed.',
        at_start=True,
    ),
    Parameter(
        'reference_folders',
        ('~',),
        'Folders that ~/set_reference may read from, except hidden files; one empty name: none.',
        at_start=True,
    ),
    Parameter(
        'image_transport',
        'raw',
        'raw: sensor_msgs/Image on image; compressed: CompressedImage on image/compressed.',
        choices=TRANSPORTS,
        live=True,
    ),
    Parameter(
        'reliable_image',
        False,
        'Request reliable delivery; a camera that publishes best effort then does not connect.',
        live=True,
    ),
    Parameter(
        'image_timeout',
        5.0,
        'Seconds without an image after which diagnostics report an error.',
        minimum=0.1,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'max_image_age',
        0.0,
        'Seconds after which a frame is STALE; 0: never. Camera and node must share a clock.',
        minimum=0.0,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        'publish_tf',
        True,
        'Also publish the pose on /tf, as frame NAMESPACE/NODE/ID, if tf2_ros is installed.',
        live=True,
    ),
    Parameter(
        'picture_width',
        1280,
        'Maximum width of debug, overlay and heat map images in pixels.',
        minimum=64,
        maximum=7680,
        live=True,
    ),
    Parameter(
        'heatmap_landmark',
        '',
        'Landmark whose likelihood the heat map image shows if the status is ALIKE; '
        'empty: the first; an unknown name: the most certain point.',
        live=True,
    ),
)

MATCHER_PARAMETERS = (
    *MATCHER_NODE_PARAMETERS,
    *ANSWER_PARAMETERS,
    *STREAM_PARAMETERS,
    *NETWORK_PARAMETERS,
    *MATCH_PARAMETERS,
)

VIRTUAL_CAMERA_PARAMETERS = (
    Parameter('photo_path', '', 'Photo to place in the scene; empty: a cup of coffee.'),
    Parameter('photo_width', 0.3, 'Width of the photo in metres.', minimum=0.001, maximum=100.0),
    Parameter('width', 640, 'Width of the images in pixels.', minimum=32, maximum=4096),
    Parameter('height', 480, 'Height of the images in pixels.', minimum=32, maximum=4096),
    Parameter('rate', 5.0, 'Images per second.', minimum=0.1, maximum=120.0),
    Parameter('noise', 6.0, 'Sensor noise in grey values.', minimum=0.0, maximum=100.0),
    Parameter(
        'light_change',
        0.35,
        'How much the light changes.',
        minimum=0.0,
        maximum=0.9,
    ),
    Parameter('seed', 0, 'Seed of the noise.', minimum=0, maximum=2**31 - 1),
    Parameter('frame_id', 'virtual_camera_optical_frame', 'frame_id of the images.'),
)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Return the settings that are fixed once the networks are loaded."""
    chosen = {field.name: values[field.name] for field in fields(Settings)}
    names = (name.strip() for name in chosen['extra_strategies'].split(','))
    return Settings(**chosen | {'extra_strategies': tuple(filter(None, names))})


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Return the values of the parameters that mean these settings."""
    return asdict(settings) | {'extra_strategies': ','.join(settings.extra_strategies)}


def options_of(values: Mapping[str, Any]) -> Options:
    """Return the matching options, which may change from one image to the next."""
    limits = (
        'score_threshold',
        'reprojection_error',
        'min_confidence',
        'min_inliers',
        'min_inlier_ratio',
        'min_coverage',
    )
    return Options(
        limits=Limits(**{name: values[name] for name in limits}),
        weighting=Weighting(
            kind=values['weighting'],
            range=values['weight_range'] if values['weight_range'] >= 0 else None,
            source=values['heat_source'],
            aggregation=values['heat_aggregation'],
            stage=values['weight_stage'],
        ),
        pairing=Pairing(
            by=values['pairing'], most=values['max_pairs'], floor=values['pairing_floor']
        ),
        keypoint_search=values['keypoint_search'],
        drawing_search=values['drawing_search'],
        wanted=values['wanted'],
        max_instances=values['max_instances'],
    )


def stream_options_of(values: Mapping[str, Any]) -> StreamOptions:
    """Return the options of a camera stream, which may change from one image to the next."""
    return StreamOptions(
        matching=options_of(values),
        rotation=values['image_rotation'],
        landmark_mode=values['landmark_mode'],
        tracking=values['tracking'],
        match_interval=values['match_interval'],
        max_latency=values['max_latency'],
        detection_interval=values['detection_interval'],
    )
