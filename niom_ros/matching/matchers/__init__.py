"""Keypoint matchers, each a plug-in."""
