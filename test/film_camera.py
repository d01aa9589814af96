"""A camera of its own process: shows the cup on gravel, to and fro, and notes what it sent.

    python film_camera.py WIDTH HEIGHT RATE FRAMES LOG

LOG gets one line for each frame before it is sent: its stamp in nanoseconds and the number of the
picture, whose truth is that of `film`.
"""

from pathlib import Path
import sys
import time

import rclpy
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import (
    DEMO_PHOTO,
    DEMO_SURROUNDINGS,
    example_photo,
    View,
    VirtualScene,
)

SCENE_RATE = 30.0  # pictures per second of the scene: neighbours are a thirtieth apart


def film(width: int, height: int, frames: int) -> list[View]:
    """Return the pictures that are shown, to and then fro."""
    scene = VirtualScene(
        example_photo(DEMO_PHOTO), example_photo(DEMO_SURROUNDINGS), width, height
    )
    views = [scene.view(number / SCENE_RATE, number) for number in range(frames)]
    return views + views[-2:0:-1]


def main(width: int, height: int, rate: float, frames: int, log: Path) -> None:
    """Show the film until the process is ended."""
    rclpy.init()
    node = rclpy.create_node('film_camera')
    publisher = node.create_publisher(Image, 'image', QoSProfile(depth=1))
    header = Header(frame_id='camera_optical_frame')
    messages = [rgb_to_message(view.image, header) for view in film(width, height, frames)]
    number = 0
    due = time.monotonic()
    with log.open('a', buffering=1) as sent:
        while rclpy.ok():
            message = messages[number % len(messages)]
            message.header.stamp = node.get_clock().now().to_msg()
            stamp = message.header.stamp
            sent.write(f'{stamp.sec * 10**9 + stamp.nanosec} {number % len(messages)}\n')
            publisher.publish(message)
            number += 1
            # Late once, it does not hurry afterwards: a camera does not catch up either.
            due = max(due + 1 / rate, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == '__main__':
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
        Path(sys.argv[5]),
    )
