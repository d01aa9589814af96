"""The ROS 2 nodes: they convert, schedule and publish; the work is done in niom_ros.matching."""
