"""The ways to find a reference in an image, one in each file; registry.py names them."""
