"""Start one matcher for each of several cameras, each in a namespace of its own."""

from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from rclpy.validate_namespace import validate_namespace

from launch import LaunchDescription

# Name, default and description; other arguments are those of matcher.launch.py.
ARGUMENTS = (
    (
        'cameras',
        'left,right',
        'Camera names, separated by commas; each is used as a namespace.',
    ),
    ('image_topic', 'image_raw', 'Image topic in each namespace, sensor_msgs/Image.'),
    (
        'camera_info_topic',
        'camera_info',
        'Calibration topic in each namespace, sensor_msgs/CameraInfo.',
    ),
)


def generate_launch_description():
    """Describe what `ros2 launch niom_ros several_cameras.launch.py` starts."""
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=start_matchers)])


def start_matchers(context):
    """Include the launch file of the matcher once for each camera."""
    names = camera_names(LaunchConfiguration('cameras').perform(context))
    share = FindPackageShare('niom_ros')
    matcher = PathJoinSubstitution([share, 'launch', 'matcher.launch.py'])
    # A group for each, so that no argument of one camera reaches the next. All other arguments,
    # such as params_file and demo, are passed on as given.
    return [
        GroupAction(
            [
                IncludeLaunchDescription(
                    PythonLaunchDescriptionSource(matcher),
                    launch_arguments={'namespace': name}.items(),
                )
            ]
        )
        for name in names
    ]


def camera_names(cameras):
    """Split 'left,right' and refuse names that cannot be namespaces."""
    names = [name.strip() for name in cameras.split(',')]
    if '' in names or len(set(names)) < len(names):
        raise ValueError(f"cameras:='{cameras}' has an empty or a repeated name")
    for name in names:
        validate_namespace(f'/{name}')
    return names
