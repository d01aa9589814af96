"""From an answer to the fields of ROS messages, without ROS itself."""
