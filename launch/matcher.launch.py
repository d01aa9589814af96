"""Start the matcher, and RViz or a demo camera on request."""

from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def generate_launch_description():
    """Describe what `ros2 launch niom_ros matcher.launch.py` starts."""
    share = FindPackageShare('niom_ros')
    arguments = [
        DeclareLaunchArgument(
            'image_topic',
            default_value='/camera/image_raw',
            description='Image topic, sensor_msgs/Image; relative names are in the namespace.',
        ),
        DeclareLaunchArgument(
            'camera_info_topic',
            default_value='/camera/camera_info',
            description='Calibration topic, sensor_msgs/CameraInfo; resolved in the same way.',
        ),
        DeclareLaunchArgument(
            'namespace',
            default_value='',
            description='Namespace of all nodes.',
        ),
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'matcher.yaml']),
            description='Parameter file of the matcher.',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='false',
            choices=['true', 'false'],
            description='Use the time of /clock; overrides the parameter file.',
        ),
        DeclareLaunchArgument(
            'log_level',
            default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='Lowest severity that the matcher and the demo camera log.',
        ),
        DeclareLaunchArgument(
            'respawn',
            default_value='true',
            choices=['true', 'false'],
            description='Restart the matcher 5 s after it has ended.',
        ),
        DeclareLaunchArgument(
            'rviz',
            default_value='false',
            choices=['true', 'false'],
            description='Start RViz with the pictures of the matcher.',
        ),
        DeclareLaunchArgument(
            'camera_frame',
            default_value='virtual_camera_optical_frame',
            description='Fixed frame of RViz: the frame_id of the camera.',
        ),
        DeclareLaunchArgument(
            'demo',
            default_value='false',
            choices=['true', 'false'],
            description='Start a virtual camera that publishes on these topics.',
        ),
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
        parameters=[PathJoinSubstitution([share, 'config', 'virtual_camera.yaml']), clock],
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
            PathJoinSubstitution([share, 'rviz', 'matcher.rviz']),
            '-f',
            LaunchConfiguration('camera_frame'),
        ],
        parameters=[clock],
        condition=IfCondition(LaunchConfiguration('rviz')),
    )
    return LaunchDescription([*arguments, matcher, virtual_camera, rviz])
