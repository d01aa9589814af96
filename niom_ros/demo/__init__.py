"""The demo: a matcher node finds a sketch in the images of a virtual camera."""
