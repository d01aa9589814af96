"""Builds the environment in which everything runs on a machine without ROS."""
