"""Match a reference with an image: everything here knows nothing of ROS."""
