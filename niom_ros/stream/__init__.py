"""The stream of a camera: when to match, follow and forget; pose and landmarks of an answer."""
