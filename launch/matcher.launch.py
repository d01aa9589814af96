"""Start the matcher, and RViz or a demo camera on request."""

import os

from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.conditions import IfCondition
from launch.event_handlers import OnProcessExit
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

SHARE = FindPackageShare('niom_ros')
SWITCH = ['true', 'false']
# Variables that name a profile of Fast DDS; ours is set in the first one.
PROFILE_VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')

# Name, default, choices (None: any text) and description.
ARGUMENTS = (
    (
        'image_topic',
        '/camera/image_raw',
        None,
        'Image topic, sensor_msgs/Image; relative names are in the namespace.',
    ),
    (
        'camera_info_topic',
        '/camera/camera_info',
        None,
        'Calibration topic, sensor_msgs/CameraInfo; resolved in the same way.',
    ),
    ('namespace', '', None, 'Namespace of all nodes.'),
    (
        'params_file',
        PathJoinSubstitution([SHARE, 'config', 'matcher.yaml']),
        None,
        'Parameter file of the matcher.',
    ),
    ('use_sim_time', 'false', SWITCH, 'Use the time of /clock; overrides the parameter file.'),
    (
        'log_level',
        'info',
        ['debug', 'info', 'warn', 'error', 'fatal'],
        'Lowest severity that the matcher and the demo camera log.',
    ),
    (
        'respawn',
        'true',
        SWITCH,
        'Restart the matcher 5 s after it has ended, unless its settings are wrong.',
    ),
    ('rviz', 'false', SWITCH, 'Start RViz with the pictures of the matcher.'),
    (
        'camera_frame',
        'virtual_camera_optical_frame',
        None,
        'Fixed frame of RViz: the frame_id of the camera.',
    ),
    ('demo', 'false', SWITCH, 'Start a virtual camera that publishes on these topics.'),
)


def use_large_images(context):
    """Have Fast DDS deliver large images, unless the user has a profile."""
    ours = PathJoinSubstitution([SHARE, 'config', 'fastdds_large_images.xml']).perform(context)
    given = {
        context.environment[name] for name in PROFILE_VARIABLES if name in context.environment
    }
    if given == {ours}:  # set by this file, for another camera
        return []
    if given:
        return [LogInfo(msg=f'Fast DDS uses your profile {", ".join(sorted(given))}')]
    return [
        SetEnvironmentVariable(PROFILE_VARIABLES[0], ours),
        LogInfo(
            msg=f'Fast DDS uses the profile {ours}, for large images; your camera driver needs it '
            f'too, and the variable {PROFILE_VARIABLES[0]} names another one'
        ),
    ]


def end_if_settings_are_wrong(event, context):
    """End everything if the matcher cannot start, instead of starting it again for ever."""
    if event.returncode != os.EX_CONFIG:
        return []
    return [
        Shutdown(reason='the matcher cannot start with these settings; its last message says why')
    ]


def generate_launch_description():
    """Describe what `ros2 launch niom_ros matcher.launch.py` starts."""
    arguments = [
        DeclareLaunchArgument(
            name, default_value=default, choices=choices, description=description
        )
        for name, default, choices, description in ARGUMENTS
    ]
    namespace = LaunchConfiguration('namespace')
    topics = [
        ('image', LaunchConfiguration('image_topic')),
        ('camera_info', LaunchConfiguration('camera_info_topic')),
    ]
    clock = {'use_sim_time': LaunchConfiguration('use_sim_time')}
    # At level debug, these libraries log every call and bury everything else.
    levels = [LaunchConfiguration('log_level'), 'rcl:=warn', 'rmw_fastrtps_cpp:=warn']
    log_level = [word for level in levels for word in ('--log-level', level)]
    # A plain Node, because nothing here drives the lifecycle: the matcher starts itself.
    matcher = Node(
        package='niom_ros',
        executable='matcher_node',
        name='matcher',
        namespace=namespace,
        parameters=[clock],
        remappings=topics,
        # If it were in `parameters`, a missing file would only cause a warning.
        ros_arguments=['--params-file', LaunchConfiguration('params_file'), *log_level],
        respawn=LaunchConfiguration('respawn'),
        respawn_delay=5.0,
        output='screen',
    )
    virtual_camera = Node(
        package='niom_ros',
        executable='virtual_camera',
        name='virtual_camera',
        namespace=namespace,
        parameters=[PathJoinSubstitution([SHARE, 'config', 'virtual_camera.yaml']), clock],
        remappings=topics,
        ros_arguments=log_level,
        output='screen',
        condition=IfCondition(LaunchConfiguration('demo')),
    )
    rviz = Node(
        package='rviz2',
        executable='rviz2',
        namespace=namespace,
        arguments=[
            '-d',
            PathJoinSubstitution([SHARE, 'rviz', 'matcher.rviz']),
            '-f',
            LaunchConfiguration('camera_frame'),
        ],
        parameters=[clock],
        condition=IfCondition(LaunchConfiguration('rviz')),
    )
    profile = OpaqueFunction(function=use_large_images)
    watch = RegisterEventHandler(
        OnProcessExit(target_action=matcher, on_exit=end_if_settings_are_wrong)
    )
    return LaunchDescription([*arguments, profile, watch, matcher, virtual_camera, rviz])
