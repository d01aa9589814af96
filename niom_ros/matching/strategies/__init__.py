"""The ways to find a reference in an image, one in each file; core/plugins.py names them."""
