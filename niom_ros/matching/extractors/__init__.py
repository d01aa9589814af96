"""Networks that find keypoints, each a plug-in."""
