"""Match a reference with an image. Nothing here depends on ROS."""
