"""The parameters of the nodes: type, default, description and range in one table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange
from rcl_interfaces.msg import IntegerRange
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node

from niom_ros.matching.geometry import Limits
from niom_ros.matching.settings import DEVICES
from niom_ros.matching.settings import EXTRACTORS
from niom_ros.matching.settings import Settings
from niom_ros.matching.settings import SettingsError


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node."""

    name: str
    default: bool | int | float | str
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False  # may change while the node runs

    def descriptor(self) -> ParameterDescriptor:
        """Return what `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(
            name=self.name, description=self.description, read_only=not self.live
        )
        if self.choices:
            descriptor.additional_constraints = f'one of: {", ".join(self.choices)}'
        if self.minimum is not None and self.maximum is not None:
            if isinstance(self.default, int):
                bounds = IntegerRange(from_value=int(self.minimum), to_value=int(self.maximum))
                descriptor.integer_range = [bounds]
            else:
                bounds = FloatingPointRange(from_value=self.minimum, to_value=self.maximum)
                descriptor.floating_point_range = [bounds]
        return descriptor

    def problem_with(self, value: Any) -> str:
        """Return why a value is refused, or '' if it is fine."""
        if self.choices and value not in self.choices:
            return f"{self.name} is '{value}': use one of {', '.join(self.choices)}"
        return ''


MATCHER_PARAMETERS = (
    Parameter(
        'extractor',
        Settings.extractor,
        'Network that finds keypoints.',
        choices=EXTRACTORS,
    ),
    Parameter(
        'device',
        Settings.device,
        'Where the networks run; auto takes a CUDA GPU if there is one.',
        choices=DEVICES,
    ),
    Parameter(
        'threads',
        0,
        'CPU threads of the networks; 0 leaves one core to the rest of the robot.',
        minimum=0,
        maximum=256,
    ),
    Parameter(
        'max_keypoints',
        Settings.max_keypoints,
        'Most keypoints taken from each image; fewer is faster, more is surer.',
        minimum=64,
        maximum=8192,
    ),
    Parameter(
        'max_image_side',
        Settings.max_image_side,
        'Images are shrunk to this many pixels on their longer side before keypoints are sought.',
        minimum=64,
        maximum=4096,
    ),
    Parameter(
        'reference_path',
        '',
        'Image file to look for from the start; empty: wait for ~/set_reference.',
    ),
    Parameter(
        'reliable_image',
        False,
        'Ask the camera for reliable delivery; a best-effort camera then does not connect.',
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
        'min_inliers',
        Limits.min_inliers,
        'Agreeing matches that are needed to say OK; unrelated pictures reach a few.',
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
    Parameter(
        'debug_image_width',
        1280,
        'Widest debug image in pixels.',
        minimum=64,
        maximum=7680,
        live=True,
    ),
)

VIRTUAL_CAMERA_PARAMETERS = (
    Parameter('photo_path', '', 'Photo that lies in the scene; empty: a cup of coffee.'),
    Parameter('width', 640, 'Width of the images in pixels.', minimum=32, maximum=4096),
    Parameter('height', 480, 'Height of the images in pixels.', minimum=32, maximum=4096),
    Parameter('rate', 5.0, 'Images per second.', minimum=0.1, maximum=120.0),
    Parameter('noise', 6.0, 'Sensor noise in grey values.', minimum=0.0, maximum=100.0),
    Parameter('light_change', 0.35, 'How far the light swings.', minimum=0.0, maximum=0.9),
    Parameter('seed', 0, 'Seed of the noise.', minimum=0, maximum=2**31 - 1),
    Parameter('frame_id', 'virtual_camera_optical_frame', 'frame_id of the images.'),
)


def declare(node: Node, table: Iterable[Parameter]) -> None:
    """Declare all parameters of a table, refusing values that it does not allow."""
    for parameter in table:
        try:
            value = node.declare_parameter(
                parameter.name, parameter.default, parameter.descriptor()
            ).value
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise SettingsError(str(error)) from None
        problem = parameter.problem_with(value)
        if problem:
            raise SettingsError(f'parameter {problem}')


def read(node: Node, table: Iterable[Parameter]) -> dict[str, Any]:
    """Return the present value of every parameter of a table."""
    return {parameter.name: node.get_parameter(parameter.name).value for parameter in table}
