"""Start the matcher, and with it RViz or a demo camera if wanted."""

from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration
from launch.substitutions import PathJoinSubstitution
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
            description='Camera topic, sensor_msgs/Image.',
        ),
        DeclareLaunchArgument(
            'params_file',
            default_value=PathJoinSubstitution([share, 'config', 'matcher.yaml']),
            description='Parameters of the matcher.',
        ),
        DeclareLaunchArgument(
            'rviz',
            default_value='false',
            choices=['true', 'false'],
            description='Show the debug image in RViz.',
        ),
        DeclareLaunchArgument(
            'demo',
            default_value='false',
            choices=['true', 'false'],
            description='Start a virtual camera that publishes on image_topic.',
        ),
    ]
    image = [('image', LaunchConfiguration('image_topic'))]
    matcher = Node(
        package='niom_ros',
        executable='matcher_node',
        name='matcher',
        parameters=[LaunchConfiguration('params_file')],
        remappings=image,
        output='screen',
    )
    virtual_camera = Node(
        package='niom_ros',
        executable='virtual_camera',
        name='virtual_camera',
        parameters=[PathJoinSubstitution([share, 'config', 'virtual_camera.yaml'])],
        remappings=image,
        output='screen',
        condition=IfCondition(LaunchConfiguration('demo')),
    )
    rviz = Node(
        package='rviz2',
        executable='rviz2',
        arguments=['-d', PathJoinSubstitution([share, 'rviz', 'matcher.rviz'])],
        condition=IfCondition(LaunchConfiguration('rviz')),
    )
    return LaunchDescription([*arguments, matcher, virtual_camera, rviz])
