"""What matches keypoints, each a plug-in."""
