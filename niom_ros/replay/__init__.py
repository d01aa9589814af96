"""Finding references in recordings, without ROS."""
