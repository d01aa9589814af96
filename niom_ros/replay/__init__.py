"""The matcher at work on recordings, without ROS."""
