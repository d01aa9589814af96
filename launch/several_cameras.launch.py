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


def generate_launch_description():
    """Describe what `ros2 launch niom_ros several_cameras.launch.py` starts."""
    arguments = [
        DeclareLaunchArgument(
            'cameras',
            default_value='left,right',
            description='Names of the cameras, with commas between; each becomes a namespace.',
        ),
        DeclareLaunchArgument(
            'image_topic',
            default_value='image_raw',
            description='Camera topic in each namespace, sensor_msgs/Image.',
        ),
        DeclareLaunchArgument(
            'camera_info_topic',
            default_value='camera_info',
            description='Topic of its calibration, sensor_msgs/CameraInfo.',
        ),
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=start_matchers)])


def start_matchers(context):
    """Include the launch file of the matcher once for each camera."""
    names = camera_names(LaunchConfiguration('cameras').perform(context))
    share = FindPackageShare('niom_ros')
    matcher = PathJoinSubstitution([share, 'launch', 'matcher.launch.py'])
    # In a group of its own, so that no argument of one camera reaches the next. All that is
    # not set here is handed on as it was given, for example params_file and demo.
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
    """Split 'left,right' and refuse what cannot be a namespace for each."""
    names = [name.strip() for name in cameras.split(',')]
    if '' in names or len(set(names)) < len(names):
        raise ValueError(f"cameras:='{cameras}' has an empty name in it, or one twice")
    for name in names:
        validate_namespace(f'/{name}')
    return names
