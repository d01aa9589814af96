"""Keypoint extractors, each a plug-in."""
