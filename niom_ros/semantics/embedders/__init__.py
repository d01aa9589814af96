"""What turns labels into vectors, each a plug-in."""
