"""Find in a live camera what a sketch, blueprint or photo shows, point by point."""

from pkgutil import extend_path

# The generated messages live in another folder of the same name; this joins the two.
__path__ = extend_path(__path__, __name__)
