"""From an answer to the fields of ROS messages, without needing ROS."""
