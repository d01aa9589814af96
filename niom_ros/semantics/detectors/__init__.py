"""Object detectors, each a plug-in."""
