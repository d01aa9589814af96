"""The niom command."""
